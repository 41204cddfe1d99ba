//! Fabrics: joining one, starting it, and what is left when it ends.
//!
//! The lock of a fabric's folder keeps starts and ends apart. Whoever starts a daemon holds it
//! until the daemon listens; a daemon that has ended takes it to remove the folder, unless it is
//! taken, for then somebody starts the fabric anew. A daemon removes its socket before it stops
//! listening, so a socket in a locked folder is a living daemon's, or what a killed one has left.

use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Shutdown};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use soft_hca_core::config::{self, FabricName, LinkOptions, SOCKET};
use soft_hca_core::device_spec::{self, DeviceName, DeviceSet, DeviceSpec, Devices};
use soft_hca_core::notes;
use soft_hca_core::rpc::{Answer, Connection, FileKind, Hello, Reply, Request, Silence};
use soft_hca_core::system;
use soft_hca_core::trace::FOLDER;
use soft_hca_daemon::device;
use soft_hca_daemon::link;
use soft_hca_daemon::sysfs;

use super::daemonize::become_daemon;
use super::folder_lock::FolderLock;
use super::{Error, cannot, preload};

/// Advice where a fabric is not as requested.
const INSTEAD: &str = "end its programs first, or take another one by --fabric";

/// The hidden subcommand that becomes the daemon.
pub const SUBCOMMAND: &str = "fabric";

/// How long the daemon may take to end a connection.
const END_LIMIT: Duration = Duration::from_secs(1);

/// A fabric that lives at least as long as this, or as the program that it is handed to.
#[derive(Debug)]
pub struct Membership {
    /// The fabric's folder.
    pub dir: PathBuf,
    /// The tree for `SYSFS_PATH`.
    pub sysfs: PathBuf,
    /// The name that the program's first device has.
    pub device: DeviceName,
    /// The devices that the program finds.
    pub found: DeviceSet,
    /// The connection that keeps the fabric alive.
    pub(super) lifeline: Connection,
}

impl Membership {
    /// Makes the fabric live as long as the program that this process is about to become, and its
    /// children; gives the number for [`config::LIFELINE`].
    pub fn keep_across_exec(self) -> Result<RawFd, Error> {
        system::keep_across_exec(self.lifeline.into_fd()).map_err(cannot("keep the fabric alive"))
    }
}

/// Joins a fabric; starts it if it does not run.
pub fn join(
    fabric: &FabricName,
    wanted: &Devices,
    link: Option<&LinkOptions>,
) -> Result<Membership, Error> {
    let dir = config::fabric_dir(fabric)?;
    let membership = |dir: PathBuf, lifeline| {
        let (specs, found) = seen(&dir, wanted)?;
        let sysfs = sysfs::tree(&dir, &tree_name(&specs, found));
        let first = (0..).zip(&specs).find(|(place, _)| found.has(*place));
        let device = first.map_or_else(DeviceName::default, |(_, spec)| spec.name.clone());
        Ok::<_, Error>(Membership { dir, sysfs, device, found, lifeline })
    };
    loop {
        config::create_private(&dir)?;
        if let Some(lifeline) = connect(&dir, FileKind::Lifeline)? {
            let membership = membership(dir.clone(), lifeline)?;
            if membership.sysfs.exists() {
                return Ok(membership);
            }
        }
        let lock = FolderLock::wait(&dir).map_err(cannot(format!("lock {}", dir.display())))?;
        if lock.is_none() {
            continue;
        }
        return match start(&dir, wanted, link) {
            Ok(lifeline) => membership(dir, lifeline),
            Err(error) => {
                remove_locked(&dir);
                Err(error)
            }
        };
    }
}

/// The fabric's devices as the program sees them, and which of them it finds.
fn seen(dir: &Path, wanted: &Devices) -> Result<(Vec<DeviceSpec>, DeviceSet), Error> {
    let specs = wanted.named(devices(dir));
    let found = wanted.found(&specs).ok_or_else(|| Error::NoDevice(device_spec::join(&specs)))?;
    Ok((specs, found))
}

/// The name of the tree of a program that finds these of a fabric's devices.
fn tree_name(specs: &[DeviceSpec], found: DeviceSet) -> String {
    let first = &specs[0].name;
    if found == DeviceSet::ALL { first.to_string() } else { format!("{first}-{found}") }
}

