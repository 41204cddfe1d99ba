//! Queue pairs whose peer sends anything, and whose program posts anything.

use std::collections::VecDeque;

use crate::transport::attributes::{Attributes, Mtu};
use crate::transport::packet_sender::{Busy, PacketSender};
use crate::transport::queue_pair::{QueuePair, State};
use crate::transport::request::{Failure, Opcode, Remote, SendQueue, Status, WorkRequest};
use crate::transport::requester::WINDOW;
use crate::transport::target::{Access, Atomic, Completion, Refusal, Target};
use crate::transport::timers::AckTimer;
use crate::wire::bth::{Bth, Psn, Qpn};
use crate::wire::headers::Feth;
use crate::wire::opcode::{SendEnd, Service};
use crate::wire::packet::{Headers, ICRC_BYTES, MAX_BYTES, Packet};

/// The input, a byte at a time; zeros behind its end.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(super) fn number(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }
}

/// A program that does what its own sequence of numbers says.
struct Program {
    state: u32,
    /// Requests that are posted, and not in flight yet.
    posted: VecDeque<WorkRequest>,
    /// Lengths of the requests in flight, and the first one's name.
    requests: VecDeque<u32>,
    first: u64,
    has_receive: bool,
    /// A request has failed.
    has_failed: bool,
    /// A request of the peer has failed.
    is_error: bool,
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

impl Program {
    /// Bytes of a request in flight are read or written.
    fn access(&mut self, id: u64, offset: u32, length: usize) -> Result<(), Failure> {
        // Those before it may wait to be completed.
        let request = (id - self.first) as usize;
        let end = u64::from(offset) + length as u64;
        assert!(end <= self.requests[request].into() && !self.has_failed);
        match self.mood() {
            0 => Err(Failure::Busy),
            1 if self.mood() == 0 => Err(Failure::Failed(Status::LocalProtection)),
            _ => Ok(()),
        }
    }
}

impl SendQueue for Program {
    fn next_request(&mut self) -> Result<Option<WorkRequest>, Busy> {
        if self.mood() == 0 {
            return Err(Busy);
        }
        let request = self.posted.pop_front();
        self.requests.extend(request.map(|request| request.length));
        Ok(request)
    }

    fn gather(&mut self, id: u64, offset: u32, parts: &mut [&mut [u8]]) -> Result<(), Failure> {
        self.access(id, offset, parts.iter().map(|part| part.len()).sum())
    }

    fn scatter(&mut self, id: u64, offset: u32, parts: &[&[u8]]) -> Result<(), Failure> {
        self.access(id, offset, parts.concat().len())
    }

    fn complete(&mut self, id: u64, status: Status) -> Result<(), Busy> {
        assert_eq!(id, self.first);
        assert!(!self.has_failed);
        if self.mood() == 0 {
            return Err(Busy);
        }
        self.has_failed = status != Status::Success;
        self.first += 1;
        self.requests.pop_front();
        Ok(())
    }
}

impl Target for Program {
    fn consume_receive(&mut self) -> Result<(), Refusal> {
        assert!(!self.has_receive);
        self.refuse(&[Refusal::NotReady, Refusal::Receive])?;
        self.has_receive = true;
        Ok(())
    }

