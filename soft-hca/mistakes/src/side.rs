//! One side of a connection: what it has, and what it does with it. Two sides talk by a socket besides.
#![allow(unsafe_code, reason = "verbs")]

use std::fs;
use std::io::{self, Read, Write};
use std::os::raw::c_int;
use std::os::unix::net::UnixStream;
use std::ptr;

use common::memory::{CArray, load, zeroed};
use rdma_sys as sys;
use sys::ibv_qp_attr_mask as mask;

/// Bytes of each buffer.
pub const BYTES: usize = 4096;
/// Buffers, and places in each queue.
pub const DEPTH: usize = 64;

/// The call that has failed, and its error.
#[derive(Debug, thiserror::Error)]
#[error("{0}: {1}")]
pub struct Error(pub &'static str, pub io::Error);

/// A result with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Checks that something holds.
pub fn check(is_good: bool, what: &'static str) -> Result<()> {
    if is_good { Ok(()) } else { Err(Error(what, io::Error::last_os_error())) }
}

/// The parameters of a side.
#[derive(Clone, Copy)]
pub struct Choice {
    pub caps: sys::ibv_qp_cap,
    pub cq_entries: c_int,
    pub has_channel: bool,
    pub pkey_index: u16,
    pub ack_timeout: u8,
    pub reads_out: u8,
    pub reads_in: u8,
    pub path_mtu: sys::ibv_mtu::Type,
}

/// A side.
pub struct Side {
    context: *mut sys::ibv_context,
    pd: *mut sys::ibv_pd,
    mr: *mut sys::ibv_mr,
    channel: *mut sys::ibv_comp_channel,
    cq: *mut sys::ibv_cq,
    qp: *mut sys::ibv_qp,
    memory: CArray<u8>,
    choice: Choice,
    /// To the other side.
    peer: UnixStream,
}

/// Memory of the other side.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    pub address: u64,
    pub rkey: u32,
}

/// The name of the other side.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    pub remote: Remote,
    qp_num: u32,
    gid: [u8; 16],
}

/// Memory for a side.
pub fn allocate() -> Result<CArray<u8>> {
    let memory = CArray::calloc(DEPTH * BYTES);
    memory.map_err(|_| Error("calloc", io::ErrorKind::OutOfMemory.into()))
}

impl Side {
    /// A side with a queue pair that is not connected.
    pub fn new(choice: Choice, peer: UnixStream) -> Result<Self> {
        // SAFETY: the protection domain and the objects that the attributes name are alive.
        Self::open(choice, peer, |pd, init: &mut _| unsafe { sys::ibv_create_qp(pd, init) })
    }

    /// The same with a queue pair that is created in this way.
    pub fn open(
        choice: Choice,
        peer: UnixStream,
        create_qp: impl FnOnce(*mut sys::ibv_pd, &mut sys::ibv_qp_init_attr) -> *mut sys::ibv_qp,
    ) -> Result<Self> {
        let memory = allocate()?;
        // SAFETY: the number of devices is not asked for.
        let devices = unsafe { sys::ibv_get_device_list(ptr::null_mut()) };
        check(!devices.is_null(), "ibv_get_device_list")?;
        // SAFETY: the list ends with a null pointer, so it has a first entry.
        let first = unsafe { *devices };
        check(!first.is_null(), "no device")?;
        // SAFETY: an entry of the list, which is not freed yet.
        let context = unsafe { sys::ibv_open_device(first) };
        check(!context.is_null(), "ibv_open_device")?;
        // SAFETY: came from the library, and nobody uses it any more.
        unsafe { sys::ibv_free_device_list(devices) };
        Self::within(context, memory, (choice, peer), create_qp)
    }

