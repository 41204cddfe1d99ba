//! Queue pairs whose peer sends anything, and whose program posts anything.

use crate::transport::attributes::{Attributes, Mtu};
use crate::transport::request::{Failure, Opcode, Remote, SendQueue, Status, WorkRequest};
use crate::transport::requester::{Requester, WINDOW};
use crate::transport::responder::Responder;
use crate::transport::target::{Access, Atomic, Completion, Refusal, Target};
use crate::transport::{uc, ud};
use crate::wire::bth::{Bth, Psn};
use crate::wire::headers::Feth;
use crate::wire::opcode::{SendEnd, Service};
use crate::wire::packet::{ICRC_BYTES, MAX_BYTES, Packet};

/// The input, a byte at a time; zeros behind its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }
}

/// A program that does what its own sequence of numbers says.
struct Program {
    state: u32,
    /// Lengths of the requests that are not complete, and the first one's name.
    requests: std::collections::VecDeque<u32>,
    first: u64,
    has_receive: bool,
    has_failed: bool,
}

impl Program {
    /// 0 to 15.
    fn mood(&mut self) -> u32 {
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.state >> 28
    }

    fn refuse(&mut self, refusals: &[Refusal]) -> Result<(), Refusal> {
        match self.mood() {
            0 => Err(Refusal::Busy),
            1 if self.mood() == 0 => Err(refusals[self.state as usize % refusals.len()]),
            _ => Ok(()),
        }
    }
}

impl SendQueue for Program {
    fn place(&mut self, id: u64, offset: u32, parts: &[&[u8]]) -> Result<(), Failure> {
        let bytes = parts.concat();
        // Those before it may wait to be completed.
        let request = (id - self.first) as usize;
        let end = u64::from(offset) + bytes.len() as u64;
        assert!(end <= self.requests[request].into() && !self.has_failed);
        match self.mood() {
            0 => Err(Failure::Busy),
            1 if self.mood() == 0 => Err(Failure::Failed(Status::LocalProtection)),
            _ => Ok(()),
        }
    }

    fn complete(&mut self, id: u64, status: Status) -> bool {
        assert_eq!(id, self.first);
        assert!(!self.has_failed);
        let can = self.mood() != 0;
        if can {
            self.has_failed = status != Status::Success;
            self.first += 1;
            self.requests.pop_front();
        }
        can
    }
}

impl Target for Program {
    fn take_receive(&mut self) -> Result<(), Refusal> {
        assert!(!self.has_receive);
        self.refuse(&[Refusal::NotReady, Refusal::Receive])?;
        self.has_receive = true;
        Ok(())
    }

    fn place(&mut self, _: u32, parts: &[&[u8]]) -> Result<(), Refusal> {
        assert!(self.has_receive && !parts.concat().is_empty());
        self.refuse(&[Refusal::Receive, Refusal::ReceiveTooSmall])
    }

    fn release_receive(&mut self) -> bool {
        assert!(self.has_receive);
        self.has_receive = self.mood() < 8;
        !self.has_receive
    }

    fn complete(&mut self, _: Completion) -> Result<(), Refusal> {
        assert!(self.has_receive);
        self.refuse(&[Refusal::Invalidate, Refusal::Overflow])?;
        self.has_receive = false;
        Ok(())
    }

    fn check(&mut self, _: Access, _: Remote, length: u32) -> Result<(), Refusal> {
        assert!(length > 0);
        self.refuse(&[Refusal::InvalidRequest, Refusal::Access])
    }

    fn write(&mut self, _: Remote, parts: &[&[u8]]) -> Result<(), Refusal> {
        assert!(!parts.concat().is_empty());
        self.refuse(&[Refusal::Access])
    }

    fn atomic(&mut self, remote: Remote, _: Atomic) -> Result<u64, Refusal> {
        assert_eq!(remote.address % 8, 0);
        self.refuse(&[Refusal::InvalidRequest, Refusal::Access])?;
        Ok(1)
    }

    fn flush(&mut self, _: Remote, _: u32, _: Feth) -> Result<(), Refusal> {
        self.refuse(&[Refusal::InvalidRequest, Refusal::Access])
    }

    fn fail(&mut self, _: Refusal) {}
}

fn program(state: u32) -> Program {
    Program {
        state,
        requests: std::collections::VecDeque::new(),
        first: 0,
        has_receive: false,
        has_failed: false,
    }
}

