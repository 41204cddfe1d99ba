//! `soft-hca record`: writes down what happens in a fabric.

mod collect;
mod decode;
mod ending;
pub(crate) mod signals;
mod sink;
mod terminal;

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use soft_hca_core::arena::Scope;
use soft_hca_core::config::{self, FabricName, LinkOptions, SOCKET, Strict};
use soft_hca_core::device_spec::{DeviceSpec, Devices, MAX_PKEYS};
use soft_hca_core::errno::Errno;
use soft_hca_core::rpc::{Connection, Created, FileKind, Request};
use soft_hca_core::system;
use soft_hca_core::trace::{self, FOLDER};
use soft_hca_daemon::device;
use soft_hca_fault::Plan;
use soft_hca_record::entry::{FORMAT, VERSION};
use soft_hca_record::explain::Live;
use soft_hca_record::{Header, Writer};
use tracing_subscriber::fmt::format;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::run::{self, Options};
use super::watcher::Watcher;
use super::{Error, cannot, fabric, ls, outside};

use collect::Collector;
use ending::Life;
use sink::Sink;

/// How often the recorder looks.
const PERIOD: Duration = Duration::from_millis(20);
/// How often the daemon is asked who does not go on.
const BETWEEN_LOOKS_NS: u64 = 500_000_000;
/// How long processes that were killed with the program may take to give back their memory.
const DIES: Duration = Duration::from_secs(5);
/// How long the daemon may take to notice an end.
const NOTICED: Duration = Duration::from_millis(100);
/// The pause between two looks at such processes.
const PAUSE: Duration = Duration::from_millis(1);
/// A process counts as alive if it looks so this many times: a killed one may look so for a moment before it
/// exits.
const LOOKS: u32 = 3;
/// How long a fabric may take to end before nobody waits for it any longer.
const WRITTEN_NS: u64 = 1_000_000_000;

/// The exit status of a program that was ended because its time was over, as of timeout(1).
pub const OUT_OF_TIME: u8 = 124;

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The record.
    pub file: PathBuf,
    /// Bytes that each process may trace before somebody reads them.
    pub limit: Option<u64>,
    /// The fabric, if one is named.
    pub fabric: Option<FabricName>,
    /// See [`Options::devices`].
    pub devices: Devices,
    /// See [`Options::link`].
    pub link: Option<LinkOptions>,
    /// See [`Options::faults`].
    pub faults: Option<Plan>,
    /// See [`Options::strict`].
    pub strict: Option<Strict>,
    /// How long the program may take: it is ended then, and nothing is said of the record.
    pub time: Option<Duration>,
    /// Whether the program's output goes nowhere.
    pub is_silent: bool,
    /// Whether buffers of sends are compared, which `check` asks for.
    pub compares_buffers: bool,
    /// The program and its arguments; empty to record a fabric that runs.
    pub command: Vec<OsString>,
}

/// Records a program, or a fabric that runs until somebody interrupts. Gives the exit status.
pub fn record(options: &RecordOptions) -> Result<u8, Error> {
    let fabric = match &options.fabric {
        Some(fabric) => fabric.clone(),
        None if options.command.is_empty() => FabricName::of_environment()?,
        None => own_fabric()?,
    };
    let dir = config::fabric_dir(&fabric)?;
    // The fabric lives until the record is complete.
    let (program, membership) = if options.command.is_empty() {
        (None, None)
    } else {
        let (mut program, membership) = run::prepare(&Options {
            fabric: fabric.clone(),
            devices: options.devices.clone(),
            link: options.link.clone(),
            faults: options.faults.clone(),
            strict: options.strict,
            command: options.command.clone(),
        })?;
        if options.is_silent {
            program.stdout(Stdio::null()).stderr(Stdio::null());
        }
        (Some(program), Some(membership))
    };
    let connection = observe(&dir, &fabric)?;
    if program.is_none() {
        fabric::warn_of_link(&dir, options.link.as_ref());
    }
    let addresses = fabric::link_addresses(&dir);
    let captured = options.link.as_ref().filter(|link| link.pcap.is_some());
    let captured = captured.filter(|link| fabric::link_warning(&dir, link).is_none());
    let to = File::create(&options.file)
        .map_err(cannot(format!("write to {}", options.file.display())))?;
    let scope = if options.compares_buffers { Scope::Buffers } else { Scope::All };
    let recording = Recording::begin(&dir, connection, options.limit, scope)?;
    let header = header(options, &fabric, &dir, &addresses);
    let failed = || cannot(format!("record to {}", options.file.display()));
    let to = BufWriter::new(to);
    let writer = Writer::new(to, &header).map_err(failed())?;
    if program.is_none() {
        eprintln!("soft-hca: records the fabric {fabric} until Ctrl-C");
    }
    if let Some(program) = program.as_ref().filter(|_| options.time.is_none()) {
        outside::warn_of_program(program.get_program());
    }
    let live = config::explains().then(Live::new);
    let mut sink = Sink { writer: Some(writer), live, ..Sink::default() };
    let (status, collector) = recording.follow(program, options.time, &mut sink, failed)?;
    let (written, dropped) = (collector.given, collector.dropped);
    let missing = match dropped {
        0 => String::new(),
        dropped => format!(", {dropped} are missing: try a larger --limit"),
    };
    if options.time.is_none() {
        eprintln!("soft-hca: {written} entries in {}{missing}", options.file.display());
    }
    if captured.is_some() {
        if !sink.has_packets {
            let addresses = addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>();
            eprintln!(
                "soft-hca: no message went over the link, which takes what is for {}: what is for \
                 127.0.0.1 stays in the fabric",
                addresses.join(", ")
            );
        }
        if membership.is_some() {
            drop(membership);
            wait_for_packets(&dir);
        }
    }
    Ok(status)
}

