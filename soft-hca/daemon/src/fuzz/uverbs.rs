//! Commands of two programs, requests in their rings and doorbells between: every refusal has an
//! error of the kernel's, handles and the arena's tables agree after each step, memory that was
//! not registered stays as it is, and closing both files leaves nothing.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, LazyLock};

use arbitrary::{Result, Unstructured};
use soft_hca_core::arena::{Entry, HEAP_BYTES, HEAP_START, Qp, RingLocation, Word};
use soft_hca_core::engine::Actor;
use soft_hca_core::ring;
use soft_hca_core::rpc::{FileKind, Hello};
use soft_hca_core::system::page_bytes;
use soft_hca_core::uapi::rxe::{Sge, Wr};
use soft_hca_core::uapi::uverbs::{Command, command};
use soft_hca_core::uapi::verbs::{QpAttrMask, qp_type, state};

use crate::device::Device;
use crate::fabric::{Fabric, InUse};
use crate::fuzz::shapes;
use crate::uverbs::object::Kind;
use crate::uverbs::{Object, UverbsFile};

/// Errors that `uverbs_cmd.c` and rxe answer with.
const ERRORS: [i32; 9] = [
    libc::EINVAL,
    libc::ENOENT,
    libc::EBUSY,
    libc::ENOMEM,
    libc::ENOSPC,
    libc::EOPNOTSUPP,
    libc::ENODATA,
    libc::ETIMEDOUT,
    libc::EBADF,
];

/// Bytes of memory to register, between as many that stay as they are on either side.
const REGION: usize = 4096;
/// The content of memory that is not registered.
const UNTOUCHED: u8 = 0xaa;

/// The word that a process shows to those who want to reach its memory.
static NONCE: u64 = 0x1234_5678_9abc_def1;
/// Asked of the system once.
static DEVICE: LazyLock<Arc<Device>> =
    LazyLock::new(|| Arc::new(Device::local("rxe0", 0xf073_5cff_fed2_226d, &[])));

struct Case {
    fabric: Fabric,
    files: [UverbsFile; 2],
    memory: Vec<u8>,
    keys: Vec<u32>,
    /// Nobody has written to the tables.
    tables_are_whole: bool,
}

/// Any bytes.
pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let mut case = Case::new();
    if u.arbitrary().unwrap_or(false) {
        case.furnish();
    }
    while !u.is_empty() && case.step(&mut u).is_ok() {
        case.check();
    }
    case.end();
}

