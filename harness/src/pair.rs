//! Any two commands as a pair, with labelled output.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::listen::Ready;
use crate::process::{Ending, Program};
use crate::run::{Client, Plan, run};
use crate::show::Labelled;

/// Two shell commands.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Started first.
    pub server: String,
    /// Started when the server is ready.
    pub client: String,
    /// When that is.
    pub ready: Ready,
    /// Time limit of the run, and of the server to become ready.
    pub limit: Duration,
}

impl Pair {
    /// Runs it; true if both sides ended with 0.
    pub fn run(self) -> Result<bool, Error> {
        let plan = Plan {
            server: Some(shell(self.server)),
            client: Some(Client::Program(shell(self.client))),
            ready: self.ready,
            ready_limit: self.limit,
            limit: self.limit,
            kill: None,
            server_stopped: false,
            served: None,
        };
        let stdout = Path::new("standard output");
        let mut show = Labelled::sides();
        let outcome = run(&plan, &mut show)?;
        show.finish().map_err(Error::write(stdout))?;
        let say = |ending: Option<Ending>| {
            ending.map_or("not started".to_owned(), |ending| ending.to_string())
        };
        let mut out = io::stdout().lock();
        if let Some(why) = &outcome.never_ready {
            writeln!(out, "{why}: client not started").map_err(Error::write(stdout))?;
        }
        let (server, client) = (say(outcome.server), say(outcome.client));
        writeln!(out, "server ended with {server}, client with {client}")
            .map_err(Error::write(stdout))?;
        let well = Some(Ending::Code(0));
        Ok(outcome.never_ready.is_none() && outcome.server == well && outcome.client == well)
    }
}

fn shell(command: String) -> Program {
    Program {
        path: "/bin/sh".into(),
        arg0: None,
        args: vec!["-c".into(), command.into()],
        ends_with_input: false,
    }
}
