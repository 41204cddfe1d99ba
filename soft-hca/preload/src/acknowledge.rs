//! `rdma_ack_cm_event`, which the kernel is not told of.

use std::ffi::{c_int, c_void};

use soft_hca_core::system::Next;
use soft_hca_core::uapi::ucma::event_type;

use crate::client;

/// The beginning of `struct rdma_cm_event`.
#[repr(C)]
struct Event {
    id: *mut c_void,
    listen_id: *mut c_void,
    event: c_int,
}

/// `rdma_ack_cm_event(3)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_ack_cm_event(event: *mut c_void) -> c_int {
    static NEXT: Next = Next::of(c"rdma_ack_cm_event", c"librdmacm.so.1");
    let address = NEXT.address();
    if address.is_null() {
        return crate::fail(soft_hca_core::errno::Errno::ENOSYS);
    }
    // SAFETY: the program gives null or an event that the library has allocated, and frees in the call below.
    if let Some(event) = unsafe { event.cast::<Event>().as_ref() } {
        // A request counts for the id that it has come to.
        let is_request = event.event as u32 == event_type::CONNECT_REQUEST;
        client::acknowledges(if is_request { event.listen_id } else { event.id } as u64);
    }
    type Function = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
    // SAFETY: the symbol is this function of the library.
    let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { function(event) }
}
