//! The state of a run: posts, executions, completions, polls.

use soft_hca_verbs::{Cause, WcStatus};

use super::messages::End;
use super::state::receives;
use super::{Effect, QueuePair, Range, Run, Send, Stalled, Unpolled, range};
use crate::entry::{
    Completion, Entry, Executed, MatchedReceive, Polled, ReceivePosted, ReceiveQueue, SendPosted,
};

impl Run {
    /// Gives the entry of the request's execution, if that was before.
    pub(super) fn send_posted(
        &mut self,
        at: usize,
        entry: &Entry,
        posted: &SendPosted,
    ) -> Option<usize> {
        self.has_sends = true;
        let qp = self.qp_mut(posted.qp, entry.process);
        let send = Send::new((at, entry.t), posted, qp.signals_all, entry.source());
        let cq = qp.send_cq.filter(|_| send.is_signaled);
        let execution = qp.sends.posts(send);
        if let Some(cq) = cq.and_then(|cq| self.cqs.get_mut(&cq)) {
            cq.pending += 1;
        }
        execution
    }

    /// A request of a queue pair, by its name, has to wait.
    pub(super) fn stalled(
        &mut self,
        entry: &Entry,
        (qp, wr_id): (u32, u64),
        reason: &Cause,
        effect: &mut Effect,
    ) {
        let qp = self.qp_mut(qp, entry.process);
        let send = qp.sends.pending().find(|send| send.wr_id == wr_id);
        let (at, source) = send.map(|send| (send.at, send.source.clone())).unwrap_or_default();
        effect.joins[0] = at;
        if let Cause::Held { .. } = reason {
            return;
        }
        let stalled = qp.stalled.take().filter(|stalled| stalled.wr_id == wr_id);
        let new = || Stalled::new((wr_id, source), entry.process, entry.t, reason);
        let stalled = qp.stalled.insert(stalled.unwrap_or_else(new));
        stalled.becomes(entry.t, reason);
        effect.source.clone_from(&stalled.source);
    }

    /// A thread takes the event of a completion queue that reports to a channel: that which was given first.
    pub(super) fn woken(&mut self, process: u32, fd: u32) -> Option<(usize, usize)> {
        let own =
            self.cqs.values_mut().filter(|cq| (cq.process, cq.channel) == (process, Some(fd)));
        let first = own.filter(|cq| cq.gives.is_some()).min_by_key(|cq| cq.gives.map(|of| of.1))?;
        first.gives.take()
    }

    /// Gives the bytes that another receive has, too.
    pub(super) fn receive_posted(
        &mut self,
        at: usize,
        entry: &Entry,
        posted: &ReceivePosted,
    ) -> Option<Range> {
        let written = &mut self.process_mut(entry.process).written;
        let shared = written.overlap(&posted.sges);
        written.add(&posted.sges);
        match posted.queue {
            ReceiveQueue::Qp(number) => {
                let qp = self.qp_mut(number, entry.process);
                qp.receives.posts((at, entry.t), posted, entry.source());
                let cq = qp.recv_cq;
                if let Some(cq) = cq.and_then(|cq| self.cqs.get_mut(&cq)) {
                    cq.pending += 1;
                }
            }
            ReceiveQueue::Srq(number) => {
                let srq = self.srqs.entry(number).or_default();
                srq.receives.posts((at, entry.t), posted, entry.source());
            }
        }
        shared
    }

    pub(super) fn executed(
        &mut self,
        at: usize,
        entry: &Entry,
        executed: &Executed,
        effect: &mut Effect,
    ) {
        effect.joins[1] = executed.receive.and_then(|receive| self.meets(at, receive));
        let qp = self.qp_mut(executed.qp, entry.process);
        qp.stalled = None;
        if executed.status != WcStatus::SUCCESS {
            (qp.has_failed, qp.is_in_error) = (true, true);
            qp.sends.failed = Some(executed.wr_id);
        }
        let (process, peer) = (qp.process, qp.peer);
        effect.source = None;
        let Some(send) = qp.sends.executes(executed.wr_id, at) else { return };
        (effect.joins[0], effect.source) = (send.at, send.source.clone());
        let read = send.sges.iter().filter(|_| send.is_read).map(range);
        let (read, target) = (read.collect::<Vec<_>>(), send.target);
        let writes = &mut self.process_mut(process).adapter_writes;
        read.into_iter().for_each(|range| writes.add(entry.t, range));
        let peer = peer.and_then(|peer| self.qps.get(&peer)).map(|peer| peer.process);
        if let (Some(target), Some(peer)) = (target, peer) {
            self.process_mut(peer).adapter_writes.add(entry.t, target);
        }
    }

