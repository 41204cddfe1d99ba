//! The tour: every example as a pair, or one of them with its output.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;
use crate::examples::{EXAMPLES, Example, Sides, sound};
use crate::hosts::{ClientHost, Hosts};
use crate::migration::{self, Cable, Migration};
use crate::process::{Ending, Program};
use crate::quote::quoted;
use crate::run::{Client, Observer, Outcome, Plan, Unobserved};
use crate::show::{Labelled, print};
use crate::transcript::{Side, Stream};

/// Message of apm on both sides where the device cannot migrate a path.
const APM_REFUSED: &str = "ibv_modify_qp returned 22 errno 22";
/// Meaning of that message.
const APM_REASON: &str = "RoCE devices refuse path migration (errno 22)";

/// Where the tour takes place.
#[derive(Clone, Debug)]
pub struct Demo {
    /// Where the programs are.
    pub bin_dir: PathBuf,
    /// Name of the fabric, if not the names of its devices.
    pub fabric_name: Option<String>,
    /// Address of the RDMA device; on two hosts, the server's.
    pub address: String,
    /// Where the clients run, if not here.
    pub client_host: Option<ClientHost>,
    /// Other hosts that agents run the sides on.
    pub hosts: Hosts,
    /// The client's address, if it has its own.
    pub client_address: Option<String>,
    /// Index of these addresses in the devices' tables of GIDs, of the server's and the client's.
    pub gid_indices: [u16; 2],
    /// Is the device soft-hca's?
    pub on_soft_hca: bool,
    /// The device is an InfiniBand one: addresses are LIDs, and no GID is named.
    pub by_lid: bool,
    /// The devices on which a path can migrate, if there are such.
    pub migration: Option<Migration>,
    /// The cable of the port that the path begins at is pulled in the middle.
    pub pulls_cable: bool,
    /// Time limit of each pair.
    pub limit: Duration,
}

/// How a pair did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    /// Not 0, but as it has to be on this fabric, and why.
    Expected(&'static str),
    Failed(String),
}

impl Demo {
    /// On soft-hca, on this host, at the device's address.
    pub fn on_soft_hca(bin_dir: PathBuf, address: &str) -> Self {
        let hosts = Hosts { bin_dir: bin_dir.clone(), ..Hosts::default() };
        Self {
            bin_dir,
            fabric_name: None,
            address: address.to_owned(),
            client_host: None,
            hosts,
            client_address: None,
            gid_indices: [1; 2],
            on_soft_hca: true,
            by_lid: false,
            migration: None,
            pulls_cable: false,
            limit: Duration::from_secs(120),
        }
    }

    /// Runs every example but a faulty one, with a line for each and a table at the end. True if
    /// all went as expected.
    pub fn tour(&self) -> Result<bool, Error> {
        let mut rows = Vec::new();
        print(&format!("{}\n", self.fabric()))?;
        for example in sound() {
            print(&format!("{:<13} ", example.name))?;
            let (outcome, verdict) =
                self.play(example, self.plan(example, None)?, &mut Unobserved)?;
            let time = outcome.elapsed.as_secs_f64();
            let text = match &verdict {
                Verdict::Ok => "ok".to_owned(),
                Verdict::Expected(why) => format!("as expected: {why}\n{}", evidence(&outcome)),
                Verdict::Failed(why) => format!("FAILED: {why}\n{}", everything(&outcome)),
            };
            let (first, more) = text.split_once('\n').unwrap_or((&text, ""));
            print(&format!("{first} ({time:.1} s)\n"))?;
            for line in more.lines() {
                print(&format!("             {line}\n"))?;
            }
            rows.push((example, verdict, time));
        }
        print(&table(&rows))?;
        Ok(rows.iter().all(|(_, verdict, _)| !matches!(verdict, Verdict::Failed(_))))
    }

