//! A hostile program of a fabric, which asks helpers and the daemon for memory of others, and gets none
//! of it that it may not have: `docs/security.md` has the model.
//!
//! See `stock.rs` about programs that are not installed.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread;

use programs::arena::Arena;
use programs::filter::forbid_reaching;
use programs::forger::{Answer, Forger, Stretch, Way};
use programs::place::Place;
use programs::program::Program;
use programs::{compile, signal, skipped};
use rustix::process::Uid;
use soft_hca_core::engine::DAEMON;
use soft_hca_core::rpc::{Connection, FileKind, Hello, Request};
use soft_hca_core::system;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/security/victim.c");

/// The length of each area's part that is registered, or was; as many bytes lie before it, more behind.
const PART: u64 = 1024;

/// The line of an unreadable program that opens the device.
const UNREADABLE: &str =
    "soft-hca: this program is unreadable, but all programs of its fabric can write";

/// The process that reaches the victim's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// The daemon reaches it, and copies.
    ByTheDaemon,
    /// A filter keeps the victim from reaching others: a thread of its own copies.
    ByItself,
    /// The victim has made itself unreadable, which keeps all but root from reaching it.
    Unreadable,
}

/// A program with memory that no other may read or write.
struct Victim {
    program: Program,
    /// Start and key of the registered part of each area.
    areas: BTreeMap<String, (u64, u32)>,
}

impl Victim {
    fn start(place: &Place, file: &str, reached: Reached) -> Self {
        let argument = if reached == Reached::Unreadable { "unreadable" } else { "open" };
        let line = format!("{file} {argument}");
        let mut program = match reached {
            Reached::ByTheDaemon => place.start(&line),
            _ => place.start_in(&line, |command| forbid_reaching(command, libc::EPERM)),
        };
        let output = program.output_file();
        let is_waiting = || fs::read_to_string(&output).unwrap().ends_with("waits\n");
        program.wait_until(is_waiting);
        let text = program.output();
        let area = |line: &str| {
            let [name, addr, key] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
            Some((name.to_string(), (addr.parse().ok()?, key.parse().ok()?)))
        };
        Self { program, areas: text.lines().filter_map(area).collect() }
    }

    /// A stretch that begins so many bytes behind the start of the registered part of an area.
    fn part(&self, process: usize, area: &str, start: i64, length: u64) -> Stretch {
        let (addr, key) = self.areas[area];
        Stretch { process, addr: addr.wrapping_add_signed(start), length, key }
    }

    /// Asserts that only memory that is registered as writable was written.
    fn assert_intact(mut self) {
        signal::user(&self.program);
        let text = self.program.succeed();
        assert_eq!(text.matches(" is as it was\n").count(), self.areas.len(), "{text}");
    }
}

/// A hostile program asks for memory that it may not have, and gets none of it.
fn attack(name: &str, reached: Reached) {
    let place = Place::new(&format!("security-{name}"));
    let Some(file) = compile(&place, SOURCE, &["ibverbs"]) else { return };
    let keeper = place.keep();
    let victim = Victim::start(&place, &file, reached);
    let text = victim.program.output();
    assert_eq!(text.contains(UNREADABLE), reached == Reached::Unreadable, "{text}");
    let arena = Arena::of(&place);
    let process = arena.process(victim.program.pid());
    let forger = Forger(arena.mapping());
    let refused = |way, wanted: Stretch| {
        assert_eq!(forger.ask(way, wanted), Answer::Fault, "{way:?} {wanted:x?}");
    };
    let part = |area, start, length| victim.part(process, area, start, length);
    // A program may ask for memory that the victim has registered.
    for (way, area) in [(Way::Read, "readable"), (Way::Read, "writable"), (Way::Write, "writable")]
    {
        assert_eq!(forger.ask(way, part(area, 0, PART)), Answer::Moved, "{way:?} {area}");
    }
    for way in [Way::Read, Way::Write] {
        // The tables allow memory that was never registered, and memory that was deregistered.
        let secret = part("secret", 0, PART);
        let key = forger.invent(process, secret.addr, secret.length);
        refused(way, Stretch { key, ..secret });
        let gone = part("gone", 0, PART);
        forger.overwrite(gone.key, process, gone.addr, gone.length);
        refused(way, gone);
        // The range is beyond the region's bounds, or the key is another's.
        refused(way, part("writable", 0, PART + 1));
        refused(way, part("writable", -1, 2));
        refused(way, Stretch { addr: u64::MAX - 1, ..part("writable", 0, 8) });
        refused(way, Stretch { key: part("writable", 0, 1).key, ..part("readable", 0, 1) });
        refused(way, Stretch { key: 0, ..part("writable", 0, 1) });
    }
    // The region does not have the right, whatever the table says.
    refused(Way::Write, part("readable", 0, 1));
    let readable = part("readable", 0, PART);
    forger.overwrite(readable.key, process, readable.addr - PART, 4 * PART);
    refused(Way::Write, readable);
    refused(Way::Read, part("readable", -1, 1));
    refused(Way::Read, part("readable", 0, PART + 1));
    // The daemon itself has no registered memory, whatever a table says.
    let addr = forger.address_in_daemon();
    let key = forger.invent(DAEMON, addr, 8);
    for way in [Way::Read, Way::Write] {
        refused(way, Stretch { process: DAEMON, addr, length: 8, key });
        refused(way, Stretch { process: DAEMON, addr, length: 8, key: 0 });
    }
    victim.assert_intact();
    place.end(keeper);
}

