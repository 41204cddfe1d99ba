//! A recording begins: who sees it sees how long it may be, and what is wanted.

use loom::sync::Arc;
use loom::sync::atomic::Ordering::Relaxed;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;
use soft_hca_loom::recording::{begin, number};

#[test]
fn who_sees_a_recording_sees_its_limit() {
    loom::model(|| {
        let words = Arc::new((AtomicU32::new(0), AtomicU64::new(0), AtomicU32::new(0)));
        let daemon = thread::spawn({
            let words = words.clone();
            move || begin((&words.0, &words.1, &words.2), (1, 4096, 2))
        });
        if number(&words.0) != 0 {
            assert_eq!((words.1.load(Relaxed), words.2.load(Relaxed)), (4096, 2));
        }
        daemon.join().unwrap();
    });
}
