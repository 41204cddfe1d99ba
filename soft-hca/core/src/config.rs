//! Names, folders and environment variables.
//!
//! A fabric is known by its folder, `$XDG_RUNTIME_DIR/soft-hca/NAME`, or `/tmp/soft-hca-UID/NAME`
//! where there is no such variable or another user has that folder. Nobody but its user may enter it.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use soft_hca_verbs::{Choices, NoChoices};

use crate::device_spec::{self, DeviceSpec};
use crate::system;

/// The fabric's folder, for programs in it.
pub const DIR: &str = "SOFT_HCA_DIR";
/// The number of the descriptor that keeps the fabric alive while a program or a child of it runs.
pub const LIFELINE: &str = "SOFT_HCA_LIFELINE";
/// The devices that a program finds, as a [`DeviceSet`](crate::device_spec::DeviceSet); all where
/// there is no such variable.
pub const USED: &str = "SOFT_HCA_USED";
/// The device's name, for programs in the fabric.
pub const DEVICE: &str = "SOFT_HCA_DEVICE";
/// The fabric that is meant if none is named.
pub const FABRIC: &str = "SOFT_HCA_FABRIC";
/// The file that the log of the fabrics' daemons goes to.
pub const LOG: &str = "SOFT_HCA_LOG";
/// How much is logged; see [`log_level`].
pub const LOG_LEVEL: &str = "SOFT_HCA_LOG_LEVEL";
/// The library to be preloaded, if it is not beside the command.
pub const PRELOAD: &str = "SOFT_HCA_PRELOAD";

/// The fabric's devices; see [`device_spec`].
pub const DEVICES: &str = "SOFT_HCA_DEVICES";
/// Addresses and interfaces for a link to other hosts; see [`LinkOptions`].
pub const ROCE: &str = "SOFT_HCA_ROCE";
/// Faults on purpose; see [`soft_hca_fault`]. For programs in a fabric: the faults in them.
pub const FAULT: &str = "SOFT_HCA_FAULT";
/// The file that the link's packets are recorded in.
pub const PCAP: &str = "SOFT_HCA_PCAP";

/// The user's runtime folder, of the XDG Base Directory Specification.
const RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";

/// How long the link's thread looks for more before it sleeps; see [`spin`].
pub const SPIN: &str = "SOFT_HCA_SPIN";

/// `1`: say on standard error what goes wrong; see [`explains`].
pub const EXPLAIN: &str = "SOFT_HCA_EXPLAIN";

/// `0`: programs' polls and posts of receives stay as they are; see [`is_hooked`].
pub const HOOK: &str = "SOFT_HCA_HOOK";

/// `0`: all sends go through the send queue; see [`sends_at_once`].
pub const AT_ONCE: &str = "SOFT_HCA_AT_ONCE";

/// `0`: programs do not run their lease of the port to other hosts; see [`runs_port`].
pub const OWN_PORT: &str = "SOFT_HCA_OWN_PORT";

/// Folders of libraries, separated by colons: libibverbs and its rxe provider of other releases of rdma-core, for
/// programs that bring a libibverbs along; see [`provider`](crate::provider).
pub const PROVIDERS: &str = "SOFT_HCA_PROVIDERS";

/// The seed of a program that is run strictly; see [`strict`].
pub const STRICT: &str = "SOFT_HCA_STRICT_SEED";

/// The choices that are made for such a program; see [`Strict`].
pub const STRICT_CHOICES: &str = "SOFT_HCA_STRICT_CHOICES";

/// `1`: sleeps of such a program go by the fabric's clock; see [`Strict`].
pub const SKIP_SLEEPS: &str = "SOFT_HCA_SKIP_SLEEPS";

