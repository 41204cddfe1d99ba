//! The client of ping-sr-3 as one would write it in Rust from the start. `docs/idiomatic.md` tells what is
//! different, and why the examples are not like this.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::ptr;

use common::addrinfo::AddrInfo;
use common::memory::{CArray, zeroed};
use rdma_sys::{
    ibv_access_flags, ibv_ack_cq_events, ibv_alloc_pd, ibv_comp_channel, ibv_cq,
    ibv_create_comp_channel, ibv_create_cq, ibv_dealloc_pd, ibv_dereg_mr, ibv_destroy_comp_channel,
    ibv_destroy_cq, ibv_get_cq_event, ibv_mr, ibv_pd, ibv_poll_cq, ibv_post_recv, ibv_post_send,
    ibv_qp_init_attr, ibv_qp_type, ibv_recv_wr, ibv_reg_mr, ibv_req_notify_cq, ibv_send_flags,
    ibv_send_wr, ibv_sge, ibv_wc, ibv_wc_status, ibv_wr_opcode, rdma_cm_id, rdma_conn_param,
    rdma_connect, rdma_create_id, rdma_create_qp, rdma_destroy_id, rdma_destroy_qp,
    rdma_disconnect, rdma_port_space, rdma_resolve_addr, rdma_resolve_route,
};

const TIMEOUT_MS: i32 = 2000;
const DEPTH: u32 = 32;

/// Result of a call that returns -1 and sets `errno`: those of the connection manager, and the waits for events.
fn ok(ret: i32) -> io::Result<()> {
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Result of a verb that returns the error's number. `errno` may be that of an earlier call.
fn returned(ret: i32) -> io::Result<()> {
    if ret == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(ret)) }
}

fn some<T>(pointer: *mut T) -> io::Result<*mut T> {
    if pointer.is_null() { Err(io::Error::last_os_error()) } else { Ok(pointer) }
}

/// An id whose way to the server is known.
struct Id(*mut rdma_cm_id);

impl Id {
    fn resolve(host: &str, port: &str) -> Result<Id, Box<dyn Error>> {
        let mut hints: libc::addrinfo = zeroed();
        hints.ai_family = libc::AF_INET;
        let addr =
            AddrInfo::get(Some(host), Some(port), &hints).map_err(|error| format!("{error:?}"))?;
        let mut id = ptr::null_mut();
        let (channel, context, space) =
            (ptr::null_mut(), ptr::null_mut(), rdma_port_space::RDMA_PS_TCP);
        // SAFETY: without a channel every call on the id waits; the library writes the id.
        ok(unsafe { rdma_create_id(channel, &mut id, context, space) })?;
        let id = Id(id);
        // SAFETY: id and address are alive.
        ok(unsafe { rdma_resolve_addr(id.0, ptr::null_mut(), addr.ai_addr(), TIMEOUT_MS) })?;
        // SAFETY: the id's address is resolved.
        ok(unsafe { rdma_resolve_route(id.0, TIMEOUT_MS) })?;
        Ok(id)
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: made by `resolve`; what borrows it is gone.
        unsafe { rdma_destroy_id(self.0) };
    }
}

struct Domain<'id> {
    pd: *mut ibv_pd,
    id: &'id Id,
}

impl<'id> Domain<'id> {
    fn new(id: &'id Id) -> io::Result<Self> {
        // SAFETY: the id is bound to a device.
        let pd = some(unsafe { ibv_alloc_pd((*id.0).verbs) })?;
        Ok(Self { pd, id })
    }
}

