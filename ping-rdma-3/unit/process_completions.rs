//! Unit tests of `src/process_completions.rs`.

use super::*;
use crate::process_options::our_process_options;

#[test]
fn written_before_the_disconnect() {
    let argv = ["test", "-a", "127.0.0.1"].map(String::from);
    let options = our_process_options(&argv).expect("a good command line");
    let conn = OurControl::default();
    conn.cm_event_info.lock().disconnected = 1;
    let is_full = |bytes: [u8; 3], spins: &mut u64| {
        our_all_non_zero_completion_match(&conn, &bytes.map(Cell::new), spins, &options).is_ok()
    };

    let mut max_spin_count = 7;
    assert!(is_full(*b"abc", &mut max_spin_count));
    for bytes in [b"\0bc", b"a\0c", b"ab\0"] {
        assert!(!is_full(*bytes, &mut max_spin_count), "{bytes:?}");
    }
    assert_eq!(max_spin_count, 7);
}
