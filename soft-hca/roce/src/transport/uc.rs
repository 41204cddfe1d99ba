//! Unreliable connections: sends and writes without acknowledgement. A message of which a packet is
//! missing is dropped: it completes no receive work request, but a part of it may have been written to
//! memory.
//!
//! Sources: IBTA volume 1, 9.8.2; `rxe_req.c`, `rxe_resp.c`.

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use super::error_state::ErrorState;
use super::message::{RUN, Reassembly, Run};
use super::request::{Failure, MAX_MESSAGE, Opcode, Outgoing, SendQueue, Status, WorkRequest};
use super::target::{Refusal, Target};
use crate::wire::bth::Psn;
use crate::wire::opcode::{SendEnd, Service};
use crate::wire::packet::Packet;

/// The requester.
#[derive(Debug, Serialize, Deserialize)]
pub struct UcRequester {
    attributes: Attributes,
    psn: Psn,
    current: Option<Current>,
    failed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Current {
    request: WorkRequest,
    /// Packets that are sent.
    sent: u32,
    /// Its status, once it is sent or has failed.
    status: Option<Status>,
}

impl UcRequester {
    /// A requester that has sent nothing.
    pub fn new(attributes: Attributes) -> UcRequester {
        UcRequester { attributes, psn: attributes.sq_psn, current: None, failed: false }
    }

    /// Whether a requester can be in this state, which somebody else has made up or kept.
    pub(super) fn is_possible(&self) -> bool {
        self.current.as_ref().is_none_or(|Current { request, sent, status }| {
            let all = request.packets(self.attributes.mtu);
            !request.opcode.has_response() && (*sent < all || *sent == all && status.is_some())
                || status.is_some_and(|status| status != Status::Success)
        })
    }

    /// Whether there is nothing to be sent or completed.
    pub fn wants_request(&self) -> bool {
        self.current.is_none() && !self.failed
    }

    /// Whether a request has failed: the queue pair is in the error state.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Posts a request. Only if [`UcRequester::wants_request`].
    pub fn post(&mut self, request: WorkRequest) {
        let is_of_service = match request.opcode {
            Opcode::Send(SendEnd::Invalidate(_)) => false,
            opcode => !opcode.has_response(),
        };
        let status = if !is_of_service {
            Some(Status::LocalOperation)
        } else if request.length > MAX_MESSAGE {
            Some(Status::LocalLength)
        } else {
            None
        };
        self.failed = status.is_some();
        self.current = Some(Current { request, sent: 0, status });
    }

    /// Builds the next packets of the request: as the reliable requester's
    /// [`transmit`](super::requester::RcRequester::transmit). After the last one
    /// [`UcRequester::complete`] is to be called.
    pub fn transmit(&mut self, emit: impl FnOnce(&[Outgoing]) -> Result<(), Failure>) -> usize {
        let Some(Current { request, sent, status: status @ None }) = &mut self.current else {
            return 0;
        };
        let all = request.packets(self.attributes.mtu);
        let packet = |number: u32| {
            let psn = self.psn + (number - *sent);
            let mut packet = request.packet(Service::Uc, &self.attributes, psn, number, 1);
            packet.headers.ack_req = false;
            packet
        };
        let packets: ArrayVec<_, RUN> = (*sent..all).take(RUN).map(packet).collect();
        match emit(&packets) {
            Ok(()) => {
                self.psn += packets.len() as u32;
                *sent += packets.len() as u32;
                if *sent == all {
                    *status = Some(Status::Success);
                }
                packets.len()
            }
            Err(Failure::Busy) => 0,
            Err(Failure::Failed(failure)) => {
                *status = Some(failure);
                self.failed = true;
                0
            }
        }
    }

    /// Whether [`UcRequester::complete`] has something to do.
    pub fn has_finished_requests(&self) -> bool {
        matches!(self.current, Some(Current { status: Some(_), .. }))
    }

    /// Completes the request, if it is sent or has failed.
    pub fn complete(&mut self, queue: &mut impl SendQueue) {
        if let Some(Current { request, status: Some(status), .. }) = &self.current {
            if queue.complete(request.id, *status).is_ok() {
                self.current = None;
            }
        }
    }
}

/// A packet whose PSN is at most so far before the expected one is late or a duplicate, and is dropped
/// even if it begins a message: each message arrives at most once, and in order.
const LATE: i32 = 1 << 15;

/// The responder.
#[derive(Debug, Serialize, Deserialize)]
pub struct UcResponder {
    attributes: Attributes,
    expected_psn: Psn,
    reassembly: Reassembly,
    pub(super) error: ErrorState,
}

impl UcResponder {
    /// A responder that has received nothing.
    pub fn new(attributes: Attributes) -> UcResponder {
        UcResponder {
            attributes,
            expected_psn: attributes.rq_psn,
            reassembly: Reassembly::default(),
            error: ErrorState::Operational,
        }
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Whether a responder can be in this state, which somebody else has made up or kept.
    pub(super) fn is_possible(&self) -> bool {
        self.reassembly.is_possible()
    }

    /// Whether the queue pair is in the error state: packets are ignored.
    pub fn has_failed(&self) -> bool {
        self.error.has_failed()
    }

    /// Packets of an unreliable connection, in the order in which they came.
    pub fn on_packets(&mut self, mut packets: &[Packet<'_>], target: &mut impl Target) {
        while !packets.is_empty() {
            let count = match Run::of(packets, self.attributes.mtu) {
                Some(run) => {
                    self.on_run(&run, target);
                    run.packets.len()
                }
                None => 1,
            };
            packets = &packets[count..];
        }
    }

    fn on_run(&mut self, run: &Run<'_, '_>, target: &mut impl Target) {
        let psn = run.packets[0].headers.psn;
        let distance = psn.distance(self.expected_psn);
        if self.error.has_failed() || (-LATE..0).contains(&distance) {
            return;
        }
        if run.begins() || distance != 0 {
            self.reassembly.abort();
        }
        if !run.begins() && !self.reassembly.in_progress() {
            return;
        }
        self.expected_psn = psn + run.packets.len() as u32;
        match self.reassembly.accept(run, self.attributes.mtu, target) {
            Ok(()) => {}
            Err(refusal @ (Refusal::Receive | Refusal::Overflow)) => {
                self.error.enter(refusal, target);
            }
            Err(Refusal::ReceiveTooSmall) => {
                self.reassembly.abort();
                if target.release_receive() {
                    self.reassembly.receive_released();
                }
            }
            Err(_) => self.reassembly.abort(),
        }
    }
}
