//! The whole program, function by function as in `mc.c`.

use std::ffi::c_int;
use std::net::Ipv6Addr;
use std::process::ExitCode;
use std::{ptr, thread};

use common::getopt::{Getopt, Switch, args};
use common::memory::{CArray, zeroed};
use common::number::atoi;
use common::outln;
use common::rdma_addrinfo::RdmaAddrInfo;
use common::verbs::{Outcome, event_str, verb_err, verb_ok, wc_status_str};
use rdma_sys::{
    ___ibv_query_port, RAI_PASSIVE, ibv_ah, ibv_alloc_pd, ibv_cq, ibv_create_ah, ibv_create_cq,
    ibv_dealloc_pd, ibv_destroy_ah, ibv_destroy_cq, ibv_device_attr, ibv_grh, ibv_mr, ibv_pd,
    ibv_poll_cq, ibv_port_attr, ibv_post_send, ibv_qp_init_attr, ibv_qp_type, ibv_query_device,
    ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wc_status, ibv_wr_opcode, rdma_ack_cm_event,
    rdma_addrinfo, rdma_bind_addr, rdma_cm_event, rdma_cm_event_type, rdma_cm_id,
    rdma_create_event_channel, rdma_create_id, rdma_create_qp, rdma_dereg_mr, rdma_destroy_id,
    rdma_destroy_qp, rdma_event_channel, rdma_get_cm_event, rdma_join_multicast,
    rdma_leave_multicast, rdma_port_space, rdma_post_recv, rdma_reg_msgs, rdma_resolve_addr,
};

/// Messages to exchange if there is no `-c`.
const DEFAULT_MSG_COUNT: i32 = 4;
/// Bytes in one message if there is no `-l`.
const DEFAULT_MSG_LENGTH: i32 = 64;

/// Bytes that precede every message a UD queue pair receives: the global routing header.
const GRH_SIZE: usize = size_of::<ibv_grh>();

/// Options of the command line, and the resources of the run.
///
/// The pointers belong to the libraries. Each is null, or valid until [`destroy_resources`].
struct Context {
    // User parameters
    /// Send, not receive (`-s`).
    sender: bool,
    /// Local address (`-b`).
    bind_addr: Option<String>,
    /// The group (`-m`).
    mcast_addr: Option<String>,
    /// Messages to exchange (`-c`), not negative.
    msg_count: i32,
    /// Bytes in one message (`-l`), not negative.
    msg_length: i32,

    // Resources
    /// Address of the group.
    mcast_sockaddr: libc::sockaddr_storage,
    /// Connection manager id.
    id: *mut rdma_cm_id,
    /// Where the id's events arrive. It is not destroyed before the program ends.
    channel: *mut rdma_event_channel,
    /// Protection domain.
    pd: *mut ibv_pd,
    /// Completion queue, for sends and receives.
    cq: *mut ibv_cq,
    /// Memory region of `buf`.
    mr: *mut ibv_mr,
    /// Room for one message; every work request uses it.
    buf: CArray<u8>,
    /// Address handle of the group (sender only).
    ah: *mut ibv_ah,
    /// Queue pair number by which the group is addressed.
    remote_qpn: u32,
    /// Queue key of the group.
    remote_qkey: u32,
}

/// An event channel for another thread.
struct Channel(*mut rdma_event_channel);

// SAFETY: the library's calls may come from any thread, and nobody destroys the channel.
unsafe impl Send for Channel {}

/// Prints the events that happen while messages are exchanged.
fn cm_thread(channel: Channel) {
    loop {
        let mut event = ptr::null_mut();
        // SAFETY: the channel is there until the process ends; the library writes the address.
        let ret = unsafe { rdma_get_cm_event(channel.0, &mut event) };
        if ret != 0 {
            verb_err("rdma_get_cm_event", ret);
            break;
        }
        // SAFETY: the event was got above and is not acknowledged yet.
        let (type_, status) = unsafe { ((*event).event, (*event).status) };
        outln!("event {}, status {status}", event_str(type_));
        // SAFETY: as above, and nothing uses it any more.
        unsafe { rdma_ack_cm_event(event) };
    }
}

