//! Wrong copies of the examples, which `./compare` has to find by itself, and those that it does not find with the
//! reason: [`table`]. docs/mutants.md has the list for readers; `MUTANTS=write` writes it.
//!
//! A mutant is an example's crate with a few words changed. All that are tested are members of a workspace of their
//! own, beside the programs' folder, which cargo builds into the same one. Of many one in so many is tested if
//! `MUTANTS_SAMPLE` says so.

mod table;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use harness::examples::{Example, Sides};

use crate::own_network;
use crate::tree::top;
use table::{MUTANTS, Mutant};

/// Mutants that are compared at the same time, each in a fabric of its own.
const AT_ONCE: usize = 3;

/// The page that lists them.
const PAGE: &str = "docs/mutants.md";
/// The line below which the tables begin.
const BELOW: &str = "<!-- made by the test mutants:: -->";

/// The part of `./compare` that finds a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// A recorded command line.
    Case(&'static str),
    /// Its calls to RDMA.
    Calls,
    /// How it ends when a call fails.
    Failing,
    /// The pairings of both.
    Interop,
    /// Its cost.
    Speed,
    /// Nothing, for this reason.
    Survives(&'static str),
}

impl Found {
    /// The options of `./compare` that make it look there, and nowhere else.
    fn options(self) -> Vec<&'static str> {
        match self {
            Found::Case(case) => vec!["--only", "diff", "--case", case],
            Found::Calls => vec!["--only", "calls"],
            Found::Failing => vec!["--only", "failing"],
            Found::Interop => vec!["--only", "interop"],
            Found::Speed => vec!["--only", "speed", "--runs", "6"],
            Found::Survives(_) => vec!["--only", "diff,calls,failing,interop"],
        }
    }

    /// As the page has it.
    fn in_words(self) -> String {
        match self {
            Found::Case(case) => format!("`diff`, `{case}`"),
            Found::Calls => "`calls`".to_owned(),
            Found::Failing => "`failing`".to_owned(),
            Found::Interop => "`interop`".to_owned(),
            Found::Speed => "`speed`".to_owned(),
            Found::Survives(reason) => reason.to_owned(),
        }
    }
}

impl Mutant {
    fn example(&self) -> &'static Example {
        Example::named(self.example).unwrap()
    }

    /// The name of its crate.
    fn krate(&self) -> String {
        format!("mutant-{}", self.name)
    }

    /// A file of it.
    fn file(&self, name: &str) -> String {
        let mut text = fs::read_to_string(top().join(self.example).join(name)).unwrap();
        for (_, from, to) in self.edits.iter().filter(|(file, ..)| *file == name) {
            let places = text.matches(from).count();
            assert_eq!(places, 1, "{}: {from:?} is {places} times in {name}", self.name);
            text = text.replace(from, to);
        }
        text
    }

    /// Writes its crate.
    fn write(&self, folder: &Path) {
        let source = top().join(self.example);
        for part in ["src", "bin"].into_iter().filter(|part| source.join(part).is_dir()) {
            fs::create_dir_all(folder.join(part)).unwrap();
            for entry in fs::read_dir(source.join(part)).unwrap() {
                let name = format!("{part}/{}", entry.unwrap().file_name().to_str().unwrap());
                write_if_new(&folder.join(&name), &self.file(&name));
            }
        }
        let manifest = fs::read_to_string(source.join("Cargo.toml")).unwrap();
        let own = |name: &str| format!("name = \"{name}");
        let mut manifest = manifest.replace(&own(self.example), &own(&self.krate()));
        if source.join("src/lib.rs").exists() {
            let library = self.example.replace('-', "_");
            manifest += &format!("\n[lib]\n{}\"\ndoctest = false\n", own(&library));
        }
        write_if_new(&folder.join("Cargo.toml"), &manifest);
        // Its documentation.
        write_if_new(&folder.join("README.md"), "");
    }

    /// Whether it is found where it is sought.
    fn is_found(&self, programs: &Path) -> Result<bool, String> {
        let folder = Folder::new(&format!("mutant-{}-{}", self.name, std::process::id()));
        let example = self.example();
        for side in example.program_sides() {
            let name = example.binary(*side);
            let built = programs.join(name.replacen(self.example, &self.krate(), 1));
            assert!(built.exists(), "{} is not built", built.display());
            std::os::unix::fs::symlink(built, folder.0.join(name)).unwrap();
        }
        let (status, said) = compare(&folder.0, programs, self.example, self.found);
        Ok(match (self.found, status) {
            (Found::Speed, Some(1)) => said.contains("times the C's") || said.contains("memory is"),
            (_, Some(1)) => said.contains("UNEXPECTED") || said.contains("FAILS"),
            (_, Some(0)) => false,
            (_, status) => return Err(format!("ends with {status:?}:\n{said}")),
        })
    }
}

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Cargo builds what is newer than it was.
fn write_if_new(path: &Path, text: &str) {
    if fs::read_to_string(path).ok().as_deref() != Some(text) {
        fs::write(path, text).unwrap();
    }
}

