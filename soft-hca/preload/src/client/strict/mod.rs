//! `--strict`: this program's work requests are executed by the daemon, as late as is legal
//! (`soft_hca_core::engine`), its queues hold exactly what was asked for, and its completions are polled
//! late.
//!
//! | file | what |
//! | --- | --- |
//! | `depth` | how many requests are in a queue, going by what was posted and polled |
//! | `late` | which polls find nothing yet |
//!
//! The functions between ours and the provider's that ask here are in `hook::layer`.
//!
//! Whether a program is run so is decided once, before its first object is there. Otherwise nothing of this
//! is on any way.

pub(super) mod depth;
pub(super) mod late;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::mem::offset_of;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Release};

use soft_hca_core::arena::Mapping;
use soft_hca_core::config;
use soft_hca_core::errno::Result;
use soft_hca_core::rpc::{Answer, Created};
use soft_hca_core::uapi::uverbs::answer;
use soft_hca_core::uapi::uverbs::{Command, command, request};
use soft_hca_core::uapi::verbs::{QpAttrMask, SrqAttrMask, state};

use zerocopy::FromBytes;

use depth::{Asked, Depths, depths};

/// The seed of this program, if it is run strictly. The two sides of a connection, two programs, get
/// different ones of the same number.
pub(super) fn seed() -> Option<u64> {
    static SEED: OnceLock<Option<u64>> = OnceLock::new();
    *SEED.get_or_init(|| {
        let seed = config::strict()?;
        let mut hasher = DefaultHasher::new();
        (seed, std::env::current_exe().ok()).hash(&mut hasher);
        Some(hasher.finish())
    })
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

/// The seed of the next file of connection events, if this program is run strictly.
pub(super) fn seed_of_events() -> Option<NonZeroU64> {
    NonZeroU64::new(next_seed(seed()?))
}

/// What the handles in a command are.
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

/// A queue is about to be armed.
pub(super) fn before_arming() {
    if let Some(seed) = seed() {
        late::before_arming(seed);
    }
}

/// Takes note of what a command has created or changed, and has its answer say what holds for this program.
pub(super) fn note(
    arena: &Mapping,
    named: &Named,
    command: &Command<'_>,
    answer: &mut Answer,
) -> Result<()> {
    let Some(seed) = seed() else { return Ok(()) };
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
            let asked = command.request::<request::CreateQp>()?.into();
            begin(arena, named, &asked, ((*qpn).into(), bytes), next_seed(seed), &mut depths);
        }
        (command::EX_CREATE_QP, Some(Created::Qp { qpn, .. })) => {
            let asked = command.request()?;
            begin(arena, named, &asked, ((*qpn).into(), bytes), next_seed(seed), &mut depths);
        }
        (command::MODIFY_QP, _) => {
            let asked = command.request::<request::ModifyQp>()?;
            let given = QpAttrMask::from_bits_retain(asked.attr_mask);
            if given.contains(QpAttrMask::STATE) && u32::from(asked.qp_state) == state::RESET {
                depths.reset(named.qpn);
            }
        }
        (command::QUERY_QP, _) => {
            if let Some(asked) = depths.asked(named.qpn) {
                for (at, value) in [
                    (offset_of!(answer::QueryQp, max_send_wr), asked.max_send_wr),
                    (offset_of!(answer::QueryQp, max_recv_wr), asked.max_recv_wr),
                    (offset_of!(answer::QueryQp, max_send_sge), asked.max_send_sge),
                    (offset_of!(answer::QueryQp, max_recv_sge), asked.max_recv_sge),
                    (offset_of!(answer::QueryQp, max_inline_data), asked.max_inline_data),
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
            let asked = command.request::<request::ModifySrq>()?;
            let given = SrqAttrMask::from_bits_retain(asked.attr_mask);
            if let Some(srq) = named.srq.filter(|_| given.contains(SrqAttrMask::MAX_WR)) {
                depths.resize_shared(srq, asked.max_wr);
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
    asked: &request::ExCreateQp,
    (qpn, bytes): (u32, &mut [u8]),
    seed: u64,
    depths: &mut Depths,
) {
    for (at, value) in [
        (offset_of!(answer::CreateQp, max_send_sge), asked.max_send_sge),
        (offset_of!(answer::CreateQp, max_recv_sge), asked.max_recv_sge),
        (offset_of!(answer::CreateQp, max_inline_data), asked.max_inline_data),
    ] {
        put(bytes, at, value);
    }
    if let Some(qp) = arena.qp(qpn) {
        qp.strict_seed.store(seed, Release);
    }
    let is_shared = asked.is_srq != 0;
    let asked = Asked {
        max_send_wr: asked.max_send_wr,
        max_recv_wr: if is_shared { 0 } else { asked.max_recv_wr },
        max_send_sge: asked.max_send_sge,
        max_recv_sge: asked.max_recv_sge,
        max_inline_data: asked.max_inline_data,
        signals_all: asked.sq_sig_all != 0,
        is_followed: named.cqs.map(|cq| cq.is_some_and(late::is_followed)),
        srq: named.srq.filter(|_| is_shared),
    };
    depths.begin(qpn, asked);
}
