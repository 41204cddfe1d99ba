//! Whether processes have found the device, and why not.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use soft_hca_core::config;
use soft_hca_core::device_file::DeviceFile;
use soft_hca_core::notes::Note;
use soft_hca_core::provider;

use super::Finding::{self, Good, Problem, Warning};
use super::image::Image;
use super::report;
use super::verbs::{self, Library};
use crate::outside::{self, Outside};
use crate::preload;
use crate::sanitizer::{self, Found, Reporting};

/// A program as a process ran it.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub pid: u32,
    pub image: Image,
    pub notes: Vec<Note>,
    /// The program that has taken the preloaded library out of its environment.
    pub removed_by: Option<PathBuf>,
}

/// The judgement of all processes; empty if there was none.
#[derive(Debug)]
pub(super) struct Judged {
    pub text: String,
    /// Whether one of them has found the device.
    pub is_found: bool,
}

/// Where the processes' fabric is.
struct Place<'a> {
    fabric: &'a Path,
    sysfs: &'a Path,
}

/// How a program uses verbs.
#[derive(Clone, Debug)]
enum Use {
    /// By libraries: the one that counts is the first.
    Shared(Vec<Library>),
    /// By what is linked in into this file.
    LinkedIn(PathBuf),
    No,
}

/// Files that were looked at, as the same libraries are in many processes.
#[derive(Default)]
struct Files {
    libraries: HashMap<PathBuf, Library>,
    linked_in: HashMap<PathBuf, bool>,
}

impl Files {
    fn library(&mut self, path: &Path) -> Library {
        let library = self.libraries.entry(path.into());
        library.or_insert_with(|| Library::of_file(path)).clone()
    }

    fn is_linked_in(&mut self, path: &Path) -> bool {
        *self.linked_in.entry(path.into()).or_insert_with(|| verbs::is_linked_in(path))
    }

    fn used(&mut self, image: &Image) -> Use {
        let mut libraries: Vec<Library> =
            image.libraries("libibverbs").map(|path| self.library(path)).collect();
        // The provider needs another one, which is there beside one that was brought along.
        libraries.sort_by_key(|library| !is_the_programs(library, image));
        if !libraries.is_empty() {
            return Use::Shared(libraries);
        }
        let files = image.mapped.iter().chain([&image.exe]);
        match files.into_iter().find(|file| self.is_linked_in(file)) {
            Some(file) => Use::LinkedIn(file.clone()),
            None => Use::No,
        }
    }
}

/// The folders of other releases that a process's environment names.
fn folders(image: &Image) -> impl Iterator<Item = PathBuf> {
    let named = image.variable(config::PROVIDERS).unwrap_or_default();
    provider::folders(named).filter_map(|folder| fs::canonicalize(folder).ok())
}

/// Whether a library was brought along by the program, and is not there for the provider.
fn is_the_programs(library: &Library, image: &Image) -> bool {
    let is_named = || folders(image).any(|folder| library.path.parent() == Some(&folder));
    library.is_brought_along() && !is_named()
}

