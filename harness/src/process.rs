//! One program under observation: started in its own process group, its output
//! read line by line, its end noticed by an event, killed with all its
//! descendants at the latest when the run is over.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Instant;

use crate::error::Error;
use crate::transcript::{Line, Side, Stream};

/// A longer line is cut into pieces of this many bytes.
const MAX_LINE: usize = 64 << 10;
/// Output beyond this many bytes of a stream is read and thrown away, so that a program
/// that prints for ever fills neither its pipe nor our memory.
const MAX_STREAM: usize = 16 << 20;

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// Text that the program finds in argv\[0\], if not the path: the examples print
    /// its last component.
    pub arg0: Option<OsString>,
    /// The arguments after argv\[0\].
    pub args: Vec<OsString>,
    /// Does it end with its standard input? That is a pipe then, which is closed instead of sending
    /// SIGTERM: a signal would not get to another host.
    pub ends_with_input: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// It ended by itself with this exit code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// It was still running when its time was over.
    TimedOut,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Code(code) => f.pad(&code.to_string()),
            Ending::Signal(signal) => f.pad(&format!("signal {signal}")),
            Ending::TimedOut => f.pad("timeout"),
        }
    }
}

impl FromStr for Ending {
    type Err = String;

    fn from_str(text: &str) -> Result<Ending, String> {
        let text = text.trim();
        let bad = |_| format!("{text:?} is no exit code, \"signal N\" or \"timeout\"");
        if text == "timeout" {
            Ok(Ending::TimedOut)
        } else if let Some(signal) = text.strip_prefix("signal ") {
            signal.parse().map(Ending::Signal).map_err(bad)
        } else {
            text.parse().map(Ending::Code).map_err(bad)
        }
    }
}

impl From<ExitStatus> for Ending {
    fn from(status: ExitStatus) -> Ending {
        match status.signal() {
            Some(signal) => Ending::Signal(signal),
            None => Ending::Code(status.code().unwrap_or(-1)),
        }
    }
}

/// Reports of the threads that watch a process.
#[derive(Debug)]
pub(crate) enum Event {
    /// A line of output.
    Line(Line),
    /// A stream is at its end.
    Closed(Side),
    /// The process is over and waits to be reaped.
    Exited(Side),
    /// The client was no process but a thread of ours, and is done.
    Done(Ending),
}

/// A started program.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// The standard input that it ends with.
    input: Option<ChildStdin>,
    open_streams: usize,
    ending: Option<Ending>,
}