/// All variables, for the help.
pub const VARIABLES: [(&str, &str); 20] = [
    (FABRIC, "the fabric if --fabric is not given; set for programs in a fabric"),
    (LOG, "the file of the log; `soft-hca doctor` shows where it is otherwise"),
    (LOG_LEVEL, "error, warn, info (refused commands, too) or debug (connections, too) [info]"),
    (DEVICES, "as --device, several separated by blanks"),
    (ROCE, "as --roce=...; `default` for --roce alone"),
    (FAULT, "as --fault, several separated by blanks"),
    (PCAP, "as --pcap"),
    (STRICT, "as --strict=SEED"),
    (STRICT_CHOICES, "as --only-choices"),
    (SKIP_SLEEPS, "1: as --skip-sleeps"),
    (SPIN, "microseconds for which the link looks for more before it sleeps [0 or 50]"),
    (EXPLAIN, "1: as --explain"),
    (HOOK, "0: small sends do not wait in shared memory for the receiver's poll"),
    (AT_ONCE, "0: small sends go through the send queue, as all others do"),
    (OWN_PORT, "0: programs that poll do not send to other hosts, or receive, in their own calls"),
    (PROVIDERS, "folders with other releases' libibverbs, for programs that bring one along"),
    (PRELOAD, "libsoft_hca_preload.so, if it is not beside soft-hca"),
    (DIR, "set for programs in a fabric: its folder"),
    (DEVICE, "set for programs in a fabric: the name of their device"),
    (USED, "set for programs in a fabric by --use: which devices they find"),
];

/// Name of the daemon's socket in its fabric's folder.
pub const SOCKET: &str = "socket";

/// Name of the file that is there if a fabric was to have a link to other hosts. Its first line says
/// why there is none, or nothing; the second one is [`LinkOptions::extras`]; the third one has the
/// addresses that come first in the table of GIDs.
pub const LINK: &str = "link";

/// Name of the file that is there if a fabric has other devices than the usual one: their
/// specifications.
pub const DEVICES_FILE: &str = "devices";

/// Bytes that the path of a socket may have.
const MAX_SOCKET_PATH: usize = 107;

/// How a program is run strictly. Displayed as the options that say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strict {
    /// The seed of its choices.
    pub seed: u64,
    /// Those that are made by the seed; others get the kindest answer.
    pub choices: Choices,
    /// Its sleeps go by the fabric's clock.
    pub skips_sleeps: bool,
}

impl fmt::Display for Strict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, choices, skips_sleeps } = self;
        write!(f, "--strict={seed}")?;
        if *choices != Choices::ALL {
            write!(f, " --only-choices={choices}")?;
        }
        if *skips_sleeps {
            write!(f, " --skip-sleeps")?;
        }
        Ok(())
    }
}

/// Errors in names and folders.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name that cannot be a folder's.
    #[error("a fabric's name has 1 to 32 letters, digits, '-', '_' or '.', and no '.' in front")]
    Fabric,
    /// Somebody else's folder, or one that is open to others.
    #[error(
        "{} is not a folder of mode 0700 that belongs to you: move it away or set XDG_RUNTIME_DIR",
        .0.display()
    )]
    NotPrivate(PathBuf),
    /// The socket in the folder could not have a name.
    #[error("{} is too long a path for a socket: set XDG_RUNTIME_DIR to a shorter one", .0.display())]
    TooLong(PathBuf),
    /// A runtime folder that each working directory would have another one of.
    #[error("XDG_RUNTIME_DIR is {}: set it to a path that begins with /", .0.display())]
    Relative(PathBuf),
    /// Not one of the levels of the log.
    #[error("{LOG_LEVEL} is error, warn, info or debug")]
    LogLevel,
    /// A fault that there is not.
    #[error("{0}; see `soft-hca run --fault help`")]
    Fault(#[from] soft_hca_fault::Error),
    /// A seed that is no number.
    #[error("{STRICT} is a number, the seed")]
    Seed,
    /// Choices that there are not.
    #[error("{STRICT_CHOICES}: {0}")]
    Choices(#[from] NoChoices),
    /// A fault that only a link has.
    #[error(
        "--fault with drop, duplicate, corrupt, delay or reorder is about packets of the link, so it \
         needs --roce"
    )]
    NoLink,
    /// Devices that there cannot be.
    #[error("--device: {0}")]
    Devices(#[source] device_spec::Error),
    /// Anything that the system refuses.
    #[error("cannot use {}: {}", .0.display(), .1)]
    Io(PathBuf, #[source] io::Error),
}

/// A fabric's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricName(String);

impl FabricName {
    /// The one that is meant if none is named.
    pub fn of_environment() -> Result<Self, Error> {
        match std::env::var_os(FABRIC).filter(|name| !name.is_empty()) {
            Some(name) => name.to_str().ok_or(Error::Fabric)?.parse(),
            None => Ok(Self("default".to_string())),
        }
    }
}

impl FromStr for FabricName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let length = (1..=32).contains(&name.len());
        if length && !name.starts_with('.') && name.chars().all(fits) {
            Ok(Self(name.to_string()))
        } else {
            Err(Error::Fabric)
        }
    }
}

