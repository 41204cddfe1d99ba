//! Which queue pairs an entry is about.

use std::collections::BTreeSet;

use super::Correlation;
use crate::entry::{Outcome, ReceiveQueue, What};
use crate::value::{Name, Named, Value};

/// The queue pairs of each entry, by their `qp_num`: of a work request those of both sides, of what concerns an id
/// of the connection manager that of the id.
pub(crate) fn of_entries(correlation: &Correlation<'_>) -> Vec<Vec<u32>> {
    let mut all: Vec<BTreeSet<u32>> = Vec::with_capacity(correlation.entries.len());
    for entry in correlation.entries {
        let own =
            |id: Option<u32>| id.and_then(|id| correlation.run.ids.qp_of((entry.process, id)));
        let mut qps = BTreeSet::new();
        match &entry.what {
            What::Call(call) => {
                qps.extend(named(&call.args));
                if let Outcome::Done(results) = &call.result {
                    qps.extend(named(results));
                }
                qps.extend(own(cm_id(&call.args)));
            }
            What::ConnectionEvent(event) => qps.extend(own(Some(event.id))),
            What::AsyncEvent { element: Some(Name::Qp(qp)), .. } => qps.extend([*qp]),
            What::SendPosted(send) => qps.extend([send.qp]),
            What::ReceivePosted(receive) => match receive.queue {
                ReceiveQueue::Qp(qp) => qps.extend([qp]),
                ReceiveQueue::Srq(_) => {}
            },
            What::Stalled { qp, .. } => qps.extend([*qp]),
            What::Executed(executed) => qps.extend([executed.qp]),
            What::Completion(done) => qps.extend([done.qp]),
            What::Packet(packet) => qps.extend(packet.qp),
            _ => {}
        }
        all.push(qps);
    }
    for transfer in &correlation.transfers {
        let whole: BTreeSet<u32> =
            transfer.entries().flat_map(|at| all[at].iter().copied()).collect();
        transfer.entries().for_each(|at| all[at].clone_from(&whole));
    }
    all.into_iter().map(|qps| qps.into_iter().collect()).collect()
}

/// The queue pairs that values name.
fn named(values: &[Named]) -> impl Iterator<Item = u32> {
    values.iter().filter_map(|Named(_, value)| match value {
        Value::Name(Name::Qp(qp)) => Some(*qp),
        _ => None,
    })
}

/// The first id of the connection manager among values.
pub(super) fn cm_id(values: &[Named]) -> Option<u32> {
    values.iter().find_map(|Named(_, value)| match value {
        Value::Name(Name::CmId(id)) => Some(*id),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CLIENT, SERVER, ping_pong, queue_pair};

    #[test]
    fn a_message_is_of_both_sides() {
        let (header, entries) = ping_pong(1);
        let correlation = Correlation::new(&header, &entries);
        let all = of_entries(&correlation);
        for (entry, qps) in entries.iter().zip(&all) {
            match &entry.what {
                What::SendPosted(_) | What::Completion(_) => {
                    assert_eq!(*qps, [queue_pair(CLIENT), queue_pair(SERVER)]);
                }
                What::Call(call) if call.name == "ibv_create_qp" => {
                    assert_eq!(*qps, [queue_pair(entry.process)]);
                }
                What::Call(call) if call.name == "ibv_alloc_pd" => assert!(qps.is_empty()),
                _ => {}
            }
        }
    }
}
