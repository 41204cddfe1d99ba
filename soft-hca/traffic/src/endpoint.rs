//! One end of a queue pair: goes through the rounds and checks what comes of them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use rdma_sys::{ibv_send_flags, ibv_sge, ibv_wc_opcode, ibv_wc_status, ibv_wr_opcode};
use serde::{Deserialize, Serialize};

use crate::area::{Area, Content, Piece};
use crate::error::{Error, Result, place};
use crate::pattern::Pattern;
use crate::plan::{Config, Kind, MAX_REQUESTS, Name, Planner, Request, Round, Service, WORD};
use crate::shared::SharedReceives;
use crate::verbs::{
    Address, Completion, Cq, Device, Qp, Region, Remote, SendRequest, empty_request, status_text,
};

/// Parts of an end's memory, in this order.
const SENT: u32 = 0;
const FETCHED: u32 = 1;
const ARRIVED: u32 = 2;
const READABLE: u32 = 3;
/// Has the word for compare and swap, and is smaller than the others.
const WORDS: u32 = 4;
const WORDS_BYTES: u32 = 64;

/// `wr_id` of the request that finds out that the peer has gone.
pub const PROBE: u64 = u64::MAX;
/// In the `wr_id` of receives.
const RECEIVE: u64 = 1 << 63;

/// The attributes of an end that the other side has to know.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct End {
    address: Address,
    memory: Remote,
}

/// One end of a queue pair.
pub struct Endpoint {
    pub name: Name,
    qp: Qp,
    region: Region,
    area_bytes: u32,
    backgrounds: [Pattern; 5],
    /// The peer's memory, and the word that all add to.
    remote: Option<(Remote, Remote)>,
    planner: Planner,
    /// Active in even rounds.
    is_first: bool,
    number: u64,
    current: Option<Round>,
    following: Option<Round>,
    /// Indices of the requests whose completions are to come.
    sends: VecDeque<usize>,
    /// The same for receives, of the round in which this is the passive end.
    receives: VecDeque<usize>,
    /// The sum that it has added to the peer's word.
    pub added: u64,
    /// Why it cannot go on.
    pub failure: Option<ibv_wc_status::Type>,
}

impl Endpoint {
    /// An end that is not connected yet. The client's ends begin.
    pub fn new(
        device: &Arc<Device>,
        config: &Config,
        name: Name,
        is_first: bool,
        cq: &Cq,
        shared: Option<&SharedReceives>,
    ) -> Result<Self> {
        let srq = shared.filter(|_| name.is_shared()).map(SharedReceives::srq);
        let qp = Qp::new(device, name.service(), cq, srq)?;
        let area_bytes = config.area_bytes(name.service());
        let region = Region::new(device, (WORDS * area_bytes + WORDS_BYTES) as usize)?;
        let background = |area: usize| {
            let of = [name.thread.into(), name.number.into(), is_first.into(), area as u64];
            Pattern::new(&[&[config.seed], &of[..]].concat())
        };
        let mut planner = Planner::new(config, name);
        let (current, following) = (planner.next(), planner.next());
        Ok(Self {
            name,
            qp,
            region,
            area_bytes,
            backgrounds: std::array::from_fn(background),
            remote: None,
            planner,
            is_first,
            number: 0,
            current,
            following,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            added: 0,
            failure: None,
        })
    }

    /// The attributes that the peer has to know.
    pub fn end(&self) -> End {
        End { address: self.qp.address(), memory: self.region.remote() }
    }

    /// Number of the queue pair.
    pub fn qpn(&self) -> u32 {
        self.qp.number()
    }

    /// Connects it and gets it ready for the first round.
    pub fn connect(&mut self, peer: &End, counter: Remote) -> Result<()> {
        self.qp.connect(&peer.address)?;
        self.remote = Some((peer.memory, counter));
        if !self.is_active() {
            self.receives = self.prepare(self.current.as_ref(), self.number)?;
        }
        Ok(())
    }

