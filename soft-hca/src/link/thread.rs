//! The link's thread: packets, doorbells, orders of the main loop, time.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::thread::JoinHandle;

use arrayvec::ArrayVec;
use soft_hca_roce::wire::bth::{MULTICAST_QPN, Psn};
use soft_hca_roce::wire::headers::Deth;
use soft_hca_roce::wire::ip;
use soft_hca_roce::wire::mad::{GSI_QKEY, GSI_QPN};
use soft_hca_roce::wire::opcode::{Operation, Service};
use soft_hca_roce::wire::packet::{Headers, MAX_BYTES};

use crate::arena::Mapping;
use crate::daemon::deadlines::Deadlines;
use crate::daemon::env::DaemonEnv;
use crate::daemon::poller::{Poller, Ready};
use crate::engine::{
    Actor, Async, DAEMON, DatagramReceiver, Env, Event, LINK, LinkPacket, LocalLink, RemoteDatagram,
};
use crate::link::counters::Drop as Reason;
use crate::link::handle::{Order, ReceivedMad, Shared};
use crate::link::path::Path;
use crate::link::port::{Arrived, Port, RUN, check};
use crate::link::queue_pair::QueuePair;
use crate::link::socket::{Datagram, Inbox, Socket};
use crate::link::spin::Spin;
use crate::system;
use crate::uapi::verbs::{qp_type, state};

/// The thread is seldom long at work, and programs that poll leave no processor idle.
const TIME_SLICE_NS: u64 = 100_000;
/// When a socket that was full is tried again.
const FULL_NS: u64 = 100_000;

/// What the data path asks of the link's thread.
#[derive(Debug)]
struct LinkEnv {
    daemon: Arc<DaemonEnv>,
    shared: Arc<Shared>,
    port: Port,
}

impl Env for LinkEnv {
    fn now_ns(&self) -> u64 {
        system::now_ns()
    }

    fn wake_channel(&self, channel: u32, generation: u32) {
        self.daemon.wake_channel(channel, generation);
    }

    fn kick_later(&self, qpn: u32, after_ns: u64) {
        self.daemon.kick_later(qpn, after_ns);
        self.shared.mads.ring();
    }

    fn raise(&self, what: Async) {
        self.daemon.raise(what);
        self.shared.mads.ring();
    }

    fn observe(&self, event: &Event<'_>) {
        self.daemon.observe(event);
    }

    fn ring_link(&self, qpn: u32) {
        self.shared.arena.ring_link(qpn);
    }

    fn send_datagram(&self, datagram: &RemoteDatagram<'_>) -> bool {
        if datagram.hop_limit == Some(0) {
            // For a group, but for none of other hosts.
            return true;
        }
        let path = Path {
            traffic_class: datagram.traffic_class,
            hop_limit: datagram.hop_limit,
            ..Path::new(ip::address(&datagram.sgid), ip::address(&datagram.dgid))
        };
        let deth = Deth { qkey: datagram.qkey, source_qpn: datagram.source_qpn };
        let headers = Headers {
            solicited: datagram.solicited,
            ..Headers::new(
                Service::Ud,
                Operation::Datagram(deth, datagram.immediate),
                datagram.dest_qpn,
                Psn::new(datagram.psn),
            )
        };
        let fill = |bytes: &mut [u8]| -> Result<(), std::convert::Infallible> {
            bytes.copy_from_slice(datagram.payload);
            Ok(())
        };
        let is_sent = self.port.send(&path, &headers, datagram.payload.len(), fill).is_some();
        if is_sent
            && datagram.source_qpn != GSI_QPN
            && self.shared.arena.observed.load(Relaxed) != 0
        {
            self.observe(&Event::Packet(LinkPacket {
                qpn: datagram.source_qpn,
                is_received: false,
                path: (path.own, path.peer),
                headers: &headers,
                length: datagram.payload.len() as u32,
                ignored: 0,
            }));
        }
        is_sent
    }

