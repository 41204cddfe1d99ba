//! Two hosts: network namespaces of this machine, joined by a virtual Ethernet link.
//!
//! ```text
//!  host A                                  host B
//! +-------------------+    veth pair     +-------------------+
//! | link0             |                  |             link0 |
//! | 192.0.2.1         +------------------+         192.0.2.2 |
//! | fd00:0:2::1       |                  |       fd00:0:2::2 |
//! | soft-hca run      |                  |      soft-hca run |
//! |   --roce=...      |                  |        --roce=... |
//! +-------------------+                  +-------------------+
//! ```
//!
//! Each namespace belongs to a process that reads a pipe of ours, and nothing else names it: when
//! the test ends, in whatever way, the pipe does, and so the process and the namespace with its end
//! of the link. Root needs nothing else; others get a user namespace around both, where that is
//! allowed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::place::{Place, with_default_signals};
use crate::program::Program;
use crate::skipped;
use crate::{assert_has, tcp};

/// The link's interface, on both hosts.
pub const INTERFACE: &str = "link0";

/// A network namespace and what it takes to be in it.
#[derive(Debug)]
struct Namespace {
    /// Keeps it alive as long as its standard input is open.
    holder: Child,
    input: Option<ChildStdin>,
    /// Before a command line that is to run there.
    by: Vec<String>,
}

impl Namespace {
    /// Has a command line (`unshare ...`) make one. `enter` are options of `nsenter`.
    fn new(by: &[String], make: &[&str], enter: &[&str]) -> Result<Self, String> {
        let words = [make, &["sh", "-c", "echo ready; exec cat"]].concat();
        let line: Vec<&str> = by.iter().map(String::as_str).chain(words).collect();
        let mut command = Command::new(line[0]);
        command.args(&line[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder =
            command.stderr(Stdio::piped()).spawn().map_err(|e| format!("{}: {e}", line[0]))?;
        let mut word = String::new();
        let mut output = BufReader::new(holder.stdout.take().unwrap());
        output.read_line(&mut word).unwrap();
        if word != "ready\n" {
            let output = holder.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
            return Err(format!("`{}`: {said}", make.join(" ")));
        }
        let target = format!("--target={}", holder.id());
        let words = ["nsenter", &target, "--net"].into_iter().chain(enter.iter().copied());
        let by = words.chain(["--"]).map(str::to_string).collect();
        Ok(Self { input: holder.stdin.take(), holder, by })
    }

    /// Runs a script there.
    fn set_up(&self, script: &str) -> Result<(), String> {
        let mut command = Command::new(&self.by[0]);
        let output = command.args(&self.by[1..]).args(["sh", "-e", "-c", script]).output();
        let output = output.map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(said.trim().to_string()) }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.holder.wait();
    }
}

/// One of the hosts, with a fabric of its own.
#[derive(Debug)]
pub struct Host {
    /// Its fabric.
    pub place: Place,
    /// Its IPv4 address.
    pub address: &'static str,
    /// Its IPv6 address.
    pub address6: &'static str,
    /// The one that its MAC gives, which is good for the link only: GID 0.
    pub link_local: String,
    namespace: Namespace,
}

impl Host {
    fn new(
        name: &str,
        side: &str,
        namespace: Namespace,
        mtu: u32,
        options: &[&str],
        [address, address6]: [&'static str; 2],
    ) -> Result<Self, String> {
        let number = if side == "a" { 1 } else { 2 };
        let link_local = format!("fe80::ff:fe00:{number}");
        namespace.set_up(&format!(
            "ip link set lo up
            echo 0 >/proc/sys/net/ipv6/conf/{INTERFACE}/accept_dad
            echo 1 >/proc/sys/net/ipv6/conf/{INTERFACE}/keep_addr_on_down
            ip address add {address}/24 dev {INTERFACE}
            ip address add {address6}/64 nodad dev {INTERFACE}
            ip link set {INTERFACE} address 02:00:00:00:00:0{number}
            ip address add {link_local}/64 nodad dev {INTERFACE}
            ip link set {INTERFACE} mtu {mtu} up
            ip route add 224.0.0.0/4 dev {INTERFACE}"
        ))?;
        let with_address = |option: &&str| match *option {
            "--roce" => format!("--roce={address},{address6}"),
            other => other.to_string(),
        };
        let options = options.iter().map(with_address).collect();
        let place = Place::with(&format!("{name}-{side}"), namespace.by.clone(), options);
        Ok(Self { place, address, address6, link_local, namespace })
    }

    /// A place for another fabric there, which is made with an option of `soft-hca run`.
    pub fn place_with(&self, option: &str) -> Place {
        let name = self.place.unique("hosts-other");
        Place::with(&name, self.namespace.by.clone(), vec![option.to_string()])
    }

    /// Whether somebody listens at a TCP port.
    pub fn listens(&self, port: u16) -> bool {
        tcp::listens_near(self.namespace.holder.id(), port)
    }

    /// Whether the link's interface has joined a multicast group.
    pub fn has_joined(&self, group: &str) -> bool {
        let (file, name) = match group.parse().unwrap() {
            // A word as it lies in memory.
            IpAddr::V4(ip) => ("igmp", format!("{:08X} ", u32::from_ne_bytes(ip.octets()))),
            IpAddr::V6(ip) => ("igmp6", format!("{:032x} ", ip.to_bits())),
        };
        let file = format!("/proc/{}/net/{file}", self.namespace.holder.id());
        fs::read_to_string(file).unwrap().contains(&name)
    }

    /// Has the host's end of the link go up or down.
    pub fn set_link(&self, state: &str) {
        self.namespace.set_up(&format!("ip link set {INTERFACE} {state}")).unwrap();
    }

    /// Gives the host its link-local address anew, so that the system looks for some seconds whether
    /// another host has it.
    pub fn detect_duplicates(&self) {
        let address = format!("{}/64 dev {INTERFACE}", self.link_local);
        self.namespace
            .set_up(&format!(
                "echo 1 >/proc/sys/net/ipv6/conf/{INTERFACE}/accept_dad
                echo 3 >/proc/sys/net/ipv6/conf/{INTERFACE}/dad_transmits
                ip address del {address}
                ip address add {address}"
            ))
            .unwrap();
    }

    /// Whether the system still looks whether another host has one of the link's addresses.
    pub fn is_tentative(&self) -> bool {
        const IFA_F_TENTATIVE: u8 = 0x40;
        let file = format!("/proc/{}/net/if_inet6", self.namespace.holder.id());
        let table = fs::read_to_string(file).unwrap();
        let flags = table.lines().filter(|line| line.ends_with(INTERFACE));
        let flags = flags.filter_map(|line| line.split_whitespace().nth(4));
        flags.map(|flags| u8::from_str_radix(flags, 16).unwrap()).any(|f| f & IFA_F_TENTATIVE != 0)
    }

    /// Gives the host another route.
    pub fn add_route(&self, to: &str, gateway: &str) {
        self.namespace.set_up(&format!("ip route add {to} via {gateway}")).unwrap();
    }

    /// Gives the host's end of the link another MTU.
    pub fn set_mtu(&self, mtu: u32) {
        self.namespace.set_up(&format!("ip link set {INTERFACE} mtu {mtu}")).unwrap();
    }

    /// Has the system cut what is to be several packets before it comes to the link, where a recording
    /// would show it in one piece.
    pub fn cut_before_the_link(&self) {
        self.namespace.set_up(&format!("ip link set {INTERFACE} gso_max_segs 1")).unwrap();
    }

    /// Starts a program that is in no fabric.
    pub fn start_plain(&self, line: &str) -> Program {
        let file = self.place.file(&format!("{}.txt", self.place.unique("plain")));
        let output = fs::File::create(&file).unwrap();
        let mut command = with_default_signals();
        command.args(&self.namespace.by).args(line.split_whitespace()).stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        Program::new(line, command.spawn().unwrap(), file)
    }
}

/// Both hosts.
#[derive(Debug)]
pub struct Hosts {
    /// The one.
    pub a: Host,
    /// The other.
    pub b: Host,
}

impl Hosts {
    /// Two hosts whose fabrics have a link between them; none if this system has no namespaces for
    /// us, and the test is skipped.
    pub fn new(name: &str) -> Option<Self> {
        Self::with(name, 1500, &["--roce"])
    }

