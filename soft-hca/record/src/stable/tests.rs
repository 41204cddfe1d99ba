use serde_json::json;

use super::*;
use crate::testing::Run;

const DISCONNECTED: &str = "RDMA_CM_EVENT_DISCONNECTED";

fn header() -> Header {
    serde_json::from_value(json!({
        "format": crate::entry::FORMAT, "version": crate::entry::VERSION, "began": "", "device": "rxe0", "fabric": "default",
        "gids": ["fe80::1", "0000:0000:0000:0000:0000:ffff:c000:0202"],
    }))
    .unwrap()
}

fn stable(run: &Run) -> String {
    text(&header(), run.entries())
}

fn begins(run: &mut Run, process: u32, command: &[&str]) {
    let members = json!({ "pid": 17 + process, "role": "program", "command": command });
    run.put(1, process, "process_began", members);
}

/// A call by a thread.
fn call(run: &mut Run, thread: u32, name: &str, args: serde_json::Value, done: serde_json::Value) {
    let members = json!({
        "thread": thread, "name": name, "args": args, "duration": 1, "result": { "done": done },
    });
    run.put(1, 0, "call", members);
}

/// The end of a connection that the program begins with a thread, or its peer.
fn ended(thread: u32, peer_is_first: bool) -> String {
    let mut run = Run::new();
    begins(&mut run, 0, &["ping"]);
    call(&mut run, 1, "rdma_create_id", json!([]), json!([["id", {"cm_id": 3}]]));
    let event = json!({
        "thread": 2, "event": DISCONNECTED, "id": 3, "status": 0, "private_data": 0,
    });
    if peer_is_first {
        run.put(1, 0, "connection_event", event.clone());
    } else {
        run.put(1, 0, "wait", json!({ "thread": 2, "on": "connection", "fd": 3 }));
    }
    let state = json!([["qp", {"qp": 99_999}], ["qp_state", "IBV_QPS_ERR"]]);
    call(&mut run, thread, "ibv_modify_qp", state, json!([]));
    call(&mut run, thread, "rdma_disconnect", json!([["id", {"cm_id": 3}]]), json!([]));
    if !peer_is_first {
        run.put(1, 0, "connection_event", event);
    }
    stable(&run)
}

#[test]
fn who_ends_a_connection_is_chance() {
    let expected = "\
ping[1]: ping
    rdma_create_id() = id=cm_id1
  end of cm_id1
    ibv_modify_qp(qp=qp1, qp_state=IBV_QPS_ERR) = 0
    rdma_disconnect(id=cm_id1) = 0
    RDMA_CM_EVENT_DISCONNECTED id=cm_id1
";
    assert_eq!(ended(1, false), expected);
    assert_eq!(ended(1, true), expected);
    assert_eq!(ended(2, true), expected);
}

#[test]
fn polls_are_left_out() {
    let text = |polls: bool| {
        let mut run = Run::new();
        begins(&mut run, 0, &["ping"]);
        run.call(0, "ibv_alloc_pd", json!([]), json!([["pd", {"pd": 0}]]));
        if polls {
            run.polls(0, 0, 7).polls(0, 1, 0);
        }
        run.call(0, "ibv_dealloc_pd", json!([["pd", {"pd": 0}]]), json!([]));
        stable(&run)
    };
    assert_eq!(text(true), text(false));
}

/// Receives and what came into them; each is seen when the message has come, or all are before.
fn received(seen_early: bool) -> String {
    let mut run = Run::new();
    begins(&mut run, 0, &["ping"]);
    let post = |run: &mut Run| {
        let members = json!({
            "queue": {"qp": 99_999}, "wr_id": 5, "length": 8, "sges": [], "seen": "at_message",
        });
        run.put(1, 0, "receive_posted", members);
    };
    let complete = |run: &mut Run, status: &str| {
        let members = json!({
            "cq": 0, "qp": 99_999, "wr_id": 5, "opcode": "IBV_WC_RECV", "status": status, "length": 8,
        });
        run.put(1, 0, "completion", members);
    };
    if seen_early {
        (0..3).for_each(|_| post(&mut run));
        (0..2).for_each(|_| complete(&mut run, "IBV_WC_SUCCESS"));
    } else {
        for _ in 0..2 {
            post(&mut run);
            complete(&mut run, "IBV_WC_SUCCESS");
        }
        post(&mut run);
    }
    complete(&mut run, "IBV_WC_WR_FLUSH_ERR");
    stable(&run)
}

