//! Runs for the tests.

use serde_json::{Value, json};

use crate::entry::{FORMAT, VERSION};
use crate::{Entry, Header};

/// A record that grows.
pub(crate) struct Run {
    t: u64,
    entries: Vec<Entry>,
}

pub(crate) const SERVER: u32 = 0;
pub(crate) const CLIENT: u32 = 1;
/// The channel of [`begun`].
pub(crate) const CHANNEL: u32 = 7;
pub(crate) const WR_ID: [u64; 2] = [0x5626_e919_2120, 0x55b0_a7c3_f2c0];

impl Run {
    /// With nothing in it.
    pub(crate) fn new() -> Self {
        Self { t: 0, entries: Vec::new() }
    }

    /// Its entries.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Another entry, so many nanoseconds later.
    pub(crate) fn put(
        &mut self,
        later: u64,
        process: u32,
        what: &str,
        members: Value,
    ) -> &mut Self {
        self.t += later;
        let mut entry = json!({ "t": self.t, "process": process, "what": what });
        for (name, value) in members.as_object().unwrap() {
            entry[name] = value.clone();
        }
        self.entries.push(serde_json::from_value(entry).unwrap());
        self
    }

    /// A call that is done.
    pub(crate) fn call(&mut self, process: u32, name: &str, args: Value, done: Value) -> &mut Self {
        let members = json!({
            "thread": 4720 + process, "name": name, "args": args, "duration": 9000,
            "result": { "done": done },
        });
        self.put(30_000, process, "call", members)
    }

    /// A completion for the queue of [`begun`].
    pub(crate) fn comes(&mut self, later: u64, is_solicited: bool) -> &mut Self {
        let done = json!({
            "cq": 2, "qp": 17, "wr_id": 1, "opcode": "IBV_WC_RECV", "status": "IBV_WC_SUCCESS",
            "length": 8, "solicited": is_solicited,
        });
        self.put(later, 0, "completion", done)
    }

    /// The thread of [`begun`] waits for an event of the queue.
    pub(crate) fn waits_at_channel(&mut self) -> &mut Self {
        self.put(100_000, 0, "wait", json!({ "thread": 4720, "on": "completion", "fd": CHANNEL }))
    }

    fn begins(&mut self, process: u32, command: &[&str]) -> &mut Self {
        let members = json!({ "pid": 4720 + process, "role": "program", "command": command });
        self.put(100_000, process, "process_began", members)
    }

    fn waits(&mut self, process: u32) -> &mut Self {
        let members = json!({ "thread": 4720 + process, "on": "connection", "fd": 3 });
        self.put(2_000, process, "wait", members)
    }

    /// An event that a thread has waited for.
    pub(crate) fn event(&mut self, process: u32, event: &str, id: u32, more: Value) -> &mut Self {
        let thread = 4720 + process;
        let woken = json!({ "thread": thread, "on": "connection", "fd": 3, "waited": 50_000, "event": true });
        self.put(40_000, process, "woken", woken);
        let mut members =
            json!({ "thread": thread, "event": event, "id": id, "status": 0, "private_data": 0 });
        for (name, value) in more.as_object().unwrap() {
            members[name] = value.clone();
        }
        self.put(1_000, process, "connection_event", members)
    }

    /// Objects from the protection domain to the memory region.
    fn sets_up(&mut self, process: u32) -> &mut Self {
        let (qp, cq) = (queue_pair(process), process + 1);
        self.call(
            process,
            "ibv_alloc_pd",
            json!([["context", {"context": 4}]]),
            json!([["pd", {"pd": 0}]]),
        )
        .call(
            process,
            "ibv_create_cq",
            json!([["cqe", 32], ["channel", null]]),
            json!([["cq", {"cq": cq}]]),
        )
        .call(
            process,
            "ibv_create_qp",
            json!([["pd", {"pd": 0}], ["send_cq", {"cq": cq}]]),
            json!([["qp_num", {"qp": qp}]]),
        )
        .call(
            process,
            "ibv_reg_mr",
            json!([["pd", {"pd": 0}], ["addr", {"address": 4096}], ["length", 16]]),
            json!([["mr", {"mr": 0}], ["lkey", {"key": key(process)}], ["rkey", {"key": key(process)}]]),
        )
    }

    pub(crate) fn receive(&mut self, process: u32, seen: &str) -> &mut Self {
        let members = json!({
            "queue": { "qp": queue_pair(process) }, "wr_id": WR_ID[process as usize], "length": 16,
            "sges": [{ "address": 4096, "length": 16, "lkey": key(process) }], "seen": seen,
        });
        self.put(300, process, "receive_posted", members)
    }