    /// Runs one example with its output labelled. `flags` go to both sides; with
    /// none the example's own defaults are kept short. True if it went as expected.
    pub fn example(&self, name: &str, flags: &[OsString]) -> Result<bool, Error> {
        let example = Example::named(name).ok_or_else(|| {
            let names: Vec<_> = EXAMPLES.iter().map(|example| example.name).collect();
            Error::Usage(format!("no example is called {name:?}; there are {}", names.join(", ")))
        })?;
        let of_cable = words(migration::CABLE_FLAGS);
        let flags = if self.pulls_cable && flags.is_empty() { &of_cable } else { flags };
        let plan = self.plan(example, (!flags.is_empty()).then_some(flags))?;
        let mut text = format!("{}\n", self.fabric());
        for (side, program) in Side::BOTH.into_iter().zip([&plan.server, &client(&plan)]) {
            if let Some(program) = program {
                let label = label(example, side);
                text += &format!("{label}$ {}", example.binary(side));
                for arg in &program.args {
                    text += &format!(" {}", quoted(&arg.to_string_lossy()));
                }
                text += "\n";
            }
        }
        print(&text)?;
        let mut show =
            Labelled::with_labels(label(example, Side::Server), label(example, Side::Client));
        let (outcome, verdict) = match self.cable(example) {
            Some(migration) => self.play(example, plan, &mut Cable::new(migration, &mut show))?,
            None => self.play(example, plan, &mut show)?,
        };
        show.finish().map_err(Error::write(Path::new("standard output")))?;
        let word = match &verdict {
            Verdict::Ok => "ok".to_owned(),
            Verdict::Expected(why) => format!("as expected: {why}"),
            Verdict::Failed(why) => format!("FAILED: {why}"),
        };
        print(&format!("{name}: {word} ({:.1} s)\n", outcome.elapsed.as_secs_f64()))?;
        Ok(!matches!(verdict, Verdict::Failed(_)))
    }

    /// The first line: which fabric the programs use.
    pub(crate) fn fabric(&self) -> String {
        if let Some(name) = &self.fabric_name {
            return format!("fabric: {name}");
        }
        if self.on_soft_hca {
            return "fabric: soft-hca".to_owned();
        }
        let mut devices: Vec<_> = fs::read_dir("/sys/class/infiniband")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        devices.sort();
        match devices.as_slice() {
            [] => "fabric: none, this host has no RDMA device".to_owned(),
            names => format!("fabric: {} of this host", names.join(", ")),
        }
    }

    pub(crate) fn plan(
        &self,
        example: &Example,
        flags: Option<&[OsString]>,
    ) -> Result<Plan, Error> {
        let (server, client) = arguments(example, self.addresses(example), flags)?;
        self.plan_of(example, server, client)
    }

    /// A plan with these arguments of server and client.
    pub(crate) fn plan_of(
        &self,
        example: &Example,
        mut server: Option<Vec<OsString>>,
        mut client: Vec<OsString>,
    ) -> Result<Plan, Error> {
        let [of_server, of_client] = self.gid_indices.map(|index| (!self.by_lid).then_some(index));
        if let Some(server) = &mut server {
            set_gid_index(server, of_server);
        }
        set_gid_index(&mut client, of_client);
        let program = |side, args| example.program(&self.bin_dir, side, args);
        let plan = Plan {
            server: server.map(|args| program(Side::Server, args)),
            client: Some(Client::Program(program(Side::Client, client))),
            ready: example.ready(),
            ready_limit: self.limit,
            limit: self.limit,
            kill: None,
            server_stopped: false,
            served: example.served(),
        };
        if let Some(program) = plan.programs().find(|program| !program.path.exists()) {
            return Err(Error::Usage(format!(
                "there is no program {}: build the workspace first, or name the folder with --bin-dir",
                program.path.display()
            )));
        }
        Ok(plan)
    }

    /// The addresses that server and client are told.
    fn addresses(&self, example: &Example) -> [&str; 2] {
        if let Some(migration) = self.migration(example) {
            return [&migration.address; 2];
        }
        let own = self.client_address.as_ref().filter(|_| example.own_address);
        [&self.address, own.unwrap_or(&self.address)]
    }

    /// The devices on which the example's path can migrate, if it is the one that migrates.
    fn migration(&self, example: &Example) -> Option<&Migration> {
        self.migration.as_ref().filter(|_| example.name == migration::EXAMPLE)
    }

