//! Where the programs run: which build plays which side, on which host.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::agent::{Note, Usage};
use crate::compare::originals::Originals;
use crate::error::Error;
use crate::examples::Example;
use crate::listen::Ready;
use crate::process::{Ending, Program};
use crate::quote::quoted;
use crate::run::{Client, Observer, Outcome, Plan, run};
use crate::transcript::{Line, Side, Stream, Transcript};

/// The address of the recorded device, which stands in the cases.
const RECORDED: &str = "10.9.0.1";
/// The agent's file name.
const AGENT: &str = "harness-agent";

/// Whose program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
    /// Where the server runs, if not here.
    pub server_host: Option<String>,
    /// Where the client runs, if not here.
    pub client_host: Option<String>,
    /// The command that runs programs on those hosts: its name and options, before the host's
    /// name and the command line.
    pub ssh: Vec<OsString>,
    /// The folder on those hosts in which relative paths are looked for.
    pub remote_dir: PathBuf,
    /// The server's address.
    pub address: String,
    /// The client's, if it has its own.
    pub client_address: Option<String>,
    /// Kill what still runs after this time.
    pub limit: Duration,
}

/// A finished run.
#[derive(Debug)]
pub struct Played {
    /// How it went, without the agents' words, and with the recorded address.
    pub outcome: Outcome,
    /// What the sides have cost, where an agent has run them.
    usage: [Option<Usage>; 2],
    /// Why a program was not started.
    pub not_started: Option<String>,
}

impl Played {
    /// What a side has cost, where an agent has run it.
    pub fn usage(&self, side: Side) -> Option<Usage> {
        self.usage[index(side)]
    }
}

const fn index(side: Side) -> usize {
    match side {
        Side::Server => 0,
        Side::Client => 1,
    }
}

impl Stage {
    /// Are both sides on this host?
    pub fn is_local(&self) -> bool {
        self.server_host.is_none() && self.client_host.is_none()
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
    /// is to be known.
    pub fn play(
        &self,
        mut plan: Plan,
        measured: bool,
        observer: &mut dyn Observer,
    ) -> Result<Played, Error> {
        if self.server_host.is_some()
            && let Some(server) = &mut plan.server
        {
            // Only a line of the server can be seen from here.
            let ready = std::mem::replace(&mut plan.ready, self.listening());
            let host = self.server_host.as_deref();
            *server = self.with_agent(server, host, Some(&ready), plan.limit)?;
            if let Ready::Line(pattern) = ready {
                plan.ready = Ready::Line(pattern);
            }
        } else if measured && let Some(server) = &mut plan.server {
            *server = self.with_agent(server, None, None, plan.limit)?;
        }
        if let Some(Client::Program(client)) = &mut plan.client
            && (measured || self.client_host.is_some())
        {
            *client = self.with_agent(client, self.client_host.as_deref(), None, plan.limit)?;
        }
        let outcome = match run(&plan, observer) {
            Ok(outcome) => outcome,
            Err(error @ Error::Start { .. }) => return Ok(not_started(error.to_string())),
            Err(error) => return Err(error),
        };
        Ok(self.cleaned(outcome))
    }

    fn listening(&self) -> Ready {
        let pattern = regex::escape(&Note::Listening.to_string());
        Ready::Line(regex::Regex::new(&pattern).expect("an escaped text is a pattern"))
    }

    /// The harness as an agent in front of the program.
    fn with_agent(
        &self,
        program: &Program,
        host: Option<&str>,
        ready: Option<&Ready>,
        limit: Duration,
    ) -> Result<Program, Error> {
        let mut args: Vec<OsString> = Vec::new();
        match ready {
            Some(Ready::RdmaCm) => args.extend(["--ready", "rdma"].map(Into::into)),
            Some(Ready::Tcp) => args.extend(["--ready", "tcp"].map(Into::into)),
            Some(Ready::Line(_)) | None => {}
        }
        if let Some(arg0) = &program.arg0 {
            args.extend(["--arg0".into(), arg0.clone()]);
        }
        if host.is_some() {
            // Somewhat later than here, so that it is we who say that the time is over.
            let seconds = limit.as_secs() + 30;
            args.extend(["--time-limit".into(), seconds.to_string().into()]);
        }
        args.extend(["--".into(), program.path.clone().into_os_string()]);
        args.extend(program.args.iter().cloned());
        let Some(host) = host else {
            let own = std::env::current_exe()
                .map_err(|error| Error::Usage(format!("cannot find this program: {error}")))?;
            let path = own.with_file_name(AGENT);
            return Ok(Program { path, arg0: None, args });
        };
        let agent = self.bin_dir.join(AGENT);
        let words: Vec<String> = [agent.into_os_string()]
            .iter()
            .chain(&args)
            .map(|word| quoted(&word.to_string_lossy()))
            .collect();
        let command = format!(
            "cd {} && exec stdbuf -oL {}",
            quoted(&self.remote_dir.to_string_lossy()),
            words.join(" ")
        );
        let Some((ssh, options)) = self.ssh.split_first() else {
            return Err(Error::Usage("--ssh needs a command".to_owned()));
        };
        let mut args = options.to_vec();
        args.extend([host.into(), command.into()]);
        Ok(Program { path: ssh.into(), arg0: None, args })
    }

    /// Takes the agents' words out of what was printed.
    fn cleaned(&self, outcome: Outcome) -> Played {
        let mut transcript = Transcript::default();
        let mut usage = [None; 2];
        let mut endings = [outcome.server, outcome.client];
        let mut not_started = None;
        let mut reported = [self.server_host.is_none(), self.client_host.is_none()];
        for line in outcome.transcript.lines() {
            let mut line: Line = line.clone();
            let side = index(line.side);
            if line.stream == Stream::Stderr
                && let Some((before, note)) = Note::split(&line.text)
            {
                match note {
                    Note::Listening => {}
                    Note::NotStarted(why) => not_started = Some(why),
                    Note::Ended(ending, cost) => {
                        usage[side] = Some(cost);
                        endings[side] = Some(ending);
                        reported[side] = true;
                    }
                }
                if before.is_empty() {
                    continue;
                }
                line = Line { text: before.to_owned(), complete: false, ..line };
            }
            if self.address != RECORDED {
                line.text = line.text.replace(&self.address, RECORDED);
            }
            transcript.push(line);
        }
        for side in Side::BOTH {
            // ssh itself has failed, or the agent is not there.
            if let (Some(Ending::Code(_)), false) = (endings[index(side)], reported[index(side)]) {
                let said = outcome.transcript.of(side, Stream::Stderr).last();
                let said = said.map_or("ssh has failed", |line| line.text.as_str());
                not_started.get_or_insert(said.to_owned());
            }
        }
        let [server, client] = endings;
        let outcome = Outcome { server, client, transcript, ..outcome };
        Played { outcome, usage, not_started }
    }
}

fn not_started(why: String) -> Played {
    Played {
        outcome: Outcome {
            server: None,
            client: None,
            transcript: Transcript::default(),
            elapsed: Duration::ZERO,
            never_ready: None,
        },
        usage: [None; 2],
        not_started: Some(why),
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
