//! Errors beside those of the student's program.

use std::io;
use std::path::{Path, PathBuf};

use crate::words::{Words, words};

/// Each message names the file or the program. [`Display`](std::fmt::Display) has the English one.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.words().en)]
pub enum Error {
    /// A file could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file could not be written.
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A program could not be started.
    Start {
        /// Its path.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The record of a run cannot be read.
    Record {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: soft_hca_record::file::Error,
    },
    /// There was no run: what soft-hca said.
    NoRun(Words),
    /// From the harness.
    Harness(#[from] harness::Error),
    /// The command line makes no sense.
    Usage(Words),
}

impl Error {
    /// For `map_err` after reading.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    /// For `map_err` after writing.
    pub fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Write { path: path.to_owned(), source }
    }

    /// Its message. The reasons that the system, soft-hca and the harness give are in their language.
    pub fn words(&self) -> Words {
        match self {
            Self::Read { path, source } => {
                let path = path.display();
                words!("cannot read {path}: {source}", "无法读取 {path}：{source}")
            }
            Self::Write { path, source } => {
                let path = path.display();
                words!("cannot write {path}: {source}", "无法写入 {path}：{source}")
            }
            Self::Start { program, source } => {
                let program = program.display();
                words!("cannot start {program}: {source}", "无法启动 {program}：{source}")
            }
            Self::Record { path, source } => {
                let path = path.display();
                words!("cannot read the record {path}: {source}", "无法读取记录 {path}：{source}")
            }
            Self::NoRun(why) => {
                words!("the pair could not be run: {why}", "程序和对端没能运行：{why}", [why])
            }
            Self::Harness(error) => Words::verbatim(error),
            Self::Usage(what) => {
                words!("{what}; see ./learn --help", "{what}；用法见 ./learn --help", [what])
            }
        }
    }
}
