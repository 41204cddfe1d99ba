//! A process runs its share of the port: while it polls, its queue pairs send and receive in its own calls,
//! and nobody has to be woken for a packet.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use arrayvec::ArrayVec;
use soft_hca_roce::wire::bth::Qpn;

use super::kept::Scratch;
use super::packets::{Arrived, NoTap, Port, RUN, goes_with, trace_arrived};
use super::queue_pair::QueuePair;
use super::socket::{Inbox, Socket};
use crate::arena::port_counters::Drop;
use crate::arena::share::runner;
use crate::arena::{Mapping, SHARE_QPS, Share};
use crate::deadlines::Deadlines;
use crate::engine::Actor;
use crate::system;

/// Polls in a row that find nothing before a process takes its share, or asks whether it may.
const EMPTY_POLLS: u32 = 64;
/// Polls after which it looks at the clock.
const LOOK_AT_CLOCK: u32 = 16;
/// When a queue pair is tried again that others had.
const BUSY_NS: u64 = 100_000;

/// A process's share, as it runs it. One thread at a time has it.
#[derive(Debug)]
pub struct Running {
    arena: Arc<Mapping>,
    share: usize,
    port: Port<NoTap>,
    /// Which of the port's sockets queue pairs of this process use.
    in_use: u64,
    qps: HashMap<Qpn, QueuePair>,
    /// Those that are to be served.
    dirty: Vec<Qpn>,
    deadlines: Deadlines<Qpn>,
    inbox: Inbox,
    scratch: Scratch,
    polls: u32,
    empty_polls: u32,
}

impl Running {
    /// A share with these sockets, one for each address, which the daemon runs so far.
    pub fn new(arena: Arc<Mapping>, share: usize, sockets: Vec<Socket>) -> Self {
        let port = Port::new(sockets, Arc::clone(&arena), NoTap);
        Self {
            arena,
            share,
            port,
            in_use: 0,
            qps: HashMap::new(),
            dirty: Vec::new(),
            deadlines: Deadlines::default(),
            inbox: Inbox::new(),
            scratch: Scratch::default(),
            polls: 0,
            empty_polls: 0,
        }
    }

    fn entry(&self) -> &Share {
        &self.arena.shares[self.share]
    }

    fn is_ours(&self) -> bool {
        self.entry().is_run_by_process()
    }

    /// The process is about to look for completions. Sends what is to be sent and takes packets that have
    /// come, if the share is run here; else it takes the share now and then. The time, if it has looked at
    /// the clock (`CLOCK_MONOTONIC` nanoseconds).
    pub fn poll(&mut self, actor: &Actor<'_>) -> Option<u64> {
        let mut looked = None;
        if !self.is_ours() {
            self.empty_polls += 1;
            if self.empty_polls % EMPTY_POLLS != 0 {
                return None;
            }
            let now = system::now_ns();
            if !self.take(actor, now) {
                return Some(now);
            }
            looked = Some(now);
        }
        self.polls = self.polls.wrapping_add(1);
        self.entry().polls.store(self.polls, Relaxed);
        self.serve(actor);
        let has_received = self.receive(actor);
        if !has_received && self.polls % LOOK_AT_CLOCK == 0 {
            let now = system::now_ns();
            self.dirty.extend(self.deadlines.due(now));
            looked = Some(now);
        }
        looked
    }

    /// The process has found a completion.
    pub fn has_found(&mut self) {
        self.empty_polls = 0;
    }

    /// The process has posted to queue pairs, or asks for something by which some may end: what is to be sent
    /// leaves. False if the daemon runs the share and is to be told.
    pub fn posted(&mut self, actor: &Actor<'_>, qpns: &[u32]) -> bool {
        if !self.is_ours() {
            return false;
        }
        self.dirty.extend(qpns.iter().map(|qpn| Qpn::new(*qpn)));
        self.serve(actor);
        true
    }

    /// The process is going to sleep: the daemon runs the share from now on. Calls `tell` for each queue
    /// pair at which it has to look.
    pub fn give_back(&mut self, actor: &Actor<'_>, mut tell: impl FnMut(u32)) {
        self.empty_polls = 0;
        if self.is_ours() {
            self.serve(actor);
            self.entry().runner.store(runner::DAEMON, Release);
            self.qps.drain().for_each(|(qpn, _)| tell(qpn.get()));
        }
    }