    /// The same if a cable is pulled, so that the path has to.
    fn cable(&self, example: &Example) -> Option<&Migration> {
        self.migration(example).filter(|_| self.pulls_cable)
    }

    /// Runs a plan on its hosts.
    pub(crate) fn play(
        &self,
        example: &Example,
        plan: Plan,
        observer: &mut dyn Observer,
    ) -> Result<(Outcome, Verdict), Error> {
        let played = self.hosts.play(self.on_its_hosts(example, plan), false, observer)?;
        let verdict = match played.not_started {
            Some(why) => Verdict::Failed(why),
            None => judge(example, &played.outcome, self.cable(example).is_some()),
        };
        Ok((played.outcome, verdict))
    }

    fn on_its_hosts(&self, example: &Example, mut plan: Plan) -> Plan {
        if let Some(migration) = self.migration(example) {
            return migration.on_devices(plan);
        }
        if let Some(host) = &self.client_host {
            if let Some(Client::Program(program)) = plan.client.take() {
                plan.client = Some(Client::Program(host.there(program)));
            }
        }
        plan
    }
}

/// Names the examples and what each shows.
pub fn list(out: &mut dyn Write) -> io::Result<()> {
    EXAMPLES.iter().try_for_each(|example| writeln!(out, "{:<13} {}", example.name, example.lesson))
}

fn client(plan: &Plan) -> Option<Program> {
    match &plan.client {
        Some(Client::Program(program)) => Some(program.clone()),
        Some(Client::Tcp(_)) | None => None,
    }
}

/// A single program is called by its name, not by a side.
fn label(example: &Example, side: Side) -> &'static str {
    match (example.sides, side) {
        (Sides::Single, _) => example.name,
        (_, Side::Server) => "server",
        (_, Side::Client) => "client",
    }
}

/// The argument lists of server and client. `--server ARGS` and `--client ARGS`
/// among the flags replace the whole list of one side.
fn arguments(
    example: &Example,
    [server_address, client_address]: [&str; 2],
    flags: Option<&[OsString]>,
) -> Result<(Option<Vec<OsString>>, Vec<OsString>), Error> {
    let mut own: [Option<Vec<OsString>>; 2] = [None, None];
    let mut both = Vec::new();
    let mut given = flags.unwrap_or_default().iter();
    while let Some(flag) = given.next() {
        let side = match flag.to_str() {
            Some("--server") => 0,
            Some("--client") => 1,
            _ => {
                both.push(flag.clone());
                continue;
            }
        };
        let text = given.next().ok_or_else(|| {
            Error::Usage(format!("{} needs the arguments of that side", flag.to_string_lossy()))
        })?;
        let words = text.to_string_lossy();
        own[side] = Some(words.split_whitespace().map(OsString::from).collect());
    }
    let both = if flags.is_some() { both } else { words(example.tour_flags()) };
    let [server, client] = own;
    let built = |side, address| example.arguments(side, address, &both);
    let server = server.or_else(|| built(Side::Server, server_address));
    let client = client.or_else(|| built(Side::Client, client_address)).unwrap_or_default();
    Ok((server.filter(|_| example.sides != Sides::Single), client))
}

/// Of a command line as the example's table has it: the first `-g 1` is of the table. Without an
/// index no GID is named, as on InfiniBand, where none is needed.
fn set_gid_index(args: &mut Vec<OsString>, index: Option<u16>) {
    let Some(at) = args.windows(2).position(|words| words == ["-g", "1"]) else { return };
    match index {
        Some(index) => args[at + 1] = index.to_string().into(),
        None => drop(args.drain(at..at + 2)),
    }
}

fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

