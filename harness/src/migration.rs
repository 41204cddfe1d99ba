//! Where a path can migrate: InfiniBand devices of soft-hca's, one for each side, as two hosts
//! would have them. The client's has two ports, whose cables can be pulled.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::str::FromStr;

use crate::process::Program;
use crate::run::{Client, Observer, Plan};
use crate::show::Labelled;
use crate::soft_hca;
use crate::transcript::{Line, Side};

/// The example that migrates.
pub(crate) const EXAMPLE: &str = "apm";
/// Its message when it has.
pub(crate) const MIGRATED: &str = "QP path migrated";
/// Flags that give a cable time to be pulled and plugged in again.
pub(crate) const CABLE_FLAGS: &str = "-c 8 -l 64";

/// The devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    server: String,
    client: String,
    /// The server's address.
    pub(crate) address: String,
}

impl FromStr for Migration {
    type Err = String;

    /// From `SERVER,CLIENT,ADDRESS`: devices of both sides, and the address of the server's.
    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').collect();
        let [server, client, address] = words[..] else {
            return Err("it is SERVER,CLIENT,ADDRESS: two devices and an address".to_owned());
        };
        Ok(Self { server: server.into(), client: client.into(), address: address.into() })
    }
}

impl Migration {
    /// The plan with each side on its device.
    pub(crate) fn on_devices(&self, mut plan: Plan) -> Plan {
        plan.server = plan.server.map(|program| on_device(&self.server, program));
        plan.client = plan.client.map(|client| match client {
            Client::Program(program) => Client::Program(on_device(&self.client, program)),
            peer => peer,
        });
        plan
    }

    /// The client's port that the first messages go by.
    fn port(&self) -> String {
        format!("{}/1", self.client)
    }
}

/// The program, as if its host had this device and no other.
fn on_device(device: &str, program: Program) -> Program {
    // The process that explains the fabric explains this program, too.
    let run = ["SOFT_HCA_EXPLAIN=0".into(), soft_hca::command()];
    let words = ["run", "--use", device, "--"].map(OsString::from);
    let args = run.into_iter().chain(words).chain([program.path.into_os_string()]);
    Program {
        path: "/usr/bin/env".into(),
        arg0: None,
        args: args.chain(program.args).collect(),
        ends_with_input: program.ends_with_input,
    }
}

/// Shows a run of the example and pulls the cable in the middle of it.
pub(crate) struct Cable<'a> {
    show: &'a mut Labelled,
    port: String,
}

impl<'a> Cable<'a> {
    pub(crate) fn new(migration: &Migration, show: &'a mut Labelled) -> Self {
        Self { show, port: migration.port() }
    }

    fn set(&mut self, action: &str) {
        self.show.say(&format!("-- soft-hca port {action} {}", self.port));
        let status = Command::new(soft_hca::command())
            .args(["port", action, &self.port])
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => self.show.say(&format!("-- that ended with {status}")),
            Err(error) => self.show.say(&format!("-- that could not be started: {error}")),
        }
    }
}

impl Observer for Cable<'_> {
    fn line(&mut self, line: &Line) {
        self.show.line(line);
        match (line.side, line.text.as_str()) {
            (Side::Client, "recv: 2") => self.set("down"),
            (Side::Client, "recv: 5") => self.set("up"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_an_address() {
        let migration: Migration = "rxe1,rxe0,198.18.1.1".parse().unwrap();
        assert_eq!(migration.address, "198.18.1.1");
        assert_eq!(migration.port(), "rxe0/1");
        assert!("rxe1,rxe0".parse::<Migration>().is_err());
    }

    #[test]
    fn each_side_finds_its_own_device() {
        let apm = Program {
            path: "/bin/apm".into(),
            arg0: None,
            args: vec!["-s".into()],
            ends_with_input: false,
        };
        let args: Vec<_> =
            on_device("rxe1", apm).args.into_iter().skip(2).map(|arg| arg.into_string()).collect();
        let expected =
            ["run", "--use", "rxe1", "--", "/bin/apm", "-s"].map(|arg| Ok(arg.to_owned()));
        assert_eq!(args, expected);
    }
}
