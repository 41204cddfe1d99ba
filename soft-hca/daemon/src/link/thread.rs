//! The link's thread: packets, doorbells, orders of the main loop, time.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::JoinHandle;

use arrayvec::ArrayVec;
use soft_hca_core::arena::Mapping;
use soft_hca_core::arena::port_counters::DropReason;
use soft_hca_core::engine::{Actor, DatagramReceiver, Env, LINK, LocalCopier, RemoteDatagram};
use soft_hca_core::port::packets::Tap as _;
use soft_hca_core::port::packets::{Arrived, RUN, goes_with, trace_arrived};
use soft_hca_core::port::socket::{Inbox, Socket};
use soft_hca_core::port::{LinkPort, LinkQueuePair};
use soft_hca_core::port::{Path, Scratch};
use soft_hca_core::system;
use soft_hca_core::uapi::verbs::{qp_type, state};
use soft_hca_roce::wire::bth::{MULTICAST_QPN, Qpn};
use soft_hca_roce::wire::ip;
use soft_hca_roce::wire::mad::{GSI_QKEY, GSI_QPN};
use soft_hca_roce::wire::opcode::{Operation, Service};
use soft_hca_roce::wire::packet::MAX_BYTES;

use crate::env::DaemonEnv;
use crate::link::env::LinkEnv;
use crate::link::handle::{Order, ReceivedMad, Shared};
use crate::link::mads::WaitingMads;
use crate::link::spin::Spin;
use crate::link::tap::Tap;
use crate::link::watch::Watch;
use crate::poller::{Poller, is_readable};
use soft_hca_core::deadlines::Deadlines;

/// The thread is seldom long at work, and programs that poll leave no processor idle.
const TIME_SLICE_NS: u64 = 100_000;
/// When a socket that was full is tried again.
const FULL_NS: u64 = 100_000;
/// When a queue pair is tried again that its process had.
const BUSY_NS: u64 = 100_000;
/// How often a socket is read, at most, to have the packets that were in it.
const RECEIVES: usize = 64;
/// A time that has come.
const NOW: Option<u64> = Some(0);

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    /// There are orders, or a program has posted.
    Doorbell,
    /// The socket with this descriptor has packets.
    Packets(RawFd),
}

