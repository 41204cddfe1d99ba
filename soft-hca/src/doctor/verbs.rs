//! A libibverbs, or what has one in it, as a file: what it is called, of which release it is, and whose.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memchr::memmem;
use object::elf::DT_SONAME;

use crate::elf::dynamic_strings;
use crate::rdma_core::Version;

/// How the version of the interface between library and provider is called, a number behind it.
const PRIVATE: &[u8] = b"IBVERBS_PRIVATE_";
/// The beginning of the library's words on an environment that does not suit it (`ibverbs_init`).
const WORDS: &[u8] = b"libibverbs: Warning: ";
/// Where the system has libraries.
const SYSTEM: [&str; 4] = ["/usr/lib", "/lib", "/usr/local/lib", "/nix/store"];

/// A libibverbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Library {
    pub path: PathBuf,
    /// The name by which programs are linked with it.
    pub soname: Option<String>,
    pub version: Option<Version>,
    /// The number that providers have in their names.
    pub private_abi: Option<u32>,
    pub owner: Owner,
}

/// The owner of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A package of the system, by its name.
    Package(String),
    /// The system.
    System,
    /// The program, or a package for Python.
    Program(Option<String>),
}

impl Library {
    /// The library of a file.
    pub(super) fn of_file(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap_or_default();
        Self {
            soname: soname(&bytes),
            version: Version::of_library(path),
            private_abi: private_abi(&bytes),
            owner: owner(path),
            path: path.into(),
        }
    }

    /// Whether it is none of the system's.
    pub(super) fn is_brought_along(&self) -> bool {
        matches!(self.owner, Owner::Program(_))
    }

    /// All that is known.
    pub(super) fn describe(&self) -> String {
        let soname = self.soname.as_deref().unwrap_or("no SONAME");
        let version = self.version.map(|version| format!(", rdma-core {version}"));
        let abi = self.private_abi.map(|abi| format!(", private ABI {abi}"));
        let owner = match &self.owner {
            Owner::Package(name) => format!("of the package {name}"),
            Owner::System => "the system's".into(),
            Owner::Program(None) => "brought along by the program".into(),
            Owner::Program(Some(name)) => format!("brought along by {name}"),
        };
        let [version, abi] = [version, abi].map(Option::unwrap_or_default);
        format!("{} ({soname}{version}{abi}), {owner}", self.path.display())
    }
}

fn soname(bytes: &[u8]) -> Option<String> {
    dynamic_strings(bytes, DT_SONAME)?.into_iter().next()
}

fn private_abi(bytes: &[u8]) -> Option<u32> {
    memmem::find_iter(bytes, PRIVATE).find_map(|at| {
        let digits = bytes[at + PRIVATE.len()..].split(|byte| !byte.is_ascii_digit()).next()?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    })
}

fn owner(path: &Path) -> Owner {
    if let Some(package) = package(path) {
        return Owner::Package(package);
    }
    // Wheels have their libraries in a folder beside the package.
    let folders = path.ancestors().filter_map(|folder| folder.file_name()?.to_str());
    match folders.filter_map(|folder| folder.strip_suffix(".libs")).next() {
        Some(name) => Owner::Program(Some(name.trim_start_matches('.').to_owned())),
        None if SYSTEM.iter().any(|folder| path.starts_with(folder)) => Owner::System,
        None => Owner::Program(None),
    }
}

/// The package that a file is of, if the system knows.
fn package(path: &Path) -> Option<String> {
    let ask = |program: &str, arguments: &[&OsStr]| {
        let asked = Command::new(program)
            .args(arguments)
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .output();
        let answer = asked.ok().filter(|output| output.status.success())?;
        String::from_utf8(answer.stdout).ok()
    };
    let search = OsStr::new("--search");
    if let Some(answer) = ask("dpkg-query", &[search, path.as_os_str()]) {
        return answer.split_once(": ").map(|(package, _)| package.to_owned());
    }
    let words =
        ["--query", "--queryformat", "%{NAME}-%{VERSION}-%{RELEASE}", "--file"].map(OsStr::new);
    ask("rpm", &[&words[..], &[path.as_os_str()]].concat())
}

/// Whether a file that is not called so has a libibverbs in it.
pub(super) fn is_linked_in(path: &Path) -> bool {
    let own_library = |path: &Path| {
        let file = path.file_name().unwrap_or_default().as_bytes();
        [&b"libsoft_hca_"[..], b"libibverbs", b"librdmacm", b"ld-linux"]
            .iter()
            .any(|name| file.starts_with(name))
    };
    if own_library(path) {
        return false;
    }
    fs::File::open(path).is_ok_and(|file| has(file, WORDS))
}

/// Whether a file has these bytes in it.
fn has(mut file: impl Read, words: &[u8]) -> bool {
    let finder = memmem::Finder::new(words);
    let mut buffer = vec![0; 1 << 20];
    let mut kept = 0;
    while let Ok(count @ 1..) = file.read(&mut buffer[kept..]) {
        let filled = kept + count;
        if finder.find(&buffer[..filled]).is_some() {
            return true;
        }
        // The words may lie across what is read at a time.
        kept = filled.min(words.len() - 1);
        buffer.copy_within(filled - kept..filled, 0);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_behind_a_name() {
        assert_eq!(private_abi(b"x\0IBVERBS_PRIVATE_\0IBVERBS_PRIVATE_34\0"), Some(34));
        assert_eq!(private_abi(b"IBVERBS_1.1\0"), None);
    }

    #[test]
    fn owners() {
        let of = |path: &str| owner(Path::new(path));
        let name = |name: &str| Owner::Program(Some(name.into()));
        assert_eq!(
            of("/v/lib/python3/site-packages/nixl_cu12.libs/libibverbs-1a.so.1"),
            name("nixl_cu12")
        );
        assert_eq!(of("/v/site-packages/.nixl.mesonpy.libs/libibverbs.so.1"), name("nixl.mesonpy"));
        assert_eq!(of("/usr/lib/no-such-folder/libibverbs.so.1"), Owner::System);
        assert_eq!(of("/opt/no-such-folder/libibverbs.so.1"), Owner::Program(None));
    }

    #[test]
    fn words_across_pieces() {
        let mut bytes = vec![b'x'; (1 << 20) - 5];
        assert!(!has(&bytes[..], WORDS));
        bytes.extend(WORDS);
        assert!(has(&bytes[..], WORDS));
    }

    #[test]
    fn files_with_names() {
        // Built with one: this test is none.
        assert_eq!(soname(&fs::read("/proc/self/exe").unwrap()), None);
        assert_eq!(soname(b"no library"), None);
    }
}
