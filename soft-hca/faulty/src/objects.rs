//! The beginnings of the structures of queue pairs and ids.

use std::ffi::c_void;

/// `struct ibv_qp`
#[repr(C)]
pub(crate) struct Qp {
    context: *mut c_void,
    qp_context: *mut c_void,
    pd: *mut c_void,
    send_cq: *mut c_void,
    recv_cq: *mut c_void,
    srq: *mut c_void,
    handle: u32,
    pub qp_num: u32,
}

/// `struct rdma_cm_id`
#[repr(C)]
pub(crate) struct CmId {
    verbs: *mut c_void,
    channel: *mut c_void,
    context: *mut c_void,
    pub qp: *mut Qp,
}
