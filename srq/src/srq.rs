//! The whole program; client and server differ in [`run_client`] and [`run_server`].

use std::ffi::{c_int, c_void};
use std::process::ExitCode;
use std::ptr;

use common::getopt::{Getopt, Switch, args};
use common::memory::{CArray, zeroed};
use common::number::atoi;
use common::rdma_addrinfo::RdmaAddrInfo;
use common::verbs::{Outcome, verb_err, verb_ok, wc_status_str};
use common::{errln, outln};
use rdma_sys::{
    RAI_PASSIVE, ibv_ack_cq_events, ibv_comp_channel, ibv_cq, ibv_create_comp_channel,
    ibv_create_cq, ibv_destroy_comp_channel, ibv_destroy_cq, ibv_get_cq_event, ibv_mr, ibv_poll_cq,
    ibv_qp_init_attr, ibv_qp_state, ibv_qp_type, ibv_req_notify_cq, ibv_send_flags, ibv_srq,
    ibv_srq_init_attr, ibv_wc, ibv_wc_status, rdma_accept, rdma_addrinfo, rdma_bind_addr,
    rdma_cm_id, rdma_connect, rdma_create_ep, rdma_create_id, rdma_create_qp, rdma_create_srq,
    rdma_dereg_mr, rdma_destroy_id, rdma_destroy_qp, rdma_destroy_srq, rdma_disconnect,
    rdma_get_request, rdma_get_send_comp, rdma_listen, rdma_port_space, rdma_post_recv,
    rdma_post_send, rdma_reg_msgs, rdma_resolve_addr,
};

/// Port without `-p`.
const DEFAULT_PORT: &str = "51216";
/// Number of messages without `-c`.
const DEFAULT_MSG_COUNT: c_int = 100;
/// Bytes in a message without `-l`.
const DEFAULT_MSG_LENGTH: c_int = 100000;
/// Number of connections without `-q`.
const DEFAULT_QP_COUNT: c_int = 4;
/// Work requests in each queue without `-w`.
const DEFAULT_MAX_WR: c_int = 64;

/// Options and objects of the run. The pointers belong to the libraries and are null, or not in
/// `conn_id`, until created; [`destroy_resources`] undoes what is there.
struct Context {
    // User parameters
    /// Whether this is the server (`-s`).
    server: bool,
    /// Name or address of the server (`-a`).
    server_name: Option<String>,
    /// Its port or service name (`-p`).
    server_port: String,
    /// Messages that the client sends (`-c`).
    msg_count: c_int,
    /// Bytes in one message (`-l`).
    msg_length: c_int,
    /// Connections, each with a queue pair (`-q`).
    qp_count: c_int,
    /// Work requests that fit in the shared receive queue and in each send queue (`-w`).
    max_wr: c_int,

    // Resources
    /// Stands for the device; owns the shared receive queue.
    srq_id: *mut rdma_cm_id,
    /// The server listens here: `srq_id` once more.
    listen_id: *mut rdma_cm_id,
    /// One id for each connection made so far.
    conn_id: Vec<*mut rdma_cm_id>,
    /// Memory region of `send_buf`.
    send_mr: *mut ibv_mr,
    /// Memory region of `recv_buf`.
    recv_mr: *mut ibv_mr,
    /// The shared receive queue.
    srq: *mut ibv_srq,
    /// Completion queue for all receives.
    srq_cq: *mut ibv_cq,
    /// Tells of new completions in `srq_cq`.
    srq_cq_channel: *mut ibv_comp_channel,
    /// Every message is sent from here.
    send_buf: CArray<u8>,
    /// Every message is received here.
    recv_buf: CArray<u8>,
}

/// Memory for one message.
fn malloc(length: usize) -> Outcome<CArray<u8>> {
    // no bytes need an address, too, to be registered
    CArray::calloc(length.max(1)).map_err(|_| {
        verb_err("malloc", -1);
        -1
    })
}

