//! Right, otherwise: by `epoll(7)`, it arms only after an event, and polls for eight completions at a time.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process::ExitCode;

use common::memory::zeroed;
use common::outln;
use common::utilities::{OurResult, Reported, exit_code};
use kit::{
    OurControl, OurOptions, failed, our_accept, our_ack_cq_events, our_cm_fd, our_cq_fd,
    our_disconnect, our_event_server, our_post_recv, our_post_send, our_req_notify_cq,
    our_set_nonblocking, our_setup_recv_wr, our_setup_send_wr, our_try_get_cm_event,
    our_try_get_cq_event, our_unsetup,
};
use rdma_sys::{ibv_poll_cq, ibv_wc, ibv_wc_opcode, ibv_wc_status, rdma_cm_event_type};

/// Receives that are posted at a time.
const RECEIVES: u32 = 8;

/// Answers the calls that have come, and posts receives for as many. How many there were.
fn answer(conn: &OurControl) -> OurResult<u32> {
    let mut calls = 0;
    loop {
        let mut work_completions: [ibv_wc; 8] = zeroed();
        let (room, place) = (work_completions.len() as i32, work_completions.as_mut_ptr());
        // SAFETY: the completion queue is alive, and there is room for so many completions.
        let found = unsafe { ibv_poll_cq(conn.completion_queue, room, place) };
        if found < 0 {
            return Err(failed("ibv_poll_cq", found, &conn.options));
        }
        for work_completion in &work_completions[..found as usize] {
            if work_completion.status != ibv_wc_status::IBV_WC_SUCCESS {
                return Err(Reported);
            }
            if work_completion.opcode == ibv_wc_opcode::IBV_WC_RECV {
                our_post_recv(conn, &mut our_setup_recv_wr(&mut []))?;
                our_post_send(conn, &mut our_setup_send_wr(&mut []))?;
                calls += 1;
            }
        }
        // fewer than there was room for: the queue is empty
        if found < room {
            return Ok(calls);
        }
    }
}

/// One descriptor that can be read when one of these can.
fn watch(conn: &OurControl, fds: [RawFd; 2]) -> OurResult<OwnedFd> {
    // SAFETY: makes a new descriptor, or returns -1.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if epoll < 0 {
        return Err(failed("epoll_create1", epoll, &conn.options));
    }
    // SAFETY: it was made above, and nobody else has it.
    let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
    for fd in fds {
        our_set_nonblocking(conn, fd)?;
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: fd as u64 };
        // SAFETY: both descriptors are open.
        let ret =
            unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if ret < 0 {
            return Err(failed("epoll_ctl", ret, &conn.options));
        }
    }
    Ok(epoll)
}

/// Answers calls until the client has hung up. How many there were.
fn serve(conn: &OurControl) -> OurResult<u32> {
    let (cm_fd, cq_fd) = (our_cm_fd(conn), our_cq_fd(conn));
    let epoll = watch(conn, [cm_fd, cq_fd])?;
    our_req_notify_cq(conn, false)?;
    let mut calls = answer(conn)?;
    loop {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: there is room for one event.
        let ret = unsafe { libc::epoll_wait(epoll.as_raw_fd(), &mut event, 1, -1) };
        if ret < 0 {
            return Err(failed("epoll_wait", ret, &conn.options));
        }
        let fd = event.u64;
        if fd == cq_fd as u64 {
            while our_try_get_cq_event(conn)? {
                our_ack_cq_events(conn, 1);
            }
            our_req_notify_cq(conn, false)?;
            calls += answer(conn)?;
        }
        if fd == cm_fd as u64 {
            while let Some(event) = our_try_get_cm_event(conn)? {
                if event == rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED {
                    return Ok(calls + answer(conn)?);
                }
            }
        }
    }
}

fn run() -> OurResult {
    let options = OurOptions { message: "server", with_channel: true, ..OurOptions::default() };
    // with an event channel of its own: no call waits for an event
    let mut conn = our_event_server(options)?;
    for _ in 0..RECEIVES {
        our_post_recv(&conn, &mut our_setup_recv_wr(&mut []))?;
    }
    our_accept(&mut conn, &[])?;

    let calls = serve(&conn)?;
    outln!("the client has hung up after {calls} calls");

    our_disconnect(&mut conn)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
