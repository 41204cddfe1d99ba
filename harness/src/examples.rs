//! The examples: what each shows, and everything that the rest of this crate has to know of it.
//! All of it is in one table, [`EXAMPLES`].

mod table;

use std::ffi::OsString;
use std::path::Path;

use regex::Regex;

use crate::compare::evidence::Evidence;
use crate::compare::speed::work::Work;
use crate::listen::Ready;
use crate::process::{Ending, Program};
use crate::run::PORT;
use crate::transcript::Side;

pub use table::EXAMPLES;

/// Those that are run where none is named.
pub fn sound() -> impl Iterator<Item = &'static Example> {
    EXAMPLES.iter().filter(|example| !example.faulty)
}

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
    /// It prints a line that matches. If the pattern has a group, that is the port, which nobody
    /// knows before.
    Says(&'static str),
}

/// One example.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Its name, also of its crate.
    pub name: &'static str,
    /// Its lesson, in a few words.
    pub lesson: &'static str,
    /// Its programs.
    pub sides: Sides,
    /// The name of the C program, which shows in its messages, with `{side}` where that of its
    /// side stands.
    arg0: &'static str,
    /// The server's arguments and the client's, `None` for a side that there is not. `{flags}`
    /// stands for those that both sides take, `{address}` and `{port}` for the server's.
    arguments: [Option<&'static str>; 2],
    /// Flags that keep a run short even where the processor is emulated.
    tour_flags: &'static str,
    listens: Listens,
    /// Where the server serves for ever: what it says when it is done with a client.
    served: Option<&'static str>,
    /// Does each side get its own host's address, not the server's?
    pub(crate) own_address: bool,
    /// Whether there is a C program of it; the exercises' solutions, `atomic`, `many-clients` and
    /// `write-imm` are ours.
    pub original: bool,
    /// It has the C's faults, and ends badly now and then: it runs only where it is named.
    pub faulty: bool,
    /// The neighbour from which it has its code, and with it how that differs from the C.
    like: Option<&'static str>,
    /// Where the C program may be, in the order in which it is looked for, with `{name}` and
    /// `{side}`: as the suite and the manual's files are called, and as the programs of this
    /// workspace are.
    places: &'static [&'static str],
    /// The evidence that its data have arrived.
    pub(crate) evidence: Evidence,
    /// How it is measured.
    pub(crate) work: Work,
}

