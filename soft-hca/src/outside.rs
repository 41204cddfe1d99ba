//! Programs into which the loader preloads nothing, as their files show.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{ELFMAG, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use rustix::fs::Access;
use soft_hca_core::system;

use super::doctor::is_for_this_machine;

/// The number of a file's first bytes that are read.
const HEAD: u64 = 4096;

/// The number of scripts that may be run by another one, as in the kernel (`exec_binprm`).
const SCRIPTS: usize = 5;

/// The kind of a program, by the loader that starts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// This loader, which preloads libraries.
    Dynamic(PathBuf),
    /// No loader: it is linked statically.
    Static,
    /// It is for another kind of processor than this one.
    Foreign,
    /// It cannot be read, or is none.
    #[default]
    Unknown,
}

/// The reason why nothing is preloaded into a program, and the remedy.
pub(super) type Outside = (String, String);

impl Kind {
    /// The kind of a file.
    pub(super) fn of_file(exe: &Path) -> Self {
        let head = head(exe);
        match head.starts_with(&ELFMAG) {
            false => Self::Unknown,
            true if !is_for_this_machine(exe) => Self::Foreign,
            true => interpreter(&head, exe).unwrap_or(Self::Unknown),
        }
    }

    /// The reason why nothing is preloaded into such a program, if so.
    pub(super) fn outside(&self) -> Option<Outside> {
        match self {
            Self::Static => Some(("it is linked statically".into(), "link it dynamically".into())),
            Self::Foreign => Some((
                "it is for another kind of processor".into(),
                "build it for this machine".into(),
            )),
            Self::Dynamic(loader) if loader.to_string_lossy().contains("ld-musl") => Some((
                format!("its C library is musl ({})", loader.display()),
                "build it for glibc, or soft-hca-preload for musl".into(),
            )),
            _ => None,
        }
    }
}

/// The first bytes of a file, as far as it can be read.
fn head(file: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    // A part of it is enough.
    let _ = fs::File::open(file).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    head
}

/// The kind of a program with this head, by its program headers.
fn interpreter(head: &[u8], exe: &Path) -> Option<Kind> {
    let header = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, head).ok()?;
    let Some(found) = headers.iter().find(|header| header.p_type(endian) == PT_INTERP) else {
        return Some(Kind::Static);
    };
    let (from, count) = found.file_range(endian);
    let name = match head.get(from as usize..(from + count) as usize) {
        Some(name) => name.to_vec(),
        None => fs::read(exe).ok()?.get(from as usize..(from + count) as usize)?.to_vec(),
    };
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(Kind::Dynamic(OsStr::from_bytes(name).into()))
}

/// The rights that a file gives to the user that runs it, if the loader does not trust the environment because of
/// them (ld.so(8), secure-execution mode).
pub(super) fn rights(exe: &Path) -> Option<&'static str> {
    let status = fs::metadata(exe).ok()?;
    if status.mode() & libc::S_ISUID != 0 && status.uid() != system::user() {
        return Some("it is setuid");
    }
    if status.mode() & libc::S_ISGID != 0 && status.mode() & libc::S_IXGRP != 0 {
        return Some("it is setgid");
    }
    let mut value = [0; 64];
    // Root has them anyway.
    let has_more = system::user() != 0
        && rustix::fs::getxattr(exe, "security.capability", &mut value[..]).is_ok();
    has_more.then_some("its file has capabilities")
}

/// The reason why nothing is preloaded into a program with such rights.
pub(super) fn distrusted(rights: &str) -> Outside {
    let why = format!("{rights}, so that the loader preloads nothing");
    (why, "run a copy of it, without".into())
}

/// The file that a command line's first word runs, as execvp(3) finds it.
fn found(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let path = env::var_os("PATH")?;
    let mut files = env::split_paths(&path).map(|dir| dir.join(program));
    files.find(|file| file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok())
}

/// The program that runs a script.
fn runs_script(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    Some(OsString::from_vec(words.next()?.to_vec()).into())
}

/// Warns if a program that is about to be run stays outside its fabric. The loader itself warns of a preloaded
/// library that is for another C library.
pub(super) fn warn_of_program(program: &OsStr) {
    let Some(mut file) = found(program) else { return };
    for _ in 0..SCRIPTS {
        let Some(by) = runs_script(&head(&file)) else { break };
        file = by;
    }
    let is_trusted = || rustix::thread::no_new_privs().unwrap_or(false);
    let why = match Kind::of_file(&file) {
        kind @ (Kind::Static | Kind::Foreign) => kind.outside(),
        _ => rights(&file).filter(|_| !is_trusted()).map(distrusted),
    };
    if let Some((why, fix)) = why {
        let file = file.display();
        eprintln!(
            "soft-hca: nothing can be preloaded into {file}, which stays outside: {why}; {fix}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_are_none() {
        assert_eq!(Kind::of_file(Path::new("/etc/passwd")), Kind::Unknown);
        assert_eq!(Kind::of_file(Path::new("/nowhere")), Kind::Unknown);
    }

    #[test]
    fn who_runs_a_script() {
        let by = |text: &str| runs_script(text.as_bytes());
        assert_eq!(by("#! /bin/sh -e\nexit 1\n"), Some("/bin/sh".into()));
        assert_eq!(by("#!/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(by("#!\n/bin/sh"), None);
        assert_eq!(by("echo"), None);
    }

    #[test]
    fn what_a_command_runs() {
        let sh = found(OsStr::new("sh")).unwrap();
        assert!(matches!(Kind::of_file(&sh), Kind::Dynamic(_)), "{}", sh.display());
        assert_eq!(found(OsStr::new("./x")), Some("./x".into()));
        assert_eq!(found(OsStr::new("no such program")), None);
    }
}
