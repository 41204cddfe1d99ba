//! `soft-hca doctor`: whether all this can work here, and what to do if not.
//!
//! With a program: whether that has found the device, and why not.
//!
//! | file | what |
//! | --- | --- |
//! | `libraries`, `peers` | what has to be in place on this machine |
//! | `program` | runs a program |
//! | `trace` | sees each program that this starts |
//! | `image` | what `/proc` tells of one |
//! | `verbs` | what the file of a libibverbs tells |
//! | `judgement` | what follows from that |

mod finding;
mod image;
mod judgement;
mod libraries;
mod peers;
mod program;
mod trace;
mod verbs;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub(super) use libraries::is_for_this_machine;
use libraries::try_library;
use peers::peers;
pub use peers::{PEER_SUBCOMMAND, peer};
pub use program::{START_SUBCOMMAND, UNUSED, own_fabric, program, start};

use soft_hca_core::config;
use soft_hca_core::device_spec::DEFAULT_DEVICE;
use soft_hca_core::system;
use soft_hca_daemon::device::{Device, GidTable};

use super::rdma_core::{Bug, Version};
use super::{Error, fabric, preload, print};

use finding::Finding::{self, Good, Problem, Warning};

/// Prints a line for each thing that has to be in place; whether programs can run.
pub fn doctor() -> Result<bool, Error> {
    let mut findings = vec![
        ("verbs library", verbs_library()),
        ("rxe provider", rxe_provider()),
        ("connection manager", cm_library()),
        ("preloaded library", preloaded()),
        ("runtime folder", runtime_folder()),
        ("shared memory", shared_memory()),
        ("memory of peers", peers()),
        ("log", log(&config::log_file())),
        ("addresses", addresses(&Device::local(DEFAULT_DEVICE, 0, &[]).ports[0].gids)),
        ("real devices", real_devices(Path::new("/sys/class/infiniband"))),
    ];
    if !findings.iter().any(|(_, finding)| matches!(finding, Problem { .. })) {
        findings.push(("a program in a fabric", whole()));
        findings.extend(bugs().into_iter().map(|finding| ("rdma-core", finding)));
    }
    let can_work = !findings.iter().any(|(_, finding)| matches!(finding, Problem { .. }));
    print(&report(&findings))?;
    Ok(can_work)
}

fn report(findings: &[(&str, Finding)]) -> String {
    let mut text = String::new();
    for (name, finding) in findings {
        let _ = match finding {
            Good(what) => writeln!(text, "ok       {name}: {what}"),
            Warning { what, fix } => writeln!(text, "warning  {name}: {what}; {fix}"),
            Problem { what, fix } => writeln!(text, "problem  {name}: {what}; {fix}"),
        };
    }
    text
}

/// The file of a library that this process has loaded.
fn loaded(name: &str) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps.lines().find_map(|line| {
        line.find('/')
            .map(|at| &line[at..])
            .filter(|path| path.rsplit('/').next().is_some_and(|file| file.starts_with(name)))
    })?;
    Some(path.into())
}

fn verbs_library() -> Finding {
    if !try_library(c"libibverbs.so.1") {
        return Problem {
            what: "libibverbs.so.1 is not found".into(),
            fix: "install it: apt install libibverbs1, dnf install libibverbs".into(),
        };
    }
    let path = loaded("libibverbs.so");
    Good(path.map_or("libibverbs.so.1".into(), |path| path.display().to_string()))
}

/// The providers are in a folder beside the library.
fn rxe_provider() -> Finding {
    let install = "install it: apt install ibverbs-providers, dnf install libibverbs";
    let folder = loaded("libibverbs.so").and_then(|path| Some(path.parent()?.join("libibverbs")));
    let Some(folder) = folder else {
        return Problem { what: "looked for beside libibverbs.so.1".into(), fix: install.into() };
    };
    let files = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_rxe = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("librxe-rdmav"))
    };
    match files.filter(is_rxe).max() {
        Some(path) => Good(path.display().to_string()),
        None => Problem {
            what: format!("no librxe-rdmav*.so in {}", folder.display()),
            fix: install.into(),
        },
    }
}