/// Waits for the next event, which has to be a `type_`. The caller gets it in `out_ev`, if it wants to have
/// it, and then has to acknowledge it.
fn get_cm_event(
    channel: *mut rdma_event_channel,
    type_: rdma_cm_event_type::Type,
    out_ev: Option<&mut *mut rdma_cm_event>,
) -> Outcome {
    let mut event = ptr::null_mut();
    // SAFETY: the channel is alive; the library writes the event's address.
    let ret = unsafe { rdma_get_cm_event(channel, &mut event) };
    if ret != 0 {
        verb_err("rdma_get_cm_event", ret);
        return Err(-1);
    }
    let mut result = Ok(());
    // verify the event is the expected type
    // SAFETY: the event was got above and is not acknowledged yet.
    let (got, status) = unsafe { ((*event).event, (*event).status) };
    if got != type_ {
        outln!("event: {}, status: {status}", event_str(got));
        result = Err(-1);
    }
    // pass the event back to the caller if requested
    match out_ev {
        Some(out_ev) if result.is_ok() => *out_ev = event,
        // One that nobody gets is acknowledged, too: leaving the group waits for that.
        // SAFETY: as above, and nothing uses it any more.
        _ => _ = unsafe { rdma_ack_cm_event(event) },
    }
    result
}

/// Resolves the address of the group, and binds to the local address if there is one.
fn resolve_addr(ctx: &mut Context) -> Outcome {
    let mut bind_rai = None;
    let mut hints: rdma_addrinfo = zeroed();
    hints.ai_port_space = rdma_port_space::RDMA_PS_UDP as c_int;
    if ctx.bind_addr.is_some() {
        hints.ai_flags = RAI_PASSIVE as c_int;
        let rai = RdmaAddrInfo::get(ctx.bind_addr.as_deref(), None, &hints)
            .inspect_err(|&ret| verb_err("rdma_getaddrinfo (bind)", ret))?;
        bind_rai = Some(rai);
    }

    hints.ai_flags = 0;
    let mcast_rai = RdmaAddrInfo::get(ctx.mcast_addr.as_deref(), None, &hints)
        .inspect_err(|&ret| verb_err("rdma_getaddrinfo (mcast)", ret))?;

    let mut src_addr = ptr::null_mut();
    if let Some(bind_rai) = &bind_rai {
        // bind to a specific adapter if requested to do so
        src_addr = bind_rai.ai_src_addr;
        // SAFETY: id and address are alive.
        let ret = unsafe { rdma_bind_addr(ctx.id, src_addr) };
        verb_ok("rdma_bind_addr", ret)?;

        // a protection domain is created when we bind: keep it for later
        // SAFETY: the id is alive.
        ctx.pd = unsafe { (*ctx.id).pd };
    }

    // SAFETY: id and addresses are alive; a null source means any.
    let ret = unsafe { rdma_resolve_addr(ctx.id, src_addr, mcast_rai.ai_dst_addr, 2000) };
    verb_ok("rdma_resolve_addr", ret)?;

    get_cm_event(ctx.channel, rdma_cm_event_type::RDMA_CM_EVENT_ADDR_RESOLVED, None)?;

    let length = size_of::<libc::sockaddr_storage>().min(mcast_rai.ai_dst_len as usize);
    let mcast_sockaddr = ptr::from_mut(&mut ctx.mcast_sockaddr).cast::<u8>();
    // SAFETY: the list's address has `ai_dst_len` bytes, and the destination no fewer than these.
    unsafe { mcast_sockaddr.copy_from(mcast_rai.ai_dst_addr.cast(), length) };
    Ok(())
}

