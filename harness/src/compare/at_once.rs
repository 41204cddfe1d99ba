//! Units side by side: each harness of several has a fabric and a network of its own, and is told a unit after the
//! other. Most of its time a pair waits.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::Sender;
use std::thread;

use crate::compare::units::Found;
use crate::error::Error;

/// The option by which a harness is told units.
pub const OPTION: &str = "--units-from-input";

/// The result of a unit, by its place in the list.
pub(super) type Result = (usize, std::result::Result<Found, Error>);

/// Harnesses at work. They end with this value.
#[derive(Debug)]
pub(super) struct Workers(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    child: Child,
    /// Closed when it is to end.
    units: Option<ChildStdin>,
    found: BufReader<ChildStdout>,
}

impl Workers {
    /// Starts so many of them, with this program's arguments.
    pub(super) fn start(count: u32, arguments: &[OsString]) -> std::result::Result<Workers, Error> {
        let own = std::env::current_exe()
            .map_err(|error| Error::Usage(format!("cannot find this program: {error}")))?;
        let start = |_| {
            let mut command = Command::new(&own);
            // Flags of the user's are last, behind "--".
            let (name, rest) = arguments.split_at(arguments.len().min(1));
            command.args(name).arg(OPTION).args(rest);
            let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut child = spawned
                .map_err(|source| Error::Start { program: own.display().to_string(), source })?;
            let (units, found) = (child.stdin.take(), child.stdout.take());
            let found = found.ok_or_else(|| Error::Usage("a pipe is missing".to_owned()))?;
            Ok(Worker { child, units, found: BufReader::new(found) })
        };
        (0..count).map(start).collect::<std::result::Result<_, _>>().map(Workers)
    }

    /// Has them look at the units of these places, the next one where one is done, and sends what they find.
    pub(super) fn look(&mut self, units: &[usize], workers: usize, found: &Sender<Result>) {
        let queue = Mutex::new(units.iter().copied());
        let next = || queue.lock().ok()?.next();
        thread::scope(|scope| {
            for worker in self.0.iter_mut().take(workers) {
                scope.spawn(|| {
                    while let Some(unit) = next() {
                        let result = worker.look(unit);
                        let is_over = result.is_err();
                        // Nobody listens any longer after an error.
                        if found.send((unit, result)).is_err() || is_over {
                            return;
                        }
                    }
                });
            }
        });
    }
}

impl Worker {
    fn look(&mut self, unit: usize) -> std::result::Result<Found, Error> {
        let ended = || Error::Usage("a harness has not come to its end".to_owned());
        let units = self.units.as_mut().ok_or_else(ended)?;
        writeln!(units, "{unit}").map_err(|_| ended())?;
        let mut line = String::new();
        match self.found.read_line(&mut line) {
            Ok(read) if read > 0 => {}
            _ => return Err(ended()),
        }
        let said: std::result::Result<Found, String> =
            serde_json::from_str(&line).map_err(Error::json(Path::new("what a harness says")))?;
        said.map_err(Error::Usage)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It ends with its input, for it is in no unit: all of these were waited for.
        self.units = None;
        let _ = self.child.wait();
    }
}

/// Looks at the units whose places standard input names, one in a line, and writes a line for each.
pub(super) fn work(
    look: impl Fn(usize) -> std::result::Result<Found, Error>,
) -> std::result::Result<(), Error> {
    let stdout = Path::new("standard output");
    for line in std::io::stdin().lines() {
        let line = line.map_err(Error::read(Path::new("standard input")))?;
        let unit = line.parse().map_err(|_| Error::Usage(format!("{line:?} is no unit")))?;
        let said = look(unit).map_err(|error| error.to_string());
        let said = serde_json::to_string(&said).map_err(Error::json(stdout))?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{said}").and_then(|()| out.flush()).map_err(Error::write(stdout))?;
    }
    Ok(())
}
