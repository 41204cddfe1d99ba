//! Installation by `cargo install`: the command and, as programs, the libraries that it preloads.
//!
//! See `stock.rs` about programs that are not installed; the package is ibverbs-utils.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol};
use programs::place::{Place, built};
use programs::{assert_has, installed};

/// Each library as it is built for packages and for `cargo install`, and the functions that the latter is to export.
const LIBRARIES: [[&str; 3]; 2] = [
    ["libsoft_hca_preload.so", "libsoft-hca-preload", include_str!("../exports/preload.txt")],
    ["libsoft_hca_faulty.so", "libsoft-hca-faulty", include_str!("../exports/faulty.txt")],
];

/// The functions that a library exports.
fn exported(library: &Path) -> BTreeSet<String> {
    let bytes = fs::read(library).unwrap();
    let file: ElfFile64<'_> = ElfFile64::parse(&*bytes).unwrap();
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    defined.map(|symbol| symbol.name().unwrap().to_string()).collect()
}

#[test]
fn both_forms_of_a_library_export_the_same() {
    for [library, program, listed] in LIBRARIES {
        let listed = listed.lines().map(String::from).collect::<BTreeSet<_>>();
        assert_eq!(exported(&built(library)), listed, "soft-hca/exports lists others: {library}");
        assert_eq!(exported(&built(program)), listed, "{program}");
    }
}

#[test]
fn a_library_that_is_run_says_so() {
    for [_, program, _] in LIBRARIES {
        let output = Command::new(built(program)).output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        assert!(output.stdout.starts_with(b"This is a library of soft-hca"), "{output:?}");
    }
}

#[test]
fn the_installed_files_alone_are_enough() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let mut place = Place::new("installed");
    let bin = place.file("bin");
    fs::create_dir(&bin).unwrap();
    for name in ["soft-hca", LIBRARIES[0][1], LIBRARIES[1][1]] {
        fs::copy(built(name), bin.join(name)).unwrap();
    }
    place.use_command(bin.join("soft-hca"));
    place.start("ibv_devinfo -d rxe0").succeed();
    let mut failing = place.command(&["run", "--fault", "ibv_open_device:errno=ENOMEM", "--"]);
    let output = failing.args(["ibv_devinfo", "-d", "rxe0"]).output().unwrap();
    assert!(!output.status.success());
    assert_has(&String::from_utf8_lossy(&output.stderr), &["Failed to open device"]);
    let output = place.command(&["doctor", "--", "ibv_devinfo", "-d", "rxe0"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_has(&String::from_utf8_lossy(&output.stderr), &["preloaded library: is in it"]);
    place.assert_gone();
}
