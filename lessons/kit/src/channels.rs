//! The two channels as descriptors: connection manager and completion queue tell of their events through
//! one each, and poll(2) waits for both.

use std::os::fd::RawFd;
use std::ptr;

use common::errno;
use common::utilities::OurResult;
use rdma_sys::{ibv_get_cq_event, rdma_cm_event_type, rdma_port_space};

use crate::cm_events::{our_await_cm_event, our_create_event_channel};
use crate::connect::{our_await_request, our_listen};
use crate::control::{OurControl, OurOptions, failed};
use crate::queue_pair::our_setup_qp;
use crate::stepwise::{our_begin_resolve_addr, our_begin_resolve_route, our_client_id};

/// The same as [`our_server`](crate::our_server), on an event channel of its own: no call waits, and
/// [`our_accept`](crate::our_accept) only begins. Its event is `RDMA_CM_EVENT_ESTABLISHED`.
pub fn our_event_server(options: OurOptions) -> OurResult<OurControl> {
    let mut conn = OurControl::new(options);
    our_create_event_channel(&mut conn)?;
    our_listen(&mut conn, rdma_port_space::RDMA_PS_TCP)?;
    our_await_request(&mut conn)?;
    our_setup_qp(&mut conn)?;
    Ok(conn)
}

/// The same as [`our_client`](crate::our_client), on an event channel of its own: from
/// [`our_connect`](crate::our_connect) on no call waits, and that only begins. Its event is
/// `RDMA_CM_EVENT_ESTABLISHED`.
pub fn our_event_client(options: OurOptions) -> OurResult<OurControl> {
    let mut conn = our_client_id(options)?;
    our_begin_resolve_addr(&conn)?;
    our_await_cm_event(&conn, rdma_cm_event_type::RDMA_CM_EVENT_ADDR_RESOLVED)?;
    our_begin_resolve_route(&conn)?;
    our_await_cm_event(&conn, rdma_cm_event_type::RDMA_CM_EVENT_ROUTE_RESOLVED)?;
    our_setup_qp(&mut conn)?;
    Ok(conn)
}

/// The descriptor of the channel at which the connection manager tells of this connection.
pub fn our_cm_fd(conn: &OurControl) -> RawFd {
    // SAFETY: the id is alive, and it has a channel, which lives as long.
    unsafe { (*(*conn.cm_id).channel).fd }
}

/// The descriptor of the completion channel.
pub fn our_cq_fd(conn: &OurControl) -> RawFd {
    // SAFETY: the connection was set up with a channel, which is alive.
    unsafe { (*conn.completion_channel).fd }
}

/// From now on what reads this descriptor does not wait.
pub fn our_set_nonblocking(conn: &OurControl, fd: RawFd) -> OurResult {
    errno::set(0);
    // SAFETY: the descriptor is open.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(failed("fcntl", -1, &conn.options));
    }
    Ok(())
}

/// Sleeps until one of the descriptors can be read, for so many milliseconds at most, or for ever with -1.
/// Which of them can.
pub fn our_poll_fds<const N: usize>(
    conn: &OurControl,
    fds: [RawFd; N],
    timeout: i32,
) -> OurResult<[bool; N]> {
    let mut fds = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    errno::set(0);
    // SAFETY: so many entries are there.
    let ret = unsafe { libc::poll(fds.as_mut_ptr(), N as libc::nfds_t, timeout) };
    if ret < 0 {
        return Err(failed("poll", ret, &conn.options));
    }
    Ok(fds.map(|fd| fd.revents != 0))
}

/// Takes an event of the completion channel, which has to be acknowledged. If there is none it waits, or
/// says so if the channel's descriptor does not block.
pub fn our_try_get_cq_event(conn: &OurControl) -> OurResult<bool> {
    let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
    errno::set(0);
    // SAFETY: the channel is alive; the library writes queue and context.
    let ret = unsafe { ibv_get_cq_event(conn.completion_channel, &mut queue, &mut context) };
    match ret {
        0 => Ok(true),
        _ if errno::get() == libc::EAGAIN => Ok(false),
        _ => Err(failed("ibv_get_cq_event", ret, &conn.options)),
    }
}