/// Runs a program as [`run::run`] does, and says what goes wrong in its fabric until it ends. Gives the
/// exit status.
pub fn explained(options: &Options) -> Result<u8, Error> {
    let (mut program, membership) = run::prepare(options)?;
    outside::warn_of_program(program.get_program());
    let connection = observe(&membership.dir, &options.fabric)?;
    let recording = match Recording::begin(&membership.dir, connection, None, Scope::Failures) {
        // Somebody says so already, or writes it down.
        Err(Error::Refused(error)) if error == Errno::EBUSY => {
            program.env(config::LIFELINE, membership.keep_across_exec()?.to_string());
            return Err(Error::Exec(program.get_program().into(), program.exec()));
        }
        recording => recording?,
    };
    let mut sink = Sink { live: Some(Live::new()), ..Sink::default() };
    let failed = || cannot("see what goes wrong");
    let (status, _) = recording.follow(Some(program), None, &mut sink, failed)?;
    Ok(status)
}

/// Runs a program in its fabric, and looks at all that happens there until it ends. Gives the exit status,
/// who has watched, and how many entries are missing.
pub fn checked(options: &Options, limit: Option<u64>) -> Result<(u8, Watcher, u64), Error> {
    let (program, membership) = run::prepare(options)?;
    outside::warn_of_program(program.get_program());
    let connection = observe(&membership.dir, &options.fabric)?;
    let recording = Recording::begin(&membership.dir, connection, limit, Scope::Buffers)?;
    let devices = fabric::devices(&membership.dir);
    let watcher = Watcher::new(profile_of(&devices), pkeys_of(&devices));
    let mut sink = Sink { watcher: Some(watcher), ..Sink::default() };
    let failed = || cannot("see what the program does");
    let (status, collector) = recording.follow(Some(program), None, &mut sink, failed)?;
    Ok((status, sink.watcher.unwrap_or_default(), collector.dropped))
}

/// A connection to a fabric that has to run.
fn observe(dir: &Path, fabric: &FabricName) -> Result<Connection, Error> {
    let connection = fabric::connect(dir, FileKind::Observer)?;
    connection.ok_or_else(|| Error::NoFabric(fabric.clone()))
}

/// The name of a fabric for one command.
pub fn own_fabric() -> Result<FabricName, Error> {
    format!("record-{}", std::process::id()).parse().map_err(Error::Config)
}

/// Waits for the end of the fabric, which writes the last packets, unless other programs are in it.
fn wait_for_packets(dir: &Path) {
    let until = system::now_ns() + WRITTEN_NS;
    let runs = || matches!(fabric::connect(dir, FileKind::Observer), Ok(Some(_)));
    while system::now_ns() < until && runs() {
        thread::sleep(PERIOD);
    }
}

