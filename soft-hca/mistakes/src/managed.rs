//! Two sides that the connection manager connects. The same program in C is `tests/check/managed.c`.
#![allow(unsafe_code, reason = "the connection manager's calls")]

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::ptr;

use common::memory::zeroed;
use rdma_sys as sys;

use crate::side::{Choice, Error, Result, Side, allocate, check};

/// An id, whose calls are synchronous.
struct Id(*mut sys::rdma_cm_id);

/// A port of this host.
fn address(port: [u8; 2]) -> libc::sockaddr_in {
    let s_addr = u32::from(Ipv4Addr::LOCALHOST).to_be();
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: u16::from_ne_bytes(port),
        sin_addr: libc::in_addr { s_addr },
        sin_zero: [0; 8],
    }
}

fn parameters() -> sys::rdma_conn_param {
    let mut parameters: sys::rdma_conn_param = zeroed();
    (parameters.responder_resources, parameters.initiator_depth) = (1, 1);
    (parameters.retry_count, parameters.rnr_retry_count) = (7, 3);
    parameters
}

impl Id {
    fn new() -> Result<Self> {
        let (mut id, none) = (ptr::null_mut(), ptr::null_mut());
        let space = sys::rdma_port_space::RDMA_PS_TCP;
        // SAFETY: the library writes the new id.
        let error = unsafe { sys::rdma_create_id(none, &mut id, ptr::null_mut(), space) };
        check(error == 0, "rdma_create_id")?;
        Ok(Self(id))
    }

    /// Waits for a request of the peer, to whom it says the port.
    fn listen(&self, peer: &mut UnixStream) -> Result<Self> {
        let mut own = address([0; 2]);
        // SAFETY: the id is alive, and so is the address, which has the length of its family.
        let error = unsafe { sys::rdma_bind_addr(self.0, ptr::from_mut(&mut own).cast()) };
        check(error == 0, "rdma_bind_addr")?;
        // SAFETY: the id is alive and bound.
        check(unsafe { sys::rdma_listen(self.0, 1) } == 0, "rdma_listen")?;
        // SAFETY: the id is alive.
        let port = unsafe { sys::rdma_get_src_port(self.0) };
        peer.write_all(&port.to_ne_bytes()).map_err(|error| Error("write", error))?;
        let mut id = ptr::null_mut();
        // SAFETY: the id listens; the library writes the new one.
        check(unsafe { sys::rdma_get_request(self.0, &mut id) } == 0, "rdma_get_request")?;
        Ok(Self(id))
    }

    /// Finds the way to the port that the peer says.
    fn resolve(&self, peer: &mut UnixStream) -> Result<()> {
        let mut port = [0; 2];
        peer.read_exact(&mut port).map_err(|error| Error("read", error))?;
        let (mut to, from) = (address(port), ptr::null_mut());
        let to = ptr::from_mut(&mut to).cast();
        // SAFETY: the id is alive, and so is the address; a null source means any.
        check(unsafe { sys::rdma_resolve_addr(self.0, from, to, 2000) } == 0, "rdma_resolve_addr")?;
        // SAFETY: the id is alive and its address is resolved.
        check(unsafe { sys::rdma_resolve_route(self.0, 2000) } == 0, "rdma_resolve_route")
    }

    /// A side on the id's device, with its queue pair.
    fn side(&self, choice: Choice, peer: UnixStream) -> Result<Side> {
        // SAFETY: the id is alive and has a device.
        let context = unsafe { (*self.0).verbs };
        Side::within(context, allocate()?, (choice, peer), |pd, init| {
            // SAFETY: what is given, and what the attributes name, is alive.
            unsafe {
                sys::rdma_create_qp(self.0, pd, init);
                (*self.0).qp
            }
        })
    }

    fn connect(&self) -> Result<()> {
        // SAFETY: the id is alive, its route is resolved and it has a queue pair.
        check(unsafe { sys::rdma_connect(self.0, &mut parameters()) } == 0, "rdma_connect")
    }

    fn accept(&self) -> Result<()> {
        // SAFETY: the id came with a request, is alive and has a queue pair.
        check(unsafe { sys::rdma_accept(self.0, &mut parameters()) } == 0, "rdma_accept")
    }

    /// Disconnects, unless the other side was quicker, and destroys the queue pair.
    fn disconnect(&self) -> Result<()> {
        // SAFETY: the id is alive.
        let is_done = unsafe { sys::rdma_disconnect(self.0) } == 0;
        let is_over = || io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
        check(is_done || is_over(), "rdma_disconnect")?;
        // SAFETY: the id has a queue pair, which nobody uses any more.
        unsafe { sys::rdma_destroy_qp(self.0) };
        Ok(())
    }

    fn destroy(self) -> Result<()> {
        // SAFETY: the id is alive, and has no queue pair.
        check(unsafe { sys::rdma_destroy_id(self.0) } == 0, "rdma_destroy_id")
    }
}

/// One side, to its end. The receiver posts its receive when it has accepted, which is wrong, or before. The sender
/// sends when it hears by a socket that both are done, so that the message is never too early: in this run.
pub fn side(choice: Choice, mut peer: UnixStream, is_sender: bool, is_wrong: bool) -> Result<()> {
    let first = Id::new()?;
    let (id, mut side) = if is_sender {
        first.resolve(&mut peer)?;
        let side = first.side(choice, peer)?;
        first.connect()?;
        (first, side)
    } else {
        let id = first.listen(&mut peer)?;
        let side = id.side(choice, peer)?;
        if !is_wrong {
            side.receive(0)?;
        }
        id.accept()?;
        if is_wrong {
            side.receive(0)?;
        }
        first.destroy()?;
        (id, side)
    };
    side.step()?;
    side.await_step()?;
    if is_sender {
        side.post(1, sys::ibv_send_flags::IBV_SEND_SIGNALED.0, side.lkey(), None)?;
    }
    side.poll_good()?;
    // Neither ends what the other still needs.
    side.step()?;
    side.await_step()?;
    id.disconnect()?;
    side.destroy_cq()?;
    side.deallocate()?;
    id.destroy()
}
