//! Each lesson's checker with its own programs: a solution and another right program are accepted, what a
//! student begins with and the wrong programs are not, and of these the coach says what their first
//! lines promise.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use coach::facts::Run;
use coach::language::{Language, compile_c};
use coach::lesson::{LESSONS, Lesson, SOLUTION, START};
use coach::play::Play;
use coach::trial::tried;
use coach::verdict::{Verdict, Wrong};
use coach::words::Tongue;

/// So many pairs at a time: most of theirs is waiting.
const AT_ONCE: usize = 4;
/// A program that was stopped, although it should not, has all the time that a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(100);
/// A program is waited for this long at first: many are to hang, and the peer of one whose datagram `--strict` loses does.
const HANG: Duration = Duration::from_secs(5);
/// The seeds of strict runs: the first is for all programs, the others for wrong ones that pass by
/// luck.
const SEEDS: Range<u64> = 1..6;
/// The beginning of the first line of a wrong program's patch, before the words that the coach has to say.
const SAYS: &str = "Wrong. The coach says: ";

/// A program of a lesson, and the words that the coach has to say; none if the program is right.
#[derive(Debug)]
struct Case {
    lesson: &'static Lesson,
    program: String,
    says: Option<String>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for lesson in LESSONS {
        for entry in fs::read_dir(lesson.dir()).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_str().unwrap();
            let Some((program, "rs" | "patch")) = file.rsplit_once('.') else { continue };
            let says = match program {
                "mod" | "peer" => continue,
                "solution" => None,
                right if right.starts_with("another") => None,
                "start" => Some(String::new()),
                _ => {
                    let text = fs::read_to_string(&path).unwrap();
                    let first = text.lines().next().unwrap().strip_prefix(SAYS);
                    Some(first.unwrap_or_else(|| panic!("{}", path.display())).to_owned())
                }
            };
            cases.push(Case { lesson, program: program.to_owned(), says });
        }
    }
    cases
}

/// Where cargo has put the programs: this test is in `deps` below it.
fn bin_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().to_owned()
}

/// Tries and judges a lesson's program. `name` is the name of its record.
fn judged(
    lesson: &'static Lesson,
    program: Vec<String>,
    limit: Duration,
    name: &str,
    dir: &Path,
    seed: u64,
) -> Result<(Run, Verdict), String> {
    let record = dir.join(name.replace('/', "-")).with_extension("shr");
    let play =
        Play { lesson, program, bin_dir: bin_dir(), limit, is_quiet: true, record, seed: None };
    tried(&play, seed, || ()).map_err(|error| format!("{name}: {error}"))
}

/// The command line of one of a lesson's programs in Rust.
fn in_rust(name: &str) -> Vec<String> {
    vec![bin_dir().join("learn-programs").display().to_string(), name.to_owned()]
}

/// The outcome of an attempt: whether a program was stopped, and what is wrong.
type Attempt = (bool, Result<(), String>);

/// Attempts a run. Where the machine is busy, a program that was stopped may just have been slow: then once more, with
/// all the time that this needs.
fn with_patience(attempt: impl Fn(Duration) -> Result<Attempt, String>) -> Result<(), String> {
    match attempt(HANG)? {
        (true, Err(_)) => attempt(PATIENCE)?.1,
        (_, result) => result,
    }
}

/// Checks the verdict of the coach; the error says what is wrong with it.
fn check(case: &Case, dir: &Path) -> Result<(), String> {
    let Case { lesson, program, says } = case;
    let name = format!("{}/{program}", lesson.folder);
    let attempt = |limit| {
        let mut seeds = SEEDS;
        let first = seeds.next().unwrap();
        let (mut run, mut said) = judged(lesson, in_rust(&name), limit, &name, dir, first)?;
        // A wrong program passes by luck if its thread is put aside right after a post.
        while let (Some(_), Ok(()), Some(seed)) = (says, &said, seeds.next()) {
            (run, said) = judged(lesson, in_rust(&name), limit, &name, dir, seed)?;
        }
        let result = match (says, &said) {
            (None, Ok(())) => Ok(()),
            (Some(words), Err(wrong)) if wrong.what.en.contains(words) => Ok(()),
            _ => {
                let lines = said.as_ref().err().map(|wrong| wrong.lines(&run)).unwrap_or_default();
                Err(format!(
                    "{name}: expected {says:?}, and the coach says {said:?}\n{}",
                    lines.join("\n")
                ))
            }
        };
        Ok((run.is_stopped(), result))
    };
    with_patience(attempt)
}

