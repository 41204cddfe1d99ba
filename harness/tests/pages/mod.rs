//! The pages for readers: what they refer to exists, and the commands of those in `docs` run and
//! print what is shown.

mod changed;
mod console;
mod inherited;
mod links;
mod search;
mod site;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::examples::EXAMPLES;
use harness::golden::normalise::Normaliser;
use harness::private::{self, Network};

use self::console::{Session, sessions};
use crate::own_network;
use crate::tree::{files, top};

/// Name of soft-hca in `./demo`, see there.
const FABRIC: &str = "soft-hca: the kernel's RDMA stack in user space, no device, no root";

/// The devices of `./demo --infiniband`, and those of `./demo apm`, see there.
const TWO_PORTS: &str = " --device rxe0:infiniband,ports=2 --device rxe1:infiniband";
const BESIDE: &str = " --device rxe0 --device rxe1:infiniband,ports=2 --device rxe2:infiniband";
/// Its flags for the paths on them.
const BY_LID: &str = " --by-lid --migrate-on rxe1,rxe0,198.18.1.1";
const BESIDE_PATHS: &str = " --migrate-on rxe2,rxe1,198.18.2.1";

/// The page that a reader begins with. Its prose has commands that build, need other packages, or wait for a reader.
const README: &str = "README.md";

/// The page that names verbs and functions of the examples only; others name the C's, too.
const COURSE: &str = "docs/course.md";

/// Names that the C alone has: a message of apm's, and what "How the C became Rust" tells of the options.
const ELSEWHERE: [&str; 3] = ["rdma_send_recv", "our_options", "our_unprocess_options"];

fn name(page: &Path) -> String {
    page.strip_prefix(top()).unwrap().display().to_string()
}

/// The pages written for readers of the examples; those on faithfulness are made by `./compare`. Translations have
/// the commands of their originals.
fn is_about_examples(page: &Path) -> bool {
    let name = name(page);
    let is_original = !name.starts_with("docs/faithfulness") && !name.ends_with(".zh-CN.md");
    name == README || name.starts_with("docs/") && is_original
}

/// The pages on the examples, where a name that is nowhere is a mistake; in soft-hca's the kernel has names, too.
fn names_verbs(page: &Path) -> bool {
    let name = name(page);
    let is_of_an_example =
        EXAMPLES.iter().any(|example| name == format!("{}/README.md", example.name));
    is_of_an_example
        || name.starts_with("docs/")
        || name.starts_with("lessons/")
        || name.starts_with("README")
}

/// Names of MLNX_OFED's verbs, whose headers are not here.
fn is_experimental(page: &Path, what: &str) -> bool {
    name(page).starts_with("docs/manual.") && what.to_lowercase().contains("`ibv_exp_")
}

/// The words of a text.
fn words(text: &str) -> BTreeSet<String> {
    let word = regex::Regex::new(r"\w+").unwrap();
    word.find_iter(text).map(|found| found.as_str().to_owned()).collect()
}

/// The words of rdma-core's headers, which every build needs.
fn words_of_headers() -> BTreeSet<String> {
    let folders = ["/usr/include/infiniband", "/usr/include/rdma"].map(Path::new);
    let headers = folders.into_iter().flat_map(|folder| files(folder, ".h"));
    headers.flat_map(|header| words(&fs::read_to_string(header).unwrap())).collect()
}