    pub(crate) fn posts(&mut self, process: u32, opcode: &str) -> &mut Self {
        let members = json!({
            "thread": 4720 + process, "qp": queue_pair(process), "wr_id": WR_ID[process as usize],
            "opcode": opcode, "flags": ["IBV_SEND_SIGNALED"], "length": 16,
            "sges": [{ "address": 4096, "length": 16, "lkey": key(process) }],
        });
        self.put(700, process, "send_posted", members)
    }

    /// A work request has failed for this reason.
    pub(crate) fn fails(
        &mut self,
        process: u32,
        opcode: &str,
        status: &str,
        reason: Value,
    ) -> &mut Self {
        let (qp, wr_id) = (queue_pair(process), WR_ID[process as usize]);
        let executed = json!({
            "qp": qp, "wr_id": wr_id, "opcode": opcode, "length": 0, "status": status, "reason": reason,
        });
        let done = json!({
            "cq": process + 1, "qp": qp, "wr_id": wr_id, "opcode": "IBV_WC_SEND", "status": status, "length": 0,
        });
        self.put(1_800, process, "executed", executed).put(200, process, "completion", done)
    }

    /// A send that has been posted meets its receive.
    pub(crate) fn arrives(&mut self, from: u32) -> &mut Self {
        let to = 1 - from;
        let executed = json!({
            "qp": queue_pair(from), "wr_id": WR_ID[from as usize], "opcode": "IBV_WR_SEND", "length": 16,
            "status": "IBV_WC_SUCCESS",
            "receive": { "process": to, "qp": queue_pair(to), "wr_id": WR_ID[to as usize] },
        });
        let done = |process: u32, opcode: &str| {
            json!({
                "cq": process + 1, "qp": queue_pair(process), "wr_id": WR_ID[process as usize],
                "opcode": opcode, "status": "IBV_WC_SUCCESS", "length": 16,
            })
        };
        let mut received = done(to, "IBV_WC_RECV");
        received["by"] = json!(from);
        self.put(1_800, from, "executed", executed).put(100, to, "completion", received).put(
            200,
            from,
            "completion",
            done(from, "IBV_WC_SEND"),
        )
    }

    /// A client and a server up to where they are connected.
    pub(crate) fn connected(server: &[&str]) -> Self {
        let mut run = Self::new();
        run.begins(SERVER, server)
            .call(
                SERVER,
                "rdma_create_id",
                json!([["ps", "RDMA_PS_TCP"]]),
                json!([["id", {"cm_id": 0}]]),
            )
            .call(SERVER, "rdma_listen", json!([["id", {"cm_id": 0}], ["backlog", 8]]), json!([]))
            .waits(SERVER);
        run.t += 23_000_000;
        run.begins(CLIENT, &["/usr/bin/ping-sr-1-client", "-a", "127.0.0.1"])
            .call(
                CLIENT,
                "rdma_create_id",
                json!([["ps", "RDMA_PS_TCP"]]),
                json!([["id", {"cm_id": 0}]]),
            )
            .call(CLIENT, "rdma_resolve_addr", json!([["id", {"cm_id": 0}]]), json!([]))
            .waits(CLIENT)
            .event(CLIENT, "RDMA_CM_EVENT_ADDR_RESOLVED", 0, json!({}))
            .sets_up(CLIENT)
            .receive(CLIENT, "at_call")
            .call(
                CLIENT,
                "rdma_connect",
                json!([["id", {"cm_id": 0}], ["qp_num", {"qp": 4097}]]),
                json!([]),
            )
            .waits(CLIENT)
            .event(
                SERVER,
                "RDMA_CM_EVENT_CONNECT_REQUEST",
                1,
                json!({ "listen_id": 0, "qp": 4097 }),
            )
            .sets_up(SERVER)
            .receive(SERVER, "at_call")
            .call(SERVER, "rdma_accept", json!([["id", {"cm_id": 1}]]), json!([]))
            .waits(SERVER)
            .event(CLIENT, "RDMA_CM_EVENT_ESTABLISHED", 0, json!({ "qp": 4098 }))
            .event(SERVER, "RDMA_CM_EVENT_ESTABLISHED", 1, json!({}));
        run
    }