/// Compares the programs of a folder with ours, which play the C's part. The status, and what was said.
fn compare(rust: &Path, c: &Path, example: &str, found: Found) -> (Option<i32>, String) {
    let mut compare = Command::new(env!("CARGO_BIN_EXE_harness"));
    compare.arg("compare").arg("--soft-hca").arg("--bin-dir").arg(rust).arg("--c").arg(c);
    compare.args(found.options()).arg(example).stdin(Stdio::null());
    let output = compare.output().unwrap();
    let [out, err] = [output.stdout, output.stderr];
    let said = String::from_utf8_lossy(&out).into_owned() + &String::from_utf8_lossy(&err);
    (output.status.code(), said)
}

/// Where cargo has put the programs: this test is in `deps` below it.
fn bin_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().to_owned()
}

/// Builds mutants, into the folder of the programs.
fn build(mutants: &[&Mutant]) {
    let target = bin_dir().parent().unwrap().to_owned();
    let workspace = target.join("mutants");
    let _ = fs::remove_dir_all(workspace.join("members"));
    for mutant in mutants {
        mutant.write(&workspace.join("members").join(mutant.krate()));
    }
    let manifest = fs::read_to_string(top().join("Cargo.toml")).unwrap();
    let (head, rest) = manifest.split_once("members = [").unwrap();
    let (_, rest) = rest.split_once("\n[workspace.package]").unwrap();
    // Paths of dependencies, and of the patch.
    let rest = rest.replace("path = \"", &format!("path = \"{}/", top().display()));
    let members = format!("{head}members = [\"members/*\"]\n\n[workspace.package]{rest}");
    write_if_new(&workspace.join("Cargo.toml"), &members);
    fs::copy(top().join("Cargo.lock"), workspace.join("Cargo.lock")).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "--workspace", "--bins", "--offline", "--quiet"])
        .arg("--manifest-path")
        .arg(workspace.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        // No lint has to tell what is wrong with them.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

/// Does something with all of a list, several at a time. The problems are told.
fn all_at_once<T: Sync>(items: &[T], check: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let (queue, problems) = (Mutex::new(items.iter()), Mutex::new(Vec::new()));
    let next = || queue.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(item) = next() {
                    let problem = check(item);
                    problems.lock().unwrap().extend(problem);
                }
            });
        }
    });
    problems.into_inner().unwrap()
}