    /// The same on an open device, with a queue pair that is created in this way.
    pub fn within(
        context: *mut sys::ibv_context,
        memory: CArray<u8>,
        (choice, peer): (Choice, UnixStream),
        create_qp: impl FnOnce(*mut sys::ibv_pd, &mut sys::ibv_qp_init_attr) -> *mut sys::ibv_qp,
    ) -> Result<Self> {
        // SAFETY: the context is open.
        let pd = unsafe { sys::ibv_alloc_pd(context) };
        check(!pd.is_null(), "ibv_alloc_pd")?;
        let none = ptr::null_mut();
        let mut side = Self {
            context,
            pd,
            mr: ptr::null_mut(),
            channel: ptr::null_mut(),
            cq: ptr::null_mut(),
            qp: ptr::null_mut(),
            memory,
            choice,
            peer,
        };
        side.register()?;
        if choice.has_channel {
            // SAFETY: the context is open.
            side.channel = unsafe { sys::ibv_create_comp_channel(context) };
            check(!side.channel.is_null(), "ibv_create_comp_channel")?;
        }
        let entries = choice.cq_entries;
        // SAFETY: the context is open, and the channel, if there is one, is its own.
        side.cq = unsafe { sys::ibv_create_cq(context, entries, none, side.channel, 0) };
        check(!side.cq.is_null(), "ibv_create_cq")?;
        let mut init: sys::ibv_qp_init_attr = zeroed();
        (init.send_cq, init.recv_cq) = (side.cq, side.cq);
        (init.qp_type, init.cap) = (sys::ibv_qp_type::IBV_QPT_RC, choice.caps);
        side.qp = create_qp(pd, &mut init);
        check(!side.qp.is_null(), "a queue pair")?;
        Ok(side)
    }

    /// Registers the memory.
    pub fn register(&mut self) -> Result<()> {
        let access = sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
            | sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
            | sys::ibv_access_flags::IBV_ACCESS_REMOTE_READ;
        let (address, length) = (self.memory.addr(), self.memory.len());
        // SAFETY: the memory is there. It stays pinned until this value deregisters it, whoever frees it.
        self.mr = unsafe { sys::ibv_reg_mr(self.pd, address, length, access.0 as c_int) };
        check(!self.mr.is_null(), "ibv_reg_mr")
    }

    /// Undoes that.
    pub fn deregister(&mut self) -> Result<()> {
        // SAFETY: the region is registered.
        check(unsafe { sys::ibv_dereg_mr(self.mr) } == 0, "ibv_dereg_mr")
    }

    fn modify(&self, attr: &mut sys::ibv_qp_attr, what: sys::ibv_qp_attr_mask) -> Result<()> {
        // SAFETY: the queue pair is alive, and the attributes are read during the call.
        let error = unsafe { sys::ibv_modify_qp(self.qp, attr, what.0 as c_int) };
        check(error == 0, "ibv_modify_qp")
    }

    /// Tells the other side what this one is called, and hears what that one is.
    pub fn exchange_names(&mut self) -> Result<Name> {
        let mut gid = sys::ibv_gid { raw: [0; 16] };
        // SAFETY: fills the GID that it is given.
        check(unsafe { sys::ibv_query_gid(self.context, 1, 1, &mut gid) } == 0, "ibv_query_gid")?;
        // SAFETY: both are alive.
        let (number, rkey) = unsafe { ((*self.qp).qp_num, (*self.mr).rkey) };
        let mut own = [0; 32];
        own[..4].copy_from_slice(&number.to_ne_bytes());
        own[4..8].copy_from_slice(&rkey.to_ne_bytes());
        own[8..16].copy_from_slice(&(self.memory.addr() as u64).to_ne_bytes());
        // SAFETY: any 16 bytes are a GID.
        own[16..].copy_from_slice(unsafe { &gid.raw });
        self.peer.write_all(&own).map_err(|error| Error("write", error))?;
        let mut its = [0; 32];
        self.peer.read_exact(&mut its).map_err(|error| Error("read", error))?;
        let word = |at: usize| u32::from_ne_bytes([its[at], its[at + 1], its[at + 2], its[at + 3]]);
        let mut gid = [0; 16];
        gid.copy_from_slice(&its[16..]);
        let address = u64::from(word(8)) | u64::from(word(12)) << 32;
        Ok(Name { remote: Remote { address, rkey: word(4) }, qp_num: word(0), gid })
    }

