//! What both sides do: everything but the order of the connection manager's events.
//!
//! Two threads share the connections. The main thread creates and destroys them, as the connection
//! manager's events come; the poller handles their completions. [`Context::connections`] is locked
//! by whoever is at it, so that none is destroyed while the poller works on it.

use std::cell::Cell;
use std::collections::HashMap;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use common::memory::{CArray, OutOfMemory, Zeroable, c_text, zeroed};
use common::pipe::pipe;
use common::{errln, outln};
use rdma_sys::{
    ibv_access_flags, ibv_ack_cq_events, ibv_alloc_pd, ibv_comp_channel, ibv_context, ibv_cq,
    ibv_create_comp_channel, ibv_create_cq, ibv_dealloc_pd, ibv_dereg_mr, ibv_destroy_comp_channel,
    ibv_destroy_cq, ibv_get_cq_event, ibv_mr, ibv_pd, ibv_poll_cq, ibv_post_recv, ibv_post_send,
    ibv_qp, ibv_qp_init_attr, ibv_qp_type, ibv_recv_wr, ibv_reg_mr, ibv_req_notify_cq,
    ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wc_opcode, ibv_wc_status, ibv_wr_opcode,
    rdma_cm_id, rdma_conn_param, rdma_create_qp, rdma_destroy_id, rdma_destroy_qp, rdma_disconnect,
};

/// Bytes of each of the two regions.
const RDMA_BUFFER_SIZE: usize = 1024;

/// What a side does with its peer's memory.
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

/// Nothing can be done but to end the program, with this as its last words.
#[derive(Debug)]
pub struct Die(pub String);

impl Die {
    /// A call has returned an error.
    pub fn non_zero(call: &str) -> Self {
        Self(format!("error: {call} failed (returned non-zero)."))
    }
}

/// Ends the program at once. Nothing is freed before that: the adapter may be using it. If both
/// threads have a reason, one is enough.
pub fn die(Die(reason): Die) -> ! {
    static FIRST: Mutex<()> = Mutex::new(());
    let _first = FIRST.lock();
    errln!("{reason}");
    process::exit(1)
}

/// `call` has to return 0.
pub fn test_nz(ret: i32, call: &str) -> Result<(), Die> {
    if ret != 0 { Err(Die::non_zero(call)) } else { Ok(()) }
}

/// `call` must not return a null pointer.
pub fn test_z<T>(pointer: *mut T, call: &str) -> Result<(), Die> {
    if pointer.is_null() {
        return Err(Die(format!("error: {call} failed (returned zero/null).")));
    }
    Ok(())
}

/// The message tells where the sender's memory is, in `mr`.
const MSG_MR: u32 = 0;
/// The sender is done with its peer's memory.
const MSG_DONE: u32 = 1;

/// What goes over the wire, in the byte order and with the gaps that it has in memory.
#[derive(Clone, Copy)]
#[repr(C)]
struct Message {
    /// [`MSG_MR`] or [`MSG_DONE`].
    kind: u32,
    _gap: u32,
    mr: MessageMr,
}

/// A memory region as its owner describes it to the peer: C sends its whole `struct ibv_mr`, of
/// which `addr` and `rkey` are of use to somebody else. The other members are 0 here.
#[derive(Clone, Copy)]
#[repr(C)]
struct MessageMr {
    context: u64,
    pd: u64,
    addr: u64,
    length: u64,
    handle: u32,
    lkey: u32,
    rkey: u32,
    _gap: u32,
}

// A C program on the other side finds everything in its place.
const _: () = assert!(
    size_of::<Message>() == 56
        && size_of::<MessageMr>() == size_of::<ibv_mr>()
        && offset_of!(MessageMr, addr) == offset_of!(ibv_mr, addr)
        && offset_of!(MessageMr, rkey) == offset_of!(ibv_mr, rkey)
);

// SAFETY: integers.
unsafe impl Zeroable for Message {}
// SAFETY: integers.
unsafe impl Zeroable for MessageMr {}

/// How many of its sends a connection has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendState {
    Init,
    MrSent,
    RdmaSent,
    DoneSent,
}

impl SendState {
    fn next(self) -> Self {
        match self {
            Self::Init => Self::MrSent,
            Self::MrSent => Self::RdmaSent,
            Self::RdmaSent | Self::DoneSent => Self::DoneSent,
        }
    }
}

