//! Numbers of work requests: each queue's are counted from 1, in the order in which they were posted.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::model::Queue;
use super::{Correlation, Number};
use crate::entry::What;

/// The numbers of all entries that are about a work request.
pub(super) fn find(correlation: &Correlation<'_>) -> Vec<Option<Number>> {
    let mut numbers: Vec<Option<Number>> = vec![None; correlation.entries.len()];
    let mut last: BTreeMap<(u32, Queue), u32> = BTreeMap::new();
    // Of a process some of whose entries are missing none can be counted any more.
    let mut uncounted: HashSet<u32> = HashSet::new();
    for (at, entry) in correlation.entries.iter().enumerate() {
        let queue = match &entry.what {
            What::SendPosted(send) => Queue::Send(send.qp),
            What::ReceivePosted(receive) => Queue::Receive(receive.queue),
            What::Dropped { .. } => {
                uncounted.insert(entry.process);
                continue;
            }
            _ => continue,
        };
        if !uncounted.contains(&entry.process) {
            let last = last.entry((entry.process, queue)).or_insert(0);
            *last += 1;
            numbers[at] = Some(Number { queue, number: *last, one_of_several: false });
        }
    }
    let mut queues: HashMap<(u32, bool), usize> = HashMap::new();
    for (process, queue) in last.keys() {
        *queues.entry((*process, matches!(queue, Queue::Send(_)))).or_insert(0) += 1;
    }
    for (number, entry) in numbers.iter_mut().zip(correlation.entries) {
        let Some(number) = number else { continue };
        let kind = (entry.process, matches!(number.queue, Queue::Send(_)));
        number.one_of_several = queues.get(&kind).is_some_and(|count| *count > 1);
    }
    let mut same = |from: usize, to: usize| numbers[to] = numbers[from];
    for transfer in &correlation.transfers {
        if let Some(posted) = transfer.posted {
            let later =
                transfer.stalls.iter().copied().chain(transfer.executed).chain(transfer.completion);
            later.for_each(|to| same(posted, to));
        }
        for arrival in &transfer.arrivals {
            if let (Some(from), Some(to)) = (arrival.receive, arrival.completion) {
                same(from, to);
            }
        }
    }
    for returned in &correlation.returned {
        same(returned.from, returned.to);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use crate::correlation::Correlation;
    use crate::entry::What;
    use crate::testing::{CLIENT, Run, SERVER, header, ping_pong};

    fn texts(entries: &[crate::Entry]) -> Vec<(u32, String, String)> {
        let header = header();
        let correlation = Correlation::new(&header, entries);
        let text = |at: usize| Some(correlation.numbers[at]?.text());
        let all = entries.iter().enumerate().filter_map(|(at, entry)| {
            let name = crate::words::label(entry).name;
            text(at).map(|text| (entry.process, name, text))
        });
        all.collect()
    }

    #[test]
    fn a_request_and_its_completion_have_one_number() {
        let (_, entries) = ping_pong(2);
        let all = texts(&entries);
        let of = |process: u32, name: &str| -> Vec<&str> {
            let own = all.iter().filter(|one| one.0 == process && one.1 == name);
            own.map(|one| one.2.as_str()).collect()
        };
        for process in [CLIENT, SERVER] {
            assert_eq!(of(process, "ibv_post_send"), ["send 1", "send 2"]);
            assert_eq!(of(process, "IBV_WC_SEND"), ["send 1", "send 2"]);
            assert_eq!(of(process, "ibv_post_recv"), ["receive 1", "receive 2"]);
            assert_eq!(of(process, "IBV_WC_RECV"), ["receive 1", "receive 2"]);
        }
    }

    #[test]
    fn of_several_queue_pairs_it_is_said_which() {
        let mut run = Run::connected(&["server"]);
        let (_, mut entries) = run.ping_pong(2).ends();
        let sends = entries.iter_mut().filter(|entry| entry.process == CLIENT);
        let last = sends.filter_map(|entry| match &mut entry.what {
            What::SendPosted(send) => Some(send),
            _ => None,
        });
        last.last().unwrap().qp = 99;
        let all = texts(&entries);
        let sends = all.iter().filter(|one| one.0 == CLIENT && one.1 == "ibv_post_send");
        let sends: Vec<_> = sends.map(|one| one.2.as_str()).collect();
        assert_eq!(sends, ["send 1 of qp 4097", "send 1 of qp 99"]);
        assert!(all.iter().any(|one| one.0 == SERVER && one.2 == "send 1"));
    }

    #[test]
    fn where_entries_are_missing_nothing_is_counted() {
        let mut run = Run::connected(&["server"]);
        run.ping_pong(1).put(5, CLIENT, "dropped", serde_json::json!({ "entries": 9 }));
        let (_, entries) = run.ping_pong(1).ends();
        let sends = texts(&entries).into_iter().filter(|one| one.1 == "ibv_post_send");
        let sends: Vec<_> = sends.map(|one| (one.0, one.2)).collect();
        let told = [(CLIENT, "send 1"), (SERVER, "send 1"), (SERVER, "send 2")];
        assert_eq!(sends, told.map(|(process, text)| (process, text.to_owned())));
    }
}
