//! Requests to a helper that moves memory by way of a bounce buffer: each is done once or
//! withdrawn, and memory that is no longer registered is not touched.

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU32, fence};
use loom::thread;
use soft_hca_loom::bounce_phase::{
    answer_for_dead, ask, begin, finish, is_busy, is_done, look, recover, withdraw,
};
use soft_hca_loom::seq_cst;

const MOVED: u32 = 1;
const UNREACHABLE: u32 = 2;

/// A slot, and the region that its request is about.
#[derive(Default)]
struct Slot {
    phase: seq_cst::AtomicU32,
    /// The requested copy.
    job: AtomicU32,
    result: AtomicU32,
    /// Not 0: the region is no longer registered.
    is_invalid: AtomicU32,
    /// Jobs that were done.
    moved: AtomicU32,
}

impl Slot {
    fn ask(&self, job: u32) {
        self.job.store(job, Release);
        ask(&self.phase);
    }

    /// The helper does what it is asked for.
    fn serve(&self) -> bool {
        begin(&self.phase) && {
            assert_ne!(self.job.load(Relaxed), 0, "the job is there");
            self.moved.fetch_add(1, Release);
            finish(&self.phase, || self.result.store(MOVED, Release))
        }
    }

    fn word(&self) -> u32 {
        look(&self.phase)
    }
}

fn serves(slot: &Arc<Slot>) -> thread::JoinHandle<bool> {
    let slot = slot.clone();
    thread::spawn(move || slot.serve())
}

/// A requester that gives up withdraws the request, or else the helper does it.
#[test]
fn a_request_is_done_or_withdrawn() {
    loom::model(|| {
        let slot = Arc::new(Slot::default());
        slot.ask(7);
        let helper = serves(&slot);
        let is_withdrawn = withdraw(&slot.phase, slot.word());
        let word = slot.word();
        if is_done(word) {
            assert_eq!(slot.result.load(Acquire), MOVED, "the result is there");
        }
        let is_served = helper.join().unwrap();
        assert!(is_withdrawn || is_served);
        assert_eq!(slot.moved.load(Acquire), u32::from(is_served));
        assert!(recover(&slot.phase, || false), "the slot is fit for another");
    });
}

/// A requester that waits sees the result of its own request.
#[test]
fn the_result_is_there_when_the_helper_is_done() {
    loom::model(|| {
        let slot = Arc::new(Slot::default());
        slot.ask(7);
        let helper = serves(&slot);
        if is_done(slot.word()) {
            assert_eq!(slot.result.load(Acquire), MOVED);
            assert_eq!(slot.moved.load(Acquire), 1);
        }
        assert!(helper.join().unwrap());
    });
}

#[test]
fn two_helpers_do_not_do_the_same() {
    loom::model(|| {
        let slot = Arc::new(Slot::default());
        slot.ask(7);
        let helpers = [serves(&slot), serves(&slot)];
        let served = helpers.map(|helper| helper.join().unwrap());
        assert_eq!(served.into_iter().filter(|served| *served).count(), 1);
        assert_eq!(slot.moved.load(Acquire), 1);
    });
}

/// A thread that makes a region invalid finds no helper at work, which then does not use the region; or
/// sees it at work and waits.
#[test]
fn an_invalid_region_is_not_used() {
    loom::model(|| {
        let slot = Arc::new(Slot::default());
        slot.ask(7);
        let helper = {
            let slot = slot.clone();
            thread::spawn(move || begin(&slot.phase) && slot.is_invalid.load(Relaxed) == 0)
        };
        slot.is_invalid.store(1, Relaxed);
        fence(SeqCst);
        let is_quiet = !is_busy(slot.word());
        let uses_region = helper.join().unwrap();
        assert!(!(is_quiet && uses_region), "memory is used that is free");
    });
}

/// A helper that has died is answered for, whether it has begun or not, and a living one that was
/// taken for dead does no harm.
#[test]
fn the_dead_are_answered_for() {
    loom::model(|| {
        let slot = Arc::new(Slot::default());
        slot.ask(7);
        let helper = serves(&slot);
        answer_for_dead(&slot.phase, || slot.result.store(UNREACHABLE, Release));
        helper.join().unwrap();
        assert!(is_done(slot.word()));
        assert_ne!(slot.result.load(Acquire), 0);
    });
}