/// How many messages have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecvState {
    Init,
    MrRecv,
    DoneRecv,
}

impl RecvState {
    fn next(self) -> Self {
        match self {
            Self::Init => Self::MrRecv,
            Self::MrRecv | Self::DoneRecv => Self::DoneRecv,
        }
    }
}

/// One connection.
struct Connection {
    id: *mut rdma_cm_id,
    qp: *mut ibv_qp,
    /// Its number: `wr_id` of its work requests, and `context` of its id.
    number: u64,

    /// The connection manager has said so.
    connected: bool,
    /// Our region has been sent, or will be as soon as we are connected.
    mr_sent: bool,
    /// A message waits until we are connected.
    held_back: bool,

    recv_mr: *mut ibv_mr,
    send_mr: *mut ibv_mr,
    rdma_local_mr: *mut ibv_mr,
    rdma_remote_mr: *mut ibv_mr,

    /// Where the peer's memory is.
    peer_mr: MessageMr,

    recv_msg: CArray<Message>,
    send_msg: CArray<Message>,

    /// What we use ourselves: source of our writes or destination of our reads.
    rdma_local_region: CArray<u8>,
    /// What the peer uses.
    rdma_remote_region: CArray<u8>,

    send_state: SendState,
    recv_state: RecvState,
}

// SAFETY: the library lets any thread use what the pointers stand for, and nothing of the arrays is
// tied to a thread. Two threads do not use a connection at once: it is behind a lock.
unsafe impl Send for Connection {}

/// All that are not destroyed yet, by number. A completion may be found after its connection is
/// gone; a pointer, which C has in `wr_id`, would then point nowhere.
type Connections = HashMap<u64, Connection>;

/// What all connections share.
struct Context {
    ctx: *mut ibv_context,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    comp_channel: *mut ibv_comp_channel,

    s_mode: Mode,
    connections: Mutex<Connections>,
}

// SAFETY: the library does its own locking and lets any thread use these objects.
unsafe impl Send for Context {}
// SAFETY: as above; the connections are locked.
unsafe impl Sync for Context {}

impl Context {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The context and the thread that polls its completion queue.
struct Running {
    context: Arc<Context>,
    cq_poller_thread: JoinHandle<()>,
    /// Dropped to end the thread.
    cancel: OwnedFd,
}

/// What C keeps in static variables.
pub struct Common {
    s_ctx: Option<Running>,
    s_mode: Mode,
    /// Connections so far.
    count: u64,
}

impl Common {
    /// At the beginning only the mode is known.
    pub fn new(mode: Mode) -> Self {
        Self { s_ctx: None, s_mode: mode, count: 0 }
    }