/// Says of each process with a libibverbs whether it has found the device, and why not.
pub(super) fn judge(processes: Vec<Process>, fabric: &Path, sysfs: &Path) -> Judged {
    let place = Place { fabric, sysfs };
    if processes.is_empty() {
        return Judged { text: String::new(), is_found: false };
    }
    let mut files = Files::default();
    let used = processes.iter().map(|process| files.used(&process.image)).collect::<Vec<_>>();
    let mut said: Vec<(String, Vec<(&str, u32)>)> = Vec::new();
    let (mut count, mut found) = (0, 0);
    for (process, used) in processes.iter().zip(&used).filter(|(_, used)| !matches!(used, Use::No))
    {
        count += 1;
        found += usize::from(process.has_found(&place));
        let findings = report(&process.findings(used, &place));
        let name = (process.image.line.as_str(), process.pid);
        match said.iter_mut().find(|(other, _)| *other == findings) {
            Some((_, names)) => names.push(name),
            None => said.push((findings, vec![name])),
        }
    }
    let mut text = String::new();
    for (findings, names) in said {
        let names: Vec<String> =
            names.iter().map(|(line, pid)| format!("{line} (process {pid})")).collect();
        let _ = write!(text, "{}\n{findings}", names.join(", "));
    }
    let verdict = match (count, found) {
        (0, _) => no_use(&processes, &place),
        (_, 0) => Problem {
            what: format!("no process has found the device; {count} with a libibverbs"),
            fix: "what to do is said above".into(),
        },
        _ if count == found => {
            Good(format!("the device was found by each process with a libibverbs: {count}"))
        }
        _ => Warning {
            what: format!("the device was found by {found} of {count} processes with a libibverbs"),
            fix: "what to do is said above".into(),
        },
    };
    text += &report(&[("verdict", verdict)]);
    Judged { text, is_found: found > 0 }
}

/// Nothing has a libibverbs: what there was, and whether it could have had one.
fn no_use(processes: &[Process], place: &Place<'_>) -> Finding {
    let mut outside: Vec<String> = Vec::new();
    for process in processes.iter().filter(|process| !process.is_preloaded()) {
        let line = format!("{}: {}", process.image.exe.display(), process.outside(place).0);
        if !process.image.exe.as_os_str().is_empty() && !outside.contains(&line) {
            outside.push(line);
        }
    }
    let what = match processes.len() {
        1 => "the program has not loaded libibverbs".into(),
        count => format!("none of {count} programs has loaded libibverbs"),
    };
    let fix = if outside.is_empty() {
        "if it has an option for RDMA, it is not set; a library that is loaded on demand is named by \
         LD_DEBUG=libs"
            .into()
    } else {
        format!("nothing could be preloaded into {}", outside.join("; "))
    };
    Problem { what, fix }
}

impl Process {
    /// Whether our library is in it.
    fn is_preloaded(&self) -> bool {
        preload::NAMES.iter().any(|name| self.image.libraries(name).next().is_some())
    }

    fn providers(&self) -> impl Iterator<Item = &Path> {
        self.image.libraries("librxe-rdmav")
    }

    fn opened(&self) -> impl Iterator<Item = DeviceFile> {
        self.notes.iter().filter_map(|note| match note {
            Note::Opened(file) => Some(*file),
            _ => None,
        })
    }

    /// Whether it has found the device, as far as that shows: libibverbs keeps providers of devices that it has
    /// found, and loads them all when it looks.
    fn has_found(&self, place: &Place<'_>) -> bool {
        let is_opened = self.opened().any(|file| matches!(file, DeviceFile::Uverbs(_)));
        let is_listed = self.is_preloaded() && self.providers().next().is_some();
        is_opened || is_listed && self.image.is_in(place.fabric)
    }

    /// Why our library is not in it, and what to do.
    fn outside(&self, place: &Place<'_>) -> Outside {
        let image = &self.image;
        let of_file = image.kind.outside().or_else(|| image.secure.map(outside::distrusted));
        if let Some(outside) = of_file {
            return outside;
        }
        if let Some(program) = &self.removed_by {
            let what = format!("{} has taken LD_PRELOAD out of its environment", program.display());
            return (what, "put `soft-hca run --` behind that program, before the next".into());
        }
        if image.variable("LD_PRELOAD").is_none() {
            let fix = "leave LD_PRELOAD as `soft-hca run` sets it".into();
            return ("LD_PRELOAD is not in its environment".into(), fix);
        }
        if image.has_other_root {
            let what =
                "it has another root directory, in which the library is not to be found".into();
            return (what, "run soft-hca in the container: docs/ci.md".into());
        }
        let what = format!("the loader has not taken it, for fabric {}", place.fabric.display());
        (what, "LD_DEBUG=libs says why".into())
    }

