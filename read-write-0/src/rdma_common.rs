//! The common part of both sides: everything but the order of the connection manager's events.
//!
//! Two threads share the connections. The main thread creates and destroys them, as the connection
//! manager's events come; the poller handles their completions. Nothing keeps the two apart. Where
//! that goes wrong, and what else does, is marked as a fault with its number in the README.

use std::ffi::{CStr, c_char, c_void};
use std::hint;
use std::process;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::memory::zeroed;
use common::{errln, outln};
use rdma_sys::{
    ibv_access_flags, ibv_ack_cq_events, ibv_alloc_pd, ibv_comp_channel, ibv_context, ibv_cq,
    ibv_create_comp_channel, ibv_create_cq, ibv_dereg_mr, ibv_get_cq_event, ibv_mr, ibv_pd,
    ibv_poll_cq, ibv_post_recv, ibv_post_send, ibv_qp, ibv_qp_init_attr, ibv_qp_type, ibv_recv_wr,
    ibv_reg_mr, ibv_req_notify_cq, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wc_opcode,
    ibv_wc_status, ibv_wr_opcode, rdma_cm_id, rdma_conn_param, rdma_create_qp, rdma_destroy_id,
    rdma_destroy_qp, rdma_disconnect,
};

/// Bytes of each of the two regions.
const RDMA_BUFFER_SIZE: usize = 1024;

/// A side's access to its peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It writes its text there.
    Write,
    /// It reads the peer's text.
    Read,
}

impl Mode {
    /// The mode that the command line names.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "write" => Some(Self::Write),
            "read" => Some(Self::Read),
            _ => None,
        }
    }
}

/// `call` has to return 0.
pub fn test_nz(ret: i32, call: &str) {
    if ret != 0 {
        die(&format!("error: {call} failed (returned non-zero)."));
    }
}

/// `call` must not return a null pointer.
pub fn test_z<T>(pointer: *mut T, call: &str) {
    if pointer.is_null() {
        die(&format!("error: {call} failed (returned zero/null)."));
    }
}

/// The message tells where the sender's memory is, in `mr`.
const MSG_MR: u32 = 0;
/// The sender is done with its peer's memory.
const MSG_DONE: u32 = 1;

/// A message on the wire, in the byte order and with the gaps that it has in memory.
#[repr(C)]
struct Message {
    /// [`MSG_MR`] or [`MSG_DONE`].
    kind: u32,
    /// The sender's memory region. FAULT 5: all of the structure, of which address and key are of
    /// use to the peer, and the pointers tell how our memory is laid out.
    mr: ibv_mr,
}

/// How many of its sends a connection has completed.
const SS_INIT: u32 = 0;
const SS_MR_SENT: u32 = 1;
const SS_DONE_SENT: u32 = 3;

/// How many messages have come.
const RS_INIT: u32 = 0;
const RS_MR_RECV: u32 = 1;
const RS_DONE_RECV: u32 = 2;

/// Objects that all connections share.
struct Context {
    ctx: *mut ibv_context,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    comp_channel: *mut ibv_comp_channel,
}

// SAFETY: the library does its own locking and lets any thread use these objects.
unsafe impl Send for Context {}
// SAFETY: as above; the pointers do not change.
unsafe impl Sync for Context {}

/// One connection.
pub struct Connection {
    id: *mut rdma_cm_id,
    qp: *mut ibv_qp,

    /// The connection manager has said so. C has a plain `int`, which Rust has not for two threads.
    connected: AtomicBool,

    recv_mr: *mut ibv_mr,
    send_mr: *mut ibv_mr,
    rdma_local_mr: *mut ibv_mr,
    rdma_remote_mr: *mut ibv_mr,

    /// Where the peer's memory is.
    peer_mr: ibv_mr,

    recv_msg: *mut Message,
    send_msg: *mut Message,

    /// Region for our own use: source of our writes or destination of our reads.
    rdma_local_region: *mut c_char,
    /// Region for the peer's use.
    rdma_remote_region: *mut c_char,

    send_state: u32,
    recv_state: u32,
}

static S_CTX: OnceLock<Context> = OnceLock::new();
static S_MODE: OnceLock<Mode> = OnceLock::new();