/// Creates protection domain, completion queue, queue pair and memory region.
fn create_resources(ctx: &mut Context) -> Outcome {
    // SAFETY: the id is alive.
    let verbs = unsafe { (*ctx.id).verbs };

    // if we are bound to an address, the id already has a protection domain
    if ctx.pd.is_null() {
        // SAFETY: the id's address is resolved, so that it has a device.
        ctx.pd = unsafe { ibv_alloc_pd(verbs) };
        if ctx.pd.is_null() {
            verb_err("ibv_alloc_pd", -1);
            return Err(-1);
        }
    }

    // The sender waits for each completion before it posts the next send. The receiver posts all
    // its receives at once, and all of them may complete before it polls.
    let mut cqe = 2;
    if !ctx.sender {
        let mut dev_attr: ibv_device_attr = zeroed();
        // SAFETY: the device is open; the library writes the structure.
        let ret = unsafe { ibv_query_device(verbs, &mut dev_attr) };
        verb_ok("ibv_query_device", ret)?;
        cqe = ctx.msg_count.min(dev_attr.max_cqe).max(cqe);
    }
    // SAFETY: as above; null pointers mean no context, and nobody who wants events.
    ctx.cq = unsafe { ibv_create_cq(verbs, cqe, ptr::null_mut(), ptr::null_mut(), 0) };
    if ctx.cq.is_null() {
        verb_err("ibv_create_cq", -1);
        return Err(-1);
    }

    let mut attr: ibv_qp_init_attr = zeroed();
    attr.qp_type = ibv_qp_type::IBV_QPT_UD;
    attr.send_cq = ctx.cq;
    attr.recv_cq = ctx.cq;
    attr.cap.max_send_wr = ctx.msg_count as u32;
    attr.cap.max_recv_wr = ctx.msg_count as u32;
    attr.cap.max_send_sge = 1;
    attr.cap.max_recv_sge = 1;
    // SAFETY: id, protection domain and completion queue are alive and of one device.
    let ret = unsafe { rdma_create_qp(ctx.id, ctx.pd, &mut attr) };
    verb_ok("rdma_create_qp", ret)?;

    // the receiver must allow enough space in the receive buffer for the routing header
    let buf_size = ctx.msg_length as usize + if ctx.sender { 0 } else { GRH_SIZE };
    // no bytes need an address, too, to be registered
    ctx.buf = CArray::calloc(buf_size.max(1)).map_err(|_| {
        verb_err("calloc", -1);
        -1
    })?;

    // register our memory region
    // SAFETY: the id has its queue pair's protection domain; the buffer stays until the region is
    // deregistered.
    ctx.mr = unsafe { rdma_reg_msgs(ctx.id, ctx.buf.addr(), buf_size) };
    if ctx.mr.is_null() {
        verb_err("rdma_reg_msgs", -1);
        return Err(-1);
    }
    Ok(())
}

/// Destroys address handle, queue pair, completion queue, memory region, protection domain and
/// id, as far as they are there.
fn destroy_resources(ctx: &mut Context) {
    if !ctx.ah.is_null() {
        // SAFETY: `main` has created the handle; the library has read it for each send while that was posted.
        unsafe { ibv_destroy_ah(ctx.ah) };
    }
    // SAFETY: the id is alive.
    if !unsafe { (*ctx.id).qp }.is_null() {
        // SAFETY: the id has a queue pair.
        unsafe { rdma_destroy_qp(ctx.id) };
    }
    if !ctx.cq.is_null() {
        // SAFETY: its queue pair is gone.
        unsafe { ibv_destroy_cq(ctx.cq) };
    }
    if !ctx.mr.is_null() {
        // SAFETY: the queue pair that used the region is gone.
        unsafe { rdma_dereg_mr(ctx.mr) };
    }
    ctx.buf = CArray::default();
    // SAFETY: the id is alive.
    if !ctx.pd.is_null() && unsafe { (*ctx.id).pd }.is_null() {
        // SAFETY: nothing uses the protection domain any more.
        unsafe { ibv_dealloc_pd(ctx.pd) };
    }
    // SAFETY: the id is alive, and its queue pair is gone. `cm_thread` may have an event of it: the
    // call waits until that is acknowledged.
    unsafe { rdma_destroy_id(ctx.id) };
}

