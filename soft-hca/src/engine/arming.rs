//! Whether somebody waits for an event of a completion queue: the word that who waits and who adds
//! completions agree by, without a lock.

use crate::sync::atomic::Ordering::{AcqRel, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicU32, fence};

/// Values of the word.
const NOT_ARMED: u32 = 0;
const FOR_SOLICITED: u32 = 1;
const FOR_ANY: u32 = 2;

/// Arms a queue for the next completion, or the next solicited one. "Any" is the stronger wish and
/// stays.
///
/// Who arms polls once more after this. Either that poll sees the producer index that was published
/// before [`is_armed_for`], or that one sees the queue armed: both sides write, then read what the
/// other writes, and a fence between the two keeps both reads from being early.
#[inline]
pub fn arm(armed: &AtomicU32, solicited_only: bool) {
    if solicited_only {
        // Fails if it is armed already, for this or for more.
        let _ = armed.compare_exchange(NOT_ARMED, FOR_SOLICITED, AcqRel, Relaxed);
    } else {
        armed.store(FOR_ANY, Release);
    }
    fence(SeqCst);
}

/// Whether completions that were published before give an event.
#[inline]
pub fn is_armed_for(armed: &AtomicU32, is_solicited: bool) -> bool {
    // See `arm`.
    fence(SeqCst);
    let armed = armed.load(Relaxed);
    armed != NOT_ARMED && (armed != FOR_SOLICITED || is_solicited)
}

/// Nothing gives an event before the queue is armed again.
#[inline]
pub fn disarm(armed: &AtomicU32) {
    armed.store(NOT_ARMED, Release);
}

/// Gives the event of a queue that is armed. The caller has the queue's lock.
///
/// Disarms first: as soon as the event is counted it may be read, with a token that another queue of
/// the channel has given, and what the reader then arms must stay so.
#[inline]
pub fn give_event(armed: &AtomicU32, pending_events: &AtomicU32) {
    disarm(armed);
    pending_events.fetch_add(1, AcqRel);
}