/// The fabric's devices that a command line wants, or the environment if it does not mention any.
pub fn devices(given: Vec<DeviceSpec>) -> Result<Vec<DeviceSpec>, Error> {
    match variable(DEVICES) {
        Some(text) if given.is_empty() => device_spec::split(&text.to_string_lossy()),
        _ => device_spec::distinct(given),
    }
    .map_err(Error::Devices)
}

/// The link to other hosts that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// Addresses and interfaces, separated by commas; empty for the machine's own choice.
    pub addresses: String,
    /// Packets that stay in the fabric go by the link, too.
    pub is_always: bool,
    /// Faults of packets on purpose.
    pub faults: soft_hca_fault::Plan,
    /// The file that packets are recorded in, an absolute path.
    pub pcap: Option<PathBuf>,
}

impl LinkOptions {
    /// The word in a list for a link that the fabric's own programs use, too.
    const ALWAYS: &str = "always";
    /// The word for an empty list where there has to be something.
    const DEFAULT: &str = "default";

    /// The link that a command line requests, and in place of what it does not mention the environment; `None`
    /// for no link. Who wants packets recorded and says nothing of a link gets one that is always
    /// used. `faults` are those of packets.
    pub fn wanted(
        roce: Option<String>,
        faults: soft_hca_fault::Plan,
        pcap: Option<PathBuf>,
    ) -> Result<Option<Self>, Error> {
        let text = |value: OsString| value.to_string_lossy().into_owned();
        let pcap = pcap.or_else(|| variable(PCAP).map(PathBuf::from));
        let absolute = |path: PathBuf| std::path::absolute(&path).map_err(|e| Error::Io(path, e));
        let pcap = pcap.map(absolute).transpose()?;
        let for_pcap = || pcap.is_some().then(|| Self::ALWAYS.to_owned());
        let Some(list) = roce.or_else(|| variable(ROCE).map(text)).or_else(for_pcap) else {
            return if faults.is_empty() { Ok(None) } else { Err(Error::NoLink) };
        };
        let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
        let (always, words): (Vec<&str>, Vec<&str>) =
            words.filter(|word| *word != Self::DEFAULT).partition(|word| *word == Self::ALWAYS);
        let is_always = !always.is_empty();
        Ok(Some(Self { addresses: words.join(","), is_always, faults, pcap }))
    }