/// Posts a send of one message to the group.
fn post_send(ctx: &Context) -> Outcome {
    // set the data to non-zero
    let message = &ctx.buf[..ctx.msg_length as usize];
    message.iter().for_each(|byte| byte.set(0x12));

    let mut sge = ibv_sge {
        addr: ctx.buf.addr() as u64,
        length: ctx.msg_length as u32,
        // SAFETY: `create_resources` has registered the region.
        lkey: unsafe { (*ctx.mr).lkey },
    };

    // SAFETY: the id is alive.
    let qp = unsafe { (*ctx.id).qp };
    // SAFETY: `create_resources` has created the queue pair.
    let qp_num = unsafe { (*qp).qp_num };

    // a message to a group carries the sender's queue pair number as immediate data
    let mut wr: ibv_send_wr = zeroed();
    wr.next = ptr::null_mut();
    wr.sg_list = &mut sge;
    wr.num_sge = 1;
    wr.opcode = ibv_wr_opcode::IBV_WR_SEND_WITH_IMM;
    wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
    wr.wr_id = 0;
    wr.imm_data_invalidated_rkey_union.imm_data = qp_num.to_be();
    wr.wr.ud.ah = ctx.ah;
    wr.wr.ud.remote_qpn = ctx.remote_qpn;
    wr.wr.ud.remote_qkey = ctx.remote_qkey;
    let mut bad_wr = ptr::null_mut();

    // SAFETY: queue pair, address handle and region are alive; the library reads the request only
    // during the call.
    let ret = unsafe { ibv_post_send(qp, &mut wr, &mut bad_wr) };
    if ret != 0 {
        verb_err("ibv_post_send", ret);
        return Err(-1);
    }
    Ok(())
}

/// Waits for a completion, whose status has to be good.
fn get_completion(ctx: &Context) -> Outcome {
    let mut wc: ibv_wc = zeroed();
    loop {
        // SAFETY: the completion queue is alive, and there is room for one completion.
        let ret = unsafe { ibv_poll_cq(ctx.cq, 1, &mut wc) };
        if ret < 0 {
            verb_err("ibv_poll_cq", ret);
            return Err(-1);
        }
        if ret != 0 {
            break;
        }
    }

    if wc.status != ibv_wc_status::IBV_WC_SUCCESS {
        outln!("work completion status {}", wc_status_str(wc.status));
        return Err(-1);
    }
    Ok(())
}