/// How a run of the pair has to be taken on this fabric.
pub(crate) fn judge(example: &Example, outcome: &Outcome, must_migrate: bool) -> Verdict {
    if let Some(why) = &outcome.never_ready {
        return Verdict::Failed(why.clone());
    }
    let sides: &[Side] = if example.sides == Sides::Single { &[Side::Client] } else { &Side::BOTH };
    if sides.iter().all(|&side| example.has_ended_well(side, outcome.ending(side))) {
        let has_migrated = |&side: &Side| {
            let lines = outcome.transcript.stream(side, Stream::Stdout);
            lines.iter().any(|line| line == migration::MIGRATED)
        };
        return if !must_migrate || sides.iter().all(has_migrated) {
            Verdict::Ok
        } else {
            Verdict::Failed("the path has not migrated on both sides".to_owned())
        };
    }
    let refused = |&side: &Side| {
        outcome.ending(side) == Some(Ending::Code(22))
            && outcome.transcript.stream(side, Stream::Stderr) == [APM_REFUSED]
    };
    if example.name == migration::EXAMPLE && sides.iter().all(refused) {
        return Verdict::Expected(APM_REASON);
    }
    let endings: Vec<_> = sides
        .iter()
        .map(|&side| {
            let ending = outcome.ending(side).map_or("nothing".to_owned(), |e| e.to_string());
            format!("{} ended with {ending}", label(example, side))
        })
        .collect();
    Verdict::Failed(endings.join(", "))
}

/// The lines on standard error of both sides.
fn evidence(outcome: &Outcome) -> String {
    labelled(outcome, |line| line.stream == Stream::Stderr)
}

fn everything(outcome: &Outcome) -> String {
    labelled(outcome, |_| true)
}

fn labelled(outcome: &Outcome, wanted: impl Fn(&crate::transcript::Line) -> bool) -> String {
    let lines = outcome.transcript.lines().iter().filter(|line| wanted(line));
    lines.map(|line| format!("{}| {}\n", line.side, line.marked())).collect()
}

