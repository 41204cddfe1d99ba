//! `--strict`: this program's work requests are executed by the daemon, as late as is legal
//! (`soft_hca_core::engine`), its queues hold exactly what was asked for, and its completions are polled
//! late.
//!
//! | file | what |
//! | --- | --- |
//! | `depth` | how many requests are in a queue, going by what was posted and polled |
//! | `late` | which polls find nothing yet, and which threads are stopped |
//! | `wait` | threads that wait |
//!
//! The functions between ours and the provider's that ask here are in `hook::layer`.
//!
//! Whether a program is run so is decided once, before its first object is there. Otherwise nothing of this
//! is on any way.

mod choices;
pub(super) mod depth;
pub(super) mod late;
pub(super) mod wait;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::mem::offset_of;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use soft_hca_core::arena::Mapping;
use soft_hca_core::config;
use soft_hca_core::errno::Result;
use soft_hca_core::rpc::{Answer, Created, LateEvents};
use soft_hca_core::uapi::uverbs::answer;
use soft_hca_core::uapi::uverbs::{Command, command, request};
use soft_hca_core::uapi::verbs::{QpAttrMask, SrqAttrMask, state};

use soft_hca_verbs::Choice;
use zerocopy::FromBytes;

use crate::client::process;
use choices::choices;
use depth::{Depths, RequestedDepth, depths};

/// The seed of this program, if it is run strictly. The two sides of a connection, two programs, get
/// different ones of the same number.
pub(super) fn seed() -> Option<u64> {
    static SEED: OnceLock<Option<u64>> = OnceLock::new();
    *SEED.get_or_init(|| {
        let seed = config::strict()?.seed;
        let mut hasher = DefaultHasher::new();
        (seed, std::env::current_exe().ok()).hash(&mut hasher);
        Some(hasher.finish())
    })
}

/// Whether sleeps of this program go by the fabric's clock.
static SKIPS_SLEEPS: AtomicBool = AtomicBool::new(false);

/// The process begins.
pub(super) fn starts() {
    let skips = config::skips_sleeps() && config::strict().is_some();
    SKIPS_SLEEPS.store(skips, Relaxed);
}

/// Whether sleeps of this program go by the fabric's clock.
#[inline]
pub fn skips_sleeps() -> bool {
    SKIPS_SLEEPS.load(Relaxed)
}

/// Sleeps by the fabric's clock, if this process is in a fabric whose time is computed. An error has the rest, after a signal.
pub fn sleep(time: Duration) -> Option<Result<(), Duration>> {
    wait::sleep(process::current()?, time)
}

/// Whether this program is run strictly.
pub(super) fn is_on() -> bool {
    seed().is_some()
}

/// Objects get seeds in the order in which they are created.
static CREATED: AtomicU64 = AtomicU64::new(0);

/// The seed of the next object; not 0.
fn next_seed(seed: u64) -> u64 {
    let number = CREATED.fetch_add(1, AcqRel) + 1;
    seed.wrapping_add(number.wrapping_mul(0xd134_2543_de82_ef95)) | 1
}

/// How events of the next file of the connection manager are put off, if this program is run strictly and has that.
pub(super) fn late_events() -> Option<LateEvents> {
    let seed = NonZeroU64::new(next_seed(seed()?))?;
    choices().of(Choice::Event).map(|numbers| LateEvents { seed, numbers })
}

/// The objects that the handles in a command name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Named {
    /// The queue pair's number, 0 for none.
    pub qpn: u32,
    /// The indices of the completion queues: of a queue pair those for sends and for receives.
    pub cqs: [Option<u32>; 2],
    /// The index of the shared receive queue.
    pub srq: Option<u32>,
}

/// A queue was armed, or an event of it was taken.
pub(super) fn owe(arena: &Mapping, cq: u32) {
    if is_on() {
        late::owe(arena, cq);
    }
}

pub(super) use late::before_arming;

