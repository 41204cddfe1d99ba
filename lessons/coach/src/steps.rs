//! A program's steps with its queues, as it has seen them itself: the work requests that it has posted, and the
//! completions that its polls have given it.

use std::collections::HashMap;

use soft_hca_record::entry::{Completion, SendPosted, What};

use crate::facts::Run;

/// One step, with the index of its entry.
#[derive(Clone, Copy, Debug)]
pub enum Step<'r> {
    /// A send work request was posted.
    Posted(usize, &'r SendPosted),
    /// A poll has given a completion.
    Polled {
        /// The index of the poll.
        index: usize,
        /// The completion.
        completion: &'r Completion,
        /// Polls before this one have found nothing, and the thread has done nothing else between.
        in_vain: bool,
    },
}

/// The steps of a process in their order.
pub fn steps(run: &Run, process: u32) -> Vec<Step<'_>> {
    let mut given: HashMap<usize, Vec<&Completion>> = HashMap::new();
    for (index, completion) in run.completions(process) {
        if let Some(poll) = run.polled(index) {
            given.entry(poll).or_default().push(completion);
        }
    }
    let mut steps = Vec::new();
    let own = run.entries.iter().enumerate().filter(|(_, entry)| entry.process == process);
    for (index, entry) in own {
        match &entry.what {
            What::SendPosted(posted) => steps.push(Step::Posted(index, posted)),
            What::Polled(polled) => {
                let found = given.remove(&index).unwrap_or_default().into_iter().enumerate();
                steps.extend(found.map(|(at, completion)| {
                    let in_vain = at == 0 && polled.empty.is_some();
                    Step::Polled { index, completion, in_vain }
                }));
            }
            _ => {}
        }
    }
    steps
}

/// Whether it is a receive's.
pub fn is_received(completion: &Completion) -> bool {
    completion.opcode.is_receive()
}
