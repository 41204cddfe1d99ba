//! How far a request to move memory by way of a bounce buffer is: the word that a requester, its
//! helper and those who look after the dead agree by, without a lock.
//!
//! A request's phase goes from `REQUESTED` to `BUSY` to `DONE`, and only the helper takes the last two
//! steps. A requester that gives up, or dies, leaves `REQUESTED` to be withdrawn by anybody.
#![allow(unreachable_pub, reason = "the loom models are another crate")]

use crate::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use crate::sync::atomic::fence;
use crate::sync::seq_cst::AtomicU32;

/// The phases, in the lowest bits of the word; above them is a number that changes with every
/// request.
const PHASE: u32 = 3;
const IDLE: u32 = 0;
const REQUESTED: u32 = 1;
const BUSY: u32 = 2;
const DONE: u32 = 3;

fn with_phase(word: u32, phase: u32) -> u32 {
    word & !PHASE | phase
}

/// Goes from one word to another phase, unless somebody else was faster.
fn step(word: &AtomicU32, from: u32, phase: u32) -> bool {
    word.compare_exchange(from, with_phase(from, phase), SeqCst, Acquire).is_ok()
}

/// Whether a word says that a helper is asked and has not begun.
pub fn is_requested(word: u32) -> bool {
    word & PHASE == REQUESTED
}

/// Whether a word says that a helper is at work.
pub fn is_busy(word: u32) -> bool {
    word & PHASE == BUSY
}

/// Whether a word says that the helper is done.
pub fn is_done(word: u32) -> bool {
    word & PHASE == DONE
}

/// Makes the slot fit for another request, after a requester that has died or given up. `is_gone`
/// tells whether a helper at work is dead.
pub fn recover(phase: &AtomicU32, is_gone: impl FnOnce() -> bool) -> bool {
    let word = phase.load(Acquire);
    match word & PHASE {
        IDLE | DONE => true,
        REQUESTED if step(phase, word, IDLE) => true,
        _ => is_gone() && step(phase, phase.load(Acquire), IDLE),
    }
}

/// The requester's step: what it wants is written.
pub fn ask(phase: &AtomicU32) {
    let word = phase.load(Relaxed).wrapping_add(PHASE + 1);
    phase.store(with_phase(word, REQUESTED), SeqCst);
}

/// The helper's first step. False if there is no request, or it has gone.
///
/// When the daemon makes a region invalid, either it sees that its helper is busy, or the helper,
/// which looks at regions after this, sees that the region is invalid: each side writes, then reads
/// what the other writes, with a fence in between. (A closed program waits for its own helper by
/// its `registry`.)
pub fn begin(phase: &AtomicU32) -> bool {
    let word = phase.load(Acquire);
    if !is_requested(word) || !step(phase, word, BUSY) {
        return false;
    }
    fence(SeqCst);
    true
}

/// The helper's last step: `write_result` comes first, for the requester reads it once this is
/// done. False if that is not the phase any more.
pub fn finish(phase: &AtomicU32, write_result: impl FnOnce()) -> bool {
    finish_if(phase, is_busy, write_result)
}

/// Answers for a helper that is dead, whether it has begun or not.
pub fn answer_for_dead(phase: &AtomicU32, write_result: impl Fn()) -> bool {
    finish_if(phase, is_requested, &write_result) || finish_if(phase, is_busy, &write_result)
}

fn finish_if(phase: &AtomicU32, is_so: fn(u32) -> bool, write_result: impl FnOnce()) -> bool {
    let word = phase.load(Acquire);
    if !is_so(word) {
        return false;
    }
    write_result();
    step(phase, word, DONE)
}

/// Withdraws a request that a helper has not begun, as a word says. False if the helper was faster.
pub fn withdraw(phase: &AtomicU32, word: u32) -> bool {
    !is_requested(word) || step(phase, word, IDLE)
}

/// The word as who has made a region invalid looks at it, after a fence: see [`begin`].
pub fn look(phase: &AtomicU32) -> u32 {
    phase.load(SeqCst)
}