/// Takes note of what a command has created or changed, and has its answer say what holds for this program.
pub(super) fn note(
    arena: &Mapping,
    named: &Named,
    command: &Command<'_>,
    answer: &mut Answer,
) -> Result<()> {
    seed().map_or(Ok(()), |seed| note_with(seed, arena, named, command, answer))
}

fn note_with(
    seed: u64,
    arena: &Mapping,
    named: &Named,
    command: &Command<'_>,
    answer: &mut Answer,
) -> Result<()> {
    let mut depths = depths();
    let Answer { created, bytes, .. } = answer;
    match (command.number, &*created) {
        (command::CREATE_CQ, Some(Created::Cq { index, .. })) => {
            hold(arena, *index, command.request::<request::CreateCq>()?.cqe, bytes, 4);
            late::begin(*index, next_seed(seed), true);
        }
        (command::EX_CREATE_CQ, Some(Created::Cq { index, .. })) => {
            hold(arena, *index, command.request::<request::ExCreateCq>()?.cqe, bytes, 4);
            late::begin(*index, next_seed(seed), false);
        }
        (command::RESIZE_CQ, _) => {
            if let Some(index) = named.cqs[0] {
                hold(arena, index, command.request::<request::ResizeCq>()?.cqe, bytes, 0);
            }
        }
        (command::CREATE_QP, Some(Created::Qp { qpn, .. })) => {
            let requested = command.request::<request::CreateQp>()?.into();
            begin(arena, named, &requested, ((*qpn).into(), bytes), next_seed(seed), &mut depths);
        }
        (command::EX_CREATE_QP, Some(Created::Qp { qpn, .. })) => {
            let requested = command.request()?;
            begin(arena, named, &requested, ((*qpn).into(), bytes), next_seed(seed), &mut depths);
        }
        (command::MODIFY_QP, _) => {
            let requested = command.request::<request::ModifyQp>()?;
            let given = QpAttrMask::from_bits_retain(requested.attr_mask);
            if given.contains(QpAttrMask::STATE) && u32::from(requested.qp_state) == state::RESET {
                depths.reset(named.qpn);
            }
        }
        (command::QUERY_QP, _) => {
            if let Some(requested) = depths.requested(named.qpn) {
                for (at, value) in [
                    (offset_of!(answer::QueryQp, max_send_wr), requested.max_send_wr),
                    (offset_of!(answer::QueryQp, max_recv_wr), requested.max_recv_wr),
                    (offset_of!(answer::QueryQp, max_send_sge), requested.max_send_sge),
                    (offset_of!(answer::QueryQp, max_recv_sge), requested.max_recv_sge),
                    (offset_of!(answer::QueryQp, max_inline_data), requested.max_inline_data),
                ] {
                    put(bytes, at, value);
                }
            }
        }
        (command::DESTROY_QP, _) => depths.forget(named.qpn),
        (command::CREATE_SRQ, _) => {
            let max_wr = command.request::<request::CreateSrq>()?.max_wr;
            let created = answer::CreateSrq::read_from_prefix(bytes);
            if let Ok((created, _)) = created {
                // Their numbers begin with 1.
                depths.begin_shared(created.srqn.wrapping_sub(1), max_wr);
                put(bytes, offset_of!(answer::CreateSrq, max_wr), max_wr);
            }
        }
        (command::MODIFY_SRQ, _) => {
            let requested = command.request::<request::ModifySrq>()?;
            let given = SrqAttrMask::from_bits_retain(requested.attr_mask);
            if let Some(srq) = named.srq.filter(|_| given.contains(SrqAttrMask::MAX_WR)) {
                depths.resize_shared(srq, requested.max_wr);
            }
        }
        (command::QUERY_SRQ, _) => {
            if let Some(max_wr) = named.srq.and_then(|srq| depths.shared(srq)) {
                put(bytes, offset_of!(answer::QuerySrq, max_wr), max_wr);
            }
        }
        _ => {}
    }
    Ok(())
}

