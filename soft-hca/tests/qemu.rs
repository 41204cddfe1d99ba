//! QEMU's live migration over RDMA: source and target in one fabric.
//!
//! Needs the package qemu-system-x86; without it the tests are skipped, as in `stock.rs`. The guest is
//! a few instructions (`programs/guest.rs`), the processor is emulated. The large guest has 512 MiB, with
//! `SOFT_HCA_LONG=1` 3 GiB.

use serde_json::{Value, json};

use programs::guest;
use programs::machine::{Kind, Machine, Memory, QEMU};
use programs::place::Place;
use programs::{LOCALHOST, installed, is_long};

/// A port of the connection manager: each fabric has its own.
const PORT: u16 = 4444;

const SMALL: Kind = Kind { memory: Memory::Shared, mebibytes: 64 };

/// When the target gives the source access to its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Registration {
    /// MiB by MiB, as they are sent.
    Dynamic,
    /// All in the beginning: `rdma-pin-all`.
    PinAll,
}

const BOTH: [Registration; 2] = [Registration::Dynamic, Registration::PinAll];

/// Starts a target, and has a source of the same kind migrate to it in a certain way.
fn target(place: &Place, kind: Kind, source: &mut Machine, registration: Registration) -> Machine {
    let mut target = Machine::start_target(place, kind, PORT);
    let state = registration == Registration::PinAll;
    let pin_all = json!([{ "capability": "rdma-pin-all", "state": state }]);
    for machine in [source, &mut target] {
        machine.tell("migrate-set-capabilities", json!({ "capabilities": pin_all }));
    }
    target
}

fn migrate(source: &mut Machine) -> Result<Value, String> {
    source.ask("migrate", json!({ "uri": format!("rdma:{LOCALHOST}:{PORT}") }))
}

/// Migrates a guest with all checks, and ends both machines.
fn succeed(place: &Place, kind: Kind, mut source: Machine, registration: Registration) {
    let mut target = target(place, kind, &mut source, registration);
    // As fast as it goes; the end may take its time, as this guest never rests.
    let parameters = json!({ "max-bandwidth": 16u64 << 30, "downtime-limit": 100_000 });
    source.tell("migrate-set-parameters", parameters);
    migrate(&mut source).unwrap();
    let end = source.wait_for(|status| ["completed", "failed"].contains(&status));
    assert_eq!(end["status"], "completed", "{end}\n{}", source.program().output());
    target.wait_for(|status| status == "completed");
    assert_eq!([source.status(), target.status()], ["postmigrate", "paused"]);

    let counted = target.check_memory();
    source.assert_same_memory(&mut target);

    target.tell("cont", json!({}));
    target.assert_counts();
    target.tell("stop", json!({}));
    assert!(target.check_memory() > counted, "it has stayed at {counted}");
    // No letter is missing, none comes twice.
    let letters = [source.letters(), target.letters()].concat();
    assert!(letters.windows(2).all(|pair| pair[1] == guest::next(pair[0])), "{letters:?}");

    source.quit();
    target.quit();
    place.assert_gone();
}

fn migration(name: &str, kind: Kind, registration: Registration) {
    if !installed(&[QEMU]) {
        return;
    }
    let place = Place::new(name);
    let source = Machine::start(&place, kind);
    succeed(&place, kind, source, registration);
}

#[test]
fn a_small_guest_migrates() {
    migration("qemu-small", SMALL, Registration::Dynamic);
}

#[test]
fn a_small_guest_migrates_with_all_memory_pinned() {
    migration("qemu-small-pinned", SMALL, Registration::PinAll);
}

/// Not a size that is a power of two, and memory as QEMU has it without further options.
#[test]
fn a_guest_in_private_memory_migrates() {
    let kind = Kind { memory: Memory::Private, mebibytes: 100 };
    migration("qemu-private", kind, Registration::Dynamic);
}

#[test]
fn a_guest_in_private_memory_migrates_with_all_memory_pinned() {
    let kind = Kind { memory: Memory::Private, mebibytes: 100 };
    migration("qemu-private-pinned", kind, Registration::PinAll);
}

/// One way after the other, as two machines of 3 GiB are enough at a time.
#[test]
fn a_large_guest_migrates_both_ways() {
    let mebibytes = if is_long() { 3 << 10 } else { 512 };
    for registration in BOTH {
        migration("qemu-large", Kind { mebibytes, ..SMALL }, registration);
    }
}

#[test]
fn nobody_listens() {
    if !installed(&[QEMU]) {
        return;
    }
    let place = Place::new("qemu-nobody");
    let mut source = Machine::start(&place, SMALL);
    let error = migrate(&mut source).unwrap_err();
    assert!(error.contains("connecting to destination"), "{error}");
    let migration = source.migration();
    assert_eq!(migration["status"], "failed");
    assert_eq!(migration["error-desc"], error);
    source.assert_counts();
    place.assert_no_objects();
    succeed(&place, SMALL, source, Registration::Dynamic);
}

/// Starts a migration that would take half a minute, and comes back when some memory has moved.
fn begin(place: &Place, source: &mut Machine, registration: Registration) -> Machine {
    let target = target(place, SMALL, source, registration);
    source.tell("migrate-set-parameters", json!({ "max-bandwidth": 2 << 20 }));
    migrate(source).unwrap();
    source.wait_until_moved(2 << 20);
    assert_eq!(source.migration()["status"], "active");
    target
}

/// Migrations of one guest that come to nothing, both ways, and then one that succeeds.
fn interrupted(name: &str, interrupt: impl Fn(&mut Machine, &mut Machine)) {
    if !installed(&[QEMU]) {
        return;
    }
    let place = Place::new(name);
    let mut source = Machine::start(&place, SMALL);
    for registration in BOTH {
        let mut target = begin(&place, &mut source, registration);
        interrupt(&mut source, &mut target);
        source.assert_counts();
        place.assert_no_objects();
    }
    succeed(&place, SMALL, source, Registration::Dynamic);
}

#[test]
fn the_target_is_killed() {
    interrupted("qemu-target-killed", |source, target| {
        let before = source.program().output().len();
        target.program().kill();
        source.wait_for(|status| status == "failed");
        // Which words depends on what it was doing.
        let text = source.program().output().split_off(before);
        assert!(text.contains(&format!("{QEMU}: ")), "{text}");
    });
}

#[test]
fn a_migration_is_cancelled() {
    interrupted("qemu-cancelled", |source, target| {
        source.tell("migrate_cancel", json!({}));
        source.wait_for(|status| status == "cancelled");
        assert_eq!(target.program().wait().code(), Some(1));
        let text = target.program().output();
        assert!(text.contains("load of migration failed: "), "{text}");
    });
}

#[test]
fn the_source_is_killed() {
    if !installed(&[QEMU]) {
        return;
    }
    for registration in BOTH {
        let place = Place::new("qemu-source-killed");
        let mut source = Machine::start(&place, SMALL);
        let mut target = begin(&place, &mut source, registration);
        source.program().kill();
        assert_eq!(target.program().wait().code(), Some(1));
        let text = target.program().output();
        assert!(text.contains("load of migration failed: "), "{text}");
        place.assert_gone();
    }
}
