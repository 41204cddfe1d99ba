//! Whether somebody waits for an event of a completion queue: the word by which the program that waits and those that add
//! completions agree, without a lock.
#![allow(unreachable_pub, reason = "the loom models are another crate")]

use crate::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use crate::sync::atomic::{AtomicU32, fence};

/// Values of the low bits of the word. Above them is how often the queue has been armed.
const KIND: u32 = 3;
const NOT_ARMED: u32 = 0;
const FOR_SOLICITED: u32 = 1;
const FOR_ANY: u32 = 2;

/// Arms a queue for the next completion, or the next solicited one. "Any" is the stronger wish and
/// stays.
///
/// The program that arms polls once more after this. Either that poll sees the producer index that was published
/// before [`armed_for`], or that one sees the queue armed: both sides write, then read what the other
/// writes, and a fence between the two keeps both reads from being early.
#[inline]
pub fn arm(armed: &AtomicU32, solicited_only: bool) {
    let wish = if solicited_only { FOR_SOLICITED } else { FOR_ANY };
    let _ = armed.fetch_update(AcqRel, Relaxed, |word| {
        let kind = (word & KIND).max(wish);
        Some((word & !KIND).wrapping_add(KIND + 1) | kind)
    });
    fence(SeqCst);
}

/// The word, if completions that were published before give an event.
#[inline]
pub fn armed_for(armed: &AtomicU32, is_solicited: bool) -> Option<u32> {
    // See `arm`.
    fence(SeqCst);
    let word = armed.load(Relaxed);
    let kind = word & KIND;
    (kind != NOT_ARMED && (kind != FOR_SOLICITED || is_solicited)).then_some(word)
}

/// Ends the arming that has led to a word. If the queue has been armed anew, that is for the next
/// completion.
#[inline]
pub fn disarm(armed: &AtomicU32, word: u32) {
    let _ = armed.compare_exchange(word, word & !KIND, AcqRel, Relaxed);
}

/// Gives the event of an arming and ends it. The caller has the queue's lock.
///
/// As long as the queue is armed, a process that dies has given no event. A program that looks for events at the
/// token of another queue may see this one, and arm the queue again, before it is disarmed.
#[inline]
pub fn give_event(armed: &AtomicU32, word: u32, pending_events: &AtomicU32) {
    pending_events.fetch_add(1, AcqRel);
    disarm(armed, word);
}
