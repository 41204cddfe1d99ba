//! What can go wrong beside the student's program.

use std::io;
use std::path::{Path, PathBuf};

/// Each message names the file or the program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {verb} {path}: {source}")]
    File {
        /// `read` or `write`.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Its path.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The record of a run cannot be read.
    #[error("cannot read the record {path}: {source}")]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: soft_hca_record::file::Error,
    },
    /// There was no run: what soft-hca said.
    #[error("the pair could not be run: {0}")]
    NoRun(String),
    /// From the harness.
    #[error(transparent)]
    Harness(#[from] harness::Error),
    /// The command line makes no sense.
    #[error("{0}; see ./learn --help")]
    Usage(String),
}

impl Error {
    /// For `map_err` after reading.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File { verb: "read", path: path.to_owned(), source }
    }

    /// For `map_err` after writing.
    pub fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File { verb: "write", path: path.to_owned(), source }
    }
}
