//! The examples: their programs, what each shows, how its two sides are
//! told apart on the command line, and when its server listens.

use std::ffi::OsString;
use std::path::Path;

use regex::Regex;

use crate::listen::Ready;
use crate::process::{Ending, Program};
use crate::run::PORT;
use crate::transcript::Side;

/// The multicast group of the tour.
const GROUP: &str = "239.0.0.1";

/// How the two sides of an example are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// Two programs, `NAME-server` and `NAME-client`.
    TwoPrograms,
    /// One program that plays either side.
    OneProgram,
    /// One program that has no partner.
    Single,
}

/// The event that tells that a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listens {
    RdmaCm,
    Tcp,
    Joined,
    /// It says its port, which nobody knows before.
    SaysPort,
}

/// One example.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Its name, also of its crate.
    pub name: &'static str,
    /// What it teaches, in a few words.
    pub lesson: &'static str,
    /// Its programs.
    pub sides: Sides,
    /// The name of the C program, which shows in its messages, with `{side}` where that of its
    /// side stands; `None` where the two programs are called like their side.
    arg0: Option<&'static str>,
    listens: Listens,
    /// Whether there is a C program of it; the exercises' solutions and `atomic` are ours.
    pub original: bool,
}

const fn pair(name: &'static str, lesson: &'static str) -> Example {
    let (sides, listens) = (Sides::TwoPrograms, Listens::RdmaCm);
    Example { name, lesson, sides, arg0: None, listens, original: true }
}

const fn exercise(name: &'static str, lesson: &'static str) -> Example {
    Example { original: false, ..pair(name, lesson) }
}

const fn one(
    name: &'static str,
    arg0: &'static str,
    listens: Listens,
    lesson: &'static str,
) -> Example {
    Example { name, lesson, sides: Sides::OneProgram, arg0: Some(arg0), listens, original: true }
}

/// All of them, in the order in which they are best read.
pub const EXAMPLES: [Example; 22] = [
    Example {
        name: "device-list",
        lesson: "list the RDMA devices and their limits",
        sides: Sides::Single,
        arg0: Some("./devices"),
        listens: Listens::RdmaCm,
        original: true,
    },
    pair("ping-sr-0", "ping-pong with send/recv, completions busy-polled"),
    pair("ping-sr-1", "count and size travel in the connect private data"),
    exercise("ping-sr-2e", "an event channel: connection calls are asynchronous"),
    pair("ping-sr-2", "a thread for connection events notices a disconnect"),
    pair("ping-sr-3", "a completion channel: blocking instead of polling"),
    pair("ping-sr-4", "both channels non-blocking, one poll(), no threads"),
    pair("blast-sr-2", "streaming over many buffers and linked work requests"),
    exercise("blast-sr-2e", "one completion for each list of sends"),
    pair("ping-rdma-1", "the client writes and reads the server's memory"),
    pair("ping-rdma-2", "an unsignaled write: the read after it tells both are done"),
    pair("ping-rdma-3", "both sides write, and watch their memory for the answer"),
    pair("blast-rdma-1", "streaming writes; the server hears of it at the end"),
    exercise("atomic", "fetch-and-add, compare-and-swap, both ends of a connection"),
    pair("pubsub-rdma-1", "the subscriber reads what the server publishes"),
    pair("pubsub-rdma-2", "the server writes what it publishes to its subscriber"),
    one("rc-example", "./rc_example", Listens::Tcp, "raw verbs: send, RDMA read, RDMA write"),
    Example {
        name: "read-write",
        lesson: "regions by message, then RDMA read or write",
        sides: Sides::TwoPrograms,
        arg0: Some("./rdma-{side}"),
        listens: Listens::SaysPort,
        original: true,
    },
    one("mckey", "./mckey", Listens::Joined, "multicast with the RDMA connection manager"),
    one("mc", "./mc", Listens::Joined, "unreliable datagrams to a multicast group"),
    one("apm", "./apm", Listens::RdmaCm, "automatic path migration"),
    one("srq", "./srq", Listens::RdmaCm, "several queue pairs on one shared receive queue"),
];

