//! The sides of a pair on other hosts: an agent there, which ssh or a command like it starts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::agent::{Note, Usage};
use crate::error::Error;
use crate::listen::Ready;
use crate::process::{Ending, Program};
use crate::quote::quoted;
use crate::run::{Client, Observer, Outcome, Plan, Progress, run};
use crate::transcript::{Line, Side, Stream, Transcript};

/// The agent's file name.
const AGENT: &str = "harness-agent";
/// How much longer than the run an agent on another host may take.
const LATER: Duration = Duration::from_secs(30);

/// Where each side runs.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// The server's, if it is not this one.
    pub server: Option<String>,
    /// The client's, if it is not this one.
    pub client: Option<String>,
    /// The command that runs programs on those hosts: its name and options, before the host's
    /// name and the command line.
    pub ssh: Vec<OsString>,
    /// The folder on those hosts in which relative paths are looked for.
    pub dir: PathBuf,
    /// The folder of our programs there.
    pub bin_dir: PathBuf,
}

/// Another host, for the clients, whose processes are this machine's.
#[derive(Clone, Debug)]
pub struct ClientHost {
    /// The program that runs its arguments there, as a command line, in its own place.
    pub by: PathBuf,
}

impl ClientHost {
    /// The program on that host, called as it is here.
    pub(crate) fn there(&self, program: Program) -> Program {
        let arg0 = program.arg0.unwrap_or_else(|| program.path.clone().into());
        let shell = ["bash", "-c", "exec -a \"$0\" \"$@\""].map(OsString::from);
        let path = program.path.into_os_string();
        let args = shell.into_iter().chain([arg0, path]).chain(program.args).collect();
        Program { path: self.by.clone(), arg0: None, args, ends_with_input: false }
    }
}

/// A finished run.
#[derive(Debug)]
pub struct Played {
    /// How it went, without the agents' words.
    pub outcome: Outcome,
    /// Cost of the sides, where an agent has run them.
    usage: [Option<Usage>; 2],
    /// Why a program was not started.
    pub not_started: Option<String>,
}

impl Played {
    /// Cost of a side, where an agent has run it.
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

impl Hosts {
    /// Are both sides on this host?
    pub fn is_local(&self) -> bool {
        self.server.is_none() && self.client.is_none()
    }

    /// Runs a plan, with agents where a side is on another host, and everywhere if the cost
    /// is to be known.
    pub fn play(
        &self,
        mut plan: Plan,
        measured: bool,
        observer: &mut dyn Observer,
    ) -> Result<Played, Error> {
        // Somewhat later than here, so that it is we who say that the time is over.
        let there = plan.limit + LATER;
        match (&mut plan.server, self.server.as_deref()) {
            (Some(server), host @ Some(_)) => {
                // Only a line of the server can be seen from here.
                let ready = std::mem::replace(&mut plan.ready, listening());
                *server = self.with_agent(server, host, Some(&ready), Some(there))?;
                if let Ready::Line(pattern) = ready {
                    plan.ready = Ready::Line(pattern);
                }
            }
            (Some(server), None) if measured => {
                *server = self.with_agent(server, None, None, None)?;
            }
            _ => {}
        }
        match &mut plan.client {
            Some(Client::Program(client)) if measured || self.client.is_some() => {
                let host = self.client.as_deref();
                *client = self.with_agent(client, host, None, host.map(|_| there))?;
            }
            _ => {}
        }
        let outcome = match run(&plan, &mut Programs(observer)) {
            Ok(outcome) => outcome,
            Err(error @ Error::Start { .. }) => return Ok(not_started(error.to_string())),
            Err(error) => return Err(error),
        };
        Ok(self.cleaned(outcome))
    }

    /// A program on this host with an agent that tells what it has cost, and ends it after `limit`,
    /// in whole seconds.
    pub(crate) fn measured(&self, program: &Program, limit: Duration) -> Result<Program, Error> {
        self.with_agent(program, None, None, Some(limit))
    }

