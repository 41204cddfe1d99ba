//! Runs of `soft-hca run --seeds` that go on at once: each in a process of its own, whose output is kept until its turn
//! comes.

use std::collections::VecDeque;
use std::env;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

use super::record::signals;
use super::{Error, cannot};

/// How often it is looked whether a run has ended.
const PERIOD: Duration = Duration::from_millis(5);

/// A run that goes on, or has ended and is not asked for yet.
#[derive(Debug)]
struct Run {
    seed: u64,
    file: PathBuf,
    child: Child,
    output: File,
    errors: File,
}

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its seed.
    pub seed: u64,
    /// Its record.
    pub file: PathBuf,
    /// Its exit status.
    pub status: u8,
}

/// Runs, in the order of their seeds.
#[derive(Debug, Default)]
pub(super) struct AtOnce(VecDeque<Run>);

impl AtOnce {
    /// How many are there.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Begins a run with a seed, whose record is to be in a file that is there.
    pub(super) fn begin(&mut self, seed: u64, file: PathBuf) -> Result<(), Error> {
        let failed = || cannot("start another run");
        let [output, errors] = [kept().map_err(failed())?, kept().map_err(failed())?];
        let clone = |file: &File| file.try_clone().map(Stdio::from).map_err(failed());
        let mut command = Command::new(env::current_exe().map_err(failed())?);
        command
            .arg("run")
            .arg(format!("--one={seed}"))
            .arg("--record")
            .arg(&file)
            // The rest of this line, behind `soft-hca run`.
            .args(env::args_os().skip(2))
            .stdin(Stdio::null())
            .stdout(clone(&output)?)
            .stderr(clone(&errors)?);
        signals::heed();
        let child = command.spawn().map_err(failed())?;
        self.0.push_back(Run { seed, file, child, output, errors });
        Ok(())
    }

    /// Waits for the first one, and prints its output.
    pub(super) fn end_first(&mut self) -> Result<Option<Ended>, Error> {
        let status = loop {
            for signal in signals::taken() {
                self.0.iter().for_each(|run| signal.pass_on(run.child.id(), false));
                signal.obey();
            }
            let Some(first) = self.0.front_mut() else { return Ok(None) };
            match first.child.try_wait().map_err(cannot("wait for a run"))? {
                Some(status) => break status,
                None => thread::sleep(PERIOD),
            }
        };
        let Some(Run { seed, file, mut output, mut errors, .. }) = self.0.pop_front() else {
            return Ok(None);
        };
        let failed = || cannot("print what a run has printed");
        print(&mut output, &mut io::stdout()).map_err(failed())?;
        print(&mut errors, &mut io::stderr()).map_err(failed())?;
        let status = super::record::exit_status(status);
        Ok(Some(Ended { seed, file, status }))
    }
}

/// A file that is nowhere else.
fn kept() -> io::Result<File> {
    Ok(File::from(memfd_create("soft-hca-run", MemfdFlags::CLOEXEC)?))
}

/// Prints a file. A reader that has gone does not matter.
fn print(from: &mut File, to: &mut impl Write) -> io::Result<()> {
    from.rewind()?;
    match io::copy(from, to).and_then(|_| to.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}