/// The thread, which ends with this value.
#[derive(Debug)]
pub(crate) struct Thread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    pub(super) fn start(
        shared: Arc<Shared>,
        daemon: Arc<DaemonEnv>,
        copier: LocalCopier,
        port: LinkPort<Tap>,
    ) -> io::Result<Self> {
        let mut poller = Poller::new()?;
        poller.add(&shared.orders.doorbell, Ready::Doorbell)?;
        for socket in port.sockets.iter().chain(shared.leases.iter().flatten()) {
            poller.add(socket, Ready::Packets(socket.as_fd().as_raw_fd()))?;
        }
        let of_leases = shared.leases.iter().zip(1..).flat_map(|(sockets, lease)| {
            sockets
                .iter()
                .zip(0..)
                .map(move |(socket, at)| (socket.as_fd().as_raw_fd(), (lease, at)))
        });
        let of_leases = of_leases.collect();
        let env = LinkEnv { daemon, shared: Arc::clone(&shared), port };
        let link = Link {
            arena: Arc::clone(&shared.arena),
            env,
            copier,
            poller,
            groups: Vec::new(),
            of_leases,
            watch: Watch::default(),
            scratch: Scratch::default(),
            later: Vec::new(),
            in_hand: Vec::new(),
            mads: WaitingMads::default(),
            qps: HashMap::new(),
            dirty: BTreeSet::new(),
            deadlines: Deadlines::default(),
            spin: Spin::of_machine(),
            is_full: false,
            is_over: false,
        };
        let thread = std::thread::Builder::new().name("link".into()).spawn(move || link.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.shared.orders.put(Order::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's own.
struct Link {
    arena: Arc<Mapping>,
    env: LinkEnv,
    copier: LocalCopier,
    poller: Poller<Ready>,
    /// The sockets that hear groups.
    groups: Vec<Socket>,
    /// The descriptors of leases' sockets: which lease, and which of its sockets.
    of_leases: HashMap<RawFd, (usize, usize)>,
    watch: Watch,
    scratch: Scratch,
    /// Queue pairs that have come to a state while their process had them.
    later: Vec<(Qpn, u32, Path)>,
    /// Port leases of which it has packets in hand.
    in_hand: Vec<usize>,
    /// Management datagrams for the main loop.
    mads: WaitingMads,
    /// Connected queue pairs with a peer on another host, by number.
    qps: HashMap<Qpn, LinkQueuePair>,
    /// Those that are to be served.
    dirty: BTreeSet<Qpn>,
    /// When queue pairs are to be served at the latest, or earlier.
    deadlines: Deadlines<Qpn>,
    spin: Spin,
    /// A socket had no room for all that was to be sent.
    is_full: bool,
    is_over: bool,
}

impl Link {
    fn run(mut self) {
        system::set_time_slice(TIME_SLICE_NS);
        let mut inbox = Inbox::new();
        let mut has_more = true;
        while !self.is_over {
            let mut ready = if has_more { self.look(NOW) } else { self.sleep() };
            // Packets of a connection have come before what ends it, which is the port's own.
            ready.sort_by_key(|what| !self.is_of_lease(*what));
            let mut has_received = false;
            for what in ready {
                match what {
                    Ready::Packets(fd) => {
                        has_received = true;
                        self.receive(fd, &mut inbox);
                    }
                    Ready::Doorbell => self.take_orders(),
                }
            }
            self.receive_late();
            self.pass_mads(&mut inbox);
            self.take_back_leases();
            for (qpn, to, path) in std::mem::take(&mut self.later) {
                self.set_state(qpn, to, path);
            }
            let doorbells = self.arena.take_link_doorbells();
            if has_received || !doorbells.is_empty() {
                self.spin.traffic();
            }
            for qpn in doorbells {
                self.doorbell(Qpn::new(qpn));
            }
            // Another packet often follows one.
            has_more = self.serve() || has_received;
            self.env.port.send_held();
            self.flush();
        }
    }

    /// Descriptors that are ready now, or by a time.
    fn look(&mut self, until: Option<u64>) -> Vec<Ready> {
        self.poller.wait(until).unwrap_or_else(|error| {
            tracing::error!("the link cannot wait for packets: {error}");
            self.is_over = true;
            Vec::new()
        })
    }

    /// Waits for a packet, a doorbell or the time; not for long unless everything is sent. Programs
    /// that post meanwhile write to that only if the thread really sleeps.
    fn sleep(&mut self) -> Vec<Ready> {
        let full = self.is_full.then(|| system::now_ns() + FULL_NS);
        let later = (!self.later.is_empty()).then(|| system::now_ns() + BUSY_NS);
        let mads = (!self.mads.is_empty()).then(|| system::now_ns() + BUSY_NS);
        let tap = self.env.port.tap.deadline();
        let times = [self.deadlines.next(), full, tap, self.watch.deadline(), later, mads];
        let deadline = times.into_iter().flatten().min();
        let Self { spin, arena, poller, dirty, .. } = self;
        let is_found = || !dirty.is_empty() || arena.has_link_doorbells() || poller.is_ready();
        if spin.look(deadline, system::now_ns, is_found) {
            return self.look(NOW);
        }
        self.env.port.tap.flush();
        let may_sleep = self.arena.link_may_sleep(!self.dirty.is_empty());
        let ready = self.look(if may_sleep { deadline } else { NOW });
        self.arena.link_is_awake();
        ready
    }

    fn actor(&self) -> Actor<'_> {
        Actor { arena: &self.arena, me: LINK, env: &self.env, copier: &self.copier }
    }

    fn take_orders(&mut self) {
        for order in self.env.shared.orders.take() {
            match order {
                Order::SendMad { from, to, mad } => self.send_mad(from, to, &mad[..]),
                Order::Ask { from, to } => self.env.port.send_nothing(from, to),
                Order::State { qpn, state, path } => self.set_state(qpn, state, path),
                Order::JoinGroup(sockets) => self.join_group(sockets),
                Order::LeaveGroup(group) => self.leave_group(group),
                Order::End => self.is_over = true,
            }
        }
    }

    fn join_group(&mut self, sockets: Vec<Socket>) {
        for socket in sockets {
            match self.poller.add(&socket, Ready::Packets(socket.as_fd().as_raw_fd())) {
                Ok(()) => self.groups.push(socket),
                Err(error) => {
                    tracing::warn!(group = %socket.address, "other hosts are not heard: {error}");
                }
            }
        }
    }

    fn leave_group(&mut self, group: IpAddr) {
        let poller = &mut self.poller;
        self.groups.retain(|socket| {
            let stays = socket.address != group;
            if !stays {
                poller.remove(socket);
            }
            stays
        });
    }

    /// The socket of an own address or of a group with this descriptor.
    fn socket(&self, fd: RawFd) -> Option<&Socket> {
        if let Some((lease, at)) = self.of_leases.get(&fd) {
            return self.env.shared.leases.get(lease - 1)?.get(*at);
        }
        let mut sockets = self.env.port.sockets.iter().chain(&self.groups);
        sockets.find(|socket| socket.as_fd().as_raw_fd() == fd)
    }

    fn send_mad(&self, from: IpAddr, to: IpAddr, mad: &[u8]) {
        self.env.send_datagram(&RemoteDatagram {
            sgid: ip::gid(from),
            dgid: ip::gid(to),
            traffic_class: 0,
            hop_limit: None,
            dest_qpn: GSI_QPN.get(),
            qkey: GSI_QKEY,
            source_qpn: GSI_QPN.get(),
            psn: 0,
            immediate: None,
            solicited: false,
            payload: mad,
        });
    }

    /// A queue pair whose peer is on another host has come to a state.
    fn set_state(&mut self, qpn: Qpn, to: u32, path: Path) {
        match (to, self.arena.qp(qpn.get())) {
            (state::RTR, Some(qp)) => {
                // One that is there already was only not kept: it may have come to RTS since.
                if let Entry::Vacant(entry) = self.qps.entry(qpn) {
                    let Some(new) = LinkQueuePair::new(qp, qpn, path) else { return };
                    entry.insert(new);
                }
                let kept = self.with(qpn, |_, _| {});
                if kept.is_none() {
                    self.later.push((qpn, to, path));
                }
            }
            (state::RTS | state::SQD, Some(_)) => {
                let is_known = self.qps.contains_key(&qpn);
                let begun = self.with(qpn, |link, queue_pair| {
                    queue_pair.path = path;
                    if let Some(qp) = link.arena.qp(qpn.get()) {
                        queue_pair.begin_to_send(qp);
                    }
                });
                match begun {
                    Some(()) => drop(self.dirty.insert(qpn)),
                    None if is_known => self.later.push((qpn, to, path)),
                    None => {}
                }
            }
            _ => {
                // The program may have found what came just now, and its peer is to know. An adapter
                // acknowledges it before that.
                self.with(qpn, |link, queue_pair| {
                    queue_pair.answer(link.actor(), &link.env.port);
                });
                self.arena.qp(qpn.get()).into_iter().for_each(LinkQueuePair::forget);
                self.qps.remove(&qpn);
                self.dirty.remove(&qpn);
                self.later.retain(|(other, ..)| *other != qpn);
            }
        }
    }

    /// A program has posted.
    fn doorbell(&mut self, qpn: Qpn) {
        if self.qps.contains_key(&qpn) {
            self.dirty.insert(qpn);
        } else if self.arena.qp(qpn.get()).is_some_and(|qp| qp.qp_type.load(Acquire) == qp_type::UD)
        {
            self.actor().run_send_queue(qpn.get());
        } else if self.arena.qp(qpn.get()).is_some() {
            // Its state may be among the orders.
            self.take_orders();
            if self.qps.contains_key(&qpn) {
                self.dirty.insert(qpn);
            }
        }
    }

    /// Serves the queue pairs that have something to do. Whether any has more.
    fn serve(&mut self) -> bool {
        let now = system::now_ns();
        for qpn in self.deadlines.due(now) {
            // It may have become later, or be over.
            match self.qps.get(&qpn).and_then(LinkQueuePair::deadline) {
                Some(at) if at > now => self.deadlines.add(qpn, at),
                Some(_) => {
                    self.dirty.insert(qpn);
                }
                None => {}
            }
        }
        let dirty = std::mem::take(&mut self.dirty);
        for qpn in dirty {
            if !self.qps.contains_key(&qpn) {
                continue;
            }
            if let Some(lease) = self.run_by_process(qpn, now) {
                // It may know nothing of what is to be done: of a state to which the queue pair has come, or of
                // packets that were taken here.
                self.arena.leases[lease].has_changed.store(1, Release);
                continue;
            }
            let lease = LinkQueuePair::lease(&self.arena, qpn);
            let mut served = None;
            if lease.is_none_or(|lease| self.take_in_hand(lease)) {
                served = self.with(qpn, |link, qp| {
                    let has_more = qp.serve(link.actor(), now, &link.env.port);
                    (has_more, qp.deadline())
                });
            }
            let (has_more, deadline) = served.unwrap_or((false, Some(now + BUSY_NS)));
            if has_more {
                self.dirty.insert(qpn);
            }
            if let Some(at) = deadline {
                self.deadlines.add(qpn, at);
            }
        }
        !self.dirty.is_empty()
    }

    /// The queue pair's lease, if its process runs that.
    fn run_by_process(&mut self, qpn: Qpn, now: u64) -> Option<usize> {
        let lease = LinkQueuePair::lease(&self.arena, qpn)?;
        self.watch.is_away(&self.arena, lease, now).then_some(lease)
    }

    /// Handles packets of a lease until all are sent. False while its process has some in hand.
    fn take_in_hand(&mut self, lease: usize) -> bool {
        let is_taken = self.arena.leases[lease].take_in_hand(LINK);
        if is_taken && !self.in_hand.contains(&lease) {
            self.in_hand.push(lease);
        }
        is_taken
    }

    /// Sends what waits.
    fn flush(&mut self) {
        self.is_full = !self.env.port.flush();
        if !self.is_full {
            self.in_hand.drain(..).for_each(|lease| self.arena.leases[lease].put_down(LINK));
        }
    }

    /// Does something with a queue pair that nobody else has meanwhile. `None` if its process has it at
    /// the moment, or it is gone.
    fn with<T>(
        &mut self,
        qpn: Qpn,
        work: impl FnOnce(&Self, &mut LinkQueuePair) -> T,
    ) -> Option<T> {
        let mut queue_pair = self.qps.remove(&qpn)?;
        let Some(lease) = LinkQueuePair::lease(&self.arena, qpn) else {
            let done = work(self, &mut queue_pair);
            self.qps.insert(qpn, queue_pair);
            return Some(done);
        };
        let arena = Arc::clone(&self.arena);
        let Some(_guard) = arena.leases[lease].lock_patiently(LINK) else {
            self.qps.insert(qpn, queue_pair);
            return None;
        };
        // Of one that has just been made nothing newer is kept.
        if !queue_pair.refresh(&arena) {
            return None;
        }
        let done = work(self, &mut queue_pair);
        queue_pair.save_snapshot(&arena, &mut self.scratch);
        self.qps.insert(qpn, queue_pair);
        Some(done)
    }

    /// Runs the leases again whose processes do not, or no longer.
    fn take_back_leases(&mut self) {
        let now = system::now_ns();
        for lease in self.watch.returned(&self.arena, now) {
            let mut have_waited = false;
            let shared = Arc::clone(&self.env.shared);
            for socket in shared.leases.get(lease - 1).into_iter().flatten() {
                have_waited |= is_readable(socket);
                let name = Ready::Packets(socket.as_fd().as_raw_fd());
                // They are still there if no packet has come meanwhile.
                self.poller.remove(socket);
                if let Err(error) = self.poller.add(socket, name) {
                    tracing::error!("a lease of the port is lost: {error}");
                }
            }
            if have_waited {
                self.watch.has_let_wait(&self.arena, lease, now);
            }
            let is_of_lease = |qpn: &&Qpn| LinkQueuePair::lease(&self.arena, **qpn) == Some(lease);
            self.dirty.extend(self.qps.keys().filter(is_of_lease));
        }
    }

    /// Looks no more at the sockets of a lease that its process runs.
    fn leave_lease(&mut self, lease: usize) {
        for socket in self.env.shared.leases.get(lease - 1).into_iter().flatten() {
            self.poller.remove(socket);
        }
    }

    fn is_of_lease(&self, what: Ready) -> bool {
        matches!(what, Ready::Packets(fd) if self.of_leases.contains_key(&fd))
    }

    /// Takes packets from a socket; there may be more.
    fn receive(&mut self, fd: RawFd, inbox: &mut Inbox) {
        match self.of_leases.get(&fd) {
            Some(&(lease, _)) if self.watch.is_away(&self.arena, lease, system::now_ns()) => {
                return self.leave_lease(lease);
            }
            _ => {}
        }
        self.receive_from(fd, inbox);
    }

    /// Gives management datagrams to the main loop, after the packets that have come before them.
    fn pass_mads(&mut self, inbox: &mut Inbox) {
        if self.mads.is_empty() {
            return;
        }
        let are_handled = self.receive_of_leases(inbox);
        for mad in self.mads.take(are_handled, system::now_ns()) {
            self.env.shared.mads.put(mad);
        }
    }

    /// Handles the packets that have come to leases. False if processes have some in hand still.
    fn receive_of_leases(&mut self, inbox: &mut Inbox) -> bool {
        let shared = Arc::clone(&self.env.shared);
        let mut are_handled = true;
        for (sockets, lease) in shared.leases.iter().zip(1..) {
            if self.arena.leases[lease].is_in_use.load(Acquire) == 0 {
                continue;
            }
            // A process that polls has it in hand most of the time, and several do so at different ones.
            if !self.arena.leases[lease].take_in_hand_patiently(LINK) || !self.take_in_hand(lease) {
                are_handled = false;
                continue;
            }
            for socket in sockets {
                let receives = (0..RECEIVES).take_while(|_| is_readable(socket));
                receives.for_each(|_| self.receive_from(socket.as_fd().as_raw_fd(), inbox));
            }
        }
        are_handled
    }

    fn receive_from(&mut self, fd: RawFd, inbox: &mut Inbox) {
        let lease = self.of_leases.get(&fd).map(|(lease, _)| *lease);
        if lease.is_some_and(|lease| !self.take_in_hand(lease)) {
            return;
        }
        // A group may have been left meanwhile.
        let Some(socket) = self.socket(fd) else { return };
        let own = socket.address;
        let Ok(messages) = socket.receive(inbox) else { return };
        // A message of a queue pair may come in several of the socket's.
        let mut packets = (0..messages).flat_map(|at| inbox.packets(at)).peekable();
        let mut arrived = ArrayVec::new();
        while packets.peek().is_some() {
            self.env.port.take(own, packets.by_ref(), &mut arrived);
            self.take(&arrived);
        }
    }

    /// Takes packets that were held back on purpose until now.
    fn receive_late(&mut self) {
        if !self.env.port.tap.is_on() {
            return;
        }
        let mut buffer = [0; MAX_BYTES];
        while let Some((own, datagram)) = self.env.port.tap.next_received(&mut buffer) {
            let arrived = self.env.port.check(own, &datagram, &buffer);
            self.take(arrived.as_slice());
        }
    }

    /// Takes packets that have come together.
    fn take(&mut self, arrived: &[Arrived<'_>]) {
        for run in arrived.chunk_by(goes_with) {
            if let Some(first) = run.first() {
                let known = self.qps.get(&first.packet.headers.dest_qpn);
                let ends = known.map(|queue_pair| (queue_pair.path.own, queue_pair.path.peer));
                trace_arrived(&self.actor(), run, ends);
            }
            if let (Err(reason), Some(first)) = (self.arrived(run), run.first()) {
                run.iter().for_each(|_| self.env.port.count_drop(first.path.1, reason));
            }
        }
    }

    /// Packets of one service for one queue pair; of datagrams one.
    fn arrived(&mut self, run: &[Arrived<'_>]) -> Result<(), DropReason> {
        let Some(Arrived { path: (own, from), ip: header, packet }) = run.first() else {
            return Ok(());
        };
        let headers = &packet.headers;
        let qpn = headers.dest_qpn;
        let is_own = || self.env.port.sockets.iter().any(|socket| socket.address == *from);
        let is_echo = || is_own() && !self.env.shared.is_always;
        if own.is_multicast() && is_echo() {
            return Err(DropReason::Address);
        }
        if own.is_multicast() != (qpn == MULTICAST_QPN) {
            return Err(DropReason::QueuePair);
        }
        match (headers.service, headers.operation) {
            (Service::Ud, Operation::Datagram(deth, _)) if qpn == GSI_QPN => {
                let mad = packet.payload.try_into().map_err(|_| DropReason::Malformed)?;
                if deth.qkey != GSI_QKEY {
                    return Err(DropReason::QueuePair);
                }
                self.mads.push(ReceivedMad { from: *from, to: *own, mad }, system::now_ns());
                Ok(())
            }
            (Service::Ud, Operation::Datagram(deth, immediate)) => {
                let receiver = match qpn {
                    MULTICAST_QPN => DatagramReceiver::Group(ip::gid(*own)),
                    _ => DatagramReceiver::QueuePair(qpn.get()),
                };
                let is_taken = self.actor().deliver_remote(
                    &header.grh(),
                    packet.payload,
                    receiver,
                    (deth.qkey, deth.source_qpn.get()),
                    immediate,
                    headers.solicited,
                );
                if is_taken { Ok(()) } else { Err(DropReason::QueuePair) }
            }
            (service, _) => {
                if !self.qps.contains_key(&qpn) {
                    // Its state may be among the orders.
                    self.take_orders();
                }
                let queue_pair = self.qps.get(&qpn).filter(|queue_pair| queue_pair.has(service));
                let queue_pair = queue_pair.ok_or(DropReason::QueuePair)?;
                if (queue_pair.path.own, queue_pair.path.peer) != (*own, *from) {
                    return Err(DropReason::Address);
                }
                let mut packets = ArrayVec::<_, RUN>::new();
                packets.extend(run.iter().take(RUN).map(|arrived| arrived.packet));
                // Where its process has it, they count as lost.
                self.with(qpn, |link, queue_pair| {
                    queue_pair.receive(link.actor(), system::now_ns(), &packets, &link.env.port);
                });
                self.dirty.insert(qpn);
                Ok(())
            }
        }
    }
}
