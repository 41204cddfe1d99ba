//! A process runs its lease of the port: while it polls, its queue pairs send and receive in its own calls,
//! and nobody has to be woken for a packet.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use arrayvec::ArrayVec;
use soft_hca_roce::wire::bth::Qpn;

use super::packets::{Arrived, LinkPort, NoTap, RUN, goes_with, trace_arrived};
use super::queue_pair::LinkQueuePair;
use super::snapshot::Scratch;
use super::socket::{Inbox, Socket};
use crate::arena::port_counters::DropReason;
use crate::arena::port_lease::runner;
use crate::arena::{Mapping, PORT_LEASE_QPS, PortLease};
use crate::deadlines::Deadlines;
use crate::engine::Actor;
use crate::system;

/// Polls in a row that find nothing before a process takes its lease, or asks whether it may.
const EMPTY_POLLS: u32 = 64;
/// Polls after which it looks at the clock.
const LOOK_AT_CLOCK: u32 = 16;
/// When a queue pair is tried again that others had.
const BUSY_NS: u64 = 100_000;

/// A process's lease, as it runs it. One thread at a time has it.
#[derive(Debug)]
pub struct Running {
    arena: Arc<Mapping>,
    lease: usize,
    port: LinkPort<NoTap>,
    /// Which of the port's sockets queue pairs of this process use.
    in_use: u64,
    qps: HashMap<Qpn, Box<LinkQueuePair>>,
    /// Those that are to be served.
    dirty: Vec<Qpn>,
    deadlines: Deadlines<Qpn>,
    inbox: Inbox,
    scratch: Scratch,
    polls: u32,
    empty_polls: u32,
}