impl Running {
    /// Starts `program`; everything it does arrives in `events`, timed from `start`.
    pub(crate) fn start(
        program: &Program,
        side: Side,
        start: Instant,
        events: &SyncSender<Event>,
    ) -> Result<Running, Error> {
        let mut command = Command::new(&program.path);
        if let Some(arg0) = &program.arg0 {
            command.arg0(arg0);
        }
        command
            .args(&program.args)
            .env("LC_ALL", "C")
            .stdin(if program.ends_with_input { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let parent = std::process::id();
        // SAFETY: `tie_to_parent` runs between fork and exec and makes only plain
        // system calls, which is all that is allowed there.
        unsafe {
            command.pre_exec(move || tie_to_parent(parent));
        }
        let mut child = command.spawn().map_err(|source| Error::Start {
            program: program.path.display().to_string(),
            source,
        })?;
        let stdout = child.stdout.take().map(|pipe| (Stream::Stdout, Box::new(pipe) as Box<_>));
        let stderr = child.stderr.take().map(|pipe| (Stream::Stderr, Box::new(pipe) as Box<_>));
        let mut open_streams = 0;
        for (stream, pipe) in stdout.into_iter().chain(stderr) {
            let events = events.clone();
            thread::spawn(move || {
                read_lines(pipe, |text, complete| {
                    let at = start.elapsed();
                    events.send(Event::Line(Line { side, stream, at, text, complete })).is_ok()
                });
                // Nobody listens any more if the run is over: nothing to do then.
                let _ = events.send(Event::Closed(side));
            });
            open_streams += 1;
        }
        let pid = child.id();
        let events = events.clone();
        thread::spawn(move || {
            await_exit(pid);
            let _ = events.send(Event::Exited(side));
        });
        let input = child.stdin.take();
        Ok(Running { child, input, open_streams, ending: None })
    }

    /// The process id, which is also the id of its group.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, once it has.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Nothing more will come from it.
    pub(crate) fn is_over(&self) -> bool {
        self.ending.is_some() && self.open_streams == 0
    }

    /// Takes note of [`Event::Closed`].
    pub(crate) fn stream_closed(&mut self) {
        self.open_streams = self.open_streams.saturating_sub(1);
    }

    /// Sends a signal to the whole group, unless the process is over.
    pub(crate) fn signal(&mut self, signal: i32) {
        if signal == libc::SIGTERM && self.input.take().is_some() {
            return;
        }
        if self.ending.is_none() {
            kill_group(self.pid(), signal);
        }
    }

    /// Takes note of [`Event::Exited`]: collects the exit status and ends what
    /// the program may have left behind. `timed_out` replaces the status of a
    /// process that we ended because its time was over.
    pub(crate) fn reap(&mut self, timed_out: bool) {
        if self.ending.is_some() {
            return;
        }
        // Until it is reaped the id cannot belong to anybody else.
        kill_group(self.pid(), libc::SIGKILL);
        self.ending = Some(match self.child.wait() {
            Ok(status) if timed_out && status.signal() == Some(libc::SIGKILL) => Ending::TimedOut,
            Ok(status) => status.into(),
            Err(_) => Ending::Code(-1),
        });
    }
}

impl Drop for Running {
    /// On the way out after an error.
    fn drop(&mut self) {
        self.reap(false);
    }
}

/// In the child: dies with the harness and leaves no core files.
fn tie_to_parent(parent: u32) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The harness may have died before the call above took effect.
    if std::os::unix::process::parent_id() != parent {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `none` is a valid rlimit that outlives the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Blocks until the process is over, without reaping it.
pub(crate) fn await_exit(pid: u32) {
    loop {
        // SAFETY: all zeroes is a valid siginfo_t, a plain C struct.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is writable and outlives the call.
        let ret =
            unsafe { libc::waitid(libc::P_PID, pid, &mut info, libc::WEXITED | libc::WNOWAIT) };
        if ret == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

fn kill_group(pid: u32, signal: i32) {
    if let Ok(pid) = libc::pid_t::try_from(pid) {
        // SAFETY: kill(2) takes two numbers and touches no memory. A group that is
        // gone already is no fault, so the result does not matter.
        unsafe { libc::kill(-pid, signal) };
    }
}

/// Reads a stream to its end and hands over each line, until `take` says false.
fn read_lines(pipe: Box<dyn Read + Send>, mut take: impl FnMut(String, bool) -> bool) {
    let mut reader = BufReader::new(pipe);
    let mut total = 0;
    loop {
        let mut bytes = Vec::new();
        let room = MAX_LINE as u64;
        match reader.by_ref().take(room).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(count) => total += count,
        }
        let complete = bytes.last() == Some(&b'\n');
        if complete {
            bytes.pop();
        }
        if total > MAX_STREAM {
            // Keep the pipe empty without keeping the text.
            let _ = io::copy(&mut reader, &mut io::sink());
            return;
        }
        if !take(String::from_utf8_lossy(&bytes).into_owned(), complete) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_read_as_they_are_written() {
        for ending in [Ending::Code(0), Ending::Code(255), Ending::Signal(11), Ending::TimedOut] {
            assert_eq!(ending.to_string().parse(), Ok(ending));
        }
        assert!("signal".parse::<Ending>().is_err());
        assert!("".parse::<Ending>().is_err());
    }

    #[test]
    fn lines_are_split_and_cut() {
        let mut bytes = b"one\n\xff\xfetwo\n".to_vec();
        bytes.extend(vec![b'x'; MAX_LINE + 3]);
        let mut lines = Vec::new();
        read_lines(Box::new(io::Cursor::new(bytes)), |text, complete| {
            lines.push((text, complete));
            true
        });
        assert_eq!(lines[0], ("one".to_owned(), true));
        assert_eq!(lines[1], ("\u{fffd}\u{fffd}two".to_owned(), true));
        assert_eq!((lines[2].0.len(), lines[2].1), (MAX_LINE, false));
        assert_eq!(lines[3], ("xxx".to_owned(), false));
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn an_endless_stream_does_not_fill_the_memory() {
        let endless = io::repeat(b'y').take(3 * MAX_STREAM as u64);
        let mut kept = 0;
        read_lines(Box::new(endless), |text, _| {
            kept += text.len();
            true
        });
        assert!(kept <= MAX_STREAM);
    }
}