    /// From there on receives may be posted.
    pub fn init(&self) -> Result<()> {
        let mut attr: sys::ibv_qp_attr = zeroed();
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_INIT;
        (attr.port_num, attr.pkey_index) = (1, self.choice.pkey_index);
        let access = sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
            | sys::ibv_access_flags::IBV_ACCESS_REMOTE_READ;
        attr.qp_access_flags = access.0;
        let all = mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | mask::IBV_QP_ACCESS_FLAGS;
        self.modify(&mut attr, mask::IBV_QP_STATE | all)
    }

    /// Connects it with the other side.
    pub fn connect(&self, to: Name) -> Result<()> {
        let mut attr: sys::ibv_qp_attr = zeroed();
        attr.qp_state = sys::ibv_qp_state::IBV_QPS_RTR;
        (attr.path_mtu, attr.dest_qp_num) = (self.choice.path_mtu, to.qp_num);
        (attr.max_dest_rd_atomic, attr.min_rnr_timer) = (self.choice.reads_in, 31);
        (attr.ah_attr.is_global, attr.ah_attr.port_num) = (1, 1);
        (attr.ah_attr.grh.dgid, attr.ah_attr.grh.sgid_index) = (sys::ibv_gid { raw: to.gid }, 1);
        attr.ah_attr.grh.hop_limit = 64;
        let all = mask::IBV_QP_AV | mask::IBV_QP_PATH_MTU | mask::IBV_QP_DEST_QPN;
        let all = all | mask::IBV_QP_RQ_PSN | mask::IBV_QP_MAX_DEST_RD_ATOMIC;
        self.modify(&mut attr, mask::IBV_QP_STATE | mask::IBV_QP_MIN_RNR_TIMER | all)?;

        attr.qp_state = sys::ibv_qp_state::IBV_QPS_RTS;
        (attr.timeout, attr.retry_cnt, attr.rnr_retry) = (self.choice.ack_timeout, 7, 3);
        attr.max_rd_atomic = self.choice.reads_out;
        let all = mask::IBV_QP_TIMEOUT | mask::IBV_QP_RETRY_CNT | mask::IBV_QP_RNR_RETRY;
        let all = all | mask::IBV_QP_SQ_PSN | mask::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(&mut attr, mask::IBV_QP_STATE | all)
    }

    /// Registers its memory anew, as another region.
    pub fn register_again(&mut self) -> Result<()> {
        self.deregister()?;
        self.register()
    }

    /// Writes to the first byte of its memory.
    pub fn change(&self) {
        self.memory[0].set(self.memory[0].get() + 1);
    }

    /// Fills all of its memory with zeros.
    pub fn clear(&self) {
        self.memory.iter().for_each(|byte| byte.set(0));
    }

    /// Frees its memory, which stays registered.
    pub fn free(&mut self) {
        self.memory = CArray::default();
    }

    /// Asks for a protection domain, and does not look whether that was refused.
    pub fn ask_in_vain(&self) {
        // SAFETY: the context is open.
        unsafe { sys::ibv_alloc_pd(self.context) };
    }

    /// The key of its memory.
    pub fn lkey(&self) -> u32 {
        // SAFETY: the region is registered.
        unsafe { (*self.mr).lkey }
    }

    /// The device, which is open as long as this value lives.
    pub fn context(&self) -> *mut sys::ibv_context {
        self.context
    }

    /// The SGE of its buffer with this number.
    pub fn buffer(&self, number: usize) -> sys::ibv_sge {
        let addr = (self.memory.addr() as usize + number * BYTES) as u64;
        sys::ibv_sge { addr, length: BYTES as u32, lkey: self.lkey() }
    }

