//! Runs on soft-hca, where the machine has no RDMA device: the command `soft-hca`,
//! the network that makes its device like the recorded one, and its listeners.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::private::{self, Network};
use crate::process::Program;

/// The command's file name.
const COMMAND: &str = "soft-hca";
/// Set by the command for the programs of a fabric.
const DIR: &str = "SOFT_HCA_DIR";
/// The fabric's name, for the programs in it.
const FABRIC: &str = "SOFT_HCA_FABRIC";
/// Where the command is, for a harness that was started in a fabric by another.
const PROGRAM: &str = "HARNESS_SOFT_HCA";

/// Is this a program of a fabric?
pub fn is_inside() -> bool {
    std::env::var_os(DIR).is_some_and(|dir| !dir.is_empty())
}

/// Runs this program again in a fabric of its own, in a private network that has an
/// interface like the recorded one; with two hosts, in the server's. `program` is the command, if not the one beside
/// this program, and `devices` are the fabric's, if not one RoCE device. Returns only if that fails.
pub fn enter(
    network: Network,
    program: Option<&Path>,
    devices: &[&str],
    names: &Path,
    arguments: impl IntoIterator<Item = OsString>,
) -> Error {
    let program = program.map_or_else(command, |path| path.as_os_str().to_owned());
    if Path::new(&program).components().count() > 1 && !Path::new(&program).is_file() {
        return Error::Start {
            program: program.to_string_lossy().into_owned(),
            source: io::ErrorKind::NotFound.into(),
        };
    }
    let own = match std::env::current_exe() {
        Ok(own) => own.into_os_string(),
        Err(source) => return Error::Start { program: "the harness".to_owned(), source },
    };
    let fabric = format!("harness-{}", std::process::id());
    let environment =
        [PROGRAM.into(), "=".into(), program.clone()].into_iter().collect::<OsString>();
    let before = ["env".into(), environment, program];
    let link = (network == Network::TwoHosts).then(|| format!("--roce={}", private::ADDRESS));
    let run = ["run".to_owned(), format!("--fabric={fabric}")].into_iter().chain(link);
    let devices = devices.iter().map(|device| format!("--device={device}"));
    let run = run.chain(devices).chain(["--".to_owned()]).map(OsString::from);
    private::enter(network, names, before.into_iter().chain(run).chain([own]).chain(arguments))
}

/// The process ids of all listeners of the connection manager, as `soft-hca ls` shows
/// them.
pub(crate) fn listeners() -> io::Result<Vec<u32>> {
    Ok(listening_pids(&listing(&[])?))
}

/// Lines of `soft-hca ls` for what is in this program's fabric beside itself.
pub(crate) fn left_behind() -> io::Result<Vec<String>> {
    let fabric = std::env::var(FABRIC).unwrap_or_default();
    Ok(objects(&listing(&["--fabric", &fabric])?))
}

/// The address of this program's fabric's link (`soft-hca run --roce`), of IPv4 if it has one.
pub fn link_address() -> Result<IpAddr, Error> {
    let fabric = std::env::var(FABRIC).unwrap_or_default();
    let listing =
        listing(&["--fabric", &fabric]).map_err(|error| Error::Usage(error.to_string()))?;
    let none = || Error::Usage("this program's fabric of soft-hca has no link".to_owned());
    address_of_link(&listing).ok_or_else(none)
}

/// Output of `soft-hca ls`.
fn listing(arguments: &[&str]) -> io::Result<String> {
    let program = command();
    let output = Command::new(&program)
        .arg("ls")
        .args(arguments)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| named(&program, &error.to_string()))?;
    // `soft-hca ls` fails if one of the user's fabrics does not answer, but still lists the others.
    if !output.status.success() && output.stdout.is_empty() {
        return Err(named(&program, String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn objects(listing: &str) -> Vec<String> {
    let lines = listing.lines().map(str::trim_start);
    let is_object =
        |line: &&str| ["process ", "qp ", "cm_id "].iter().any(|begin| line.starts_with(begin));
    lines.filter(is_object).map(str::to_owned).collect()
}

fn named(program: &OsStr, what: &str) -> io::Error {
    io::Error::other(format!("{} ls: {what}", program.to_string_lossy()))
}

/// The command: what the environment says, else beside this program, else on the path.
pub(crate) fn command() -> OsString {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return program;
    }
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.with_file_name(COMMAND);
    if beside.is_file() { beside.into_os_string() } else { COMMAND.into() }
}

/// A program as `soft-hca run` starts it with these options.
pub(crate) fn run(options: &[&str], program: &Program) -> Program {
    let options = std::iter::once("run").chain(options.iter().copied()).chain(["--"]);
    let args = options.map(OsString::from).chain([program.path.clone().into()]);
    Program {
        path: command().into(),
        arg0: None,
        args: args.chain(program.args.iter().cloned()).collect(),
        ends_with_input: false,
    }
}

/// From a line such as `roce always, 192.0.2.1, fe80::1: 5 packets sent, 5 received`.
fn address_of_link(listing: &str) -> Option<IpAddr> {
    let line = listing.lines().find_map(|line| line.trim_start().strip_prefix("roce "))?;
    let (words, _) = line.split_once(": ")?;
    let addresses: Vec<IpAddr> = words.split(", ").filter_map(|word| word.parse().ok()).collect();
    addresses.iter().find(|ip| ip.is_ipv4()).or(addresses.first()).copied()
}

/// From lines such as `cm_id 3 ... state LISTEN ... pid 4711`.
fn listening_pids(listing: &str) -> Vec<u32> {
    let value = |words: &[&str], name: &str| {
        words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1].to_owned())
    };
    let lines = listing.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    lines
        .filter(|words| words.first() == Some(&"cm_id"))
        .filter(|words| value(words, "state").as_deref() == Some("LISTEN"))
        .filter_map(|words| value(&words, "pid")?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_an_address() {
        let of = |link: &str| address_of_link(&format!("fabric a dir /a\n  {link}\n  process\n"));
        let ip = |text: &str| Some(text.parse().unwrap());
        let counts = "5 packets sent, 5 received";
        let both = of(&format!("roce always, fd00::1, 192.0.2.1, fe80::1: {counts}"));
        assert_eq!(both, ip("192.0.2.1"));
        assert_eq!(of(&format!("roce fd00::1, fe80::1: {counts}")), ip("fd00::1"));
        assert_eq!(of("faults"), None);
    }

    #[test]
    fn listeners_are_told_from_the_rest() {
        let listing = "fabric default dir /run/soft-hca/default\n\
            \x20 process pid 10 comm server\n\
            \x20 qp lqpn 17 type RC state RTS rqpn 18 pid 10\n\
            \x20 cm_id 0 ps TCP state LISTEN src 10.9.0.1:12345 pid 11\n\
            \x20 cm_id 1 lqpn 17 ps TCP state CONNECT src 10.9.0.1:1 pid 12\n\
            \x20 cm_id 2 state LISTEN pid\n";
        assert_eq!(listening_pids(listing), [11]);
        assert_eq!(objects(listing).len(), 5);
        assert!(objects("fabric a dir /a\n  run pid 3 comm harness\n").is_empty());
        assert!(listening_pids("no fabric runs: `soft-hca run -- CMD` starts one\n").is_empty());
    }
}
