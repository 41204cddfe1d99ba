//! The work of `./learn`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::facts::Run;
use crate::language::Language;
use crate::lesson::{LESSONS, Lesson, SOLUTION};
use crate::play::Play;
use crate::progress::Progress;
use crate::report::Report;
use crate::trial::tried;
use crate::verdict::{self, Verdict};
use crate::words::{Tongue, Words, words};
use crate::work::Work;

/// A program that has not ended by then is stopped.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);
/// The number of seeds, from 1 on, from which strict runs take one if none is chosen.
const SEEDS: u64 = 1000;
/// How often a program is looked at, whether it was saved.
const LOOK: Duration = Duration::from_millis(300);

/// A student at work.
#[derive(Debug)]
pub struct Session {
    /// Where the coach, the peers and soft-hca are.
    pub bin_dir: PathBuf,
    /// The student's folder.
    pub work: Work,
    /// How far the student is.
    pub progress: Progress,
    /// The seed of strict runs; without it each run has another one.
    pub seed: Option<u64>,
    /// In which language the coach speaks.
    pub tongue: Tongue,
}

/// Prints a text; where nobody reads it any more there is nobody to tell.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

impl Session {
    fn say(&self, words: &Words) {
        say(words.of(self.tongue));
    }

    /// In which language the student writes a lesson: the one in which it was opened last; else the one that was
    /// chosen last.
    pub fn language(&self, lesson: &Lesson) -> Language {
        let before = Language::Rust;
        let opened = self.progress.of(lesson).language;
        let opened = opened.or(self.work.has(lesson, before).then_some(before));
        opened.unwrap_or_else(|| self.progress.language())
    }

    /// Chooses the language of a lesson, and of those that are opened after it.
    pub fn choose(&mut self, lesson: &Lesson, language: Language) -> Result<(), Error> {
        self.progress.change(lesson, |state| state.language = Some(language))?;
        self.progress.choose(language)
    }

    /// The lessons, and which is next.
    pub fn overview(&self) {
        let next = LESSONS.iter().find(|lesson| !self.progress.of(lesson).is_done);
        let mut text = String::new();
        for lesson in LESSONS {
            let mark = match self.progress.of(lesson) {
                state if state.is_done => words!("done", "完成"),
                _ if next.is_some_and(|next| next.folder == lesson.folder) => {
                    words!("next", "下一")
                }
                _ if self.is_open(lesson) => words!("open", "已开"),
                _ => Words::verbatim("    "),
            };
            let (mark, number) = (mark.of(self.tongue), lesson.number());
            text += &format!("{mark}  {number:>2}  {}\n", lesson.title.of(self.tongue));
        }
        say(&text);
        self.say(&match next {
            Some(next) => words!(
                "\n./learn {number} opens the next one.\n",
                "\n./learn {number} 打开下一课。\n",
                number = next.number()
            ),
            None => words!(
                "\nAll of them are done. ./learn --verify runs them again.\n",
                "\n全部完成了。./learn --verify 把它们再运行一遍。\n"
            ),
        });
        self.say(&words!(
            "Each of them is there in C, too: ./learn 1 --c, and --rust goes back.\n",
            "每一课也都有 C 版：./learn 1 --c；用 --rust 换回来。\n"
        ));
    }

    fn is_open(&self, lesson: &Lesson) -> bool {
        Language::ALL.iter().any(|language| self.work.has(lesson, *language))
    }

    /// Puts a lesson's beginning where the student works, unless it was opened before. Gives its language.
    fn begin(&mut self, lesson: &Lesson, anew: bool) -> Result<Language, Error> {
        let language = self.language(lesson);
        self.work.open(lesson, language, anew)?;
        self.progress.change(lesson, |state| state.language = Some(language))?;
        Ok(language)
    }

    /// Opens a lesson: its task, unless that was shown already, and where the program is. `anew` begins again.
    pub fn open(&mut self, lesson: &Lesson, anew: bool, is_shown: bool) -> Result<(), Error> {
        let language = self.begin(lesson, anew)?;
        if language != self.progress.language() {
            self.say(&words!("This lesson is in {language}.\n\n", "这一课用的是 {language}。\n\n"));
        }
        let program = self.work.program(lesson, language);
        let (program, number) = (Work::shown(&program), lesson.number());
        if !is_shown {
            say(&lesson.page("README", self.tongue)?);
        }
        self.say(&words!(
            "\nYour program: {program}\n\
             Edit it, and have it run at each save: ./learn {number} --watch\n",
            "\n你的程序：{program}\n请修改它，每次保存就运行一次：./learn {number} --watch\n"
        ));
        Ok(())
    }

