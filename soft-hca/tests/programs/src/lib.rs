//! Programs of the distribution in a fabric of their own, for the tests of the command.
#![allow(clippy::unwrap_used, reason = "what fails here fails its test")]

pub mod arena;
pub mod brought_along;
pub mod bystanders;
pub mod capture;
pub mod cmtime;
pub mod filter;
pub mod forger;
pub mod guest;
pub mod hosts;
pub mod locked;
pub mod machine;
pub mod mpi;
pub mod perftest;
pub mod place;
pub mod program;
pub mod random;
pub mod rping;
pub mod signal;
pub mod tcp;
pub mod traffic;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;

pub use needs::{missing, skipped};

use crate::place::Place;
use soft_hca_core::config;
use soft_hca_core::provider::MULTIARCH;

/// How long anything may take. A machine with much else to do needs some of it.
pub const LIMIT: Duration = Duration::from_secs(120);

/// An address that every machine has.
pub const LOCALHOST: &str = "127.0.0.1";

/// Whether what is expected comes about within a time.
pub fn comes_about(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The turn of a test that starts programs which poll without end: more of them than processors hold each other up.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "the lock is the file's")] File);

/// Waits for the turn. `./check` runs the tests' program several times at once, so its own file is what is locked.
pub fn the_processors() -> Turn {
    let file = File::open(std::env::current_exe().unwrap()).unwrap();
    retry_on_intr(|| flock(&file, FlockOperation::LockExclusive)).unwrap();
    Turn(file)
}

/// Whether the long runs are wanted.
pub fn is_long() -> bool {
    std::env::var_os("SOFT_HCA_LONG").is_some_and(|value| value == "1")
}

/// A folder with the programs of another release (`conformance/newer` makes one), if they are to
/// be tested instead of those that are installed.
pub fn other_programs() -> Option<PathBuf> {
    std::env::var_os("SOFT_HCA_PROGRAMS").map(PathBuf::from)
}

/// The release of rdma-core that the programs to be tested belong to, such as 56.1: the last two numbers in the name of
/// its library's file.
pub fn release() -> (u32, u32) {
    let root = other_programs().map_or("/".into(), |dir| dir.join("root"));
    let of_architecture = format!("usr/lib/{MULTIARCH}");
    let library = [&*of_architecture, "usr/lib64"]
        .map(|folder| fs::canonicalize(root.join(folder).join("libibverbs.so.1")))
        .into_iter()
        .find_map(Result::ok)
        .unwrap();
    let name = library.file_name().unwrap().to_str().unwrap();
    let mut numbers = name.rsplit('.').map(|number| number.parse().unwrap());
    let minor = numbers.next().unwrap();
    (numbers.next().unwrap(), minor)
}

/// Whether all these programs are installed. If not, the test is skipped, or fails if the environment says so
/// ([`missing`]).
pub fn installed(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = match other_programs() {
        Some(dir) => vec![dir],
        None => std::env::split_paths(&path).collect::<Vec<_>>(),
    };
    let is_there = |program: &str| dirs.iter().any(|dir| dir.join(program).is_file());
    programs.iter().all(|program| is_there(program) || lacks(program, package(program)))
}

/// Whether UCX is installed, and [has verbs](ucx_has_verbs).
pub fn ucx_is_installed() -> bool {
    installed(&["ucx_perftest"]) && ucx_has_verbs()
}

/// Whether UCX has its module for verbs: Debian testing builds it without.
pub fn ucx_has_verbs() -> bool {
    let modules = Path::new("/usr/lib").join(MULTIARCH).join("ucx");
    let has_verbs = !modules.is_dir() || modules.join("libuct_ib.so.0").exists();
    if !has_verbs {
        skipped("this release builds UCX without verbs");
    }
    has_verbs
}

/// Whether programs' polls pass through soft-hca's. With `SOFT_HCA_HOOK=0` they do not, and a test of what is
/// done or known by them is skipped.
pub fn polls_are_seen() -> bool {
    let are_seen = config::is_hooked();
    if !are_seen {
        skipped("SOFT_HCA_HOOK is 0");
    }
    are_seen
}

/// As [`installed`], for C headers.
pub fn headers(names: &BTreeSet<&str>) -> bool {
    let is_there = |name: &str| Path::new("/usr/include").join(name).is_file();
    let package = |name: &str| match name.split('/').next() {
        Some("gloo") => "package libgloo-dev",
        _ => "package linux-libc-dev or libibverbs-dev",
    };
    names.iter().all(|name| is_there(name) || lacks(name, package(name)))
}

/// Compiles a C program in a place, with these libraries; its path, or none if that cannot be done
/// here.
pub fn compile(place: &Place, source: &str, libraries: &[&str]) -> Option<String> {
    compile_with(place, source, libraries, &[])
}

/// The same with further options of the compiler.
pub fn compile_with(
    place: &Place,
    source: &str,
    libraries: &[&str],
    options: &[&str],
) -> Option<String> {
    compile_by("cc", place, source, libraries, options)
}

