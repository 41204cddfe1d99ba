//! What is counted of a message that is executed within the fabric: the packets that it would be on
//! a network.
//!
//! A request that waits, or is tried again, counts once, when it is executed. Every reliable message
//! but reads and atomics is acknowledged once.

use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_roce::transport::events::Event;
use soft_hca_roce::wire::headers::{Aeth, AtomicEth, Deth, Feth, Reth};

use crate::arena::{Ah, Qp, Tally};
use crate::engine::Actor;
use crate::engine::atomic::WORD;
use crate::engine::request::Requester;
use crate::engine::responder::Responder;
use crate::uapi::verbs::{Psn, mtu, opcode, qp_type, status};

const AETH: u64 = Aeth::BYTES as u64;
const ATOMIC_ETH: u64 = AtomicEth::BYTES as u64;
const DETH: u64 = Deth::BYTES as u64;
const FETH: u64 = Feth::BYTES as u64;
const RETH: u64 = Reth::BYTES as u64;
/// Immediate data, or the key that is to be invalidated.
const WORD_AFTER_BTH: u64 = 4;
/// The old value in an atomic's acknowledgement.
const ATOMIC_ACK_ETH: u64 = 8;

/// A message as packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packets {
    /// `ibv_qp_type`
    pub kind: u32,
    /// What each has around its payload, without extended headers: see [`Qp::packet_octets`].
    pub octets: u32,
    /// Bytes of payload that each has at most.
    pub mtu: u32,
}

impl Packets {
    /// Those of a queue pair's messages.
    pub(super) fn of(qp: &Qp, kind: u32) -> Self {
        let octets = qp.packet_octets.load(Acquire);
        Self { kind, octets, mtu: mtu::bytes(qp.path_mtu.load(Acquire)) }
    }

    /// Those of a datagram by an address handle.
    pub(super) fn by(ah: &Ah) -> Self {
        let octets = ah.packet_octets.load(Acquire);
        Self { kind: qp_type::UD, octets, mtu: mtu::bytes(ah.mtu.load(Acquire)) }
    }

    /// How many packet sequence numbers a message takes.
    pub(super) fn numbers(&self, length: u32) -> u32 {
        length.div_ceil(self.mtu).max(1)
    }

    /// What a message with an opcode and so many bytes adds.
    #[inline]
    pub(super) fn tally(&self, opcode: u32, length: u32) -> Tally {
        let numbers = u64::from(self.numbers(length));
        let around = u64::from(self.octets);
        let payload = u64::from(length).next_multiple_of(4);
        if opcode == opcode::RDMA_READ {
            // The first and the last response have an AETH.
            let aeths = AETH * numbers.min(2);
            return Tally {
                packets: 1,
                octets: around + RETH,
                answers: numbers,
                answer_octets: numbers * around + payload + aeths,
                ..Tally::default()
            };
        }
        let word = u64::from(WORD);
        let (extended, payload, answer) = match opcode {
            opcode::RDMA_WRITE => (RETH, payload, AETH),
            opcode::RDMA_WRITE_WITH_IMM => (RETH + WORD_AFTER_BTH, payload, AETH),
            opcode::SEND_WITH_IMM | opcode::SEND_WITH_INV => (WORD_AFTER_BTH, payload, AETH),
            opcode::ATOMIC_WRITE => (RETH, word, AETH),
            opcode::FLUSH => (FETH + RETH, 0, AETH),
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => {
                (ATOMIC_ETH, 0, AETH + ATOMIC_ACK_ETH)
            }
            _ => (0, payload, AETH),
        };
        let deth = if self.kind == qp_type::UD { DETH } else { 0 };
        let is_answered = self.kind == qp_type::RC;
        Tally {
            packets: numbers,
            octets: numbers * around + payload + extended + deth,
            multicast: 0,
            sends: is_send(opcode).into(),
            answers: is_answered.into(),
            answer_octets: if is_answered { around + answer } else { 0 },
        }
    }
}

/// Whether rxe counts it as a send (`rdma_sends`, `rdma_recvs`).
pub(super) fn is_send(opcode: u32) -> bool {
    matches!(opcode, opcode::SEND | opcode::SEND_WITH_IMM | opcode::SEND_WITH_INV)
}

impl Requester<'_> {
    /// Counts messages that are executed, on both sides, each by its opcode and length: their PSNs,
    /// and what their packets are. Those that are lost have not come to the responder.
    pub(super) fn count(
        &self,
        responder: Option<&Responder<'_>>,
        messages: impl IntoIterator<Item = (u32, u32, bool)>,
    ) {
        let packets = Packets::of(self.qp, self.kind);
        let (mut sent, mut received, mut numbers) = (Tally::default(), Tally::default(), 0u32);
        for (opcode, length, is_lost) in messages {
            let tally = packets.tally(opcode, length);
            numbers = numbers.wrapping_add(packets.numbers(length));
            sent = sent.plus(tally);
            if !is_lost {
                received = received.plus(tally);
            }
        }
        self.qp.sent.add(&sent);
        let next = self.skip(numbers);
        if let Some(responder) = responder {
            responder.qp.received.add(&received);
            responder.qp.rq_psn.store(next, Release);
        }
    }

    /// Counts a datagram, or one that leaves the fabric, whose packet the link counts.
    pub(super) fn count_datagram(&self, tally: &Tally) {
        self.qp.sent.add(tally);
        self.skip(1);
    }

    /// Takes so many packet sequence numbers; gives the next one.
    fn skip(&self, numbers: u32) -> u32 {
        let next = u32::from(Psn::new(self.qp.sq_psn.load(Acquire)) + numbers);
        self.qp.sq_psn.store(next, Release);
        next
    }

    /// The request at the head finds no receive of the peer, so many times: each is an RNR NAK.
    #[cold]
    pub(super) fn count_rnr(&self, actor: &Actor<'_>, times: u32) {
        self.qp.events.count(Event::RnrReceived, times.into());
        if let Some(peer) = actor.local_peer(self.qp) {
            peer.events.count(Event::RnrSent, times.into());
        }
    }

    /// The request at the head fails after all the retries that it has.
    #[cold]
    pub(super) fn count_exhausted(&self, actor: &Actor<'_>, expired: u32) {
        let events = &self.qp.events;
        if expired == status::RNR_RETRY_EXC_ERR {
            self.count_rnr(actor, self.qp.rnr_retry.load(Acquire));
            events.count(Event::RnrRetriesExceeded, 1);
        } else {
            events.count(Event::Retried, self.qp.retry_cnt.load(Acquire).into());
            events.count(Event::RetriesExceeded, 1);
        }
    }
}
