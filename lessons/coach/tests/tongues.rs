//! English and Chinese: the lessons' pages, and the output of `./learn`. That each sentence has both is
//! seen when it is compiled.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use coach::lesson::{LESSONS, top};
use coach::words::Tongue;

/// Whether there are characters of Chinese in a text.
fn is_chinese(text: &str) -> bool {
    text.chars().any(|sign| ('\u{4e00}'..='\u{9fff}').contains(&sign))
}

/// A student's progress, which goes when it is dropped.
struct Student(PathBuf);

impl Student {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("learn {name} {}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn coach(&self, args: &str) -> Output {
        let mut coach = Command::new(env!("CARGO_BIN_EXE_learn-coach"));
        coach.args(args.split(' ')).env("XDG_STATE_HOME", &self.0).output().unwrap()
    }

    /// The coach's output for it.
    fn shown(&self, args: &str) -> String {
        let output = self.coach(args);
        assert!(output.status.success(), "{args}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The coach's complaint about a command line.
    fn refused(&self, args: &str) -> String {
        let output = self.coach(args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Student {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lines of a page that only its translators and readers of the repository need.
const ORIGINS: [&str; 2] = ["<!-- of: ", "[English]("];

#[test]
fn pages_are_there_in_both_languages() {
    for lesson in LESSONS {
        for stem in ["README", "hints", "solution"] {
            let name = format!("{}/{stem}", lesson.folder);
            let english = lesson.page(stem, Tongue::English).unwrap();
            let file = fs::read_to_string(lesson.dir().join(format!("{stem}.md"))).unwrap();
            assert_eq!(english, file, "{name}");
            let chinese = lesson.page(stem, Tongue::Chinese).unwrap();
            assert!(is_chinese(&chinese), "{name}");
            let is_origin = |line: &str| ORIGINS.into_iter().any(|origin| line.starts_with(origin));
            assert!(!chinese.lines().any(is_origin), "{name}: {chinese}");
        }
        let [english, chinese] =
            [Tongue::English, Tongue::Chinese].map(|tongue| lesson.hints(tongue).unwrap());
        assert_eq!(english.len(), chinese.len(), "{}", lesson.folder);
        assert!(chinese.iter().all(|hint| is_chinese(hint)), "{}", lesson.folder);
    }
}

#[test]
fn the_coach_shows_lessons_hints_and_solutions_in_chinese() {
    let student = Student::new("in Chinese");
    let overview = student.shown("--lang zh");
    let titles = overview.lines().take(LESSONS.len());
    assert!(
        titles.zip(LESSONS).all(|(line, lesson)| line.ends_with(lesson.title.zh)),
        "{overview}"
    );
    let after: Vec<_> = overview.lines().skip(LESSONS.len() + 1).collect();
    assert!(after.len() == 2 && after.iter().all(|line| is_chinese(line)), "{overview}");
    for lesson in LESSONS {
        let (number, hints) = (lesson.number(), lesson.hints(Tongue::Chinese).unwrap());
        let hint = student.shown(&format!("--lang zh {number} --hint"));
        assert!(hint.starts_with(&format!("1. {}\n\n", hints[0])), "{hint}");
        assert!(hint.ends_with(&format!("条：./learn {number} --hint\n")), "{hint}");
        let solution = student.shown(&format!("--lang zh {number} --solution --anyway"));
        let page = lesson.page("solution", Tongue::Chinese).unwrap();
        assert!(solution.contains(&page) && solution.contains("\n比较：diff "), "{solution}");
    }
}

#[test]
fn progress_is_the_same_in_both_languages() {
    let student = Student::new("in both");
    student.shown("--lang zh 1 --hint");
    let file = student.0.join("rdma-by-example/learn.json");
    let known = fs::read_to_string(&file).unwrap();
    assert!(!is_chinese(&known) && !known.contains("zh"), "{known}");
    let hints = LESSONS[0].hints(Tongue::English).unwrap();
    let shown = student.shown("1 --hint");
    assert!(shown.starts_with(&format!("1. {}\n\n2. {}\n\n", hints[0], hints[1])), "{shown}");
    fs::write(&file, "{").unwrap();
    assert!(student.refused("--lang zh").contains("已损坏"));
}

#[test]
fn wrong_command_lines_are_refused_in_the_language_of_the_reader() {
    let student = Student::new("refused");
    for (args, english, chinese) in [
        ("99", "there is no lesson \"99\"", "没有 \"99\" 这一课"),
        ("--run", "which lesson?", "哪一课？"),
        ("1 --verify", "--verify runs all", "--verify 运行"),
        ("1 --nonsense", "unexpected argument '--nonsense'", "没有 --nonsense 这个参数"),
        ("1 --run --hint", "'--run' cannot be used with '--hint'", "--run 不能和 --hint 一起用"),
        (
            "1 --run --seed x",
            "invalid value 'x' for '--seed <SEED>'",
            "--seed <SEED> 的值不能是 \"x\"",
        ),
        ("1 --run --seed", "a value is required for '--seed <SEED>'", "--seed <SEED> 缺少值"),
        ("--c", "the following required arguments were not provided", "缺少 <LESSON>"),
    ] {
        let told = student.refused(args);
        assert!(told.contains(english) && !is_chinese(&told), "{args}: {told}");
        let told = student.refused(&format!("--lang zh {args}"));
        assert!(told.starts_with("learn: ") && told.contains(chinese), "{args}: {told}");
        assert!(told.ends_with("；用法见 ./learn --help\n"), "{args}: {told}");
    }
}

/// The output of `./learn` in this environment.
fn learn(environment: &[(&str, &str)], args: &[&str]) -> Output {
    let mut learn = Command::new(top().join("learn"));
    for name in ["LC_ALL", "LC_MESSAGES", "LANG"] {
        learn.env_remove(name);
    }
    learn.envs(environment.iter().copied()).args(args).output().unwrap()
}

#[test]
fn the_language_is_that_of_the_option_or_else_of_the_environment() {
    let help = |environment: &[_], args: &[&str]| {
        let output = learn(environment, &[args, &["--help"]].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let (zh, c) = ("zh_CN.UTF-8", "C");
    let english = help(&[], &[]);
    let chinese = help(&[], &["--lang", "zh"]);
    assert!(english.starts_with("Usage: ./learn ") && !is_chinese(&english), "{english}");
    assert!(chinese.starts_with("用法：./learn "), "{chinese}");
    // Both name the same options.
    let options = |text: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("  --"));
        lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(options(&english), options(&chinese));
    for environment in [
        &[("LANG", zh)][..],
        &[("LC_MESSAGES", zh), ("LANG", c)],
        &[("LC_ALL", zh), ("LC_MESSAGES", c)],
        &[("LC_ALL", ""), ("LANG", "zh_CN")],
    ] {
        assert_eq!(help(environment, &[]), chinese, "{environment:?}");
        assert_eq!(help(environment, &["--lang", "en"]), english, "{environment:?}");
        assert_eq!(help(environment, &["--lang=en"]), english, "{environment:?}");
    }
    for environment in [
        &[("LANG", c)][..],
        &[("LANG", "en_GB.UTF-8")],
        &[("LC_MESSAGES", c), ("LANG", zh)],
        &[("LC_ALL", c), ("LC_MESSAGES", zh)],
    ] {
        assert_eq!(help(environment, &[]), english, "{environment:?}");
        assert_eq!(help(environment, &["--lang", "zh"]), chinese, "{environment:?}");
    }
    for args in [&["--lang", "fr", "--help"][..], &["--lang"], &["--lang="]] {
        let output = learn(&[], args);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.starts_with("learn: no language '") && is_chinese(&told), "{args:?}: {told}");
    }
}
