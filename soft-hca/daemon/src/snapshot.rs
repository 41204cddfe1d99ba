//! The state of a fabric as the model of a run, which a record fills from its entries: so `soft-hca ls --why` says
//! of programs that run what `soft-hca explain` says of a record.
//!
//! Of a process it is known which of its threads wait for completions, which queues are polled in vain, and at
//! which event channels it has asked for an event.

use std::fs;
use std::sync::atomic::Ordering::Acquire;

use soft_hca_core::arena::{Cq, Qp};
use soft_hca_core::uapi::rxe::SendWqe;
use soft_hca_core::uapi::verbs::{opcode, qp_type, send_flag, state};
use soft_hca_record::entry::Channel;
use soft_hca_record::model::{
    Armed, Blocked, CompletionQueue, Doing, Process, QueuePair, Receives, Run, Send, SendQueue,
    SharedReceiveQueue, Stalled,
};

use crate::fabric::Fabric;
use crate::threads::Threads;
use crate::ucma::Cm;

/// A queue that was polled in vain less than these nanoseconds ago is taken to be polled still.
const RECENT_NS: u64 = 1_000_000_000;

/// The thread of a process that stands for those of which nothing is known.
const OTHERS: u32 = u32::MAX;

/// The low bits of `Cq::armed`.
const KIND: u32 = 3;
const SOLICITED: u32 = 1;

/// The state of a fabric and its connection manager at a time.
pub(crate) fn run(fabric: &Fabric, cm: &Cm, now: u64) -> Run {
    let snapshot = Snapshot { fabric, now };
    let mut run = Run::of_fabric();
    let cqs = fabric.cqs.taken().map(|index| (index as u32, snapshot.cq(&fabric.arena.cqs[index])));
    run.cqs.extend(cqs);
    for index in fabric.srqs.taken() {
        let srq = &fabric.arena.srqs[index];
        let waiting = fabric.arena.posted(&srq.ring, &srq.consumer).0;
        let (process, receives) = (srq.proc.load(Acquire), Receives::at_rest(waiting.into()));
        let known = SharedReceiveQueue { process, is_whole: true, receives, ..Default::default() };
        run.srqs.insert(index as u32, known);
    }
    for qp in fabric.qps.taken().map(|index| &fabric.arena.qps[index]) {
        run.qps.insert(qp.live.load(Acquire), snapshot.qp(qp));
    }
    let (waits, polls, asks) = (snapshot.waits(), snapshot.polls(), cm.snapshot(&mut run));
    for (process, pid) in fabric.processes.iter() {
        let process = process as u32;
        let count =
            |threads: &[(u32, Blocked)]| threads.iter().filter(|(of, _)| *of == process).count();
        let threads = Threads::of(pid);
        // One thread may poll several queues in turn, or ask at a channel without waiting there.
        let others = (count(&polls) + count(&asks)).min(1);
        if count(&polls) > 1 || count(&waits) + others < threads.count() {
            run.threads.see((process, OTHERS));
        }
        run.processes.insert(process, snapshot.process((process, pid), &threads));
    }
    let all = waits.into_iter().chain(polls).chain(asks);
    for (number, (process, blocked)) in all.enumerate() {
        run.threads.block((process, number as u32), blocked);
    }
    run
}

struct Snapshot<'a> {
    fabric: &'a Fabric,
    now: u64,
}