/// The devices that a fabric was started with.
pub(super) fn devices(dir: &Path) -> Vec<DeviceSpec> {
    let said = fs::read_to_string(dir.join(config::DEVICES_FILE)).unwrap_or_default();
    Devices::default().named(device_spec::split(&said).unwrap_or_default())
}

/// Says on standard error that a fabric runs with other devices than are wanted, if so.
pub(super) fn warn_of_devices(dir: &Path, wanted: &Devices) {
    let fabric = devices(dir);
    if !wanted.specs.is_empty() && wanted.specs != fabric {
        let devices = device_spec::join(&fabric);
        eprintln!("soft-hca: this fabric runs already, with {devices}: {INSTEAD}");
    }
}

/// Says on standard error what [`link_warning`] finds.
pub(super) fn warn_of_link(dir: &Path, wanted: Option<&LinkOptions>) {
    if let Some(warning) = wanted.and_then(|wanted| link_warning(dir, wanted)) {
        eprintln!("soft-hca: {warning}");
    }
}

/// Why a fabric has not the link to other hosts that is wanted, if so.
pub(super) fn link_warning(dir: &Path, wanted: &LinkOptions) -> Option<String> {
    let Ok(said) = fs::read_to_string(dir.join(config::LINK)) else {
        return Some(format!("this fabric runs already, without a link to other hosts: {INSTEAD}"));
    };
    let mut lines = said.lines();
    let (reason, extras) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if !reason.is_empty() {
        return Some(format!("{reason}; programs reach only those of this fabric"));
    }
    let wanted = wanted.extras();
    let is_other = !wanted.is_empty() && wanted != extras;
    is_other.then(|| format!("this fabric runs already, without {wanted}: {INSTEAD}"))
}

/// The addresses of its link that a fabric that runs has in its table of GIDs.
pub fn link_addresses(dir: &Path) -> Vec<IpAddr> {
    let said = fs::read_to_string(dir.join(config::LINK)).unwrap_or_default();
    let addresses = said.lines().nth(2).unwrap_or_default();
    addresses.split(',').filter_map(|ip| ip.parse().ok()).collect()
}

/// The way a command goes on when its daemon does not answer; the argument is the reason.
pub(super) type OnSilence<'a> = &'a dyn Fn(String) -> Result<(), Error>;

/// Says so on standard error, and waits on.
fn wait(why: String) -> Result<(), Error> {
    eprintln!("soft-hca: waits for the fabric: {why}");
    Ok(())
}

/// Gives up with an error.
pub(super) fn give_up(why: String) -> Result<(), Error> {
    Err(Error::Silent(why))
}

/// Repeats a call until the daemon answers it.
fn patiently<T>(
    on_silence: OnSilence<'_>,
    connection: Option<&Connection>,
    mut what: impl FnMut() -> io::Result<T>,
) -> Result<io::Result<T>, Error> {
    let (silence, mut is_told) = (Silence::begin(), false);
    loop {
        match what() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return Ok(done),
        }
        if let Some(why) = silence.why(connection).filter(|_| !is_told) {
            is_told = true;
            on_silence(why)?;
        }
    }
}

/// Connects to a fabric that runs; `None` if it does not, or is about to end.
pub fn connect(dir: &Path, kind: FileKind) -> Result<Option<Connection>, Error> {
    connect_or(&wait, dir, kind)
}

/// The same with what is done when the daemon does not answer.
fn connect_or(
    on_silence: OnSilence<'_>,
    dir: &Path,
    kind: FileKind,
) -> Result<Option<Connection>, Error> {
    let ended = |error: &io::Error| {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
        matches!(error.kind(), NotFound | ConnectionRefused | ConnectionReset | BrokenPipe)
    };
    let path = dir.join(SOCKET);
    let connection = match patiently(on_silence, None, || Connection::connect(&path))? {
        Err(error) if ended(&error) => return Ok(None),
        connection => connection.map_err(cannot(format!("connect to {}", path.display())))?,
    };
    let (_, user) = connection.peer().map_err(cannot("see who holds the fabric"))?;
    if user != system::user() {
        return Err(Error::Stranger(path));
    }
    let hello = Request::Hello(Hello { kind, nonce_addr: 0, nonce: 0 });
    match ask_or(on_silence, &connection, &hello) {
        Ok(_) => Ok(Some(connection)),
        Err(Error::System { source, .. }) if ended(&source) => Ok(None),
        Err(error) => Err(error),
    }
}