impl Example {
    /// Finds an example by its name.
    pub fn named(name: &str) -> Option<&'static Example> {
        EXAMPLES.iter().find(|example| example.name == name)
    }

    /// Of each program a side that it plays.
    pub fn program_sides(&self) -> &'static [Side] {
        if self.sides == Sides::TwoPrograms { &Side::BOTH } else { &[Side::Client] }
    }

    /// File name of the program that plays `side`.
    pub fn binary(&self, side: Side) -> String {
        match self.sides {
            Sides::TwoPrograms => format!("{}-{side}", self.name),
            Sides::OneProgram | Sides::Single => self.name.to_owned(),
        }
    }

    /// The program in `bin_dir` that plays `side`, with argv\[0\] as the C's.
    pub fn program(&self, bin_dir: &Path, side: Side, args: Vec<OsString>) -> Program {
        let arg0 = Some(self.arg0(side).into());
        Program { path: bin_dir.join(self.binary(side)), arg0, args }
    }

    /// What the C program that plays `side` is called on its command line.
    pub fn arg0(&self, side: Side) -> String {
        self.arg0.unwrap_or("./{side}").replace("{side}", &side.to_string())
    }

    /// Flags that keep a run short even where the processor is emulated.
    pub fn tour_flags(&self) -> &'static str {
        match self.name {
            "device-list" | "rc-example" => "",
            "mckey" => "-C 10",
            // A receive queue that is too short for more loses messages.
            "mc" => "-c 2",
            "apm" => "-c 4",
            "srq" => "-c 10 -l 1000",
            "read-write" => "write",
            // Each of them takes a second or two.
            "pubsub-rdma-1" | "pubsub-rdma-2" => "-c 2",
            _ => "-c 100",
        }
    }

    /// The arguments that make the program play `side` against `address`, with
    /// `flags` where both sides take them; none if there is no such side.
    pub fn arguments(
        &self,
        side: Side,
        address: &str,
        flags: &[OsString],
    ) -> Option<Vec<OsString>> {
        let is_client = side == Side::Client;
        let (before, after): (Vec<&str>, &[&str]) = match (self.name, is_client) {
            ("device-list", false) => return None,
            ("device-list", true) => (vec![], &[]),
            // RoCE needs a GID; index 1 is the one of the IPv4 address.
            ("rc-example", false) => (vec!["-g", "1"], &[]),
            ("rc-example", true) => (vec!["-g", "1"], &[address]),
            ("read-write", false) => (vec![], &[]),
            ("read-write", true) => (vec![], &[address, PORT]),
            ("mckey" | "mc", false) => (vec!["-m", GROUP, "-b", address], &[]),
            ("mckey" | "mc", true) => (vec!["-s", "-m", GROUP, "-b", address], &[]),
            ("apm", false) => (vec!["-s"], &[]),
            ("srq", false) => (vec!["-s", "-a", address], &[]),
            _ => (vec!["-a", address], &[]),
        };
        let before = before.into_iter().map(OsString::from);
        let after = after.iter().map(OsString::from);
        Some(before.chain(flags.iter().cloned()).chain(after).collect())
    }

    /// The event that tells that the server listens.
    pub fn ready(&self) -> Ready {
        match self.listens {
            Listens::RdmaCm => Ready::RdmaCm,
            Listens::Tcp => Ready::Tcp,
            Listens::Joined => Ready::Line(Regex::new("joined dgid").expect("a constant pattern")),
            Listens::SaysPort => {
                let says = r"^listening on port ([0-9]+)\.$";
                Ready::Line(Regex::new(says).expect("a constant pattern"))
            }
        }
    }

    /// Where the server serves for ever: what it says when it is done with a client.
    pub fn served(&self) -> Option<Regex> {
        let says = (self.name == "read-write").then_some(r"^peer disconnected\.$")?;
        Some(Regex::new(says).expect("a constant pattern"))
    }

    /// Is this how a side ends that has done its work? A server that serves for ever has been
    /// stopped.
    pub fn has_ended_well(&self, side: Side, ending: Option<Ending>) -> bool {
        let stopped = side == Side::Server && self.served().is_some();
        ending == Some(if stopped { Ending::Signal(libc::SIGTERM) } else { Ending::Code(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_serves_for_ever_ends_well_when_it_is_stopped() {
        let ended_well =
            |name, side, ending| Example::named(name).unwrap().has_ended_well(side, Some(ending));
        assert!(ended_well("read-write", Side::Server, Ending::Signal(libc::SIGTERM)));
        assert!(!ended_well("read-write", Side::Server, Ending::Code(1)));
        assert!(ended_well("read-write", Side::Client, Ending::Code(0)));
        assert!(!ended_well("read-write", Side::Client, Ending::Signal(libc::SIGTERM)));
        assert!(!ended_well("srq", Side::Server, Ending::Signal(libc::SIGTERM)));
    }

    #[test]
    fn programs_are_called_like_the_originals() {
        let ping = Example::named("ping-sr-3").unwrap();
        let program = ping.program(Path::new("/b"), Side::Client, vec!["-h".into()]);
        assert_eq!(program.path, Path::new("/b/ping-sr-3-client"));
        assert_eq!(program.arg0.unwrap(), "./client");
        let devices = Example::named("device-list").unwrap();
        let program = devices.program(Path::new("/b"), Side::Client, Vec::new());
        assert_eq!(program.path, Path::new("/b/device-list"));
        assert_eq!(program.arg0.unwrap(), "./devices");
        let read_write = Example::named("read-write").unwrap();
        assert_eq!(read_write.arg0(Side::Server), "./rdma-server");
        assert!(Example::named("ping-sr-5").is_none());
    }
}
