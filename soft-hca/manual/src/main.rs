//! Writes soft-hca's manual pages and shell completions, from the definition of its command line.
//!
//! They go where Debian's packages have them, below a folder such as `usr/share`: pages to
//! `man/man1`, completions to the folders that bash, zsh and fish search.
#![deny(unsafe_code)]

mod page;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, Parser};
use clap_complete::Shell;
use soft_hca::line;

/// The program that all this is about.
const NAME: &str = "soft-hca";

/// Where each shell looks for a completion, and under which name.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/soft-hca"),
    (Shell::Zsh, "zsh/vendor-completions/_soft-hca"),
    (Shell::Fish, "fish/vendor_completions.d/soft-hca.fish"),
];

/// Writes soft-hca's manual pages and the completions for bash, zsh and fish.
#[derive(Parser)]
#[command(name = "soft-hca-manual", version)]
struct Cli {
    /// The folder that stands for usr/share; what is missing of it is created
    share: PathBuf,
}

/// A file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", file.display())]
struct Error {
    file: PathBuf,
    source: io::Error,
}

/// The command line as far as users see it.
fn visible() -> Command {
    let all = line::definition();
    let subcommands = all.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let mut command = Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .subcommands(subcommands.cloned());
    if let Some(about) = all.get_about() {
        command = command.about(about.clone());
    }
    if let Some(about) = all.get_long_about() {
        command = command.long_about(about.clone());
    }
    command
}

fn write(file: PathBuf, content: &[u8]) -> Result<(), Error> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&file, content));
    written.map_err(|source| Error { file, source })
}

fn write_all(share: &Path) -> Result<(), Error> {
    let mut command = visible();
    for (shell, name) in COMPLETIONS {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, NAME, &mut script);
        write(share.join(name), &script)?;
    }
    let folder = share.join("man/man1");
    let pages = page::pages(visible()).map_err(|source| Error { file: folder.clone(), source })?;
    for (name, text) in pages {
        write(folder.join(name), &text)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match write_all(&Cli::parse().share) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soft-hca-manual: {error}");
            ExitCode::FAILURE
        }
    }
}