fn s_mode() -> Mode {
    S_MODE.get().copied().unwrap_or(Mode::Write)
}

/// Ends the program at once, a server with all its clients.
pub fn die(reason: &str) -> ! {
    errln!("{reason}");
    process::exit(1)
}

/// Creates everything that a connection needs, and posts its first receive.
pub fn build_connection(id: *mut rdma_cm_id) {
    // SAFETY: the id is alive, and the event that brought it here has bound it to a device.
    let s_ctx = build_context(unsafe { (*id).verbs });
    let mut qp_attr = build_qp_attr(s_ctx);

    // SAFETY: id and protection domain are alive and of the same device.
    let ret = unsafe { rdma_create_qp(id, s_ctx.pd, &mut qp_attr) };
    test_nz(ret, "rdma_create_qp(id, s_ctx->pd, &qp_attr)");

    let conn = Box::into_raw(Box::new(Connection {
        id,
        // SAFETY: the id is alive.
        qp: unsafe { (*id).qp },
        send_state: SS_INIT,
        recv_state: RS_INIT,
        connected: AtomicBool::new(false),
        recv_mr: ptr::null_mut(),
        send_mr: ptr::null_mut(),
        rdma_local_mr: ptr::null_mut(),
        rdma_remote_mr: ptr::null_mut(),
        // SAFETY: a structure of C, of numbers and pointers that may be null.
        peer_mr: unsafe { std::mem::zeroed() },
        recv_msg: ptr::null_mut(),
        send_msg: ptr::null_mut(),
        rdma_local_region: ptr::null_mut(),
        rdma_remote_region: ptr::null_mut(),
    }));
    // SAFETY: the id is alive; the connection is from now on, and nobody else knows it.
    unsafe {
        (*id).context = conn.cast();
        register_memory(s_ctx, conn);
        post_receives(conn);
    }
}

/// Creates what all connections share, with the first of them: they have to be on one device.
fn build_context(verbs: *mut ibv_context) -> &'static Context {
    if let Some(s_ctx) = S_CTX.get() {
        if s_ctx.ctx != verbs {
            die("cannot handle events in more than one context.");
        }
        return s_ctx;
    }

    // SAFETY: the device is open as long as the program runs.
    let pd = unsafe { ibv_alloc_pd(verbs) };
    test_z(pd, "s_ctx->pd = ibv_alloc_pd(s_ctx->ctx)");
    // SAFETY: as above.
    let comp_channel = unsafe { ibv_create_comp_channel(verbs) };
    test_z(comp_channel, "s_ctx->comp_channel = ibv_create_comp_channel(s_ctx->ctx)");
    // SAFETY: device and channel are alive; the number of entries is arbitrary.
    let cq = unsafe { ibv_create_cq(verbs, 10, ptr::null_mut(), comp_channel, 0) };
    test_z(cq, "s_ctx->cq = ibv_create_cq(s_ctx->ctx, 10, NULL, s_ctx->comp_channel, 0)");
    // SAFETY: the completion queue is alive.
    test_nz(unsafe { ibv_req_notify_cq(cq, 0) }, "ibv_req_notify_cq(s_ctx->cq, 0)");

    let s_ctx = S_CTX.get_or_init(|| Context { ctx: verbs, pd, cq, comp_channel });
    // FAULT 6: nobody ends this thread, or destroys what the connections share
    let cq_poller_thread = thread::Builder::new().spawn(|| poll_cq(s_ctx));
    if cq_poller_thread.is_err() {
        test_nz(1, "pthread_create(&s_ctx->cq_poller_thread, NULL, poll_cq, NULL)");
    }
    s_ctx
}

/// Parameters of the new connection: one read or write at a time may be on its way in each
/// direction, and a message for which the peer has no receive yet is sent again for ever.
pub fn build_params() -> rdma_conn_param {
    let mut params: rdma_conn_param = zeroed();

    params.initiator_depth = 1;
    params.responder_resources = 1;
    params.rnr_retry_count = 7; // infinite retry
    params
}

