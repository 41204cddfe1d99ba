//! `mpi/exchange.c`, by the compiler and the launcher of an MPI.

use std::path::Path;
use std::process::Command;

use crate::place::Place;
use crate::program::Program;
use crate::{installed, ucx_has_verbs};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mpi/exchange.c");

/// More would be more than there are processors to poll on.
pub const RANKS: usize = 2;

/// An MPI of the distribution.
#[derive(Clone, Copy, Debug)]
pub struct Mpi {
    launcher: &'static str,
    compiler: &'static str,
}

/// Takes UCX by itself.
pub const MPICH: Mpi = Mpi { launcher: "mpirun.mpich", compiler: "mpicc.mpich" };

/// As root, too, and on a machine with one processor. It has to be told to take UCX.
pub const OPEN_MPI: Mpi = Mpi {
    launcher: "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca pml ucx",
    compiler: "mpicc.openmpi",
};

impl Mpi {
    /// Whether it is installed, as [`installed`] has it.
    pub fn is_installed(self) -> bool {
        let launcher = self.launcher.split_whitespace().next().unwrap();
        installed(&[launcher, self.compiler]) && ucx_has_verbs()
    }

    /// Compiles the program and starts it in a place.
    pub fn start(
        self,
        place: &Place,
        prepare: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Program {
        let file = place.file("exchange");
        let mut command = Command::new(self.compiler);
        command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).args([&file, Path::new(SOURCE)]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let line = format!("{} -n {RANKS} {}", self.launcher, file.display());
        // Open MPI has a folder for its sockets there.
        place.start_in(&line, |command| prepare(command.env("TMPDIR", place.file(""))))
    }
}
