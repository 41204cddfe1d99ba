//! Two reliable ends with programs that post requests and receives, and have memory.

use std::collections::{HashSet, VecDeque};

use proptest::test_runner::Config as ProptestConfig;

use super::network::{Faults, Network, Random};
use crate::transport::attributes::{Attributes, Mtu};
use crate::transport::packet_sender::{Busy, PacketSender};
use crate::transport::queue_pair::{QueuePair, State};
use crate::transport::request::{Failure, Opcode, Remote, SendQueue, Status, WorkRequest};
use crate::transport::requester::{RcRequester, WINDOW};
use crate::transport::responder::RcResponder;
use crate::transport::snapshot::most_bytes;
use crate::transport::target::{Access, Atomic, Completion, Refusal, Target};
use crate::transport::timers::AckTimer;
use crate::wire::bth::{Psn, Qpn};
use crate::wire::headers::Feth;
use crate::wire::opcode::{SendEnd, Service};
use crate::wire::packet::{Headers, Packet};

/// Where a program's memory begins, and its key.
pub(super) const BASE: u64 = 0x7f00_0000_0000;
pub(super) const KEY: u32 = 0x1234_5600;
/// A key that nobody has, and one that the queue pair does not allow the use of.
pub(super) const BAD_KEY: u32 = 0xbad;
pub(super) const FORBIDDEN_KEY: u32 = 0xf0bd;
/// The first key that a send may make invalid.
pub(super) const FIRST_WINDOW: u32 = 0x100;

/// A program's work request and its bytes.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub request: WorkRequest,
    pub bytes: Vec<u8>,
}

/// A program: its memory, its receives, and what came of its requests. Each end has two, one that
/// posts requests and one that is the target of the peer's.
pub(super) struct Program {
    pub memory: Vec<u8>,
    pub work: Vec<Work>,
    pub posted: usize,
    /// Bytes that have come for each request.
    placed: Vec<u32>,
    pub completed: Vec<(u64, Status)>,
    /// Room for receives, and when each is posted.
    pub receives: VecDeque<(u64, usize)>,
    taken: Option<Vec<u8>>,
    pub received: Vec<(Completion, Vec<u8>)>,
    pub windows: HashSet<u32>,
    /// Each flush that was executed.
    pub flushed: Vec<(Remote, u32, Feth)>,
    pub failed: Option<Refusal>,
    /// Its receives come from a shared queue.
    pub is_shared: bool,
    /// Receives of that which were too small.
    pub released: usize,
    /// The completion queue overflows with this receive.
    pub overflow_at: usize,
    random: Random,
    /// Permille of the calls that are refused, so rarely that retries suffice.
    busy: u32,
    /// Calls that are not refused, after one that was.
    calm: u32,
    now_ns: u64,
}

impl Program {
    pub fn new(seed: u64, memory: usize, busy: u32) -> Program {
        Program {
            memory: vec![0; memory],
            work: Vec::new(),
            posted: 0,
            placed: Vec::new(),
            completed: Vec::new(),
            receives: VecDeque::new(),
            taken: None,
            received: Vec::new(),
            windows: HashSet::new(),
            flushed: Vec::new(),
            failed: None,
            is_shared: false,
            released: 0,
            overflow_at: usize::MAX,
            random: Random::new(seed),
            busy,
            calm: 0,
            now_ns: 0,
        }
    }

    /// Whether a receive is taken and not completed.
    pub fn has_taken(&self) -> bool {
        self.taken.is_some()
    }

    /// Another request, with room for what it reads.
    pub fn expect(&mut self, length: u32) {
        let id = self.work.len() as u64;
        let request = request(id, Opcode::Send(SendEnd::Plain), length);
        self.work.push(Work { request, bytes: vec![0; length as usize] });
        self.placed.push(0);
    }

    fn is_busy(&mut self) -> bool {
        self.calm = self.calm.saturating_sub(1);
        let is_busy = self.calm == 0 && self.random.permille(self.busy);
        if is_busy {
            self.calm = 10;
        }
        is_busy
    }

    fn range(&self, remote: Remote, length: usize) -> Result<std::ops::Range<usize>, Refusal> {
        match remote.rkey {
            FORBIDDEN_KEY => return Err(Refusal::InvalidRequest),
            _ if length == 0 => return Ok(0..0),
            KEY => {}
            _ => return Err(Refusal::Access),
        }
        let start = remote.address.checked_sub(BASE).ok_or(Refusal::Access)? as usize;
        let end = start + length;
        if end > self.memory.len() { Err(Refusal::Access) } else { Ok(start..end) }
    }
}

