//! The few verbs that are needed, with their errors; all that is unsafe is here.
//!
//! `rdma-sys` has the inline functions of `verbs.h` (`ibv_poll_cq`, `ibv_req_notify_cq`,
//! `ibv_post_send`, `ibv_post_recv`, `ibv_post_srq_recv`) as calls of the same entries of the
//! context's table, and its `ibv_send_wr` and `ibv_wc` have the layout of the header's.
#![allow(unsafe_code, reason = "verbs")]

use std::cell::Cell;
use std::ffi::CStr;
use std::io;
use std::ops::Deref;
use std::os::raw::c_int;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use common::memory::{CArray, zeroed};
use rdma_sys as sys;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::plan::{MAX_INLINE, MAX_REQUESTS, MAX_SEGMENTS, Service};

const PORT: u8 = 1;
const QKEY: u32 = 0x1111_1111;
/// RDMA reads and atomics under way.
const MAX_READS: u8 = 16;

fn failed(what: &'static str) -> Error {
    Error::Verbs(what, io::Error::last_os_error())
}

/// The result of a call that gives an object.
fn object<T>(what: &'static str, made: *mut T) -> Result<NonNull<T>> {
    NonNull::new(made).ok_or_else(|| failed(what))
}

/// The result of a call that gives an error number.
fn number(what: &'static str, error: c_int) -> Result<()> {
    if error == 0 { Ok(()) } else { Err(Error::Verbs(what, io::Error::from_raw_os_error(error))) }
}

/// The first device, opened, and a protection domain.
#[derive(Debug)]
pub struct Device {
    context: NonNull<sys::ibv_context>,
    pd: NonNull<sys::ibv_pd>,
    gid_index: u8,
    gid: [u8; 16],
}

// SAFETY: the verbs library allows calls for the same objects from any thread.
unsafe impl Send for Device {}
// SAFETY: libibverbs locks what threads share.
unsafe impl Sync for Device {}

impl Device {
    /// Opens the first device there is.
    pub fn open(gid_index: u8) -> Result<Arc<Self>> {
        // SAFETY: the number of devices is not asked for.
        let list =
            object("ibv_get_device_list", unsafe { sys::ibv_get_device_list(ptr::null_mut()) })?;
        // SAFETY: the list ends with a null pointer, so it has a first entry.
        let device = unsafe { *list.as_ptr() };
        // SAFETY: the list is freed after its entry has been used.
        let context = (!device.is_null()).then(|| unsafe { sys::ibv_open_device(device) });
        // SAFETY: came from the library and is freed once.
        unsafe { sys::ibv_free_device_list(list.as_ptr()) };
        let context = object("ibv_open_device", context.ok_or(Error::NoDevice)?)?;
        let mut gid = sys::ibv_gid { raw: [0; 16] };
        // SAFETY: fills the GID that it is given.
        let error =
            unsafe { sys::ibv_query_gid(context.as_ptr(), PORT, gid_index.into(), &mut gid) };
        if error != 0 {
            return Err(failed("ibv_query_gid"));
        }
        // SAFETY: the context is open.
        let pd = object("ibv_alloc_pd", unsafe { sys::ibv_alloc_pd(context.as_ptr()) })?;
        // SAFETY: any 16 bytes are a GID.
        let gid = unsafe { gid.raw };
        Ok(Arc::new(Self { context, pd, gid_index, gid }))
    }

    /// The way to a GID.
    fn route(&self, gid: [u8; 16]) -> sys::ibv_ah_attr {
        let mut attr: sys::ibv_ah_attr = zeroed();
        attr.is_global = 1;
        attr.port_num = PORT;
        attr.grh.dgid = sys::ibv_gid { raw: gid };
        attr.grh.sgid_index = self.gid_index;
        attr.grh.hop_limit = 1;
        attr
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: both are alive; what was made from them holds this value, so it is gone.
        unsafe { sys::ibv_dealloc_pd(self.pd.as_ptr()) };
        // SAFETY: the context was opened by this value, and what was made of it is gone.
        unsafe { sys::ibv_close_device(self.context.as_ptr()) };
    }
}

