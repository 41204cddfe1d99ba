//! Which entries belong together: a send work request, its execution, the receives that its message went into, and
//! their completions.

use std::mem::take;

use crate::entry::{Entry, What};
use crate::model::{Effect, Run};

/// A send work request, or a receive that no message has taken, by the indices of its entries. Each is
/// missing where it was not recorded, and where it never happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// [`What::SendPosted`].
    pub posted: Option<usize>,
    /// [`What::Stalled`], each time that it had to wait.
    pub stalls: Vec<usize>,
    /// [`What::Executed`].
    pub executed: Option<usize>,
    /// Where its message went, or the receive that is one alone.
    pub arrivals: Vec<Arrival>,
    /// The request's [`What::Completion`].
    pub completion: Option<usize>,
}

/// A receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The process whose receive it is, as in [`Entry::process`].
    pub process: u32,
    /// [`What::ReceivePosted`].
    pub receive: Option<usize>,
    /// Its [`What::Completion`], by a message or because it was flushed.
    pub completion: Option<usize>,
    /// The message came over the link, where its sender does not see when.
    pub over_link: bool,
}

impl Arrival {
    fn new(process: u32, receive: Option<usize>, completion: Option<usize>) -> Self {
        Self { process, receive, completion, over_link: false }
    }

    /// Its entries.
    pub fn entries(&self) -> impl Iterator<Item = usize> {
        self.receive.into_iter().chain(self.completion)
    }
}

impl Request {
    /// The entries, from the request to its completion.
    pub fn entries(&self) -> impl Iterator<Item = usize> {
        let sent = self.posted.into_iter().chain(self.stalls.iter().copied());
        let received = self.arrivals.iter().flat_map(Arrival::entries);
        sent.chain(self.executed).chain(received).chain(self.completion)
    }

    /// The first time that it had to wait.
    pub fn stalled(&self) -> Option<usize> {
        self.stalls.first().copied()
    }

    /// The receive that its message went into, of several the first.
    pub fn receive(&self) -> Option<usize> {
        self.arrivals.first()?.receive
    }

    /// The completion of that receive.
    pub fn received(&self) -> Option<usize> {
        self.arrivals.first()?.completion
    }

    /// Whether it is a receive alone.
    pub(crate) fn is_receive(&self) -> bool {
        (self.posted, self.executed, self.completion) == (None, None, None)
    }

    /// The two as one.
    fn with(mut self, later: Self) -> Self {
        self.stalls.extend(later.stalls);
        match (self.arrivals.first_mut(), later.arrivals.first()) {
            (Some(arrival), Some(later)) => {
                arrival.receive = arrival.receive.or(later.receive);
                arrival.completion = arrival.completion.or(later.completion);
            }
            _ => self.arrivals.extend(later.arrivals),
        }
        Self {
            posted: self.posted.or(later.posted),
            executed: self.executed.or(later.executed),
            completion: self.completion.or(later.completion),
            ..self
        }
    }
}

/// Finds what belongs together, in the order in which the first entry of each was recorded.
pub fn requests(entries: &[Entry]) -> Vec<Request> {
    let mut requests = Requests::default();
    entries.iter().for_each(|entry| drop(requests.entry(entry)));
    requests.all()
}

/// Requests while they are put together: the model says which earlier entries an entry belongs to.
#[derive(Debug, Default)]
pub struct Requests {
    /// The state of the run.
    pub run: Run,
    requests: Vec<Request>,
    /// The request of each entry.
    of: Vec<Option<usize>>,
}

impl Requests {
    /// All of them, as [`requests`] gives them.
    pub fn all(&mut self) -> Vec<Request> {
        let mut all = take(&mut self.requests);
        all.retain(|request| *request != Request::default());
        all.sort_by_key(|request| request.entries().min());
        all
    }