    /// The same with the interfaces' MTU and with options of `soft-hca run`; to `--roce` the host's
    /// addresses are added.
    pub fn with(name: &str, mtu: u32, options: &[&str]) -> Option<Self> {
        let made = Self::make(name, mtu, options);
        made.map_err(|why| skipped(format_args!("no two network namespaces here: {why}"))).ok()
    }

    fn make(name: &str, mtu: u32, options: &[&str]) -> Result<Self, String> {
        let (first, enter): (&[_], &[_]) = if is_root() {
            (&["unshare", "--net"], &[])
        } else {
            let make = &["unshare", "--user", "--map-root-user", "--net"];
            (make, &["--user", "--preserve-credentials"])
        };
        let a = Namespace::new(&[], first, enter)?;
        // As root of the same user namespace, if there is one, so that both ends are one owner's.
        let b = Namespace::new(&a.by, &["unshare", "--net"], enter)?;
        let peer = b.holder.id();
        a.set_up(&format!(
            "ip link add name {INTERFACE} type veth peer name {INTERFACE} netns {peer}"
        ))?;
        let a = Host::new(name, "a", a, mtu, options, ["192.0.2.1", "fd00:0:2::1"])?;
        let b = Host::new(name, "b", b, mtu, options, ["192.0.2.2", "fd00:0:2::2"])?;
        Ok(Self { a, b })
    }
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    uid.split_whitespace().nth(1) == Some("0")
}

/// Runs a server on host A, which listens at a TCP port, and a client on host B. Gives what both
/// have written.
pub fn by_tcp(hosts: &Hosts, port: u16, line: &str, address: &str) -> [String; 2] {
    let mut server = hosts.a.place.start(line);
    server.wait_until(|| hosts.a.listens(port));
    let client = hosts.b.place.start(&format!("{line} {address}")).succeed();
    [server.succeed(), client]
}

/// The same with a server that listens at a port of the connection manager.
pub fn by_cm(hosts: &Hosts, port: u16, server: &str, client: &str) -> [String; 2] {
    let mut server = hosts.a.place.start(server);
    server.wait_until(|| hosts.a.place.listens(port));
    let client = hosts.b.place.start(client).succeed();
    [server.succeed(), client]
}

/// A ping-pong with some options for both.
pub fn ping_pong(hosts: &Hosts, program: &str, options: &str) {
    let port = tcp::free_port();
    // -c has every byte of the messages compared.
    let line = format!("{program} -d rxe0 -g 1 -n 300 -p {port} -c {options}");
    let both = by_tcp(hosts, port, &line, hosts.a.address);
    both.iter().for_each(|text| assert_has(text, &["300 iters in ", "Mbit/sec"]));
    both.iter().for_each(|text| assert!(!text.contains("invalid data"), "{text}"));
}

/// After the last program of both: nothing is left of their fabrics.
pub fn assert_gone(hosts: &Hosts) {
    hosts.a.place.assert_gone();
    hosts.b.place.assert_gone();
}