/// Memory that the device may use in every way.
pub struct Region {
    bytes: CArray<u8>,
    mr: NonNull<sys::ibv_mr>,
    _device: Arc<Device>,
}

// SAFETY: the memory and its registration belong to no thread.
unsafe impl Send for Region {}

impl Region {
    /// Zeroed memory, registered.
    pub fn new(device: &Arc<Device>, bytes: usize) -> Result<Self> {
        let out_of_memory = |_| Error::Verbs("calloc", io::ErrorKind::OutOfMemory.into());
        let bytes = CArray::calloc(bytes).map_err(out_of_memory)?;
        let access = sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
            | sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
            | sys::ibv_access_flags::IBV_ACCESS_REMOTE_READ
            | sys::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC;
        // SAFETY: the memory lives as long as its registration.
        let mr = unsafe {
            sys::ibv_reg_mr(device.pd.as_ptr(), bytes.addr(), bytes.len(), access.0 as c_int)
        };
        let mr = object("ibv_reg_mr", mr)?;
        Ok(Self { bytes, mr, _device: Arc::clone(device) })
    }

    /// How the peer names it.
    pub fn remote(&self) -> Remote {
        // SAFETY: the registration is alive.
        Remote { addr: self.bytes.addr() as u64, rkey: unsafe { self.mr.as_ref() }.rkey }
    }

    /// An SGE.
    pub fn sge(&self, offset: u32, length: u32) -> sys::ibv_sge {
        let addr = self.bytes.addr() as u64 + u64::from(offset);
        // SAFETY: the registration is alive.
        sys::ibv_sge { addr, length, lkey: unsafe { self.mr.as_ref() }.lkey }
    }
}

impl Deref for Region {
    type Target = [Cell<u8>];

    fn deref(&self) -> &[Cell<u8>] {
        &self.bytes
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the registration is alive, and the memory goes after it.
        unsafe { sys::ibv_dereg_mr(self.mr.as_ptr()) };
    }
}

/// Memory of the other side.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Remote {
    /// Its first address there.
    pub addr: u64,
    /// Its key.
    pub rkey: u32,
}

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    cq: NonNull<sys::ibv_cq>,
    channel: Option<NonNull<sys::ibv_comp_channel>>,
    _device: Arc<Device>,
}

// SAFETY: libibverbs locks what threads share, of a queue as well.
unsafe impl Send for Cq {}

/// A completion.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    pub wr_id: u64,
    pub status: sys::ibv_wc_status::Type,
    pub opcode: sys::ibv_wc_opcode::Type,
    pub length: u32,
    pub immediate: Option<u32>,
    pub qpn: u32,
}

impl Cq {
    /// A queue for so many completions, with a channel if it is to be waited for.
    pub fn new(device: &Arc<Device>, entries: u32, has_channel: bool) -> Result<Self> {
        let context = device.context.as_ptr();
        let channel = if has_channel {
            // SAFETY: the context is open.
            let made = unsafe { sys::ibv_create_comp_channel(context) };
            Some(object("ibv_create_comp_channel", made)?)
        } else {
            None
        };
        let to_channel = channel.map_or(ptr::null_mut(), NonNull::as_ptr);
        // SAFETY: context and channel are alive.
        let cq = unsafe {
            sys::ibv_create_cq(context, entries as c_int, ptr::null_mut(), to_channel, 0)
        };
        Ok(Self { cq: object("ibv_create_cq", cq)?, channel, _device: Arc::clone(device) })
    }

