//! The one error type of the runner: each message names the file, program or
//! address concerned.

use std::io;
use std::path::{Path, PathBuf};

/// Errors outside the programs under observation.
///
/// A program that fails is not an error here: it has an [`Ending`](crate::process::Ending).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Path as given.
        program: String,
        /// Reason of the system.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Reason of the system.
        source: io::Error,
    },
    /// A file or stream could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Reason of the system.
        source: io::Error,
    },
    /// A JSON file does not have the expected shape.
    #[error("{path}: {source}")]
    Json {
        /// The file.
        path: PathBuf,
        /// Line, column and reason.
        source: serde_json::Error,
    },
    /// A file can be read but says something that makes no sense.
    #[error("{path}: {what}")]
    Data {
        /// The file.
        path: PathBuf,
        /// The mistake in it.
        what: String,
    },
    /// The kernel cannot be asked whether a server listens.
    #[error("cannot see whether the server listens: {0}")]
    Listen(String),
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// For `map_err` after reading `path`.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        move |source| Error::Read { path: path.to_owned(), source }
    }

    /// For `map_err` after writing `path`.
    pub fn write(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        move |source| Error::Write { path: path.to_owned(), source }
    }

    /// For `map_err` after parsing the JSON text of `path`.
    pub fn json(path: &Path) -> impl FnOnce(serde_json::Error) -> Error + '_ {
        move |source| Error::Json { path: path.to_owned(), source }
    }

    /// Whether the reader of standard output has closed it, as `| head` does.
    pub fn is_unread(&self) -> bool {
        matches!(self, Error::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// `path` holds something unusable.
    pub fn data(path: &Path, what: impl Into<String>) -> Error {
        Error::Data { path: path.to_owned(), what: what.into() }
    }
}
