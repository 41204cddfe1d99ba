//! `soft-hca doctor -- CMD`: whether a program has found the device, by which libibverbs, and why not.
//!
//! See `stock.rs` about programs that are not installed; the packages are ibverbs-utils and libibverbs-dev.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use programs::brought_along::{copy_rdma_core, renamed_library, replaced, system_library};
use programs::place::Place;
use programs::{LIMIT, assert_has, comes_about, compile, installed};
use soft_hca_core::provider;

const LOADED_SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hook/loaded.c");

/// The page that says which releases have which private ABI.
const PAGE: &str = include_str!("../docs/programs.md");

/// The exit status of a program that ends well and has not found the device.
const UNUSED: i32 = 67;

/// Runs `soft-hca doctor` with words. Gives its exit status, and what it and the program say on standard error.
fn doctor(
    place: &Place,
    words: &[&str],
    by: impl FnOnce(&mut Command) -> &mut Command,
) -> (i32, String) {
    let mut command = place.command(&["doctor"]);
    let file = place.file("stderr");
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = by(&mut command).stderr(fs::File::create(&file).unwrap()).spawn().unwrap();
    if !comes_about(LIMIT, || child.try_wait().unwrap().is_some()) {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let text = fs::read_to_string(file).unwrap();
    place.assert_gone();
    (status.code().unwrap_or_else(|| panic!("{words:?}: {status}\n{text}")), text)
}

/// The same of a program in a fabric of its own, and what has to be said.
fn expect(name: &str, program: &[&str], status: i32, expected: &[&str]) {
    let place = Place::new(&format!("doctor-{name}"));
    let (ended, text) = doctor(&place, &[&["--"], program].concat(), |command| command);
    assert_has(&text, expected);
    assert_eq!(ended, status, "{text}");
}

#[test]
fn the_systems_library() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let library = fs::canonicalize(system_library()).unwrap();
    let found = [
        "ibv_devinfo -d rxe0 (process ",
        &format!("ok       libibverbs: {} (libibverbs.so.1, rdma-core ", library.display()),
        ", private ABI ",
        "ok       preloaded library: is in it\n",
        "ok       provider: /",
        "ok       device: opened: /dev/infiniband/uverbs0",
        "ok       /sys: is in /",
        "ok       locked memory: ",
        "ok       verdict: the device was found by each process with a libibverbs: 1\n",
    ];
    expect("system", &["ibv_devinfo", "-d", "rxe0"], 0, &found);
    let listed = ["ok       device: found, not opened\n", "ok       verdict: "];
    expect("listed", &["ibv_devices"], 0, &listed);
}

#[test]
fn the_programs_own_status() {
    expect(
        "status",
        &["sh", "-c", "exit 5"],
        5,
        &["problem  verdict: the program has not loaded libibverbs; "],
    );
    let killed = "problem  verdict: the program has not loaded libibverbs; ";
    expect("signal", &["sh", "-c", "kill -KILL $$"], 128 + 9, &[killed]);
    expect("nothing", &["no-such-program"], 127, &["cannot run no-such-program: No such file"]);
}

#[test]
fn a_program_that_never_loads_it() {
    let said =
        "problem  verdict: the program has not loaded libibverbs; if it has an option for RDMA";
    expect("never", &["true"], UNUSED, &[said]);
}

/// Both are named, the second of which gets the device's name wrong.
#[test]
fn a_script_that_runs_two_programs() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let script = "ibv_devices; ibv_devinfo -d rxe7; true";
    let said = [
        "ibv_devices (process ",
        "device: found, not opened\n",
        "ibv_devinfo -d rxe7 (process ",
        "ok       verdict: the device was found by each process with a libibverbs: 2\n",
    ];
    expect("script", &["sh", "-c", script], 0, &said);
}

/// Its child stops itself and is continued, which its parent sees as it does without anybody who looks.
const STOPS: &str = "
import os, signal
child = os.fork()
if not child:
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(3)
assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
os.kill(child, signal.SIGCONT)
assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 3
";

#[test]
fn a_child_that_stops() {
    if installed(&["python3"]) {
        // Some have a script that looks for the interpreter.
        let said =
            ["problem  verdict: none of ", " programs has loaded libibverbs; if it has an option"];
        expect("stops", &["python3", "-c", STOPS], UNUSED, &said);
    }
}

/// A child that outlives the program goes on by itself.
#[test]
fn a_program_that_is_left_behind() {
    let place = Place::new("doctor-behind");
    let file = place.file("written");
    let script = format!("(read -r line <fifo; echo $line >{}) & :", file.display());
    assert!(Command::new("mkfifo").arg(place.file("fifo")).status().unwrap().success());
    let (status, text) = doctor(&place, &["--", "sh", "-c", &script], |command| command);
    assert_eq!(status, UNUSED, "{text}");
    fs::write(place.file("fifo"), "on\n").unwrap();
    assert!(comes_about(LIMIT, || fs::read_to_string(&file).is_ok_and(|text| text == "on\n")));
}