/// Every Nth of these, if `MUTANTS_SAMPLE` is N; those alone whose name has `MUTANTS_NAMED` in it. The others are
/// counted as skipped, in the format of `./check`. A sample has none that speed finds: it is taken beside other tests.
fn sampled() -> Vec<&'static Mutant> {
    let one_in = std::env::var("MUTANTS_SAMPLE").map_or(1, |number| number.parse().unwrap());
    let named = std::env::var("MUTANTS_NAMED").unwrap_or_default();
    let all = MUTANTS.iter().filter(|mutant| mutant.name.contains(&named));
    let all = all.filter(|mutant| one_in == 1 || mutant.found != Found::Speed);
    let sample: Vec<_> = all.step_by(one_in).collect();
    let (left, all) = (MUTANTS.len() - sample.len(), MUTANTS.len());
    if left > 0 {
        // The runner keeps what `println!` writes to itself.
        let said =
            format!("\nskipped: {left} of {all} mutants\n0 passed, 0 failed, {left} skipped\n");
        std::io::stdout().write_all(said.as_bytes()).unwrap();
    }
    sample
}

#[test]
fn mutants_are_found() {
    if !own_network::is_possible() {
        return;
    }
    for file in ["soft-hca", "libsoft_hca_preload.so", "libsoft_hca_faulty.so", "srq"] {
        let path = bin_dir().join(file);
        assert!(path.exists(), "build the workspace first: {} is missing", path.display());
    }
    let mutants = sampled();
    build(&mutants);
    let programs = bin_dir();
    // Speed is measured while nothing else runs.
    let (alone, beside): (Vec<&Mutant>, Vec<&Mutant>) =
        mutants.iter().partition(|mutant| mutant.found == Found::Speed);
    let check = |mutant: &&Mutant| {
        let problem = match (mutant.found, mutant.is_found(&programs)) {
            (_, Err(why)) => why,
            (Found::Survives(_), Ok(true)) => "is found".to_owned(),
            (Found::Survives(_), Ok(false)) | (_, Ok(true)) => return None,
            (_, Ok(false)) => "is not found".to_owned(),
        };
        Some(format!("{} ({:?}) {problem}", mutant.name, mutant.found))
    };
    let mut problems = all_at_once(&beside, check);
    problems.extend(alone.iter().filter_map(check));
    // Where a mutant is found nothing may be if all is right.
    let right: BTreeSet<_> = beside.iter().map(|mutant| (mutant.example, mutant.found)).collect();
    let right: Vec<_> =
        right.into_iter().filter(|(_, found)| !matches!(found, Found::Survives(_))).collect();
    problems.extend(all_at_once(&right, |(example, found)| {
        let (status, said) = compare(&programs, &programs, example, *found);
        (status != Some(0)).then(|| format!("{example} as it is differs from itself:\n{said}"))
    }));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn mutants_are_what_the_table_says() {
    let names: BTreeSet<_> = MUTANTS.iter().map(|mutant| mutant.name).collect();
    assert_eq!(names.len(), MUTANTS.len());
    let found = |mutant: &&Mutant| !matches!(mutant.found, Found::Survives(_));
    assert!(MUTANTS.iter().filter(found).count() >= 40);
    for mutant in MUTANTS {
        assert!(mutant.example().original && mutant.example().sides != Sides::Single);
        assert!(!mutant.edits.is_empty());
        for (file, ..) in mutant.edits {
            mutant.file(file);
        }
    }
}

#[test]
fn the_page_has_the_mutants() {
    let mut tables = String::new();
    let rows = |survives: bool, head: &str| {
        let of_kind = |mutant: &&Mutant| matches!(mutant.found, Found::Survives(_)) == survives;
        let row = |mutant: &Mutant| {
            format!("| {} | {} | {} |\n", mutant.what, mutant.example, mutant.found.in_words())
        };
        let rows: String = MUTANTS.iter().filter(of_kind).map(row).collect();
        format!("| what is wrong | with | {head} |\n| --- | --- | --- |\n{rows}")
    };
    tables += &format!("\n## Found\n\n{}", rows(false, "found by `--only`"));
    tables += &format!("\n## Not found\n\n{}", rows(true, "why not"));
    let path = top().join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let (head, _) = page.split_once(BELOW).unwrap();
    let expected = format!("{head}{BELOW}\n{tables}");
    if std::env::var_os("MUTANTS").is_some_and(|what| what == "write") {
        fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(page == expected, "{PAGE} is another: MUTANTS=write writes it");
}