/// A request with anything in it.
fn request(id: u64, input: &mut Input<'_>) -> WorkRequest {
    let flags = input.byte();
    let remote = Remote { address: input.number().into(), rkey: 1 };
    let (opcode, length) = match flags % 8 {
        0 => (Opcode::Send(SendEnd::Plain), None),
        1 => (Opcode::Send(SendEnd::Invalidate(1)), None),
        2 => (Opcode::Write(remote, None), None),
        3 => (Opcode::Write(remote, Some([1; 4])), None),
        4 => (Opcode::Read(remote), None),
        5 => (Opcode::Flush(remote, Feth { placement: 1, selectivity: 0 }), None),
        6 => (Opcode::FetchAdd { remote, add: 1 }, Some(8)),
        _ => (Opcode::AtomicWrite(remote), Some(8)),
    };
    let length = length.unwrap_or_else(|| match flags & 0x30 {
        0 => input.number(),
        0x10 => u32::from(input.byte()) << 8,
        _ => input.byte().into(),
    });
    WorkRequest { id, opcode, length, solicited: flags & 0x40 != 0, fence: flags & 0x80 != 0 }
}

/// A packet of a service with any other fields, and a length that often is a full one.
fn datagram(service: u8, psn: Psn, mtu: Mtu, input: &mut Input<'_>) -> Vec<u8> {
    let [opcode, flags, length] = [input.byte(), input.byte(), input.byte()];
    let bth = Bth {
        opcode: service | opcode & 0x1f,
        solicited: flags & 1 != 0,
        ack_req: flags & 2 != 0,
        dest_qpn: 1,
        psn,
        ..Bth::default()
    };
    let mut datagram = bth.encode().to_vec();
    datagram.extend((0..28 & length).map(|_| input.byte()));
    if flags & 4 != 0 {
        datagram.resize(datagram.len() + mtu.bytes() as usize, flags);
    }
    datagram.truncate(MAX_BYTES - ICRC_BYTES);
    datagram.extend([0; ICRC_BYTES]);
    datagram
}

/// A connection whose peer keeps to no rule, and whose program refuses at times. Whatever comes,
/// requests complete in order, nothing grows, and no byte goes where none was asked for.
pub fn transport(data: &[u8]) {
    let mut input = Input(data);
    let mtu = Mtu::from_code(input.byte() % 5 + 1).unwrap_or(Mtu::B256);
    let [numbers, depths] = [input.byte(), input.byte()];
    let start = Psn::new(input.number());
    let attributes = Attributes {
        dest_qpn: 1,
        mtu,
        sq_psn: start,
        rq_psn: start,
        timeout: numbers & 31,
        retry_cnt: numbers >> 5,
        rnr_retry: depths >> 5,
        min_rnr_timer: 1,
        max_rd_atomic: depths & 7,
        max_dest_rd_atomic: depths >> 3 & 7,
    };
    let mut requester = Requester::new(attributes);
    let mut responder = Responder::new(attributes);
    let mut unreliable = (uc::Responder::new(attributes), ud::Responder::new(mtu));
    let [mut local, mut remote, mut other, mut datagrams] = [1, 2, 3, 4].map(program);
    let mut now = 0;
    // About where the two directions are.
    let mut next = [start; 2];
    let mut posted = 0;
    while !input.0.is_empty() {
        let step = input.byte();
        match step % 8 {
            0 if requester.wants_request() => {
                let request = request(posted, &mut input);
                requester.post(request);
                local.requests.push_back(request.length);
                posted += 1;
            }
            0 | 1 => {
                while requester.transmit(now, |packets| match local.mood() {
                    0 => Err(Failure::Busy),
                    _ => {
                        next[0] = packets[packets.len() - 1].headers.psn;
                        Ok(())
                    }
                }) > 0
                {}
            }
            2 => {
                now = requester.deadline().unwrap_or(now);
                requester.on_timer(now, &mut local);
            }
            3 => {
                responder.transmit(&mut remote, |remote, replies| {
                    assert!((1..=64).contains(&replies.len()));
                    remote.refuse(&[Refusal::Access])
                });
            }
            step => {
                let to = usize::from(step > 5);
                let near = i32::from(input.byte() as i8) / if step % 2 == 0 { 32 } else { 1 };
                let psn = Psn::new(next[to].get().wrapping_add_signed(near));
                let service = [0x00, 0x00, 0x20, 0x60][usize::from(input.byte() & 3)];
                let datagram = datagram(service, psn, mtu, &mut input);
                let Ok(packet) = Packet::parse(&datagram) else { continue };
                match packet.headers.service {
                    Service::Rc if packet.headers.operation.is_response() => {
                        requester.on_packets(now, &[packet], &mut local);
                    }
                    Service::Rc => {
                        responder.on_packets(&[packet], &mut remote);
                        next[1] = psn + 1;
                    }
                    Service::Uc => unreliable.0.on_packets(&[packet], &mut other),
                    _ => {
                        unreliable.1.on_packet(&packet, 0, &[0; 40], &mut datagrams);
                    }
                }
            }
        }
        requester.complete(&mut local);
        assert!(requester.kept() <= WINDOW as usize);
        assert!(responder.kept() <= 4 * 7 + 5);
        assert!(!requester.is_idle() || requester.deadline().is_none());
    }
}
