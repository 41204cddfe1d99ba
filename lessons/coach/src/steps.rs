//! What a program has done with its queues, as it has seen it itself: what it has posted, and the
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

/// The steps of a process in their order. Completions come out of a queue in the order in which they have
/// come into it.
pub fn steps(run: &Run, process: u32) -> Vec<Step<'_>> {
    let mut queues: HashMap<u32, Vec<&Completion>> = HashMap::new();
    for (_, completion) in run.completions(process) {
        if !completion.lost {
            queues.entry(completion.cq).or_default().push(completion);
        }
    }
    let mut queues: HashMap<u32, _> =
        queues.into_iter().map(|(cq, completions)| (cq, completions.into_iter())).collect();
    let mut steps = Vec::new();
    let own = run.entries.iter().enumerate().filter(|(_, entry)| entry.process == process);
    for (index, entry) in own {
        match &entry.what {
            What::SendPosted(posted) => steps.push(Step::Posted(index, posted)),
            What::Polled(polled) => {
                let Some(queue) = queues.get_mut(&polled.cq) else { continue };
                let found = queue.by_ref().take(polled.found as usize).enumerate();
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
