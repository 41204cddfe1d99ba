//! A recording begins: who sees it sees how long it may be, and what is wanted.

use loom::sync::Arc;
use loom::sync::atomic::Ordering::Relaxed;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;
use soft_hca_loom::recording::{begin, end, is_watched, number, watch};

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

#[test]
fn a_program_that_watches_and_a_recording_leave_each_other_alone() {
    loom::model(|| {
        let words = Arc::new((AtomicU32::new(0), AtomicU64::new(0), AtomicU32::new(0)));
        let program = thread::spawn({
            let words = words.clone();
            move || watch(&words.0)
        });
        begin((&words.0, &words.1, &words.2), (1, 4096, 2));
        assert_eq!(number(&words.0), 1);
        end(&words.0);
        program.join().unwrap();
        assert_eq!(number(&words.0), 0);
        assert!(is_watched(&words.0));
    });
}
