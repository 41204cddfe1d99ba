//! What `./learn` does.

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
use crate::trial::tried;
use crate::verdict::{self, Verdict};
use crate::work::Work;

/// Who has not ended by then is stopped.
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
}

/// Prints a text; where nobody reads it any more there is nobody to tell.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

impl Session {
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
                state if state.is_done => "done",
                _ if next.is_some_and(|next| next.folder == lesson.folder) => "next",
                _ if self.is_open(lesson) => "open",
                _ => "",
            };
            text += &format!("{:4}  {:>2}  {}\n", mark, lesson.number(), lesson.title);
        }
        text += &match next {
            Some(next) => format!("\n./learn {} opens the next one.\n", next.number()),
            None => "\nAll of them are done. ./learn --verify runs them again.\n".to_owned(),
        };
        text += "Each of them is there in C, too: ./learn 1 --c, and --rust goes back.\n";
        say(&text);
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

    /// Opens a lesson: its task, and where the program is. `anew` begins again.
    pub fn open(&mut self, lesson: &Lesson, anew: bool) -> Result<(), Error> {
        let language = self.begin(lesson, anew)?;
        if language != self.progress.language() {
            say(&format!("This lesson is in {language}.\n\n"));
        }
        let program = self.work.program(lesson, language);
        say(&format!(
            "{}\nYour program: {}\nEdit it, and have it run at each save: ./learn {} --watch\n",
            lesson.text("README.md")?,
            Work::shown(&program),
            lesson.number()
        ));
        Ok(())
    }

    /// Builds and runs a lesson's program, and says what it did wrong. True if nothing.
    pub fn run(&mut self, lesson: &'static Lesson, is_quiet: bool) -> Result<bool, Error> {
        let language = self.begin(lesson, false)?;
        let Some(program) = self.work.build(lesson, language)? else {
            say(&format!("{}: it does not compile\n", lesson.folder));
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
                say(&format!(
                    "{}: right so far; once more with --strict={seed}, which is as unkind as the \
                     specification allows\n",
                    lesson.folder
                ));
            }
        })?;
        say(&report(lesson, &run, &found));
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
            say(&format!("\nwatching {}; Ctrl-C ends\n", Work::shown(&program)));
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
                broken.push(lesson.number().to_string());
            }
        }
        say(&format!("\n{right} of {count} opened lessons are right\n"));
        if !broken.is_empty() {
            say(&format!("done before, and wrong now: {}\n", broken.join(", ")));
        }
        Ok(broken.is_empty())
    }

    /// Shows one hint more.
    pub fn hint(&mut self, lesson: &Lesson) -> Result<(), Error> {
        let hints = lesson.hints()?;
        let shown = self.progress.of(lesson).hints.min(hints.len());
        for (number, hint) in hints.iter().enumerate().take(shown + 1) {
            say(&format!("{}. {hint}\n\n", number + 1));
        }
        let number = lesson.number();
        match hints.len().saturating_sub(shown + 1) {
            0 => say(&format!("That is all; ./learn {number} --solution is left.\n")),
            left => say(&format!("{left} more: ./learn {number} --hint\n")),
        }
        self.progress.change(lesson, |state| state.hints = (shown + 1).min(hints.len()))
    }

    /// Shows a solution, and what else there is to see; before the lesson is done only if all hints
    /// were shown, or `anyway`.
    pub fn solution(&self, lesson: &Lesson, anyway: bool) -> Result<(), Error> {
        let state = self.progress.of(lesson);
        let left = lesson.hints()?.len().saturating_sub(state.hints);
        let number = lesson.number();
        if !state.is_done && left > 0 && !anyway {
            say(&format!(
                "This lesson is not done yet, and there are hints left: ./learn {number} --hint\n\
                 ./learn {number} --solution --anyway shows the solution.\n"
            ));
            return Ok(());
        }
        let language = self.language(lesson);
        let name = language.file(SOLUTION);
        say(&format!(
            "{}\n{}\nCompare: diff {} {}\n",
            lesson.text(&name)?,
            lesson.text("solution.md")?,
            Work::shown(&self.work.program(lesson, language)),
            Work::shown(&lesson.dir().join(name))
        ));
        Ok(())
    }

    /// Draws the lesson's last run as a page for a browser.
    pub fn timeline(&self, lesson: &Lesson, file: &Path) -> Result<(), Error> {
        let record = self.work.record(lesson);
        if !record.is_file() {
            let number = lesson.number();
            return Err(Error::Usage(format!("there was no run yet: ./learn {number} --run")));
        }
        let program = self.bin_dir.join("soft-hca");
        let mut show = Command::new(&program);
        show.args(["show", "--html"]).arg(file).args(["--title", lesson.title]).arg(&record);
        let status = show.status().map_err(|source| Error::Start { program, source })?;
        if !status.success() {
            return Err(Error::NoRun("no timeline was made".to_owned()));
        }
        say(&format!("the timeline is in {}\n", file.display()));
        Ok(())
    }
}

/// What is said of a run.
pub(crate) fn report(lesson: &Lesson, run: &Run, found: &Verdict) -> String {
    let (folder, number) = (lesson.folder, lesson.number());
    let wrong = match found {
        Ok(()) => {
            return format!(
                "{folder}: done. ./learn {number} --solution has one to compare with\n"
            );
        }
        Err(wrong) => wrong,
    };
    let strictly = run.seed.map_or(String::new(), |seed| format!("with --strict={seed}: "));
    let mut text = format!("{folder}: not yet: {strictly}{}\n", wrong.what);
    for line in wrong.lines(run) {
        text += &format!("    {line}\n");
    }
    if run.is_stopped() {
        let limit = run.limit.as_secs();
        match verdict::explanation(run) {
            Some(why) => {
                text += &format!("It was stopped after {limit} s. Why it does not go on:\n");
                why.lines().for_each(|line| text += &format!("    {line}\n"));
            }
            None => {
                text += &format!(
                    "It was stopped after {limit} s. The device has nothing left to do for it: it polls, or waits \
                     where the device does not see it, as in poll(2)\n"
                );
            }
        }
    }
    if let Some(seed) = run.seed {
        text += &format!(
            "Run as usual it is right, and with --strict a program gets no more than is promised (see \
             soft-hca/docs/strict.md); ./learn {number} --run --seed {seed} does the same again\n"
        );
    }
    text + &format!(
        "./learn {number} --timeline draws this run, ./learn {number} --hint has a hint\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::wrong;
    use harness::process::Ending;

    #[test]
    fn a_strict_run_is_told_with_its_seed() {
        let mut run = Run::new(Vec::new(), |_| false);
        let found = wrong("it is not so", []);
        let text = report(&LESSONS[0], &run, &found);
        assert!(text.contains(": not yet: it is not so\n") && !text.contains("strict"), "{text}");
        run.seed = Some(7);
        let text = report(&LESSONS[0], &run, &found);
        assert!(text.contains(": not yet: with --strict=7: it is not so\n"), "{text}");
        assert!(text.contains("./learn 1 --run --seed 7 does the same again\n"), "{text}");
    }

    /// A report gives no reason if the record shows none.
    #[test]
    fn a_program_that_the_device_does_not_hold_up_is_told_so() {
        let mut run = Run::new(Vec::new(), |_| false);
        (run.student_end, run.limit) = (Some(Ending::TimedOut), LIMIT);
        let text = report(&LESSONS[0], &run, &wrong("it does not end", []));
        assert!(text.contains("It was stopped after 5 s. The device has nothing left"), "{text}");
        assert!(!text.contains("Why") && !text.contains("knows of"), "{text}");
    }
}