#[test]
fn a_static_program() {
    let place = Place::new("doctor-static");
    if !installed(&["cc"]) {
        return;
    }
    let [source, program] = ["static.c", "static"].map(|name| place.file(name));
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let compiled = Command::new("cc").arg("-static").arg("-o").args([&program, &source]).status();
    assert!(compiled.unwrap().success());
    let (status, text) = doctor(&place, &["--", program.to_str().unwrap()], |command| command);
    let said =
        "problem  verdict: the program has not loaded libibverbs; nothing could be preloaded into ";
    assert_has(&text, &[said, "/static: it is linked statically\n"]);
    assert_eq!(status, UNUSED, "{text}");
}

#[test]
fn what_takes_the_library_away() {
    if !installed(&["ibv_devices"]) {
        return;
    }
    let env = fs::canonicalize("/usr/bin/env").unwrap();
    let said = format!(
        "problem  preloaded library: is not in it: {} has taken LD_PRELOAD out of its environment; ",
        env.display()
    );
    let verdict = "problem  verdict: no process has found the device; 1 with a libibverbs; ";
    let line = ["env", "-u", "LD_PRELOAD", "ibv_devices"];
    expect("removed", &line, UNUSED, &[&said, verdict]);
    // Its child loses nothing more.
    let line = ["env", "-u", "LD_PRELOAD", "sh", "-c", "ibv_devices; true"];
    expect("removed-before", &line, UNUSED, &[&said, verdict]);
    let said = ["problem  device: SOFT_HCA_DIR is not in its environment as it was set; "];
    expect("unset", &["env", "-u", "SOFT_HCA_DIR", "ibv_devices"], UNUSED, &said);
    let said = ["problem  /sys: SYSFS_PATH is /sys; ", verdict];
    expect("sysfs", &["env", "SYSFS_PATH=/sys", "sh", "-c", "ibv_devices; true"], UNUSED, &said);
}

/// Loads a libibverbs, and has the doctor look. Without a device the program fails.
fn loads(place: &Place, library: &Path, environment: &[(&str, &str)]) -> Option<String> {
    let program = compile(place, LOADED_SOURCE, &["dl", "pthread"])?;
    let words = ["--", &program, library.to_str().unwrap(), "plain"];
    let (_, text) = doctor(place, &words, |command| command.envs(environment.iter().copied()));
    Some(text)
}

#[test]
fn a_library_of_the_programs_own() {
    let place = Place::new("doctor-own");
    let library = renamed_library(&place);
    let Some(text) = loads(&place, &library, &[]) else { return };
    let said = [
        &format!("ok       libibverbs: {} (libibver-9.so.1, ", library.display()),
        "), brought along by the program\n",
        ", needed by the provider\n",
        "ok       provider: /usr/",
        "ok       device: opened: /dev/infiniband/uverbs0",
        "ok       verdict: the device was found by each process with a libibverbs: 2\n",
    ];
    assert_has(&text, &said);
    let Some(text) = loads(&place, &library, &[("RDMAV_DRIVERS", "mlx5")]) else { return };
    assert_has(
        &text,
        &["problem  provider: RDMAV_DRIVERS is mlx5; ", "problem  device: looked for, not found; "],
    );
}

/// As of another release, whose providers have another number in their names.
#[test]
fn a_library_that_no_provider_fits() {
    let place = Place::new("doctor-abi");
    let [library, _] = copy_rdma_core(&place);
    let bytes = fs::read(&library).unwrap();
    let name = b"IBVERBS_PRIVATE_";
    let at = bytes.windows(name.len()).position(|bytes| bytes == name).unwrap() + name.len();
    let abi = std::str::from_utf8(&bytes[at..at + 2]).unwrap();
    let [version, suffix] =
        ["IBVERBS_PRIVATE_", "-rdmav"].map(|text| [format!("{text}{abi}"), format!("{text}11")]);
    let texts =
        [[&version[0], &version[1]], [&suffix[0], &suffix[1]]].map(|[from, to]| (&**from, &**to));
    fs::write(&library, replaced(bytes.clone(), &texts)).unwrap();
    let Some(text) = loads(&place, &library, &[]) else { return };
    let said = [
        "private ABI 11), brought along by the program\n",
        &format!(
            "problem  provider: the library's private ABI is 11, the system's provider has {abi}: \
             librxe-rdmav11.so is missing; "
        ),
        "problem  verdict: no process has found the device; ",
    ];
    assert_has(&text, &said);
}

#[test]
fn releases_of_private_abis() {
    let (_, table) = PAGE.split_once("| private ABI | rdma-core | in Debian |\n").unwrap();
    let rows: Vec<&str> = table.lines().skip(1).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 1);
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(provider::releases(cells[1].parse().unwrap()), Some(cells[2]), "{row}");
    }
}

/// In a fabric that is there, which stays, with what else `run` can be told.
#[test]
fn a_fabric_that_runs() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let place = Place::with("doctor-fabric", Vec::new(), vec!["--device".into(), "rxe3".into()]);
    let keeper = place.keep();
    let words = ["doctor", "--fabric", place.fabric_name(), "--", "ibv_devinfo", "-d", "rxe3"];
    let output = place.command(&words).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    assert_has(&text, &["ok       device: opened: "]);
    assert!(!place.fabric().join("notes").exists());
    place.end(keeper);
}
