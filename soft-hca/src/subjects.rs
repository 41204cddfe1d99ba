//! Entries of a record that the choices of `--strict` are about, counted for each object.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use soft_hca_record::arguments;
use soft_hca_record::entry::{Outcome, ReceiveQueue, What};
use soft_hca_record::text::Text;
use soft_hca_verbs::{Choice, NumberSpan, Subject, WcStatus};

use super::{Error, show};

/// Lines that are shown of a kind of choices, at most.
const SHOWN: usize = 8;

/// An object that has subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Object {
    QueuePair(u32),
    CompletionQueue(u32),
    /// An id of a process.
    Id(u32, u32),
}

/// An entry that choices may be about.
#[derive(Debug)]
struct Line {
    subject: Subject,
    number: u32,
    text: String,
}

/// Such entries of a record, in its order.
#[derive(Debug)]
pub(super) struct Subjects {
    file: PathBuf,
    lines: Vec<Line>,
}

/// The subjects that an entry is.
fn of_entry(process: u32, what: &What) -> [Option<(Subject, Object)>; 2] {
    let one = match what {
        What::SendPosted(send) => Some((Subject::Send, Object::QueuePair(send.qp))),
        What::ReceivePosted(receive) => match receive.queue {
            ReceiveQueue::Qp(qp) => Some((Subject::ArmingOrReceive, Object::QueuePair(qp))),
            ReceiveQueue::Srq(_) => None,
        },
        What::Completion(completion) => {
            let has_failed = completion.status != WcStatus::SUCCESS;
            let failure = (Subject::Failure, Object::QueuePair(completion.qp));
            let given = (Subject::Completion, Object::CompletionQueue(completion.cq));
            return [has_failed.then_some(failure), (!completion.lost).then_some(given)];
        }
        What::Call(call) if call.name == "ibv_req_notify_cq" => {
            let cq = arguments::cq(&call.args, "cq");
            cq.map(|cq| (Subject::ArmingOrReceive, Object::CompletionQueue(cq)))
        }
        What::ConnectionEvent(event) => Some((Subject::Event, Object::Id(process, event.id))),
        _ => None,
    };
    [one, None]
}

/// The object that a call has created: numbers are given again.
fn created(process: u32, what: &What) -> Option<Object> {
    let What::Call(call) = what else { return None };
    let Outcome::Done(given) = &call.result else { return None };
    match call.name.as_str() {
        "ibv_create_cq" | "ibv_create_cq_ex" => {
            arguments::cq(given, "cq").map(Object::CompletionQueue)
        }
        "ibv_create_qp" | "ibv_create_qp_ex" => {
            arguments::qp(given, "qp_num").map(Object::QueuePair)
        }
        "rdma_create_id" => arguments::cm_id(given, "id").map(|id| Object::Id(process, id)),
        _ => None,
    }
}

impl Subjects {
    /// Those of a record.
    pub(super) fn read(file: &Path) -> Result<Self, Error> {
        let (_, entries) = show::read(file)?;
        let (mut counts, mut text) = (HashMap::<(Object, Subject), u32>::new(), Text::new());
        let mut lines = Vec::new();
        for entry in &entries {
            let line = text.line(entry);
            if let Some(new) = created(entry.process, &entry.what) {
                counts.retain(|(object, _), _| *object != new);
            }
            for (subject, object) in of_entry(entry.process, &entry.what).into_iter().flatten() {
                let number = counts.entry((object, subject)).or_default();
                *number += 1;
                lines.push(Line { subject, number: *number, text: line.clone() });
            }
        }
        Ok(Self { file: file.into(), lines })
    }

    fn of(&self, choice: Choice) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.subject == choice.subject())
    }

    /// The highest number of what a kind of choices is about; 0 if there is nothing.
    pub(super) fn most(&self, choice: Choice) -> u32 {
        self.of(choice).map(|line| line.number).max().unwrap_or(0)
    }

    /// Lines that say what choices of a kind are about, with their entries.
    pub(super) fn name(&self, choice: Choice, numbers: NumberSpan) -> String {
        let mut named = format!("    {choice}: {}\n", choice.words());
        if numbers == NumberSpan::ALL {
            return named;
        }
        let (of_each, file) = (choice.subject().of_each(), self.file.display());
        named.push_str(&format!("        number {numbers}, {of_each}, in {file}:\n"));
        let meant: Vec<&Line> =
            self.of(choice).filter(|line| numbers.has(line.number - 1)).collect();
        meant.iter().take(SHOWN).for_each(|line| named.push_str(&format!("     {}", line.text)));
        if meant.len() > SHOWN {
            named.push_str(&format!("        and {} more\n", meant.len() - SHOWN));
        }
        named
    }

    /// Those of tests: so many of each kind.
    #[cfg(test)]
    pub(super) fn so_many(most: u32) -> Self {
        let of = |choice: Choice| Line { subject: choice.subject(), number: most, text: "".into() };
        Self { file: "".into(), lines: Choice::ALL.map(of).into() }
    }
}
