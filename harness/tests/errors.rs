//! What the examples make of a call that failed.
//!
//! The manual page of each call tells whether it sets `errno` or returns the error's number: where the number is
//! returned, `errno` is stale.

use std::fs;

use regex::Regex;

use crate::tree::top;

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