/// Attributes of the new queue pair.
fn build_qp_attr(s_ctx: &Context) -> ibv_qp_init_attr {
    let mut qp_attr: ibv_qp_init_attr = zeroed();

    qp_attr.send_cq = s_ctx.cq;
    qp_attr.recv_cq = s_ctx.cq;
    qp_attr.qp_type = ibv_qp_type::IBV_QPT_RC;

    qp_attr.cap.max_send_wr = 10;
    qp_attr.cap.max_recv_wr = 10;
    qp_attr.cap.max_send_sge = 1;
    qp_attr.cap.max_recv_sge = 1;
    qp_attr
}

/// Destroys everything that `build_connection` has created, and the id.
///
/// # Safety
/// `context` is that of an id whose connection is alive. FAULT 1: the poller must not be at it any
/// more, and nobody sees to that.
pub unsafe fn destroy_connection(context: *mut c_void) {
    let conn = context.cast::<Connection>();

    // SAFETY: all of it is alive, and each object goes before what it needs: the queue pair before the
    // regions, and these before their memory. FAULT 1: the poller may go on using all of it.
    unsafe {
        rdma_destroy_qp((*conn).id);

        ibv_dereg_mr((*conn).send_mr);
        ibv_dereg_mr((*conn).recv_mr);
        ibv_dereg_mr((*conn).rdma_local_mr);
        ibv_dereg_mr((*conn).rdma_remote_mr);

        libc::free((*conn).send_msg.cast());
        libc::free((*conn).recv_msg.cast());
        libc::free((*conn).rdma_local_region.cast());
        libc::free((*conn).rdma_remote_region.cast());

        rdma_destroy_id((*conn).id);

        drop(Box::from_raw(conn));
    }
}

/// Where our own text is: what we write from, or what the peer reads.
///
/// # Safety
/// `context` is that of an id whose connection is alive.
pub unsafe fn get_local_message_region(context: *mut c_void) -> *mut c_char {
    let conn = context.cast::<Connection>();
    // SAFETY: the caller's.
    unsafe {
        match s_mode() {
            Mode::Write => (*conn).rdma_local_region,
            Mode::Read => (*conn).rdma_remote_region,
        }
    }
}

/// Where the peer's text is in the end.
///
/// # Safety
/// The connection is alive.
unsafe fn get_peer_message_region(conn: *mut Connection) -> *mut c_char {
    // SAFETY: the caller's.
    unsafe {
        match s_mode() {
            Mode::Write => (*conn).rdma_remote_region,
            Mode::Read => (*conn).rdma_local_region,
        }
    }
}

/// Takes the next step of a connection of which something has completed.
///
/// # Safety
/// The connection that `wr_id` names is alive. FAULT 1: the main thread may be destroying it.
unsafe fn on_completion(wc: &ibv_wc) {
    let conn = wc.wr_id as *mut Connection;

    if wc.status != ibv_wc_status::IBV_WC_SUCCESS {
        // FAULT 4: a peer that refuses us flushes the receive, too, and this may be said first
        die("on_completion: status is not IBV_WC_SUCCESS.");
    }

    // SAFETY: the caller's.
    unsafe {
        if wc.opcode & ibv_wc_opcode::IBV_WC_RECV != 0 {
            (*conn).recv_state += 1;

            if (*(*conn).recv_msg).kind == MSG_MR {
                (*conn).peer_mr = ptr::read(&raw const (*(*conn).recv_msg).mr);
                post_receives(conn); // only rearm for MSG_MR

                if (*conn).send_state == SS_INIT {
                    // received peer's MR before sending ours, so send ours back
                    // FAULT 3: ours may be sent and its completion not be here yet
                    send_mr(conn.cast());
                }
            }
        } else {
            (*conn).send_state += 1;
            outln!("send completed successfully.");
        }

        // FAULT 3: if the peer's MSG_DONE comes before our first completion, this never holds
        if (*conn).send_state == SS_MR_SENT && (*conn).recv_state == RS_MR_RECV {
            let opcode = match s_mode() {
                Mode::Write => {
                    outln!("received MSG_MR. writing message to remote memory...");
                    ibv_wr_opcode::IBV_WR_RDMA_WRITE
                }
                Mode::Read => {
                    outln!("received MSG_MR. reading message from remote memory...");
                    ibv_wr_opcode::IBV_WR_RDMA_READ
                }
            };

            let mut sge = ibv_sge {
                addr: (*conn).rdma_local_region as u64,
                length: RDMA_BUFFER_SIZE as u32,
                lkey: (*(*conn).rdma_local_mr).lkey,
            };
            let mut wr: ibv_send_wr = zeroed();
            wr.wr_id = conn as u64;
            wr.opcode = opcode;
            wr.sg_list = &mut sge;
            wr.num_sge = 1;
            wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
            wr.wr.rdma.remote_addr = (*conn).peer_mr.addr as u64;
            wr.wr.rdma.rkey = (*conn).peer_mr.rkey;

            let mut bad_wr = ptr::null_mut();
            let ret = ibv_post_send((*conn).qp, &mut wr, &mut bad_wr);
            test_nz(ret, "ibv_post_send(conn->qp, &wr, &bad_wr)");

            // behind the read or write, which is done when this arrives
            (*(*conn).send_msg).kind = MSG_DONE;
            send_message(conn);
        } else if (*conn).send_state == SS_DONE_SENT && (*conn).recv_state == RS_DONE_RECV {
            // FAULT 1: this may be freed memory, as the peer may have disconnected
            let region = CStr::from_ptr(get_peer_message_region(conn));
            outln!("remote buffer: {}", region.to_string_lossy());
            rdma_disconnect((*conn).id);
        }
    }
}