/// Creates what client and server both need: the shared receive queue with its receives posted,
/// the memory regions, and one completion queue for the receives of every queue pair.
fn init_resources(ctx: &mut Context, rai: &RdmaAddrInfo) -> Outcome {
    // an id by which the SRQ is created and used
    let ps = rdma_port_space::RDMA_PS_TCP;
    // SAFETY: the library writes the new id; without a channel its calls are synchronous.
    let ret = unsafe { rdma_create_id(ptr::null_mut(), &mut ctx.srq_id, ptr::null_mut(), ps) };
    verb_ok("rdma_create_id", ret)?;

    // an address ties the id to the RDMA device behind it
    if !ctx.server {
        // SAFETY: the id and the address are alive; a null source means any.
        let ret = unsafe { rdma_resolve_addr(ctx.srq_id, ptr::null_mut(), rai.ai_dst_addr, 1000) };
        verb_ok("rdma_resolve_addr", ret)?;
    } else {
        // SAFETY: the id and the address are alive.
        let ret = unsafe { rdma_bind_addr(ctx.srq_id, rai.ai_src_addr) };
        verb_ok("rdma_bind_addr", ret)?;
    }

    // the address of no device in particular, 0.0.0.0, is accepted but leads to none
    // SAFETY: the id is alive.
    let verbs = unsafe { (*ctx.srq_id).verbs };
    if verbs.is_null() {
        errln!("server address is not that of an RDMA device");
        return Err(-1);
    }

    // the memory regions
    let msg_length = ctx.msg_length as usize;
    // SAFETY: the id has a device; the buffer has this length and lives longer than the region.
    ctx.recv_mr = unsafe { rdma_reg_msgs(ctx.srq_id, ctx.recv_buf.addr(), msg_length) };
    if ctx.recv_mr.is_null() {
        verb_err("rdma_reg_msgs", -1);
        return Err(-1);
    }
    // SAFETY: as above.
    ctx.send_mr = unsafe { rdma_reg_msgs(ctx.srq_id, ctx.send_buf.addr(), msg_length) };
    if ctx.send_mr.is_null() {
        verb_err("rdma_reg_msgs", -1);
        return Err(-1);
    }

    // the shared receive queue
    let mut srq_attr: ibv_srq_init_attr = zeroed();
    srq_attr.attr.max_wr = ctx.max_wr as u32;
    srq_attr.attr.max_sge = 1;
    // SAFETY: the id has a device; a null protection domain means the device's own.
    let ret = unsafe { rdma_create_srq(ctx.srq_id, ptr::null_mut(), &mut srq_attr) };
    verb_ok("rdma_create_srq", ret)?;

    // kept at hand for the queue pairs that are to use it
    // SAFETY: the id is alive.
    ctx.srq = unsafe { (*ctx.srq_id).srq };

    // post the receive buffer as often as the SRQ takes it
    for _ in 0..ctx.max_wr {
        let (addr, mr) = (ctx.recv_buf.addr(), ctx.recv_mr);
        // SAFETY: the id has an SRQ; the region covers the buffer. Only a queue pair takes a receive
        // from the SRQ, and `destroy_resources` has all of these go before region and buffer.
        let ret = unsafe { rdma_post_recv(ctx.srq_id, ptr::null_mut(), addr, msg_length, mr) };
        verb_ok("rdma_post_recv", ret)?;
    }

    // a completion channel for the SRQ's completion queue
    // SAFETY: the device is open as long as the id lives.
    ctx.srq_cq_channel = unsafe { ibv_create_comp_channel(verbs) };
    if ctx.srq_cq_channel.is_null() {
        verb_err("ibv_create_comp_channel", -1);
        return Err(-1);
    }

    // one completion queue for all queue pairs that use the SRQ
    // SAFETY: device and channel are alive; the context of the queue is not used.
    ctx.srq_cq =
        unsafe { ibv_create_cq(verbs, ctx.max_wr, ptr::null_mut(), ctx.srq_cq_channel, 0) };
    if ctx.srq_cq.is_null() {
        verb_err("ibv_create_cq", -1);
        return Err(-1);
    }

    // ask to be told of the first completion
    // SAFETY: the queue is alive.
    let ret = unsafe { ibv_req_notify_cq(ctx.srq_cq, 0) };
    verb_ok("ibv_req_notify_cq", ret)
}