/// One request and its reply.
pub(super) fn ask(
    connection: &Connection,
    request: &Request,
) -> Result<(Answer, Vec<OwnedFd>), Error> {
    ask_or(&wait, connection, request)
}

/// The same with what is done when the daemon does not answer.
pub(super) fn ask_or(
    on_silence: OnSilence<'_>,
    connection: &Connection,
    request: &Request,
) -> Result<(Answer, Vec<OwnedFd>), Error> {
    // Messages that the daemon sent before it closed its end can still be read.
    let sent = connection.send(&request.encode(), &[]);
    let received = patiently(on_silence, Some(connection), || connection.receive())?;
    let (message, fds) = received.map_err(cannot("speak to the fabric's daemon"))?;
    if message.is_empty() {
        let gone = io::Error::from(io::ErrorKind::ConnectionReset);
        return Err(cannot("speak to the fabric's daemon")(gone));
    }
    let Reply(outcome) = Reply::decode(&message).map_err(Error::Refused)?;
    let answer = outcome.map_err(Error::Refused)?;
    sent.map_err(cannot("speak to the fabric's daemon"))?;
    Ok((answer, fds))
}

/// Ends a connection and waits until the daemon has done what it does then, if it answers at all.
pub(super) fn end(connection: Connection) {
    let stream = UnixStream::from(connection.into_fd());
    if stream.set_read_timeout(Some(END_LIMIT)).is_ok() && stream.shutdown(Shutdown::Write).is_ok()
    {
        // It closes its end, too; nothing else comes.
        let _ = (&stream).read(&mut [0]);
    }
}

/// Starts what is missing of a fabric. The caller holds the lock.
fn start(dir: &Path, wanted: &Devices, link: Option<&LinkOptions>) -> Result<Connection, Error> {
    let running = connect(dir, FileKind::Lifeline)?;
    if running.is_none() {
        // Remains of a killed daemon, but for that by which its programs still get their
        // library.
        clear(dir).map_err(cannot(format!("clear {}", dir.display())))?;
        if !wanted.specs.is_empty() {
            let path = dir.join(config::DEVICES_FILE);
            fs::write(&path, device_spec::join(&wanted.specs))
                .map_err(cannot(format!("write {}", path.display())))?;
        }
    }
    let (specs, found) = seen(dir, wanted)?;
    let name = tree_name(&specs, found);
    if !sysfs::tree(dir, &name).exists() {
        let addresses = match running {
            Some(_) => link_addresses(dir),
            None => link::link_addresses(link),
        };
        let mut devices = device::devices(&specs, device::node_guid(dir), &addresses);
        devices.retain(|device| found.has(device.index));
        sysfs::write(dir, &name, &devices)
            .map_err(cannot(format!("write {}", sysfs::tree(dir, &name).display())))?;
    }
    if let Some(lifeline) = running {
        // The tree has the state of the beginning.
        ask(&lifeline, &Request::Sysfs)?;
        return Ok(lifeline);
    }
    let _guard = spawn(dir, &devices(dir), link)?;
    let lifeline = connect(dir, FileKind::Lifeline)?;
    lifeline.ok_or_else(|| Error::NotStarted("it has gone at once".into()))
}

/// Starts a daemon and waits until it listens. Gives a first connection to it, which the daemon
/// itself has made: if this process is killed at any moment, the daemon sees that end.
fn spawn(dir: &Path, devices: &[DeviceSpec], link: Option<&LinkOptions>) -> Result<OwnedFd, Error> {
    let cannot_start = || cannot("start the fabric's daemon");
    let (ours, theirs) = UnixStream::pair().map_err(cannot_start())?;
    let log = config::log_file();
    config::log_level()?;
    if std::env::var_os(config::LOG).is_some_and(|path| !path.is_empty()) {
        // A log file that was requested and cannot be had is an error.
        soft_hca_daemon::log::open(&log).map_err(cannot(format!("write to {}", log.display())))?;
    }
    let exe = std::env::current_exe().map_err(cannot_start())?;
    let nothing = || [config::ROCE, config::FAULT, config::PCAP].map(|name| (name, "".into()));
    let variables = link.map_or_else(nothing, LinkOptions::variables);
    let mut child = Command::new(exe)
        .arg(SUBCOMMAND)
        .arg(dir)
        .current_dir("/")
        .env(config::LOG, log)
        .envs(variables)
        .env(config::DEVICES, device_spec::join(devices))
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(cannot_start())?;
    // The daemon is a child of this child, which ends at once.
    child.wait().map_err(cannot_start())?;
    let (message, fds) = Connection::from_fd(ours.into()).receive().map_err(cannot_start())?;
    if let Some(guard) = fds.into_iter().next() {
        return Ok(guard);
    }
    let said = String::from_utf8_lossy(&message);
    let said = if said.is_empty() { "it ended without a word".into() } else { said };
    Err(Error::NotStarted(said.into_owned()))
}

