//! `compare --get-c`: fetches the C originals, changes what no longer compiles or was not so when it was recorded, and
//! builds them. Nothing of their code is in this repository.

mod table;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex::Regex;

use crate::error::Error;

pub use table::{Edit, Program, Recipe, Repository, Sources};

/// Where repositories are looked for, unless something else is asked for.
pub const FROM: &str = "https://github.com";

/// Libraries behind the sources.
const LIBRARIES: [&str; 4] = ["-lrdmacm", "-libverbs", "-lpthread", "-lrt"];

/// Fetches from `from`, an address below which each repository has its owner's and its own name, and makes `dir`, which must not
/// be there or be empty. Writes to `out` what it does. Whether all could be built.
///
/// # Errors
/// A folder that is in use, a repository that is not to be had or has not that commit, a file in which an edit finds
/// nothing to change. `dir` is not there then.
pub fn get_c(recipe: &Recipe, from: &str, dir: &Path, out: &mut impl Write) -> Result<bool, Error> {
    let is_used = dir.read_dir().map_or(dir.exists(), |mut entries| entries.next().is_some());
    if is_used {
        return Err(Error::Usage(format!(
            "{} is there already; remove it, or give another folder",
            dir.display()
        )));
    }
    let work = Partial::beside(dir)?;
    for repository in &recipe.repositories {
        say(out, format_args!("fetching {} at {}", repository.name, &repository.commit[..7]))?;
        fetch(repository, from, &work.0)?;
    }
    for edit in &recipe.edits {
        apply(edit, &work.0)?;
    }
    let mut changed: Vec<_> = recipe.edits.iter().map(|edit| (&edit.file, edit.why)).collect();
    changed.dedup();
    for (file, why) in changed {
        say(out, format_args!("changed {file}: {why}"))?;
    }
    let mut built = 0;
    for program in &recipe.programs {
        match build(program, &work.0)? {
            None => built += 1,
            Some(errors) => {
                say(out, format_args!("not built: {}\n{}", program.path, errors.trim_end()))?
            }
        }
    }
    let all = recipe.programs.len();
    // An empty folder may be there.
    let _ = fs::remove_dir(dir);
    fs::rename(&work.0, dir).map_err(Error::write(dir))?;
    say(out, format_args!("{built} of {all} programs are in {}", dir.display()))?;
    Ok(built == all)
}

fn say(out: &mut impl Write, line: std::fmt::Arguments<'_>) -> Result<(), Error> {
    writeln!(out, "{line}").map_err(Error::write(Path::new("standard output")))
}

/// A folder that goes unless it is renamed.
struct Partial(PathBuf);

impl Partial {
    fn beside(dir: &Path) -> Result<Self, Error> {
        let name = dir.file_name().map(|name| name.to_string_lossy().into_owned());
        let name =
            name.ok_or_else(|| Error::Usage(format!("{} is no folder to make", dir.display())))?;
        let path = dir.with_file_name(format!(".{name}.{}", std::process::id()));
        fs::create_dir_all(&path).map_err(Error::write(&path))?;
        Ok(Self(path))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // It is not there once it was renamed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs git; its errors if it fails.
fn git(folder: &Path, arguments: &[&str]) -> Result<Result<(), String>, Error> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments);
    // A repository that is not there asks for a password.
    command.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
    let output =
        command.output().map_err(|source| Error::Start { program: "git".to_owned(), source })?;
    Ok(if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    })
}

/// Takes the files of a repository into a folder.
fn fetch(repository: &Repository, from: &str, into: &Path) -> Result<(), Error> {
    let Repository { name, commit, takes } = repository;
    let url = format!("{}/{name}", from.trim_end_matches('/'));
    let clone = into.join(".clone");
    fs::create_dir_all(&clone).map_err(Error::write(&clone))?;
    let refused = |why: String| Error::Usage(format!("cannot fetch {url}: {why}"));
    git(&clone, &["init", "--quiet"])?.map_err(refused)?;
    // Servers may give a commit that is asked for by its name, or all that they have.
    let alone = git(&clone, &["fetch", "--quiet", "--depth", "1", &url, commit])?;
    if alone.is_err() {
        git(&clone, &["fetch", "--quiet", &url, "+refs/*:refs/all/*"])?.map_err(refused)?;
    }
    git(&clone, &["checkout", "--quiet", commit])?
        .map_err(|_| refused(format!("it has no commit {commit}")))?;
    for (path, to) in takes {
        take(&clone.join(path), &into.join(to))?;
    }
    fs::remove_dir_all(&clone).map_err(Error::write(&clone))
}

/// Copies a file, or a folder's sources, headers and texts: what was built from them long ago stays behind.
fn take(from: &Path, to: &Path) -> Result<(), Error> {
    if from.is_file() {
        fs::copy(from, to).map_err(Error::read(from))?;
        return Ok(());
    }
    fs::create_dir_all(to).map_err(Error::write(to))?;
    for entry in fs::read_dir(from).map_err(Error::read(from))? {
        let path = entry.map_err(Error::read(from))?.path();
        let extension = path.extension().unwrap_or_default();
        let is_text = ["c", "h", "txt"].iter().any(|kind| extension == *kind);
        if let (Some(name), true) = (path.file_name(), path.is_file() && is_text) {
            fs::copy(&path, to.join(name)).map_err(Error::read(&path))?;
        }
    }
    Ok(())
}

/// Changes a file.
fn apply(edit: &Edit, folder: &Path) -> Result<(), Error> {
    let path = folder.join(&edit.file);
    let text = fs::read(&path).map_err(Error::read(&path))?;
    let text = String::from_utf8_lossy(&text);
    let find = Regex::new(edit.find).expect("expressions are right, as their test shows");
    if !find.is_match(&text) {
        return Err(Error::data(&path, format!("an edit finds nothing to change: {}", edit.why)));
    }
    let changed = find.replace_all(&text, edit.replace);
    fs::write(&path, changed.as_bytes()).map_err(Error::write(&path))
}

/// Builds a program; what the compiler says if that fails.
fn build(program: &Program, folder: &Path) -> Result<Option<String>, Error> {
    let sources = match &program.sources {
        Sources::Files(files) => files.iter().map(PathBuf::from).collect(),
        Sources::AllBut(others) => all_but(folder, &program.path, others)?,
    };
    let mut command = Command::new("gcc");
    command.current_dir(folder).args(program.flags).arg("-o").arg(&program.path);
    let output = command
        .args(sources)
        .args(LIBRARIES)
        .output()
        .map_err(|source| Error::Start { program: "gcc".to_owned(), source })?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((!output.status.success()).then_some(said))
}

/// The sources beside a program, but for some.
fn all_but(folder: &Path, program: &str, others: &[&str]) -> Result<Vec<PathBuf>, Error> {
    let below = Path::new(program).parent().unwrap_or(Path::new(""));
    let entries = fs::read_dir(folder.join(below)).map_err(Error::read(&folder.join(below)))?;
    let names =
        entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
    let mut sources: Vec<PathBuf> = names
        .filter(|name| name.ends_with(".c") && !others.contains(&name.as_str()))
        .map(|name| below.join(name))
        .collect();
    sources.sort();
    Ok(sources)
}
