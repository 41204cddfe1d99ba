//! `soft-hca doctor -- CMD`: runs a program, and says of each process that has a libibverbs whether it has found
//! the device, and why not.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use soft_hca_core::config;
use soft_hca_core::notes::{self, FOLDER};

use super::image::Image;
use super::judgement::{Process, judge};
use super::trace::{self, Seen};
use crate::run::{self, Options};
use crate::{Error, cannot, preload};

/// The exit status of a program that ends well, and of which no process has found the device.
pub const UNUSED: u8 = 67;

/// The hidden subcommand that waits to be traced and then becomes the program.
pub const START_SUBCOMMAND: &str = "doctor-start";

/// Observations of a process: one for each program that it has been.
struct Run {
    pid: u32,
    image: Image,
    /// The program that the library did not get past, if the one before still had it.
    removed_by: Option<PathBuf>,
}

/// All programs, in the order in which they began.
struct Runs {
    runs: Vec<Run>,
    /// The last program of each process.
    last: HashMap<u32, usize>,
    /// Our library, as programs have it in their environment.
    library: PathBuf,
}

impl Runs {
    /// The program that a process is, or its parent if it has been none yet.
    fn of(&self, pid: u32) -> Option<&Run> {
        let found = self.last.get(&pid).copied();
        let found = found.or_else(|| self.last.get(&parent(pid)?).copied())?;
        self.runs.get(found)
    }
}

impl Seen for Runs {
    fn begins(&mut self, pid: u32) {
        let image = Image::new(pid);
        let before = self.of(pid);
        let is_lost = !image.names(&self.library);
        let removed_by = before.filter(|_| is_lost).and_then(|before| {
            let lost_here = before.image.names(&self.library).then(|| before.image.exe.clone());
            lost_here.or_else(|| before.removed_by.clone())
        });
        self.last.insert(pid, self.runs.len());
        self.runs.push(Run { pid, image, removed_by });
    }

    fn ends(&mut self, pid: u32) {
        if let Some(run) = self.last.get(&pid).and_then(|at| self.runs.get_mut(*at)) {
            run.image.look(pid);
            return;
        }
        // A child that is still what its parent is.
        let Some(before) = self.of(pid) else { return };
        let (mut image, removed_by) = (before.image.clone(), before.removed_by.clone());
        image.mapped.clear();
        image.look(pid);
        self.last.insert(pid, self.runs.len());
        self.runs.push(Run { pid, image, removed_by });
    }
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Runs a program in its fabric and says what became of it. Gives the exit status: its own, or [`UNUSED`].
pub fn program(options: &Options) -> Result<u8, Error> {
    let (program, membership) = run::prepare(options)?;
    let library = preload::loadable(&preload::library()?, &membership.dir)?;
    let folder = membership.dir.join(FOLDER);
    match fs::create_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(cannot(format!("create {}", folder.display()))(error));
        }
        _ => {}
    }
    let mut runs = Runs { runs: Vec::new(), last: HashMap::new(), library };
    let status = traced(&program, &mut runs);
    // Those that the program has left behind.
    let seen = runs.last.keys().copied();
    let left: Vec<u32> = seen.filter(|pid| runs.is_missing(*pid)).collect();
    left.into_iter().for_each(|pid| runs.ends(pid));
    // A process that has become another program at once is not looked at.
    runs.runs.retain(|run| !run.image.mapped.is_empty());
    let processes = runs.runs.into_iter().map(|run| Process {
        notes: notes::of_process(&membership.dir, run.pid),
        pid: run.pid,
        image: run.image,
        removed_by: run.removed_by,
    });
    let judged = judge(processes.collect(), &membership.dir, &membership.sysfs);
    let _ = fs::remove_dir_all(folder);
    drop(membership);
    let status = status?;
    if judged.text.is_empty() {
        return Ok(status);
    }
    // Where nobody reads it there is nobody to tell.
    let _ = io::stderr().write_all(judged.text.as_bytes());
    Ok(if status == 0 && !judged.is_found { UNUSED } else { status })
}

impl Runs {
    /// Whether nothing was seen yet of what a process has in its memory.
    fn is_missing(&self, pid: u32) -> bool {
        let run = self.last.get(&pid).and_then(|at| self.runs.get(*at));
        run.is_some_and(|run| run.image.mapped.is_empty())
    }
}

/// Runs a program and sees all that it starts.
fn traced(program: &Command, runs: &mut Runs) -> Result<u8, Error> {
    let exe = std::env::current_exe().map_err(cannot("find the command's own file"))?;
    let mut starter = Command::new(exe);
    starter.arg(START_SUBCOMMAND).arg("--").arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            starter.env(name, value);
        }
    }
    let child = starter.spawn().map_err(cannot("start the program"))?;
    let pid = child.id();
    let traced = trace::trace(pid, runs);
    traced.map_err(|error| {
        // It waits still, and nobody else knows of it.
        super::trace::kill(pid);
        cannot("look into the program, for which ptrace has to be allowed")(error)
    })
}

/// Waits to be traced, then becomes the program. Comes back only if that fails.
pub fn start(command: &[OsString]) -> Error {
    trace::stop();
    let (program, arguments) = command.split_first().expect("the command line has a program");
    let error = Command::new(program).args(arguments).stdin(Stdio::inherit()).exec();
    Error::Exec(program.clone(), error)
}

/// The name of a fabric for one command.
pub fn own_fabric() -> Result<config::FabricName, Error> {
    format!("doctor-{}", std::process::id()).parse().map_err(Error::Config)
}
