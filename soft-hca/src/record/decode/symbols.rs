//! Addresses by the symbols and the debug information of the file that they are in.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use addr2line::Loader;
use object::{Object, ObjectSymbol, ReadCache};

/// The source line of a call.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Which of the callers it is: one whose source is the program's own.
    pub caller: usize,
    /// The function.
    pub function: Option<String>,
    /// File and line.
    pub at: Option<(String, u32)>,
}

/// Files of code that were looked at.
#[derive(Default)]
pub(super) struct Symbols {
    modules: HashMap<String, Result<Module, String>>,
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.modules.keys()).finish()
    }
}

/// A file of code.
struct Module {
    loader: Loader,
    /// Its debug information from a distribution's package.
    separate: Option<Loader>,
    /// The functions in the tables of symbols, by their first byte.
    functions: BTreeMap<u64, Symbol>,
}

/// A function in a table of symbols.
struct Symbol {
    bytes: u64,
    name: String,
}

/// A function's name, and the file and line in it, as far as they are known.
type Function = (Option<String>, Option<(String, u32)>);

/// Where packages of debug information have theirs.
const DEBUG: &str = "/usr/lib/debug/.build-id";

/// The build ID of a file, in hexadecimal digits, and its functions.
fn read(path: &Path) -> Result<(Option<String>, BTreeMap<u64, Symbol>), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let cache = ReadCache::new(file);
    let object = object::File::parse(&cache).map_err(|error| error.to_string())?;
    let id = object.build_id().map_err(|error| error.to_string())?;
    let id = id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
    let symbols = object.symbols().chain(object.dynamic_symbols());
    let functions = symbols.filter(|symbol| symbol.is_definition() && symbol.size() > 0);
    let named = functions.filter_map(|symbol| {
        let name = symbol.name().ok()?.to_owned();
        Some((symbol.address(), Symbol { bytes: symbol.size(), name }))
    });
    Ok((id, named.collect()))
}

impl Module {
    fn open(path: &str, wanted: Option<&str>) -> Result<Self, String> {
        let file = Path::new(path);
        let unreadable = |why: String| format!("{path} cannot be read: {why}");
        let (found, mut functions) = read(file).map_err(unreadable)?;
        if wanted.is_some() && found.as_deref() != wanted {
            return Err(format!("{path} has been built anew meanwhile"));
        }
        let loader = Loader::new(file).map_err(|error| unreadable(error.to_string()))?;
        let separate = wanted.and_then(|id| id.split_at_checked(2));
        let separate = separate.map(|(folder, rest)| format!("{DEBUG}/{folder}/{rest}.debug"));
        let separate = separate.filter(|path| Path::new(path).exists());
        if let Some((_, more)) = separate.as_ref().and_then(|path| read(Path::new(path)).ok()) {
            functions.extend(more);
        }
        let separate = separate.and_then(|path| Loader::new(path).ok());
        Ok(Self { loader, separate, functions })
    }

    /// The functions that are at an address, the innermost first: an inlined one before that which has
    /// it within.
    fn frames(&self, address: u64) -> Vec<Function> {
        let loaders = [Some(&self.loader), self.separate.as_ref()].into_iter().flatten();
        let of = |loader: &Loader| {
            let mut frames = loader.find_frames(address).ok()?;
            let mut all = Vec::new();
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref();
                let name = name.and_then(|name| name.demangle().ok().map(|name| name.into_owned()));
                let at = frame.location.and_then(|at| Some((at.file?.to_owned(), at.line?)));
                all.push((name, at));
            }
            all.iter().any(|(_, at)| at.is_some()).then_some(all)
        };
        loaders.into_iter().find_map(of).unwrap_or_default()
    }

    /// The function at an address, if a symbol tells it: not the one that ends before, as in a library whose
    /// symbols are those that others call.
    fn symbol(&self, address: u64) -> Option<String> {
        let (first, symbol) = self.functions.range(..=address).next_back()?;
        (address - first < symbol.bytes).then(|| demangled(symbol.name.clone()))
    }
}

/// A symbol as its language has it.
pub(super) fn demangled(symbol: String) -> String {
    addr2line::demangle_auto(symbol.into(), None).into_owned()
}