/// Joins a group and exchanges messages with it: the sender sends, the receiver receives.
pub fn main() -> ExitCode {
    let mut ctx = Context {
        sender: false,
        bind_addr: None,
        mcast_addr: None,
        msg_count: DEFAULT_MSG_COUNT,
        msg_length: DEFAULT_MSG_LENGTH,
        mcast_sockaddr: zeroed(),
        id: ptr::null_mut(),
        channel: ptr::null_mut(),
        pd: ptr::null_mut(),
        cq: ptr::null_mut(),
        mr: ptr::null_mut(),
        buf: CArray::default(),
        ah: ptr::null_mut(),
        remote_qpn: 0,
        remote_qkey: 0,
    };

    // read options from command line
    let argv = args();
    for Switch { c, optarg, .. } in Getopt::new(&argv, "shb:m:p:c:l:") {
        match c {
            's' => ctx.sender = true,
            'b' => ctx.bind_addr = Some(optarg),
            'm' => ctx.mcast_addr = Some(optarg),
            // taken, but there is no use for it
            'p' => {}
            'c' => ctx.msg_count = atoi(&optarg),
            'l' => ctx.msg_length = atoi(&optarg),
            _ => {
                outln!("usage: {} -m mc_address", argv.first().map_or("", String::as_str));
                outln!("\t[-s[ender mode]");
                outln!("\t[-b bind_address]");
                outln!("\t[-p port_number]");
                outln!("\t[-c msg_count]");
                outln!("\t[-l msg_length]");
                return ExitCode::from(1);
            }
        }
    }

    if ctx.mcast_addr.is_none() {
        outln!("multicast address must be specified with -m");
        return ExitCode::from(1);
    }
    if ctx.msg_count < 0 {
        outln!("msg_count must not be negative");
        return ExitCode::from(1);
    }
    if ctx.msg_length < 0 {
        outln!("msg_length must not be negative");
        return ExitCode::from(1);
    }

    // SAFETY: takes nothing, and returns a channel or null.
    ctx.channel = unsafe { rdma_create_event_channel() };
    if ctx.channel.is_null() {
        verb_err("rdma_create_event_channel", -1);
        return ExitCode::from(1);
    }

    let ps = rdma_port_space::RDMA_PS_UDP;
    // SAFETY: the channel is alive; the library writes the new id.
    let ret = unsafe { rdma_create_id(ctx.channel, &mut ctx.id, ptr::null_mut(), ps) };
    if ret != 0 {
        verb_err("rdma_create_id", -1);
        return ExitCode::from(1);
    }

    let mut joined = false;
    let mut result = (|| -> Outcome {
        resolve_addr(&mut ctx)?;

        // verify that the buffer length is not larger than the MTU
        let mut port_attr: ibv_port_attr = zeroed();
        // SAFETY: the id is alive.
        let id = unsafe { &*ctx.id };
        // SAFETY: the id's address is resolved, so that it has a device.
        let ret = unsafe { ___ibv_query_port(id.verbs, id.port_num, &mut port_attr) };
        verb_ok("ibv_query_port", ret)?;
        let active_mtu = 1 << (port_attr.active_mtu + 7);
        if ctx.msg_length > active_mtu {
            outln!("buffer length {} is larger then active mtu {active_mtu}", ctx.msg_length);
            return Err(-1);
        }

        create_resources(&mut ctx)?;

        if !ctx.sender {
            let length = ctx.msg_length as usize + GRH_SIZE;
            for _ in 0..ctx.msg_count {
                // SAFETY: `create_resources` has created the queue pair, and the region that
                // covers the buffer.
                let ret = unsafe {
                    rdma_post_recv(ctx.id, ptr::null_mut(), ctx.buf.addr(), length, ctx.mr)
                };
                verb_ok("rdma_post_recv", ret)?;
            }
        }

        // join the multicast group
        let group = ptr::from_mut(&mut ctx.mcast_sockaddr).cast();
        // SAFETY: the id is alive, and the address is one of the length that its family has.
        let ret = unsafe { rdma_join_multicast(ctx.id, group, ptr::null_mut()) };
        verb_ok("rdma_join_multicast", ret)?;
        joined = true;

        // verify that we successfully joined the multicast group
        let multicast_join = rdma_cm_event_type::RDMA_CM_EVENT_MULTICAST_JOIN;
        let mut event = ptr::null_mut();
        get_cm_event(ctx.channel, multicast_join, Some(&mut event))?;
        // SAFETY: the event is not acknowledged yet, and one of a join has the parameters of a datagram
        // service.
        let mut ud = unsafe { (*event).param.ud };
        // SAFETY: every GID is 16 bytes.
        let dgid = Ipv6Addr::from(unsafe { ud.ah_attr.grh.dgid.raw });
        outln!("joined dgid: {dgid}, mlid 0x{:x}, sl {}", ud.ah_attr.dlid, ud.ah_attr.sl);
        ctx.remote_qpn = ud.qp_num;
        ctx.remote_qkey = ud.qkey;
        if ctx.sender {
            // create an address handle for the sender
            // SAFETY: the protection domain is alive; the library reads the attributes.
            ctx.ah = unsafe { ibv_create_ah(ctx.pd, &mut ud.ah_attr) };
            if ctx.ah.is_null() {
                verb_err("ibv_create_ah", -1);
                // SAFETY: as below.
                unsafe { rdma_ack_cm_event(event) };
                return Err(-1);
            }
        }
        // SAFETY: the event was got above, and nothing uses it any more.
        unsafe { rdma_ack_cm_event(event) };

        // Create a thread to handle any events while messages are exchanged. Without it they
        // would only go unread. It ends with the process.
        let channel = Channel(ctx.channel);
        let _ = thread::Builder::new().spawn(move || cm_thread(channel));

        if !ctx.sender {
            outln!("waiting for messages...");
        }
        for i in 1..=ctx.msg_count {
            if ctx.sender {
                post_send(&ctx)?;
            }
            get_completion(&ctx)?;
            if ctx.sender {
                outln!("sent message {i}");
            } else {
                outln!("received message {i}");
            }
        }
        Ok(())
    })();

    if joined {
        let group = ptr::from_mut(&mut ctx.mcast_sockaddr).cast();
        // SAFETY: id and address are those that have joined.
        let ret = unsafe { rdma_leave_multicast(ctx.id, group) };
        if ret != 0 {
            verb_err("rdma_leave_multicast", ret);
            result = result.and(Err(ret));
        }
    }
    destroy_resources(&mut ctx);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // the system keeps 8 bits of what main returns
        Err(ret) => ExitCode::from(ret as u8),
    }
}