impl SendQueue for Program {
    fn next_request(&mut self) -> Result<Option<WorkRequest>, Busy> {
        if self.posted < self.work.len() && self.is_busy() {
            return Err(Busy);
        }
        let work = self.work.get(self.posted);
        self.posted += usize::from(work.is_some());
        Ok(work.map(|work| work.request))
    }

    fn gather(&mut self, id: u64, offset: u32, parts: &mut [&mut [u8]]) -> Result<(), Failure> {
        if self.is_busy() {
            return Err(Failure::Busy);
        }
        let mut rest = &self.work[id as usize].bytes[offset as usize..];
        for part in parts {
            let (here, behind) = rest.split_at(part.len());
            part.copy_from_slice(here);
            rest = behind;
        }
        Ok(())
    }

    fn scatter(&mut self, id: u64, offset: u32, parts: &[&[u8]]) -> Result<(), Failure> {
        let bytes = parts.concat();
        if self.is_busy() {
            return Err(Failure::Busy);
        }
        let id = id as usize;
        assert_eq!(self.placed[id], offset, "bytes of an answer come once and in order");
        self.placed[id] += bytes.len() as u32;
        self.work[id].bytes[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    fn complete(&mut self, id: u64, status: Status) -> Result<(), Busy> {
        if self.is_busy() {
            return Err(Busy);
        }
        self.completed.push((id, status));
        Ok(())
    }
}

impl Target for Program {
    fn consume_receive(&mut self) -> Result<(), Refusal> {
        assert!(self.taken.is_none());
        if self.is_busy() {
            return Err(Refusal::Busy);
        }
        match self.receives.front() {
            Some(&(at, room)) if at <= self.now_ns => {
                self.receives.pop_front();
                self.taken = Some(vec![0; room]);
                Ok(())
            }
            _ => Err(Refusal::NotReady),
        }
    }

    fn scatter(&mut self, offset: u32, parts: &[&[u8]]) -> Result<(), Refusal> {
        let bytes = parts.concat();
        if self.is_busy() {
            return Err(Refusal::Busy);
        }
        let receive = self.taken.as_mut().unwrap();
        let end = offset as usize + bytes.len();
        let to = receive.get_mut(offset as usize..end).ok_or(Refusal::ReceiveTooSmall)?;
        to.copy_from_slice(&bytes);
        Ok(())
    }

    fn release_receive(&mut self) -> bool {
        if self.is_shared {
            self.taken = None;
            self.released += 1;
        }
        self.is_shared
    }

    fn complete(&mut self, completion: Completion) -> Result<(), Refusal> {
        use crate::transport::target::Received;
        if self.is_busy() {
            return Err(Refusal::Busy);
        }
        if self.received.len() == self.overflow_at {
            return Err(Refusal::Overflow);
        }
        if let Received::Send(SendEnd::Invalidate(key)) = completion.received {
            if !self.windows.remove(&key) {
                return Err(Refusal::Invalidate);
            }
        }
        let receive = self.taken.take().unwrap();
        self.received.push((completion, receive));
        Ok(())
    }

    fn check(&mut self, _: Access, remote: Remote, length: u32) -> Result<(), Refusal> {
        if self.is_busy() {
            return Err(Refusal::Busy);
        }
        self.range(remote, length as usize).map(|_| ())
    }

    fn read(&mut self, remote: Remote, parts: &mut [&mut [u8]]) -> Result<(), Refusal> {
        if self.is_busy() {
            return Err(Refusal::Busy);
        }
        let length = parts.iter().map(|part| part.len()).sum();
        let mut rest = &self.memory[self.range(remote, length)?];
        for part in parts {
            let (here, behind) = rest.split_at(part.len());
            part.copy_from_slice(here);
            rest = behind;
        }
        Ok(())
    }

    fn write(&mut self, remote: Remote, parts: &[&[u8]]) -> Result<(), Refusal> {
        let bytes = parts.concat();
        if self.is_busy() {
            return Err(Refusal::Busy);
        }
        let range = self.range(remote, bytes.len())?;
        self.memory[range].copy_from_slice(&bytes);
        Ok(())
    }

    fn atomic(&mut self, remote: Remote, atomic: Atomic) -> Result<u64, Refusal> {
        if self.is_busy() {
            return Err(Refusal::Busy);
        }
        let range = self.range(remote, 8)?;
        Ok(apply(&mut self.memory[range], atomic))
    }

    fn flush(&mut self, remote: Remote, length: u32, feth: Feth) -> Result<(), Refusal> {
        if self.is_busy() {
            return Err(Refusal::Busy);
        }
        self.range(remote, length as usize)?;
        self.flushed.push((remote, length, feth));
        Ok(())
    }

    fn fail(&mut self, reason: Refusal) -> Result<(), Busy> {
        assert_eq!(self.failed, None);
        if self.is_busy() {
            return Err(Busy);
        }
        self.failed = Some(reason);
        Ok(())
    }
}

/// An atomic operation, and the value before it.
pub(super) fn apply(cell: &mut [u8], atomic: Atomic) -> u64 {
    let old = u64::from_ne_bytes(cell.try_into().unwrap());
    let new = match atomic {
        Atomic::CompareSwap { compare, swap } if old == compare => swap,
        Atomic::CompareSwap { .. } => old,
        Atomic::FetchAdd(add) => old.wrapping_add(add),
        Atomic::Write(bytes) => u64::from_ne_bytes(bytes),
    };
    cell.copy_from_slice(&new.to_ne_bytes());
    old
}

pub(super) struct End {
    pub qp: QueuePair,
    /// Its requests.
    pub sender: Program,
    /// Its receives, and the memory that the peer uses.
    pub receiver: Program,
    /// When it looks at its queues again.
    wake_ns: Option<u64>,
}

impl End {
    pub fn requester(&self) -> &RcRequester {
        self.qp.reliable_requester().unwrap()
    }

    pub fn responder(&self) -> &RcResponder {
        self.qp.reliable_responder().unwrap()
    }
}

/// An end's way into the network.
pub(super) struct NetworkPort<'a> {
    pub network: &'a mut Network,
    pub random: &'a mut Random,
    pub busy: u32,
    pub now_ns: u64,
    pub to: usize,
}

impl PacketSender for NetworkPort<'_> {
    fn send<E: From<Busy>>(
        &mut self,
        packets: impl ExactSizeIterator<Item = (Headers, usize)> + Clone,
        fill: impl FnOnce(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.random.permille(self.busy) {
            return Err(Busy.into());
        }
        let mut payloads: Vec<_> = packets.clone().map(|(_, length)| vec![0; length]).collect();
        fill(&mut payloads.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())?;
        for ((headers, _), payload) in packets.zip(&payloads) {
            self.network.send(self.now_ns, self.to, &headers, payload);
        }
        Ok(())
    }
}

pub(super) struct World {
    pub ends: [End; 2],
    pub network: Network,
    pub now_ns: u64,
    random: Random,
    busy: u32,
    /// After each step somebody else goes on with the queue pair.
    pub hands_over: bool,
}

/// Somebody else goes on with a queue pair.
fn hand_over(qp: &mut QueuePair) {
    let mut buffer = vec![0; most_bytes(qp.attributes())];
    let bytes = qp.save(&mut buffer).expect("there is room for each state");
    let restored = QueuePair::restore(bytes).expect("each state is possible");
    let mut again = vec![0; bytes.len()];
    assert_eq!(restored.save(&mut again), Some(bytes));
    *qp = restored;
}

/// Attributes that lose no message in a network that is not too bad.
pub(super) fn attributes(mtu: Mtu, psn: u32) -> Attributes {
    Attributes {
        dest_qpn: Qpn::new(0x11),
        mtu,
        sq_psn: Psn::new(psn),
        rq_psn: Psn::new(psn),
        ack: AckTimer::new(5),
        retry_cnt: 7,
        rnr_retry: 7,
        min_rnr_timer: 3,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
    }
}

/// More steps than any test needs.
const MOST_STEPS: u64 = 400_000;

impl World {
    pub fn new(
        seed: u64,
        attributes: [Attributes; 2],
        faults: Faults,
        busy: u32,
        memory: usize,
    ) -> World {
        let mut random = Random::new(seed);
        let mut number = 0;
        let ends = attributes.map(|attributes| {
            number += 2;
            let mut qp = QueuePair::new(Service::Rc, attributes).unwrap();
            assert_eq!(qp.state(), State::Rtr);
            qp.modify_to_rts(attributes);
            End {
                qp,
                sender: Program::new(seed ^ number << 60, 0, busy),
                receiver: Program::new(seed ^ (number + 1) << 60, memory, busy),
                wake_ns: None,
            }
        });
        let network = Network::new(random.number(), faults);
        let hands_over = random.number() % 2 == 0;
        World { ends, network, now_ns: 0, random, busy, hands_over }
    }