    /// Begins, or lets the peer do so.
    pub fn start(&mut self) -> Result<()> {
        match &self.current {
            Some(_) if self.is_active() => self.begin(),
            Some(round) if round.is_late => self.post_receives(round, self.number),
            _ => Ok(()),
        }
    }

    fn is_active(&self) -> bool {
        (self.number % 2 == 0) == self.is_first
    }

    /// Whether all rounds are over.
    pub fn is_done(&self) -> bool {
        self.current.is_none()
    }

    /// Whether only the peer can bring it forward.
    pub fn waits_for_peer(&self) -> bool {
        self.is_done() || self.sends.is_empty()
    }

    /// Events that have not come yet.
    pub fn waits_for(&self) -> String {
        let place = place(self.name, self.number);
        let (qpn, sends, receives) = (self.qpn(), &self.sends, &self.receives);
        format!("{place}, number {qpn}: not completed {sends:?}, not received {receives:?}")
    }

    fn area(&self, index: u32) -> Area<'_> {
        let bytes = if index == WORDS { WORDS_BYTES } else { self.area_bytes };
        let cells: &[Cell<u8>] = &self.region[(index * self.area_bytes) as usize..];
        Area { cells: &cells[..bytes as usize], background: self.backgrounds[index as usize] }
    }

    /// The passive end's memory and receives for a round; gives what is to be received.
    fn prepare(&self, round: Option<&Round>, number: u64) -> Result<VecDeque<usize>> {
        let Some(round) = round else { return Ok(VecDeque::new()) };
        self.area(ARRIVED).fill(&[]);
        self.area(READABLE).fill(&round.readable());
        self.area(WORDS).fill(&word(round.word_before));
        if !round.is_late {
            self.post_receives(round, number)?;
        }
        let requests = round.requests.iter().enumerate();
        Ok(requests.filter(|(_, r)| r.kind.is_received()).map(|(index, _)| index).collect())
    }

    fn post_receives(&self, round: &Round, number: u64) -> Result<()> {
        if self.name.is_shared() {
            return Ok(());
        }
        for (index, request) in round.requests.iter().enumerate() {
            if request.kind.is_received() {
                let mut sges = self.sges(ARRIVED, request, true);
                self.qp.receive(RECEIVE | wr_id(number, index), &mut sges)?;
            }
        }
        Ok(())
    }

    fn sges(&self, area: u32, request: &Request, of_receive: bool) -> Vec<ibv_sge> {
        let segments = if of_receive { &request.receive } else { &request.local };
        let sge = |offset, length| self.region.sge(area * self.area_bytes + offset, length);
        segments.iter().map(|segment| sge(segment.offset, segment.length)).collect()
    }

    /// Begins a round as the active end; what is needed for the next one, in which it is passive,
    /// is ready before the peer can know of this one.
    fn begin(&mut self) -> Result<()> {
        let Some(round) = &self.current else { return Ok(()) };
        self.receives = self.prepare(self.following.as_ref(), self.number + 1)?;
        self.area(SENT).fill(&round.outgoing());
        self.area(FETCHED).fill(&[]);
        let signaled = round.requests.iter().enumerate().filter(|(_, r)| r.is_signaled);
        self.sends = signaled.map(|(index, _)| index).collect();
        let mut list = Vec::new();
        for (index, request) in round.requests.iter().enumerate() {
            if !request.is_linked && !list.is_empty() {
                self.qp.send(&mut list)?;
                list.clear();
            }
            list.push(self.request(request, wr_id(self.number, index)));
        }
        self.qp.send(&mut list)?;
        self.added = self.added.wrapping_add(round.added());
        Ok(())
    }

    fn request(&self, request: &Request, wr_id: u64) -> SendRequest {
        let (memory, counter) = self.remote.expect("it is connected before it starts");
        let mut posted = empty_request();
        let area = if request.kind.is_outgoing() { SENT } else { FETCHED };
        posted.sges = self.sges(area, request, false);
        let wr = &mut posted.wr;
        wr.wr_id = wr_id;
        wr.imm_data_invalidated_rkey_union.imm_data = request.immediate.to_be();
        let flags = [
            (request.is_signaled, ibv_send_flags::IBV_SEND_SIGNALED),
            (request.is_solicited, ibv_send_flags::IBV_SEND_SOLICITED),
            (request.is_inline, ibv_send_flags::IBV_SEND_INLINE),
            (request.is_fenced, ibv_send_flags::IBV_SEND_FENCE),
        ];
        wr.send_flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag.0).sum();
        let part = |index: u32| u64::from(index * self.area_bytes);
        let in_part = |index| memory.addr + part(index) + u64::from(request.remote.offset);
        wr.opcode = match request.kind {
            Kind::Send => ibv_wr_opcode::IBV_WR_SEND,
            Kind::SendWithImm => ibv_wr_opcode::IBV_WR_SEND_WITH_IMM,
            Kind::Write => ibv_wr_opcode::IBV_WR_RDMA_WRITE,
            Kind::WriteWithImm => ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
            Kind::Read => ibv_wr_opcode::IBV_WR_RDMA_READ,
            Kind::FetchAdd(_) => ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD,
            Kind::CompareSwap { .. } => ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP,
        };
        match request.kind {
            Kind::Send | Kind::SendWithImm => {}
            Kind::Write | Kind::WriteWithImm | Kind::Read => {
                let area = if request.kind == Kind::Read { READABLE } else { ARRIVED };
                wr.wr.rdma = rdma_sys::rdma_t { remote_addr: in_part(area), rkey: memory.rkey };
            }
            Kind::FetchAdd(number) => {
                wr.wr.atomic = rdma_sys::atomic_t {
                    remote_addr: counter.addr,
                    compare_add: number,
                    swap: 0,
                    rkey: counter.rkey,
                };
            }
            Kind::CompareSwap { compare, swap, .. } => {
                wr.wr.atomic = rdma_sys::atomic_t {
                    remote_addr: in_part(WORDS),
                    compare_add: compare,
                    swap,
                    rkey: memory.rkey,
                };
            }
        }
        posted
    }

    /// A completion of this queue pair's. Gives bytes and requests of the rounds that end with it.
    pub fn completed(
        &mut self,
        completion: &Completion,
        shared: Option<&SharedReceives>,
    ) -> Result<(u64, u64)> {
        match completion.status {
            ibv_wc_status::IBV_WC_SUCCESS => {}
            // The peer has gone, or it has not: the worker will know.
            ibv_wc_status::IBV_WC_RETRY_EXC_ERR if self.name.service() == Service::Rc => {
                self.failure = Some(completion.status);
                return Ok((0, 0));
            }
            ibv_wc_status::IBV_WC_WR_FLUSH_ERR if self.name.service() == Service::Rc => {
                self.failure.get_or_insert(completion.status);
                return Ok((0, 0));
            }
            status => return Err(self.unexpected(&status_text(status))),
        }
        if completion.opcode & ibv_wc_opcode::IBV_WC_RECV != 0 {
            self.received(completion, shared)?;
        } else {
            self.sent(completion)?;
        }
        self.advance()
    }

    fn sent(&mut self, completion: &Completion) -> Result<()> {
        let expected = self.sends.pop_front().zip(self.current.as_ref());
        let Some((index, round)) = expected else {
            return Err(self.unexpected(&format!("nothing was to complete: {completion:?}")));
        };
        let opcode = match round.requests[index].kind {
            Kind::Send | Kind::SendWithImm => ibv_wc_opcode::IBV_WC_SEND,
            Kind::Write | Kind::WriteWithImm => ibv_wc_opcode::IBV_WC_RDMA_WRITE,
            Kind::Read => ibv_wc_opcode::IBV_WC_RDMA_READ,
            Kind::FetchAdd(_) => ibv_wc_opcode::IBV_WC_FETCH_ADD,
            Kind::CompareSwap { .. } => ibv_wc_opcode::IBV_WC_COMP_SWAP,
        };
        if (completion.wr_id, completion.opcode) == (wr_id(self.number, index), opcode) {
            return Ok(());
        }
        Err(self.unexpected(&format!("request {index} with opcode {opcode}: {completion:?}")))
    }

    fn received(&mut self, completion: &Completion, shared: Option<&SharedReceives>) -> Result<()> {
        // It may be for the next round, while completions of this one are still to come.
        let (number, round) = if self.is_active() {
            (self.number + 1, self.following.as_ref())
        } else {
            (self.number, self.current.as_ref())
        };
        let Some((index, round)) = self.receives.pop_front().zip(round) else {
            return Err(self.unexpected(&format!("nothing was to arrive: {completion:?}")));
        };
        let request = &round.requests[index];
        let opcode = match request.kind {
            Kind::WriteWithImm => ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM,
            _ => ibv_wc_opcode::IBV_WC_RECV,
        };
        let immediate = (request.kind != Kind::Send).then_some(request.immediate);
        let length = round.header() + request.length;
        let found = (completion.opcode, completion.length, completion.immediate);
        let is_own = self.name.is_shared() || completion.wr_id == RECEIVE | wr_id(number, index);
        if !is_own || found != (opcode, length, immediate) {
            let expected = format!("{length} bytes of request {index} with {immediate:?}");
            return Err(self.unexpected(&format!("{expected}: {completion:?}")));
        }
        if let Some(shared) = shared.filter(|_| self.name.is_shared()) {
            let in_slot = if request.kind.is_send() { request.length } else { 0 };
            shared.received(completion.wr_id, in_slot, request.text).map_err(|mismatch| {
                let what = "a shared receive";
                Error::Mismatch { name: self.name, round: number, what, mismatch }
            })?;
            shared.post(completion.wr_id)?;
        }
        Ok(())
    }

    /// Goes on to the next rounds, as far as everything of this one has come.
    fn advance(&mut self) -> Result<(u64, u64)> {
        let (mut bytes, mut requests) = (0, 0);
        while let Some(round) = &self.current {
            if self.is_active() {
                if !self.sends.is_empty() {
                    break;
                }
                self.check(FETCHED, "what was fetched", &round.fetched())?;
                self.check(SENT, "what was sent", &round.outgoing())?;
                if let Some(late) = self.following.as_ref().filter(|round| round.is_late) {
                    self.post_receives(late, self.number + 1)?;
                }
            } else {
                if !self.receives.is_empty() {
                    break;
                }
                self.check(ARRIVED, "what has arrived", &round.arrived())?;
                self.check(READABLE, "what was read", &round.readable())?;
                self.check(WORDS, "compare and swap", &word(round.word_after))?;
            }
            bytes += round.bytes();
            requests += round.requests.len() as u64;
            self.current = std::mem::replace(&mut self.following, self.planner.next());
            self.number += 1;
            if self.is_active() {
                self.begin()?;
            }
        }
        Ok((bytes, requests))
    }

    fn check(&self, area: u32, what: &'static str, pieces: &[Piece]) -> Result<()> {
        self.area(area).check(pieces).map_err(|mismatch| Error::Mismatch {
            name: self.name,
            round: self.number,
            what,
            mismatch,
        })
    }

    fn unexpected(&self, text: &str) -> Error {
        Error::Completion { name: self.name, round: self.number, text: text.to_string() }
    }

    /// Posts a request that a peer which has gone cannot answer.
    pub fn probe(&self) -> Result<()> {
        let mut probe = empty_request();
        probe.wr.wr_id = PROBE;
        probe.wr.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
        probe.wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        self.qp.send(&mut [probe])
    }
}

/// At most one request of each index is under way.
const _: () = assert!(MAX_REQUESTS <= 256);

fn wr_id(round: u64, index: usize) -> u64 {
    round << 8 | index as u64
}

fn word(value: u64) -> [Piece; 1] {
    [Piece { segment: WORD, content: Content::Word(value) }]
}