    /// Takes the share, if the process may have it and has connected queue pairs.
    fn take(&mut self, actor: &Actor<'_>, now: u64) -> bool {
        let entry = &self.arena.shares[self.share];
        if now < entry.not_before_ns.load(Acquire) {
            return false;
        }
        let first = self.share * SHARE_QPS;
        let qps = &self.arena.qps[first..first + SHARE_QPS];
        let connected = qps.iter().filter(|qp| qp.kept_bytes.load(Acquire) != 0);
        let qpns: Vec<Qpn> = connected.map(|qp| Qpn::new(qp.live.load(Acquire))).collect();
        let Some(any) = qpns.first() else { return false };
        let taken = entry.runner.compare_exchange(runner::DAEMON, runner::PROCESS, AcqRel, Acquire);
        if taken.is_err() {
            return false;
        }
        self.qps.clear();
        self.in_use = 0;
        self.deadlines = Deadlines::default();
        // It has to notice, so that it looks whether we go on polling.
        actor.env.link_is_away(any.get());
        self.dirty = qpns;
        true
    }

    /// Does something with queue pairs that nobody else has meanwhile. False if somebody has them.
    fn with(&mut self, qpns: &[Qpn], mut work: impl FnMut(&mut Self, &mut QueuePair)) -> bool {
        let arena = Arc::clone(&self.arena);
        let me = (arena.shares[self.share].proc.load(Relaxed) as usize).wrapping_sub(1);
        let Some(_guard) = arena.shares[self.share].lock_patiently(me) else { return false };
        for qpn in qpns {
            let known = match self.qps.remove(qpn) {
                Some(mut known) => known.refresh(&arena).then_some(known),
                None => QueuePair::kept(&arena, *qpn),
            };
            let Some(mut queue_pair) = known else { continue };
            work(self, &mut queue_pair);
            queue_pair.keep(&arena, &mut self.scratch);
            let own = queue_pair.path.own;
            if let Some(at) = self.port.sockets.iter().position(|socket| socket.address == own) {
                self.in_use |= 1 << (at % 64);
            }
            self.qps.insert(*qpn, queue_pair);
        }
        true
    }

    /// Serves the queue pairs that have something to do. Their packets leave when the lock is given back,
    /// so that a process that is stopped has it as seldom as can be.
    fn serve(&mut self, actor: &Actor<'_>) {
        if self.dirty.is_empty() {
            return;
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        let now = system::now_ns();
        let is_done = self.with(&dirty, |this, queue_pair| {
            if queue_pair.serve(*actor, now, &this.port) {
                this.dirty.push(queue_pair.number());
            }
            if let Some(at) = queue_pair.deadline() {
                this.deadlines.add(queue_pair.number(), at);
            }
        });
        if !is_done {
            dirty.into_iter().for_each(|qpn| self.deadlines.add(qpn, now + BUSY_NS));
        }
        if !self.port.flush() {
            // The socket is full: what waits leaves with the next packets.
            self.dirty.extend(self.qps.keys().next());
        }
    }

    /// Takes packets that have come. Whether there were any.
    fn receive(&mut self, actor: &Actor<'_>) -> bool {
        let mut has_received = false;
        let mut inbox = std::mem::replace(&mut self.inbox, Inbox::empty());
        for at in 0..self.port.sockets.len() {
            if self.in_use & 1 << (at % 64) == 0 {
                continue;
            }
            let socket = &self.port.sockets[at];
            let own = socket.address;
            let Ok(messages) = socket.receive(&mut inbox) else { continue };
            has_received = true;
            let mut packets = (0..messages).flat_map(|at| inbox.packets(at)).peekable();
            while packets.peek().is_some() {
                for run in self.port.take(own, packets.by_ref()).chunk_by(goes_with) {
                    self.arrived(actor, run);
                }
            }
        }
        self.inbox = inbox;
        has_received
    }

    /// Packets of one service for one queue pair.
    fn arrived(&mut self, actor: &Actor<'_>, run: &[Arrived<'_>]) {
        let Some(first) = run.first() else { return };
        let qpn = first.packet.headers.dest_qpn;
        let packets: ArrayVec<_, RUN> = run.iter().map(|arrived| arrived.packet).collect();
        let mut refused = Some(Drop::QueuePair);
        let now = system::now_ns();
        let mut ends: Option<(IpAddr, IpAddr)> = None;
        self.with(&[qpn], |_, queue_pair| {
            ends = Some((queue_pair.path.own, queue_pair.path.peer));
            if !queue_pair.has(first.packet.headers.service) {
                return;
            }
            refused = (ends != Some(first.path)).then_some(Drop::Address);
            if refused.is_none() {
                trace_arrived(actor, run, ends);
                queue_pair.receive(*actor, now, &packets);
            }
        });
        match refused {
            Some(reason) => {
                trace_arrived(actor, run, ends);
                run.iter().for_each(|_| self.port.count_drop(first.path.1, reason));
            }
            None => self.dirty.push(qpn),
        }
    }
}
