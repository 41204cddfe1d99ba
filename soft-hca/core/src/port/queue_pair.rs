//! A connected queue pair whose peer is on another host: how its transport uses the engine and the
//! port.

use std::sync::atomic::Ordering::Acquire;

use crate::arena::Qp;
use crate::engine::remote::{Arriving, RemoteSends, RemoteTarget, Sending};
use crate::engine::{Actor, trace_packet};
use crate::trace::event;
use crate::uapi::verbs::{qp_type, state};
use soft_hca_roce::transport::attributes::{Attributes, Mtu};
use soft_hca_roce::transport::packet_sender::Busy;
use soft_hca_roce::transport::{packet_sender, queue_pair};
use soft_hca_roce::wire::bth::{Psn, Qpn};
use soft_hca_roce::wire::opcode::{Operation, Service};
use soft_hca_roce::wire::packet::{Headers, Packet};

use crate::port::packets::{LinkPort, Tap};
use crate::port::path::Path;

/// Packets that are sent in a row before others have their turn.
const BURST: usize = 128;

/// A connected queue pair and what is under way.
#[derive(Debug)]
pub struct LinkQueuePair {
    pub(super) qpn: Qpn,
    pub(super) kind: u32,
    /// The way to the peer.
    pub path: Path,
    pub(super) transport: queue_pair::QueuePair,
    pub(super) sending: Sending,
    pub(super) arriving: Arriving,
    /// Of its snapshot in the arena.
    pub(super) version: u64,
}

fn attributes(qp: &Qp) -> Option<Attributes> {
    let byte = |field: &std::sync::atomic::AtomicU32| field.load(Acquire) as u8;
    Some(Attributes {
        dest_qpn: Qpn::new(qp.dest_qpn.load(Acquire)),
        mtu: Mtu::from_code(byte(&qp.path_mtu))?,
        sq_psn: Psn::new(qp.sq_psn.load(Acquire)),
        rq_psn: Psn::new(qp.rq_psn.load(Acquire)),
        ack: qp.ack_timer(),
        retry_cnt: byte(&qp.retry_cnt),
        rnr_retry: byte(&qp.rnr_retry),
        min_rnr_timer: byte(&qp.min_rnr_timer),
        max_rd_atomic: byte(&qp.max_rd_atomic),
        max_dest_rd_atomic: byte(&qp.max_dest_rd_atomic),
    })
}

impl LinkQueuePair {
    /// A queue pair that has come to RTR. `None` if it is of no connected type.
    pub fn new(qp: &Qp, qpn: Qpn, path: Path) -> Option<Self> {
        let kind = qp.qp_type.load(Acquire);
        let service = match kind {
            qp_type::RC => Service::Rc,
            qp_type::UC => Service::Uc,
            _ => return None,
        };
        let transport = queue_pair::QueuePair::new(service, attributes(qp)?).ok()?;
        let (sending, arriving) = Default::default();
        let version = qp.snapshot_version.load(Acquire);
        Some(Self { qpn, kind, path, transport, sending, arriving, version })
    }

    /// It has come to RTS.
    pub fn begin_to_send(&mut self, qp: &Qp) {
        if let Some(attributes) = attributes(qp) {
            self.transport.modify_to_rts(attributes);
        }
    }

    /// Whether packets of a service are for it.
    pub fn has(&self, service: Service) -> bool {
        self.transport.service() == service
    }

    /// Its number.
    pub fn number(&self) -> Qpn {
        self.qpn
    }

    /// When [`LinkQueuePair::serve`] is to be called at the latest.
    pub fn deadline(&self) -> Option<u64> {
        self.transport.deadline()
    }

