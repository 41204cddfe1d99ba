//! `ibv_reg_mr_iova2`, to which the other functions of libibverbs that register memory lead if a region may have flags
//! that a device is free to ignore.
//!
//! The library takes these flags out unless the kernel's answer to an ioctl has announced them. Here the command comes
//! [without that](crate::client::registering).

use std::ffi::{c_uint, c_void};
use std::ptr;

use soft_hca_core::errno::Errno;
use soft_hca_core::system::Next;

use crate::client;

/// `ibv_reg_mr_iova2`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_reg_mr_iova2(
    pd: *mut c_void,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut c_void {
    static NEXT: Next = Next::of(c"ibv_reg_mr_iova2", c"libibverbs.so.1");
    type Function =
        unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, usize, u64, c_uint) -> *mut c_void;
    let address = NEXT.address();
    if address.is_null() {
        crate::fail(Errno::ENOSYS);
        return ptr::null_mut();
    }
    // SAFETY: the symbol is this function of libibverbs.
    let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
    // SAFETY: the caller keeps this function's contract, which is that of the library's.
    client::registering(access, || unsafe { function(pd, addr, length, iova, access) })
}
