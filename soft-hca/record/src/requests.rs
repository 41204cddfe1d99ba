//! Which entries belong together: a send work request, its execution, the receive that it met, and
//! their completions.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use soft_hca_verbs::SendFlags;

use crate::entry::{Completion, Entry, Executed, ReceiveQueue, What};

/// A send work request, or a receive that none has met, by the indices of its entries. Each is
/// missing where it was not recorded, and where it never happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// [`What::SendPosted`].
    pub posted: Option<usize>,
    /// [`What::Stalled`].
    pub stalled: Option<usize>,
    /// [`What::Executed`].
    pub executed: Option<usize>,
    /// [`What::ReceivePosted`]: the receive that has taken the message, or is one alone.
    pub receive: Option<usize>,
    /// The receive's [`What::Completion`].
    pub received: Option<usize>,
    /// The request's [`What::Completion`].
    pub completion: Option<usize>,
}

impl Request {
    /// The entries, from the request to its completion.
    pub fn entries(&self) -> impl Iterator<Item = usize> + use<> {
        let all = [self.posted, self.stalled, self.receive, self.executed];
        all.into_iter().chain([self.received, self.completion]).flatten()
    }
}

/// A queue pair: `process` and `qp_num`.
type Qp = (u32, u32);

#[derive(Debug, Default)]
struct Matching {
    requests: Vec<Request>,
    /// Sends that are posted and not executed, by their `wr_id` and index of the request.
    posted: HashMap<Qp, VecDeque<(u64, usize)>>,
    /// Requests that are signaled.
    signaled: HashSet<usize>,
    /// Sends that are executed and have no completion, by their `wr_id`, whether they are signaled, and
    /// index of the request.
    executed: HashMap<Qp, VecDeque<(u64, bool, usize)>>,
    /// Receives that no message has taken.
    receives: BTreeMap<(u32, ReceiveQueue), VecDeque<(u64, usize)>>,
    /// Receives that a message has taken and that have no completion yet, by index of the request.
    taken: HashMap<(Qp, u64), VecDeque<usize>>,
    /// Completions of receives whose message was not executed yet, by index of the entry.
    early: BTreeMap<(Qp, u64), VecDeque<usize>>,
}

/// Finds what belongs together, in the order in which the first entry of each was recorded.
pub fn requests(entries: &[Entry]) -> Vec<Request> {
    let mut matching = Matching::default();
    for (index, entry) in entries.iter().enumerate() {
        matching.add(index, entry);
    }
    // Receives that were flushed, or whose senders are on another host.
    for (((process, qp), wr_id), completions) in std::mem::take(&mut matching.early) {
        for completion in completions {
            let receive = matching.take_receive(process, qp, wr_id);
            let received = Some(completion);
            matching.requests.push(Request { receive, received, ..Request::default() });
        }
    }
    let left = std::mem::take(&mut matching.receives).into_values().flatten();
    let left = left.map(|(_, index)| Request { receive: Some(index), ..Request::default() });
    matching.requests.extend(left);
    matching.requests.sort_by_key(|request| request.entries().min());
    matching.requests
}

impl Matching {
    fn add(&mut self, index: usize, entry: &Entry) {
        let process = entry.process;
        match &entry.what {
            What::SendPosted(posted) => {
                let request = self.request(Request { posted: Some(index), ..Request::default() });
                let queue = self.posted.entry((process, posted.qp)).or_default();
                queue.push_back((posted.wr_id, request));
                if posted.flags.contains(SendFlags::SIGNALED) {
                    self.signaled.insert(request);
                }
            }
            What::ReceivePosted(posted) => {
                let queue = self.receives.entry((process, posted.queue)).or_default();
                queue.push_back((posted.wr_id, index));
            }
            What::Stalled { qp, wr_id, .. } => {
                let queue = self.posted.get(&(process, *qp));
                if let Some((_, request)) = queue.and_then(|queue| find(queue, *wr_id)) {
                    self.requests[request].stalled.get_or_insert(index);
                }
            }
            What::Executed(executed) => self.executed(index, process, executed),
            What::Completion(completion) => self.completion(index, process, completion),
            _ => {}
        }
    }

    fn request(&mut self, request: Request) -> usize {
        self.requests.push(request);
        self.requests.len() - 1
    }

    fn executed(&mut self, index: usize, process: u32, executed: &Executed) {
        let qp = (process, executed.qp);
        let posted = self.posted.get_mut(&qp).and_then(|queue| take(queue, executed.wr_id));
        let request = posted.unwrap_or_else(|| self.request(Request::default()));
        self.requests[request].executed = Some(index);
        let is_signaled = self.signaled.remove(&request);
        let queue = self.executed.entry(qp).or_default();
        queue.push_back((executed.wr_id, is_signaled, request));
        let Some(receive) = executed.receive else { return };
        let key = ((receive.process, receive.qp), receive.wr_id);
        self.requests[request].receive = self.take_receive(receive.process, receive.qp, key.1);
        let early = self.early.get_mut(&key).and_then(VecDeque::pop_front);
        if early.is_some() {
            self.requests[request].received = early;
        } else {
            self.taken.entry(key).or_default().push_back(request);
        }
    }