impl Drop for Domain<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`; regions and queue pairs borrow it and are gone.
        unsafe { ibv_dealloc_pd(self.pd) };
    }
}

/// A completion queue with the channel that wakes its reader.
struct Completions<'id> {
    channel: *mut ibv_comp_channel,
    cq: *mut ibv_cq,
    _id: &'id Id,
}

impl<'id> Completions<'id> {
    fn new(id: &'id Id) -> io::Result<Self> {
        // SAFETY: the id is bound to a device.
        let verbs = unsafe { (*id.0).verbs };
        // SAFETY: the device is open.
        let channel = some(unsafe { ibv_create_comp_channel(verbs) })?;
        let mut completions = Self { channel, cq: ptr::null_mut(), _id: id };
        // SAFETY: device and channel are alive.
        let cq = unsafe { ibv_create_cq(verbs, 2 * DEPTH as i32, ptr::null_mut(), channel, 0) };
        completions.cq = some(cq)?;
        // SAFETY: the queue is alive.
        returned(unsafe { ibv_req_notify_cq(completions.cq, 0) })?;
        Ok(completions)
    }

    /// The next completion; sleeps until there is one.
    fn next(&self) -> io::Result<ibv_wc> {
        let mut wc: ibv_wc = zeroed();
        loop {
            // SAFETY: the queue is alive; the library writes at most one completion.
            match unsafe { ibv_poll_cq(self.cq, 1, &mut wc) } {
                0 => {}
                1 => return Ok(wc),
                // Only the sign says so: no error number is defined.
                ret => return Err(io::Error::other(format!("ibv_poll_cq returned {ret}"))),
            }
            let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: the channel is alive; the library writes queue and context.
            ok(unsafe { ibv_get_cq_event(self.channel, &mut cq, &mut context) })?;
            // SAFETY: one event of this queue was got; and it is alive.
            unsafe { ibv_ack_cq_events(cq, 1) };
            // SAFETY: as above. Asked for before the queue is looked at again.
            returned(unsafe { ibv_req_notify_cq(cq, 0) })?;
        }
    }
}

impl Drop for Completions<'_> {
    fn drop(&mut self) {
        if !self.cq.is_null() {
            // SAFETY: made by `new`; queue pairs borrow it and are gone; its events are acknowledged.
            unsafe { ibv_destroy_cq(self.cq) };
        }
        // SAFETY: its only queue is gone.
        unsafe { ibv_destroy_comp_channel(self.channel) };
    }
}

/// Registered memory. While a request with it is posted, the queue pair has it.
struct Region<'domain> {
    mr: *mut ibv_mr,
    bytes: CArray<u8>,
    _domain: &'domain Domain<'domain>,
}

impl<'domain> Region<'domain> {
    fn new(domain: &'domain Domain<'_>, size: usize) -> Result<Self, Box<dyn Error>> {
        let bytes = CArray::calloc(size)?;
        let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0 as i32;
        // SAFETY: the memory is there as long as the region.
        let mr = some(unsafe { ibv_reg_mr(domain.pd, bytes.addr(), size, access) })?;
        Ok(Self { mr, bytes, _domain: domain })
    }

    fn element(&self) -> ibv_sge {
        // SAFETY: the region is registered.
        let lkey = unsafe { (*self.mr).lkey };
        ibv_sge { addr: self.bytes.addr() as u64, length: self.bytes.len() as u32, lkey }
    }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and no request uses it: a queue pair has it then.
        unsafe { ibv_dereg_mr(self.mr) };
    }
}

/// A completed work request, with the memory that it used.
enum Done<'domain> {
    Sent(Region<'domain>),
    Received(Region<'domain>),
}

/// A connected queue pair and the memory that is with the adapter.
struct Connection<'domain> {
    domain: &'domain Domain<'domain>,
    completions: &'domain Completions<'domain>,
    posted: RefCell<HashMap<u64, Done<'domain>>>,
}

impl<'domain> Connection<'domain> {
    fn new(
        domain: &'domain Domain<'_>,
        completions: &'domain Completions<'_>,
        private_data: &[u8],
    ) -> io::Result<Self> {
        let mut attr: ibv_qp_init_attr = zeroed();
        attr.send_cq = completions.cq;
        attr.recv_cq = completions.cq;
        attr.qp_type = ibv_qp_type::IBV_QPT_RC;
        attr.sq_sig_all = 0;
        (attr.cap.max_send_wr, attr.cap.max_recv_wr) = (DEPTH, DEPTH);
        (attr.cap.max_send_sge, attr.cap.max_recv_sge) = (1, 1);
        // SAFETY: id, domain and queue are alive and of one device.
        ok(unsafe { rdma_create_qp(domain.id.0, domain.pd, &mut attr) })?;
        let connection = Self { domain, completions, posted: RefCell::default() };

        let mut params: rdma_conn_param = zeroed();
        params.private_data = private_data.as_ptr().cast();
        params.private_data_len = private_data.len() as u8;
        (params.responder_resources, params.initiator_depth) = (2, 2);
        (params.retry_count, params.rnr_retry_count) = (5, 5);
        // SAFETY: the id has a queue pair; the private data are read during the call.
        ok(unsafe { rdma_connect(domain.id.0, &mut params) })?;
        Ok(connection)
    }

    /// Gives the memory to the adapter, for a message that comes.
    fn post_recv(&self, region: Region<'domain>) -> io::Result<()> {
        let mut element = region.element();
        let mut wr: ibv_recv_wr = zeroed();
        wr.wr_id = element.addr;
        wr.sg_list = &mut element;
        wr.num_sge = 1;
        self.posted.borrow_mut().insert(wr.wr_id, Done::Received(region));
        // SAFETY: the queue pair is alive; request and element are read during the call.
        returned(unsafe { ibv_post_recv((*self.domain.id.0).qp, &mut wr, &mut ptr::null_mut()) })
    }

    /// Gives the memory to the adapter, to be sent.
    fn post_send(&self, region: Region<'domain>) -> io::Result<()> {
        let mut element = region.element();
        let mut wr: ibv_send_wr = zeroed();
        wr.wr_id = element.addr;
        wr.sg_list = &mut element;
        wr.num_sge = 1;
        wr.opcode = ibv_wr_opcode::IBV_WR_SEND;
        wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        self.posted.borrow_mut().insert(wr.wr_id, Done::Sent(region));
        // SAFETY: as above.
        returned(unsafe { ibv_post_send((*self.domain.id.0).qp, &mut wr, &mut ptr::null_mut()) })
    }

    /// The next completed work request, and its memory back.
    fn next(&self) -> Result<Done<'domain>, Box<dyn Error>> {
        let wc = self.completions.next()?;
        let done = self.posted.borrow_mut().remove(&wc.wr_id).ok_or("an unknown completion")?;
        match wc.status {
            ibv_wc_status::IBV_WC_SUCCESS => Ok(done),
            status => Err(format!("work completion status {status}").into()),
        }
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        // SAFETY: the id is alive; it is no matter if it is not connected, or not any more.
        unsafe { rdma_disconnect(self.domain.id.0) };
        // SAFETY: the id has this queue pair. What is posted is dropped after it.
        unsafe { rdma_destroy_qp(self.domain.id.0) };
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [host, count] = arguments.as_slice() else {
        return Err("usage: idiomatic HOST COUNT".into());
    };
    let (count, size): (u64, usize) = (count.parse()?, 8);

    let id = Id::resolve(host, "12321")?;
    let domain = Domain::new(&id)?;
    let completions = Completions::new(&id)?;
    let mut ping = Region::new(&domain, size)?;
    let mut pong = Region::new(&domain, size)?;
    ping.bytes.iter().zip(b' '..).for_each(|(cell, byte)| cell.set(byte));

    // the numbers that ping-sr-1 and its successors tell the server
    let private_data = [count.to_be_bytes(), (size as u64).to_be_bytes()].concat();
    let connection = Connection::new(&domain, &completions, &private_data)?;
    for _ in 0..count {
        connection.post_recv(pong)?;
        connection.post_send(ping)?;
        (ping, pong) = match (connection.next()?, connection.next()?) {
            (Done::Sent(ping), Done::Received(pong)) => (ping, pong),
            (Done::Received(pong), Done::Sent(ping)) => (ping, pong),
            _ => return Err("two completions of one kind".into()),
        };
        if ping.bytes.iter().ne(pong.bytes.iter()) {
            return Err("the pong is not the ping".into());
        }
    }
    println!("{count} messages came back as they were sent");
    Ok(())
}