    /// A line for each thing that has to be right.
    fn findings(&self, used: &Use, place: &Place<'_>) -> Vec<(&'static str, Finding)> {
        let mut findings = Vec::new();
        match used {
            Use::Shared(libraries) => {
                let is_brought = |library: &Library| is_the_programs(library, &self.image);
                let has_brought = libraries.first().is_some_and(is_brought);
                let describe = |library: &Library| {
                    let is_beside = has_brought && !is_brought(library);
                    let why = if is_beside { ", needed by the provider" } else { "" };
                    ("libibverbs", Good(library.describe() + why))
                };
                findings.extend(libraries.iter().map(describe));
            }
            Use::LinkedIn(file) => findings.push((
                "libibverbs",
                Warning {
                    what: format!("linked statically into {}", file.display()),
                    fix: "that needs its rxe provider to be linked in, too".into(),
                },
            )),
            Use::No => {}
        }
        findings.extend(
            self.image
                .libraries("librdmacm")
                .map(|path| ("librdmacm", Good(path.display().to_string()))),
        );
        if self.is_preloaded() {
            findings.push(("preloaded library", Good("is in it".into())));
            findings.push(("provider", self.provider(used)));
            findings.push(("device", self.device(place)));
            findings.extend(self.polls().map(|finding| ("polls", finding)));
            findings.extend(self.sanitizers().map(|finding| ("sanitizer", finding)));
        } else {
            let (what, fix) = self.outside(place);
            findings.push((
                "preloaded library",
                Problem { what: format!("is not in it: {what}"), fix },
            ));
        }
        findings.push(("/sys", self.sysfs(place)));
        findings.push(("locked memory", Good(self.locked_memory())));
        findings
    }

    /// The half of the driver that libibverbs has to load.
    fn provider(&self, used: &Use) -> Finding {
        if let Some(path) = self.providers().next() {
            return Good(path.display().to_string());
        }
        let system = provider::system_folder();
        let system = system.as_deref().map(provider::below).unwrap_or_default();
        let Some((system_abi, _)) = system.first() else {
            return Problem {
                what: "the system has none for rxe".into(),
                fix: "install it: apt install ibverbs-providers, dnf install libibverbs".into(),
            };
        };
        let library = match used {
            Use::Shared(libraries) => libraries.first(),
            Use::LinkedIn(_) => return Good("linked in, if there is one".into()),
            Use::No => None,
        };
        let abi = library.and_then(|library| library.private_abi);
        let others: Vec<_> =
            folders(&self.image).flat_map(|folder| provider::below(&folder)).collect();
        if let Some(abi) = abi.filter(|abi| system.iter().chain(&others).all(|(n, _)| n != abi)) {
            let releases = provider::releases(abi);
            let releases =
                releases.map(|these| format!(" of rdma-core {these}")).unwrap_or_default();
            let file = provider::file_name(abi);
            return Problem {
                what: format!(
                    "the library's private ABI is {abi}, the system's provider has {system_abi}: \
                     {file}{releases} is missing"
                ),
                fix: format!(
                    "have the program use the system's libibverbs, or name a folder with the missing one in {}: \
                     docs/programs.md",
                    config::PROVIDERS
                ),
            };
        }
        let drivers = self.image.variable(provider::DRIVERS).unwrap_or_default().as_bytes();
        if !drivers.is_empty()
            && !drivers.split(|byte| matches!(byte, b':' | b';')).any(|name| name.ends_with(b"rxe"))
        {
            return Problem {
                what: format!("{} is {}", provider::DRIVERS, String::from_utf8_lossy(drivers)),
                fix: format!("leave it unset, or put rxe into it: {}=rxe", provider::DRIVERS),
            };
        }
        if !self.has_asked() {
            return Good("not looked for yet".into());
        }
        Problem {
            what: "none for rxe was loaded".into(),
            fix: "look whether it could be: LD_DEBUG=files, and what the program says of providers"
                .into(),
        }
    }

    fn has_asked(&self) -> bool {
        self.notes.contains(&Note::Requested)
    }

