//! Where the programs run: which build plays which side, on which host.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::compare::originals::Originals;
use crate::compare::ports::Ports;
use crate::error::Error;
use crate::examples::Example;
use crate::hosts::{Hosts, Played};
use crate::process::{Ending, Program};
use crate::run::{Client, Observer, Plan};
use crate::transcript::{Line, Side};

/// The address of the recorded device, which stands in the cases.
const RECORDED: &str = "10.9.0.1";

/// Maker of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Maker {
    /// The original.
    C,
    /// Ours.
    Rust,
}

impl Maker {
    /// Both.
    pub const BOTH: [Maker; 2] = [Maker::C, Maker::Rust];
}

impl std::fmt::Display for Maker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Maker::C => "C",
            Maker::Rust => "Rust",
        })
    }
}

/// The two builds and the hosts.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The C programs.
    pub originals: Originals,
    /// The folder of ours.
    pub bin_dir: PathBuf,
    /// Where each side runs.
    pub hosts: Hosts,
    /// The server's address.
    pub address: String,
    /// The client's, if it has its own.
    pub client_address: Option<String>,
    /// Kill what still runs after this time.
    pub limit: Duration,
    /// The TCP ports of pairs that use one.
    pub(super) ports: Ports,
}

impl Stage {
    /// Are both sides on this host?
    pub fn is_local(&self) -> bool {
        self.hosts.is_local()
    }

    /// The program of a maker that plays `side`.
    pub fn program(
        &self,
        example: &Example,
        maker: Maker,
        side: Side,
        args: Vec<OsString>,
    ) -> Program {
        let mut program = example.program(&self.bin_dir, side, args);
        if maker == Maker::C {
            // Not there: an error names the place that is looked at first.
            let path = self.originals.program(example, side);
            program.path = path.unwrap_or_else(|| PathBuf::from(example.binary(side)));
        }
        for arg in &mut program.args {
            if arg == RECORDED {
                *arg = self.address_of(example, side).into();
            }
        }
        program
    }

    /// The address that a side has to be told. Of a multicast pair each binds to its own.
    pub fn address_of(&self, example: &Example, side: Side) -> &str {
        match &self.client_address {
            Some(own) if side == Side::Client && example.own_address => own,
            _ => &self.address,
        }
    }

    /// A pair in the usual roles.
    pub fn pair(
        &self,
        example: &Example,
        server: Option<Program>,
        client: Option<Program>,
    ) -> Plan {
        Plan {
            server,
            client: client.map(Client::Program),
            ready: example.ready(),
            ready_limit: self.limit,
            limit: self.limit,
            kill: None,
            server_stopped: false,
            served: example.served(),
        }
    }

    /// Runs a plan, with agents where a side is on another host, and everywhere if the cost
    /// is to be known. The printed output has the recorded address.
    pub fn play(
        &self,
        plan: Plan,
        measured: bool,
        observer: &mut dyn Observer,
    ) -> Result<Played, Error> {
        let mut plan = plan;
        // The recorded address is that of a private network, where the comparison avoids
        // `TIME_WAIT`.
        let is_elsewhere = !self.is_local() || self.address != RECORDED;
        let instead = is_elsewhere.then(|| self.ports.give(&mut plan)).flatten();
        let mut played = self.hosts.play(plan, measured, observer)?;
        if is_elsewhere {
            let transcript = std::mem::take(&mut played.outcome.transcript);
            for line in transcript.lines() {
                let text = line.text.replace(&self.address, RECORDED);
                let text = instead.map_or(text.clone(), |instead| instead.restored(&text));
                played.outcome.transcript.push(Line { text, ..line.clone() });
            }
        }
        Ok(played)
    }
}

/// How a side ended, in words.
pub fn ending_in_words(ending: Option<Ending>) -> String {
    match ending {
        Some(Ending::TimedOut) => "hangs (killed)".to_owned(),
        Some(Ending::Signal(signal)) => format!("crashes (signal {signal})"),
        Some(Ending::Code(code)) => format!("ends with {code}"),
        None => "was not started".to_owned(),
    }
}