    pub fn work(&mut self, end: usize, work: Vec<Work>) {
        let program = &mut self.ends[end].sender;
        program.placed = vec![0; work.len()];
        program.work = work;
        self.ends[end].wake_ns = Some(self.now_ns);
    }

    /// Until nothing happens any more.
    pub fn run(&mut self) {
        self.run_until(u64::MAX);
        for end in &self.ends {
            assert_eq!(end.qp.deadline(), None);
        }
        assert_eq!(self.network.next_arrival(), None);
    }

    pub fn run_until(&mut self, end_ns: u64) {
        for step in 0.. {
            assert!(step < MOST_STEPS, "it does not end");
            let timers = self.ends.iter().flat_map(|end| [end.wake_ns, end.qp.deadline()]);
            let next = timers.chain([self.network.next_arrival()]).flatten().min();
            match next {
                Some(at) if at <= end_ns => self.now_ns = self.now_ns.max(at),
                _ => return,
            }
            self.step();
        }
    }

    fn step(&mut self) {
        let now = self.now_ns;
        for end in &mut self.ends {
            end.receiver.now_ns = now;
        }
        // Packets that come a little later may be found together with these.
        let until = now + self.random.below(4_000);
        let arrived: Vec<_> = std::iter::from_fn(|| self.network.arrive(until)).collect();
        let packets: Vec<_> =
            arrived.iter().map(|(to, bytes)| (*to, Packet::parse(bytes).unwrap())).collect();
        let mut rest = &packets[..];
        while let Some((to, _)) = rest.first() {
            // Some of them come together.
            let most = 1 + self.random.below(8) as usize;
            let same = rest.iter().take_while(|(other, _)| other == to);
            let run: Vec<_> = same.take(most).map(|(_, packet)| *packet).collect();
            rest = &rest[run.len()..];
            let end = &mut self.ends[*to];
            end.qp.handle_packets(now, &run, &mut end.sender, &mut end.receiver);
            self.hands_over.then(|| hand_over(&mut end.qp));
            // Some more may come before it answers.
            end.wake_ns.get_or_insert(now + self.random.below(3_000));
        }
        for index in 0..2 {
            let end = &mut self.ends[index];
            let due = [end.wake_ns, end.qp.deadline()].into_iter().flatten().min();
            if due.is_some_and(|at| at <= now) {
                end.wake_ns = None;
                self.serve(index);
            }
        }
    }