    fn completion(&mut self, index: usize, process: u32, completion: &Completion) {
        let Completion { wr_id, .. } = *completion;
        let qp = (process, completion.qp);
        if completion.opcode.is_receive() {
            let taken = self.taken.get_mut(&(qp, wr_id)).and_then(VecDeque::pop_front);
            if let Some(request) = taken {
                self.requests[request].received = Some(index);
            } else {
                self.early.entry((qp, wr_id)).or_default().push_back(index);
            }
            return;
        }
        let open = self.executed.get_mut(&qp).and_then(|queue| {
            let mut same = (0..queue.len()).filter(|at| queue[*at].0 == wr_id);
            // Requests of a list may have one name. A queue pair may signal all.
            let at = same.clone().find(|at| queue[*at].1).or_else(|| same.next_back())?;
            // Completions come in the order of their requests.
            queue.drain(..=at).next_back().map(|(_, _, request)| request)
        });
        // A request that was flushed is not executed.
        let request =
            open.or_else(|| self.posted.get_mut(&qp).and_then(|queue| take(queue, wr_id)));
        let request = request.unwrap_or_else(|| self.request(Request::default()));
        self.requests[request].completion = Some(index);
    }

    /// The receive of a queue pair, which may be in a shared queue.
    fn take_receive(&mut self, process: u32, qp: u32, wr_id: u64) -> Option<usize> {
        let own = self.receives.get_mut(&(process, ReceiveQueue::Qp(qp)));
        own.and_then(|queue| take(queue, wr_id)).or_else(|| {
            let mut queues = self.receives.iter_mut();
            queues.find_map(|((of, queue), receives)| {
                let is_shared = matches!(queue, ReceiveQueue::Srq(_));
                if *of == process && is_shared { take(receives, wr_id) } else { None }
            })
        })
    }
}

/// The first of a `wr_id`, which need not be unique.
fn find(queue: &VecDeque<(u64, usize)>, wr_id: u64) -> Option<(usize, usize)> {
    let at = queue.iter().position(|item| item.0 == wr_id)?;
    Some((at, queue[at].1))
}

fn take(queue: &mut VecDeque<(u64, usize)>, wr_id: u64) -> Option<usize> {
    let (at, index) = find(queue, wr_id)?;
    queue.remove(at);
    Some(index)
}

#[cfg(test)]
mod tests {
    use soft_hca_verbs::{WcOpcode, WcStatus, WrOpcode};

    use super::*;
    use crate::entry::{Completion, SendPosted};

    /// Sends of one `wr_id` that are posted, executed and completed in turn, those that are signaled.
    fn list(signaled: &[bool]) -> Vec<Entry> {
        let entry = |what| Entry { t: 0, process: 0, thread: None, by: None, site: None, what };
        let posted = signaled.iter().map(|&is_signaled| {
            let flags = if is_signaled { SendFlags::SIGNALED } else { SendFlags::empty() };
            entry(What::SendPosted(SendPosted {
                qp: 17,
                wr_id: 0,
                opcode: WrOpcode::SEND,
                flags,
                length: 0,
                sges: Vec::new(),
                remote: None,
                imm: None,
                invalidate: None,
                compare_add: None,
                swap: None,
                flush: None,
                destination: None,
            }))
        });
        let executed = signaled.iter().map(|_| {
            entry(What::Executed(Executed {
                qp: 17,
                wr_id: 0,
                opcode: WrOpcode::SEND,
                length: 0,
                status: WcStatus::SUCCESS,
                receive: None,
                reason: None,
            }))
        });
        let completed = signaled.iter().filter(|is_signaled| **is_signaled).map(|_| {
            entry(What::Completion(Completion {
                cq: 1,
                qp: 17,
                wr_id: 0,
                opcode: WcOpcode::SEND,
                status: WcStatus::SUCCESS,
                length: 0,
                imm: None,
                solicited: false,
                lost: false,
                reason: None,
            }))
        });
        posted.chain(executed).chain(completed).collect()
    }

    #[test]
    fn sends_of_a_list_have_their_own_completions_though_they_have_one_name() {
        let completions = |signaled: &[bool]| -> Vec<Option<usize>> {
            requests(&list(signaled)).iter().map(|request| request.completion).collect()
        };
        assert_eq!(completions(&[true, true, true]), [Some(6), Some(7), Some(8)]);
        assert_eq!(completions(&[false, false, true]), [None, None, Some(6)]);
        assert_eq!(completions(&[true, false, true]), [Some(6), None, Some(7)]);
        // Of a queue pair that signals all, or of one that has failed, the last.
        let mut entries = list(&[false, false]);
        entries.push(list(&[true])[2].clone());
        let found: Vec<_> = requests(&entries).iter().map(|request| request.completion).collect();
        assert_eq!(found, [None, Some(4)]);
    }
}