/// Undoes whatever the program has created by now.
fn destroy_resources(ctx: &mut Context) {
    for id in ctx.conn_id.drain(..) {
        // SAFETY: the id is alive until it is destroyed below.
        let qp = unsafe { (*id).qp };
        if !qp.is_null() {
            // SAFETY: the queue pair of an id that is alive.
            let state = unsafe { (*qp).state };
            if state == ibv_qp_state::IBV_QPS_RTS {
                // SAFETY: the id is alive.
                unsafe { rdma_disconnect(id) };
            }
            // SAFETY: the id is alive and has a queue pair.
            unsafe { rdma_destroy_qp(id) };
        }
        // SAFETY: the queue pair is gone; the id is not used after this.
        unsafe { rdma_destroy_id(id) };
    }

    // with the queue pairs gone nothing is sent or received any more
    if !ctx.recv_mr.is_null() {
        // SAFETY: the region is registered, and deregistered only here.
        unsafe { rdma_dereg_mr(ctx.recv_mr) };
    }
    if !ctx.send_mr.is_null() {
        // SAFETY: as above.
        unsafe { rdma_dereg_mr(ctx.send_mr) };
    }
    ctx.recv_buf = CArray::default();
    ctx.send_buf = CArray::default();
    if !ctx.srq_cq.is_null() {
        // SAFETY: no queue pair uses the queue, and all its events are acknowledged.
        unsafe { ibv_destroy_cq(ctx.srq_cq) };
    }
    if !ctx.srq_cq_channel.is_null() {
        // SAFETY: the only queue that used the channel is gone.
        unsafe { ibv_destroy_comp_channel(ctx.srq_cq_channel) };
    }
    if !ctx.srq_id.is_null() {
        if !ctx.srq.is_null() {
            // SAFETY: the id has an SRQ, which no queue pair uses any more.
            unsafe { rdma_destroy_srq(ctx.srq_id) };
        }
        // SAFETY: nothing of the id is left; it is not used after this.
        unsafe { rdma_destroy_id(ctx.srq_id) };
    }
}

/// Waits until there is a completion in the SRQ's completion queue.
fn await_completion(ctx: &Context) -> Outcome {
    let mut ev_cq = ptr::null_mut();
    let mut ev_ctx = ptr::null_mut();
    // wait for an event of the completion queue
    // SAFETY: the channel is alive; the library writes queue and context.
    let ret = unsafe { ibv_get_cq_event(ctx.srq_cq_channel, &mut ev_cq, &mut ev_ctx) };
    verb_ok("ibv_get_cq_event", ret)?;

    // SAFETY: the queue whose event was just taken.
    unsafe { ibv_ack_cq_events(ev_cq, 1) };
    // ask for the next event
    // SAFETY: the queue is alive.
    let ret = unsafe { ibv_req_notify_cq(ctx.srq_cq, 0) };
    verb_ok("ibv_req_notify_cq", ret)
}

/// Says why a work request failed, if it did.
fn check_status(wc: &ibv_wc) -> Outcome {
    if wc.status != ibv_wc_status::IBV_WC_SUCCESS {
        outln!("work completion status {}", wc_status_str(wc.status));
        return Err(-1);
    }
    Ok(())
}

/// The server: accepts the connections, then receives all messages through the one queue and
/// answers each batch of them.
fn run_server(ctx: &mut Context, rai: &RdmaAddrInfo) -> Outcome {
    let mut send_count: u64 = 0;
    let mut recv_count: u64 = 0;
    let mut wc: ibv_wc = zeroed();
    init_resources(ctx, rai).inspect_err(|ret| outln!("init_resources returned {ret}"))?;

    // the SRQ's id has an address already, so it can listen, too
    ctx.listen_id = ctx.srq_id;
    // SAFETY: the id is alive and bound.
    let ret = unsafe { rdma_listen(ctx.listen_id, 4) };
    verb_ok("rdma_listen", ret)?;

    outln!("waiting for connection from client...");
    for _ in 0..ctx.qp_count {
        let mut conn_id = ptr::null_mut();
        // SAFETY: the id listens; the library writes the id of the new connection.
        let ret = unsafe { rdma_get_request(ctx.listen_id, &mut conn_id) };
        verb_ok("rdma_get_request", ret)?;
        ctx.conn_id.push(conn_id);

        // create the queue pair
        let mut qp_attr: ibv_qp_init_attr = zeroed();
        qp_attr.qp_context = ptr::from_mut(ctx).cast();
        qp_attr.qp_type = ibv_qp_type::IBV_QPT_RC;
        qp_attr.cap.max_send_wr = ctx.max_wr as u32;
        qp_attr.cap.max_recv_wr = ctx.max_wr as u32;
        qp_attr.cap.max_send_sge = 1;
        qp_attr.cap.max_recv_sge = 1;
        qp_attr.cap.max_inline_data = 0;
        qp_attr.recv_cq = ctx.srq_cq;
        qp_attr.srq = ctx.srq;
        qp_attr.sq_sig_all = 0;
        // SAFETY: the ids, the queues and the attributes are alive; `qp_context` is never used.
        let ret = unsafe { rdma_create_qp(conn_id, ptr::null_mut(), &mut qp_attr) };
        verb_ok("rdma_create_qp", ret)?;

        // the new connection receives through our SRQ
        // SAFETY: the id is alive.
        unsafe { (*conn_id).srq = ctx.srq };
        // SAFETY: the id came with a request and has a queue pair.
        let ret = unsafe { rdma_accept(conn_id, ptr::null_mut()) };
        verb_ok("rdma_accept", ret)?;
    }

    let msg_count = ctx.msg_count as u64;
    let msg_length = ctx.msg_length as usize;
    while recv_count < msg_count {
        let mut i = 0;
        while i < ctx.max_wr && recv_count < msg_count {
            await_completion(ctx).inspect_err(|ret| outln!("await_completion {ret}"))?;

            loop {
                // SAFETY: the queue is alive and `wc` has room for one completion.
                let ne = unsafe { ibv_poll_cq(ctx.srq_cq, 1, &mut wc) };
                if ne < 0 {
                    verb_err("ibv_poll_cq", ne);
                    return Err(ne);
                } else if ne == 0 {
                    break;
                }

                check_status(&wc)?;

                recv_count += 1;
                outln!("recv count: {recv_count}, qp_num: {}", wc.qp_num);
                let (context, addr) = (wc.wr_id as *mut c_void, ctx.recv_buf.addr());
                // SAFETY: as in `init_resources`.
                let ret =
                    unsafe { rdma_post_recv(ctx.srq_id, context, addr, msg_length, ctx.recv_mr) };
                verb_ok("rdma_post_recv", ret)?;

                i += 1;
            }
        }

        let (conn_id, addr) = (ctx.conn_id[0], ctx.send_buf.addr());
        let flags = ibv_send_flags::IBV_SEND_SIGNALED.0 as c_int;
        // SAFETY: the id has a queue pair, which `destroy_resources` has go before the region and the
        // buffer that this covers.
        let ret = unsafe {
            rdma_post_send(conn_id, ptr::null_mut(), addr, msg_length, ctx.send_mr, flags)
        };
        verb_ok("rdma_post_send", ret)?;

        // SAFETY: the id has a completion queue and channel of its own for sends.
        let ret = unsafe { rdma_get_send_comp(conn_id, &mut wc) };
        if ret <= 0 {
            verb_err("rdma_get_send_comp", ret);
            return Err(-1);
        }
        check_status(&wc)?;

        send_count += 1;
        outln!("send count: {send_count}");
    }

    Ok(())
}