fn cm_library() -> Finding {
    if try_library(c"librdmacm.so.1") {
        let path = loaded("librdmacm.so");
        return Good(path.map_or("librdmacm.so.1".into(), |path| path.display().to_string()));
    }
    Warning {
        what: "librdmacm.so.1 is not found, which programs with rdma_ calls need".into(),
        fix: "install it: apt install librdmacm1, dnf install librdmacm".into(),
    }
}

fn preloaded() -> Finding {
    let found = preload::library().and_then(|path| {
        preload::check(&path, &config::base_dir())?;
        Ok(path)
    });
    match found {
        Ok(path) if is_for_this_machine(&path) => Good(path.display().to_string()),
        Ok(path) => Problem {
            what: format!("{} is no library for this machine", path.display()),
            fix: "install this machine's package, or build it here: cargo build --release \
                  -p soft-hca-preload"
                .into(),
        },
        Err(error) => Problem { what: "it cannot be preloaded".into(), fix: error.to_string() },
    }
}

fn runtime_folder() -> Finding {
    let fix = "set XDG_RUNTIME_DIR to a folder of your own".to_string();
    let Ok(name) = format!("doctor-{}", std::process::id()).parse() else {
        return Problem { what: "it cannot be named".into(), fix };
    };
    let created = config::fabric_dir(&name).and_then(|dir| {
        config::create_private(&dir)?;
        Ok(dir)
    });
    match created {
        Ok(dir) => {
            fabric::remove(&dir);
            Good(dir.parent().unwrap_or(&dir).display().to_string())
        }
        Err(error) => Problem { what: error.to_string(), fix },
    }
}

fn shared_memory() -> Finding {
    match system::memory_file(c"doctor") {
        Ok(_) => Good("memfd_create".into()),
        Err(error) => Problem {
            what: format!("memfd_create: {error}"),
            fix: "allow the call in the container's seccomp profile".into(),
        },
    }
}

fn addresses(gids: &GidTable) -> Finding {
    let netdev = gids.netdev().unwrap_or_default();
    let what = format!("GID 1 is {} on {netdev}", gids.ipv4());
    if !Path::new("/sys/class/net").join(netdev).exists() && Path::new("/sys/class/net").exists() {
        return Warning {
            what: format!("{what}, which is not there"),
            fix: "set up the loopback interface: ip link set lo up".into(),
        };
    }
    // A datagram socket that is connected needs a route, as programs do that meet by TCP.
    let reached = std::net::UdpSocket::bind((gids.ipv4(), 0))
        .and_then(|socket| socket.connect((gids.ipv4(), 1)));
    if let Err(error) = reached {
        return Warning {
            what: format!("{what}, but programs cannot meet there by TCP: {error}"),
            fix: "set up the loopback interface: ip link set lo up".into(),
        };
    }
    Good(what)
}

/// Where the daemons say what was refused or went wrong, and what they have said last.
fn log(file: &Path) -> Finding {
    let name = file.display();
    match soft_hca_daemon::log::last_line(file) {
        Ok(Some(last)) => Good(format!("{name}, the last line: {last}")),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Warning {
            what: format!("{name} cannot be used: {error}"),
            fix: format!("remove it, or set {} to a file of yours", config::LOG),
        },
        _ => Good(format!("{name} will say what is refused or goes wrong; so far nothing")),
    }
}

/// Devices of the kernel are no hindrance; it is good to know that they are not used.
fn real_devices(class: &Path) -> Finding {
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    if names.is_empty() {
        Good("none".into())
    } else {
        Good(format!("{} of the kernel, hidden from programs in a fabric", names.join(", ")))
    }
}

/// The program that opens the device, with its arguments.
const DEVINFO: [&str; 3] = ["ibv_devinfo", "-d", DEFAULT_DEVICE];