/// The connection stands.
///
/// # Safety
/// `context` is that of an id whose connection is alive.
pub unsafe fn on_connect(context: *mut c_void) {
    // SAFETY: the caller's.
    unsafe { (*context.cast::<Connection>()).connected.store(true, Ordering::Relaxed) };
}

/// The poller: sleeps until something has completed, on whichever connection.
fn poll_cq(s_ctx: &Context) {
    loop {
        let (mut cq, mut ctx) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel is alive; the library writes queue and context.
        let ret = unsafe { ibv_get_cq_event(s_ctx.comp_channel, &mut cq, &mut ctx) };
        test_nz(ret, "ibv_get_cq_event(s_ctx->comp_channel, &cq, &ctx)");
        // SAFETY: one event of this queue was got.
        unsafe { ibv_ack_cq_events(cq, 1) };
        // SAFETY: the queue is alive.
        test_nz(unsafe { ibv_req_notify_cq(cq, 0) }, "ibv_req_notify_cq(cq, 0)");

        let mut wc: ibv_wc = zeroed();
        // SAFETY: the queue is alive; the library writes one completion.
        while unsafe { ibv_poll_cq(cq, 1, &mut wc) } != 0 {
            // SAFETY: a connection that has work is alive, but for FAULT 1.
            unsafe { on_completion(&wc) };
        }
    }
}

/// Posts the receive for the peer's next message.
///
/// # Safety
/// The connection is alive.
unsafe fn post_receives(conn: *mut Connection) {
    // SAFETY: the caller's.
    unsafe {
        let mut sge = ibv_sge {
            addr: (*conn).recv_msg as u64,
            length: size_of::<Message>() as u32,
            lkey: (*(*conn).recv_mr).lkey,
        };
        let mut wr: ibv_recv_wr = zeroed();
        wr.wr_id = conn as u64;
        wr.next = ptr::null_mut();
        wr.sg_list = &mut sge;
        wr.num_sge = 1;

        let mut bad_wr = ptr::null_mut();
        let ret = ibv_post_recv((*conn).qp, &mut wr, &mut bad_wr);
        test_nz(ret, "ibv_post_recv(conn->qp, &wr, &bad_wr)");
    }
}