/// The client: makes the connections, then sends over them in turn, as many messages as the
/// server's queue has room for, and waits for its answer.
fn run_client(ctx: &mut Context, rai: &RdmaAddrInfo) -> Outcome {
    let mut send_count: u64 = 0;
    let mut recv_count: u64 = 0;
    let mut wc: ibv_wc = zeroed();
    init_resources(ctx, rai).inspect_err(|ret| outln!("init_resources returned {ret}"))?;

    for _ in 0..ctx.qp_count {
        let mut attr: ibv_qp_init_attr = zeroed();
        attr.qp_context = ptr::from_mut(ctx).cast();
        attr.cap.max_send_wr = ctx.max_wr as u32;
        attr.cap.max_recv_wr = ctx.max_wr as u32;
        attr.cap.max_send_sge = 1;
        attr.cap.max_recv_sge = 1;
        attr.cap.max_inline_data = 0;
        attr.recv_cq = ctx.srq_cq;
        attr.srq = ctx.srq;
        attr.sq_sig_all = 0;
        let mut conn_id = ptr::null_mut();
        // SAFETY: address list, queues and attributes are alive; `qp_context` is never used.
        let ret = unsafe { rdma_create_ep(&mut conn_id, rai.as_ptr(), ptr::null_mut(), &mut attr) };
        verb_ok("rdma_create_ep", ret)?;
        ctx.conn_id.push(conn_id);

        // SAFETY: the id has a route and a queue pair.
        let ret = unsafe { rdma_connect(conn_id, ptr::null_mut()) };
        verb_ok("rdma_connect", ret)?;
    }

    let msg_count = ctx.msg_count as u64;
    let msg_length = ctx.msg_length as usize;
    while send_count < msg_count {
        for i in 0..ctx.max_wr {
            if send_count == msg_count {
                break;
            }

            // send one message to the server
            let conn_id = ctx.conn_id[(i % ctx.qp_count) as usize];
            let (addr, mr) = (ctx.send_buf.addr(), ctx.send_mr);
            let flags = ibv_send_flags::IBV_SEND_SIGNALED.0 as c_int;
            // SAFETY: as in `run_server`.
            let ret =
                unsafe { rdma_post_send(conn_id, ptr::null_mut(), addr, msg_length, mr, flags) };
            verb_ok("rdma_post_send", ret)?;

            // SAFETY: the id has a completion queue and channel of its own for sends.
            let ret = unsafe { rdma_get_send_comp(conn_id, &mut wc) };
            if ret <= 0 {
                verb_err("rdma_get_send_comp", ret);
                return Err(ret);
            }
            check_status(&wc)?;

            send_count += 1;
            outln!("send count: {send_count}, qp_num: {}", wc.qp_num);
        }

        // the answer tells that the server has taken all of them in
        await_completion(ctx).inspect_err(|&ret| verb_err("await_completion", ret))?;

        loop {
            // SAFETY: the queue is alive and `wc` has room for one completion.
            let ne = unsafe { ibv_poll_cq(ctx.srq_cq, 1, &mut wc) };
            if ne < 0 {
                verb_err("ibv_poll_cq", ne);
                return Err(ne);
            } else if ne == 0 {
                break;
            }

            check_status(&wc)?;

            recv_count += 1;
            outln!("recv count: {recv_count}");
            let (context, addr) = (wc.wr_id as *mut c_void, ctx.recv_buf.addr());
            // SAFETY: as in `init_resources`.
            let ret = unsafe { rdma_post_recv(ctx.srq_id, context, addr, msg_length, ctx.recv_mr) };
            verb_ok("rdma_post_recv", ret)?;
        }
    }

    Ok(())
}