/// The daemon: serves the fabric until its last client has gone, then removes the folder. Its
/// standard input is the socket on which `spawn` waits.
pub fn serve(dir: PathBuf) -> Result<(), Error> {
    become_daemon().map_err(cannot("become a daemon"))?;
    config::check_private(&dir)?;
    let fabric = dir.file_name().unwrap_or_default().to_string_lossy();
    soft_hca_daemon::log::begin(&config::log_file(), config::log_level()?, &fabric);
    let _span = tracing::error_span!("fabric", name = %fabric).entered();
    let starter = io::stdin().as_fd().try_clone_to_owned().map_err(cannot("use standard input"))?;
    let starter = Connection::from_fd(starter);
    starter.peer().map_err(cannot("see who starts the daemon, which `soft-hca run` does"))?;
    let announce = || {
        // The client that starts us may be dead by now; then the end of this connection, the
        // first, tells us so.
        let guard = Connection::connect(&dir.join(SOCKET))?;
        let _ = starter.send(b"1", &[guard.into_fd().as_fd()]);
        Ok(())
    };
    let link = LinkOptions::wanted(None, config::faults(Vec::new())?.split().0, None)?;
    let devices = Devices::default().named(config::devices(Vec::new())?);
    let served = soft_hca_daemon::run(
        &soft_hca_daemon::Config { dir: dir.clone(), devices, link },
        announce,
    );
    if let Err(error) = &served {
        let _ = starter.send(error.to_string().as_bytes(), &[]);
    }
    remove(&dir);
    served.map_err(Error::from)
}

/// Removes the folder of a fabric that has ended. If its lock is taken, its next start is under
/// way, and so it stays.
pub(super) fn remove(dir: &Path) {
    if let Ok(Some(_lock)) = FolderLock::try_now(dir) {
        remove_locked(dir);
    }
}

/// Removes the folder of a fabric unless it runs. The caller holds the lock.
fn remove_locked(dir: &Path) {
    if matches!(connect(dir, FileKind::Observer), Ok(None)) {
        let _ = empty(dir).and_then(|()| fs::remove_dir(dir));
        // The folder of all fabrics goes with the last one; it is not removed if one is in it.
        if let Some(above) = dir.parent() {
            let _ = fs::remove_dir(above);
        }
    }
}

/// Whether a fabric runs. What a killed daemon has left behind is removed.
pub(super) fn look(dir: &Path) -> Result<Option<Connection>, Error> {
    let connection = connect_or(&give_up, dir, FileKind::Observer)?;
    if connection.is_none() {
        remove(dir);
    }
    Ok(connection)
}

/// Removes what fabrics have in their folders, and nothing else.
fn empty(dir: &Path) -> io::Result<()> {
    clear(dir)?;
    for (entry, name) in entries(dir)? {
        if preload::is_link(&name) {
            fs::remove_file(entry)?;
        }
    }
    Ok(())
}

/// Removes what a fabric is known by.
fn clear(dir: &Path) -> io::Result<()> {
    for (entry, name) in entries(dir)? {
        if [SOCKET, config::LINK, config::DEVICES_FILE].contains(&name.as_str()) {
            fs::remove_file(entry)?;
        } else if sysfs::is_tree(&name) || name == FOLDER || name == notes::FOLDER {
            fs::remove_dir_all(entry)?;
        }
    }
    Ok(())
}

/// Paths and names of what is in a folder.
fn entries(dir: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    fs::read_dir(dir)?.map(|entry| entry.map(|entry| (entry.path(), name(&entry)))).collect()
}