    /// Another entry.
    pub fn entry(&mut self, entry: &Entry) -> Effect {
        let (effect, at) = (self.run.entry(entry), self.of.len());
        let process = entry.process;
        let mut own = Request::default();
        match &entry.what {
            What::SendPosted(_) => own.posted = Some(at),
            What::ReceivePosted(_) => own.arrivals.push(Arrival::new(process, Some(at), None)),
            What::Stalled { .. } => own.stalls.push(at),
            What::Executed(executed) => {
                own.executed = Some(at);
                let into = executed.receive.map(|met| Arrival::new(met.process, None, None));
                own.arrivals.extend(into);
            }
            What::Completion(_) if effect.is_receive => {
                own.arrivals.push(Arrival::new(process, None, Some(at)));
            }
            What::Completion(_) => own.completion = Some(at),
            _ => {
                self.of.push(None);
                return effect;
            }
        }
        let joined = effect.joins.into_iter().flatten().filter_map(|at| self.of[at]);
        let joined: Vec<usize> = joined.collect();
        let whole = joined.iter().fold(own, |whole, of| take(&mut self.requests[*of]).with(whole));
        let number = joined.first().copied().unwrap_or(self.requests.len());
        self.of.push(None);
        whole.entries().for_each(|at| self.of[at] = Some(number));
        match self.requests.get_mut(number) {
            Some(request) => *request = whole,
            None => self.requests.push(whole),
        }
        effect
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use soft_hca_verbs::{SendFlags, WcOpcode, WcStatus, WrOpcode};

    use super::*;
    use crate::entry::{Completion, Executed, SendPosted};
    use crate::testing::{CLIENT, Run, SERVER, WR_ID, queue_pair};

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

    #[test]
    fn an_execution_may_be_on_record_before_its_post() {
        let mut entries = list(&[true]);
        // So may the completion.
        for (posted, completion) in [(1, 2), (2, 1)] {
            entries.swap(posted - 1, posted);
            let (posted, executed) = (Some(posted), Some(0));
            let completion = Some(completion);
            let whole = Request { posted, executed, completion, ..Request::default() };
            assert_eq!(requests(&entries), [whole]);
        }
    }

    #[test]
    fn the_ends_of_a_message_may_be_on_record_in_any_order() {
        let mut run = Run::new();
        run.receive(SERVER, "at_post").posts(CLIENT, "IBV_WR_SEND").arrives(CLIENT);
        let mut entries = run.entries().to_vec();
        for (executed, received) in [(2, 3), (3, 2)] {
            let [request] = &requests(&entries)[..] else { panic!("{:?}", requests(&entries)) };
            let ends = (request.receive(), request.executed, request.received());
            assert_eq!(ends, (Some(0), Some(executed), Some(received)));
            entries.swap(2, 3);
        }
        // Of a receive whose post is not on record.
        entries.remove(0);
        let [request] = &requests(&entries)[..] else { panic!("{:?}", requests(&entries)) };
        assert_eq!((request.executed, request.received()), (Some(1), Some(2)));
    }

    /// A completion of the client, under the opcode of a send.
    fn completes(run: &mut Run, status: &str) {
        let done = json!({
            "cq": 2, "qp": queue_pair(CLIENT), "wr_id": WR_ID[CLIENT as usize], "opcode": "IBV_WC_SEND",
            "status": status, "length": 0,
        });
        run.put(1, CLIENT, "completion", done);
    }

    /// Posts and completions of sends, and of receives.
    fn ends(run: &Run) -> Vec<[Option<usize>; 4]> {
        let all = requests(run.entries());
        let ends = |one: &Request| [one.posted, one.completion, one.receive(), one.received()];
        all.iter().map(ends).collect()
    }

    /// The opcode of a completion that is no success means nothing.
    #[test]
    fn a_receive_that_is_flushed_is_no_send() {
        let mut run = Run::new();
        run.receive(CLIENT, "at_post").posts(CLIENT, "IBV_WR_SEND");
        (0..2).for_each(|_| completes(&mut run, "IBV_WC_WR_FLUSH_ERR"));
        let (receive, send) = ([None, None, Some(0), Some(3)], [Some(1), Some(2), None, None]);
        assert_eq!(ends(&run), [receive, send]);
    }

    #[test]
    fn a_receive_that_fails_is_no_send() {
        let mut run = Run::new();
        run.receive(CLIENT, "at_post").posts(CLIENT, "IBV_WR_SEND");
        let executed = json!({
            "qp": queue_pair(CLIENT), "wr_id": WR_ID[CLIENT as usize], "opcode": "IBV_WR_SEND",
            "status": "IBV_WC_SUCCESS", "length": 16,
        });
        run.put(1, CLIENT, "executed", executed);
        completes(&mut run, "IBV_WC_LOC_LEN_ERR");
        completes(&mut run, "IBV_WC_SUCCESS");
        let (receive, send) = ([None, None, Some(0), Some(3)], [Some(1), Some(4), None, None]);
        assert_eq!(ends(&run), [receive, send]);
    }
}