    /// Posts a receive for a buffer with a number.
    pub fn receive(&self, number: usize) -> Result<()> {
        let mut sge = self.buffer(number);
        let mut wr: sys::ibv_recv_wr = zeroed();
        (wr.wr_id, wr.sg_list, wr.num_sge) = (number as u64, &raw mut sge, 1);
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is alive, and the request is read during the call.
        check(unsafe { sys::ibv_post_recv(self.qp, &mut wr, &mut bad) } == 0, "ibv_post_recv")
    }

    /// Sends a message of SGEs of eight bytes each, or reads into them.
    pub fn post(&self, elements: usize, flags: u32, lkey: u32, from: Option<Remote>) -> Result<()> {
        let first = self.memory.addr() as u64;
        let sge = |number: usize| sys::ibv_sge { addr: first + 8 * number as u64, length: 8, lkey };
        let mut sges: Vec<sys::ibv_sge> = (0..elements).map(sge).collect();
        let mut wr: sys::ibv_send_wr = zeroed();
        (wr.sg_list, wr.num_sge) = (sges.as_mut_ptr(), elements as c_int);
        (wr.send_flags, wr.opcode) = (flags, sys::ibv_wr_opcode::IBV_WR_SEND);
        if let Some(Remote { address, rkey }) = from {
            wr.opcode = sys::ibv_wr_opcode::IBV_WR_RDMA_READ;
            wr.wr.rdma = sys::rdma_t { remote_addr: address, rkey };
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is alive; request and SGEs are read during the call, and their memory
        // is registered as long as this value lives.
        check(unsafe { sys::ibv_post_send(self.qp, &mut wr, &mut bad) } == 0, "ibv_post_send")
    }

    /// Writes a number, from the first byte of its memory, to the second buffer of the peer's; with immediate
    /// data if that is to tell of it.
    pub fn write(&self, number: u8, to: Remote, tells: bool) -> Result<()> {
        self.memory[0].set(number);
        let addr = self.memory.addr() as u64;
        let mut sge = sys::ibv_sge { addr, length: 1, lkey: self.lkey() };
        let mut wr: sys::ibv_send_wr = zeroed();
        (wr.wr_id, wr.sg_list, wr.num_sge) = (1000 + u64::from(number), &raw mut sge, 1);
        wr.opcode = match tells {
            true => sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
            false => sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE,
        };
        wr.send_flags = sys::ibv_send_flags::IBV_SEND_SIGNALED.0;
        wr.wr.rdma = sys::rdma_t { remote_addr: to.address + BYTES as u64, rkey: to.rkey };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is alive; request and SGE are read during the call, and the memory is
        // registered as long as this value lives.
        check(unsafe { sys::ibv_post_send(self.qp, &mut wr, &mut bad) } == 0, "ibv_post_send")
    }

    /// The number that the peer has written last.
    pub fn written(&self) -> u8 {
        load(&self.memory[BYTES])
    }

    /// The number of a request that has completed, and whether that is a success, if there is one.
    pub fn poll_number(&self) -> Result<Option<(u64, bool)>> {
        let mut wc: sys::ibv_wc = zeroed();
        // SAFETY: the queue is alive, and there is room for one completion.
        let found = unsafe { sys::ibv_poll_cq(self.cq, 1, &mut wc) };
        check(found >= 0, "ibv_poll_cq")?;
        let is_good = wc.status == sys::ibv_wc_status::IBV_WC_SUCCESS;
        Ok((found > 0).then_some((wc.wr_id, is_good)))
    }

    /// Whether a completion is there that is a success, if one is there.
    pub fn poll_once(&self) -> Result<Option<bool>> {
        Ok(self.poll_number()?.map(|(_, is_good)| is_good))
    }

    /// One completion, whatever its status.
    pub fn poll(&self) -> Result<bool> {
        loop {
            if let Some(is_good) = self.poll_once()? {
                return Ok(is_good);
            }
        }
    }

    /// One completion, which is a success.
    pub fn poll_good(&self) -> Result<()> {
        check(self.poll()?, "a completion with an error")
    }

    /// Arms the queue.
    pub fn arm(&self) -> Result<()> {
        // SAFETY: the queue is alive.
        check(unsafe { sys::ibv_req_notify_cq(self.cq, 0) } == 0, "ibv_req_notify_cq")
    }

    /// Waits, by `poll(2)`, until there is an event.
    pub fn await_event(&self) -> Result<()> {
        // SAFETY: the channel is alive.
        let fd = unsafe { (*self.channel).fd };
        let mut readable = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: `readable` outlives the call, which is told that it is one.
        check(unsafe { libc::poll(&raw mut readable, 1, -1) } == 1, "poll")
    }

    /// Waits for an event, and acknowledges it if it is to be.
    pub fn take_event(&self, acknowledges: bool) -> Result<()> {
        let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel is alive; the call fills both pointers.
        let error = unsafe { sys::ibv_get_cq_event(self.channel, &mut cq, &mut context) };
        check(error == 0, "ibv_get_cq_event")?;
        if acknowledges {
            // SAFETY: the event was taken just now.
            unsafe { sys::ibv_ack_cq_events(cq, 1) };
        }
        Ok(())
    }

    /// A step of this side is done.
    pub fn step(&mut self) -> Result<()> {
        self.peer.write_all(&[0]).map_err(|error| Error("write", error))
    }

    /// Waits for a step of the other one.
    pub fn await_step(&mut self) -> Result<()> {
        self.peer.read_exact(&mut [0]).map_err(|error| Error("read", error))
    }

    /// Until a message has found no receive.
    pub fn await_not_ready(&self) -> Result<()> {
        // SAFETY: the context is open.
        let path = unsafe { &(*(*self.context).device).ibdev_path };
        let path: Vec<u8> =
            path.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
        let path = String::from_utf8_lossy(&path);
        let file = format!("{path}/ports/1/hw_counters/rcvd_rnr_err");
        loop {
            let count = fs::read_to_string(&file).map_err(|error| Error("rcvd_rnr_err", error))?;
            if count.trim() != "0" {
                return Ok(());
            }
        }
    }

    /// Destroys the queue pair.
    pub fn destroy_qp(&self) -> Result<()> {
        // SAFETY: the queue pair is alive, and nobody uses it any more.
        check(unsafe { sys::ibv_destroy_qp(self.qp) } == 0, "ibv_destroy_qp")
    }

    /// Destroys the completion queue, whose queue pair is gone.
    pub fn destroy_cq(&self) -> Result<()> {
        // SAFETY: its queue pair is gone.
        check(unsafe { sys::ibv_destroy_cq(self.cq) } == 0, "ibv_destroy_cq")
    }

    /// Destroys the completion channel, if there is one; its queue is gone.
    pub fn destroy_channel(&self) -> Result<()> {
        if self.channel.is_null() {
            return Ok(());
        }
        // SAFETY: its only queue is gone.
        let error = unsafe { sys::ibv_destroy_comp_channel(self.channel) };
        check(error == 0, "ibv_destroy_comp_channel")
    }

    /// Undoes the rest, but does not close the device.
    pub fn deallocate(&mut self) -> Result<()> {
        self.deregister()?;
        // SAFETY: what was made in it is gone.
        check(unsafe { sys::ibv_dealloc_pd(self.pd) } == 0, "ibv_dealloc_pd")
    }

    /// Undoes all of the rest.
    pub fn close(mut self) -> Result<()> {
        self.deallocate()?;
        // SAFETY: nobody uses the context any more.
        check(unsafe { sys::ibv_close_device(self.context) } == 0, "ibv_close_device")
    }
}