    /// So many messages there and back.
    pub(crate) fn ping_pong(&mut self, rounds: usize) -> &mut Self {
        for round in 0..rounds {
            for from in [CLIENT, SERVER] {
                self.posts(from, "IBV_WR_SEND");
                if round > 0 {
                    self.receive(1 - from, "at_message");
                }
                self.arrives(from);
            }
        }
        self
    }

    /// The same where both sides poll, more or less often, and post the next receive when they have
    /// found the last.
    pub(crate) fn polled_ping_pong(&mut self, rounds: usize) -> &mut Self {
        for round in 0..rounds {
            for from in [CLIENT, SERVER] {
                let to = 1 - from;
                self.posts(from, "IBV_WR_SEND").arrives(from).polls(from, 1, 0);
                if round % 3 == 0 {
                    self.polls(to, 0, 5 + round as u64);
                }
                self.polls(to, 1, round as u64 % 2 * 40).receive(to, "at_post");
            }
        }
        self
    }

    /// Polls of a side's queue, of which the last has found something, unless that is 0.
    pub(crate) fn polls(&mut self, process: u32, found: u32, empty: u64) -> &mut Self {
        let mut members = json!({ "thread": 4720 + process, "cq": process + 1, "found": found });
        if empty > 0 {
            members["empty"] = json!({ "count": empty, "first": self.t, "last": self.t + 400 });
        }
        self.put(500, process, "polled", members)
    }

    /// Both sides let go.
    pub(crate) fn ends(&mut self) -> (Header, Vec<Entry>) {
        self.call(CLIENT, "rdma_disconnect", json!([["id", {"cm_id": 0}]]), json!([]))
            .waits(SERVER)
            .event(SERVER, "RDMA_CM_EVENT_DISCONNECTED", 1, json!({}));
        for process in [CLIENT, SERVER] {
            self.call(process, "ibv_dereg_mr", json!([["mr", {"mr": 0}]]), json!([]))
                .call(
                    process,
                    "ibv_destroy_qp",
                    json!([["qp", {"qp": queue_pair(process)}]]),
                    json!([]),
                )
                .put(20_000, process, "process_ended", json!({}));
        }
        (header(), std::mem::take(&mut self.entries))
    }
}

/// The queue pair of a side.
pub(crate) fn queue_pair(process: u32) -> u32 {
    4098 - process
}

/// The key of a side's memory.
pub(crate) fn key(process: u32) -> u32 {
    385 + process
}

/// A header.
pub(crate) fn header() -> Header {
    serde_json::from_value(json!({
        "format": FORMAT, "version": VERSION, "began": "2026-11-23T01:20:00.000000000Z",
        "device": "rxe0", "fabric": "demo", "command": ["./demo", "ping-sr-1"],
    }))
    .unwrap()
}

/// A ping-pong from its beginning to its end.
pub(crate) fn ping_pong(rounds: usize) -> (Header, Vec<Entry>) {
    Run::connected(&["/usr/bin/ping-sr-1-server"]).ping_pong(rounds).ends()
}

/// A run in which an RDMA write goes beyond its region.
pub(crate) fn out_of_bounds() -> (Header, Vec<Entry>) {
    let reason = json!({
        "check": "bounds", "memory": "remote", "key": 385, "address": 4104,
        "length": 16, "region_address": 4096, "region_length": 16,
    });
    Run::connected(&["/usr/bin/ping-sr-1-server"])
        .ping_pong(1)
        .posts(CLIENT, "IBV_WR_RDMA_WRITE")
        .fails(CLIENT, "IBV_WR_RDMA_WRITE", "IBV_WC_REM_ACCESS_ERR", reason)
        .ends()
}

/// A process with a queue pair, whose completion queue 2 reports to a channel.
pub(crate) fn begun() -> Run {
    let mut run = Run::new();
    run.put(0, 0, "process_began", json!({ "pid": 7, "role": "program", "command": ["ping"] }));
    run.call(0, "ibv_create_comp_channel", json!([]), json!([["channel", {"channel": CHANNEL}]]));
    let args = json!([["cqe", 8], ["channel", {"channel": CHANNEL}]]);
    run.call(0, "ibv_create_cq", args, json!([["cq", {"cq": 2}]]));
    let args = json!([["qp_type", "IBV_QPT_RC"], ["send_cq", {"cq": 2}], ["recv_cq", {"cq": 2}]]);
    run.call(0, "ibv_create_qp", args, json!([["qp_num", {"qp": 17}]]));
    // It is seen what is polled.
    run.put(1, 0, "polled", json!({ "thread": 4720, "cq": 2, "found": 0 }));
    run
}
