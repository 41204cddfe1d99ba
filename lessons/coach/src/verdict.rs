//! The first thing that is wrong in a run.

use harness::process::Ending;
use soft_hca_record::explain;
use soft_hca_record::text::Text;

use crate::facts::Run;
use crate::lesson::{Again, Lesson};
use crate::words::{Words, words};

/// A mistake, in a sentence without its end, and the entries of the record that show it, by their
/// indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The sentence.
    pub what: Words,
    /// The entries.
    pub entries: Vec<usize>,
}

/// Nothing, or the first thing that is wrong.
pub type Verdict = Result<(), Wrong>;

/// Something is wrong.
pub fn wrong(what: Words, entries: impl IntoIterator<Item = usize>) -> Verdict {
    Err(Wrong { what, entries: entries.into_iter().collect() })
}

/// The verdict on a run of a lesson's program. A strict run follows one in which nothing was wrong,
/// and is judged by how it ends: its delays are not the program's mistakes.
pub fn judge(lesson: &Lesson, run: &Run) -> Verdict {
    crash(run)?;
    if run.is_strict() && lesson.again == Again::Alike && ends(lesson, run).is_ok() {
        return Ok(());
    }
    // Each step is late, so many of them may exceed the limit on a busy machine. `explain` has a
    // reason for real hangs.
    if run.is_strict() && run.is_stopped() && explanation(run).is_none() {
        return Ok(());
    }
    // Another run tells.
    if run.loses_on_purpose() {
        return Ok(());
    }
    (lesson.check)(run)?;
    run.all_went_well(run.student)?;
    rules(lesson, run)?;
    ends(lesson, run)
}

fn crash(run: &Run) -> Verdict {
    match run.student_end {
        Some(Ending::Signal(number)) => wrong(
            words!(
                "your program was ended by signal {number}, see signal(7)",
                "你的程序被信号 {number} 终止，见 signal(7)"
            ),
            [],
        ),
        // The status of a Rust program that has panicked.
        Some(Ending::Code(101)) => {
            wrong(words!("your program has panicked", "你的程序 panic 了"), [])
        }
        _ => Ok(()),
    }
}

fn rules(lesson: &Lesson, run: &Run) -> Verdict {
    let Some(finding) = run.finding(lesson.rules) else { return Ok(()) };
    let (place, what, why) = (&finding.place, &finding.what, finding.rule.why());
    let name = finding.rule.name();
    let entries = run.entries.iter().position(|entry| entry.t == finding.t);
    wrong(Words::verbatim(format_args!("{place}: {what} ({name}: {why})")), entries)
}

fn ends(lesson: &Lesson, run: &Run) -> Verdict {
    if run.is_stopped() {
        return wrong(
            words!("your program, or its peer, does not end", "你的程序或者对端没有结束"),
            [],
        );
    }
    match run.student_end {
        Some(Ending::Code(0)) => {}
        Some(end) => {
            return wrong(
                words!(
                    "your program ends with status {end}, not 0",
                    "你的程序以状态 {end} 结束，应该是 0"
                ),
                [],
            );
        }
        None => return wrong(words!("your program was not started", "你的程序没有启动"), []),
    }
    if run.peer_end != Some(lesson.peer_end) {
        let said = run.peer_said.last();
        let said = said.map_or_else(|| words!("that it has failed", "它失败了"), Words::verbatim);
        return wrong(
            words!("the peer is not content, and says: {said}", "对端不满意，它说：{said}", [said]),
            [],
        );
    }
    Ok(())
}

impl Wrong {
    /// Entries as lines of the record.
    pub fn lines(&self, run: &Run) -> Vec<String> {
        let mut text = Text::new();
        let lines = run.entries.iter().map(|entry| text.line(entry));
        let lines = lines.enumerate().filter(|(index, _)| self.entries.contains(index));
        lines.map(|(_, line)| line.trim_end().to_owned()).collect()
    }
}

/// The text of `soft-hca explain`: why a run does not go on, and what else has failed in it. None
/// if `explain` finds nothing, as in an empty record.
pub fn explanation(run: &Run) -> Option<String> {
    Some(explain::text(&run.entries)).filter(|text| *text != explain::text(&[]))
}
