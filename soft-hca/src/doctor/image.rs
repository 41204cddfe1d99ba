//! A program as a process runs it, and what `/proc` tells of it: its file, its environment, its libraries.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use soft_hca_core::config;

use crate::outside::{self, Kind};

/// `AT_SECURE` of getauxval(3): the loader preloads nothing from elsewhere.
const AT_SECURE: u64 = 23;

/// How much of a command line is shown.
const SHOWN: usize = 60;

/// A program as it is run.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    /// Its file.
    pub exe: PathBuf,
    /// Its command line, shortened.
    pub line: String,
    pub kind: Kind,
    /// Why the loader does not trust the environment, if it does not.
    pub secure: Option<&'static str>,
    /// Its environment, as it was when it began.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether it sees other files than this process.
    pub has_other_root: bool,
    /// Files that it has in its memory.
    pub mapped: Vec<PathBuf>,
    /// Bytes that it may lock in memory; `None` without a limit.
    pub memlock: Option<u64>,
}

impl Image {
    /// The image that a process has just become.
    pub(super) fn new(pid: u32) -> Self {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let exe = fs::read_link(proc.join("exe")).unwrap_or_default();
        let environment = fs::read(proc.join("environ")).unwrap_or_default();
        let root = |proc: &Path| {
            fs::metadata(proc.join("root/")).map(|root| (root.dev(), root.ino())).ok()
        };
        Self {
            line: command_line(&fs::read(proc.join("cmdline")).unwrap_or_default()),
            kind: Kind::of_file(&proc.join("exe")),
            secure: secure(&proc),
            environment: environment.split(|byte| *byte == 0).filter_map(variable).collect(),
            has_other_root: root(&proc) != root(Path::new("/proc/self")),
            exe,
            ..Self::default()
        }
    }

    /// Takes note of what it has in its memory by now.
    pub(super) fn look(&mut self, pid: u32) {
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let mapped = mapped(&maps);
        // There are none behind a process that is gone.
        if !mapped.is_empty() {
            self.mapped = mapped;
        }
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        self.memlock = memlock(&limits);
    }

    /// A variable of its environment.
    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.environment.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_os_str())
    }

    /// Whether its environment names a library to be preloaded.
    pub(super) fn names(&self, library: &Path) -> bool {
        let value = self.variable("LD_PRELOAD").unwrap_or_default().as_bytes();
        let mut paths = value.split(|byte| matches!(byte, b' ' | b':'));
        paths.any(|path| path == library.as_os_str().as_bytes())
    }

    /// Files in its memory whose names begin so.
    pub(super) fn libraries(&self, name: &str) -> impl Iterator<Item = &Path> {
        self.mapped.iter().map(PathBuf::as_path).filter(move |path| {
            path.file_name().is_some_and(|file| file.as_bytes().starts_with(name.as_bytes()))
        })
    }

    /// Whether it is in a fabric, as far as its environment says.
    pub(super) fn is_in(&self, fabric: &Path) -> bool {
        self.variable(config::DIR) == Some(fabric.as_os_str())
    }
}

fn variable(text: &[u8]) -> Option<(OsString, OsString)> {
    let at = text.iter().position(|byte| *byte == b'=')?;
    let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    Some((part(&text[..at]), part(&text[at + 1..])))
}

/// The words of a command line, with the program's own name for its path.
fn command_line(bytes: &[u8]) -> String {
    let mut words = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    let words = words.filter(|word| !word.is_empty());
    let line =
        words.fold(program, |line, word| format!("{line} {}", word.replace(char::is_control, " ")));
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

/// Why the loader does not trust the environment, from what the kernel tells it and from the file, as a process
/// that is traced gets no privileges.
fn secure(proc: &Path) -> Option<&'static str> {
    if let Some(rights) = outside::rights(&proc.join("exe")) {
        return Some(rights);
    }
    let words = fs::read(proc.join("auxv")).ok()?;
    let words: Vec<u64> = words
        .chunks_exact(8)
        .filter_map(|word| word.try_into().ok())
        .map(u64::from_ne_bytes)
        .collect();
    let is_secure = words.chunks_exact(2).any(|pair| pair[0] == AT_SECURE && pair[1] != 0);
    is_secure.then_some("it has other rights than who starts it")
}

/// The files of `/proc/PID/maps`, once each.
fn mapped(maps: &[u8]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for line in maps.split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b'/') else { continue };
        let file = Path::new(OsStr::from_bytes(&line[at..]));
        if files.last().is_none_or(|last| last != file) && !files.iter().any(|other| other == file)
        {
            files.push(file.into());
        }
    }
    files
}

/// The soft limit of `/proc/PID/limits`.
fn memlock(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process() {
        let pid = std::process::id();
        let mut image = Image::new(pid);
        image.look(pid);
        let exe = std::env::current_exe().unwrap();
        assert_eq!(image.exe, exe);
        assert!(matches!(&image.kind, Kind::Dynamic(loader) if loader.exists()), "{image:?}");
        assert_eq!(image.secure, None);
        assert!(!image.has_other_root);
        assert_eq!(image.libraries("libc.so").count(), 1);
        assert_eq!(image.variable("PATH"), std::env::var_os("PATH").as_deref());
        assert!(!image.names(&exe));
    }

    #[test]
    fn what_is_shown_of_a_command_line() {
        assert_eq!(command_line(b"/usr/bin/python3\0a b.py\0-x\0"), "python3 a b.py -x");
        let long = command_line(format!("x\0{}\0", "y".repeat(100)).as_bytes());
        assert_eq!(long, format!("x {}...", "y".repeat(58)));
        assert_eq!(command_line(b""), "");
    }

    #[test]
    fn limits_and_maps() {
        let limits = "Max file locks  unlimited  unlimited  locks\nMax locked memory  8388608  8388608  bytes\n";
        assert_eq!(memlock(limits), Some(8 << 20));
        assert_eq!(memlock("Max locked memory  unlimited  unlimited  bytes\n"), None);
        let maps = b"1-2 r--p 0 fe:00 1 /a b.so\n2-3 r-xp 1 fe:00 1 /a b.so\n3-4 rw-p 0 00:00 0\n4-5 r--p 0 fe:00 2 /c\n";
        assert_eq!(mapped(maps), ["/a b.so", "/c"].map(PathBuf::from));
    }
}