/// Allocates a connection's memory and registers it, each part for what is done with it.
///
/// # Safety
/// The connection is alive.
unsafe fn register_memory(s_ctx: &Context, conn: *mut Connection) {
    let none = ibv_access_flags(0);
    let local_write = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
    let remote_read = ibv_access_flags::IBV_ACCESS_REMOTE_READ;
    let remote_write = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
    let (ours, the_peers) = match s_mode() {
        Mode::Write => (none, local_write | remote_write),
        Mode::Read => (local_write, remote_read),
    };

    // SAFETY: the caller's; the memory is there until the connection is destroyed.
    // FAULT 5: the peer gets to see what was in it before. FAULT 7: nobody asks whether it is there
    unsafe {
        (*conn).send_msg = libc::malloc(size_of::<Message>()).cast();
        (*conn).recv_msg = libc::malloc(size_of::<Message>()).cast();

        (*conn).rdma_local_region = libc::malloc(RDMA_BUFFER_SIZE).cast();
        (*conn).rdma_remote_region = libc::malloc(RDMA_BUFFER_SIZE).cast();

        let (addr, length) = ((*conn).send_msg.cast(), size_of::<Message>());
        (*conn).send_mr = ibv_reg_mr(s_ctx.pd, addr, length, none.0 as i32);
        test_z(
            (*conn).send_mr,
            "conn->send_mr = ibv_reg_mr( s_ctx->pd, conn->send_msg, sizeof(struct message), 0)",
        );

        let (addr, length) = ((*conn).recv_msg.cast(), size_of::<Message>());
        (*conn).recv_mr = ibv_reg_mr(s_ctx.pd, addr, length, local_write.0 as i32);
        test_z(
            (*conn).recv_mr,
            "conn->recv_mr = ibv_reg_mr( s_ctx->pd, conn->recv_msg, sizeof(struct message), \
             IBV_ACCESS_LOCAL_WRITE)",
        );

        let (addr, length) = ((*conn).rdma_local_region.cast(), RDMA_BUFFER_SIZE);
        (*conn).rdma_local_mr = ibv_reg_mr(s_ctx.pd, addr, length, ours.0 as i32);
        test_z(
            (*conn).rdma_local_mr,
            "conn->rdma_local_mr = ibv_reg_mr( s_ctx->pd, conn->rdma_local_region, \
             RDMA_BUFFER_SIZE, ((s_mode == M_WRITE) ? 0 : IBV_ACCESS_LOCAL_WRITE))",
        );

        let (addr, length) = ((*conn).rdma_remote_region.cast(), RDMA_BUFFER_SIZE);
        (*conn).rdma_remote_mr = ibv_reg_mr(s_ctx.pd, addr, length, the_peers.0 as i32);
        test_z(
            (*conn).rdma_remote_mr,
            "conn->rdma_remote_mr = ibv_reg_mr( s_ctx->pd, conn->rdma_remote_region, \
             RDMA_BUFFER_SIZE, ((s_mode == M_WRITE) ? (IBV_ACCESS_LOCAL_WRITE | \
             IBV_ACCESS_REMOTE_WRITE) : IBV_ACCESS_REMOTE_READ))",
        );
    }
}

/// Sends what is in `send_msg`, as soon as the connection stands.
///
/// # Safety
/// The connection is alive.
unsafe fn send_message(conn: *mut Connection) {
    // SAFETY: the caller's.
    unsafe {
        let mut sge = ibv_sge {
            addr: (*conn).send_msg as u64,
            length: size_of::<Message>() as u32,
            lkey: (*(*conn).send_mr).lkey,
        };
        let mut wr: ibv_send_wr = zeroed();
        wr.wr_id = conn as u64;
        wr.opcode = ibv_wr_opcode::IBV_WR_SEND;
        wr.sg_list = &mut sge;
        wr.num_sge = 1;
        wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;

        // FAULT 2: the poller turns here until the main thread has the event, and for all the
        // other connections nothing is done meanwhile
        while !(*conn).connected.load(Ordering::Relaxed) {
            hint::spin_loop();
        }

        let mut bad_wr = ptr::null_mut();
        let ret = ibv_post_send((*conn).qp, &mut wr, &mut bad_wr);
        test_nz(ret, "ibv_post_send(conn->qp, &wr, &bad_wr)");
    }
}

/// Tells the peer where the memory is that it may read or write.
///
/// # Safety
/// `context` is that of an id whose connection is alive.
pub unsafe fn send_mr(context: *mut c_void) {
    let conn = context.cast::<Connection>();

    // SAFETY: the caller's. FAULT 3: both threads may be here at the same time.
    unsafe {
        (*(*conn).send_msg).kind = MSG_MR;
        let mr = &raw mut (*(*conn).send_msg).mr;
        ptr::copy_nonoverlapping((*conn).rdma_remote_mr, mr, 1);

        send_message(conn);
    }
}

/// Sets the mode that the command line names.
pub fn set_mode(mode: Mode) {
    S_MODE.get_or_init(|| mode);
}