/// The words of a payload, by their offsets.
fn payload(length: usize, words: &[(usize, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for &(at, word) in words {
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

impl Case {
    fn new() -> Self {
        let mut fabric = Fabric::new(vec![Arc::clone(&DEVICE)], || 0)
            .expect("the system has memory for an arena");
        let nonce_addr = (&raw const NONCE).expose_provenance() as u64;
        let files = [1, 2].map(|id| {
            // One process twice: the name by which the data path knows it is the nonce's place.
            let hello = Hello { kind: FileKind::Uverbs(0), nonce_addr, nonce: u64::from(id) };
            let pid = std::process::id();
            let (proc, _) = fabric.processes.open(pid, &hello).expect("there is room for two");
            fabric.announce(proc, pid, hello.nonce_addr, NONCE);
            UverbsFile::new(proc, id, Arc::clone(&DEVICE))
        });
        let memory = vec![UNTOUCHED; 3 * REGION];
        Self { fabric, files, memory, keys: vec![0], tables_are_whole: true }
    }

    fn start(&mut self) -> u64 {
        self.memory.as_mut_ptr().expose_provenance() as u64 + REGION as u64
    }

    /// Gives both files what a program usually has: handles 0 to 5 are a protection domain, a
    /// completion queue, a shared receive queue, two queue pairs, a region.
    fn furnish(&mut self) {
        let start = self.start();
        for at in 0..2 {
            let queue_pair =
                [(8 + 12, 1), (8 + 16, 1), (32, 16), (36, 16), (40, 4), (44, 4), (52, 2 << 8)];
            let region = [
                (8, start as u32),
                (12, (start >> 32) as u32),
                (16, REGION as u32),
                (24, start as u32),
                (28, (start >> 32) as u32),
                (36, 0x1f),
            ];
            for (number, length, words) in [
                (command::GET_CONTEXT, 8, &[][..]),
                (command::ALLOC_PD, 8, &[]),
                (command::CREATE_CQ, 32, &[(16, 31), (24, u32::MAX)]),
                (command::CREATE_SRQ, 32, &[(20, 8), (24, 2)]),
                (command::CREATE_QP, 56, &queue_pair),
                (command::CREATE_QP, 56, &queue_pair),
                (command::REG_MR, 40, &region),
            ] {
                self.write(at, &shapes::encode(number, &payload(length, words), 100))
                    .expect("a usual command is done");
            }
            let qpn = |i| soft_hca_core::arena::FIRST_QPN + i;
            self.bring_up(at, 3, qpn([2, 0][at]));
            self.bring_up(at, 4, qpn([3, 1][at]));
        }
    }

    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let at = u.choose_index(2)?;
        match u.int_in_range(0..=15)? {
            0..=5 => {
                let bytes = shapes::command(u, &DEVICE.ports[0].gids)?;
                let _ = self.write(at, &bytes);
            }
            6 => {
                let length = usize::min(u.int_in_range(0..=130)?, u.len());
                let _ = self.write(at, u.bytes(length)?);
            }
            7 => self.bring_up(at, u.int_in_range(0..=11)?, u32::from(u.arbitrary::<u8>()?) % 24),
            8 | 9 => self.post_send(u, at)?,
            10 => self.post_receive(u, at)?,
            11 => self.doorbell(u, at)?,
            12 => self.as_daemon(u)?,
            13 => drop(self.files[at].pop_async()),
            14 if u.ratio(1, 8)? => self.lie(u)?,
            15 if u.ratio(1, 8)? => self.reopen(at),
            _ => self.poll(u)?,
        }
        Ok(())
    }

    /// One command, if a program could give it: what it registers the client has found to be its
    /// own memory.
    fn write(&mut self, at: usize, written: &[u8]) -> soft_hca_core::errno::Result<()> {
        let mut written = written.to_vec();
        let parsed = Command::parse(&written).ok();
        let number = parsed.map(|command| command.number);
        if number == Some(command::REG_MR) && written.len() >= 8 + 40 {
            self.make_harmless(&mut written);
        }
        let outcome = self.files[at].command(&mut self.fabric, &written);
        match outcome {
            Ok(outcome) => {
                let answer = outcome.answer;
                if matches!(number, Some(command::REG_MR | command::ALLOC_MW)) {
                    self.keys.push(u32::from_le_bytes(answer[4..8].try_into().expect("4 bytes")));
                }
                Ok(())
            }
            Err(error) => {
                assert!(ERRORS.contains(&error.number()), "{error:?}");
                assert!(error.reason().is_some(), "{number:?}: {error:?} for no reason");
                Err(error)
            }
        }
    }

    /// Moves a region that is to be registered into our memory, or to where none is.
    fn make_harmless(&mut self, written: &mut [u8]) {
        let long = |at: usize| u64::from_le_bytes(written[at..at + 8].try_into().expect("8 bytes"));
        let (start, length) = (long(16), long(24));
        if start < 1 << 63 {
            let offset = start % REGION as u64;
            let length = length.min(REGION as u64 - offset);
            let start = self.start() + offset;
            written[16..24].copy_from_slice(&start.to_le_bytes());
            written[24..32].copy_from_slice(&length.to_le_bytes());
        }
    }

    /// Takes a queue pair from any state to RTS.
    fn bring_up(&mut self, at: usize, handle: u32, dest: u32) {
        let Ok(index) = self.files[at].handles.index(handle, Kind::Qp) else { return };
        let kind = self.fabric.arena.qps[index].qp_type.load(Acquire);
        let (init, rtr, rts) = match kind {
            qp_type::RC => (QpAttrMask::INIT, QpAttrMask::RTR_RC, QpAttrMask::RTS_RC),
            qp_type::UC => (QpAttrMask::INIT, QpAttrMask::RTR_UC, QpAttrMask::RTS),
            _ => (QpAttrMask::INIT_UD, QpAttrMask::STATE, QpAttrMask::RTS),
        };
        for (to, attributes) in [
            (state::RESET, QpAttrMask::STATE),
            (state::INIT, init),
            (state::RTR, rtr),
            (state::RTS, rts),
        ] {
            let mut bytes =
                payload(112, &[(64, handle), (68, attributes.bits()), (84, dest), (88, 0xf)]);
            bytes[..16].copy_from_slice(&DEVICE.ports[0].gids.gid(1));
            for (at, byte) in
                [(24, 1), (30, 1), (31, 1), (96, to as u8), (98, 3), (101, 2), (102, 2)]
            {
                bytes[at] = byte;
            }
            for (at, byte) in [(103, 12), (104, 1), (105, 14), (106, 2), (107, 2)] {
                bytes[at] = byte;
            }
            let outcome = self.write(at, &shapes::encode(command::MODIFY_QP, &bytes, 0));
            assert!(outcome.is_ok() || !self.tables_are_whole, "{to}: {outcome:?}");
        }
    }

    /// One of a file's queue pairs.
    fn pick_qp(&self, u: &mut Unstructured<'_>, at: usize) -> Result<Option<&Qp>> {
        let handles = self.files[at].handles.of_kind(Kind::Qp);
        if handles.is_empty() {
            return Ok(None);
        }
        let index = self.files[at].handles.index(*u.choose(&handles)?, Kind::Qp);
        Ok(index.ok().map(|index| &self.fabric.arena.qps[index]))
    }

    fn sge(&mut self, u: &mut Unstructured<'_>) -> Result<Sge> {
        let addr = self.address(u)?;
        Ok(Sge { addr, length: u.int_in_range(0..=600)?, lkey: *u.choose(&self.keys)? })
    }

    fn address(&mut self, u: &mut Unstructured<'_>) -> Result<u64> {
        let start = self.start();
        Ok(match u.arbitrary::<u8>()? {
            0xff => u.arbitrary()?,
            0xfe => 0,
            at => start - 64 + u64::from(at) * 20,
        })
    }

    fn post_send(&mut self, u: &mut Unstructured<'_>, at: usize) -> Result<()> {
        let mut wr = Wr::new(u.arbitrary::<u8>()?.into(), u.int_in_range(0..=16)?);
        wr.flags = u.int_in_range(0..=7)?;
        for _ in 0..u.int_in_range(0..=2)? {
            wr = wr.sge(self.sge(u)?);
        }
        let (addr, key) = (self.address(u)?, *u.choose(&self.keys)?);
        wr = match u.int_in_range(0..=3)? {
            0 => wr.atomic(addr, key, u.arbitrary::<u8>()?.into(), 1),
            1 => wr.long(24, addr).long(32, 64).word(40, key).word(44, *u.choose(&self.keys)?),
            2 => wr.word(24, 0x11 + u.int_in_range(0..=6)?).word(32, u.int_in_range(0..=3)?),
            _ => wr.remote(addr, key),
        };
        let Some(qp) = self.pick_qp(u, at)? else { return Ok(()) };
        if let Some(ring) = self.fabric.arena.ring(&qp.sq).filter(|ring| !ring.is_full()) {
            let producer = ring.producer();
            wr.write(&ring.slot(producer));
            ring.set_producer(ring.advance(producer, 1));
        }
        Ok(())
    }

    fn post_receive(&mut self, u: &mut Unstructured<'_>, at: usize) -> Result<()> {
        let sge = self.sge(u)?;
        let Some(qp) = self.pick_qp(u, at)? else { return Ok(()) };
        let shared = (qp.srq.load(Acquire) as usize).checked_sub(1);
        let shared = shared.and_then(|index| self.fabric.arena.srqs.get(index));
        let place = shared.map_or(&qp.rq, |srq| &srq.ring);
        if let Some(ring) = self.fabric.arena.ring(place) {
            if !ring.is_full() {
                let slot = ring.slot(ring.producer());
                slot.set_u64(0, 1);
                slot.set_u32(16, sge.length);
                slot.set_u32(28, 1);
                slot.set_u64(40, sge.addr);
                slot.set_u64(48, u64::from(sge.length) | u64::from(sge.lkey) << 32);
                ring.set_producer(ring.advance(ring.producer(), 1));
            }
        }
        Ok(())
    }

    fn doorbell(&mut self, u: &mut Unstructured<'_>, at: usize) -> Result<()> {
        if let Some(qp) = self.pick_qp(u, at)? {
            let actor = Actor { me: self.files[at].proc, ..self.fabric.actor() };
            if let Err(error) = actor.doorbell(qp.live.load(Acquire)) {
                assert!(ERRORS.contains(&error.number()), "{error:?}");
            }
        }
        Ok(())
    }

    /// Runs the work that was left to the daemon.
    fn as_daemon(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        for (qpn, _) in self.fabric.env.take_rescheduled() {
            self.fabric.actor().run_send_queue(qpn);
        }
        self.fabric.env.take_raised();
        self.fabric.actor().poll_error_receives_of(0x11 + u.int_in_range(0..=5)?);
        Ok(())
    }

    /// Takes completions from a queue, and arms it.
    fn poll(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let index = u.int_in_range(0..=3)?;
        if let Some(ring) = self.fabric.arena.ring(&self.fabric.arena.cqs[index].ring) {
            ring.set_consumer(ring.producer());
        }
        self.fabric.actor().arm(index as u32, u.arbitrary()?);
        Ok(())
    }

    /// Writes to any word of the tables but locks, as a program with the arena can. Regions and ids
    /// of processes are written, too: copies go by the registry.
    fn lie(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        self.tables_are_whole = false;
        let arena = &self.fabric.arena;
        let value = match u.int_in_range(0..=3)? {
            0 => u.arbitrary()?,
            1 => u64::MAX - 4095,
            2 => (HEAP_START + page_bytes() * u.choose_index(16)?) as u64,
            _ => u.arbitrary::<u8>()?.into(),
        };
        let index = u.choose_index(4)?;
        let words = match u.int_in_range(0..=9)? {
            0 => arena.cqs[index].words(),
            1 => arena.srqs[index].words(),
            2 => arena.channels[index].words(),
            3 => arena.members[index].words(),
            4 => arena.ahs[index].words(),
            5 => {
                let marks =
                    [&arena.members_used, &arena.mrs_used, &arena.qps_used, &arena.cqs_used];
                let others = [&arena.srqs_used, &arena.qpn_base, &arena.key_base, &arena.ipv4];
                marks.into_iter().chain(others).map(Word::Word).collect()
            }
            6 => arena.mrs[index].words(),
            7 => arena.procs[index].words(),
            _ => arena.qps[index].words(),
        };
        u.choose(&words)?.store(value);
        Ok(())
    }

    fn reopen(&mut self, at: usize) {
        let (proc, id) = (self.files[at].proc, self.files[at].id);
        self.files[at].close(&mut self.fabric).expect("nobody has a lock");
        self.files[at] = UverbsFile::new(proc, id, Arc::clone(&DEVICE));
    }

    /// Handles, tables and the heap agree.
    fn check(&self) {
        let arena = &self.fabric.arena;
        let (mut counted, mut entries) = (InUse::default(), HashSet::new());
        let mut rings = Vec::new();
        for file in &self.files {
            counted.channels += file.channels.len();
            for (_, object) in file.handles.iter() {
                if let Some(pd) = object.uses_pd() {
                    let is_it = |(_, other): (u32, Object)| other == Object::Pd { pd };
                    assert!(file.handles.iter().any(is_it), "{object:?} has no domain");
                }
                assert!(entries.insert(format!("{object:?}")), "{object:?} twice");
                let (live, proc) = match object {
                    Object::Pd { .. } => continue,
                    Object::Mr { index, .. } | Object::Mw { index, .. } => {
                        counted.mrs += 1;
                        (&arena.mrs[index].live, &arena.mrs[index].proc)
                    }
                    Object::Ah { index, .. } => {
                        counted.ahs += 1;
                        (&arena.ahs[index].live, &arena.ahs[index].proc)
                    }
                    Object::Cq { index } => {
                        counted.cqs += 1;
                        rings.extend([&arena.cqs[index].ring, &arena.cqs[index].eager]);
                        (&arena.cqs[index].live, &arena.cqs[index].proc)
                    }
                    Object::Srq { index, .. } => {
                        counted.srqs += 1;
                        rings.push(&arena.srqs[index].ring);
                        (&arena.srqs[index].live, &arena.srqs[index].proc)
                    }
                    Object::Qp { index, .. } => {
                        counted.qps += 1;
                        rings.extend([&arena.qps[index].sq, &arena.qps[index].rq]);
                        (&arena.qps[index].live, &arena.qps[index].proc)
                    }
                };
                assert!(live.load(Acquire) != 0 || !self.tables_are_whole, "{object:?}");
                let is_ours = proc.load(Acquire) as usize == file.proc;
                assert!(is_ours || !self.tables_are_whole, "{object:?}");
            }
        }
        let in_use = self.fabric.in_use();
        if self.tables_are_whole {
            counted.ring_bytes = check_apart(&rings);
        } else {
            counted.ring_bytes = in_use.ring_bytes;
        }
        assert_eq!(in_use, counted);
    }

    fn end(mut self) {
        for file in &mut self.files {
            file.close(&mut self.fabric).expect("nobody has a lock");
            let _ = self.fabric.close_process(file.proc);
        }
        self.fabric.check_empty();
        let (before, rest) = self.memory.split_at(REGION);
        assert!(before.iter().all(|byte| *byte == UNTOUCHED), "bytes before the region changed");
        let after = &rest[REGION..];
        assert!(after.iter().all(|byte| *byte == UNTOUCHED), "bytes behind the region changed");
    }
}

/// Rings share no memory and lie in the heap. Gives how much they have.
fn check_apart(rings: &[&RingLocation]) -> usize {
    let mut ranges: Vec<(usize, usize)> = rings
        .iter()
        .filter(|place| place.offset.load(Acquire) != 0)
        .map(|place| {
            let bytes = ring::bytes(place.mask.load(Acquire), place.log2_slot.load(Acquire));
            let bytes = bytes.expect("a ring has a size").next_multiple_of(page_bytes());
            (place.offset.load(Acquire) as usize, bytes)
        })
        .collect();
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{ranges:?}");
    assert!(ranges.iter().all(|(start, bytes)| {
        *start >= HEAP_START && start + bytes <= HEAP_START + HEAP_BYTES
    }));
    ranges.iter().map(|(_, bytes)| bytes).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Release;

    use super::*;

    /// A program that has the arena can write to its tables. What the daemon gives back when the
    /// program has gone does not depend on them.
    #[test]
    fn what_the_tables_say_is_not_what_is_given_back() {
        let mut case = Case::new();
        case.furnish();
        let queue_pair =
            [(8 + 12, 1), (8 + 16, 1), (32, 1), (36, 1), (40, 1), (44, 1), (52, 4 << 8)];
        let created = shapes::encode(command::CREATE_QP, &payload(56, &queue_pair), 100);
        assert_eq!(case.write(0, &created), Ok(()));
        let mut group = payload(24, &[(16, 6)]);
        group[0] = 0xff;
        assert_eq!(case.write(0, &shapes::encode(command::ATTACH_MCAST, &group, 0)), Ok(()));
        let arena = &case.fabric.arena;
        let places = [&arena.qps[0].sq, &arena.qps[0].rq, &arena.cqs[0].ring, &arena.srqs[0].ring];
        for (place, offset) in places.into_iter().zip([0, 4096, u64::MAX - 4095, 1 << 40]) {
            place.offset.store(offset, Release);
            place.mask.store(u32::MAX, Release);
            place.log2_slot.store(99, Release);
        }
        arena.members[0].live.store(0, Release);
        arena.srqs[0].max_sge.store(u32::MAX, Release);
        // Neither in the way of other commands.
        let resize = |number, length, words| shapes::encode(number, &payload(length, words), 100);
        assert_eq!(case.write(0, &resize(command::RESIZE_CQ, 16, &[(8, 1), (12, 100)])), Ok(()));
        let _ = case.write(0, &resize(command::MODIFY_SRQ, 24, &[(0, 2), (4, 1), (8, 100)]));
        case.tables_are_whole = false;
        case.end();
    }
}