    /// Variables that say the same to the daemon.
    pub fn variables(&self) -> [(&'static str, OsString); 3] {
        let words = if self.addresses.is_empty() { Self::DEFAULT } else { &self.addresses };
        let list =
            if self.is_always { format!("{},{words}", Self::ALWAYS) } else { words.to_string() };
        let pcap = self.pcap.clone().map_or_else(OsString::new, PathBuf::into_os_string);
        [(ROCE, list.into()), (FAULT, self.faults.to_string().into()), (PCAP, pcap)]
    }

    /// Its options other than addresses, as those of `soft-hca run`; empty if there are none.
    pub fn extras(&self) -> String {
        let always = self.is_always.then(|| format!("--roce={}", Self::ALWAYS));
        let has_faults = self.faults != soft_hca_fault::Plan::default();
        let faults = has_faults.then(|| format!("--fault '{}'", self.faults));
        let pcap = self.pcap.as_ref().map(|path| format!("--pcap {}", path.display()));
        always.into_iter().chain(faults).chain(pcap).collect::<Vec<_>>().join(" ")
    }
}

/// The faults that a command line wants, or the environment if it does not mention any.
pub fn faults(given: Vec<soft_hca_fault::Plan>) -> Result<soft_hca_fault::Plan, Error> {
    match variable(FAULT) {
        Some(value) if given.is_empty() => Ok(value.to_string_lossy().parse()?),
        _ => Ok(given.into_iter().fold(soft_hca_fault::Plan::default(), soft_hca_fault::Plan::and)),
    }
}

/// The seed that a command line wants, or the environment if it does not mention any. A command line that
/// has no number gets one.
pub fn strict_seed(given: Option<Option<u64>>) -> Result<Option<u64>, Error> {
    match (given, variable(STRICT)) {
        (Some(seed), _) => Ok(Some(seed.unwrap_or_else(|| system::random() % 1_000_000))),
        (None, None) => Ok(None),
        (None, Some(_)) => strict().map(|strict| Some(strict.seed)).ok_or(Error::Seed),
    }
}

/// The choices that a command line wants, or the environment if it does not mention any.
pub fn strict_choices(given: Option<Choices>) -> Result<Choices, Error> {
    given.map_or_else(|| of_variable(STRICT_CHOICES), Ok)
}

/// The value of a variable; the default without one.
fn of_variable<T: Default + FromStr>(name: &str) -> Result<T, Error>
where
    Error: From<T::Err>,
{
    variable(name).map_or_else(|| Ok(T::default()), |text| Ok(text.to_string_lossy().parse()?))
}

impl fmt::Display for FabricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The folder of the fabric that this program was started in; `None` outside of one.
pub fn fabric_dir_of_program() -> Option<PathBuf> {
    std::env::var_os(DIR).map(PathBuf::from).filter(|dir| dir.is_absolute())
}

/// The folder that has the fabrics' folders.
pub fn base_dir() -> PathBuf {
    runtime_dir(variable(RUNTIME_DIR)).unwrap_or_else(fallback_base)
}

/// Every folder that may have fabrics of this user: with and without `XDG_RUNTIME_DIR`.
pub fn base_dirs() -> Result<Vec<PathBuf>, Error> {
    check_runtime_dir(variable(RUNTIME_DIR))?;
    let mut dirs = vec![base_dir(), fallback_base()];
    dirs.dedup();
    Ok(dirs)
}

/// How much is logged.
pub fn log_level() -> Result<tracing::Level, Error> {
    match std::env::var_os(LOG_LEVEL).filter(|level| !level.is_empty()) {
        Some(level) => level.to_str().and_then(|level| level.parse().ok()).ok_or(Error::LogLevel),
        None => Ok(tracing::Level::INFO),
    }
}

/// How long the link's thread is to look for more before it sleeps, if somebody has said: for the
/// daemon, so for whoever starts the fabric. What is no number of microseconds is as if nobody had.
pub fn spin() -> Option<Duration> {
    let microseconds = variable(SPIN)?.to_str()?.parse::<u32>().ok()?;
    Some(Duration::from_micros(microseconds.into()))
}

/// Whether it is to be said on standard error what goes wrong.
pub fn explains() -> bool {
    says(EXPLAIN, false)
}

/// Whether the program's polls may pass through the preloaded library. Not where data are damaged when a completion is
/// polled: there a poll may bring them when that is done.
pub fn is_hooked() -> bool {
    let damages = || faults(Vec::new()).is_ok_and(|plan| plan.damages());
    says(HOOK, true) && !damages()
}

/// Whether calls of the program have faults on purpose: a library that counts them stands before the provider.
pub fn has_faults() -> bool {
    variable(FAULT).is_some()
}

/// Whether a program's small sends may pass by the send queue.
pub fn sends_at_once() -> bool {
    is_hooked() && says(AT_ONCE, true)
}

/// Whether the program may send to other hosts, and receive from them, in its own calls.
pub fn runs_port() -> bool {
    is_hooked() && says(OWN_PORT, true) && strict().is_none()
}

/// How the program is to be run strictly, if it is: as unkind as the specification allows. What is no
/// number is as if nobody had said anything; `soft-hca` refuses it.
pub fn strict() -> Option<Strict> {
    let seed = variable(STRICT)?.to_str()?.parse().ok()?;
    let choices = strict_choices(None).unwrap_or_default();
    Some(Strict { seed, choices, skips_sleeps: skips_sleeps() })
}

/// Whether sleeps of a program that is run strictly go by the fabric's clock.
pub fn skips_sleeps() -> bool {
    says(SKIP_SLEEPS, false)
}

/// Whether a variable says yes, with anything but 0; as told if it is not set.
fn says(name: &str, otherwise: bool) -> bool {
    variable(name).map_or(otherwise, |value| value != "0")
}

/// A variable that is not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The file of the log.
pub fn log_file() -> PathBuf {
    match std::env::var_os(LOG).filter(|path| !path.is_empty()) {
        Some(path) => std::path::absolute(&path).unwrap_or(path.into()),
        // Beside the folder of all fabrics, which goes with the last one.
        None => base_dir().with_extension("log"),
    }
}

fn fallback_base() -> PathBuf {
    PathBuf::from(format!("/tmp/soft-hca-{}", system::user()))
}

/// Ours in the user's runtime folder. One that belongs to somebody else, as after `su`, is none.
fn runtime_dir(variable: Option<OsString>) -> Option<PathBuf> {
    let dir = variable.map(PathBuf::from).filter(|dir| dir.is_absolute())?;
    let found = fs::metadata(&dir).ok()?;
    (found.is_dir() && found.uid() == system::user()).then(|| dir.join("soft-hca"))
}

/// Checks that a runtime folder, if there is one, is the same from everywhere.
fn check_runtime_dir(variable: Option<OsString>) -> Result<(), Error> {
    match variable.map(PathBuf::from) {
        Some(dir) if !dir.is_absolute() => Err(Error::Relative(dir)),
        _ => Ok(()),
    }
}

/// The folder of a fabric, which need not exist.
pub fn fabric_dir(fabric: &FabricName) -> Result<PathBuf, Error> {
    check_runtime_dir(variable(RUNTIME_DIR))?;
    let dir = base_dir().join(&fabric.0);
    let socket = dir.join(SOCKET);
    if socket.as_os_str().as_bytes().len() > MAX_SOCKET_PATH {
        return Err(Error::TooLong(socket));
    }
    Ok(dir)
}

/// Creates a fabric's folder and the one above it, unless they exist.
pub fn create_private(dir: &Path) -> Result<(), Error> {
    let above = dir.parent().ok_or_else(|| Error::NotPrivate(dir.to_path_buf()))?;
    loop {
        create_one(above)?;
        match create_one(dir) {
            // Its last fabric has ended, and the folder above with it, between our two steps.
            Err(Error::Io(_, error)) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => return outcome,
        }
    }
}

fn create_one(dir: &Path) -> Result<(), Error> {
    let failed = |error| Error::Io(dir.to_path_buf(), error);
    loop {
        match DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        match check_private(dir) {
            // It has been removed since.
            Err(Error::Io(_, error)) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => return outcome,
        }
    }
}

/// Checks that a folder is no link, belongs to this user and lets nobody else in.
pub fn check_private(dir: &Path) -> Result<(), Error> {
    let found = fs::symlink_metadata(dir).map_err(|error| Error::Io(dir.to_path_buf(), error))?;
    if found.is_dir() && found.uid() == system::user() && found.mode() & 0o077 == 0 {
        Ok(())
    } else {
        Err(Error::NotPrivate(dir.to_path_buf()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn names() {
        for good in ["default", "a", "a.b-c_1", &"x".repeat(32)] {
            assert!(good.parse::<FabricName>().is_ok(), "{good}");
        }
        for bad in ["", ".", "..", ".a", "a/b", "a b", "ä", &"x".repeat(33)] {
            assert!(bad.parse::<FabricName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn lists_of_addresses_may_say_always() {
        let wanted = |list: &str| {
            LinkOptions::wanted(Some(list.into()), soft_hca_fault::Plan::default(), None)
                .unwrap()
                .unwrap()
        };
        let link = |addresses: &str, is_always| LinkOptions {
            addresses: addresses.into(),
            is_always,
            ..LinkOptions::default()
        };
        for (list, options) in [
            ("", link("", false)),
            ("default", link("", false)),
            ("always", link("", true)),
            ("always, eth0", link("eth0", true)),
            ("192.0.2.1,always,eth0", link("192.0.2.1,eth0", true)),
        ] {
            assert_eq!(wanted(list), options, "{list}");
            let [(_, list), ..] = options.variables();
            assert_eq!(wanted(list.to_str().unwrap()), options);
        }
    }

    #[test]
    fn faults_need_a_link_and_recordings_bring_it() {
        let drop: soft_hca_fault::Plan = "drop:1%".parse().unwrap();
        let none = |faults, pcap| LinkOptions::wanted(None, faults, pcap);
        assert!(matches!(none(drop.clone(), None), Err(Error::NoLink)));
        let no_fault = soft_hca_fault::Plan::default;
        assert_eq!(none(no_fault(), None).unwrap(), None);
        let recorded = none(no_fault(), Some("/tmp/file".into())).unwrap().unwrap();
        assert_eq!(recorded.extras(), "--roce=always --pcap /tmp/file");
        let seed = "seed=7".parse().unwrap();
        let path = Some("/tmp/file".into());
        let both = LinkOptions::wanted(Some("always".into()), drop.and(seed), path);
        let both = both.unwrap().unwrap();
        assert_eq!(both.extras(), "--roce=always --fault 'drop:1% seed=7' --pcap /tmp/file");
    }

    #[test]
    fn a_runtime_folder_is_absolute_and_our_own() {
        let own = std::env::temp_dir().join(format!("soft-hca-runtime-{}", std::process::id()));
        create_one(&own).unwrap();
        assert_eq!(runtime_dir(Some(own.clone().into())), Some(own.join("soft-hca")));
        fs::remove_dir(&own).unwrap();
        assert_eq!(runtime_dir(Some(own.into())), None);
        assert_eq!(runtime_dir(Some("tmp".into())), None);
        for good in [None, Some("/nowhere".into())] {
            assert!(check_runtime_dir(good).is_ok());
        }
        let relative = check_runtime_dir(Some("tmp".into())).unwrap_err();
        let expected = "XDG_RUNTIME_DIR is tmp: set it to a path that begins with /";
        assert_eq!(relative.to_string(), expected);
        assert_eq!(runtime_dir(None), None);
    }

    #[test]
    fn folders_are_private() {
        let above = std::env::temp_dir().join(format!("soft-hca-config-{}", std::process::id()));
        let dir = above.join("fabric");
        create_private(&dir).unwrap();
        create_private(&dir).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(matches!(create_private(&dir), Err(Error::NotPrivate(_))));
        fs::remove_dir(&dir).unwrap();
        symlink("/", &dir).unwrap();
        assert!(matches!(create_private(&dir), Err(Error::NotPrivate(_))));
        fs::remove_dir_all(&above).unwrap();
    }

    #[test]
    fn folders_that_come_and_go() {
        let base = std::env::temp_dir().join(format!("soft-hca-race-{}", std::process::id()));
        create_private(&base.join("ours")).unwrap();
        std::thread::scope(|scope| {
            let end_fabrics = scope.spawn(|| {
                for _ in 0..2_000 {
                    let _ = fs::remove_dir(base.join("ours"));
                    let _ = fs::remove_dir(&base);
                }
            });
            while !end_fabrics.is_finished() {
                create_private(&base.join("ours")).unwrap();
            }
        });
        fs::remove_dir_all(&base).unwrap_or_default();
    }
}