    /// The harness as an agent in front of the program.
    fn with_agent(
        &self,
        program: &Program,
        host: Option<&str>,
        ready: Option<&Ready>,
        limit: Option<Duration>,
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
        if let Some(limit) = limit {
            args.extend(["--time-limit".into(), limit.as_secs().to_string().into()]);
        }
        if host.is_some() {
            args.push("--until-input-ends".into());
        }
        args.extend(["--".into(), program.path.clone().into_os_string()]);
        args.extend(program.args.iter().cloned());
        let Some(host) = host else {
            let own = std::env::current_exe()
                .map_err(|error| Error::Usage(format!("cannot find this program: {error}")))?;
            let path = own.with_file_name(AGENT);
            return Ok(Program { path, arg0: None, args, ends_with_input: false });
        };
        let agent = self.bin_dir.join(AGENT);
        let words: Vec<String> = [agent.into_os_string()]
            .iter()
            .chain(&args)
            .map(|word| quoted(&word.to_string_lossy()))
            .collect();
        let command = format!(
            "cd {} && exec stdbuf -oL {}",
            quoted(&self.dir.to_string_lossy()),
            words.join(" ")
        );
        let Some((ssh, options)) = self.ssh.split_first() else {
            return Err(Error::Usage("--ssh needs a command".to_owned()));
        };
        let mut args = options.to_vec();
        args.extend([host.into(), command.into()]);
        Ok(Program { path: ssh.into(), arg0: None, args, ends_with_input: true })
    }

    /// Takes the agents' words out of what was printed.
    fn cleaned(&self, outcome: Outcome) -> Played {
        let mut transcript = Transcript::default();
        let mut usage = [None; 2];
        let mut endings = [outcome.server, outcome.client];
        let mut not_started = None;
        let mut reported = [self.server.is_none(), self.client.is_none()];
        for line in outcome.transcript.lines() {
            let (line, note) = split(line);
            let side = index(line.side);
            match note {
                Some(Note::Listening) | None => {}
                Some(Note::NotStarted(why)) => not_started = Some(why),
                Some(Note::Ended(ending, cost)) => {
                    usage[side] = Some(cost);
                    endings[side] = Some(ending);
                    reported[side] = true;
                }
            }
            if !line.text.is_empty() || line.complete {
                transcript.push(line);
            }
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

/// The program's part of a line, and the agent's behind it. If the agent's is all, the rest
/// is empty and not complete.
fn split(line: &Line) -> (Line, Option<Note>) {
    let found = Note::split(&line.text).filter(|_| line.stream == Stream::Stderr);
    match found {
        Some((before, note)) => {
            (Line { text: before.to_owned(), complete: false, ..line.clone() }, Some(note))
        }
        None => (line.clone(), None),
    }
}

fn listening() -> Ready {
    let pattern = regex::escape(&Note::Listening.to_string());
    Ready::Line(regex::Regex::new(&pattern).expect("an escaped text is a pattern"))
}

fn not_started(why: String) -> Played {
    Played {
        outcome: Outcome {
            server: None,
            client: None,
            transcript: Transcript::default(),
            began: SystemTime::UNIX_EPOCH,
            elapsed: Duration::ZERO,
            never_ready: None,
        },
        usage: [None; 2],
        not_started: Some(why),
    }
}

/// Somebody who does not hear the agents.
struct Programs<'a>(&'a mut dyn Observer);

impl Observer for Programs<'_> {
    fn line(&mut self, line: &Line) {
        let (line, note) = split(line);
        if note.is_none() || !line.text.is_empty() {
            self.0.line(&line);
        }
    }

    fn may_kill(&mut self, victim: Side, so_far: &Progress<'_>) -> bool {
        self.0.may_kill(victim, so_far)
    }

    fn is_settled(&mut self, so_far: &Progress<'_>) -> bool {
        self.0.is_settled(so_far)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stream: Stream, text: &str) -> Line {
        let side = Side::Server;
        Line { side, stream, at: Duration::ZERO, text: text.to_owned(), complete: true }
    }

    #[test]
    fn what_agents_say_is_no_output() {
        let said = format!("no newline{}", Note::Listening);
        let (rest, note) = split(&line(Stream::Stderr, &said));
        assert_eq!(
            (rest.text.as_str(), rest.complete, note),
            ("no newline", false, Some(Note::Listening))
        );
        let (rest, note) = split(&line(Stream::Stdout, &said));
        assert_eq!((rest.text, note), (said, None));
    }
}