    fn scatter(&mut self, _: u32, parts: &[&[u8]]) -> Result<(), Refusal> {
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

    fn check(&mut self, _: Access, _: Remote, _: u32) -> Result<(), Refusal> {
        self.refuse(&[Refusal::InvalidRequest, Refusal::Access])
    }

    fn read(&mut self, _: Remote, parts: &mut [&mut [u8]]) -> Result<(), Refusal> {
        assert!(parts.iter().all(|part| !part.is_empty()));
        self.refuse(&[Refusal::Access])
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

    fn fail(&mut self, _: Refusal) -> Result<(), Busy> {
        assert!(!self.is_error);
        if self.mood() == 0 {
            return Err(Busy);
        }
        self.is_error = true;
        Ok(())
    }
}

fn program(state: u32) -> Program {
    Program {
        state,
        posted: VecDeque::new(),
        requests: VecDeque::new(),
        first: 0,
        has_receive: false,
        has_failed: false,
        is_error: false,
    }
}

/// A request with anything in it.
pub(super) fn request(id: u64, input: &mut Input<'_>) -> WorkRequest {
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
pub(super) fn datagram(service: u8, psn: Psn, mtu: Mtu, input: &mut Input<'_>) -> Vec<u8> {
    let [opcode, flags, length] = [input.byte(), input.byte(), input.byte()];
    let bth = Bth {
        opcode: service | opcode & 0x1f,
        solicited: flags & 1 != 0,
        ack_req: flags & 2 != 0,
        dest_qpn: Qpn::new(1),
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
    let mut input = Input::new(data);
    let mtu = Mtu::from_code(input.byte() % 5 + 1).unwrap_or(Mtu::B256);
    let [numbers, depths] = [input.byte(), input.byte()];
    let start = Psn::new(input.number());
    let attributes = Attributes {
        dest_qpn: Qpn::new(1),
        mtu,
        sq_psn: start,
        rq_psn: start,
        ack: AckTimer::new(numbers & 31),
        retry_cnt: numbers >> 5,
        rnr_retry: depths >> 5,
        min_rnr_timer: 1,
        max_rd_atomic: depths & 7,
        max_dest_rd_atomic: depths >> 3 & 7,
    };
    let mut pairs = [Service::Rc, Service::Uc].map(|service| Pair::new(service, attributes));
    let mut wire = Wire { program: program(7), request_psn: start };
    // About where the peer is.
    let mut peer_psn = start;
    let mut now = 0;
    while !input.is_empty() {
        let step = input.byte();
        let which = usize::from(step & 8 != 0);
        match step % 8 {
            0 => {
                let pair = &mut pairs[which];
                if pair.sender.posted.len() < 8 {
                    pair.sender.posted.push_back(request(pair.names, &mut input));
                    pair.names += 1;
                }
            }
            1 => now = pairs[which].qp.deadline().unwrap_or(now).max(now),
            2 | 3 => pairs[which].poll(now, 1 + usize::from(step >> 4), &mut wire),
            step => {
                let is_response = step > 5;
                let near = i32::from(input.byte() as i8) / if step % 2 == 0 { 32 } else { 1 };
                let psn = if is_response { wire.request_psn } else { peer_psn };
                let psn = Psn::new(psn.get().wrapping_add_signed(near));
                let service = [0x00, 0x20][which];
                let datagram = datagram(service, psn, mtu, &mut input);
                let Ok(packet) = Packet::parse(&datagram) else { continue };
                if !packet.headers.operation.is_response() {
                    peer_psn = psn + 1;
                }
                let Pair { qp, sender, target, .. } = &mut pairs[which];
                qp.handle_packets(now, &[packet], sender, target);
            }
        }
        for pair in &pairs {
            pair.check();
        }
    }
}

/// A queue pair with its program, as requester and as responder.
struct Pair {
    qp: QueuePair,
    sender: Program,
    target: Program,
    /// Requests that were posted.
    names: u64,
}

impl Pair {
    fn new(service: Service, attributes: Attributes) -> Pair {
        let qp = QueuePair::new(service, attributes);
        let mut qp = qp.unwrap_or_else(|error| panic!("{error}"));
        qp.modify_to_rts(attributes);
        Pair { qp, sender: program(1), target: program(2), names: 0 }
    }

    fn poll(&mut self, now: u64, most: usize, wire: &mut Wire) {
        self.qp.poll(now, most, wire, &mut self.sender, &mut self.target);
    }

    fn check(&self) {
        if let Some(requester) = self.qp.reliable_requester() {
            assert!(requester.kept() <= WINDOW as usize);
            assert!(!requester.is_idle() || requester.deadline().is_none());
        }
        let responder = self.qp.reliable_responder();
        assert!(responder.is_none_or(|responder| responder.kept() <= 4 * 7 + 5));
        assert!(self.target.is_error <= (self.qp.state() == State::Error));
        assert!(self.sender.has_failed <= (self.qp.state() == State::Error));
    }
}

/// A network that is busy at times.
struct Wire {
    program: Program,
    /// Of the last request that was sent.
    request_psn: Psn,
}

impl PacketSender for Wire {
    fn send<E: From<Busy>>(
        &mut self,
        packets: impl ExactSizeIterator<Item = (Headers, usize)> + Clone,
        fill: impl FnOnce(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!((1..=64).contains(&packets.len()));
        if self.program.mood() == 0 {
            return Err(Busy.into());
        }
        let mut buffer = [0; MAX_BYTES];
        let mut payloads = Vec::new();
        for (headers, length) in packets {
            headers.build(length, &mut buffer).unwrap_or_else(|error| panic!("{error}"));
            if !headers.operation.is_response() {
                self.request_psn = headers.psn;
            }
            payloads.push(vec![0; length]);
        }
        fill(&mut payloads.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())
    }
}
