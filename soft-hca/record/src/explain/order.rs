//! The order in which problems are told: causes first, what follows from them with them, and what
//! happens again and again once.

use std::collections::HashMap;

use super::problem::{About, Problem, Role};
use crate::model::STALL_NS;
use crate::words::without_numbers;

/// A consequence may be traced before its cause, by so many nanoseconds: a requester fails the peer's
/// queue pair before its own.
const WINDOW_NS: u64 = 100_000_000;

impl Problem {
    /// Whether it is to be told while the program runs: what follows from something else was
    /// told with it, and short waits are nothing yet.
    pub(super) fn is_news(&self) -> bool {
        match self.about.role {
            Role::Waited { ns, is_told } => !is_told && ns >= STALL_NS,
            _ => true,
        }
    }

    fn follows_from(&self, cause: &Problem) -> bool {
        let shares_qp = self.about.qps.iter().any(|qp| cause.about.qps.contains(qp));
        let shares_cq = self.about.cq.is_some() && self.about.cq == cause.about.cq;
        cause.about.role == Role::Cause
            && (shares_qp || shares_cq)
            && cause.t <= self.t.saturating_add(WINDOW_NS)
    }
}

/// Problems in the order of time, what is the same but for its numbers as one.
fn folded(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| problem.t);
    let mut known = HashMap::new();
    let mut folded: Vec<Problem> = Vec::new();
    for problem in problems {
        let About { qps, cq, .. } = &problem.about;
        // Completions of many queue pairs may be lost in one queue.
        let is_cause = problem.about.role == Role::Cause;
        let qp = if is_cause && cq.is_some() { None } else { qps.first().copied() };
        let key = (
            problem.process,
            without_numbers(&problem.what),
            without_numbers(&problem.why),
            qp,
            *cq,
        );
        let index = *known.entry(key).or_insert(folded.len());
        match folded.get_mut(index) {
            Some(first) => {
                first.times += 1;
                first.last = problem.t;
            }
            None => folded.push(problem),
        }
    }
    folded
}

/// Problems as they are told.
pub(super) fn arranged(problems: Vec<Problem>) -> Vec<Problem> {
    let is_consequence = |problem: &Problem| problem.about.role == Role::Consequence;
    let (consequences, mut told): (Vec<_>, Vec<_>) =
        folded(problems).into_iter().partition(is_consequence);
    let mut alone = Vec::new();
    for problem in consequences {
        // The last one before it, for a queue pair may have been used again.
        match told.iter_mut().rev().find(|cause| problem.follows_from(cause)) {
            Some(cause) => cause.then.push(problem.headline()),
            None => alone.push(problem),
        }
    }
    told.extend(alone);
    told.sort_by_key(|problem| problem.t);
    told
}