    /// Whether it has the device.
    fn device(&self, place: &Place<'_>) -> Finding {
        if !self.image.is_in(place.fabric) {
            return Problem {
                what: format!("{} is not in its environment as it was set", config::DIR),
                fix: "leave the variables that begin with SOFT_HCA_".into(),
            };
        }
        let refused = self.notes.iter().find_map(|note| match note {
            Note::Refused(file, error) => {
                Some((file, std::io::Error::from_raw_os_error(error.number())))
            }
            _ => None,
        });
        if let Some((file, error)) = refused {
            return Problem {
                what: format!("{file} could not be opened: {error}"),
                fix: format!("look into {}", config::log_file().display()),
            };
        }
        let mut opened: Vec<String> = self.opened().map(|file| file.to_string()).collect();
        opened.sort();
        let mut counted: Vec<String> = Vec::new();
        for file in opened.chunk_by(|a, b| a == b) {
            counted.push(match file.len() {
                1 => file[0].clone(),
                times => format!("{} {times} times", file[0]),
            });
        }
        match (counted.is_empty(), self.has_asked(), self.has_found(place)) {
            (false, ..) => Good(format!("opened: {}", counted.join(", "))),
            (true, _, true) => Good("found, not opened".into()),
            (true, true, false) => Problem {
                what: "looked for, not found".into(),
                fix: "the provider's line says why".into(),
            },
            (true, false, false) => Warning {
                what:
                    "not looked for: the library is loaded, and ibv_get_device_list was not called"
                        .into(),
                fix: "see whether the program has to be told to use RDMA".into(),
            },
        }
    }

    /// Whether small sends go to the program's polls.
    fn polls(&self) -> Option<Finding> {
        let hooked: Vec<bool> = self
            .notes
            .iter()
            .filter_map(|note| match note {
                Note::Hooked(is_hooked) => Some(*is_hooked),
                _ => None,
            })
            .collect();
        let count = hooked.iter().filter(|is_hooked| **is_hooked).count();
        match hooked.len() {
            0 => None,
            all if all == count => Some(Good("pass through the preloaded library".into())),
            _ if self.image.variable(config::HOOK) == Some(OsStr::new("0")) => {
                Some(Good(format!("as they are ({}=0)", config::HOOK)))
            }
            _ => Some(Good(
                "some not through the preloaded library, which is slower for small messages".into(),
            )),
        }
    }

    /// The sanitizers that the program was built with, and whether the device's accesses are reported to them.
    fn sanitizers(&self) -> impl Iterator<Item = Finding> {
        let found = sanitizer::of_program(&self.image.exe, &self.image.mapped);
        found.into_iter().map(|Found { name, reporting }| match reporting {
            Reporting::Yes => Good(format!("{name}, which is told what the device does")),
            Reporting::No => Good(name.into()),
            Reporting::NotExported => Warning {
                what: format!(
                    "{name}, which is not told what the device does: the program does not export it"
                ),
                fix: "link the program with -Wl,--export-dynamic".into(),
            },
        })
    }

    fn sysfs(&self, place: &Place<'_>) -> Finding {
        match self.image.variable("SYSFS_PATH") {
            Some(path) if path == place.sysfs.as_os_str() => {
                Good(format!("is in {}", place.sysfs.display()))
            }
            Some(path) => Problem {
                what: format!("SYSFS_PATH is {}", path.to_string_lossy()),
                fix: "leave it as `soft-hca run` sets it".into(),
            },
            None => Problem {
                what: "SYSFS_PATH is not in its environment".into(),
                fix: "leave it as `soft-hca run` sets it".into(),
            },
        }
    }

    fn locked_memory(&self) -> String {
        match self.image.memlock {
            None => "without a limit".into(),
            Some(bytes) => format!(
                "{} KiB; nothing is locked here, while an adapter's driver refuses to register more (ulimit -l)",
                bytes / 1024
            ),
        }
    }
}
