//! Completion queues and the queue pairs that report to them: what can still complete.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use soft_hca_verbs::{QpState, SendFlags, WcStatus};

use crate::arguments::{self, cq, number, qp};
use crate::entry::{Call, Completion, Entry, Outcome, ReceiveQueue, Seen, SendPosted, What};

/// Whether, and since when, the next completion of a queue gives an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Armed {
    #[default]
    Never,
    /// It was armed at a time, and that has given its event.
    Spent {
        t: u64,
    },
    Yes {
        t: u64,
        solicited_only: bool,
    },
}

/// A completion queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Cq {
    pub(super) process: u32,
    /// Descriptor of the completion channel.
    pub(super) channel: Option<u32>,
    pub(super) armed: Armed,
    /// When a call that has armed it was over.
    armed_until: u64,
    completions: u64,
    polled: u64,
    /// When the last completion came.
    pub(super) last: u64,
    /// When the last event was given.
    pub(super) event: u64,
}

impl Cq {
    /// Whether something has come, and nothing was polled.
    pub(super) fn is_new(&self) -> bool {
        self.completions > 0 && self.polled == 0
    }

    /// Completions that nobody has polled.
    pub(super) fn waiting(&self) -> u64 {
        self.completions.saturating_sub(self.polled)
    }
}

/// A send work request that was neither executed nor flushed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) wr_id: u64,
    pub(super) since: u64,
    is_signaled: bool,
}

/// A queue pair.
#[derive(Clone, Debug, Default)]
pub(super) struct Pair {
    pub(super) process: u32,
    pub(super) send_cq: Option<u32>,
    pub(super) recv_cq: Option<u32>,
    srq: Option<u32>,
    pub(super) peer: Option<u32>,
    all_signaled: bool,
    pub(super) pending: VecDeque<Pending>,
    /// Executed before it was seen that they were posted.
    early: Vec<u64>,
    /// Unsignaled sends that were executed since the last completion of a send.
    pub(super) unsignaled: u64,
    /// Sends that were posted, and when the last was.
    pub(super) sends: u64,
    pub(super) last_send: u64,
    pub(super) is_destroyed: bool,
    /// It has failed, or its program has put it into the error state.
    pub(super) is_in_error: bool,
}

/// What is known of them from the entries so far.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) cqs: BTreeMap<u32, Cq>,
    pub(super) pairs: BTreeMap<u32, Pair>,
    /// Receives that were posted, and those of them that were taken.
    receives: BTreeMap<ReceiveQueue, (u64, u64)>,
    /// Completion channels that were seen to be created, by process and descriptor.
    pub(super) channels: BTreeSet<(u32, u32)>,
    /// Shared receive queues that were seen to be created.
    srqs: BTreeSet<u32>,
    /// Processes whose polls are seen.
    hooked: HashSet<u32>,
}

impl Queues {
    /// Another entry.
    pub(super) fn entry(&mut self, entry: &Entry) {
        match &entry.what {
            What::Call(call) => self.call(entry, call),
            What::SendPosted(posted) => self.posts(entry, posted),
            What::ReceivePosted(posted) => {
                if posted.seen == Seen::AtPost {
                    self.hooked.insert(entry.process);
                }
                self.receives.entry(posted.queue).or_default().0 += 1;
            }
            What::Executed(executed) => {
                if let Some(pair) = self.pairs.get_mut(&executed.qp) {
                    pair.executes(executed.wr_id);
                }
            }
            What::Completion(completion) => self.completes(entry.t, completion),
            What::Polled(polled) => {
                self.hooked.insert(entry.process);
                if let Some(cq) = self.cqs.get_mut(&polled.cq) {
                    cq.polled += u64::from(polled.found);
                }
            }
            _ => {}
        }
    }

    /// Whether it is known which completions a process has polled.
    pub(super) fn sees_polls(&self, process: u32) -> bool {
        self.hooked.contains(&process)
    }