    /// A message has gone into a receive. Gives an entry of that: its post, or its completion if that is on record
    /// before the execution.
    fn meets(&mut self, at: usize, receive: MatchedReceive) -> Option<usize> {
        let MatchedReceive { process, qp, wr_id } = receive;
        let qp = self.qps.entry(qp).or_insert_with(|| QueuePair::unknown(process));
        let known = qp.ends.take(End::Completion, wr_id);
        let known = known.or_else(|| receives(qp, &mut self.srqs).meets(wr_id));
        if known.is_none() {
            qp.ends.add(End::Execution, wr_id, at);
        }
        known
    }

    pub(super) fn completion(
        &mut self,
        at: usize,
        t: u64,
        completion: &Completion,
        effect: &mut Effect,
    ) {
        let Completion { qp: number, wr_id, opcode, status, .. } = *completion;
        let has_failed = status != WcStatus::SUCCESS;
        let is_message = !has_failed && opcode.is_receive();
        effect.source = None;
        effect.is_receive = opcode.is_receive();
        let mut receive = None;
        if let Some(qp) = self.qps.get_mut(&number) {
            qp.is_in_error |= has_failed;
            qp.has_failed |= has_failed && status != WcStatus::WR_FLUSH_ERR;
            if is_message {
                qp.messages += 1;
            } else {
                qp.sends.unsignaled = 0;
            }
            let is_failed_send = has_failed && qp.sends.failed.take_if(|of| *of == wr_id).is_some();
            if is_failed_send || !has_failed && !is_message {
                effect.joins[0] = qp.sends.completes(wr_id);
            } else if status == WcStatus::WR_FLUSH_ERR {
                if let Some(send) = qp.sends.flushes(wr_id) {
                    (effect.flushes_send, effect.source) = (true, send.source.clone());
                    effect.joins[0] = send.at;
                }
            }
            let queue = receives(qp, &mut self.srqs);
            receive = match has_failed {
                false if is_message => queue.takes(wr_id),
                true if !effect.flushes_send && !is_failed_send => queue.remove(wr_id),
                _ => None,
            };
            let owner = self.processes.entry(qp.process).or_default();
            if is_message {
                owner.last_message = Some(t);
                if receive.as_ref().is_none_or(|receive| !receive.is_met) {
                    effect.joins[1] = qp.ends.take(End::Execution, wr_id);
                    if effect.joins[1].is_none() {
                        qp.ends.add(End::Completion, wr_id, at);
                    }
                }
            }
            if let Some(receive) = &receive {
                owner.written.remove(&receive.sges);
                if is_message {
                    let written = receive.sges.iter().map(range);
                    written.for_each(|range| owner.adapter_writes.add(t, range));
                }
                effect.source = receive.source.clone();
                (effect.is_receive, effect.joins[0]) = (true, Some(receive.at));
            } else if effect.joins[0].is_some() {
                effect.is_receive = false;
            }
        }
        let (is_receive, send) = (is_message, effect.joins[0].filter(|_| !effect.is_receive));
        let one = Unpolled { qp: number, wr_id, has_failed, is_receive, receive, send, at };
        let cq = self.cqs.get_mut(&completion.cq).filter(|_| !completion.lost);
        if let Some((poll, one)) = cq.and_then(|cq| cq.completes(t, completion, one)) {
            self.given((completion.cq, poll), &one, false, effect);
        }
    }

    pub(super) fn polled(
        &mut self,
        at: usize,
        entry: &Entry,
        polled: &Polled,
        effect: &mut Effect,
    ) {
        let Some(cq) = self.cqs.get_mut(&polled.cq) else { return };
        for number in std::mem::take(&mut cq.failed_behind) {
            if let Some(qp) = self.qps.get_mut(&number) {
                qp.failure_is_seen = true;
            }
        }
        for (place, one) in cq.polls(at, entry.thread, polled).iter().enumerate() {
            self.given((polled.cq, at), one, place == 0, effect);
        }
    }

    /// A poll of a queue, by its entry's number, gives a completion. The program looks at the first one before it goes
    /// on; it may not look at those behind.
    fn given(
        &mut self,
        (cq, poll): (u32, usize),
        one: &Unpolled,
        is_first: bool,
        effect: &mut Effect,
    ) {
        effect.polled.push((one.at, poll));
        let Some(cq) = self.cqs.get_mut(&cq) else { return };
        cq.pending = cq.pending.saturating_sub(1);
        let Some(qp) = self.qps.get_mut(&one.qp) else { return };
        if one.is_receive {
            qp.sends.is_answered();
            effect.received.push(one.qp);
            return;
        }
        let sends = match one.has_failed {
            true => qp.sends.frees_executed(),
            false => qp.sends.frees(one.wr_id),
        };
        effect.freed.extend(sends.into_iter().map(|send| (one.qp, send)));
        match (one.has_failed, is_first) {
            (true, true) => qp.failure_is_seen = true,
            (true, false) => cq.failed_behind.push(one.qp),
            _ => {}
        }
    }
}