impl Snapshot<'_> {
    fn process(&self, (process, pid): (u32, u32), threads: &Threads) -> Process {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let channels = self.fabric.arena.channels.iter().enumerate().filter(|(_, channel)| {
            channel.live.load(Acquire) != 0 && channel.proc.load(Acquire) == process
        });
        Process {
            name: format!("{}[{pid}]", comm.trim_end()),
            is_stopped: threads.are_stopped(),
            is_asleep: threads.all_sleep(),
            // The rings show what is posted and polled.
            is_hooked: true,
            channels: channels.map(|(index, _)| index as u32).collect(),
            ..Process::default()
        }
    }

    /// Threads that wait for completion events.
    fn waits(&self) -> Vec<(u32, Blocked)> {
        let channels = self.fabric.arena.channels.iter().enumerate();
        let live = channels.filter(|(_, channel)| channel.live.load(Acquire) != 0);
        let waits = live.filter_map(|(index, channel)| {
            let since = Some(channel.waits_since.load(Acquire)).filter(|since| *since != 0)?;
            let doing = Doing::Waits { on: Channel::Completion, fd: index as u32 };
            Some((channel.proc.load(Acquire), Blocked::now(doing, since)))
        });
        waits.collect()
    }

    /// Threads that poll a queue in vain, for as long as they were seen to.
    fn polls(&self) -> Vec<(u32, Blocked)> {
        let polls = self.fabric.cqs.taken().filter_map(|index| {
            let cq = &self.fabric.arena.cqs[index];
            let [since, until] = [&cq.in_vain_since, &cq.in_vain_until].map(|t| t.load(Acquire));
            let is_over = until == 0 || self.now.saturating_sub(until) >= RECENT_NS;
            let doing = Doing::Polls { cq: index as u32, times: 0 };
            let since = self.now.saturating_sub(until.saturating_sub(since));
            let blocked = Blocked::now(doing, since);
            (!is_over).then(|| (cq.proc.load(Acquire), blocked))
        });
        polls.collect()
    }

    fn cq(&self, cq: &Cq) -> CompletionQueue {
        let (consumer, unpolled) = self.fabric.arena.ring(&cq.ring).map_or((0, 0), |ring| {
            (ring.consumer(), ring.distance(ring.consumer(), ring.producer()))
        });
        let was_polled = consumer != 0 || cq.in_vain_since.load(Acquire) != 0;
        let polled = u64::from(was_polled);
        CompletionQueue {
            process: cq.proc.load(Acquire),
            channel: cq.channel.load(Acquire).checked_sub(1),
            armed: match cq.armed.load(Acquire) & KIND {
                0 => Armed::No,
                kind => Armed::Yes { t: None, solicited_only: kind == SOLICITED },
            },
            completions: polled + u64::from(unpolled),
            polled,
            has_event: cq.pending_events.load(Acquire) != 0,
            ..CompletionQueue::default()
        }
    }

    fn qp(&self, qp: &Qp) -> QueuePair {
        let (number, process) = (qp.live.load(Acquire), qp.proc.load(Acquire));
        let sends = self.sends(qp);
        let stalled = self.fabric.actor().why_it_waits(number).and_then(|reason| {
            let wr_id = sends.pending().next()?.wr_id;
            Some(Stalled::new((wr_id, None), process, self.now, &reason))
        });
        let receives = self.fabric.arena.posted(&qp.rq, &qp.rq_consumer).0;
        // A datagram has its destination by itself.
        let is_connected = qp.qp_type.load(Acquire) != qp_type::UD;
        let peer = Some(qp.dest_qpn.load(Acquire)).filter(|peer| is_connected && *peer != 0);
        QueuePair {
            process,
            is_whole: true,
            send_cq: Some(qp.send_cq.load(Acquire)),
            recv_cq: Some(qp.recv_cq.load(Acquire)),
            srq: qp.srq.load(Acquire).checked_sub(1),
            peer,
            has_packets: qp.route.load(Acquire) != 0,
            is_in_error: qp.state.load(Acquire) == state::ERR,
            sends,
            stalled,
            receives: Receives::at_rest(receives.into()),
            ..QueuePair::default()
        }
    }

    fn sends(&self, qp: &Qp) -> SendQueue {
        let Some(ring) = self.fabric.arena.ring(&qp.sq) else { return SendQueue::default() };
        let first = qp.sq_consumer.load(Acquire) & ring.mask();
        let count = ring.distance(first, ring.producer());
        let wqe = |at: u32| SendWqe::read(ring.slot(at));
        let pending = (0..count).map(|more| {
            let wr_id = wqe(first.wrapping_add(more)).wr_id;
            Send { wr_id, ..Send::default() }
        });
        let is_unsignaled = |back: &u32| {
            let wqe = wqe(first.wrapping_sub(*back));
            // Of a slot that was never filled all is 0.
            let is_filled = wqe.opcode != opcode::RDMA_WRITE || wqe.remote().addr != 0;
            is_filled && wqe.flags & send_flag::SIGNALED == 0
        };
        let executed = 1..=ring.mask().saturating_sub(count);
        let signals_all = qp.sq_sig_all.load(Acquire) != 0;
        let unsignaled = executed.take_while(|back| !signals_all && is_unsignaled(back)).count();
        SendQueue::at_rest(pending, unsignaled as u64)
    }
}
