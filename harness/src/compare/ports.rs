//! TCP ports for pairs that meet at one. If the C's server closes its connection first, its port
//! stays in `TIME_WAIT` for a minute; the comparison can avoid that only in a network of its own.

use std::cell::Cell;
use std::ffi::OsString;

use regex::Regex;

use crate::listen::Ready;
use crate::process::Program;
use crate::run::{Client, Plan};

/// The option that names the port.
const OPTION: &str = "-p";
/// The port of a command line without that option.
const USUAL: u16 = 19875;
/// The number of ports, from the usual one on. Running so many pairs takes longer than a minute.
const COUNT: u16 = 200;

/// Gives each pair the next port.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports {
    given: Cell<u16>,
}

/// The port that a pair uses instead of the one in its command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instead {
    port: u16,
    of: u16,
}

impl Ports {
    /// Gives a pair a port of its own. None if the pair does not use one, or if its two command
    /// lines name different ports: such a pair is compared as it is.
    pub(super) fn give(&self, plan: &mut Plan) -> Option<Instead> {
        let (Ready::Tcp, Some(server), Some(Client::Program(client))) =
            (&plan.ready, &mut plan.server, &mut plan.client)
        else {
            return None;
        };
        let of = port(server)?;
        if port(client)? != of {
            return None;
        }
        let port = USUAL + self.given.get();
        self.given.set((self.given.get() + 1) % COUNT);
        set_port(server, port);
        set_port(client, port);
        Some(Instead { port, of })
    }
}

impl Instead {
    /// A line of output with the command line's own port in place of this one.
    pub(super) fn restored(self, line: &str) -> String {
        let word = Regex::new(&format!(r"\b{}\b", self.port)).expect("digits between borders");
        word.replace_all(line, self.of.to_string()).into_owned()
    }
}

/// The port that the arguments name; none if they name no valid port.
fn port(program: &Program) -> Option<u16> {
    let mut options = program.args.iter().filter(|arg| arg.to_string_lossy().starts_with(OPTION));
    match (options.next(), options.next()) {
        (None, _) => Some(USUAL),
        (Some(option), None) if option == OPTION => place(program).and_then(|at| {
            let port = program.args[at].to_str()?.parse().ok()?;
            (port > 0).then_some(port)
        }),
        _ => None,
    }
}

fn place(program: &Program) -> Option<usize> {
    let at = program.args.iter().position(|arg| arg == OPTION)? + 1;
    (at < program.args.len()).then_some(at)
}

fn set_port(program: &mut Program, port: u16) {
    let port = OsString::from(port.to_string());
    match place(program) {
        Some(at) => program.args[at] = port,
        None => drop(program.args.splice(0..0, [OPTION.into(), port])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn plan(ready: Ready, server: &str, client: &str) -> Plan {
        let program = |args: &str| Program {
            path: "/rc-example".into(),
            arg0: None,
            args: args.split_whitespace().map(Into::into).collect(),
            ends_with_input: false,
        };
        Plan {
            server: Some(program(server)),
            client: Some(Client::Program(program(client))),
            ready,
            ready_limit: Duration::ZERO,
            limit: Duration::ZERO,
            kill: None,
            server_stopped: false,
            served: None,
        }
    }

    fn args(plan: &Plan) -> Vec<String> {
        let args = plan.programs().map(|program| program.args.join(" ".as_ref()));
        args.map(|args| args.into_string().unwrap()).collect()
    }

    #[test]
    fn each_pair_has_its_own_port() {
        let ports = Ports::default();
        let mut seen = Vec::new();
        for (server, client, of) in
            [("-g 1", "-g 1 192.0.2.1", 19875), ("-p 5000 -g 1", "-g 1 -p 5000 192.0.2.1", 5000)]
        {
            let mut plan = plan(Ready::Tcp, server, client);
            let instead = ports.give(&mut plan).unwrap();
            assert_eq!(instead.of, of);
            let number = format!("-p {}", instead.port);
            assert!(args(&plan).iter().all(|args| args.matches(&number).count() == 1), "{plan:?}");
            let said = format!("port {}, {}0", instead.port, instead.port);
            assert_eq!(instead.restored(&said), format!("port {of}, {}0", instead.port));
            seen.push(instead.port);
        }
        assert_ne!(seen[0], seen[1]);
    }

    #[test]
    fn what_is_compared_stays() {
        for (ready, server, client) in [
            (Ready::RdmaCm, "-p 5000", "-p 5000"),
            (Ready::Tcp, "-p 5000", "-p 5001"),
            (Ready::Tcp, "-p x", "-p x"),
            (Ready::Tcp, "-p", "-p"),
            (Ready::Tcp, "-p 0", "-p 0"),
            (Ready::Tcp, "-p5000", "-p5000"),
        ] {
            let mut plan = plan(ready, server, client);
            assert_eq!(Ports::default().give(&mut plan), None, "{server}");
            assert_eq!(args(&plan), [server, client]);
        }
    }
}