    /// Lets `work` have the connection of an id, if there is one.
    fn with<T>(&self, id: *mut rdma_cm_id, work: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let mut connections = self.s_ctx.as_ref()?.context.connections();
        connections.get_mut(&number(id)).map(work)
    }
}

/// The number of an id's connection.
fn number(id: *mut rdma_cm_id) -> u64 {
    // SAFETY: the id's event has just come, and only that of a disconnect destroys it.
    unsafe { (*id).context as u64 }
}

/// Creates everything that a connection needs, and posts its first receive.
pub fn build_connection(common: &mut Common, id: *mut rdma_cm_id) -> Result<(), Die> {
    // SAFETY: the id is alive, and the event that brought it here has bound it to a device.
    let context = build_context(common, unsafe { (*id).verbs })?;
    let mut qp_attr = build_qp_attr(&context);

    // SAFETY: id and protection domain are alive and of the same device.
    let ret = unsafe { rdma_create_qp(id, context.pd, &mut qp_attr) };
    test_nz(ret, "rdma_create_qp(id, s_ctx->pd, &qp_attr)")?;

    common.count += 1;
    let number = common.count;
    // SAFETY: the id is alive, and only this thread looks at its context.
    let qp = unsafe {
        (*id).context = ptr::without_provenance_mut(number as usize);
        (*id).qp
    };
    let conn = register_memory(&context, id, qp, number)?;
    post_receives(&conn)?;
    context.connections().insert(number, conn);
    Ok(())
}

/// Creates what all connections share, with the first of them: they have to be on one device.
fn build_context(common: &mut Common, verbs: *mut ibv_context) -> Result<Arc<Context>, Die> {
    if let Some(Running { context, .. }) = &common.s_ctx {
        if context.ctx != verbs {
            return Err(Die("cannot handle events in more than one context.".to_owned()));
        }
        return Ok(Arc::clone(context));
    }

    // SAFETY: the device is open as long as the program runs.
    let pd = unsafe { ibv_alloc_pd(verbs) };
    test_z(pd, "s_ctx->pd = ibv_alloc_pd(s_ctx->ctx)")?;
    // SAFETY: as above.
    let comp_channel = unsafe { ibv_create_comp_channel(verbs) };
    test_z(comp_channel, "s_ctx->comp_channel = ibv_create_comp_channel(s_ctx->ctx)")?;
    // SAFETY: device and channel are alive; the number of entries is arbitrary.
    let cq = unsafe { ibv_create_cq(verbs, 10, ptr::null_mut(), comp_channel, 0) };
    test_z(cq, "s_ctx->cq = ibv_create_cq(s_ctx->ctx, 10, NULL, s_ctx->comp_channel, 0)")?;
    // SAFETY: the completion queue is alive.
    test_nz(unsafe { ibv_req_notify_cq(cq, 0) }, "ibv_req_notify_cq(s_ctx->cq, 0)")?;

    let s_mode = common.s_mode;
    let context =
        Context { ctx: verbs, pd, cq, comp_channel, s_mode, connections: Mutex::default() };
    let context = Arc::new(context);
    let no_thread =
        |_| Die::non_zero("pthread_create(&s_ctx->cq_poller_thread, NULL, poll_cq, NULL)");
    let (canceled, cancel) = pipe().map_err(no_thread)?;
    let of_thread = Arc::clone(&context);
    let poller = move || {
        if let Err(reason) = poll_cq(&of_thread, &canceled) {
            die(reason);
        }
    };
    let cq_poller_thread = thread::Builder::new().spawn(poller).map_err(no_thread)?;
    common.s_ctx = Some(Running { context: Arc::clone(&context), cq_poller_thread, cancel });
    Ok(context)
}

/// What the new connection shall be like: one read or write at a time may be on its way in each
/// direction, and a message for which the peer has no receive yet is sent again for ever.
pub fn build_params() -> rdma_conn_param {
    let mut params: rdma_conn_param = zeroed();

    params.initiator_depth = 1;
    params.responder_resources = 1;
    params.rnr_retry_count = 7; // infinite retry
    params
}

/// What the new queue pair shall be like.
fn build_qp_attr(context: &Context) -> ibv_qp_init_attr {
    let mut qp_attr: ibv_qp_init_attr = zeroed();

    qp_attr.send_cq = context.cq;
    qp_attr.recv_cq = context.cq;
    qp_attr.qp_type = ibv_qp_type::IBV_QPT_RC;

    qp_attr.cap.max_send_wr = 10;
    qp_attr.cap.max_recv_wr = 10;
    qp_attr.cap.max_send_sge = 1;
    qp_attr.cap.max_recv_sge = 1;
    qp_attr
}

/// Destroys everything that `build_connection` has created, and the id.
pub fn destroy_connection(common: &Common, id: *mut rdma_cm_id) {
    let Some(Running { context, .. }) = &common.s_ctx else { return };
    let mut connections = context.connections();
    if let Some(conn) = connections.remove(&number(id)) {
        destroy(conn);
    }
}

/// Destroys a connection that the poller does not find any more.
fn destroy(conn: Connection) {
    // SAFETY: the queue pair is alive, and nobody else has it.
    unsafe { rdma_destroy_qp(conn.id) };

    for mr in [conn.send_mr, conn.recv_mr, conn.rdma_local_mr, conn.rdma_remote_mr] {
        // SAFETY: the region was registered with the connection and is used by no queue pair.
        unsafe { ibv_dereg_mr(mr) };
    }

    // SAFETY: the id is alive, its queue pair is gone and every event is acknowledged.
    unsafe { rdma_destroy_id(conn.id) };
}

/// Ends the poller and destroys what the connections have shared. C leaves it to the end of the
/// program.
pub fn destroy_context(common: &mut Common) {
    let Some(Running { context, cq_poller_thread, cancel }) = common.s_ctx.take() else { return };
    drop(cancel);
    // it fails only if the thread has panicked
    let _ = cq_poller_thread.join();
    // none but after an error: each goes with its disconnect
    for (_, conn) in context.connections().drain() {
        destroy(conn);
    }
    // SAFETY: no connection is left, and every event is acknowledged.
    unsafe { ibv_destroy_cq(context.cq) };
    // SAFETY: its only completion queue is gone.
    unsafe { ibv_destroy_comp_channel(context.comp_channel) };
    // SAFETY: the connections' queue pairs and regions are gone.
    unsafe { ibv_dealloc_pd(context.pd) };
}

/// Where our own text is: what we write from, or what the peer reads.
fn get_local_message_region(conn: &Connection, mode: Mode) -> &[Cell<u8>] {
    match mode {
        Mode::Write => &conn.rdma_local_region,
        Mode::Read => &conn.rdma_remote_region,
    }
}

/// Puts our text there, with a NUL at its end.
pub fn set_local_message(common: &Common, id: *mut rdma_cm_id, text: &str) {
    common.with(id, |conn| {
        let region = get_local_message_region(conn, common.s_mode);
        for (cell, byte) in region.iter().zip(text.bytes().chain([0])) {
            cell.set(byte);
        }
    });
}

/// Where the peer's text is in the end.
fn get_peer_message_region(conn: &Connection, mode: Mode) -> &[Cell<u8>] {
    match mode {
        Mode::Write => &conn.rdma_remote_region,
        Mode::Read => &conn.rdma_local_region,
    }
}

/// Takes the next step of a connection of which something has completed.
fn on_completion(context: &Context, conn: &mut Connection, wc: &ibv_wc) -> Result<(), Die> {
    if wc.status == ibv_wc_status::IBV_WC_WR_FLUSH_ERR && !conn.connected {
        // the peer has refused us: the connection manager's event says it better
        return Ok(());
    }
    if wc.status != ibv_wc_status::IBV_WC_SUCCESS {
        return Err(Die("on_completion: status is not IBV_WC_SUCCESS.".to_owned()));
    }

    if wc.opcode & ibv_wc_opcode::IBV_WC_RECV != 0 {
        conn.recv_state = conn.recv_state.next();

        let message = conn.recv_msg[0].get();
        if message.kind == MSG_MR {
            conn.peer_mr = message.mr;
            post_receives(conn)?; // only rearm for MSG_MR

            if !conn.mr_sent {
                // received peer's MR before sending ours, so send ours back
                send_our_mr(conn)?;
            }
        }
    } else {
        conn.send_state = conn.send_state.next();
        outln!("send completed successfully.");
    }

    // the peer may be done before our first send has completed
    let is_late =
        conn.recv_state == RecvState::DoneRecv && wc.opcode & ibv_wc_opcode::IBV_WC_RECV == 0;

    if conn.send_state == SendState::MrSent && (conn.recv_state == RecvState::MrRecv || is_late) {
        let opcode = match context.s_mode {
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
            addr: conn.rdma_local_region.addr() as u64,
            length: RDMA_BUFFER_SIZE as u32,
            lkey: lkey(conn.rdma_local_mr),
        };
        let mut wr: ibv_send_wr = zeroed();
        wr.wr_id = conn.number;
        wr.opcode = opcode;
        wr.sg_list = &mut sge;
        wr.num_sge = 1;
        wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        wr.wr.rdma.remote_addr = conn.peer_mr.addr;
        wr.wr.rdma.rkey = conn.peer_mr.rkey;

        let mut bad_wr = ptr::null_mut();
        // SAFETY: the queue pair is alive, and so are request and element through the call; the
        // local region is until the queue pair is gone.
        let ret = unsafe { ibv_post_send(conn.qp, &mut wr, &mut bad_wr) };
        test_nz(ret, "ibv_post_send(conn->qp, &wr, &bad_wr)")?;

        // behind the read or write, which is done when this arrives
        conn.send_msg[0].set(Message { kind: MSG_DONE, ..zeroed() });
        send_message(conn)?;
    } else if conn.send_state == SendState::DoneSent && conn.recv_state == RecvState::DoneRecv {
        let region = get_peer_message_region(conn, context.s_mode);
        outln!("remote buffer: {}", c_text(region));
        // SAFETY: the id is alive. It is no matter if the peer was first.
        unsafe { rdma_disconnect(conn.id) };
    }
    Ok(())
}

/// The connection stands: sends the message that has waited for it.
pub fn on_connect(common: &Common, id: *mut rdma_cm_id) -> Result<(), Die> {
    let sent = common.with(id, |conn| {
        conn.connected = true;
        if conn.held_back { send_message(conn) } else { Ok(()) }
    });
    sent.unwrap_or(Ok(()))
}

/// Waits for a completion event; false if the thread is to end.
fn wait_for_event(context: &Context, canceled: &OwnedFd) -> bool {
    // SAFETY: the channel is destroyed only after this thread has ended.
    let channel_fd = unsafe { (*context.comp_channel).fd };
    let pollfd = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut fds = [pollfd(channel_fd), pollfd(canceled.as_raw_fd())];
    loop {
        // SAFETY: two entries are there. An interrupted call leaves them as they are.
        let ret = unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) };
        if ret > 0 {
            return fds[1].revents == 0;
        }
    }
}