    /// Builds and runs a lesson's program, and says what it did wrong. True if nothing.
    pub fn run(&mut self, lesson: &'static Lesson, is_quiet: bool) -> Result<bool, Error> {
        let language = self.begin(lesson, false)?;
        let Some(program) = self.work.build(lesson, language, self.tongue)? else {
            let folder = lesson.folder;
            self.say(&words!("{folder}: it does not compile\n", "{folder} 编译不通过\n"));
            return Ok(false);
        };
        let play = Play {
            lesson,
            bin_dir: self.bin_dir.clone(),
            program: vec![program.display().to_string()],
            limit: LIMIT,
            is_quiet,
            record: self.work.record(lesson),
            seed: None,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = self.seed.unwrap_or(1 + now.as_millis() as u64 % SEEDS);
        let (run, found) = tried(&play, seed, || {
            if !is_quiet {
                let folder = lesson.folder;
                self.say(&words!(
                    "{folder}: right so far; once more with --strict={seed}, which is as unkind as the \
                     specification allows\n",
                    "{folder} 到目前为止是对的；再用 --strict={seed} 运行一次，\
                     规范允许多苛刻，它就多苛刻\n"
                ));
            }
        })?;
        say(&report(lesson, &run, &found, self.tongue));
        if found.is_ok() {
            self.progress.change(lesson, |state| state.is_done = true)?;
        }
        Ok(found.is_ok())
    }

    /// Does so whenever the program was saved, until it is interrupted.
    pub fn watch(&mut self, lesson: &'static Lesson) -> Result<(), Error> {
        let mut last = None;
        let language = self.begin(lesson, false)?;
        loop {
            let saved = self.work.saved(lesson, language);
            if saved.is_none() || saved == last {
                thread::sleep(LOOK);
                continue;
            }
            last = saved;
            if io::IsTerminal::is_terminal(&io::stdout()) {
                say("\x1b[2J\x1b[H");
            }
            self.run(lesson, false)?;
            let program = self.work.program(lesson, language);
            self.say(&words!(
                "\nwatching {program}; Ctrl-C ends\n",
                "\n正在等 {program} 保存；按 Ctrl-C 结束\n",
                program = Work::shown(&program)
            ));
        }
    }

    /// Runs all that were opened. True if those that were done are right still.
    pub fn verify(&mut self) -> Result<bool, Error> {
        let (mut count, mut right, mut broken) = (0, 0, Vec::new());
        for lesson in LESSONS {
            if !self.is_open(lesson) {
                continue;
            }
            let was_done = self.progress.of(lesson).is_done;
            count += 1;
            if self.run(lesson, true)? {
                right += 1;
            } else if was_done {
                broken.push(Words::verbatim(lesson.number()));
            }
        }
        self.say(&words!(
            "\n{right} of {count} opened lessons are right\n",
            "\n打开过的 {count} 课里，有 {right} 课是对的\n"
        ));
        if !broken.is_empty() {
            let broken = Words::list(&broken);
            self.say(&words!(
                "done before, and wrong now: {broken}\n",
                "以前完成过，现在不对了：{broken}\n",
                [broken]
            ));
        }
        Ok(broken.is_empty())
    }

    /// Writes what the student has done as JSON.
    pub fn report(&self) -> Result<(), Error> {
        let output = Path::new("standard output");
        let json = serde_json::to_string_pretty(&Report::new(&self.progress))
            .map_err(|error| Error::write(output)(error.into()))?;
        say(&format!("{json}\n"));
        Ok(())
    }

    /// Shows one hint more.
    pub fn hint(&mut self, lesson: &Lesson) -> Result<(), Error> {
        let hints = lesson.hints(self.tongue)?;
        let shown = self.progress.of(lesson).hints.min(hints.len());
        for (number, hint) in hints.iter().enumerate().take(shown + 1) {
            say(&format!("{}. {hint}\n\n", number + 1));
        }
        let number = lesson.number();
        match hints.len().saturating_sub(shown + 1) {
            0 => self.say(&words!(
                "That is all; ./learn {number} --solution is left.\n",
                "提示没有了；还有 ./learn {number} --solution。\n"
            )),
            left => self.say(&words!(
                "{left} more: ./learn {number} --hint\n",
                "还有 {left} 条：./learn {number} --hint\n"
            )),
        }
        self.progress.change(lesson, |state| state.hints = (shown + 1).min(hints.len()))
    }

    /// Shows a solution, and what else there is to see; before the lesson is done only if all hints
    /// were shown, or `anyway`.
    pub fn solution(&self, lesson: &Lesson, anyway: bool) -> Result<(), Error> {
        let state = self.progress.of(lesson);
        let left = lesson.hints(self.tongue)?.len().saturating_sub(state.hints);
        let number = lesson.number();
        if !state.is_done && left > 0 && !anyway {
            self.say(&words!(
                "This lesson is not done yet, and there are hints left: ./learn {number} --hint\n\
                 ./learn {number} --solution --anyway shows the solution.\n",
                "这一课还没有完成，也还有提示：./learn {number} --hint\n\
                 ./learn {number} --solution --anyway 直接显示参考答案。\n"
            ));
            return Ok(());
        }
        let language = self.language(lesson);
        let name = language.file(SOLUTION);
        let (text, page) = (lesson.text(&name)?, lesson.page("solution", self.tongue)?);
        say(&format!("{text}\n{page}\n"));
        self.say(&words!(
            "Compare: diff {program} {solution}\n",
            "比较：diff {program} {solution}\n",
            program = Work::shown(&self.work.program(lesson, language)),
            solution = Work::shown(&lesson.dir().join(&name))
        ));
        Ok(())
    }

    /// Draws the lesson's last run as a page for a browser.
    pub fn timeline(&self, lesson: &Lesson, file: &Path) -> Result<(), Error> {
        let record = self.work.record(lesson);
        if !record.is_file() {
            let number = lesson.number();
            return Err(Error::Usage(words!(
                "there was no run yet: ./learn {number} --run",
                "还没有运行过：./learn {number} --run"
            )));
        }
        let program = self.bin_dir.join("soft-hca");
        let mut show = Command::new(&program);
        show.args(["show", "--html"])
            .arg(file)
            .args(["--title", lesson.title.of(self.tongue)])
            .arg(&record);
        let status = show.status().map_err(|source| Error::Start { program, source })?;
        if !status.success() {
            return Err(Error::NoRun(words!("no timeline was made", "没有画成时间线")));
        }
        let file = file.display();
        self.say(&words!("the timeline is in {file}\n", "时间线在 {file} 里\n"));
        Ok(())
    }
}

/// The report on a run. soft-hca's own sentences in it are English.
pub(crate) fn report(lesson: &Lesson, run: &Run, found: &Verdict, tongue: Tongue) -> String {
    let (folder, number) = (lesson.folder, lesson.number());
    let mut text = String::new();
    let mut say = |words: Words| text += words.of(tongue);
    let wrong = match found {
        Ok(()) => {
            say(words!(
                "{folder}: done. ./learn {number} --solution has one to compare with\n",
                "{folder} 完成了。./learn {number} --solution 有参考答案可以比较\n"
            ));
            return text;
        }
        Err(wrong) => wrong,
    };
    let strictly = run.seed.map_or_else(Words::default, |seed| {
        words!("with --strict={seed}: ", "用 --strict={seed} 运行时，")
    });
    let what = &wrong.what;
    say(words!(
        "{folder}: not yet: {strictly}{what}\n",
        "{folder} 还不对：{strictly}{what}\n",
        [strictly, what]
    ));
    for line in wrong.lines(run) {
        say(Words::verbatim(format_args!("    {line}\n")));
    }
    if run.is_stopped() {
        let limit = run.limit.as_secs();
        match verdict::explanation(run) {
            Some(why) => {
                say(words!(
                    "It was stopped after {limit} s. Why it does not go on:\n",
                    "{limit} 秒后停掉了它。它走不下去的原因（soft-hca 的英文原文）：\n"
                ));
                why.lines().for_each(|line| say(Words::verbatim(format_args!("    {line}\n"))));
            }
            None => say(words!(
                "It was stopped after {limit} s. The device has nothing left to do for it: it polls, or waits \
                 where the device does not see it, as in poll(2)\n",
                "{limit} 秒后停掉了它。设备没有什么要替它做的了：它在轮询，\
                 或者等在设备看不到的地方，如 poll(2)\n"
            )),
        }
    }
    if let Some(seed) = run.seed {
        say(words!(
            "Run as usual it is right, and with --strict a program gets no more than is promised (see \
             soft-hca/docs/strict.md); ./learn {number} --run --seed {seed} does the same again\n",
            "照平常运行是对的；用 --strict 时，程序得到的只有规范所承诺的（见 soft-hca/docs/strict.md）；\
             ./learn {number} --run --seed {seed} 照样再来一次\n"
        ));
    }
    say(words!(
        "./learn {number} --timeline draws this run, ./learn {number} --hint has a hint\n",
        "./learn {number} --timeline 把这次运行画成图，./learn {number} --hint 有一条提示\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::wrong;
    use harness::process::Ending;

    #[test]
    fn a_strict_run_is_told_with_its_seed() {
        let mut run = Run::new(Vec::new(), |_| false);
        let found = wrong(words!("it is not so", "不是这样"), []);
        let text = report(&LESSONS[0], &run, &found, Tongue::English);
        assert!(text.contains(": not yet: it is not so\n") && !text.contains("strict"), "{text}");
        run.seed = Some(7);
        let text = report(&LESSONS[0], &run, &found, Tongue::English);
        assert!(text.contains(": not yet: with --strict=7: it is not so\n"), "{text}");
        assert!(text.contains("./learn 1 --run --seed 7 does the same again\n"), "{text}");
        let text = report(&LESSONS[0], &run, &found, Tongue::Chinese);
        assert!(text.contains(" 还不对：用 --strict=7 运行时，不是这样\n"), "{text}");
    }

    /// A report gives no reason if the record shows none.
    #[test]
    fn a_program_that_the_device_does_not_hold_up_is_told_so() {
        let mut run = Run::new(Vec::new(), |_| false);
        (run.student_end, run.limit) = (Some(Ending::TimedOut), LIMIT);
        let text = report(
            &LESSONS[0],
            &run,
            &wrong(words!("it does not end", "它不结束"), []),
            Tongue::English,
        );
        assert!(text.contains("It was stopped after 5 s. The device has nothing left"), "{text}");
        assert!(!text.contains("Why") && !text.contains("knows of"), "{text}");
    }
}
