//! The mutants: what is wrong with each, how it is made, and by what `./compare` finds it.

use super::Found::{self, Calls, Case, Failing, Interop, Speed, Survives};

/// A wrong copy of an example.
pub struct Mutant {
    /// Its name.
    pub name: &'static str,
    /// Its mistake.
    pub what: &'static str,
    /// The example.
    pub example: &'static str,
    /// In each of these files of it the first text, which is there once, gives way to the second.
    pub edits: &'static [(&'static str, &'static str, &'static str)],
    /// The part of `./compare` that finds it.
    pub found: Found,
}

/// All of them, by example.
pub const MUTANTS: &[Mutant] = &[
    // Their output, and its timing.
    Mutant {
        name: "misspelt",
        what: "a message has a letter too few",
        example: "ping-sr-1",
        edits: &[(
            "src/process_options.rs",
            "parameters\", options.message",
            "parameter\", options.message",
        )],
        found: Case("cli-extra-parameters"),
    },
    Mutant {
        name: "default-count",
        what: "another count is the default",
        example: "ping-sr-1",
        edits: &[("src/prototypes.rs", "u64 = 500000;", "u64 = 50000;")],
        found: Case("cli-help"),
    },
    Mutant {
        name: "default-port",
        what: "another port is the default",
        example: "ping-sr-1",
        edits: &[("src/prototypes.rs", "u64 = 12321;", "u64 = 12322;")],
        found: Case("cli-help"),
    },
    Mutant {
        name: "other-stream",
        what: "a line goes to standard output",
        example: "ping-sr-1",
        edits: &[(
            "src/process_options.rs",
            "errln!(\"The only required",
            "common::outln!(\"The only required",
        )],
        found: Case("cli-help"),
    },
    Mutant {
        name: "status-2",
        what: "wrong options end it with 2 and not with 1",
        example: "ping-sr-1",
        edits: &[(
            "src/client.rs",
            "our_process_options(&args()) else { return ExitCode::FAILURE }",
            "our_process_options(&args()) else { return ExitCode::from(2) }",
        )],
        found: Case("cli-extra-parameters"),
    },
    Mutant {
        name: "option-ignored",
        what: "`-t` has no effect",
        example: "ping-sr-1",
        edits: &[("src/process_options.rs", "'t' => options.flags |= TRACING,", "'t' => {}")],
        found: Case("run-trace"),
    },
    Mutant {
        name: "extra-accepted",
        what: "parameters too many are shown and accepted",
        example: "ping-sr-1",
        edits: &[(
            "src/process_options.rs",
            "{optind:2}: {parameter}\", options.message);\n        }\n        return Err(Reported);",
            "{optind:2}: {parameter}\", options.message);\n        }",
        )],
        found: Case("cli-extra-parameters"),
    },
    Mutant {
        name: "lines-swapped",
        what: "two lines come in the other order",
        example: "ping-sr-1",
        edits: &[(
            "src/process_options.rs",
            "    our_report_uint64(\"option\", \"count\", options.limit, &options);\n    our_report_uint64(\"option\", \"data_size\", options.data_size, &options);\n",
            "    our_report_uint64(\"option\", \"data_size\", options.data_size, &options);\n    our_report_uint64(\"option\", \"count\", options.limit, &options);\n",
        )],
        found: Case("run-verify"),
    },
    Mutant {
        name: "megabytes",
        what: "bytes are printed as megabits",
        example: "ping-sr-1",
        edits: &[("src/utilities.rs", "8.0 * bytes", "bytes")],
        found: Case("run-all-flags"),
    },
    Mutant {
        name: "signed-16",
        what: "a number is printed signed, of 16 bits",
        example: "pubsub-rdma-1",
        edits: &[(
            "src/process_options.rs",
            "our_report_uint64(\"option\", \"data_size\", options.data_size, &options);",
            "common::errln!(\"{}: option data_size {}\", options.message, options.data_size as i16);",
        )],
        found: Case("run-size-32768"),
    },
    Mutant {
        name: "signed-64",
        what: "a number is printed signed, of 64 bits",
        example: "ping-sr-1",
        edits: &[(
            "src/process_options.rs",
            "    our_report_uint64(\"option\", \"data_size\", options.data_size, &options);",
            "    errln!(\"{}: option data_size {}\", options.message, options.data_size as i64);",
        )],
        found: Survives(
            "ours accepts no number that has the sign's bit, on purpose; in the C it is a known difference",
        ),
    },
    Mutant {
        name: "sleeps",
        what: "it sleeps for 400 ms before it disconnects",
        example: "ping-sr-1",
        edits: &[(
            "src/client.rs",
            "        let _ = our_disconnect(conn, options);",
            "        std::thread::sleep(std::time::Duration::from_millis(400));\n        let _ = our_disconnect(conn, options);",
        )],
        found: Case("run-verify"),
    },
    Mutant {
        name: "sleeps-briefly",
        what: "it sleeps for 20 ms before it disconnects",
        example: "ping-sr-1",
        edits: &[(
            "src/client.rs",
            "        let _ = our_disconnect(conn, options);",
            "        std::thread::sleep(std::time::Duration::from_millis(20));\n        let _ = our_disconnect(conn, options);",
        )],
        found: Survives(
            "as long as a process may wait for a processor; what is measured are round trips, not the end",
        ),
    },
    // Their handling of messages.
    Mutant {
        name: "message-too-few",
        what: "the client ends after one message less",
        example: "ping-sr-1",
        edits: &[("src/client.rs", ".wc_recv >= options.limit", ".wc_recv + 1 >= options.limit")],
        found: Case("run-verify"),
    },
    Mutant {
        name: "message-too-many",
        what: "the agent waits for one message more",
        example: "ping-sr-1",
        edits: &[("src/agent.rs", ".wc_send >= options.limit", ".wc_send > options.limit")],
        found: Case("run-verify"),
    },
    Mutant {
        name: "own-count",
        what: "the agent keeps its own count and does not take the client's",
        example: "ping-sr-1",
        edits: &[("src/c_d_id.rs", "    options.limit = connect_info.remote_limit;\n", "")],
        found: Case("agree-on-client-options"),
    },
    Mutant {
        name: "other-pattern",
        what: "the data begin with another character",
        example: "ping-sr-1",
        edits: &[("src/client.rs", "(b' '..=b'~')", "(b'!'..=b'~')")],
        found: Case("run-trace-detailed"),
    },
    Mutant {
        name: "verifies-nothing",
        what: "`-v` says that all is well and compares nothing",
        example: "ping-sr-1",
        edits: &[("src/client.rs", "if ping != pong {", "if ping.len() != pong.len() {")],
        found: Failing,
    },
    Mutant {
        name: "size-unchecked",
        what: "nothing is said of a message of another size",
        example: "ping-sr-1",
        edits: &[(
            "src/client.rs",
            "if u64::from(work_completion.byte_len) != options.data_size {",
            "if false {",
        )],
        found: Failing,
    },
    Mutant {
        name: "agent-size-unchecked",
        what: "the agent says nothing of a message of another size",
        example: "ping-sr-1",
        edits: &[(
            "src/agent.rs",
            "if u64::from(work_completion.byte_len) != options.data_size {",
            "if false {",
        )],
        found: Failing,
    },
    Mutant {
        name: "stale-pong",
        what: "the buffer is not cleared before the next answer, so that an old one may count for it",
        example: "ping-sr-1",
        edits: &[(
            "src/client.rs",
            "                            pong.iter().for_each(|byte| byte.set(0));\n",
            "",
        )],
        found: Survives("every answer comes, and what is in memory before it nobody shows"),
    },
    // Their calls to RDMA.
    Mutant {
        name: "posts-swapped",
        what: "the client posts its send before its receive",
        example: "ping-sr-1",
        edits: &[(
            "src/client.rs",
            "                    let work_request = &client_conn.user_data_recv_work_request[0];\n                    our_post_recv(client_conn, work_request, options)?;\n\n                    // post next send to resend our data to the server\n                    let work_request = &client_conn.user_data_send_work_request[0];\n                    our_post_send(client_conn, work_request, options)?;\n",
            "                    let work_request = &client_conn.user_data_send_work_request[0];\n                    our_post_send(client_conn, work_request, options)?;\n                    let work_request = &client_conn.user_data_recv_work_request[0];\n                    our_post_recv(client_conn, work_request, options)?;\n",
        )],
        found: Calls,
    },
    Mutant {
        name: "agent-posts-swapped",
        what: "the agent answers before it posts the next receive",
        example: "ping-sr-1",
        edits: &[(
            "src/agent.rs",
            "                our_post_recv(agent_conn, work_request, options)?;\n\n                // post a send to reply back to the client\n                let work_request = &agent_conn.user_data_send_work_request[0];\n                our_post_send(agent_conn, work_request, options)?;\n",
            "                let recv = work_request;\n                let work_request = &agent_conn.user_data_send_work_request[0];\n                our_post_send(agent_conn, work_request, options)?;\n                our_post_recv(agent_conn, recv, options)?;\n",
        )],
        found: Calls,
    },
    Mutant {
        name: "private-data-longer",
        what: "the private data have 8 bytes more",
        example: "ping-sr-1",
        edits: &[("src/prototypes.rs", "LEN: usize = 16;", "LEN: usize = 24;")],
        found: Calls,
    },
    Mutant {
        name: "private-data-swapped",
        what: "the private data are in the other byte order, on both sides",
        example: "ping-sr-1",
        edits: &[(
            "src/prototypes.rs",
            "use byteorder::{ByteOrder, NetworkEndian};",
            "use byteorder::{ByteOrder, LittleEndian as NetworkEndian};",
        )],
        found: Interop,
    },
    Mutant {
        name: "retry-count",
        what: "it tries again 7 times instead of 5",
        example: "ping-sr-1",
        edits: &[("src/c_d_connect.rs", "params.retry_count = 5;", "params.retry_count = 7;")],
        found: Calls,
    },
    Mutant {
        name: "rnr-retry-count",
        what: "it waits for a receive for ever",
        example: "ping-sr-1",
        edits: &[(
            "src/c_d_connect.rs",
            "params.rnr_retry_count = 5;",
            "params.rnr_retry_count = 7;",
        )],
        found: Calls,
    },
    Mutant {
        name: "responder-resources",
        what: "it serves one RDMA read at once instead of two",
        example: "ping-sr-1",
        edits: &[(
            "src/c_d_connect.rs",
            "params.responder_resources = 2;",
            "params.responder_resources = 1;",
        )],
        found: Calls,
    },
    Mutant {
        name: "backlog",
        what: "it listens with another backlog",
        example: "ping-sr-1",
        edits: &[("src/prototypes.rs", "OUR_BACKLOG: i32 = 3;", "OUR_BACKLOG: i32 = 5;")],
        found: Calls,
    },
    Mutant {
        name: "timeout",
        what: "it resolves the address with another timeout",
        example: "ping-sr-1",
        edits: &[(
            "src/bind_client.rs",
            "aptr.ai_addr().cast(), 2000)",
            "aptr.ai_addr().cast(), 3000)",
        )],
        found: Calls,
    },
    Mutant {
        name: "queue-shorter",
        what: "the send queue has half as many places",
        example: "ping-sr-1",
        edits: &[("src/prototypes.rs", "OUR_SQ_DEPTH: u32 = 16;", "OUR_SQ_DEPTH: u32 = 8;")],
        found: Calls,
    },
    Mutant {
        name: "completion-queue-shorter",
        what: "the completion queue has half as many places",
        example: "ping-sr-1",
        edits: &[(
            "src/c_d_queue_pair.rs",
            "send_queue_depth as i32 * 2;",
            "send_queue_depth as i32;",
        )],
        found: Calls,
    },
    Mutant {
        name: "elements",
        what: "a send may have one element instead of four",
        example: "ping-sr-1",
        edits: &[("src/process_options.rs", "max_send_sge: 4,", "max_send_sge: 1,")],
        found: Calls,
    },
    Mutant {
        name: "all-signaled",
        what: "the queue pair signals all sends by itself",
        example: "ping-sr-1",
        edits: &[(
            "src/c_d_queue_pair.rs",
            "init_attr.sq_sig_all = 0;",
            "init_attr.sq_sig_all = 1;",
        )],
        found: Calls,
    },
    Mutant {
        name: "solicited",
        what: "sends are solicited events",
        example: "ping-sr-1",
        edits: &[(
            "src/c_d_buffers.rs",
            "ibv_send_flags::IBV_SEND_SIGNALED.0;",
            "ibv_send_flags::IBV_SEND_SIGNALED.0 | ibv_send_flags::IBV_SEND_SOLICITED.0;",
        )],
        found: Calls,
    },
    Mutant {
        name: "access",
        what: "the peer may write to a buffer that is only sent from",
        example: "ping-sr-1",
        edits: &[(
            "src/c_d_buffers.rs",
            "[ibv_access_flags(0), ibv_access_flags::IBV_ACCESS_LOCAL_WRITE]",
            "[ibv_access_flags(3), ibv_access_flags::IBV_ACCESS_LOCAL_WRITE]",
        )],
        found: Calls,
    },
    Mutant {
        name: "region-longer",
        what: "a region has one byte more than its buffer's data",
        example: "ping-sr-1",
        edits: &[(
            "src/c_d_buffers.rs",
            "length as usize, access.0 as i32",
            "length as usize + 1, access.0 as i32",
        )],
        found: Calls,
    },
    Mutant {
        name: "region-leaks",
        what: "a region is never deregistered",
        example: "ping-sr-1",
        edits: &[(
            "src/c_d_buffers.rs",
            "for i in 0..conn.n_user_data_bufs {",
            "for i in 1..conn.n_user_data_bufs {",
        )],
        found: Calls,
    },
    Mutant {
        name: "domain-leaks",
        what: "the protection domain is never deallocated",
        example: "ping-sr-1",
        edits: &[(
            "src/c_d_queue_pair.rs",
            "    let _ = our_destroy_cq(conn, options);\n    our_dealloc_pd(conn, options);",
            "    let _ = our_destroy_cq(conn, options);",
        )],
        found: Calls,
    },
    Mutant {
        name: "memory-leaks",
        what: "the buffers are deregistered and never freed",
        example: "ping-sr-1",
        edits: &[(
            "src/c_d_buffers.rs",
            "        *user_data = CArray::default();",
            "        std::mem::forget(std::mem::take(user_data));",
        )],
        found: Survives("the process ends at once, and gives back all memory"),
    },
    Mutant {
        name: "no-disconnect",
        what: "the client leaves without a disconnect",
        example: "ping-sr-1",
        edits: &[(
            "src/client.rs",
            "        let _ = our_disconnect(conn, options);",
            "        let _ = our_disconnect;",
        )],
        found: Calls,
    },
    Mutant {
        name: "teardown-order",
        what: "the queue pair is destroyed before the regions are deregistered",
        example: "ping-sr-1",
        edits: &[(
            "src/client.rs",
            "        our_unsetup_buffers(conn, options);\n    }\n    if out >= Label::Out4 {\n        our_unsetup_qp(conn, options);",
            "        our_unsetup_qp(conn, options);\n    }\n    if out >= Label::Out4 {\n        our_unsetup_buffers(conn, options);",
        )],
        found: Calls,
    },
    Mutant {
        name: "event-unacknowledged",
        what: "an event of the connection manager is not acknowledged",
        example: "ping-sr-1",
        edits: &[(
            "src/process_cm_events.rs",
            "    unsafe { rdma_ack_cm_event(cm_event) };",
            "    let _ = rdma_ack_cm_event;\n    unsafe {};",
        )],
        found: Case("run-verify"),
    },
    Mutant {
        name: "signaled",
        what: "the write that is to be unsignaled is signaled, and its completion dropped",
        example: "ping-rdma-2",
        edits: &[
            (
                "src/client.rs",
                "            // do NOT wait for the send RDMA_WRITE to complete\n",
                "            our_await_completion(client_conn, options)?;\n",
            ),
            (
                "src/client.rs",
                "    wr.send_flags &= !ibv_send_flags::IBV_SEND_SIGNALED.0;",
                "    wr.send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;",
            ),
        ],
        found: Calls,
    },
    Mutant {
        name: "ack-events-late",
        what: "completion events are never acknowledged",
        example: "ping-sr-3",
        edits: &[("src/process_completions.rs", "    conn.cq_events_that_need_ack += 1;\n", "")],
        found: Case("run-verify"),
    },
    Mutant {
        name: "message-20",
        what: "a message has 20 bytes instead of 21",
        example: "rc-example",
        edits: &[(
            "src/rdma_rc_example.rs",
            "const MSG_SIZE: usize = MSG.len() + 1;",
            "const MSG_SIZE: usize = MSG.len();",
        )],
        found: Calls,
    },
    Mutant {
        name: "mtu",
        what: "the path has another MTU",
        example: "rc-example",
        edits: &[("src/rdma_rc_example.rs", "ibv_mtu::IBV_MTU_256;", "ibv_mtu::IBV_MTU_512;")],
        found: Calls,
    },
    Mutant {
        name: "rnr-timer",
        what: "it asks the peer to wait longer for a receive",
        example: "rc-example",
        edits: &[(
            "src/rdma_rc_example.rs",
            "attr.min_rnr_timer = 0x12;",
            "attr.min_rnr_timer = 0x14;",
        )],
        found: Calls,
    },
    Mutant {
        name: "remote-access",
        what: "the peer may use the region for atomics, too",
        example: "rc-example",
        edits: &[(
            "src/rdma_rc_example.rs",
            "let mr_flags = MR_FLAGS.0;",
            "let mr_flags = MR_FLAGS.0 | 8;",
        )],
        found: Calls,
    },
    Mutant {
        name: "key-swapped",
        what: "the remote key goes over TCP in the other byte order, on both sides",
        example: "rc-example",
        edits: &[
            (
                "src/rdma_rc_example.rs",
                "rkey: NetworkEndian::read_u32(&record[8..12]),",
                "rkey: NetworkEndian::read_u32(&record[8..12]).swap_bytes(),",
            ),
            (
                "src/rdma_rc_example.rs",
                "rkey: unsafe { (*res.mr).rkey },",
                "rkey: unsafe { (*res.mr).rkey.swap_bytes() },",
            ),
        ],
        found: Interop,
    },
    Mutant {
        name: "immediate-swapped",
        what: "the immediate data are not in network byte order",
        example: "mckey",
        edits: &[("src/mckey.rs", "imm_data = qp_num.to_be();", "imm_data = qp_num;")],
        found: Calls,
    },
    Mutant {
        name: "immediate-missing",
        what: "there are no immediate data",
        example: "mc",
        edits: &[(
            "src/mc.rs",
            "ibv_wr_opcode::IBV_WR_SEND_WITH_IMM;",
            "ibv_wr_opcode::IBV_WR_SEND;",
        )],
        found: Calls,
    },
    Mutant {
        name: "stays-in-group",
        what: "it ends without leaving the group",
        example: "mckey",
        edits: &[(
            "src/mckey.rs",
            "let left = unsafe { rdma_leave_multicast(node.cma_id, dst_addr) };",
            "let left = if true { 0 } else { unsafe { rdma_leave_multicast(node.cma_id, dst_addr) } };",
        )],
        found: Calls,
    },
    Mutant {
        name: "receive-too-few",
        what: "one receive less is in the shared queue",
        example: "srq",
        edits: &[(
            "src/srq.rs",
            "for _ in 0..ctx.max_wr {\n        let (addr, mr)",
            "for _ in 1..ctx.max_wr {\n        let (addr, mr)",
        )],
        found: Calls,
    },
    Mutant {
        name: "other-connection",
        what: "the server answers on its last connection instead of its first",
        example: "srq",
        edits: &[(
            "src/srq.rs",
            "let (conn_id, addr) = (ctx.conn_id[0], ctx.send_buf.addr());\n        let flags",
            "let (conn_id, addr) = (ctx.conn_id[ctx.conn_id.len() - 1], ctx.send_buf.addr());\n        let flags",
        )],
        found: Calls,
    },
    // Their ends when something fails, and their cost.
    Mutant {
        name: "status-0",
        what: "it ends with 0 after a failed operation",
        example: "ping-sr-1",
        edits: &[(
            "src/client.rs",
            "    exit_code(done)",
            "    let _ = exit_code(done);\n    ExitCode::SUCCESS",
        )],
        found: Failing,
    },
    Mutant {
        name: "polls-seldom",
        what: "it sleeps between two looks at the completion queue",
        example: "ping-sr-1",
        edits: &[(
            "src/process_completions.rs",
            "        if ret != 0 {\n            break ret;\n        }",
            "        if ret != 0 {\n            break ret;\n        }\n        std::thread::sleep(std::time::Duration::from_millis(5));",
        )],
        found: Speed,
    },
    Mutant {
        name: "memory",
        what: "it takes 8 MiB that it does not need",
        example: "ping-sr-1",
        edits: &[(
            "src/client.rs",
            "    // what has to be undone, by C's labels\n",
            "    std::hint::black_box(vec![1u8; 8 << 20]);\n    // what has to be undone, by C's labels\n",
        )],
        found: Speed,
    },
];
