//! The beginnings of structures of `infiniband/verbs.h`.

use std::ffi::{c_int, c_void};

use zerocopy::FromBytes;

use crate::client::functions::{EndPoll, NextPoll, PollCq, Post, Slot, StartPoll};

/// `struct ibv_context`: of its functions only those that are replaced have names here.
#[repr(C)]
pub(crate) struct Context {
    device: *mut c_void,
    before: [usize; 11],
    pub poll_cq: Slot<PollCq>,
    queues: [usize; 8],
    pub post_srq_recv: Slot<Post>,
    sending: [usize; 4],
    pub post_send: Slot<Post>,
    pub post_recv: Slot<Post>,
    behind: [usize; 5],
    pub cmd_fd: c_int,
}

/// `struct ibv_qp`
#[repr(C)]
pub(crate) struct Qp {
    pub context: *mut Context,
    before: [usize; 5],
    pub handle: u32,
    pub qp_num: u32,
    state: u32,
    qp_type: u32,
    mutex: libc::pthread_mutex_t,
    cond: libc::pthread_cond_t,
    pub events_completed: u32,
}

/// `struct ibv_srq`
#[repr(C)]
pub(crate) struct Srq {
    pub context: *mut Context,
    before: [usize; 2],
    pub handle: u32,
    mutex: libc::pthread_mutex_t,
    cond: libc::pthread_cond_t,
    pub events_completed: u32,
}

/// `struct ibv_cq_ex`, which begins as `struct ibv_cq` does.
#[repr(C)]
pub(crate) struct ExtendedCq {
    pub context: *mut Context,
    channel: *mut c_void,
    cq_context: *mut c_void,
    handle: u32,
    cqe: c_int,
    mutex: libc::pthread_mutex_t,
    cond: libc::pthread_cond_t,
    pub comp_events_completed: u32,
    async_events_completed: u32,
    comp_mask: u32,
    status: u32,
    wr_id: u64,
    pub start_poll: Slot<StartPoll>,
    pub next_poll: Slot<NextPoll>,
    pub end_poll: Slot<EndPoll>,
}

/// `struct ibv_send_wr`, up to the union of which RDMA and atomic operations have the remote address first.
#[repr(C)]
#[derive(FromBytes)]
pub(crate) struct SendWr {
    pub wr_id: u64,
    pub next: u64,
    pub sg_list: u64,
    pub num_sge: i32,
    pub opcode: u32,
    pub send_flags: u32,
    pub imm: u32,
    pub remote_addr: u64,
}

/// `struct ibv_recv_wr`
#[repr(C)]
#[derive(FromBytes)]
pub(crate) struct RecvWr {
    pub wr_id: u64,
    pub next: u64,
    pub sg_list: u64,
    pub num_sge: i32,
    padding: u32,
}

/// `struct ibv_sge`
#[repr(C)]
#[derive(FromBytes)]
pub(crate) struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// `struct ibv_wc`, up to the number of the queue pair.
#[repr(C)]
#[derive(FromBytes)]
pub(crate) struct Wc {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    vendor_err: u32,
    pub byte_len: u32,
    imm_data: u32,
    pub qp_num: u32,
    behind: [u32; 4],
}

impl Wc {
    /// The bit of the opcode that receives have (`IBV_WC_RECV`).
    pub(crate) const RECV: u32 = 1 << 7;

    /// Whether a successful one is a receive's.
    pub(crate) fn is_receive(&self) -> bool {
        self.opcode & Self::RECV != 0
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn fields_are_where_the_headers_have_them() {
        use soft_hca_headers::{ibv_context, ibv_context_ops, ibv_cq, ibv_cq_ex, ibv_qp, ibv_srq};
        let ops = offset_of!(ibv_context, ops);
        assert_eq!(offset_of!(Context, poll_cq), ops + offset_of!(ibv_context_ops, poll_cq));
        assert_eq!(
            offset_of!(Context, post_srq_recv),
            ops + offset_of!(ibv_context_ops, post_srq_recv)
        );
        assert_eq!(offset_of!(Context, post_send), ops + offset_of!(ibv_context_ops, post_send));
        assert_eq!(offset_of!(Context, post_recv), ops + offset_of!(ibv_context_ops, post_recv));
        assert_eq!(offset_of!(Context, cmd_fd), offset_of!(ibv_context, cmd_fd));
        assert_eq!(offset_of!(ExtendedCq, context), offset_of!(ibv_cq, context));
        assert_eq!(offset_of!(ExtendedCq, context), offset_of!(ibv_cq_ex, context));
        assert_eq!(offset_of!(ExtendedCq, start_poll), offset_of!(ibv_cq_ex, start_poll));
        assert_eq!(offset_of!(ExtendedCq, next_poll), offset_of!(ibv_cq_ex, next_poll));
        assert_eq!(offset_of!(ExtendedCq, end_poll), offset_of!(ibv_cq_ex, end_poll));
        assert_eq!(
            offset_of!(ExtendedCq, comp_events_completed),
            offset_of!(ibv_cq, comp_events_completed)
        );
        use soft_hca_headers::{ibv_recv_wr, ibv_send_wr, ibv_sge};
        assert_eq!(offset_of!(SendWr, sg_list), offset_of!(ibv_send_wr, sg_list));
        assert_eq!(offset_of!(SendWr, send_flags), offset_of!(ibv_send_wr, send_flags));
        assert_eq!(offset_of!(SendWr, remote_addr), offset_of!(ibv_send_wr, wr));
        assert_eq!(offset_of!(RecvWr, num_sge), offset_of!(ibv_recv_wr, num_sge));
        assert_eq!(size_of::<RecvWr>(), size_of::<ibv_recv_wr>());
        assert_eq!(size_of::<Sge>(), size_of::<ibv_sge>());
        assert_eq!(offset_of!(Sge, length), offset_of!(ibv_sge, length));
        assert_eq!(offset_of!(Qp, context), offset_of!(ibv_qp, context));
        assert_eq!(offset_of!(Qp, qp_num), offset_of!(ibv_qp, qp_num));
        assert_eq!(offset_of!(Qp, events_completed), offset_of!(ibv_qp, events_completed));
        assert_eq!(offset_of!(Srq, events_completed), offset_of!(ibv_srq, events_completed));
        use soft_hca_headers::ibv_wc;
        assert_eq!(size_of::<Wc>(), size_of::<ibv_wc>());
        assert_eq!(offset_of!(Wc, opcode), offset_of!(ibv_wc, opcode));
        assert_eq!(offset_of!(Wc, qp_num), offset_of!(ibv_wc, qp_num));
        assert_eq!(Wc::RECV, soft_hca_headers::ibv_wc_opcode::IBV_WC_RECV);
        assert_eq!(offset_of!(SendWr, next), offset_of!(ibv_send_wr, next));
        assert_eq!(offset_of!(RecvWr, next), offset_of!(ibv_recv_wr, next));
        assert_eq!(offset_of!(Srq, context), offset_of!(ibv_srq, context));
        assert_eq!(offset_of!(Srq, handle), offset_of!(ibv_srq, handle));
    }
}