    fn is_there(&self, proc: usize) -> bool {
        proc == DAEMON || self.daemon.is_there(proc)
    }
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
        port: Port,
    ) -> io::Result<Self> {
        let mut poller = Poller::new()?;
        poller.add(shared.orders.bell.as_fd().as_raw_fd(), Ready::Link)?;
        for socket in &port.sockets {
            poller.add(socket.as_fd().as_raw_fd(), Ready::Link)?;
        }
        let env = LinkEnv { daemon, shared: Arc::clone(&shared), port };
        let link = Link {
            arena: Arc::clone(&shared.arena),
            env,
            memory: LocalLink::default(),
            poller,
            groups: Vec::new(),
            qps: HashMap::new(),
            dirty: BTreeSet::new(),
            deadlines: Deadlines::default(),
            spin: Spin::of_machine(),
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
    memory: LocalLink,
    poller: Poller,
    /// The sockets that hear groups.
    groups: Vec<Socket>,
    /// Connected queue pairs with a peer on another host, by number.
    qps: HashMap<u32, QueuePair>,
    /// Those that are to be served.
    dirty: BTreeSet<u32>,
    /// When queue pairs are to be served at the latest, or earlier.
    deadlines: Deadlines<u32>,
    spin: Spin,
    is_over: bool,
}

impl Link {
    fn run(mut self) {
        system::set_time_slice(TIME_SLICE_NS);
        let mut inbox = Inbox::new();
        while !self.is_over {
            self.take_orders();
            let has_received = self.receive(&mut inbox);
            let rung = self.arena.take_rung();
            if has_received || !rung.is_empty() {
                self.spin.traffic();
            }
            for qpn in rung {
                self.rung(qpn);
            }
            let has_more = self.serve();
            self.env.port.send_held();
            let is_sent = self.env.port.flush();
            if !has_received && !has_more && !self.is_over {
                self.sleep(is_sent);
            }
        }
    }

    /// Waits for a packet, a bell or the time; not for long unless everything `is_sent`. Programs that
    /// post meanwhile write to the bell only if the thread really sleeps.
    fn sleep(&mut self, is_sent: bool) {
        let full = (!is_sent).then(|| system::now_ns() + FULL_NS);
        let times = [self.deadlines.next(), full, self.env.port.tap.deadline()];
        let deadline = times.into_iter().flatten().min();
        let Self { spin, arena, poller, dirty, .. } = self;
        let is_found = || !dirty.is_empty() || arena.is_rung() || poller.is_ready();
        if spin.look(deadline, system::now_ns, is_found) {
            return;
        }
        self.env.port.tap.flush();
        self.arena.link_sleeps.store(1, SeqCst);
        if !self.arena.is_rung()
            && self.dirty.is_empty()
            && let Err(error) = self.poller.wait(deadline)
        {
            tracing::error!("the link cannot wait for packets: {error}");
            self.is_over = true;
        }
        self.arena.link_sleeps.store(0, SeqCst);
    }

    fn actor(&self) -> Actor<'_> {
        Actor { arena: &self.arena, me: LINK, env: &self.env, link: &self.memory }
    }

    fn take_orders(&mut self) {
        for order in self.env.shared.orders.take() {
            match order {
                Order::SendMad { from, to, mad } => self.send_mad(from, to, &mad[..]),
                Order::Ask { from, to } => self.env.port.send_nothing(from, to),
                Order::State { qpn, state, path } => self.set_state(qpn, state, path),
                Order::Hear(sockets) => self.hear(sockets),
                Order::Leave(group) => self.stop_hearing(group),
                Order::End => self.is_over = true,
            }
        }
    }

    fn hear(&mut self, sockets: Vec<Socket>) {
        for socket in sockets {
            match self.poller.add(socket.as_fd().as_raw_fd(), Ready::Link) {
                Ok(()) => self.groups.push(socket),
                Err(error) => {
                    tracing::warn!(group = %socket.address, "other hosts are not heard: {error}");
                }
            }
        }
    }

    fn stop_hearing(&mut self, group: IpAddr) {
        let poller = &mut self.poller;
        self.groups.retain(|socket| {
            let stays = socket.address != group;
            if !stays {
                poller.remove(socket.as_fd().as_raw_fd());
            }
            stays
        });
    }

    /// The sockets of own addresses, and those of groups behind them.
    fn socket(&self, index: usize) -> Option<&Socket> {
        self.env.port.sockets.iter().chain(&self.groups).nth(index)
    }

    fn send_mad(&self, from: IpAddr, to: IpAddr, mad: &[u8]) {
        self.env.send_datagram(&RemoteDatagram {
            sgid: ip::gid(from),
            dgid: ip::gid(to),
            traffic_class: 0,
            hop_limit: None,
            dest_qpn: GSI_QPN,
            qkey: GSI_QKEY,
            source_qpn: GSI_QPN,
            psn: 0,
            immediate: None,
            solicited: false,
            payload: mad,
        });
    }

    /// A queue pair whose peer is on another host has come to a state.
    fn set_state(&mut self, qpn: u32, to: u32, path: Path) {
        match (to, self.arena.qp(qpn)) {
            (state::RTR, Some(qp)) => {
                if let Some(new) = QueuePair::new(qp, qpn, path) {
                    self.qps.insert(qpn, new);
                }
            }
            (state::RTS | state::SQD, Some(qp)) => {
                if let Some(known) = self.qps.get_mut(&qpn) {
                    known.path = path;
                    known.begin_to_send(qp);
                    self.dirty.insert(qpn);
                }
            }
            _ => {
                self.qps.remove(&qpn);
                self.dirty.remove(&qpn);
            }
        }
    }

    /// A program has posted.
    fn rung(&mut self, qpn: u32) {
        if self.qps.contains_key(&qpn) {
            self.dirty.insert(qpn);
        } else if self.arena.qp(qpn).is_some_and(|qp| qp.qp_type.load(Acquire) == qp_type::UD) {
            self.actor().run_send_queue(qpn);
        } else if self.arena.qp(qpn).is_some() {
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
            match self.qps.get(&qpn).and_then(QueuePair::deadline) {
                Some(at) if at > now => self.deadlines.add(qpn, at),
                Some(_) => {
                    self.dirty.insert(qpn);
                }
                None => {}
            }
        }
        let dirty = std::mem::take(&mut self.dirty);
        for qpn in dirty {
            let Some(mut qp) = self.qps.remove(&qpn) else { continue };
            if qp.serve(self.actor(), now, &self.env.port) {
                self.dirty.insert(qpn);
            }
            if let Some(at) = qp.deadline() {
                self.deadlines.add(qpn, at);
            }
            self.qps.insert(qpn, qp);
        }
        !self.dirty.is_empty()
    }

    /// Takes packets from all sockets. Whether there were any, so that there may be more.
    fn receive(&mut self, inbox: &mut Inbox) -> bool {
        let mut has_received = false;
        for index in 0..self.env.port.sockets.len() + self.groups.len() {
            let Some(socket) = self.socket(index) else { break };
            let own = socket.address;
            let Ok(messages) = socket.receive(inbox) else { continue };
            has_received |= messages > 0;
            // A message of a queue pair may come in several of the socket's.
            let mut packets = (0..messages).flat_map(|at| inbox.packets(at)).peekable();
            while packets.peek().is_some() {
                let mut arrived = ArrayVec::<_, RUN>::new();
                for (datagram, bytes) in packets.by_ref().take(RUN) {
                    if !self.env.port.heard(own, &datagram, bytes) {
                        arrived.extend(self.check(own, &datagram, bytes));
                    }
                }
                self.take(&arrived);
            }
        }
        let mut buffer = [0; MAX_BYTES];
        while let Some((own, datagram)) = self.env.port.tap.next_received(&mut buffer) {
            let arrived = self.check(own, &datagram, &buffer);
            self.take(arrived.as_slice());
        }
        has_received
    }

    /// Checks a packet that has come to an own address, and counts a bad one.
    fn check<'p>(&self, own: IpAddr, datagram: &Datagram, bytes: &'p [u8]) -> Option<Arrived<'p>> {
        let from = datagram.from.ip().to_canonical();
        check(own, datagram, bytes).map_err(|reason| self.dropped(from, reason)).ok()
    }

    fn dropped(&self, from: IpAddr, reason: Reason) {
        self.env.port.counters.count(reason);
        tracing::debug!(%from, ?reason, "a packet is dropped");
    }

    /// Takes packets that have come together.
    fn take(&mut self, arrived: &[Arrived<'_>]) {
        for run in arrived.chunk_by(goes_with) {
            self.is_received(run);
            if let (Err(reason), Some(first)) = (self.arrived(run), run.first()) {
                run.iter().for_each(|_| self.dropped(first.path.1, reason));
            }
        }
    }

    /// Has packets pass by that have come, those of queue pairs of programs.
    fn is_received(&self, run: &[Arrived<'_>]) {
        for Arrived { path: (own, from), packet, .. } in run {
            let headers = &packet.headers;
            let qpn = headers.dest_qpn;
            if qpn == GSI_QPN {
                continue;
            }
            self.actor().observe(|| {
                let known = self.qps.get(&qpn).map(|known| (known.path.own, known.path.peer));
                let ignored = match headers.service {
                    Service::Rc | Service::Uc if known.is_none() => 1,
                    Service::Rc | Service::Uc if known != Some((*own, *from)) => 2,
                    _ => 0,
                };
                let length = packet.payload.len() as u32;
                let path = (*from, *own);
                Event::Packet(LinkPacket { qpn, is_received: true, path, headers, length, ignored })
            });
        }
    }

    /// Packets of one service for one queue pair, either all responses or none; of datagrams one.
    fn arrived(&mut self, run: &[Arrived<'_>]) -> Result<(), Reason> {
        let Some(Arrived { path: (own, from), ip: header, packet }) = run.first() else {
            return Ok(());
        };
        let headers = &packet.headers;
        let qpn = headers.dest_qpn;
        let is_own = || self.env.port.sockets.iter().any(|socket| socket.address == *from);
        let is_echo = || is_own() && !self.env.shared.is_always;
        if own.is_multicast() && is_echo() {
            return Err(Reason::Address);
        }
        if own.is_multicast() != (qpn == MULTICAST_QPN) {
            return Err(Reason::QueuePair);
        }
        match (headers.service, headers.operation) {
            (Service::Ud, Operation::Datagram(deth, _)) if qpn == GSI_QPN => {
                let mad = packet.payload.try_into().map_err(|_| Reason::Malformed)?;
                if deth.qkey != GSI_QKEY {
                    return Err(Reason::QueuePair);
                }
                self.env.shared.mads.put(ReceivedMad { from: *from, to: *own, mad });
                Ok(())
            }
            (Service::Ud, Operation::Datagram(deth, immediate)) => {
                let receiver = match qpn {
                    MULTICAST_QPN => DatagramReceiver::Group(ip::gid(*own)),
                    _ => DatagramReceiver::QueuePair(qpn),
                };
                let is_taken = self.actor().deliver_remote(
                    &header.grh(),
                    packet.payload,
                    receiver,
                    (deth.qkey, deth.source_qpn),
                    immediate,
                    headers.solicited,
                );
                if is_taken { Ok(()) } else { Err(Reason::QueuePair) }
            }
            (service, _) => {
                if !self.qps.contains_key(&qpn) {
                    // Its state may be among the orders.
                    self.take_orders();
                }
                let known = self.qps.get(&qpn).filter(|known| known.has(service));
                let known = known.ok_or(Reason::QueuePair)?;
                if (known.path.own, known.path.peer) != (*own, *from) {
                    return Err(Reason::Address);
                }
                if let Some(mut known) = self.qps.remove(&qpn) {
                    let packets: ArrayVec<_, RUN> =
                        run.iter().take(RUN).map(|arrived| arrived.packet).collect();
                    known.hear(self.actor(), system::now_ns(), &packets);
                    self.qps.insert(qpn, known);
                    self.dirty.insert(qpn);
                }
                Ok(())
            }
        }
    }
}

/// Whether a packet is looked at together with the one before.
fn goes_with(before: &Arrived<'_>, packet: &Arrived<'_>) -> bool {
    let (before, packet) = (&before.packet.headers, &packet.packet.headers);
    packet.service == before.service
        && packet.service != Service::Ud
        && packet.dest_qpn == before.dest_qpn
        && packet.operation.is_response() == before.operation.is_response()
}
