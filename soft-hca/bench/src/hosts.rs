//! Two hosts: network namespaces of this machine, joined by a virtual Ethernet link.
//!
//! Each namespace lives as long as a process that reads a pipe of ours, so that both go with us. Who
//! is not root gets a user namespace around both.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

use rustix::thread::move_into_link_name_space;

use crate::error::{Error, Result, cannot};
use crate::pair::Host;

/// Addresses of the hosts (RFC 5737).
pub const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

/// A network namespace.
#[derive(Debug)]
struct Namespace {
    /// Keeps it alive while its standard input is open.
    holder: Child,
    /// Before a command line that is to run there.
    by: Vec<String>,
}

impl Namespace {
    fn new(before: &[String], make: &[&str], enter: &[&str]) -> Result<Self> {
        let script = ["sh", "-c", "echo ready; exec cat"];
        let words = before.iter().map(String::as_str).chain(make.iter().copied()).chain(script);
        let words: Vec<&str> = words.collect();
        let mut holder = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Error::Start(words[0].to_owned(), error))?;
        let mut word = String::new();
        if let Some(output) = holder.stdout.take() {
            BufReader::new(output).read_line(&mut word).map_err(cannot("read from a pipe"))?;
        }
        if word != "ready\n" {
            let output = holder.wait_with_output().map_err(cannot("wait for a program"))?;
            return Err(Error::NoHosts(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let target = format!("--target={}", holder.id());
        let by = ["nsenter", &target, "--net"].into_iter().chain(enter.iter().copied());
        let by = by.chain(["--"]).map(str::to_owned).collect();
        Ok(Self { holder, by })
    }

    fn set_up(&self, script: &str) -> Result<()> {
        let output = Command::new(&self.by[0])
            .args(&self.by[1..])
            .args(["sh", "-e", "-c", script])
            .output()
            .map_err(|error| Error::Start(self.by[0].clone(), error))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::NoHosts(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        // Its end is all that is wanted.
        let _ = self.holder.wait();
    }
}

/// Both hosts.
#[derive(Debug)]
pub struct Hosts([Namespace; 2]);

impl Hosts {
    /// Makes them.
    pub fn new() -> Result<Self> {
        let is_root = rustix::process::geteuid().is_root();
        let (make, enter): (&[_], &[_]) = if is_root {
            (&["unshare", "--net"], &[])
        } else {
            let make = &["unshare", "--user", "--map-root-user", "--net"];
            (make, &["--user", "--preserve-credentials"])
        };
        let a = Namespace::new(&[], make, enter)?;
        let b = Namespace::new(&a.by, &["unshare", "--net"], enter)?;
        let peer = b.holder.id();
        a.set_up(&format!("ip link add link0 type veth peer name link0 netns {peer}"))?;
        for (host, address) in [&a, &b].into_iter().zip(ADDRESSES) {
            host.set_up(&format!(
                "ip link set lo up
                ip address add {address}/24 dev link0
                ip link set link0 up"
            ))?;
        }
        Ok(Self([a, b]))
    }

    /// One of them, with a link to the other or without.
    pub fn host(&self, index: usize, has_link: bool) -> Host {
        let Namespace { holder, by } = &self.0[index];
        let address = ADDRESSES[index].to_owned();
        Host { by: by.clone(), pid: holder.id(), address, has_link }
    }

    /// A UDP socket on each.
    pub fn sockets(&self) -> Result<[UdpSocket; 2]> {
        let fails = cannot("make a socket in a network namespace");
        let [a, b] = [0, 1].map(|index| bind(self.0[index].holder.id(), ADDRESSES[index]));
        Ok([a.map_err(&fails)?, b.map_err(&fails)?])
    }
}

/// Binds a socket in the namespaces of a process. Only a thread of its own goes there.
fn bind(pid: u32, address: &'static str) -> io::Result<UdpSocket> {
    let there = std::thread::spawn(move || {
        // The user namespace comes first: it gives the right to enter the other.
        let is_own = |kind: &str| {
            let id = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/{kind}")).ok();
            id("self") == id(&pid.to_string())
        };
        for kind in ["user", "net"].into_iter().filter(|kind| !is_own(kind)) {
            let file = File::open(format!("/proc/{pid}/ns/{kind}"))?;
            move_into_link_name_space(file.as_fd(), None)?;
        }
        UdpSocket::bind((address, 0))
    });
    there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
