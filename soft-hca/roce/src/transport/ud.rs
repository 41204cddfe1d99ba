//! Unreliable datagrams: one packet is one message, from any queue pair to any.
//!
//! Sources: IBTA volume 1, 9.8.3; `rxe_req.c`, `rxe_recv.c`, `rxe_resp.c`.

use super::attributes::Mtu;
use super::request::{Outgoing, Payload};
use super::target::{Completion, Received, Refusal, Target};
use crate::wire::bth::Psn;
use crate::wire::headers::{Deth, Immediate};
use crate::wire::opcode::{Operation, Service};
use crate::wire::packet::{Headers, Packet};

/// Bytes before a datagram in its receive: 20 zeros and an IPv4 header, or an IPv6 header.
pub const NETWORK_HEADER_BYTES: u32 = 40;

/// A datagram that is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// The queue pair that it is for; [`MULTICAST_QPN`](crate::wire::bth::MULTICAST_QPN) for a
    /// group.
    pub dest_qpn: u32,
    /// The key that the receiver has to have, and who sends it.
    pub deth: Deth,
    /// Immediate data.
    pub immediate: Option<Immediate>,
    /// The receiver is to have an event.
    pub solicited: bool,
    /// Its bytes.
    pub payload: Payload,
}

/// The sending half: it only counts.
#[derive(Debug)]
pub struct Requester {
    psn: Psn,
}

impl Requester {
    /// A requester whose first datagram has this number.
    pub const fn new(sq_psn: Psn) -> Requester {
        Requester { psn: sq_psn }
    }

    /// The datagram's packet, or `None` if it is longer than `mtu`: it is a local length error.
    pub fn packet(&mut self, datagram: &Datagram, mtu: Mtu) -> Option<Outgoing> {
        let &Datagram { dest_qpn, deth, immediate, solicited, payload } = datagram;
        if payload.length > mtu.bytes() {
            return None;
        }
        let operation = Operation::Datagram(deth, immediate);
        let headers =
            Headers { solicited, ..Headers::new(Service::Ud, operation, dest_qpn, self.psn) };
        self.psn += 1;
        Some(Outgoing { headers, payload })
    }
}

/// The receiving half.
#[derive(Debug)]
pub struct Responder {
    mtu: Mtu,
    /// A receive was taken for a datagram that was dropped: it is for the next one.
    has_receive: bool,
    failed: bool,
}

impl Responder {
    /// A responder for datagrams of up to `mtu` bytes.
    pub const fn new(mtu: Mtu) -> Responder {
        Responder { mtu, has_receive: false, failed: false }
    }

    /// Whether the queue pair is in error: nothing is heard.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// A datagram, for a queue pair that has the key `qkey` now. `header` is what precedes it in
    /// the receive. Returns whether it has arrived.
    pub fn on_packet(
        &mut self,
        packet: &Packet<'_>,
        qkey: u32,
        header: &[u8; NETWORK_HEADER_BYTES as usize],
        target: &mut impl Target,
    ) -> bool {
        let Operation::Datagram(deth, immediate) = packet.headers.operation else { return false };
        let length = packet.payload.len() as u32;
        if self.failed || deth.qkey != qkey || length > self.mtu.bytes() {
            return false;
        }
        let completion = Completion {
            received: Received::Datagram { source_qpn: deth.source_qpn, immediate },
            length: NETWORK_HEADER_BYTES + length,
            solicited: packet.headers.solicited,
        };
        let received = self.receive(header, packet.payload, completion, target);
        match received {
            Ok(()) => self.has_receive = false,
            Err(refusal @ (Refusal::Receive | Refusal::Overflow)) => {
                self.failed = true;
                target.fail(refusal);
            }
            Err(Refusal::ReceiveTooSmall) => self.has_receive = !target.release_receive(),
            Err(_) => {}
        }
        received.is_ok()
    }

    fn receive(
        &mut self,
        header: &[u8],
        payload: &[u8],
        completion: Completion,
        target: &mut impl Target,
    ) -> Result<(), Refusal> {
        if !self.has_receive {
            target.take_receive()?;
            self.has_receive = true;
        }
        target.place(0, &[header])?;
        if !payload.is_empty() {
            target.place(NETWORK_HEADER_BYTES, &[payload])?;
        }
        target.complete(completion)
    }
}