    fn call(&mut self, entry: &Entry, call: &Call) {
        let Outcome::Done(done) = &call.result else { return };
        let Entry { t, process, .. } = *entry;
        match call.name.as_str() {
            "ibv_create_comp_channel" => {
                if let Some(fd) = arguments::channel(done, "channel") {
                    self.channels.insert((process, fd));
                }
            }
            "ibv_create_srq" => {
                if let Some(srq) = arguments::srq(done, "srq") {
                    self.srqs.insert(srq);
                    self.receives.remove(&ReceiveQueue::Srq(srq));
                }
            }
            "ibv_create_cq" | "ibv_create_cq_ex" => {
                let Some(number) = cq(done, "cq") else { return };
                let channel = arguments::channel(&call.args, "channel");
                self.cqs.insert(number, Cq { process, channel, ..Cq::default() });
            }
            "ibv_destroy_cq" => {
                cq(&call.args, "cq").map(|number| self.cqs.remove(&number));
            }
            "ibv_req_notify_cq" => {
                let queue = cq(&call.args, "cq").and_then(|number| self.cqs.get_mut(&number));
                let Some(queue) = queue else { return };
                let wish = number(&call.args, "solicited_only").is_some_and(|wish| wish != 0);
                // The stronger wish stays.
                let solicited_only = match queue.armed {
                    Armed::Yes { solicited_only, .. } => wish && solicited_only,
                    _ => wish,
                };
                queue.armed = Armed::Yes { t, solicited_only };
                queue.armed_until = t + call.duration;
            }
            "ibv_create_qp" | "ibv_create_qp_ex" => {
                let Some(qp) = qp(done, "qp_num") else { return };
                let srq = arguments::srq(&call.args, "srq");
                let (send_cq, recv_cq) = (cq(&call.args, "send_cq"), cq(&call.args, "recv_cq"));
                let all_signaled = number(&call.args, "sq_sig_all").is_some_and(|all| all != 0);
                let new = Pair { process, send_cq, recv_cq, srq, all_signaled, ..Pair::default() };
                self.pairs.insert(qp, new);
                self.receives.remove(&ReceiveQueue::Qp(qp));
            }
            "ibv_modify_qp" => {
                let Some(number) = qp(&call.args, "qp") else { return };
                let Some(pair) = self.pairs.get_mut(&number) else { return };
                pair.peer = qp(&call.args, "dest_qp_num").or(pair.peer);
                match arguments::word(&call.args, "qp_state") {
                    Some(QpState::RESET) => {
                        let Pair { process, send_cq, recv_cq, srq, all_signaled, .. } = *pair;
                        *pair = Pair {
                            process,
                            send_cq,
                            recv_cq,
                            srq,
                            all_signaled,
                            ..Pair::default()
                        };
                        self.receives.remove(&ReceiveQueue::Qp(number));
                    }
                    Some(QpState::ERR) => {
                        pair.is_in_error = true;
                    }
                    _ => {}
                }
            }
            "ibv_destroy_qp" => {
                let pair = qp(&call.args, "qp").and_then(|qp| self.pairs.get_mut(&qp));
                if let Some(pair) = pair {
                    pair.is_destroyed = true;
                }
            }
            _ => {}
        }
    }

    fn posts(&mut self, entry: &Entry, posted: &SendPosted) {
        let Some(pair) = self.pairs.get_mut(&posted.qp) else { return };
        let is_signaled = pair.all_signaled || posted.flags.contains(SendFlags::SIGNALED);
        (pair.sends, pair.last_send) = (pair.sends + 1, entry.t);
        match pair.early.iter().position(|early| *early == posted.wr_id) {
            Some(at) => {
                pair.early.swap_remove(at);
                pair.unsignaled += u64::from(!is_signaled);
            }
            None => {
                let pending = Pending { wr_id: posted.wr_id, since: entry.t, is_signaled };
                pair.pending.push_back(pending);
            }
        }
    }

    fn completes(&mut self, t: u64, completion: &Completion) {
        let is_receive = completion.opcode.is_receive();
        let is_good = completion.status == WcStatus::SUCCESS;
        if let Some(pair) = self.pairs.get_mut(&completion.qp) {
            if is_receive && is_good {
                let queue = pair.srq.map_or(ReceiveQueue::Qp(completion.qp), ReceiveQueue::Srq);
                self.receives.entry(queue).or_default().1 += 1;
            } else {
                pair.is_in_error |= !is_good;
                pair.unsignaled = 0;
            }
        }
        let Some(cq) = self.cqs.get_mut(&completion.cq).filter(|_| !completion.lost) else {
            return;
        };
        (cq.completions, cq.last) = (cq.completions + 1, t);
        if let Armed::Yes { t: armed, solicited_only } = cq.armed {
            // One that comes while the queue is being armed may be before or behind that.
            let is_meant = !solicited_only || completion.solicited || !is_good;
            if is_meant && t >= cq.armed_until {
                (cq.armed, cq.event) = (Armed::Spent { t: armed }, t);
            }
        }
    }

    /// Receives that wait for a message to a queue pair.
    pub(super) fn receives(&self, number: u32) -> u64 {
        let (posted, taken) = self.receives_of(number);
        posted.saturating_sub(taken)
    }

    /// Whether all receives of a queue pair were seen.
    pub(super) fn sees_receives(&self, number: u32) -> bool {
        let srq = self.pairs.get(&number).and_then(|pair| pair.srq);
        srq.is_none_or(|srq| self.srqs.contains(&srq))
    }

    /// Receives that were posted for a queue pair, or for the shared queue that it has, and those of them
    /// that a message has taken.
    pub(super) fn receives_of(&self, number: u32) -> (u64, u64) {
        let srq = self.pairs.get(&number).and_then(|pair| pair.srq);
        let queue = srq.map_or(ReceiveQueue::Qp(number), ReceiveQueue::Srq);
        self.receives.get(&queue).copied().unwrap_or_default()
    }

    /// Queue pairs that report to a completion queue.
    pub(super) fn of(&self, cq: u32) -> impl Iterator<Item = (u32, &Pair)> {
        let reports = move |pair: &&Pair| {
            (pair.send_cq == Some(cq) || pair.recv_cq == Some(cq)) && !pair.is_destroyed
        };
        let pairs = self.pairs.iter().map(|(number, pair)| (*number, pair));
        pairs.filter(move |(_, pair)| reports(pair))
    }
}

impl Pair {
    /// Those before it were flushed, if there are any.
    fn executes(&mut self, wr_id: u64) {
        match self.pending.iter().position(|pending| pending.wr_id == wr_id) {
            Some(at) => {
                let is_signaled = self.pending[at].is_signaled;
                self.pending.drain(..=at);
                self.unsignaled += u64::from(!is_signaled);
            }
            None => self.early.push(wr_id),
        }
    }
}