impl Running {
    /// A lease with these sockets, one for each address, which the daemon runs so far.
    pub fn new(arena: Arc<Mapping>, lease: usize, sockets: Vec<Socket>) -> Self {
        let port = LinkPort::new(sockets, Arc::clone(&arena), NoTap);
        Self {
            arena,
            lease,
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

    fn entry(&self) -> &PortLease {
        &self.arena.leases[self.lease]
    }

    fn is_ours(&self) -> bool {
        self.entry().is_run_by_process()
    }

    /// The process is about to look for completions. Sends what is to be sent and takes packets that have
    /// come, if the lease is run here; else it takes the lease now and then. The time, if it has looked at
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
        self.step(actor).or(looked)
    }

    /// Sends what is to be sent and takes packets that have come, if the lease is still run here; the daemon sees that the
    /// process goes on. The time, if it has looked at the clock.
    fn step(&mut self, actor: &Actor<'_>) -> Option<u64> {
        self.polls = self.polls.wrapping_add(1);
        self.entry().polls.store(self.polls, Relaxed);
        let mut looked = None;
        if self.begin(PortLease::take_in_hand) {
            looked = self.run(actor);
            self.end();
        }
        self.tell_if_taken_back(actor);
        looked
    }

    /// Begins to send and receive, in the place of nobody else; packets that others have in hand come before. False
    /// if the lease was taken back, or others still have some.
    fn begin(&self, take_in_hand: impl FnOnce(&PortLease, usize) -> bool) -> bool {
        if !take_in_hand(self.entry(), self.me()) {
            return false;
        }
        let is_ours = self.is_ours();
        if !is_ours {
            self.end();
        }
        is_ours
    }

    /// All received packets are handled. Those that were made are sent, but for some that a full socket has no room for:
    /// these are in hand still.
    fn end(&self) {
        if self.port.flush() {
            self.entry().put_down(self.me());
        }
    }

    /// Sends what is to be sent and takes packets that have come. The time, if it has looked at the clock.
    fn run(&mut self, actor: &Actor<'_>) -> Option<u64> {
        if self.entry().has_changed.load(Relaxed) != 0 {
            self.entry().has_changed.swap(0, AcqRel);
            self.dirty.extend(self.connected());
        }
        self.serve(actor);
        let has_received = self.receive(actor);
        if has_received || self.polls % LOOK_AT_CLOCK != 0 {
            return None;
        }
        let now = system::now_ns();
        self.dirty.extend(self.deadlines.due(now));
        Some(now)
    }

    /// A thread of the process is going to wait at the port's sockets: takes the lease, if it may be had. False if the
    /// daemon runs it.
    pub fn begin_wait(&mut self, actor: &Actor<'_>) -> bool {
        (self.is_ours() || self.take(actor, system::now_ns())) && self.wait(actor)
    }

    /// A thread of the process waits at the port's sockets: sends what is to be sent and takes packets that have come.
    /// Their answers leave the next time, which should be soon, if [`Running::is_owing`]. False if the daemon
    /// runs the lease from now on.
    pub fn wait(&mut self, actor: &Actor<'_>) -> bool {
        self.dirty.extend(self.deadlines.due(system::now_ns()));
        self.step(actor);
        self.is_ours()
    }

    /// Whether something is to be sent.
    pub fn is_owing(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The process has found a completion.
    pub fn has_found(&mut self) {
        self.empty_polls = 0;
    }

    /// The process has posted to queue pairs, or asks for something by which some may end: what is to be sent
    /// leaves. False if the daemon runs the lease and is to be told.
    pub fn posted(&mut self, actor: &Actor<'_>, qpns: &[u32]) -> bool {
        if !self.is_ours() || !self.begin(PortLease::take_in_hand_patiently) {
            return false;
        }
        self.dirty.extend(qpns.iter().map(|qpn| Qpn::new(*qpn)));
        self.serve(actor);
        self.end();
        self.tell_if_taken_back(actor);
        true
    }

    /// The process is going to sleep: the daemon runs the lease from now on. Calls `tell` for each queue
    /// pair at which it has to look.
    pub fn give_back(&mut self, actor: &Actor<'_>, mut tell: impl FnMut(u32)) {
        self.empty_polls = 0;
        if self.is_ours() {
            if self.begin(PortLease::take_in_hand_patiently) {
                self.serve(actor);
                self.end();
            }
            self.entry().runner.store(runner::DAEMON, Release);
            self.qps.drain().for_each(|(qpn, _)| tell(qpn.get()));
        }
    }

    /// The daemon takes the lease back from a process that seems not to poll, and looks at its queue pairs then.
    /// If a thread was not running in the middle of its poll, what it has done after that look is told: an
    /// acknowledgement may be due, or a timer begun.
    fn tell_if_taken_back(&mut self, actor: &Actor<'_>) {
        if !self.is_ours() {
            self.dirty.clear();
            self.qps.drain().for_each(|(qpn, _)| actor.env.link_looks(qpn.get()));
        }
    }

    /// The lease's queue pairs that have peers on other hosts.
    fn connected(&self) -> Vec<Qpn> {
        let first = self.lease * PORT_LEASE_QPS;
        let qps = &self.arena.qps[first..first + PORT_LEASE_QPS];
        let connected = qps.iter().filter(|qp| qp.snapshot_bytes.load(Acquire) != 0);
        connected.map(|qp| Qpn::new(qp.live.load(Acquire))).collect()
    }

    /// Takes the lease, if the process may have it and has connected queue pairs.
    fn take(&mut self, actor: &Actor<'_>, now: u64) -> bool {
        let entry = &self.arena.leases[self.lease];
        if now < entry.not_before_ns.load(Acquire) {
            return false;
        }
        let qpns = self.connected();
        let Some(any) = qpns.first() else { return false };
        let taken = entry.runner.compare_exchange(runner::DAEMON, runner::PROCESS, AcqRel, Acquire);
        if taken.is_err() {
            return false;
        }
        self.qps.clear();
        self.in_use = 0;
        self.deadlines = Deadlines::default();
        // It has to notice, so that it looks whether we go on polling.
        actor.env.link_looks(any.get());
        self.dirty = qpns;
        true
    }

    /// Does something with queue pairs of this lease that nobody else has meanwhile. False if somebody has them.
    fn with(&mut self, qpns: &[Qpn], mut work: impl FnMut(&mut Self, &mut LinkQueuePair)) -> bool {
        let arena = Arc::clone(&self.arena);
        let Some(_guard) = arena.leases[self.lease].lock_patiently(self.me()) else { return false };
        for qpn in qpns {
            let known = match self.qps.remove(qpn) {
                Some(mut known) => known.refresh(&arena).then_some(known),
                None => LinkQueuePair::from_snapshot(&arena, *qpn).map(Box::new),
            };
            let Some(mut queue_pair) = known else { continue };
            work(self, &mut queue_pair);
            queue_pair.save_snapshot(&arena, &mut self.scratch);
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
            let mut arrived = ArrayVec::new();
            while packets.peek().is_some() {
                self.port.take(own, packets.by_ref(), &mut arrived);
                for run in arrived.chunk_by(goes_with) {
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
        let mut packets = ArrayVec::<_, RUN>::new();
        packets.extend(run.iter().map(|arrived| arrived.packet));
        let mut refused = Some(DropReason::QueuePair);
        let now = system::now_ns();
        let mut ends: Option<(IpAddr, IpAddr)> = None;
        let receive = |lease: &mut Self, queue_pair: &mut LinkQueuePair| {
            ends = Some((queue_pair.path.own, queue_pair.path.peer));
            if !queue_pair.has(first.packet.headers.service) {
                return;
            }
            refused = (ends != Some(first.path)).then_some(DropReason::Address);
            if refused.is_none() {
                trace_arrived(actor, run, ends);
                queue_pair.receive(*actor, now, &packets, &lease.port);
            }
        };
        let is_own = LinkQueuePair::lease(&self.arena, qpn) == Some(self.lease);
        if is_own {
            self.with(&[qpn], receive);
        } else {
            self.with_other(qpn, receive);
        }
        match refused {
            Some(reason) => {
                trace_arrived(actor, run, ends);
                run.iter().for_each(|_| self.port.count_drop(first.path.1, reason));
            }
            None if is_own => self.dirty.push(qpn),
            // The one who runs its lease goes on with it.
            None => actor.env.link_looks(qpn.get()),
        }
    }

    /// Does something with a queue pair of another lease. Its packets come to this one's socket where the
    /// system has made one message of packets that came in a row (GRO), or has got them so: it looks at the
    /// first one's queue pair only.
    fn with_other(&mut self, qpn: Qpn, work: impl FnOnce(&mut Self, &mut LinkQueuePair)) {
        let arena = Arc::clone(&self.arena);
        let Some(lease) = LinkQueuePair::lease(&arena, qpn) else { return };
        let Some(_guard) = arena.leases[lease].lock_patiently(self.me()) else { return };
        if let Some(mut queue_pair) = LinkQueuePair::from_snapshot(&arena, qpn) {
            work(self, &mut queue_pair);
            queue_pair.save_snapshot(&arena, &mut self.scratch);
        }
    }

    /// The process's index.
    fn me(&self) -> usize {
        (self.entry().proc.load(Relaxed) as usize).wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    use soft_hca_roce::wire::bth::Psn;
    use soft_hca_roce::wire::opcode::{Operation, SendEnd, Service};
    use soft_hca_roce::wire::packet::{Headers, PORT};

    use super::*;
    use crate::arena::{HEAP_START, qpn};
    use crate::engine::{Async, Env, LocalCopier};
    use crate::port::packets::tests::sealed;
    use crate::port::snapshot::tests::give_room;
    use crate::port::{Path, SLOT_BYTES, SLOTS};
    use crate::uapi::verbs::qp_type;

    const OWN: usize = 1;
    const OTHER: usize = 2;
    const ME: usize = 5;
    const SOMEBODY: usize = 6;

    /// Queue pairs at which the link's thread is to look.
    #[derive(Default)]
    struct Looks(Mutex<Vec<u32>>);

    impl Env for Looks {
        fn now_ns(&self) -> u64 {
            system::now_ns()
        }
        fn wake_channel(&self, _: u32, _: u32) {}
        fn reschedule(&self, _: u32, _: u64) {}
        fn raise(&self, _: Async) {}
        fn link_looks(&self, qpn: u32) {
            self.0.lock().unwrap().push(qpn);
        }
    }

    /// A connected queue pair of a lease, which has come to RTR.
    fn connect(arena: &Mapping, lease: usize, path: Path) -> Qpn {
        let index = lease * PORT_LEASE_QPS;
        let (qp, number) = (&arena.qps[index], qpn(index, 0, 0));
        let place = HEAP_START + lease * SLOTS * SLOT_BYTES;
        give_room(qp, place);
        for (field, value) in
            [(&qp.qp_type, qp_type::RC), (&qp.path_mtu, 3), (&qp.dest_qpn, 17), (&qp.live, number)]
        {
            field.store(value, Release);
        }
        let number = Qpn::new(number);
        LinkQueuePair::new(qp, number, path).unwrap().save_snapshot(arena, &mut Scratch::default());
        number
    }

    /// A lease of this process's with a queue pair that is connected between these addresses, and without sockets.
    fn lease_with_one(arena: &Arc<Mapping>, addresses: [&str; 2]) -> (Qpn, Running) {
        let [own, peer] = addresses.map(|text| text.parse().unwrap());
        let number = connect(arena, OWN, Path::new(own, peer));
        arena.leases[OWN].proc.store(ME as u32 + 1, Release);
        (number, Running::new(Arc::clone(arena), OWN, Vec::new()))
    }

    /// A packet from the path's peer.
    fn send(to: Qpn, path: Path) {
        let socket = UdpSocket::bind((path.peer, 0)).unwrap();
        let operation = Operation::SendOnly(SendEnd::Plain);
        let headers = Headers::new(Service::Rc, operation, to, Psn::new(0));
        let own = SocketAddr::from((path.own, PORT));
        socket.send_to(&sealed(&headers, socket.local_addr().unwrap(), own), own).unwrap();
    }

    #[test]
    fn packets_of_other_leases_are_taken_under_their_lock() {
        let arena = Arc::new(Mapping::create().unwrap());
        let [own, peer] = ["127.7.93.1", "127.7.93.2"].map(|text| text.parse().unwrap());
        let path = Path::new(own, peer);
        let of_other = connect(&arena, OTHER, path);
        let lease = &arena.leases[OWN];
        lease.proc.store(ME as u32 + 1, Release);
        lease.runner.store(runner::PROCESS, Release);
        let socket = Socket::bind(own, 0, false).unwrap();
        let mut running = Running::new(Arc::clone(&arena), OWN, vec![socket]);
        running.in_use = 1;
        let (env, copier) = (Looks::default(), LocalCopier::default());
        let actor = Actor { arena: &arena, me: ME, env: &env, copier: &copier };
        let version = || arena.qps[OTHER * PORT_LEASE_QPS].snapshot_version.load(Acquire);
        let mut poll_until = |is_done: &dyn Fn() -> bool| {
            let began = Instant::now();
            while !is_done() {
                assert!(began.elapsed() < Duration::from_secs(60));
                running.poll(&actor);
            }
        };

        let before = version();
        let somebodys = arena.leases[OTHER].lock.lock(SOMEBODY, || {});
        send(of_other, path);
        poll_until(&|| arena.port_counters.dropped(DropReason::QueuePair) == 1);
        assert_eq!(version(), before);
        drop(somebodys);
        send(of_other, path);
        poll_until(&|| version() != before);
        assert_eq!(arena.leases[OTHER].lock.owner(), None);
        assert_eq!(env.0.lock().unwrap()[..], [of_other.get()]);
        assert!(running.qps.is_empty() && running.dirty.is_empty(), "it is not to be served here");
    }

    #[test]
    fn nobody_takes_packets_while_others_have_some_in_hand() {
        let arena = Arc::new(Mapping::create().unwrap());
        let [own, peer] = ["127.7.96.1", "127.7.96.2"].map(|text| text.parse().unwrap());
        let path = Path::new(own, peer);
        let number = connect(&arena, OWN, path);
        let lease = &arena.leases[OWN];
        lease.proc.store(ME as u32 + 1, Release);
        lease.runner.store(runner::PROCESS, Release);
        let socket = Socket::bind(own, 0, false).unwrap();
        let mut running = Running::new(Arc::clone(&arena), OWN, vec![socket]);
        running.in_use = 1;
        let (env, copier) = (Looks::default(), LocalCopier::default());
        let actor = Actor { arena: &arena, me: ME, env: &env, copier: &copier };
        let version = || arena.qps[OWN * PORT_LEASE_QPS].snapshot_version.load(Acquire);
        let has_taken = |running: &mut Running| {
            let before = version();
            running.poll(&actor);
            version() != before
        };
        let wait_for_packet = |running: &Running| {
            let began = Instant::now();
            while running.port.sockets[0].as_udp().peek(&mut [0]).is_err() {
                assert!(began.elapsed() < Duration::from_secs(60));
                std::thread::yield_now();
            }
        };
        assert!(lease.take_in_hand(SOMEBODY));
        send(number, path);
        wait_for_packet(&running);
        assert!(!has_taken(&mut running) && !running.posted(&actor, &[number.get()]));
        lease.put_down(SOMEBODY);
        assert!(has_taken(&mut running));
        assert_eq!(lease.in_hand.owner(), None);
        // The lease was taken back before it began.
        send(number, path);
        wait_for_packet(&running);
        lease.runner.store(runner::DAEMON, Release);
        assert!(!running.begin(PortLease::take_in_hand) && lease.in_hand.owner().is_none());
        lease.runner.store(runner::PROCESS, Release);
        assert!(has_taken(&mut running));
    }

    #[test]
    fn what_is_done_when_the_lease_was_taken_back_is_told() {
        let arena = Arc::new(Mapping::create().unwrap());
        let (number, mut running) = lease_with_one(&arena, ["127.7.95.1", "127.7.95.2"]);
        let lease = &arena.leases[OWN];
        let (env, copier) = (Looks::default(), LocalCopier::default());
        let actor = Actor { arena: &arena, me: ME, env: &env, copier: &copier };
        let told = || std::mem::take(&mut *env.0.lock().unwrap());
        (1..EMPTY_POLLS).for_each(|_| assert!(running.poll(&actor).is_none()));
        assert_eq!(told(), []);
        running.poll(&actor);
        assert_eq!(told(), [number.get()], "it has taken the lease");
        // The daemon takes it back while packets are in hand.
        assert!(running.begin(PortLease::take_in_hand));
        lease.runner.store(runner::DAEMON, Release);
        running.dirty.push(number);
        running.run(&actor);
        running.end();
        running.tell_if_taken_back(&actor);
        assert_eq!((told(), lease.in_hand.owner()), (vec![number.get()], None));
        assert!(!running.posted(&actor, &[number.get()]));
        running.poll(&actor);
        assert_eq!(told(), []);
    }

    #[test]
    fn what_others_have_changed_is_served() {
        let arena = Arc::new(Mapping::create().unwrap());
        let (number, mut running) = lease_with_one(&arena, ["127.7.94.1", "127.7.94.2"]);
        let lease = &arena.leases[OWN];
        let (env, copier) = (Looks::default(), LocalCopier::default());
        let actor = Actor { arena: &arena, me: ME, env: &env, copier: &copier };
        let began = Instant::now();
        while !running.is_ours() {
            assert!(began.elapsed() < Duration::from_secs(60));
            running.poll(&actor);
        }
        let qp = &arena.qps[OWN * PORT_LEASE_QPS];
        let served = qp.snapshot_version.load(Acquire);
        running.poll(&actor);
        assert_eq!(qp.snapshot_version.load(Acquire), served);
        let mut other = LinkQueuePair::from_snapshot(&arena, number).unwrap();
        other.begin_to_send(qp);
        other.save_snapshot(&arena, &mut Scratch::default());
        lease.has_changed.store(1, Release);
        running.poll(&actor);
        assert_eq!(qp.snapshot_version.load(Acquire), served + 2);
        assert_eq!(lease.has_changed.load(Acquire), 0);
        running.poll(&actor);
        assert_eq!(qp.snapshot_version.load(Acquire), served + 2);
    }
}