fn table(rows: &[(&Example, Verdict, f64)]) -> String {
    let result = |verdict: &Verdict| match verdict {
        Verdict::Ok => "ok",
        Verdict::Expected(_) => "as expected*",
        Verdict::Failed(_) => "FAILED",
    };
    let shows = rows.iter().map(|(example, ..)| example.lesson.len()).max().unwrap_or(0);
    let row = |example: &str, lesson: &str, result: &str, time: &str| {
        format!("{example:<13} {lesson:<shows$} {result:<12} {time:>7}\n")
    };
    let mut text = "\n".to_owned() + &row("example", "what it shows", "result", "time");
    for (example, verdict, time) in rows {
        text += &row(example.name, example.lesson, result(verdict), &format!("{time:.1} s"));
    }
    let failed =
        rows.iter().filter(|(_, verdict, _)| matches!(verdict, Verdict::Failed(_))).count();
    text += &format!("\n{} of {} examples ran as expected\n", rows.len() - failed, rows.len());
    for (example, verdict, _) in rows {
        if let Verdict::Expected(why) = verdict {
            text += &format!("* {}: {why}\n", example.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::{Line, Transcript};

    fn args(name: &str, flags: Option<&[&str]>) -> (Option<String>, String) {
        let example = Example::named(name).unwrap();
        let flags: Option<Vec<OsString>> =
            flags.map(|flags| flags.iter().map(OsString::from).collect());
        let (server, client) = arguments(example, ["10.0.0.7"; 2], flags.as_deref()).unwrap();
        let text = |args: Vec<OsString>| args.join(" ".as_ref()).into_string().unwrap();
        (server.map(text), text(client))
    }

    #[test]
    fn each_side_gets_its_own_arguments_and_the_flags() {
        assert_eq!(
            args("ping-sr-1", Some(&["-c", "3", "-t"])),
            (Some("-a 10.0.0.7 -c 3 -t".into()), "-a 10.0.0.7 -c 3 -t".into())
        );
        assert_eq!(
            args("rc-example", Some(&["-p", "5000"])),
            (Some("-g 1 -p 5000".into()), "-g 1 -p 5000 10.0.0.7".into())
        );
        assert_eq!(args("device-list", None), (None, String::new()));
        let (server, client) = args("srq", None);
        assert!(server.unwrap().starts_with("-s -a 10.0.0.7 -c "));
        assert!(client.starts_with("-a 10.0.0.7 -c "));
    }

    #[test]
    fn a_side_can_be_given_its_whole_command_line() {
        let flags = ["--server", "-g 0", "--client", "-g 0 10.0.0.8"];
        assert_eq!(args("rc-example", Some(&flags)), (Some("-g 0".into()), "-g 0 10.0.0.8".into()));
        let example = Example::named("mc").unwrap();
        assert!(arguments(example, ["10.0.0.7"; 2], Some(&["--client".into()])).is_err());
    }

    #[test]
    fn each_host_has_its_own_index_of_a_gid() {
        let mut words = words("-g 1 -g 1 10.0.0.7");
        set_gid_index(&mut words, Some(3));
        assert_eq!(words, ["-g", "3", "-g", "1", "10.0.0.7"]);
        words.truncate(2);
        set_gid_index(&mut words, Some(4));
        assert_eq!(words, ["-g", "3"]);
    }

    #[test]
    fn without_an_index_no_gid_is_named() {
        for (given, left) in [("-g 1 10.0.0.7", "10.0.0.7"), ("-g 0 10.0.0.7", "-g 0 10.0.0.7")] {
            let mut given = words(given);
            set_gid_index(&mut given, None);
            assert_eq!(given, words(left));
        }
    }

    #[test]
    fn a_client_on_another_host_is_called_as_here_and_may_have_its_own_address() {
        let demo = Demo {
            bin_dir: "/b".into(),
            fabric_name: None,
            address: "10.0.0.7".into(),
            client_host: Some(ClientHost { by: "/there".into() }),
            hosts: Hosts::default(),
            client_address: Some("10.0.0.8".into()),
            gid_indices: [1, 3],
            on_soft_hca: false,
            by_lid: false,
            migration: None,
            pulls_cable: false,
            limit: Duration::ZERO,
        };
        let addresses = |name| demo.addresses(Example::named(name).unwrap());
        assert_eq!(addresses("mc"), ["10.0.0.7", "10.0.0.8"]);
        assert_eq!(addresses("srq"), ["10.0.0.7", "10.0.0.7"]);
        let program = Example::named("ping-sr-1").unwrap().program(
            &demo.bin_dir,
            Side::Client,
            vec!["-c".into(), "3".into()],
        );
        let there = demo.client_host.unwrap().there(program);
        assert_eq!(there.path, Path::new("/there"));
        assert_eq!(there.args[3..], ["./client", "/b/ping-sr-1-client", "-c", "3"]);
    }

    fn outcome(server: i32, client: i32, message: &str) -> Outcome {
        let mut transcript = Transcript::default();
        for side in Side::BOTH {
            transcript.push(Line {
                side,
                stream: Stream::Stderr,
                at: Duration::ZERO,
                text: message.to_owned(),
                complete: true,
            });
        }
        Outcome {
            server: Some(Ending::Code(server)),
            client: Some(Ending::Code(client)),
            transcript,
            began: std::time::SystemTime::UNIX_EPOCH,
            elapsed: Duration::ZERO,
            never_ready: None,
        }
    }

    #[test]
    fn only_apm_may_be_refused_and_only_with_its_message() {
        let apm = Example::named("apm").unwrap();
        let mc = Example::named("mc").unwrap();
        assert_eq!(judge(apm, &outcome(0, 0, ""), false), Verdict::Ok);
        assert!(matches!(judge(apm, &outcome(0, 0, ""), true), Verdict::Failed(_)));
        assert!(matches!(judge(apm, &outcome(22, 22, APM_REFUSED), false), Verdict::Expected(_)));
        assert!(matches!(judge(apm, &outcome(22, 22, "other"), false), Verdict::Failed(_)));
        assert!(matches!(judge(apm, &outcome(22, 0, APM_REFUSED), false), Verdict::Failed(_)));
        assert!(matches!(judge(mc, &outcome(22, 22, APM_REFUSED), true), Verdict::Failed(_)));
        assert!(matches!(judge(mc, &outcome(0, 1, ""), true), Verdict::Failed(_)));
    }
}
