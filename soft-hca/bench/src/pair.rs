//! Runs two programs that meet in a fabric.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::child::tie;
use crate::error::{Error, Result, cannot};
use crate::perftest;

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(120);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(3);

/// Where programs run.
#[derive(Clone, Debug)]
pub struct Place {
    /// The stack that gives them their device.
    pub stack: Stack,
    /// The device's name. A program that is told to use it finds no other.
    pub device: &'static str,
    /// Cores for servers and clients.
    pub cores: [Option<usize>; 2],
    /// On which host, if not simply on this machine.
    pub host: Option<Host>,
}

/// A host: a network namespace of this machine.
#[derive(Clone, Debug)]
pub struct Host {
    /// The beginning of a command line that is to run there.
    pub by: Vec<String>,
    /// A process there.
    pub pid: u32,
    /// Its address.
    pub address: String,
    /// The fabric there has a link to other hosts.
    pub has_link: bool,
}

/// A stack that gives programs an RDMA device.
#[derive(Clone, Debug)]
pub enum Stack {
    /// The kernel.
    Kernel,
    /// The `soft-hca` command, and the fabric.
    SoftHca(PathBuf, String),
}

/// A program, killed and waited for when dropped.
pub struct Running {
    name: String,
    child: Child,
    reader: Option<thread::JoinHandle<String>>,
}

impl Running {
    fn start(mut command: Command, core: Option<usize>, name: &str) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = tie(&mut command, core)
            .spawn()
            .map_err(|error| Error::Start(name.to_owned(), error))?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            // An error ends the output; what was read before counts.
            let _ = out.map(|mut out| out.read_to_end(&mut bytes));
            let _ = err.map(|mut err| err.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ok(Self { name: name.to_owned(), child, reader: Some(reader) })
    }

    fn output(&mut self) -> String {
        self.reader.take().and_then(|reader| reader.join().ok()).unwrap_or_default()
    }

    fn stuck(&mut self) -> Error {
        // Already gone is as good.
        let _ = self.child.kill();
        Error::Stuck(self.name.clone(), LIMIT.as_secs(), self.output())
    }