/// Whether a source is a program's own: not a header of the libraries, whose inline functions call
/// them, nor Rust's library or a crate of others.
fn is_own(file: &str) -> bool {
    let others = ["/rustc/", "/.rustup/", "/registry/src/", "/infiniband/verbs.h", "/rdma/rdma_"];
    !file.starts_with("/usr/include/") && !others.iter().any(|part| file.contains(part))
}

impl Symbols {
    /// The place of a call in a file of code, by the addresses behind the call and behind those of its
    /// function's callers; without a line why there is none.
    pub(super) fn line(
        &mut self,
        module: &str,
        build_id: Option<&str>,
        callers: &[u64],
    ) -> Result<Line, (Line, String)> {
        let opened = self.modules.entry(module.into());
        let opened = opened.or_insert_with(|| Module::open(module, build_id));
        let module = match opened {
            Ok(module) => module,
            Err(why) => return Err((Line::default(), why.clone())),
        };
        let mut first = None;
        // The call itself is before the address to which it returns.
        for (caller, address) in callers.iter().map(|address| address.saturating_sub(1)).enumerate()
        {
            let frames = module.frames(address);
            if frames.is_empty() {
                break;
            }
            for (function, at) in frames {
                let own = at.as_ref().is_some_and(|(file, _)| is_own(file));
                let function = function.or_else(|| module.symbol(address));
                let line = Line { caller, function, at };
                if own {
                    return Ok(shortened(line));
                }
                first = first.or(Some(line).filter(|line| line.at.is_some()));
            }
        }
        if let Some(line) = first {
            return Ok(shortened(line));
        }
        // Inline functions of the libraries' headers that were not inlined are no places.
        let is_inline = |name: &String| ["ibv_", "rdma_"].iter().any(|of| name.starts_with(of));
        let mut symbols = callers.iter().map(|address| module.symbol(address.saturating_sub(1)));
        let own = symbols.position(|name| name.as_ref().is_none_or(|name| !is_inline(name)));
        let caller = own.unwrap_or_default();
        let address = callers.get(caller).map(|address| address.saturating_sub(1));
        let function = address.and_then(|address| module.symbol(address));
        let line = Line { caller, function, at: None };
        Err((line, "no debug information (compile with -g)".into()))
    }

    /// How the path of a file of code is shown.
    pub(super) fn shown(&self, path: &str) -> String {
        relative(path)
    }
}

fn shortened(line: Line) -> Line {
    Line { at: line.at.map(|(file, number)| (relative(&file), number)), ..line }
}

/// A path without the way to a folder's own and its upper one, as compilers have it of headers.
fn straight(path: &str) -> PathBuf {
    let mut straight = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if straight.file_name().is_some() => _ = straight.pop(),
            part => straight.push(part),
        }
    }
    straight
}

/// A path as seen from this folder, if it is beneath it.
fn relative(path: &str) -> String {
    let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let path = straight(path);
    let inner = path.strip_prefix(folder).ok().filter(|inner| *inner != Path::new(""));
    inner.unwrap_or(&path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_others() {
        let others = [
            "/usr/include/infiniband/verbs.h",
            "/opt/ofed/include/rdma/rdma_verbs.h",
            "/rustc/5980761/library/core/src/option.rs",
            "/home/me/.cargo/registry/src/index-1/rdma-sys-0.3.0/src/verbs.rs",
        ];
        assert!(!others.into_iter().any(is_own));
        assert!(["/home/me/verbs.c", "ping-sr-1/src/send_recv.rs"].into_iter().all(is_own));
    }

    #[test]
    fn paths_of_headers_are_straight() {
        let folder = std::env::current_dir().unwrap();
        let folder = folder.to_str().unwrap();
        assert_eq!(relative(&format!("{folder}/a/b/../c/./d.h")), "a/c/d.h");
        assert_eq!(relative("/usr/../d.h"), "/d.h");
        assert_eq!(relative("../d.h"), "../d.h");
    }

    #[test]
    fn what_cannot_be_read_says_so() {
        let mut symbols = Symbols::default();
        let (line, why) = symbols.line("/no/such/file", None, &[1]).unwrap_err();
        assert!(line.at.is_none() && why.starts_with("/no/such/file cannot be read: "), "{why}");
        let own = std::env::current_exe().unwrap();
        let own = own.to_str().unwrap();
        let (_, why) = symbols.line(own, Some("0123"), &[1]).unwrap_err();
        assert_eq!(why, format!("{own} has been built anew meanwhile"));
    }
}