    /// The next completion, if there is one.
    pub fn poll(&self) -> Result<Option<Completion>> {
        let mut wc: sys::ibv_wc = zeroed();
        // SAFETY: the queue is alive, and there is room for one completion.
        let count = unsafe { sys::ibv_poll_cq(self.cq.as_ptr(), 1, &mut wc) };
        if count < 0 {
            return Err(failed("ibv_poll_cq"));
        }
        let has_immediate = wc.wc_flags & sys::ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0;
        // SAFETY: with the flag it is the immediate.
        let immediate = has_immediate
            .then(|| unsafe { u32::from_be(wc.imm_data_invalidated_rkey_union.imm_data) });
        let completion = Completion {
            wr_id: wc.wr_id,
            status: wc.status,
            opcode: wc.opcode,
            length: wc.byte_len,
            immediate,
            qpn: wc.qp_num,
        };
        Ok((count > 0).then_some(completion))
    }

    /// Asks for an event with the next completion.
    pub fn arm(&self, solicited_only: bool) -> Result<()> {
        // SAFETY: the queue is alive.
        let error = unsafe { sys::ibv_req_notify_cq(self.cq.as_ptr(), solicited_only.into()) };
        number("ibv_req_notify_cq", error)
    }

    /// Sleeps until there is an event, or some time is over. Whether there was one.
    pub fn sleep(&self, limit: Duration) -> Result<bool> {
        let Some(channel) = self.channel else { return Ok(false) };
        // SAFETY: the channel is alive.
        let fd = unsafe { channel.as_ref() }.fd;
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` outlives the call, which is told that it is one.
        if unsafe { libc::poll(&mut poll, 1, limit.as_millis() as c_int) } <= 0 {
            return Ok(false);
        }
        let (mut cq, mut of_cq) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel is alive; the call fills both pointers.
        if unsafe { sys::ibv_get_cq_event(channel.as_ptr(), &mut cq, &mut of_cq) } != 0 {
            return Err(failed("ibv_get_cq_event"));
        }
        // SAFETY: the event was taken just now.
        unsafe { sys::ibv_ack_cq_events(cq, 1) };
        Ok(true)
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: its queue pairs are destroyed before; all events have been acknowledged.
        unsafe { sys::ibv_destroy_cq(self.cq.as_ptr()) };
        if let Some(channel) = self.channel {
            // SAFETY: its only queue has just gone.
            unsafe { sys::ibv_destroy_comp_channel(channel.as_ptr()) };
        }
    }
}

/// A receive queue of several queue pairs.
#[derive(Debug)]
pub struct Srq {
    srq: NonNull<sys::ibv_srq>,
    _device: Arc<Device>,
}

// SAFETY: libibverbs locks what threads share, of a queue as well.
unsafe impl Send for Srq {}

impl Srq {
    /// A queue for so many receives.
    pub fn new(device: &Arc<Device>, receives: u32) -> Result<Self> {
        let mut attr: sys::ibv_srq_init_attr = zeroed();
        attr.attr.max_wr = receives;
        attr.attr.max_sge = MAX_SEGMENTS;
        // SAFETY: the protection domain is alive, and the attributes are read during the call.
        let srq = unsafe { sys::ibv_create_srq(device.pd.as_ptr(), &mut attr) };
        Ok(Self { srq: object("ibv_create_srq", srq)?, _device: Arc::clone(device) })
    }

    /// Posts a receive.
    pub fn receive(&self, wr_id: u64, sges: &mut [sys::ibv_sge]) -> Result<()> {
        let (mut wr, mut bad) = (receive_wr(wr_id, sges), ptr::null_mut());
        // SAFETY: the queue is alive, and the request is read during the call. The regions of
        // its SGEs outlive the queue, for they are dropped after it.
        let error = unsafe { sys::ibv_post_srq_recv(self.srq.as_ptr(), &mut wr, &mut bad) };
        number("ibv_post_srq_recv", error)
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: its queue pairs are destroyed before.
        unsafe { sys::ibv_destroy_srq(self.srq.as_ptr()) };
    }
}

fn receive_wr(wr_id: u64, sges: &mut [sys::ibv_sge]) -> sys::ibv_recv_wr {
    let mut wr: sys::ibv_recv_wr = zeroed();
    wr.wr_id = wr_id;
    wr.sg_list = sges.as_mut_ptr();
    wr.num_sge = sges.len() as c_int;
    wr
}

/// The attributes of a queue pair that the other side has to know.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Address {
    qpn: u32,
    gid: [u8; 16],
}

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    qp: NonNull<sys::ibv_qp>,
    service: Service,
    /// Where datagrams go.
    route: Option<(NonNull<sys::ibv_ah>, u32)>,
    device: Arc<Device>,
}

// SAFETY: libibverbs locks what threads share, of a queue pair as well.
unsafe impl Send for Qp {}

/// A request for a send queue, without its SGEs.
pub struct SendRequest {
    /// The request; where datagrams go is filled in by [`Qp::send`].
    pub wr: sys::ibv_send_wr,
    /// Its SGEs.
    pub sges: Vec<sys::ibv_sge>,
}

impl Qp {
    /// A queue pair in the state INIT.
    pub fn new(device: &Arc<Device>, service: Service, cq: &Cq, srq: Option<&Srq>) -> Result<Self> {
        let mut attr: sys::ibv_qp_init_attr = zeroed();
        attr.send_cq = cq.cq.as_ptr();
        attr.recv_cq = cq.cq.as_ptr();
        attr.srq = srq.map_or(ptr::null_mut(), |srq| srq.srq.as_ptr());
        attr.cap.max_send_wr = 2 * MAX_REQUESTS;
        attr.cap.max_recv_wr = MAX_REQUESTS;
        attr.cap.max_send_sge = MAX_SEGMENTS;
        attr.cap.max_recv_sge = MAX_SEGMENTS;
        attr.cap.max_inline_data = MAX_INLINE;
        attr.qp_type = match service {
            Service::Rc => sys::ibv_qp_type::IBV_QPT_RC,
            Service::Uc => sys::ibv_qp_type::IBV_QPT_UC,
            Service::Ud => sys::ibv_qp_type::IBV_QPT_UD,
        };
        // SAFETY: everything that the attributes name is alive.
        let qp = unsafe { sys::ibv_create_qp(device.pd.as_ptr(), &mut attr) };
        let qp = object("ibv_create_qp", qp)?;
        let this = Self { qp, service, route: None, device: Arc::clone(device) };
        this.init()?;
        Ok(this)
    }

    fn modify(
        &self,
        what: &'static str,
        attr: &mut sys::ibv_qp_attr,
        mask: sys::ibv_qp_attr_mask,
    ) -> Result<()> {
        // SAFETY: the queue pair is alive, and the attributes are read during the call.
        let error = unsafe { sys::ibv_modify_qp(self.qp.as_ptr(), attr, mask.0 as c_int) };
        number(what, error)
    }

    fn init(&self) -> Result<()> {
        use sys::ibv_qp_attr_mask as mask;
        let mut attr: sys::ibv_qp_attr = zeroed();
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_INIT;
        attr.port_num = PORT;
        attr.qkey = QKEY;
        let remote = sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
            | sys::ibv_access_flags::IBV_ACCESS_REMOTE_READ
            | sys::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC;
        attr.qp_access_flags = match self.service {
            Service::Uc => sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0,
            _ => remote.0,
        };
        let third = match self.service {
            Service::Ud => mask::IBV_QP_QKEY,
            _ => mask::IBV_QP_ACCESS_FLAGS,
        };
        let all = mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | third;
        self.modify("ibv_modify_qp to INIT", &mut attr, all)
    }

    /// The attributes that the peer has to know.
    pub fn address(&self) -> Address {
        Address { qpn: self.number(), gid: self.device.gid }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair is alive.
        unsafe { self.qp.as_ref() }.qp_num
    }

    /// Brings it up with its peer.
    pub fn connect(&mut self, peer: &Address) -> Result<()> {
        use sys::ibv_qp_attr_mask as mask;
        let mut attr: sys::ibv_qp_attr = zeroed();
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_RTR;
        attr.path_mtu = sys::ibv_mtu::IBV_MTU_1024;
        attr.dest_qp_num = peer.qpn;
        attr.ah_attr = self.device.route(peer.gid);
        attr.max_dest_rd_atomic = MAX_READS;
        attr.min_rnr_timer = 1;
        let connected =
            mask::IBV_QP_AV | mask::IBV_QP_PATH_MTU | mask::IBV_QP_DEST_QPN | mask::IBV_QP_RQ_PSN;
        let reliable = mask::IBV_QP_MAX_DEST_RD_ATOMIC | mask::IBV_QP_MIN_RNR_TIMER;
        let more = match self.service {
            Service::Rc => connected | reliable,
            Service::Uc => connected,
            Service::Ud => mask(0),
        };
        self.modify("ibv_modify_qp to RTR", &mut attr, mask::IBV_QP_STATE | more)?;
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_RTS;
        attr.timeout = 14;
        attr.retry_cnt = 6;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = MAX_READS;
        let retries = mask::IBV_QP_TIMEOUT | mask::IBV_QP_RETRY_CNT | mask::IBV_QP_RNR_RETRY;
        let more = match self.service {
            Service::Rc => retries | mask::IBV_QP_MAX_QP_RD_ATOMIC,
            _ => mask(0),
        };
        let all = mask::IBV_QP_STATE | mask::IBV_QP_SQ_PSN | more;
        self.modify("ibv_modify_qp to RTS", &mut attr, all)?;
        if self.service == Service::Ud {
            let mut route = self.device.route(peer.gid);
            // SAFETY: the protection domain is alive, and the attributes are read now.
            let ah = unsafe { sys::ibv_create_ah(self.device.pd.as_ptr(), &mut route) };
            self.route = Some((object("ibv_create_ah", ah)?, peer.qpn));
        }
        Ok(())
    }

    /// Posts a receive.
    pub fn receive(&self, wr_id: u64, sges: &mut [sys::ibv_sge]) -> Result<()> {
        let (mut wr, mut bad) = (receive_wr(wr_id, sges), ptr::null_mut());
        // SAFETY: the queue pair is alive, and the request is read during the call. The regions
        // of its SGEs are dropped after the queue pair.
        let error = unsafe { sys::ibv_post_recv(self.qp.as_ptr(), &mut wr, &mut bad) };
        number("ibv_post_recv", error)
    }

    /// Posts a list of requests.
    pub fn send(&self, requests: &mut [SendRequest]) -> Result<()> {
        let mut next = ptr::null_mut();
        for request in requests.iter_mut().rev() {
            let wr = &mut request.wr;
            wr.sg_list = request.sges.as_mut_ptr();
            wr.num_sge = request.sges.len() as c_int;
            wr.next = next;
            if let Some((ah, qpn)) = self.route {
                wr.wr.ud = sys::ud_t { ah: ah.as_ptr(), remote_qpn: qpn, remote_qkey: QKEY };
            }
            next = &raw mut *wr;
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is alive; the list and its SGEs are read during the call.
        // The regions of its SGEs are dropped after the queue pair.
        let error = unsafe { sys::ibv_post_send(self.qp.as_ptr(), next, &mut bad) };
        number("ibv_post_send", error)
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: the queue pair is alive.
        unsafe { sys::ibv_destroy_qp(self.qp.as_ptr()) };
        if let Some((ah, _)) = self.route {
            // SAFETY: came from the library and is destroyed once.
            unsafe { sys::ibv_destroy_ah(ah.as_ptr()) };
        }
    }
}

/// A request without anything in it.
pub fn empty_request() -> SendRequest {
    SendRequest { wr: zeroed(), sges: Vec::new() }
}

/// The library's words for a status.
pub fn status_text(status: sys::ibv_wc_status::Type) -> String {
    // SAFETY: the library returns a static string for every number.
    let text = unsafe { CStr::from_ptr(sys::ibv_wc_status_str(status)) };
    format!("{} ({status})", text.to_string_lossy())
}