    /// Waits for its end, which has to be a good one; gives what it has printed.
    fn finish(mut self) -> Result<String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().map_err(cannot("wait for a program"))? {
                let output = self.output();
                return if status.success() {
                    Ok(output)
                } else {
                    Err(Error::Failed(self.name.clone(), status.to_string(), output))
                };
            }
            if Instant::now() > deadline {
                return Err(self.stuck());
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits until it listens on a TCP port, without connecting to it. `near` is a process on its
    /// host.
    fn listens(&mut self, near: u32, port: u16) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while !is_listening(near, port) {
            if let Some(status) = self.child.try_wait().map_err(cannot("wait for a program"))? {
                return Err(Error::Failed(self.name.clone(), status.to_string(), self.output()));
            }
            if Instant::now() > deadline {
                return Err(self.stuck());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether somebody on the host of a process listens on a port.
fn is_listening(near: u32, port: u16) -> bool {
    ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{near}/net/{table}")).ok())
        .any(|table| table.lines().any(|line| listens_line(line, port)))
}

fn listens_line(line: &str, port: u16) -> bool {
    let mut words = line.split_whitespace();
    let local = words.nth(1).and_then(|address| address.rsplit(':').next());
    local.is_some_and(|local| u16::from_str_radix(local, 16) == Ok(port))
        && words.nth(1) == Some("0A")
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("0.0.0.0", 0)).map_err(cannot("find a free port"))?;
    Ok(listener.local_addr().map_err(cannot("find a free port"))?.port())
}

impl Place {
    /// A program that finds the device.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(host) = &self.host {
            words.extend(host.by.iter().map(OsString::from));
        }
        if let Stack::SoftHca(soft_hca, fabric) = &self.stack {
            words.push(soft_hca.into());
            words.extend(["run", "--fabric", fabric, "--name", self.device].map(OsString::from));
            if let Some(host) = self.host.as_ref().filter(|host| host.has_link) {
                words.push(format!("--roce={}", host.address).into());
            }
            words.push("--".into());
        }
        words.push(program.into());
        words.extend(arguments.iter().map(OsString::from));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// Something that runs there as long as the value lives, so that the fabric lives on between
    /// programs.
    pub fn keep(&self) -> Result<Running> {
        Running::start(self.command("sleep", &["infinity"]), None, "sleep")
    }

    /// A process on the host.
    fn near(&self) -> u32 {
        self.host.as_ref().map_or(std::process::id(), |host| host.pid)
    }

    /// The same place with a fabric of its own.
    pub fn fresh(&self, number: u32) -> Self {
        let stack = match &self.stack {
            Stack::Kernel => Stack::Kernel,
            Stack::SoftHca(soft_hca, fabric) => {
                Stack::SoftHca(soft_hca.clone(), format!("{fabric}-{number}"))
            }
        };
        Self { stack, ..self.clone() }
    }

    /// Runs one of perftest's programs against itself; gives what the client has printed.
    pub fn perftest(&self, program: &str, arguments: &[&str]) -> Result<String> {
        self.perftest_under(self, &[], program, arguments)
    }

    /// Runs one of perftest's programs, the server in another place; gives what the client has
    /// printed.
    pub fn perftest_with(
        &self,
        server: &Self,
        program: &str,
        arguments: &[&str],
    ) -> Result<String> {
        self.perftest_under(server, &[], program, arguments)
    }

    /// The same, with a command before the client's, `soft-hca run` included.
    fn perftest_under(
        &self,
        place: &Self,
        before: &[&str],
        program: &str,
        more: &[&str],
    ) -> Result<String> {
        let port = free_port()?;
        let port_text = port.to_string();
        // `-x 1`: the GID with the IPv4 address; `-F`: no word about the clock's frequency.
        let mut arguments = vec!["-d", self.device, "-x", "1", "-F", "-p", &port_text];
        arguments.extend(more);
        let server = place.command(program, &arguments);
        let mut server = Running::start(server, self.cores[1], program)?;
        server.listens(place.near(), port)?;
        arguments.push(place.host.as_ref().map_or("127.0.0.1", |host| &host.address));
        let client = self.command(program, &arguments);
        let client = match before.split_first() {
            None => client,
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(client.get_program()).args(client.get_args());
                command
            }
        };
        let output = Running::start(client, self.cores[0], program)?.finish()?;
        server.finish()?;
        Ok(output)
    }

    /// One figure of one of perftest's programs.
    pub fn figure(&self, program: &str, more: &[&str], column: &'static str) -> Result<f64> {
        let output = self.perftest(program, more)?;
        perftest::figure(&output, column)
            .ok_or_else(|| Error::NoFigure(program.to_owned(), column, output))
    }

    /// System calls of a sender, per message, as far as their number depends on that of the
    /// messages. `None` without strace.
    pub fn calls(&self, program: &str, more: &[&str]) -> Result<Option<Vec<(String, f64)>>> {
        const MESSAGES: u64 = 2000;
        let has_strace = Command::new("strace")
            .arg("-V")
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !has_strace {
            return Ok(None);
        }
        let log = Scratch::new()?;
        let path = log.0.to_string_lossy().into_owned();
        let mut tables = Vec::new();
        for messages in [MESSAGES, 2 * MESSAGES] {
            let count = messages.to_string();
            let mut arguments = vec!["-n", count.as_str()];
            arguments.extend(more);
            self.perftest_under(self, &["strace", "-c", "-o", &path], program, &arguments)?;
            let table = fs::read_to_string(&log.0).map_err(cannot("read strace's table"))?;
            tables.push(perftest::system_calls(&table));
        }
        Ok(Some(perftest::calls_per_message(&tables[0], &tables[1], MESSAGES)))
    }
}

/// A file that goes when this does.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("soft-hca-bench-{}", std::process::id()));
        // Somebody else's file of that name, or a link, is not used.
        fs::File::create_new(&path).map_err(cannot("make a temporary file"))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing is lost if it stays.
        let _ = fs::remove_file(&self.0);
    }
}

/// Milliseconds that a command takes from its start to its end.
pub fn duration(mut command: Command) -> Result<f64> {
    let name = Path::new(command.get_program()).display().to_string();
    let start = Instant::now();
    let output = command.output().map_err(|error| Error::Start(name.clone(), error))?;
    let taken = start.elapsed().as_secs_f64() * 1e3;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Failed(name, output.status.to_string(), text));
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_found() {
        let line = "   0: 00000000:4855 00000000:0000 0A 00000000:00000000 00:00000000 00000000";
        assert!(listens_line(line, 0x4855));
        assert!(!listens_line(line, 0x4856));
        // Established.
        assert!(!listens_line(&line.replace(" 0A ", " 01 "), 0x4855));
        assert!(!listens_line("  sl  local_address rem_address   st", 0x4855));
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        assert!(is_listening(std::process::id(), listener.local_addr().unwrap().port()));
    }

    #[test]
    fn a_program_that_fails_is_told() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo why >&2; exit 3"]);
        let error = Running::start(command, None, "sh").unwrap().finish().unwrap_err();
        assert!(error.to_string().contains("why"), "{error}");
        let mut running = Running::start(Command::new("true"), None, "true").unwrap();
        assert!(matches!(running.listens(std::process::id(), 1), Err(Error::Failed(..))));
        assert!(matches!(
            Running::start(Command::new("/no/such/program"), None, "it"),
            Err(Error::Start(..))
        ));
    }
}
