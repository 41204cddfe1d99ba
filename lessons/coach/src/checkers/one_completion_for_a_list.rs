//! Eight lists, of each of which the last request is signaled and its completion polled.

use soft_hca_verbs::SendFlags;

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};

/// How many.
const LISTS: usize = 8;
/// Requests of each.
const OF_A_LIST: usize = 4;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    // The lists are checked in the first run: a strict run's record does not tell them apart.
    if run.is_strict() {
        return run.sends(run.student).into_iter().try_for_each(|send| run.is_executed(send));
    }
    let lists = run.lists(run.student);
    for list in &lists {
        let entries = list.iter().map(|(index, _)| *index);
        if list.len() != OF_A_LIST {
            let sends = list.len();
            return wrong(format!("a list has {sends} sends, not {OF_A_LIST}"), entries);
        }
        let is_signaled: Vec<bool> =
            list.iter().map(|(_, send)| send.flags.contains(SendFlags::SIGNALED)).collect();
        let signaled = is_signaled.iter().filter(|is| **is).count();
        if signaled == 0 {
            return wrong(
                "no send of the list is signaled: nobody can know when it is done, and its places in the \
                 queue never become free",
                entries,
            );
        }
        if signaled > 1 {
            return wrong(
                format!(
                    "{signaled} of the {OF_A_LIST} sends of a list are signaled: one is enough"
                ),
                entries,
            );
        }
        if is_signaled.last() != Some(&true) {
            return wrong(
                "the signaled one is not the last of its list: its completion says nothing of those behind \
                 it",
                entries,
            );
        }
        list.last().map_or(Ok(()), |last| run.is_complete(*last))?;
    }
    if lists.len() != LISTS {
        return wrong(format!("{} lists were posted, not {LISTS}", lists.len()), []);
    }
    Ok(())
}
