//! The languages in which a student can write a lesson's program.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::lesson::top;

/// A language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Rust, unless another one is chosen.
    #[default]
    Rust,
    /// C.
    C,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Rust, Self::C];

    /// The name of a source.
    pub fn file(self, stem: &str) -> String {
        match self {
            Self::Rust => format!("{stem}.rs"),
            Self::C => format!("{stem}.c"),
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rust => "Rust",
            Self::C => "C",
        })
    }
}

/// Compiles a program in C, with what the lessons' programs share, to `out`. False if it does not compile; the
/// compiler says why.
///
/// # Errors
/// There is no compiler, or the kit cannot be read.
pub fn compile_c(source: &Path, out: &Path) -> Result<bool, Error> {
    let kit = top().join("lessons/kit/c");
    let mut cc = Command::new("cc");
    // With debug information: the record has the lines of calls.
    cc.args(["-std=gnu17", "-O1", "-g", "-Wall", "-I"]).arg(&kit);
    cc.arg("-o").arg(out).arg(source).args(sources(&kit)?).args(["-lrdmacm", "-libverbs"]);
    let status = cc.status().map_err(|source| Error::Start { program: "cc".into(), source })?;
    Ok(status.success())
}

/// The sources in C of a folder.
fn sources(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let paths = entries.map_err(Error::read(dir))?.into_iter().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|end| end == "c")).collect())
}