fn has_devinfo() -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(DEVINFO[0]).exists()))
}

/// Runs a program in a fabric of its own.
fn attempt(program: &[&str]) -> io::Result<Output> {
    let name = format!("doctor-{}", std::process::id());
    Command::new(std::env::current_exe()?)
        .args(["run", "--fabric", &name, "--name", DEFAULT_DEVICE, "--"])
        .args(program)
        .stdin(Stdio::null())
        .output()
}

/// A program in a fabric: one that opens the device if there is one.
fn whole() -> Finding {
    let is_there = has_devinfo();
    let program = if is_there { &DEVINFO[..] } else { &["true"] };
    let outcome = attempt(program);
    let words = program.join(" ");
    match outcome {
        Ok(output) if output.status.success() && is_there => {
            Good(format!("`{words}` shows the device"))
        }
        Ok(output) if output.status.success() => {
            Good(format!("`{words}` ends well (ibv_devinfo would say more: not installed)"))
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
            Problem {
                what: format!("`{words}` fails: {}", last.trim()),
                fix: format!(
                    "look closer: {}=debug soft-hca run -- {words}, and then {}",
                    config::LOG_LEVEL,
                    config::log_file().display()
                ),
            }
        }
        Err(error) => Problem { what: error.to_string(), fix: "install soft-hca anew".into() },
    }
}

/// The verbs library that a program gets, which need not be ours: the loader says what it starts.
fn library_of_program() -> Option<PathBuf> {
    if !has_devinfo() {
        return None;
    }
    let output = attempt(&[&["env", "LD_DEBUG=libs"], &DEVINFO[..]].concat()).ok()?;
    initialised(&String::from_utf8_lossy(&output.stderr), "libibverbs.so")
}

/// The library of this name that was started last, from the loader's messages.
fn initialised(messages: &str, name: &str) -> Option<PathBuf> {
    let paths = messages.lines().filter_map(|line| line.split_once("calling init: "));
    let mut paths = paths.map(|(_, path)| Path::new(path.trim_end()));
    let is_it = |path: &&Path| {
        path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
    };
    paths.rfind(is_it).map(Path::to_path_buf)
}

/// A line for each bug of the library that programs get.
fn bugs() -> Vec<Finding> {
    let library = library_of_program().or_else(|| loaded("libibverbs.so"));
    let Some(path) = library.and_then(|path| fs::canonicalize(path).ok()) else {
        return Vec::new();
    };
    let Some(version) = Version::of_library(&path) else {
        return vec![Good(format!("{}, whose version is not known", path.display()))];
    };
    let warning =
        |bug: &Bug| Warning { what: format!("{version}: {}", bug.what), fix: bug.fix(version) };
    let found: Vec<Finding> = version.bugs().map(warning).collect();
    if found.is_empty() {
        vec![Good(format!("{version}: no bug of its rxe provider is known"))]
    } else {
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_each() {
        let findings = [
            ("one", Good("fine".into())),
            ("two", Warning { what: "slow".into(), fix: "wait".into() }),
            ("three", Problem { what: "broken".into(), fix: "mend it".into() }),
        ];
        let expected =
            "ok       one: fine\nwarning  two: slow; wait\nproblem  three: broken; mend it\n";
        assert_eq!(report(&findings), expected);
    }

    #[test]
    fn the_loader_names_what_it_starts() {
        let messages = "\
      7:\tfind library=libibverbs.so.1 [0]; searching
      7:\tcalling init: /lib/libc.so.6
      7:\tcalling init: /my lib/libibverbs.so.1
hca_id: rxe0
      7:\tcalling fini: /lib/libibverbs.so.1 [0]
";
        let found = initialised(messages, "libibverbs.so");
        assert_eq!(found, Some("/my lib/libibverbs.so.1".into()));
        assert_eq!(initialised(messages, "librdmacm.so"), None);
    }
}