/// The poller: sleeps until something has completed, on whichever connection.
fn poll_cq(context: &Context, canceled: &OwnedFd) -> Result<(), Die> {
    while wait_for_event(context, canceled) {
        let (mut cq, mut cq_context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel is alive; the library writes queue and context.
        let ret = unsafe { ibv_get_cq_event(context.comp_channel, &mut cq, &mut cq_context) };
        test_nz(ret, "ibv_get_cq_event(s_ctx->comp_channel, &cq, &ctx)")?;
        // SAFETY: one event of this queue was got.
        unsafe { ibv_ack_cq_events(cq, 1) };
        // SAFETY: the queue is alive.
        test_nz(unsafe { ibv_req_notify_cq(cq, 0) }, "ibv_req_notify_cq(cq, 0)")?;

        poll_all(context)?;
    }
    Ok(())
}

/// Handles what has completed, until the queue is empty.
fn poll_all(context: &Context) -> Result<(), Die> {
    let mut connections = context.connections();
    let mut wc: ibv_wc = zeroed();
    // SAFETY: the queue is alive; the library writes one completion.
    while unsafe { ibv_poll_cq(context.cq, 1, &mut wc) } > 0 {
        // one of a connection that is gone says nothing to anybody
        if let Some(conn) = connections.get_mut(&wc.wr_id) {
            on_completion(context, conn, &wc)?;
        }
    }
    Ok(())
}

/// Handles what has completed before a disconnect, if the poller has not come to it.
pub fn take_completions(common: &Common) -> Result<(), Die> {
    common.s_ctx.as_ref().map_or(Ok(()), |running| poll_all(&running.context))
}

/// Posts the receive for the peer's next message.
fn post_receives(conn: &Connection) -> Result<(), Die> {
    let mut sge = ibv_sge {
        addr: conn.recv_msg.addr() as u64,
        length: size_of::<Message>() as u32,
        lkey: lkey(conn.recv_mr),
    };
    let mut wr: ibv_recv_wr = zeroed();
    wr.wr_id = conn.number;
    wr.next = ptr::null_mut();
    wr.sg_list = &mut sge;
    wr.num_sge = 1;

    let mut bad_wr = ptr::null_mut();
    // SAFETY: the queue pair is alive, and so are request and element through the call; the
    // message is until the queue pair is gone.
    let ret = unsafe { ibv_post_recv(conn.qp, &mut wr, &mut bad_wr) };
    test_nz(ret, "ibv_post_recv(conn->qp, &wr, &bad_wr)")
}

/// The local key of a region.
fn lkey(mr: *mut ibv_mr) -> u32 {
    // SAFETY: the region is one of a connection that is alive.
    unsafe { (*mr).lkey }
}

/// Allocates a connection's memory and registers it, each part for what is done with it.
fn register_memory(
    context: &Context,
    id: *mut rdma_cm_id,
    qp: *mut ibv_qp,
    number: u64,
) -> Result<Connection, Die> {
    let none = ibv_access_flags(0);
    let local_write = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
    let remote_read = ibv_access_flags::IBV_ACCESS_REMOTE_READ;
    let remote_write = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
    let (ours, the_peers) = match context.s_mode {
        Mode::Write => (none, local_write | remote_write),
        Mode::Read => (local_write, remote_read),
    };

    let send_msg: CArray<Message> = calloc(1)?;
    let recv_msg: CArray<Message> = calloc(1)?;

    let rdma_local_region: CArray<u8> = calloc(RDMA_BUFFER_SIZE)?;
    let rdma_remote_region: CArray<u8> = calloc(RDMA_BUFFER_SIZE)?;

    let send_mr = reg_mr(
        context,
        &send_msg,
        none,
        "conn->send_mr = ibv_reg_mr( s_ctx->pd, conn->send_msg, sizeof(struct message), 0)",
    )?;

    let recv_mr = reg_mr(
        context,
        &recv_msg,
        local_write,
        "conn->recv_mr = ibv_reg_mr( s_ctx->pd, conn->recv_msg, sizeof(struct message), \
         IBV_ACCESS_LOCAL_WRITE)",
    )?;

    let rdma_local_mr = reg_mr(
        context,
        &rdma_local_region,
        ours,
        "conn->rdma_local_mr = ibv_reg_mr( s_ctx->pd, conn->rdma_local_region, \
         RDMA_BUFFER_SIZE, ((s_mode == M_WRITE) ? 0 : IBV_ACCESS_LOCAL_WRITE))",
    )?;

    let rdma_remote_mr = reg_mr(
        context,
        &rdma_remote_region,
        the_peers,
        "conn->rdma_remote_mr = ibv_reg_mr( s_ctx->pd, conn->rdma_remote_region, \
         RDMA_BUFFER_SIZE, ((s_mode == M_WRITE) ? (IBV_ACCESS_LOCAL_WRITE | \
         IBV_ACCESS_REMOTE_WRITE) : IBV_ACCESS_REMOTE_READ))",
    )?;

    Ok(Connection {
        id,
        qp,
        number,
        connected: false,
        mr_sent: false,
        held_back: false,
        recv_mr,
        send_mr,
        rdma_local_mr,
        rdma_remote_mr,
        peer_mr: zeroed(),
        recv_msg,
        send_msg,
        rdma_local_region,
        rdma_remote_region,
        send_state: SendState::Init,
        recv_state: RecvState::Init,
    })
}

/// Memory with all bytes zero, which C's is not: the peer gets to see all of it.
fn calloc<T: Zeroable>(len: usize) -> Result<CArray<T>, Die> {
    CArray::calloc(len).map_err(|error: OutOfMemory| Die(format!("error: {error}.")))
}

/// Registers an array. `call` is how C writes it.
fn reg_mr<T>(
    context: &Context,
    array: &CArray<T>,
    access: ibv_access_flags,
    call: &str,
) -> Result<*mut ibv_mr, Die> {
    let length = size_of_val(&**array);
    // SAFETY: the protection domain is alive, and the array has so many bytes. It is freed after the
    // region, or where a later step fails: then nobody has been told of the region.
    let mr = unsafe { ibv_reg_mr(context.pd, array.addr(), length, access.0 as i32) };
    test_z(mr, call)?;
    Ok(mr)
}

/// Sends what is in `send_msg`, as soon as the connection stands.
fn send_message(conn: &mut Connection) -> Result<(), Die> {
    conn.held_back = !conn.connected;
    if conn.held_back {
        return Ok(());
    }

    let mut sge = ibv_sge {
        addr: conn.send_msg.addr() as u64,
        length: size_of::<Message>() as u32,
        lkey: lkey(conn.send_mr),
    };
    let mut wr: ibv_send_wr = zeroed();
    wr.wr_id = conn.number;
    wr.opcode = ibv_wr_opcode::IBV_WR_SEND;
    wr.sg_list = &mut sge;
    wr.num_sge = 1;
    wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;

    let mut bad_wr = ptr::null_mut();
    // SAFETY: the queue pair is alive, and so are request and element through the call; the
    // message is until the queue pair is gone.
    let ret = unsafe { ibv_post_send(conn.qp, &mut wr, &mut bad_wr) };
    test_nz(ret, "ibv_post_send(conn->qp, &wr, &bad_wr)")
}

/// Tells the peer where the memory is that it may read or write.
fn send_our_mr(conn: &mut Connection) -> Result<(), Die> {
    // SAFETY: the region is alive as long as the connection.
    let mr = unsafe { *conn.rdma_remote_mr };
    let mr =
        MessageMr { addr: mr.addr as u64, length: mr.length as u64, rkey: mr.rkey, ..zeroed() };
    conn.send_msg[0].set(Message { kind: MSG_MR, mr, ..zeroed() });

    conn.mr_sent = true;
    send_message(conn)
}

/// The same for who has an id.
pub fn send_mr(common: &Common, id: *mut rdma_cm_id) -> Result<(), Die> {
    common.with(id, send_our_mr).unwrap_or(Ok(()))
}
