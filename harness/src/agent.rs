//! Runs one program for somebody else: on another host, where the harness cannot see for
//! itself when a server listens, or to measure what the program costs.
//!
//! The program has the agent's output streams. The agent's own notes stand on standard
//! error, in lines that begin with a control character.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use crate::listen::Ready;
use crate::process::{Ending, await_exit};
use crate::transcript::Transcript;

/// Beginning of every line of an agent.
const MARK: &str = "\u{1}harness-agent: ";
/// How often the agent looks whether the server listens.
const TICK: Duration = Duration::from_millis(20);
/// How long a program may take that is told to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Cost of a program, as wait4(2) tells, and how long it has run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// From its start to its end.
    pub elapsed: Duration,
    /// Processor time in the program.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Time in which its first thread could have run, and others had the processors. 0 where the kernel does not count it.
    pub ready: Duration,
    /// Most memory that was resident at once, in KiB.
    pub peak_kib: u64,
}

impl Usage {
    /// Processor time.
    pub fn processor(&self) -> Duration {
        self.user + self.system
    }
}

/// A note of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The program listens.
    Listening,
    /// The program could not be started, and why.
    NotStarted(String),
    /// The program has ended.
    Ended(Ending, Usage),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Listening => write!(f, "{MARK}listening"),
            Note::NotStarted(why) => write!(f, "{MARK}not started: {why}"),
            Note::Ended(ending, usage) => write!(
                f,
                "{MARK}ended, {} {} {} {} {} {ending}",
                usage.elapsed.as_micros(),
                usage.user.as_micros(),
                usage.system.as_micros(),
                usage.ready.as_micros(),
                usage.peak_kib
            ),
        }
    }
}

impl FromStr for Note {
    type Err = String;

    fn from_str(text: &str) -> Result<Note, String> {
        let said = text.strip_prefix(MARK).ok_or("no line of an agent")?;
        if said == "listening" {
            return Ok(Note::Listening);
        }
        if let Some(why) = said.strip_prefix("not started: ") {
            return Ok(Note::NotStarted(why.to_owned()));
        }
        let words = said.strip_prefix("ended, ").ok_or("an unknown line of an agent")?;
        let mut words = words.splitn(6, ' ');
        let mut number = || {
            let word = words.next().ok_or("a number is missing")?;
            word.parse::<u64>().map_err(|error| error.to_string())
        };
        let mut time = || number().map(Duration::from_micros);
        let (elapsed, user, system, ready) = (time()?, time()?, time()?, time()?);
        let usage = Usage { elapsed, user, system, ready, peak_kib: number()? };
        let ending = words.next().ok_or("no ending")?.parse()?;
        Ok(Note::Ended(ending, usage))
    }
}

impl Note {
    /// Takes an agent's words out of a line: what the program has printed there before, and
    /// what the agent says.
    pub fn split(line: &str) -> Option<(&str, Note)> {
        let at = line.find(MARK)?;
        Some((&line[..at], line[at..].parse().ok()?))
    }
}

/// A program and what there is to look after.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The file.
    pub program: OsString,
    /// Its argv\[0\], if not the file.
    pub arg0: Option<OsString>,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Tell when it listens.
    pub ready: Option<Ready>,
    /// End it after this time, or when nobody reads its output any more.
    pub limit: Option<Duration>,
    /// End it when standard input ends.
    pub until_input_ends: bool,
}

impl Agent {
    /// Runs the program to its end. Returns what a shell would return for it.
    pub fn run(self) -> u8 {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env("LC_ALL", "C").stdin(Stdio::null());
        if let Some(arg0) = &self.arg0 {
            command.arg0(arg0);
        }
        let start = Instant::now();
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let why = format!("{}: {error}", self.program.to_string_lossy());
                say(&Note::NotStarted(why));
                return 127;
            }
        };
        // The process that stops the program's group wants to know from us how the program has ended.
        // SAFETY: no handler is installed, and the program has been started.
        unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
        let pid = child.id();
        let (stop, stopped) = mpsc::channel::<()>();
        let watched = self.ready.is_some() || self.limit.is_some() || self.until_input_ends;
        let input = self.until_input_ends.then(input_ends);
        let watch = watched.then(|| {
            thread::spawn(move || {
                let Agent { ready, limit, .. } = self;
                let mut watch = Watch { pid, ready, limit, input, told_at: None, start };
                while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    watch.look();
                }
                watch.timed_out()
            })
        });
        await_exit(pid);
        let elapsed = start.elapsed();
        drop(stop);
        // Until here the id is the program's: nobody has collected it.
        let timed_out = watch.is_some_and(|watch| watch.join().unwrap_or(false));
        let (status, usage) = match collect(pid, elapsed) {
            Ok(collected) => collected,
            Err(error) => {
                say(&Note::NotStarted(format!("wait4: {error}")));
                return 127;
            }
        };
        let ending = match status.into() {
            Ending::Signal(libc::SIGKILL) if timed_out => Ending::TimedOut,
            ending => ending,
        };
        say(&Note::Ended(ending, usage));
        match ending {
            Ending::Code(code) => code as u8,
            Ending::Signal(signal) => 128 + signal as u8,
            Ending::TimedOut => 124,
        }
    }
}

