//! Reports of the examples about a call that failed.
//!
//! The manual page of each call tells whether it sets `errno` or returns the error's number: where the number is
//! returned, `errno` is stale. A region that cannot be deregistered still lets the adapter write: its memory is not
//! freed where a queue pair may be left.

use std::fs;

use regex::Regex;

use harness::examples::EXAMPLES;

use crate::tree::{files, top};

/// Whether a call returns -1 and sets `errno`, as its manual page says: those of the connection manager, and the
/// waits for events, which read from a file descriptor.
fn sets_errno(call: &str) -> bool {
    call.starts_with("rdma_") || ["ibv_get_cq_event", "ibv_get_async_event"].contains(&call)
}

/// The calls whose result is taken for the other kind: `ok` looks at `errno`, `returned` at the number.
fn mistaken(text: &str) -> (usize, Vec<String>) {
    let results = Regex::new(r"\b(ok|returned)\(unsafe \{\s*(\w+)\(").unwrap();
    let calls = results.captures_iter(text).map(|found| (found[1].to_owned(), found[2].to_owned()));
    let calls: Vec<_> = calls.collect();
    let wrong = calls.iter().filter(|(by, call)| (by == "ok") != sets_errno(call));
    (calls.len(), wrong.map(|(by, call)| format!("{by}({call})")).collect())
}

#[test]
fn the_idiomatic_client_says_the_error_that_there_was() {
    let text = fs::read_to_string(top().join("ping-sr-3/examples/idiomatic.rs")).unwrap();
    let (calls, wrong) = mistaken(&text);
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(calls >= 8, "only {calls} calls have results");
    // It returns a negative value, of which its page says no more.
    assert!(!Regex::new(r"(ok|returned)\(unsafe \{\s*ibv_poll_cq").unwrap().is_match(&text));
}

#[test]
fn a_mistaken_result_is_found() {
    let text = "ok(unsafe { ibv_post_send(a) })?; returned(unsafe { ibv_post_recv(a) })?;
        returned(unsafe {\n rdma_connect(a) })?; ok(unsafe { ibv_get_cq_event(a) })?;";
    let (calls, wrong) = mistaken(text);
    assert_eq!(
        (calls, wrong.join(" ")),
        (4, "ok(ibv_post_send) returned(rdma_connect)".to_owned())
    );
}

/// How many regions the functions of a file deregister and look at the result, and for how many they keep the memory
/// if that fails.
fn deregistered(text: &str) -> (usize, usize) {
    let checked =
        Regex::new(r"if unsafe \{ ibv_dereg_mr\(|let ret = unsafe \{ ibv_dereg_mr\(").unwrap();
    let (calls, kept) = (checked.find_iter(text), text.matches(".leak();"));
    (calls.count(), kept.count())
}

#[test]
fn memory_of_a_region_that_is_left_is_not_freed() {
    let mut seen = 0;
    for example in EXAMPLES {
        for file in files(&top().join(example.name).join("src"), ".rs") {
            let text = fs::read_to_string(&file).unwrap();
            // In the other programs the queue pair is destroyed first.
            if file.ends_with("c_d_buffers.rs") || file.ends_with("rdma_rc_example.rs") {
                let all = text.matches("ibv_dereg_mr(").count();
                let (calls, kept) = deregistered(&text);
                assert_eq!((calls, kept), (all, all), "{}", file.display());
                seen += all;
            }
        }
    }
    assert!(seen > 20, "only {seen} regions are deregistered");
}

#[test]
fn memory_that_is_freed_too_early_is_found() {
    let text = "let ret = unsafe { ibv_dereg_mr(a) }; if ret != 0 { memory.leak(); }";
    assert_eq!(deregistered(text), (1, 1));
    assert_eq!(deregistered("if unsafe { ibv_dereg_mr(a) } != 0 { say(); }"), (1, 0));
    assert_eq!(deregistered("unsafe { ibv_dereg_mr(a) };"), (0, 0));
}