#[test]
fn memory_that_the_daemon_copies() {
    attack("daemon", Reached::ByTheDaemon);
}

#[test]
fn memory_that_a_closed_program_copies() {
    attack("closed", Reached::ByItself);
}

#[test]
fn memory_of_an_unreadable_program() {
    attack("unreadable", Reached::Unreadable);
}

/// The table of processes does not lead the daemon to a process that is none of the fabric's, though the
/// system would let it go there.
#[test]
fn memory_of_a_stranger() {
    let place = Place::new("security-stranger");
    let Some(file) = compile(&place, SOURCE, &["ibverbs"]) else { return };
    let keeper = place.keep();
    let victim = Victim::start(&place, &file, Reached::ByTheDaemon);
    let arena = Arena::of(&place);
    let process = arena.process(victim.program.pid());
    let forger = Forger(arena.mapping());
    let wanted = victim.part(process, "writable", 0, PART);
    assert_eq!(forger.ask(Way::Write, wanted), Answer::Moved);
    // The test's own process takes the victim's entry: nothing is mapped here at the victim's addresses,
    // but it has a word that it can tell the daemon.
    let word = Box::new(0x5ec2_e700_u64);
    let addr = std::ptr::from_ref(&*word).expose_provenance() as u64;
    forger.impersonate(process, std::process::id(), (addr, *word));
    assert_eq!(forger.ask(Way::Write, wanted), Answer::Moved, "the victim all the same");
    victim.assert_intact();
    place.end(keeper);
}

/// The daemon turns away programs of another user, even one that gets to its socket.
#[test]
fn other_users() {
    const NOBODY: u32 = 65534;
    if system::user() != 0 {
        skipped("only root can become another user");
        return;
    }
    let place = Place::new("security-users");
    let keeper = place.keep();
    let fabric = place.fabric();
    let socket = fabric.join("socket");
    let ask = move || {
        let connection = Connection::connect(&socket).map_err(|error| error.kind())?;
        let hello = Hello { kind: FileKind::Observer, nonce_addr: 0, nonce: 0 };
        let sent = connection.send(&Request::Hello(hello).encode(), &[]);
        let answer = sent.and_then(|()| connection.receive());
        Ok(answer.is_ok_and(|(answer, _)| !answer.is_empty()))
    };
    let ask_as_other = {
        let ask = ask.clone();
        move || {
            // The call changes the user of this thread alone.
            rustix::thread::set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
            ask()
        }
    };
    let refused = thread::spawn(ask_as_other.clone()).join().unwrap();
    assert_eq!(refused, Err(std::io::ErrorKind::PermissionDenied), "the folder is private");
    for dir in [fabric.parent().unwrap(), &fabric, &fabric.join("socket")] {
        fs::set_permissions(dir, Permissions::from_mode(0o777)).unwrap();
    }
    assert_eq!(thread::spawn(ask_as_other).join().unwrap(), Ok(false), "another user");
    assert_eq!(thread::spawn(ask).join().unwrap(), Ok(true), "the same user");
    place.end(keeper);
}