/// A completion queue holds exactly `cqe` completions, as the answer says at an offset.
fn hold(arena: &Mapping, index: u32, cqe: u32, answer: &mut [u8], offset: usize) {
    if let Some(cq) = arena.cqs.get(index as usize) {
        cq.exact.store(cqe, Release);
        put(answer, offset, cqe);
    }
}

/// Writes a word of an answer, if that is so long.
fn put(answer: &mut [u8], offset: usize, value: u32) {
    if let Some(word) = answer.get_mut(offset..offset + 4) {
        word.copy_from_slice(&value.to_ne_bytes());
    }
}

/// A queue pair has been created. From the answer the provider knows what it may post.
fn begin(
    arena: &Mapping,
    named: &Named,
    requested: &request::ExCreateQp,
    (qpn, bytes): (u32, &mut [u8]),
    seed: u64,
    depths: &mut Depths,
) {
    for (at, value) in [
        (offset_of!(answer::CreateQp, max_send_sge), requested.max_send_sge),
        (offset_of!(answer::CreateQp, max_recv_sge), requested.max_recv_sge),
        (offset_of!(answer::CreateQp, max_inline_data), requested.max_inline_data),
    ] {
        put(bytes, at, value);
    }
    if let Some(qp) = arena.qp(qpn) {
        qp.make_strict(seed, choices());
    }
    let is_shared = requested.is_srq != 0;
    let requested = RequestedDepth {
        max_send_wr: requested.max_send_wr,
        max_recv_wr: if is_shared { 0 } else { requested.max_recv_wr },
        max_send_sge: requested.max_send_sge,
        max_recv_sge: requested.max_recv_sge,
        max_inline_data: requested.max_inline_data,
        signals_all: requested.sq_sig_all != 0,
        is_followed: named.cqs.map(|cq| cq.is_some_and(late::is_followed)),
        srq: named.srq.filter(|_| is_shared),
    };
    depths.begin(qpn, requested);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Acquire;

    use soft_hca_core::rpc::ChannelId;
    use soft_hca_core::uapi::uverbs::request::{CmdHdr, Request};
    use soft_hca_core::uapi::verbs::Qpn;
    use zerocopy::{FromZeros, Immutable, IntoBytes};

    use super::depth::Send;
    use super::*;
    use soft_hca_core::engine::ReceiveQueue;

    /// The answer to a command as the program gets it, by what the daemon has answered. All objects of this process
    /// are in one table: each test has numbers of its own.
    fn noted<R: Request, A: IntoBytes + Immutable + FromBytes>(
        arena: &Mapping,
        named: Named,
        request: &R,
        created: Option<Created>,
        answered: &A,
    ) -> A {
        let in_words = ((size_of::<CmdHdr>() + size_of::<R>()) / 4) as u16;
        let header = CmdHdr { command: R::NUMBER, in_words, out_words: 0 };
        let written = [header.as_bytes(), request.as_bytes()].concat();
        let command = Command::parse(&written).unwrap();
        let mut answer = Answer { created, bytes: answered.as_bytes().to_vec() };
        note_with(7, arena, &named, &command, &mut answer).unwrap();
        A::read_from_bytes(&answer.bytes).unwrap()
    }

    fn named(qpn: u32) -> Named {
        Named { qpn, ..Named::default() }
    }

    #[test]
    fn a_completion_queue_holds_what_was_asked_for() {
        let arena = Mapping::create().unwrap();
        let (index, generation) = (2001, 1);
        let exact = || arena.cqs[index as usize].exact.load(Acquire);
        let created = Some(Created::Cq { handle: 3, index, generation });
        let requested = request::CreateCq { cqe: 10, ..Default::default() };
        let given = answer::CreateCq { cq_handle: 3, cqe: 15 };
        let answer = noted(&arena, Named::default(), &requested, created, &given);
        assert_eq!((answer.cq_handle, answer.cqe, exact()), (3, 10, 10));
        let requested = request::ResizeCq { cqe: 20, ..Default::default() };
        let cqs = [Some(index), None];
        assert_eq!(noted(&arena, Named { cqs, ..named(0) }, &requested, None, &31u32), 20);
        assert_eq!(exact(), 20);
        // A queue that is not known is the daemon's to refuse.
        assert_eq!(noted(&arena, Named::default(), &requested, None, &31u32), 31);
        // A command without room for the word, or that creates something else, stays as it is.
        let other = Some(Created::Channel(ChannelId { index, generation }));
        let requested = request::CreateCq { cqe: 5, ..Default::default() };
        assert_eq!(noted(&arena, Named::default(), &requested, other, &given).cqe, 15);
        assert_eq!(exact(), 20);
    }

    #[test]
    fn a_queue_pair_has_what_was_asked_for_until_it_is_destroyed() {
        let arena = Mapping::create().unwrap();
        const QPN: u32 = 0x2001;
        let cqs = [Some(2002), Some(2003)];
        for index in cqs.into_iter().flatten() {
            late::begin(index, 1, true);
        }
        let requested = request::CreateQp {
            max_send_wr: 1,
            max_recv_wr: 2,
            max_send_sge: 3,
            max_recv_sge: 4,
            max_inline_data: 5,
            ..Default::default()
        };
        let created = Some(Created::Qp { handle: 1, qpn: Qpn::new(QPN) });
        let given =
            answer::CreateQp { max_send_wr: 63, max_inline_data: 96, ..FromZeros::new_zeroed() };
        let answer = noted(&arena, Named { cqs, ..named(0) }, &requested, created, &given);
        let sizes = (answer.max_send_sge, answer.max_recv_sge, answer.max_inline_data);
        assert_eq!(sizes, (3, 4, 5));
        let query = request::QueryQp::default();
        let queried = || noted(&arena, named(QPN), &query, None, &answer::QueryQp::default());
        assert_eq!((queried().max_send_wr, queried().max_recv_wr), (1, 2));
        let send = [Send { wr_id: 1, is_signaled: true }; 2];
        let post = || {
            let mut depths = depths();
            (depths.post_sends(QPN, &send), depths.post_receives(ReceiveQueue::Own(QPN), 3))
        };
        assert_eq!(post(), (1, 2));
        // A change of something else, and to another state, leaves what is posted.
        let modify = |attr_mask: QpAttrMask, state: u32| {
            let attr_mask = attr_mask.bits();
            let requested =
                request::ModifyQp { attr_mask, qp_state: state as u8, ..Default::default() };
            noted(&arena, named(QPN), &requested, None, &0u32);
        };
        modify(QpAttrMask::empty(), state::RESET);
        modify(QpAttrMask::STATE, state::INIT);
        assert_eq!(post(), (0, 0));
        modify(QpAttrMask::STATE, state::RESET);
        assert_eq!(post(), (1, 2));
        noted(&arena, named(QPN), &request::DestroyQp::default(), None, &0u32);
        assert_eq!(queried().max_send_wr, 0, "it is the daemon's answer");
    }

    #[test]
    fn a_shared_receive_queue_has_what_was_asked_for() {
        let arena = Mapping::create().unwrap();
        let srq = 2004;
        let requested = request::CreateSrq { max_wr: 3, ..Default::default() };
        let given = answer::CreateSrq { srqn: srq + 1, max_wr: 63, ..Default::default() };
        assert_eq!(noted(&arena, Named::default(), &requested, None, &given).max_wr, 3);
        let named = Named { srq: Some(srq), ..Named::default() };
        let query = request::QuerySrq::default();
        let max_wr = || noted(&arena, named, &query, None, &answer::QuerySrq::default()).max_wr;
        assert_eq!(max_wr(), 3);
        for (attr_mask, left) in [(SrqAttrMask::empty(), 3), (SrqAttrMask::MAX_WR, 9)] {
            let attr_mask = attr_mask.bits();
            let requested = request::ModifySrq { attr_mask, max_wr: 9, ..Default::default() };
            noted(&arena, named, &requested, None, &0u32);
            assert_eq!(max_wr(), left);
        }
        assert_eq!(depths().post_receives(ReceiveQueue::Shared(srq), 20), 9);
    }
}