impl Example {
    /// Finds an example by its name.
    pub fn named(name: &str) -> Option<&'static Example> {
        EXAMPLES.iter().find(|example| example.name == name)
    }

    /// The example, and those from which it has what differs from the C, next first.
    pub fn lineage(&'static self) -> impl Iterator<Item = &'static Example> {
        std::iter::successors(Some(self), |example| Example::named(example.like?))
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
        Program { path: bin_dir.join(self.binary(side)), arg0, args, ends_with_input: false }
    }

    /// Name of the C program that plays `side` on its command line.
    pub fn arg0(&self, side: Side) -> String {
        self.named_for(side, self.arg0)
    }

    /// Where the C program that plays `side` may be, in the order in which it is looked for.
    pub fn places(&self, side: Side) -> impl Iterator<Item = String> {
        self.places.iter().map(move |place| self.named_for(side, place))
    }

    /// Is it of the OpenFabrics suite, or made after it, with the suite's files and functions?
    pub fn is_of_suite(&self) -> bool {
        self.arg0 == table::SUITE_ARG0
    }

    /// The file of the C from which the source `STEM.rs` was translated, by its name in the suite, in the manual
    /// or in the repository it is from; none if there is none.
    pub(crate) fn c_source(&self, stem: &str) -> Option<String> {
        if !self.original {
            return None;
        }
        match self.sides {
            Sides::TwoPrograms if self.is_of_suite() => Some(format!("{}/{stem}.c", self.name)),
            Sides::TwoPrograms => Some(format!("rdma-{}.c", stem.trim_start_matches("rdma_"))),
            Sides::OneProgram | Sides::Single => {
                let file = self.places(Side::Client).find(|place| place.eq_ignore_ascii_case(stem));
                file.map(|file| file + ".c")
            }
        }
    }

    fn named_for(&self, side: Side, text: &str) -> String {
        text.replace("{name}", self.name).replace("{side}", &side.to_string())
    }

    /// Flags that keep a run short even where the processor is emulated.
    pub fn tour_flags(&self) -> &'static str {
        self.tour_flags
    }

    /// Flags for few messages, each of which is compared where the example can.
    pub(crate) fn few(&self) -> Vec<OsString> {
        let compares = match self.evidence {
            Evidence::Verified(flag) => flag,
            _ => "",
        };
        let few = self.tour_flags.replace("-c 100", "-c 10");
        few.split_whitespace().chain(compares.split_whitespace()).map(OsString::from).collect()
    }

    /// The arguments that make the program play `side` against `address`, with
    /// `flags` where both sides take them; none if there is no such side.
    pub fn arguments(
        &self,
        side: Side,
        address: &str,
        flags: &[OsString],
    ) -> Option<Vec<OsString>> {
        let [server, client] = self.arguments;
        let template = if side == Side::Server { server? } else { client? };
        let mut arguments = Vec::new();
        for word in template.split_whitespace() {
            match word {
                "{flags}" => arguments.extend_from_slice(flags),
                "{address}" => arguments.push(address.into()),
                "{port}" => arguments.push(PORT.into()),
                word => arguments.push(word.into()),
            }
        }
        Some(arguments)
    }

    /// The event that tells that the server listens.
    pub fn ready(&self) -> Ready {
        match self.listens {
            Listens::RdmaCm => Ready::RdmaCm,
            Listens::Tcp => Ready::Tcp,
            Listens::Says(line) => Ready::Line(Regex::new(line).expect("a constant pattern")),
        }
    }

    /// Where the server serves for ever: what it says when it is done with a client.
    pub fn served(&self) -> Option<Regex> {
        self.served.map(|says| Regex::new(says).expect("a constant pattern"))
    }

    /// Is this how a side ends that has done its work? A server that serves for ever has been
    /// stopped.
    pub fn has_ended_well(&self, side: Side, ending: Option<Ending>) -> bool {
        let stopped = side == Side::Server && self.served.is_some();
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
    fn messages_are_few_and_compared() {
        let of = |name| Example::named(name).unwrap().few().join(" ".as_ref());
        assert_eq!(of("ping-sr-1"), "-c 10 -v");
        assert_eq!(of("apm"), "-c 4");
        assert_eq!(of("device-list"), "");
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
        assert_eq!(Example::named("srq").unwrap().arg0(Side::Server), "./srq");
        assert!(Example::named("ping-sr-5").is_none());
    }

    #[test]
    fn every_pattern_of_the_table_is_one() {
        for example in EXAMPLES {
            example.ready();
            example.served();
            for (.., pattern) in example.evidence.lines() {
                assert!(Regex::new(pattern).is_ok(), "{pattern}");
            }
        }
    }

    #[test]
    fn an_example_differs_as_its_neighbours_do() {
        let names = |name| -> Vec<_> {
            Example::named(name).unwrap().lineage().map(|example| example.name).collect()
        };
        let of_blast = ["blast-rdma-1", "ping-rdma-1", "ping-sr-2", "ping-sr-1", "ping-sr-0"];
        assert_eq!(names("blast-rdma-1"), of_blast);
        assert_eq!(names("mc"), ["mc"]);
        for example in EXAMPLES {
            assert!(example.like.is_none_or(|like| Example::named(like).is_some()));
        }
    }

    #[test]
    fn arguments_are_put_together() {
        let flags = ["-x".into(), "a b".into()];
        let arguments = |name, side| {
            let example = Example::named(name).unwrap();
            example.arguments(side, "10.0.0.7", &flags).map(|all| all.join("|".as_ref()))
        };
        assert_eq!(arguments("device-list", Side::Server), None);
        assert_eq!(arguments("device-list", Side::Client).unwrap(), "-x|a b");
        assert_eq!(arguments("ping-sr-2", Side::Server).unwrap(), "-a|10.0.0.7|-x|a b");
        assert_eq!(arguments("rc-example", Side::Client).unwrap(), "-g|1|-x|a b|10.0.0.7");
        let with_port = format!("-x|a b|10.0.0.7|{PORT}");
        assert_eq!(arguments("read-write", Side::Client).unwrap(), with_port.as_str());
        let sender = "-s|-m|239.0.0.1|-b|10.0.0.7|-x|a b";
        assert_eq!(arguments("mckey", Side::Client).unwrap(), sender);
    }
}
