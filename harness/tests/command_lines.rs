//! The command-line cases, which need no RDMA device, against the programs that
//! the workspace has built.

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::examples::{Sides, sound};
use harness::private::{self, Network};
use harness::transcript::Side;

/// Where cargo has put the programs: this test is in `deps` below it.
fn bin_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().to_owned()
}

#[test]
fn command_lines_behave_as_those_of_the_c() {
    command_lines("golden", true);
}

#[test]
fn command_lines_of_the_exercises_are_those_of_their_neighbours() {
    command_lines("lessons", false);
}

/// Runs the cases of a command for the examples with a C original, or for those without.
fn command_lines(command: &str, original: bool) {
    let bin_dir = bin_dir();
    let mut harness = Command::new(env!("CARGO_BIN_EXE_harness"));
    harness.args([command, "--device", "any", "--bin-dir"]).arg(&bin_dir);
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let private = private::is_possible(Network::Loopback, &source.join("private-network.nsswitch"));
    if private {
        harness.arg("--private-network");
    }
    for example in sound().filter(|example| example.original == original) {
        let sides: &[Side] = match example.sides {
            Sides::TwoPrograms => &Side::BOTH,
            Sides::OneProgram | Sides::Single => &[Side::Client],
        };
        for &side in sides {
            let program = bin_dir.join(example.binary(side));
            assert!(
                program.exists(),
                "build the workspace first: {} is missing",
                program.display()
            );
        }
        // It says what devices there are, and is run in the lab.
        if example.sides == Sides::Single {
            continue;
        }
        if !private && example.name == "rc-example" {
            needs::skipped(
                "rc-example's connections depend on the host without a network of one's own",
            );
            continue;
        }
        harness.args(["--example", example.name]);
    }
    let output = harness.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("\n0 passed"), "nothing was compared");
}
