//! Which queue pairs an entry is about.

use std::collections::BTreeSet;

use super::Correlation;
use crate::description::{Description, Value};
use crate::entry::Entry;
use crate::value::Name;

/// The queue pairs of each entry, by their `qp_num`: those that it names, of a work request those of both sides, of
/// what concerns an id of the connection manager that of the id.
pub(crate) fn of_entries(correlation: &Correlation<'_>) -> Vec<Vec<u32>> {
    let named = |entry: &Entry| -> BTreeSet<u32> {
        let said = Description::of(entry);
        let of = said.fields().filter_map(|(_, field)| match field.value {
            Value::Name(Name::Qp(qp)) => Some(qp),
            Value::Name(Name::CmId(id)) => correlation.run.ids.qp_of((entry.process, id)),
            _ => None,
        });
        of.collect()
    };
    let mut all: Vec<_> = correlation.entries.iter().map(named).collect();
    for transfer in &correlation.transfers {
        let whole: BTreeSet<u32> =
            transfer.entries().flat_map(|at| all[at].iter().copied()).collect();
        transfer.entries().for_each(|at| all[at].clone_from(&whole));
    }
    all.into_iter().map(|qps| qps.into_iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::What;
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
