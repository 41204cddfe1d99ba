//! The beginnings of structures of `infiniband/verbs.h` and `rdma/rdma_cma.h`.

use std::ffi::{c_int, c_void};

use soft_hca_fault::each_verb;

use crate::argument::{Ptr, Qp as QpPointer};
use crate::returned;

/// `struct ibv_wc`
#[repr(C)]
pub(crate) struct Wc {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    vendor_err: u32,
    pub byte_len: u32,
    imm_data: u32,
    pub qp_num: u32,
    src_qp: u32,
    wc_flags: u32,
    pkey_index: u16,
    slid: u16,
    sl: u8,
    dlid_path_bits: u8,
}

/// The beginning of `struct ibv_send_wr` and `struct ibv_recv_wr`.
#[repr(C)]
pub(crate) struct Wr {
    pub wr_id: u64,
    pub next: *const Wr,
    /// The address is the first member of each SGE.
    pub sg_list: *const u64,
    pub num_sge: c_int,
}

/// `IBV_WC_RDMA_READ`
pub(crate) const WC_RDMA_READ: u32 = 2;

/// The bit that all `ibv_wc_opcode` of receives have in common.
pub(crate) const WC_RECV: u32 = 1 << 7;

macro_rules! functions {
    (
        exported { $($name:ident($($arg:ident: $type:ident),*) -> $fails:ident;)* }
        operations {
            $($operation:ident = $field:ident($($o_arg:ident: $o_type:ident),*) -> $o_fails:ident;)*
        }
        extended {
            $($extended:ident = $e_field:ident($($e_arg:ident: $e_type:ident),*) -> $e_fails:ident;)*
        }
    ) => {
        /// The functions of a context.
        pub(crate) mod function {
            use super::{Ptr, QpPointer as Qp, returned};

            $(pub(crate) type $field =
                unsafe extern "C-unwind" fn($($o_type),*) -> returned!($o_fails);)*
            $(pub(crate) type $e_field =
                unsafe extern "C-unwind" fn($($e_type),*) -> returned!($e_fails);)*
        }
    };
}

each_verb!(functions);

/// `struct ibv_context`, of whose `struct ibv_context_ops` some are only there for old programs.
#[repr(C)]
pub(crate) struct Context {
    device: *mut c_void,
    compat_device: [usize; 7],
    pub alloc_mw: Option<function::alloc_mw>,
    pub bind_mw: Option<function::bind_mw>,
    pub dealloc_mw: Option<function::dealloc_mw>,
    compat_create_cq: usize,
    pub poll_cq: Option<function::poll_cq>,
    pub req_notify_cq: Option<function::req_notify_cq>,
    compat_queues: [usize; 7],
    pub post_srq_recv: Option<function::post_srq_recv>,
    compat_queue_pairs: [usize; 4],
    pub post_send: Option<function::post_send>,
    pub post_recv: Option<function::post_recv>,
    compat_rest: [usize; 5],
    cmd_fd: c_int,
    async_fd: c_int,
    num_comp_vectors: c_int,
    mutex: libc::pthread_mutex_t,
    pub abi_compat: usize,
}

/// `abi_compat` of a context that is the end of a `struct verbs_context`.
pub(crate) const ABI_IS_EXTENDED: usize = usize::MAX;

/// `struct verbs_context`, which grows at its beginning.
#[repr(C)]
pub(crate) struct Extended {
    pub query_port: Option<function::query_port>,
    others: [usize; 24],
    pub create_cq_ex: Option<function::create_cq_ex>,
    private: usize,
    pub query_device_ex: Option<function::query_device_ex>,
    flows: [usize; 4],
    open_qp: usize,
    pub create_qp_ex: Option<function::create_qp_ex>,
    get_srq_num: usize,
    pub create_srq_ex: Option<function::create_srq_ex>,
    xrc: [usize; 3],
    /// Bytes of what there is.
    pub size: usize,
    pub context: Context,
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;
    use crate::objects::{CmId, Qp};

    #[test]
    fn fields_are_where_the_headers_have_them() {
        assert_eq!(offset_of!(Qp, qp_num), offset_of!(soft_hca_headers::ibv_qp, qp_num));
        assert_eq!(offset_of!(CmId, qp), offset_of!(soft_hca_headers::rdma_cm_id, qp));
        assert_eq!(size_of::<Wc>(), size_of::<soft_hca_headers::ibv_wc>());
        assert_eq!(offset_of!(Wc, qp_num), offset_of!(soft_hca_headers::ibv_wc, qp_num));
        assert_eq!(offset_of!(Wc, status), offset_of!(soft_hca_headers::ibv_wc, status));
        assert_eq!(offset_of!(Wc, byte_len), offset_of!(soft_hca_headers::ibv_wc, byte_len));
        macro_rules! work_requests {
            ($($name:ident)*) => { $(
                let of_send = offset_of!(soft_hca_headers::ibv_send_wr, $name);
                let of_receive = offset_of!(soft_hca_headers::ibv_recv_wr, $name);
                assert_eq!([offset_of!(Wr, $name); 2], [of_send, of_receive], stringify!($name));
            )* };
        }
        work_requests!(wr_id next sg_list num_sge);
        assert_eq!(offset_of!(soft_hca_headers::ibv_sge, addr), 0);
        let ops = offset_of!(soft_hca_headers::ibv_context, ops);
        macro_rules! operations {
            ($($name:ident)*) => { $(
                let theirs = ops + offset_of!(soft_hca_headers::ibv_context_ops, $name);
                assert_eq!(offset_of!(Context, $name), theirs, stringify!($name));
            )* };
        }
        operations!(alloc_mw bind_mw dealloc_mw poll_cq req_notify_cq post_srq_recv post_send post_recv);
        let abi_compat = offset_of!(soft_hca_headers::ibv_context, abi_compat);
        assert_eq!(offset_of!(Context, abi_compat), abi_compat);
        // It grows at its beginning, so what counts is how far before its end something is.
        let end = offset_of!(soft_hca_headers::verbs_context, context);
        macro_rules! extended {
            ($($name:ident = $theirs:ident)*) => { $(
                let theirs = end - offset_of!(soft_hca_headers::verbs_context, $theirs);
                let ours = offset_of!(Extended, context) - offset_of!(Extended, $name);
                assert_eq!(ours, theirs, stringify!($name));
            )* };
        }
        extended!(query_port = query_port create_cq_ex = create_cq_ex size = sz);
        extended!(query_device_ex = query_device_ex create_qp_ex = create_qp_ex);
        extended!(create_srq_ex = create_srq_ex);
        assert_eq!(size_of::<Context>(), size_of::<soft_hca_headers::ibv_context>());
    }
}
