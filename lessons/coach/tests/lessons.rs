//! Each lesson's checker with its own programs: a solution and another right program are accepted, what a
//! student begins with and the wrong programs are not, and of these the coach says what their first
//! lines promise.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use coach::lesson::{LESSONS, Lesson};
use coach::play::Play;
use coach::verdict::judge;

/// So many pairs at a time: most of theirs is waiting.
const AT_ONCE: usize = 4;
/// Who is expected to end has all the time that a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(100);
/// Who is expected to hang, or to be wrong, is waited for this long at most.
const HANG: Duration = Duration::from_secs(5);
/// What the first line of a wrong program's patch says before the words that the coach has to say.
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

/// What is wrong with what the coach says.
fn check(case: &Case, dir: &Path) -> Result<(), String> {
    let Case { lesson, program, says } = case;
    let name = format!("{}/{program}", lesson.folder);
    let bin_dir = bin_dir();
    let play = Play {
        lesson,
        program: vec![bin_dir.join("learn-programs").display().to_string(), name.clone()],
        bin_dir,
        limit: if says.is_none() { PATIENCE } else { HANG },
        is_quiet: true,
        record: dir.join(name.replace('/', "-")).with_extension("shr"),
    };
    let run = play.run().map_err(|error| format!("{name}: {error}"))?;
    let said = judge(lesson, &run);
    match (says, &said) {
        (None, Ok(())) => Ok(()),
        (Some(words), Err(wrong)) if wrong.what.contains(words) => Ok(()),
        _ => {
            let lines = said.as_ref().err().map(|wrong| wrong.lines(&run)).unwrap_or_default();
            Err(format!(
                "{name}: expected {says:?}, and the coach says {said:?}\n{}",
                lines.join("\n")
            ))
        }
    }
}

#[test]
fn checkers_tell_right_from_wrong() {
    for file in ["soft-hca", "libsoft_hca_preload.so", "learn-coach", "learn-programs"] {
        let path = bin_dir().join(file);
        assert!(path.exists(), "build the workspace first: {} is missing", path.display());
    }
    let only = std::env::var("LEARN_CASES").unwrap_or_default();
    let mut cases = cases();
    cases.retain(|case| format!("{}/{}", case.lesson.folder, case.program).contains(&only));
    assert!(!cases.is_empty());
    let dir = std::env::temp_dir().join(format!("learn cases {}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(problem) = check(case, &dir) {
                        problems.lock().unwrap().push(problem);
                    }
                }
            });
        }
    });
    fs::remove_dir_all(&dir).unwrap();
    let problems = problems.into_inner().unwrap();
    println!("{} programs of {} lessons", cases.len(), LESSONS.len());
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// A lesson has all that a student and this test expect.
#[test]
fn lessons_are_complete() {
    for (at, lesson) in LESSONS.iter().enumerate() {
        assert_eq!(lesson.number(), at + 1, "{}", lesson.folder);
        for file in ["README.md", "hints.md", "solution.md", "start.rs", "solution.rs", "peer.rs"] {
            assert!(lesson.dir().join(file).is_file(), "{}: {file}", lesson.folder);
        }
        assert!(lesson.hints().unwrap().len() >= 2, "{}", lesson.folder);
        let of_lesson = cases().into_iter().filter(|case| case.lesson.folder == lesson.folder);
        let (right, wrong): (Vec<_>, Vec<_>) = of_lesson.partition(|case| case.says.is_none());
        assert!(right.len() >= 2 && wrong.len() >= 4, "{}: {right:?} {wrong:?}", lesson.folder);
    }
    let folders = fs::read_dir(coach::lesson::top().join("lessons")).unwrap();
    let is_lesson = |name: &str| name.starts_with(|c: char| c.is_ascii_digit());
    let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| is_lesson(name)).count(), LESSONS.len());
}