/// The same by a compiler.
pub fn compile_by(
    compiler: &str,
    place: &Place,
    source: &str,
    libraries: &[&str],
    options: &[&str],
) -> Option<String> {
    if !installed(&[compiler]) || !headers(&["infiniband/verbs.h"].into()) {
        return None;
    }
    let source = Path::new(source);
    let file = place.file(source.file_stem().unwrap().to_str().unwrap());
    let mut command = Command::new(compiler);
    command.args(["-O1", "-Wall", "-Wextra", "-Werror"]).args(options).arg("-o");
    command.args([&file, source]).args(libraries.iter().map(|name| format!("-l{name}")));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(file.to_str().unwrap().to_string())
}

/// A text has all these parts.
pub fn assert_has(text: &str, expected: &[&str]) {
    for part in expected {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

/// Skips the test for what is not installed, or cannot be, as the release has no such package. Never true.
pub fn lacks(what: &str, package: &str) -> bool {
    let name = package.strip_prefix("package ").and_then(|names| names.split(' ').next());
    let mut lookup = Command::new("apt-cache");
    let lookup = lookup.args(["show", "--"]).args(name).stdout(Stdio::null()).stderr(Stdio::null());
    match name.is_some() && lookup.status().is_ok_and(|status| !status.success()) {
        true => skipped(format_args!("{what} is in no package of this release ({package})")),
        false => missing(format_args!("{what} is not installed ({package})")),
    }
    false
}

/// The Python that has rdma-core's module: that of another release, or else the system's own. As
/// [`installed`], it tells if there is none.
pub fn pyverbs() -> Option<PathBuf> {
    let python = other_programs().unwrap_or("/usr/bin".into()).join("python3");
    let has_module = |python: &PathBuf| {
        let mut attempt = Command::new(python);
        let attempt = attempt.args(["-c", "import pyverbs"]).stderr(Stdio::null()).status();
        attempt.is_ok_and(|status| status.success())
    };
    if has_module(&python) || lacks("Python's module pyverbs", "package python3-pyverbs") {
        return Some(python);
    }
    None
}

/// Writes a Python program into a place, with the names of enumerations by any release of rdma-core's module.
pub fn write_python(place: &Place, name: &str, program: &str) {
    let enums = include_str!("../verbs_enums.py");
    for (name, text) in [(name, program), ("verbs_enums.py", enums)] {
        fs::write(place.file(name), text).unwrap();
    }
}

fn package(program: &str) -> &'static str {
    match program {
        "ibv_devices" | "ibv_devinfo" => "package ibverbs-utils",
        name if name.starts_with("ibv_") => "package ibverbs-utils",
        name if name.starts_with("ib_") => "package perftest",
        name if name.starts_with("qemu-system-") => "package qemu-system-x86",
        name if name.starts_with("dtest") || name == "dapltest" => "package dapl2-utils",
        "cc" => "package gcc",
        "mpicc.mpich" => "package libmpich-dev",
        "mpicc.openmpi" => "package libopenmpi-dev",
        "mpirun.mpich" => "package mpich",
        "mpirun.openmpi" => "package openmpi-bin",
        "ucx_perftest" => "package ucx-utils",
        "ibstat" | "ibstatus" => "package infiniband-diags",
        "rdma" => "package iproute2",
        "lstopo-no-graphics" => "package hwloc or hwloc-nox",
        "python3" => "package python3",
        "script" => "package bsdutils",
        "prometheus-node-exporter" => "package prometheus-node-exporter",
        "fio" => "package fio",
        "dumpcap" => "package wireshark-common",
        "mooncake_master" | "transfer_engine_bench" => "conformance/engines",
        "ggml-rpc-server" => "conformance/engines --llama",
        "valgrind" => "package valgrind",
        "tshark" => "package tshark",
        "qperf" => "package qperf",
        "iperf" => "package iperf",
        "nc.traditional" => "package netcat-traditional",
        name if name.starts_with("fi_") => "package libfabric-bin",
        _ => "package rdmacm-utils",
    }
}

/// Whether this system lets programs be started by a command such as `unshare --user`. If not, the
/// test is skipped.
pub fn can_start_by(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let mut attempt = Command::new(words.next().unwrap());
    let attempt = attempt.args(words).arg("true").stderr(Stdio::null()).status();
    let can = attempt.is_ok_and(|status| status.success());
    if !can {
        skipped(format_args!("`{command}` does not work here"));
    }
    can
}

/// The address that this machine has in the outer world, or the local one if it has none.
pub fn outer_address() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent: the system only chooses a route.
    let chosen = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    chosen.map_or(LOCALHOST.into(), |address| address.ip().to_string())
}

/// Processes whose command line begins with some words after the program's name.
pub fn processes(words: &[&str]) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut found = line.split(|&byte| byte == 0).skip(1);
        words.iter().all(|word| found.next() == Some(word.as_bytes()))
    })
    .collect()
}

/// How many descriptors a process has.
pub fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).unwrap().count()
}