/// Reads the command line, prepares the buffers, and runs as client or server.
pub fn main() -> ExitCode {
    let mut ctx = Context {
        server: false,
        server_name: None,
        server_port: DEFAULT_PORT.to_string(),
        msg_count: DEFAULT_MSG_COUNT,
        msg_length: DEFAULT_MSG_LENGTH,
        qp_count: DEFAULT_QP_COUNT,
        max_wr: DEFAULT_MAX_WR,
        srq_id: ptr::null_mut(),
        listen_id: ptr::null_mut(),
        conn_id: Vec::new(),
        send_mr: ptr::null_mut(),
        recv_mr: ptr::null_mut(),
        srq: ptr::null_mut(),
        srq_cq: ptr::null_mut(),
        srq_cq_channel: ptr::null_mut(),
        send_buf: CArray::default(),
        recv_buf: CArray::default(),
    };
    let mut hints: rdma_addrinfo = zeroed();

    // read the command line
    let argv = args();
    for Switch { c, optarg, .. } in Getopt::new(&argv, "sa:p:c:l:q:w:") {
        match c {
            's' => ctx.server = true,
            'a' => ctx.server_name = Some(optarg),
            'p' => ctx.server_port = optarg,
            'c' => ctx.msg_count = atoi(&optarg),
            'l' => ctx.msg_length = atoi(&optarg),
            'q' => ctx.qp_count = atoi(&optarg),
            'w' => ctx.max_wr = atoi(&optarg),
            _ => {
                outln!("usage: {} -a server_address", argv[0]);
                outln!("\t[-s server mode]");
                outln!("\t[-p port_number]");
                outln!("\t[-c msg_count]");
                outln!("\t[-l msg_length]");
                outln!("\t[-q qp_count]");
                outln!("\t[-w max_wr]");
                return ExitCode::from(1);
            }
        }
    }

    if ctx.server_name.is_none() {
        outln!("server address required (use -a)!");
        return ExitCode::from(1);
    }

    // numbers with which the program could only crash or wait for ever
    for (parameter, value, least) in [
        ("msg_count", ctx.msg_count, 0),
        ("msg_length", ctx.msg_length, 0),
        ("qp_count", ctx.qp_count, 1),
        ("max_wr", ctx.max_wr, 1),
    ] {
        if value < least {
            outln!("{parameter} must be at least {least}!");
            return ExitCode::from(1);
        }
    }

    hints.ai_port_space = rdma_port_space::RDMA_PS_TCP as c_int;
    if ctx.server {
        hints.ai_flags = RAI_PASSIVE as c_int; // this makes it a server
    }
    let rai = match RdmaAddrInfo::get(ctx.server_name.as_deref(), Some(&ctx.server_port), &hints) {
        Ok(rai) => rai,
        Err(ret) => {
            verb_err("rdma_getaddrinfo", ret);
            return ExitCode::from(1);
        }
    };

    let result = (|| -> Outcome {
        // allocate memory for the send and receive buffers
        let msg_length = ctx.msg_length as usize;
        ctx.send_buf = malloc(msg_length)?;
        ctx.recv_buf = malloc(msg_length)?;
        if ctx.server { run_server(&mut ctx, &rai) } else { run_client(&mut ctx, &rai) }
    })();

    destroy_resources(&mut ctx);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // the system keeps 8 bits of what main returns
        Err(ret) => ExitCode::from(ret as u8),
    }
}
