//! Why a command cannot do what it was asked for, and what commands print with.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use soft_hca_core::config::{self, FabricName};
use soft_hca_core::errno::Errno;

/// Why the command cannot do what it was asked for. One line each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name or a folder will not do.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// An adapter whose numbers for failures are not known.
    #[error("no numbers of {name} are known; there are those of {known}")]
    NoVendorErrors {
        /// As it was given.
        name: String,
        /// The profiles that have some.
        known: String,
    },
    /// A number that is not among an adapter's.
    #[error("no source tells what vendor_err {number} of {profile} means; known are {known}")]
    UnknownVendorError {
        /// As it was given.
        number: String,
        /// The adapter.
        profile: String,
        /// Its numbers.
        known: String,
    },
    /// A word that is no timer of a queue pair.
    #[error(
        "'{0}' is no timer; there are timeout=0 to 31, retry_cnt=0 to 7, rnr_retry=0 to 7 and min_rnr_timer=0 to 31"
    )]
    NoTimer(String),
    /// An adapter whose times were not measured.
    #[error("no times of {name} are known; there are those of {known}")]
    NoTimes {
        /// As it was given.
        name: String,
        /// The profiles that have some.
        known: String,
    },
    /// The system refuses something.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The fabric's daemon refuses something.
    #[error("the fabric's daemon refuses: {}", describe(.0))]
    Refused(Errno),
    /// The fabric's daemon ended instead of listening; what it said, if anything.
    #[error("the fabric's daemon did not start: {0}")]
    NotStarted(String),
    /// The daemon does not answer.
    #[error("{0}")]
    Silent(String),
    /// Daemons do not answer, of fabrics with these names.
    #[error("no answer from the daemons of: {}", .0.join(", "))]
    AllSilent(Vec<String>),
    /// The socket is not held by this user's daemon.
    #[error("{} is held by another user's process", .0.display())]
    Stranger(PathBuf),
    /// The library that makes it work is not there.
    #[error(
        "{} is not there: install the package soft-hca anew, build it with \
         `cargo build --release -p soft-hca-preload -p soft-hca-faulty`, or set {}",
        .0.display(), config::PRELOAD
    )]
    NoPreload(PathBuf),
    /// The loader could not be told of the library, not even through the fabric's folder.
    #[error(
        "{} and the fabric's folder {} both have a space, a colon or a dollar sign in their paths, \
         which LD_PRELOAD cannot have: set XDG_RUNTIME_DIR to a folder of yours without, such as one \
         in /tmp",
        .library.display(), .dir.display()
    )]
    BadPreload {
        /// The library.
        library: PathBuf,
        /// The fabric's folder.
        dir: PathBuf,
    },
    /// The program could not be started.
    #[error("cannot run {}: {}", .0.to_string_lossy(), .1)]
    Exec(OsString, #[source] io::Error),
    /// A fabric that is to be recorded, or a port or device of which is meant, does not run.
    #[error("fabric {0} does not run: start a program in it first")]
    NoFabric(FabricName),
    /// The fabric has no such port.
    #[error("the fabric has no port {0}: `soft-hca ls` shows those that it has")]
    NoPort(String),
    /// The fabric has no such device.
    #[error("the fabric has no device {0}: `soft-hca ls` shows those that it has")]
    UnknownDevice(String),
    /// `--use` names what is none of the fabric's devices.
    #[error("--use: the fabric has {0}")]
    NoDevice(String),
    /// A record cannot be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    Record(PathBuf, #[source] soft_hca_record::file::Error),
    /// A daemon's end, other than the intended one.
    #[error(transparent)]
    Daemon(#[from] soft_hca_daemon::Error),
}

/// The exit status of a command that cannot be run, and of one that is not there, as of env(1).
const CANNOT_RUN: u8 = 126;
const NOT_THERE: u8 = 127;

impl Error {
    /// The exit status of a command that ends with it.
    pub fn status(&self) -> u8 {
        match self {
            Self::Exec(_, error) if error.kind() == io::ErrorKind::NotFound => NOT_THERE,
            Self::Exec(..) => CANNOT_RUN,
            _ => 1,
        }
    }
}

fn describe(error: &Errno) -> String {
    match error.reason() {
        Some(reason) => format!("{reason}{}", error.values()),
        None => io::Error::from_raw_os_error(error.number()).to_string(),
    }
}

/// An operation that the system refused.
pub(crate) fn cannot(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    |source| Error::System { what: what.into(), source }
}

/// Prints text. A reader that has gone does not matter.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(cannot("write to standard output")(error))
        }
        _ => Ok(()),
    }
}