/// Waits for the ends of processes that are about to end, which are on record then.
fn ends(collector: &mut Collector, sink: &mut Sink) -> io::Result<()> {
    let began = Instant::now();
    let mut until = began + NOTICED;
    let mut alive = 0;
    while alive < LOOKS {
        collector.collect(false, |entry| sink.entry(entry))?;
        let lives: Vec<Life> = collector.alive().map(ending::life).collect();
        let now = Instant::now();
        if lives.contains(&Life::Dies) && now < began + DIES {
            until = now + NOTICED;
        }
        let are_alive = lives.iter().all(|life| *life == Life::Lives);
        alive = if are_alive { alive + 1 } else { 0 };
        if lives.is_empty() || now >= until {
            break;
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// The exit status if the recording is to end. `is_apart` if the program has a process group of its own.
fn ended(
    child: Option<&mut Child>,
    recording: &Recording,
    is_apart: bool,
) -> Result<Option<u8>, Error> {
    let signals = signals::taken();
    if let Some(child) = &child {
        signals.iter().for_each(|signal| signal.pass_on(child.id(), is_apart));
    }
    signals.iter().for_each(|signal| signal.obey());
    let Some(child) = child else {
        let is_over = signals.iter().any(|signal| signal.ends()) || recording.has_ended();
        return Ok(is_over.then_some(0));
    };
    let status = child.try_wait().map_err(cannot("wait for the program"))?;
    Ok(status.map(exit_status))
}

/// As a shell has it.
pub(super) fn exit_status(status: ExitStatus) -> u8 {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    number.map_or(1, |number| number as u8)
}

fn header(
    options: &RecordOptions,
    fabric: &FabricName,
    dir: &Path,
    addresses: &[IpAddr],
) -> Header {
    let specs = options.devices.named(fabric::devices(dir));
    let devices = device::devices(&specs, device::node_guid(dir), addresses);
    let ports = devices.iter().flat_map(|device| &device.ports);
    let gids =
        ports.flat_map(|port| port.gids.entries().iter().map(|entry| decode::gid(entry.gid)));
    Header {
        format: FORMAT.into(),
        version: VERSION,
        began: now(),
        device: specs[0].name.to_string(),
        like: profile_of(&specs),
        fabric: fabric.to_string(),
        gids: gids.collect(),
        pkeys: pkeys_of(&specs),
        command: options.command.iter().map(|word| word.to_string_lossy().into()).collect(),
    }
}

/// The adapter whose limits a fabric's devices have. Of several with a profile it is the first's: which device a
/// call is of is not on record.
fn profile_of(devices: &[DeviceSpec]) -> Option<String> {
    devices.iter().find_map(|device| device.like.clone())
}

/// Entries of the largest P_Key table of the devices' ports.
fn pkeys_of(devices: &[DeviceSpec]) -> u16 {
    if devices.iter().any(|device| device.is_infiniband) { MAX_PKEYS as u16 } else { 1 }
}

/// The time of day, RFC 3339.
fn now() -> String {
    let mut text = String::new();
    // A string takes all that is written to it.
    let _ = SystemTime.format_time(&mut format::Writer::new(&mut text));
    text
}

/// A fabric is recorded as long as this lives.
struct Recording {
    /// Its end is that of the recording.
    connection: Connection,
    dir: PathBuf,
    generation: u32,
    /// `CLOCK_MONOTONIC` nanoseconds.
    began: u64,
}

impl Recording {
    fn begin(
        dir: &Path,
        connection: Connection,
        limit: Option<u64>,
        scope: Scope,
    ) -> Result<Self, Error> {
        let folder = dir.join(FOLDER);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(cannot(format!("create {}", folder.display()))(error));
            }
            _ => config::check_private(&folder)?,
        }
        let began = system::now_ns();
        let limit = limit.unwrap_or(trace::DEFAULT_LIMIT);
        let request = Request::Record { limit, scope };
        let (answer, _) = fabric::ask(&connection, &request)?;
        let Some(Created::Recording(generation)) = answer.created else {
            return Err(Error::Refused(Errno::EIO));
        };
        Ok(Self { connection, dir: dir.into(), generation, began })
    }

    /// Gives what happens to the sink until the program has ended, or somebody interrupts where there is
    /// none. The exit status. A program that has only some time is ended then, with all that it has
    /// started.
    fn follow<F: FnOnce(io::Error) -> Error>(
        self,
        program: Option<Command>,
        time: Option<Duration>,
        sink: &mut Sink,
        failed: impl Fn() -> F,
    ) -> Result<(u8, Collector), Error> {
        let mut collector = Collector::new(&self.dir, self.generation, self.began);
        signals::heed();
        let (mut child, _foreground) = match program {
            Some(mut program) => {
                let name = program.get_program().to_os_string();
                let lent = time.and_then(|_| {
                    program.process_group(0);
                    terminal::lend(&mut program)
                });
                (Some(program.spawn().map_err(|error| Error::Exec(name, error))?), lent)
            }
            None => (None, None),
        };
        let mut next_look = self.began + BETWEEN_LOOKS_NS;
        let due = time.map(|time| Instant::now() + time);
        let status = loop {
            if let Some(status) = ended(child.as_mut(), &self, time.is_some())? {
                break status;
            }
            if let Some(child) =
                child.as_mut().filter(|_| due.is_some_and(|due| Instant::now() >= due))
            {
                signals::end_group(child).map_err(cannot("wait for the program"))?;
                break OUT_OF_TIME;
            }
            collector.collect(false, |entry| sink.entry(entry)).map_err(failed())?;
            let complete = system::now_ns().saturating_sub(self.began + collect::KEPT_NS);
            sink.looked(complete).map_err(failed())?;
            // A record has what is needed for that.
            if sink.live.is_some() && sink.writer.is_none() && system::now_ns() >= next_look {
                next_look = system::now_ns() + BETWEEN_LOOKS_NS;
                let answer = fabric::ask(&self.connection, &Request::Why { is_asked: false });
                let text = answer.and_then(|(_, fds)| ls::text_of(fds));
                // The fabric may have ended.
                text.iter().for_each(|text| sink.waits(text));
            }
            thread::sleep(PERIOD);
        };
        ends(&mut collector, sink).map_err(failed())?;
        let folder = self.end();
        collector.collect(true, |entry| sink.entry(entry)).map_err(failed())?;
        sink.end().map_err(failed())?;
        let _ = fs::remove_dir_all(folder);
        Ok((status, collector))
    }

    /// Whether the fabric has ended.
    fn has_ended(&self) -> bool {
        !self.dir.join(SOCKET).exists()
    }

    /// Ends it: nobody begins a record any more. Gives the folder with the rings.
    fn end(self) -> PathBuf {
        fabric::end(self.connection);
        self.dir.join(FOLDER)
    }
}