/// Checks a lesson's programs in C: of the one to begin with the coach has to say the same as of that in
/// Rust, and the solution is right.
fn check_c(lesson: &'static Lesson, dir: &Path) -> Result<(), String> {
    let in_c = |stem: &str, limit| {
        let name = format!("{}/{stem}.c", lesson.folder);
        let program = dir.join(name.replace('/', "-"));
        let is_built = compile_c(&lesson.dir().join(Language::C.file(stem)), &program);
        if !is_built.map_err(|error| error.to_string())? {
            return Err(format!("{name} does not compile"));
        }
        judged(lesson, vec![program.display().to_string()], limit, &name, dir, SEEDS.start)
    };
    let name = format!("{}/{START}", lesson.folder);
    let sentence =
        |said: &Verdict| said.as_ref().err().map(|wrong| without_numbers(&wrong.what.en));
    with_patience(|limit| {
        let (in_rust, wanted) =
            judged(lesson, in_rust(&name), limit, &format!("{name}.rs"), dir, SEEDS.start)?;
        let (in_c, said) = in_c(START, limit)?;
        let is_same = said.is_err() && sentence(&said) == sentence(&wanted);
        let problem = || format!("{name}: of C the coach says {said:?}, of Rust {wanted:?}");
        Ok((in_rust.is_stopped() || in_c.is_stopped(), is_same.then_some(()).ok_or_else(problem)))
    })?;
    with_patience(|limit| {
        let (run, said) = in_c(SOLUTION, limit)?;
        let problem = |wrong: Wrong| {
            let lines = wrong.lines(&run).join("\n");
            format!("{}/solution.c: the coach says {wrong:?}\n{lines}", lesson.folder)
        };
        Ok((run.is_stopped(), said.map_err(problem)))
    })
}

/// A sentence without what is different in each run.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|sign| !sign.is_ascii_digit()).collect()
}

/// Does something with all of a list, several at a time, in a folder of its own. The problems are told.
fn all_at_once<T: Sync>(
    items: &[T],
    name: &str,
    check: impl Fn(&T, &Path) -> Result<(), String> + Sync,
) {
    for file in ["soft-hca", "libsoft_hca_preload.so", "learn-coach", "learn-programs"] {
        let path = bin_dir().join(file);
        assert!(path.exists(), "build the workspace first: {} is missing", path.display());
    }
    let dir = std::env::temp_dir().join(format!("learn {name} {}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(problem) = check(item, &dir) {
                        problems.lock().unwrap().push(problem);
                    }
                }
            });
        }
    });
    fs::remove_dir_all(&dir).unwrap();
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// Whether the test is to run something, as `LEARN_CASES` says.
fn is_wanted(name: &str) -> bool {
    name.contains(&std::env::var("LEARN_CASES").unwrap_or_default())
}

/// Every Nth of these, if `LEARN_SAMPLE` is N; the others are counted as skipped, in the format of
/// `./check`.
fn sampled<T>(all: Vec<T>) -> Vec<T> {
    let one_in = std::env::var("LEARN_SAMPLE").map_or(1, |number| number.parse().unwrap());
    let count = all.len();
    let sample: Vec<T> = all.into_iter().step_by(one_in).collect();
    println!("\n0 passed, 0 failed, {} skipped", count - sample.len());
    sample
}

#[test]
fn checkers_tell_right_from_wrong() {
    let mut cases = cases();
    cases.retain(|case| is_wanted(&format!("{}/{}", case.lesson.folder, case.program)));
    assert!(!cases.is_empty());
    cases.sort_by_key(|case| (case.lesson.folder, case.program.clone()));
    let cases = sampled(cases);
    all_at_once(&cases, "cases", check);
    println!("{} programs of {} lessons", cases.len(), LESSONS.len());
}

#[test]
fn lessons_in_c_are_judged_alike() {
    let mut lessons: Vec<&'static Lesson> = LESSONS.iter().collect();
    lessons.retain(|lesson| is_wanted(lesson.folder));
    let lessons = sampled(lessons);
    all_at_once(&lessons, "in C", |lesson, dir| check_c(lesson, dir));
    println!("{} lessons in C", lessons.len());
}

/// A lesson has all that a student and this test expect.
#[test]
fn lessons_are_complete() {
    for (at, lesson) in LESSONS.iter().enumerate() {
        assert_eq!(lesson.number(), at + 1, "{}", lesson.folder);
        let programs = [START, SOLUTION].into_iter();
        let programs = programs.flat_map(|stem| Language::ALL.map(|language| language.file(stem)));
        for file in programs.chain(["peer.rs".to_owned()]) {
            assert!(lesson.dir().join(&file).is_file(), "{}: {file}", lesson.folder);
        }
        assert!(lesson.hints(Tongue::English).unwrap().len() >= 2, "{}", lesson.folder);
        let of_lesson = cases().into_iter().filter(|case| case.lesson.folder == lesson.folder);
        let (right, wrong): (Vec<_>, Vec<_>) = of_lesson.partition(|case| case.says.is_none());
        assert!(right.len() >= 2 && wrong.len() >= 4, "{}: {right:?} {wrong:?}", lesson.folder);
    }
    let folders = fs::read_dir(coach::lesson::top().join("lessons")).unwrap();
    let is_lesson = |name: &str| name.starts_with(|c: char| c.is_ascii_digit());
    let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| is_lesson(name)).count(), LESSONS.len());
}