/// The program while it runs.
struct Watch {
    pid: u32,
    /// Not once it has been told.
    ready: Option<Ready>,
    limit: Option<Duration>,
    /// Disconnected when standard input has ended.
    input: Option<Receiver<()>>,
    /// When it was told to end because of that.
    told_at: Option<Instant>,
    start: Instant,
}

impl Watch {
    fn look(&mut self) {
        if let Some(ready) = &self.ready {
            // SAFETY: getpgrp(2) has no arguments and cannot fail.
            let group = unsafe { libc::getpgrp() }.unsigned_abs();
            // If it cannot be seen, the other side gives up after its own time.
            if ready.condition().is_ready(group, &Transcript::default()).unwrap_or(false) {
                say(&Note::Listening);
                self.ready = None;
            }
        }
        let ended = |input: &Receiver<()>| input.try_recv() == Err(TryRecvError::Disconnected);
        if self.told_at.is_none() && self.input.as_ref().is_some_and(ended) {
            self.told_at = Some(Instant::now());
            self.signal(libc::SIGTERM);
        }
        let is_deaf = self.told_at.is_some_and(|at| at.elapsed() >= PATIENCE);
        if is_deaf || self.limit.is_some() && (self.timed_out() || nobody_reads()) {
            self.signal(libc::SIGKILL);
        }
    }

    fn signal(&self, signal: i32) {
        let Ok(pid) = libc::pid_t::try_from(self.pid) else { return };
        // SAFETY: kill(2) takes two numbers. The process has not been collected, so
        // that the id is still its own.
        unsafe { libc::kill(pid, signal) };
    }

    fn timed_out(&self) -> bool {
        self.limit.is_some_and(|limit| self.start.elapsed() >= limit)
    }
}

/// A channel that is disconnected when standard input has ended.
fn input_ends() -> Receiver<()> {
    let (open, input) = mpsc::channel();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(open);
    });
    input
}

/// Has the other end of standard error gone?
fn nobody_reads() -> bool {
    let mut stderr = libc::pollfd { fd: libc::STDERR_FILENO, events: 0, revents: 0 };
    // SAFETY: one valid pollfd that outlives the call, which does not wait.
    let found = unsafe { libc::poll(&mut stderr, 1, 0) };
    found > 0 && stderr.revents & (libc::POLLERR | libc::POLLHUP) != 0
}

/// How long a process's first thread could have run without a processor: the second number of `schedstat`, in
/// nanoseconds (Documentation/scheduler/sched-stats.rst).
fn ready_time(pid: u32) -> Option<Duration> {
    let times = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    Some(Duration::from_nanos(times.split_whitespace().nth(1)?.parse().ok()?))
}

/// Collects an ended process.
fn collect(pid: u32, elapsed: Duration) -> io::Result<(ExitStatus, Usage)> {
    let id = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    let (ready, mut status) = (ready_time(pid).unwrap_or_default(), 0);
    // SAFETY: all zeroes is a valid rusage, a plain C struct.
    let mut spent: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables of the right types.
    if unsafe { libc::wait4(id, &mut status, 0, &mut spent) } != id {
        return Err(io::Error::last_os_error());
    }
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs())
            + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    let usage = Usage {
        elapsed,
        user: time(spent.ru_utime),
        system: time(spent.ru_stime),
        ready,
        peak_kib: spent.ru_maxrss.unsigned_abs(),
    };
    Ok((ExitStatus::from_raw(status), usage))
}

fn say(note: &Note) {
    // In one write, so that no other line gets in between. If nobody listens any more there
    // is nobody to tell.
    let _ = io::stderr().write_all(format!("{note}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_read_as_they_are_written() {
        let usage = Usage {
            elapsed: Duration::from_micros(5),
            user: Duration::from_micros(6),
            system: Duration::from_micros(7),
            ready: Duration::from_micros(8),
            peak_kib: 9,
        };
        for note in [
            Note::Listening,
            Note::NotStarted("x: no".into()),
            Note::Ended(Ending::Signal(11), usage),
            Note::Ended(Ending::TimedOut, usage),
        ] {
            assert_eq!(note.to_string().parse(), Ok(note.clone()));
            let line = format!("no newline{note}");
            assert_eq!(Note::split(&line), Some(("no newline", note)));
        }
        assert_eq!(Note::split("harness-agent: listening"), None);
    }
}
