//! Children that `fork` gives the memory of registered regions: they live, and have their own copy of it.
//!
//! See `stock.rs` about programs that are not installed, and about those of another release; the package is
//! python3-pyverbs.

use programs::place::Place;
use programs::{assert_has, compile, pyverbs, release};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/forked/forked.c");

const EXPECTED: &str = "\
fork needs no preparation: yes
a message is the parent's: yes
the peer reads what is the parent's: yes
what is written is the parent's: yes
so is the rest: yes
the child keeps its own: yes
";

#[test]
fn parent_and_child_have_their_own_memory() {
    for hook in ["0", "1"] {
        let place = Place::new(&format!("forked-{hook}"));
        let Some(program) = compile(&place, SOURCE, &["ibverbs"]) else { return };
        let text = place.start_in(&program, |command| command.env("SOFT_HCA_HOOK", hook)).succeed();
        assert_eq!(text, EXPECTED, "SOFT_HCA_HOOK={hook}");
        place.assert_gone();
    }
}

/// The record shows the child, and `check` finds no mistake in that.
#[test]
fn a_child_that_lives_is_no_mistake() {
    let place = Place::new("forked-record");
    let Some(program) = compile(&place, SOURCE, &["ibverbs"]) else { return };
    let command = |arguments: &[&str]| {
        let output = place.command(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {text}");
        text
    };
    command(&["record", "-o", "run.shr", "--", &program]);
    let forks = ["fork(", "IBV_FORK_UNNEEDED"];
    let shown = command(&["show", "run.shr"]);
    assert!(shown.lines().any(|line| forks.iter().all(|part| line.contains(part))), "{shown}");
    assert_has(&command(&["check", "--record", "run.shr"]), &["Nothing was found."]);
    place.assert_gone();
}

/// The first release that asks the kernel before it hides registered memory from children.
const ASKS: u32 = 51;

/// The numbers are those of verbs.h: 2 is `IBV_FORK_UNNEEDED`.
const SCRIPT: &str = "
from pyverbs.device import Context
from pyverbs.fork import fork_init, is_fork_initialized
from pyverbs.mr import MR
from pyverbs.pd import PD
import os, signal

def child():
    'How a child ends that writes to the region.'
    mr = MR(PD(Context(name='rxe0')), 8192, 7)
    pid = os.fork()
    if pid == 0:
        mr.write('x' * 8192, 8192)
        os._exit(0)
    return os.waitpid(pid, 0)[1]

INIT
print(int(is_fork_initialized()), child(), flush=True)
os._exit(0)
";

/// A program that calls `ibv_fork_init` all the same; older releases then hide the memory on every kernel.
#[test]
fn children_live_with_and_without_preparation() {
    let Some(python) = pyverbs() else { return };
    let (major, _) = release();
    for (init, is_right) in [("", true), ("fork_init()", major >= ASKS)] {
        let place = Place::new(&format!("forked-init-{}", init.len()));
        let expected = if is_right { "2 0\n".into() } else { format!("2 {}\n", libc::SIGSEGV) };
        assert_eq!(place.python(&python, &SCRIPT.replace("INIT", init)), expected, "{init}");
        place.assert_gone();
    }
}