#[test]
fn a_request_and_its_completion_are_together() {
    let expected = "\
ping[1]: ping
  qp1, receives
    ibv_post_recv(qp=qp1, wr_id=5, 8 bytes)
      completion in cq=cq1: qp=qp1 wr_id=5 IBV_WC_RECV, 8 bytes (2 times)
    ibv_post_recv(qp=qp1, wr_id=5, 8 bytes)
      completion in cq=cq1: qp=qp1 wr_id=5 IBV_WC_WR_FLUSH_ERR
";
    assert_eq!(received(true), expected);
    assert_eq!(received(false), expected);
}

#[test]
fn a_send_and_a_receive_of_the_same_name_are_told_apart() {
    let mut run = Run::new();
    begins(&mut run, 0, &["ping"]);
    let receive = json!({
        "queue": {"qp": 99_999}, "wr_id": 5, "length": 8, "sges": [], "seen": "at_call",
    });
    run.put(1, 0, "receive_posted", receive);
    let send = json!({
        "thread": 1, "qp": 99_999, "wr_id": 5, "opcode": "IBV_WR_SEND", "flags": [], "length": 8, "sges": [],
    });
    run.put(1, 0, "send_posted", send);
    // Both are flushed, the send first.
    for _ in 0..2 {
        let members = json!({
            "cq": 0, "qp": 99_999, "wr_id": 5, "opcode": "0", "status": "IBV_WC_WR_FLUSH_ERR", "length": 0,
        });
        run.put(1, 0, "completion", members);
    }
    let text = stable(&run);
    let (sends, receives) =
        text.split_once("  qp1, sends\n").unwrap().1.split_once("  qp1, ").unwrap();
    let flushed = "completion in cq=cq1: qp=qp1 wr_id=5 IBV_WC_WR_FLUSH_ERR";
    assert_eq!(sends, format!("    {flushed}\n"));
    assert!(receives.ends_with(&format!("\n      {flushed}\n")), "{text}");
}

#[test]
fn what_the_system_chooses_has_names() {
    let mut run = Run::new();
    begins(&mut run, 0, &["server", "54321"]);
    call(&mut run, 1, "rdma_bind_addr", json!([["addr", "192.0.2.2:0"]]), json!([]));
    call(&mut run, 1, "rdma_resolve_addr", json!([["dst_addr", "192.0.2.2:54321"]]), json!([]));
    let gid = "0000:0000:0000:0000:0000:ffff:c000:0202";
    call(&mut run, 1, "ibv_modify_qp", json!([["dgid", gid], ["sgid_index", 1]]), json!([]));
    call(&mut run, 1, "ibv_modify_qp", json!([["sgid_index", 2]]), json!([]));
    // A number that is used again is another object's.
    for _ in 0..2 {
        call(&mut run, 1, "ibv_alloc_pd", json!([]), json!([["pd", {"pd": 0}]]));
        call(&mut run, 1, "ibv_dealloc_pd", json!([["pd", {"pd": 0}]]), json!([]));
    }
    let expected = "\
server[1]: server port1
    rdma_bind_addr(addr=192.0.2.2:0) = 0
    rdma_resolve_addr(dst_addr=192.0.2.2:port1) = 0
    ibv_modify_qp(dgid=gid1, sgid_index=gid1's) = 0
    ibv_modify_qp(sgid_index=none) = 0
    ibv_alloc_pd() = pd=pd1
    ibv_dealloc_pd(pd=pd1) = 0
    ibv_alloc_pd() = pd=pd2
    ibv_dealloc_pd(pd=pd2) = 0
";
    assert_eq!(stable(&run), expected);
}
