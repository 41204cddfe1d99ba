//! Sends that the engine executes before the provider gets to know of them: see `engine::at_once`.

use std::ffi::c_void;
use std::ptr;
use std::sync::LazyLock;

use soft_hca_core::config;
use soft_hca_core::engine::{self, MAX_PLAIN_SGES, PlainSend};
use soft_hca_core::uapi::rxe;

use super::provider;
use crate::client::layout::{Qp, SendWr, Sge};
use crate::client::{doorbell, process};

static IS_ON: LazyLock<bool> = LazyLock::new(config::sends_at_once);

/// The rest of a list of requests.
pub(super) enum Left {
    Nothing,
    /// It begins with this one, which may be the first.
    From(*mut c_void),
}

/// Executes the first requests of a list. Where none are left, the call has done what the provider's does.
///
/// # Safety
/// The arguments are those of a program's `ibv_post_send`.
#[inline]
pub(super) unsafe fn send(qp: *mut c_void, first: *mut c_void, bad: *mut c_void) -> Left {
    if first.is_null() || bad.is_null() || !*IS_ON || !provider::is_next() {
        return Left::From(first);
    }
    // SAFETY: the program gives a queue pair of its own, and may not destroy it during the call; a context lives as
    // long as that.
    let (fd, handle, qpn) = unsafe {
        let qp = &*qp.cast::<Qp>();
        ((*qp.context).cmd_fd, qp.handle, qp.qp_num)
    };
    if doorbell::find(fd, handle) != Some(qpn) {
        return Left::From(first);
    }
    let Some(process) = process::current() else { return Left::From(first) };
    let actor = process.actor();
    let mut first = first;
    loop {
        let sent = actor.send_at_once(qpn, Requests { next: first });
        if sent == 0 {
            return Left::From(first);
        }
        // SAFETY: the list has as many requests in front as were sent.
        first = unsafe { behind(first, sent) };
        if first.is_null() {
            // SAFETY: the program gives a variable for an address, which the provider clears as well.
            unsafe { bad.cast::<*mut c_void>().write(ptr::null_mut()) };
            return Left::Nothing;
        }
    }
}

/// The plain sends at the beginning of a list of requests.
struct Requests {
    next: *mut c_void,
}

impl Iterator for Requests {
    type Item = PlainSend;

    #[inline]
    fn next(&mut self) -> Option<PlainSend> {
        if self.next.is_null() {
            return None;
        }
        // SAFETY: a request of the program's list, which it may not change during the call.
        let wr = unsafe { &*self.next.cast::<SendWr>() };
        let count = usize::try_from(wr.num_sge).ok().filter(|count| *count <= MAX_PLAIN_SGES)?;
        let list: *const Sge = ptr::with_exposed_provenance(wr.sg_list as usize);
        let mut sges = [rxe::Sge::default(); MAX_PLAIN_SGES];
        for (index, sge) in sges.iter_mut().enumerate().take(count) {
            // SAFETY: the list of a request has as many SGEs as that says.
            let &Sge { addr, length, lkey } = unsafe { &*list.add(index) };
            *sge = rxe::Sge { addr, length, lkey };
        }
        let &SendWr { wr_id, opcode, send_flags: flags, imm, .. } = wr;
        self.next = ptr::with_exposed_provenance_mut(wr.next as usize);
        let num_sge = count as u32;
        PlainSend::new(engine::SendWr { wr_id, opcode, flags, imm, num_sge, sges })
    }
}

/// The request behind the first `count` of a list.
unsafe fn behind(first: *mut c_void, count: usize) -> *mut c_void {
    (0..count).fold(first, |at, _| {
        // SAFETY: the caller promises that the list is that long.
        let wr = unsafe { &*at.cast::<SendWr>() };
        ptr::with_exposed_provenance_mut(wr.next as usize)
    })
}
