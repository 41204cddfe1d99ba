//! The beginnings of structures of `infiniband/verbs.h`.

use std::ffi::{c_int, c_void};

/// `struct ibv_context`: of its functions only the one that is replaced has a name here.
#[repr(C)]
pub(super) struct Context {
    device: *mut c_void,
    before: [usize; 11],
    pub poll_cq: usize,
    behind: [usize; 20],
    pub cmd_fd: c_int,
}

/// `struct ibv_cq_ex`, which begins as `struct ibv_cq` does.
#[repr(C)]
pub(super) struct ExtendedCq {
    pub context: *mut Context,
    channel: *mut c_void,
    cq_context: *mut c_void,
    handle: u32,
    cqe: c_int,
    mutex: libc::pthread_mutex_t,
    cond: libc::pthread_cond_t,
    comp_events_completed: u32,
    async_events_completed: u32,
    comp_mask: u32,
    status: u32,
    wr_id: u64,
    pub start_poll: usize,
    pub next_poll: usize,
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn fields_are_where_the_headers_have_them() {
        use rdma_sys::{ibv_context, ibv_context_ops, ibv_cq, ibv_cq_ex};
        let ops = offset_of!(ibv_context, ops);
        assert_eq!(offset_of!(Context, poll_cq), ops + offset_of!(ibv_context_ops, poll_cq));
        assert_eq!(offset_of!(Context, cmd_fd), offset_of!(ibv_context, cmd_fd));
        assert_eq!(offset_of!(ExtendedCq, context), offset_of!(ibv_cq, context));
        assert_eq!(offset_of!(ExtendedCq, context), offset_of!(ibv_cq_ex, context));
        assert_eq!(offset_of!(ExtendedCq, start_poll), offset_of!(ibv_cq_ex, start_poll));
        assert_eq!(offset_of!(ExtendedCq, next_poll), offset_of!(ibv_cq_ex, next_poll));
    }
}