    fn serve(&mut self, index: usize) {
        let World { ends, network, now_ns, random, busy, hands_over } = self;
        let end = &mut ends[index];
        let (now_ns, to) = (*now_ns, 1 - index);
        // Sometimes others have their turn before all is sent.
        let most = if random.permille(*busy) { 1 } else { usize::MAX };
        let mut port = NetworkPort { network, random, busy: *busy, now_ns, to };
        let has_more = end.qp.poll(now_ns, most, &mut port, &mut end.sender, &mut end.receiver);
        hands_over.then(|| hand_over(&mut end.qp));
        let is_busy = end.qp.retry_at.is_some();
        assert!(end.qp.deadline().is_none_or(|at| at > now_ns));
        assert!(is_busy || has_more || !end.requester().can_transmit());
        assert!(is_busy || has_more || !end.responder().can_transmit());
        assert!(is_busy || !end.requester().has_finished_requests());
        assert!(end.requester().kept() <= WINDOW as usize, "requests grow");
        assert!(end.responder().kept() <= 24, "answers grow: {}", end.responder().kept());
        // A busy target may be free sooner than the queue pair asks for it.
        if is_busy || has_more {
            end.wake_ns = Some(now_ns + 1_000);
        }
    }
}

/// A request for memory of the peer.
pub(super) fn request(id: u64, opcode: Opcode, length: u32) -> WorkRequest {
    WorkRequest { id, opcode, length, solicited: false, fence: false }
}

/// So many, or what `PROPTEST_CASES` says.
pub(super) fn cases(cases: u32) -> ProptestConfig {
    // Where nothing is optimised a part of them has to do.
    let cases = if cfg!(debug_assertions) { cases / 8 } else { cases };
    let config = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(cases),
    };
    ProptestConfig { failure_persistence: None, ..config }
}