/// The words of the sources in these folders, where a reader may meet a verb or one of their functions.
fn words_of<'a>(folders: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let folders = folders.into_iter().map(|folder| top().join(folder));
    let sources = folders.filter(|folder| folder.is_dir()).flat_map(|folder| files(&folder, ".rs"));
    sources.flat_map(|path| words(&fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn what_pages_refer_to_exists() {
    let words = words_of(EXAMPLES.iter().map(|example| example.name).chain(["common"]));
    assert!(words.contains("ibv_post_recv"));
    let mut all = words_of_headers();
    assert!(all.contains("ibv_wr_atomic_write"));
    all.extend(words_of(["lessons"]));
    all.extend(words.iter().cloned().chain(ELSEWHERE.map(str::to_owned)));
    let pages = files(top(), ".md");
    assert!(pages.iter().any(|page| name(page) == COURSE));
    let mut problems = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        let mut found = links::broken(&text, page.parent().unwrap());
        if name(page) == COURSE {
            found.extend(links::unknown(&text, &words));
        } else if names_verbs(page) {
            found.extend(
                links::unknown(&text, &all)
                    .into_iter()
                    .filter(|(_, what)| !is_experimental(page, what)),
            );
        }
        let found = found.iter().map(|(line, what)| format!("{}:{line}: {what}", name(page)));
        problems.extend(found);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn each_difference_stands_once_and_its_heirs_name_it() {
    let incomplete = inherited::incomplete();
    assert!(incomplete.is_empty(), "{}", incomplete.join("\n\n"));
    let stale = inherited::stale();
    assert!(stale.is_empty(), "{}", stale.join("\n"));
}

/// Pages name the examples that run where none is named.
#[test]
fn pages_say_which_examples_are_left_out() {
    for (page, about) in [
        ("README.md", "./demo  "),
        ("README.zh-CN.md", "./demo  "),
        ("demo", "Without EXAMPLE: "),
        ("harness/README.md", "harness demo  "),
    ] {
        let text = fs::read_to_string(top().join(page)).unwrap();
        let line = text.lines().find(|line| line.trim_start().starts_with(about));
        let line = line.unwrap_or_else(|| panic!("{page} does not say what {about} runs"));
        for example in EXAMPLES.iter().filter(|example| example.faulty) {
            assert!(line.contains(example.name), "{page}: {line}");
        }
    }
}

#[test]
fn what_changed_are_the_files_that_differ() {
    let (problems, pages) = changed::problems();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(pages > 10, "only {pages} pages say what changed");
}

/// The page on what the examples share has all of it.
#[test]
fn each_module_of_common_has_its_reason() {
    let page = fs::read_to_string(top().join("common/README.md")).unwrap();
    let source = fs::read_to_string(top().join("common/src/lib.rs")).unwrap();
    let modules: Vec<_> = source.lines().filter_map(|line| line.strip_prefix("pub mod ")).collect();
    assert!(modules.len() > 5);
    for module in modules.iter().map(|module| module.trim_end_matches(';')) {
        let row = format!("| [{module}](src/{module}.rs) | ");
        assert!(page.contains(&row), "common/README.md has no row of {module}");
    }
}

/// Where cargo has put the programs: this test is in `deps` below it.
fn bin_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().to_owned()
}

/// The shell's line for a command of a page. A reader's `./demo` builds the programs first and
/// chooses a fabric; here it is what that comes to on a machine without a device, with the
/// programs that are built.
fn line(command: &str, bin: &str) -> Result<String, String> {
    let first = command.split_whitespace().next().unwrap_or_default();
    let command = match first {
        "./demo" => {
            let flags = command.trim_start_matches("./demo");
            let is_example = flags.starts_with(' ') && !flags.starts_with(" -");
            let explains = if is_example { "SOFT_HCA_EXPLAIN=1 " } else { "" };
            let is_apm = flags.split_whitespace().next() == Some("apm");
            let (devices, paths, flags) = match flags.strip_prefix(" --infiniband") {
                Some(flags) => (TWO_PORTS, BY_LID, flags),
                None if is_apm => (BESIDE, BESIDE_PATHS, flags),
                None => ("", "", flags),
            };
            let (flags, pull) = match flags.strip_prefix(" apm --pull-cable") {
                Some(flags) => (format!(" apm{flags}"), " --pull-cable"),
                None => (flags.to_owned(), ""),
            };
            format!(
                "{explains}target/release/soft-hca run{devices} -- target/release/harness demo \
                 --address 127.0.0.1{paths}{pull} --fabric-name \"{FABRIC}\" {flags}"
            )
        }
        "diff" => command.to_owned(),
        _ if first.starts_with("target/release/") => command.to_owned(),
        _ => return Err(format!("`{first}` is no command that pages may use")),
    };
    Ok(command.replace("target/release/", &format!("{bin}/")))
}

/// Runs a command where there is only soft-hca. Its status and both its streams.
fn run(command: &str) -> Result<(Option<i32>, String), String> {
    let bin_dir = bin_dir();
    let bin = bin_dir.to_str().ok_or("the programs' folder has no name in UTF-8")?;
    let line = format!("exec 2>&1; {}", line(command, bin)?);
    let words = ["timeout", "--kill-after=5", "100", "sh", "-c", &line].map(OsString::from);
    let output = private::command(Network::WithInterface, &own_network::names_file(), words)
        .current_dir(top())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text =
        String::from_utf8_lossy(&output.stdout).replace(&format!("{bin}/"), "target/release/");
    Ok((output.status.code(), text))
}

/// The mistake in a command, if any.
fn check(session: &Session, rules: &Normaliser) -> Result<(), String> {
    let (status, text) = run(&session.command)?;
    if status != Some(session.status()) {
        return Err(format!("ends with status {status:?} and\n{text}"));
    }
    let differences = session.differences(rules, &text);
    // Nothing shown is nothing said.
    if session.output.is_empty() || differences.is_empty() {
        return Ok(());
    }
    Err(differences.join("\n"))
}

/// The commands in a page's prose and tables: no output is shown.
fn in_prose(text: &str) -> Vec<Session> {
    let commands = links::spans(text).filter(|(_, span)| {
        ["./demo ", "target/release/", "diff "].iter().any(|begin| span.starts_with(begin))
    });
    let session = |(line, command): (usize, &str)| {
        // Differences are what one looks for.
        let status = if command.starts_with("diff ") { " # status 1" } else { "" };
        Session { line, command: format!("{command}{status}"), output: Vec::new() }
    };
    commands.map(session).collect()
}

#[test]
fn commands_print_what_is_shown() {
    if !own_network::is_possible() {
        return;
    }
    for file in ["soft-hca", "libsoft_hca_preload.so", "harness", "srq"] {
        let path = bin_dir().join(file);
        assert!(path.exists(), "build the workspace first: {} is missing", path.display());
    }
    let rules = Normaliser::read(&top().join("harness/golden")).unwrap();
    let mut problems = Vec::new();
    let (mut shown, mut done) = (0, BTreeSet::new());
    for page in files(top(), ".md").into_iter().filter(|page| is_about_examples(page)) {
        let text = fs::read_to_string(&page).unwrap();
        let blocks = sessions(&text);
        shown += blocks.len();
        done.extend(blocks.iter().map(|session| session.command.clone()));
        let mut all = blocks;
        let prose = if name(&page) == README { Vec::new() } else { in_prose(&text) };
        all.extend(prose.into_iter().filter(|one| done.insert(one.command.clone())));
        for session in all {
            if let Err(problem) = check(&session, &rules) {
                let Session { line, command, .. } = &session;
                problems.push(format!("{}:{line}: {command}\n{problem}", name(&page)));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(shown > 0, "no page shows a command");
    println!("{} commands, {shown} with their output", done.len());
}

#[test]
fn the_answers_patches_fit_the_examples() {
    let answers = fs::read_to_string(top().join("docs/answers.md")).unwrap();
    let patches = files(&top().join("docs/answers"), ".patch");
    assert!(!patches.is_empty());
    for patch in patches {
        let file = patch.file_name().unwrap().to_str().unwrap();
        assert!(answers.contains(&format!("[{file}](answers/{file})")), "no answer has {file}");
        let mut git = Command::new("git");
        let output =
            git.args(["apply", "--check"]).arg(&patch).current_dir(top()).output().unwrap();
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_demo_has_this_fabric_and_these_devices() {
    let demo = fs::read_to_string(top().join("demo")).unwrap();
    for said in [FABRIC, TWO_PORTS, BESIDE, BY_LID, BESIDE_PATHS] {
        assert!(demo.contains(said.trim()), "{said}");
    }
}

#[test]
fn commands_are_run_with_the_programs_that_are_built() {
    assert_eq!(line("target/release/soft-hca ls", "/b"), Ok("/b/soft-hca ls".to_owned()));
    let demo = line("./demo mc -c 2", "/b").unwrap();
    assert!(demo.starts_with("SOFT_HCA_EXPLAIN=1 /b/soft-hca run -- /b/harness demo"), "{demo}");
    assert!(demo.ends_with(" mc -c 2"), "{demo}");
    assert!(line("rm -rf x", "/b").is_err());
}

#[test]
fn a_wrong_status_is_found() {
    if !own_network::is_possible() {
        return;
    }
    let rules = Normaliser::read(&top().join("harness/golden")).unwrap();
    let session = |command: &str, output: &[&str]| Session {
        line: 1,
        command: command.to_owned(),
        output: output.iter().map(|&line| line.to_owned()).collect(),
    };
    let same = session("diff Cargo.toml Cargo.toml", &[]);
    assert_eq!(check(&same, &rules), Ok(()));
    assert!(check(&session("diff Cargo.toml LICENSE", &[]), &rules).is_err());
    assert_eq!(check(&session("diff -q Cargo.toml LICENSE # status 1", &[]), &rules), Ok(()));
    let shown = ["Files Cargo.toml and LICENSE differ"];
    let differ = |shown: &[&str]| session("diff -q Cargo.toml LICENSE # status 1", shown);
    assert_eq!(check(&differ(&shown), &rules), Ok(()));
    assert!(check(&differ(&["Files agree"]), &rules).is_err());
}
