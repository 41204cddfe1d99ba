//! Errors.

use std::io;

/// Why a measurement was not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {0}: {1}")]
    Cannot(&'static str, #[source] io::Error),
    /// A program could not be started.
    #[error("cannot start {0}: {1}")]
    Start(String, #[source] io::Error),
    /// A program ended with an error.
    #[error("{0} failed ({1}):\n{2}")]
    Failed(String, String, String),
    /// A program did not come to its end, or to where it listens.
    #[error("{0}: nothing happened for {1} s:\n{2}")]
    Stuck(String, u64, String),
    /// The two devices to be compared are not what they should be.
    #[error("the kernel has to have a device {0} and none named {1}; lab/run gives such a machine")]
    NoRxe(&'static str, &'static str),
    /// There are no two network namespaces.
    #[error(
        "two hosts need two network namespaces, which take root or a system that lets users have \
         namespaces of their own: {0}"
    )]
    NoHosts(String),
    /// A program's output has no figures.
    #[error("{0} printed no column {1}:\n{2}")]
    NoFigure(String, &'static str, String),
}

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// Turns a system's error into ours.
pub fn cannot(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::Cannot(what, error)
}
