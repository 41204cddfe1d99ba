//! English and Chinese: the lessons' pages, and the output of `./learn`. That each sentence has both is
//! seen when it is compiled.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{self, Command, Output};
use std::{env, fs};

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
        let folder = env::temp_dir().join(format!("learn {name} {}", process::id()));
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

/// A clone of which nothing is built: `learn`, what it reads, and stand-ins for what it calls.
struct FreshClone(PathBuf);

impl FreshClone {
    fn new() -> Self {
        let clone = Self(env::temp_dir().join(format!("learn clone {}", process::id())));
        for file in ["learn", "harness/shell.sh"] {
            clone.script(file, &fs::read_to_string(top().join(file)).unwrap());
        }
        clone.script("harness/install", "#!/bin/sh\n");
        clone.script(
            "bin/cargo",
            "#!/bin/sh\nmkdir -p target/release; echo built\n\
             printf '#!/bin/sh\\necho coach \"$@\"\\n' >target/release/learn-coach\n\
             chmod +x target/release/learn-coach\n",
        );
        for lesson in LESSONS {
            let folder = clone.0.join("lessons").join(lesson.folder);
            fs::create_dir_all(&folder).unwrap();
            for file in ["README.md", "README.zh-CN.md", "start.rs", "start.c"] {
                fs::write(folder.join(file), lesson.text(file).unwrap()).unwrap();
            }
        }
        clone
    }

    fn script(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Output of `./learn` where nothing is built.
    fn learn(&self, args: &[&str]) -> String {
        let _ = fs::remove_dir_all(self.0.join("target"));
        let path = env::var("PATH").unwrap();
        let output = Command::new(self.0.join("learn"))
            .args(args)
            .env("PATH", format!("{}:{path}", self.0.join("bin").display()))
            .env("XDG_STATE_HOME", self.0.join("state"))
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for FreshClone {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The first build takes minutes.
#[test]
fn the_first_task_is_there_before_anything_is_built() {
    let clone = FreshClone::new();
    for (args, number, tongue, file) in [
        (&["1", "--lang", "en"][..], 1, Tongue::English, "main.rs"),
        (&["--lang=zh", "02"], 2, Tongue::Chinese, "main.rs"),
        (&["--c", "10", "--lang", "zh"], 10, Tongue::Chinese, "main.c"),
        (&["03-send-from-two-pieces", "--lang", "en"], 3, Tongue::English, "main.rs"),
    ] {
        let lesson = &LESSONS[number - 1];
        let told = clone.learn(args);
        let task = lesson.page("README", tongue).unwrap();
        let behind = told.strip_prefix(&task).unwrap_or_else(|| panic!("{args:?}: {told}"));
        let (before, coach) = behind.split_once("\nbuilt\n").unwrap();
        let program = format!("learn-work/{}/{file}", lesson.folder);
        assert!(before.contains(&program), "{args:?}: {told}");
        let begun = fs::read_to_string(clone.0.join(&program)).unwrap();
        assert_eq!(begun, lesson.text(&file.replace("main", "start")).unwrap());
        assert!(
            coach.contains("coach --lang") && coach.ends_with(" --shown\n"),
            "{args:?}: {told}"
        );
    }
    // A program that is there stays, also where the coach knows somebody already.
    let program = clone.0.join("learn-work").join(LESSONS[0].folder).join("main.rs");
    fs::write(&program, "mine").unwrap();
    assert!(!clone.learn(&["1", "--lang", "en"]).contains("Your program"));
    assert_eq!(fs::read_to_string(&program).unwrap(), "mine");
    clone.script("state/rdma-by-example/learn.json", "{}");
    let told = clone.learn(&["4", "--lang", "en"]);
    assert!(told.starts_with("# 4. ") && !told.contains("Your program"), "{told}");
    assert!(!clone.0.join("learn-work").join(LESSONS[3].folder).exists());
    // All other answers are the coach's to give.
    for args in [&[][..], &["1", "--run"], &["1", "2"], &["99"], &["x"], &["--report"]] {
        let told = clone.learn(args);
        assert!(told.starts_with("built\ncoach ") && !told.contains("--shown"), "{args:?}: {told}");
    }
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