    /// The transport, and what it uses of the engine.
    fn parts<'a, 'q>(
        &'q mut self,
        actor: Actor<'a>,
    ) -> (&'q mut queue_pair::QueuePair, RemoteSends<'a, 'q>, RemoteTarget<'a, 'q>) {
        let Self { qpn, kind, transport, sending, arriving, .. } = self;
        let qpn = qpn.get();
        let sends = RemoteSends { actor, qpn, sending };
        (transport, sends, RemoteTarget { actor, qpn, kind: *kind, arriving })
    }

    /// Handles packets of the peer. The data of a read leaves before what has come behind the read is executed.
    pub fn receive(
        &mut self,
        actor: Actor<'_>,
        now: u64,
        packets: &[Packet<'_>],
        port: &LinkPort<impl Tap>,
    ) {
        let mut path_port = PathPort { actor, qpn: self.qpn, port, path: self.path };
        let (transport, mut sends, mut target) = self.parts(actor);
        let is_read =
            |packet: &Packet<'_>| matches!(packet.headers.operation, Operation::ReadRequest(_));
        for run in packets.split_inclusive(is_read) {
            transport.send_data(BURST, &mut path_port, &mut target);
            transport.handle_packets(now, run, &mut sends, &mut target);
        }
        self.count_events(actor);
    }

    /// Sends what there is to be sent, and completes what is done. Returns whether there is more.
    pub fn serve(&mut self, actor: Actor<'_>, now: u64, port: &LinkPort<impl Tap>) -> bool {
        let mut path_port = PathPort { actor, qpn: self.qpn, port, path: self.path };
        let (transport, mut sends, mut target) = self.parts(actor);
        let has_more = transport.poll(now, BURST, &mut path_port, &mut sends, &mut target);
        let qp = actor.arena.qp(self.qpn.get());
        if qp.is_some_and(|qp| qp.state.load(Acquire) == state::SQD) {
            // The program waits for an event that the queue has drained.
            actor.run_send_queue(self.qpn.get());
        }
        self.count_events(actor);
        has_more
    }

    /// Whether [`LinkQueuePair::answer`] would send something.
    pub fn can_answer(&self) -> bool {
        self.transport.can_answer()
    }

    /// Sends the acknowledgements that it owes its peer, before it ends.
    pub fn answer(&mut self, actor: Actor<'_>, port: &LinkPort<impl Tap>) {
        let mut path_port = PathPort { actor, qpn: self.qpn, port, path: self.path };
        let (transport, _, mut target) = self.parts(actor);
        transport.answer(&mut path_port, &mut target);
    }

    /// Adds what the transport has seen go wrong to the queue pair's events.
    fn count_events(&mut self, actor: Actor<'_>) {
        let counts = self.transport.take_event_counts();
        if let Some(qp) = actor.arena.qp(self.qpn.get()) {
            counts.iter().for_each(|(event, times)| qp.events.count(event, times.into()));
        }
    }
}

/// The port, and the path to the peer.
struct PathPort<'a, T> {
    actor: Actor<'a>,
    qpn: Qpn,
    port: &'a LinkPort<T>,
    path: Path,
}

impl<T: Tap> packet_sender::PacketSender for PathPort<'_, T> {
    fn send<E: From<Busy>>(
        &mut self,
        packets: impl ExactSizeIterator<Item = (Headers, usize)> + Clone,
        fill: impl FnOnce(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { actor, qpn, port, path } = *self;
        port.send_all(&path, packets.clone(), fill).unwrap_or_else(|| Err(Busy.into()))?;
        trace_sent(actor, qpn, path, packets);
        Ok(())
    }
}

/// Traces packets that were sent.
fn trace_sent(
    actor: Actor<'_>,
    qpn: Qpn,
    path: Path,
    packets: impl Iterator<Item = (Headers, usize)>,
) {
    if !actor.is_traced() {
        return;
    }
    for (headers, length) in packets {
        trace_packet(actor.arena, actor.env, || event::Packet {
            qpn: qpn.get(),
            length: length as u32,
            ..event::Packet::of(&headers, (path.own, path.peer))
        });
    }
}
