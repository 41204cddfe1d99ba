//! The beginning of libnl, of which libibverbs is a user: what it gives to the C library MemorySanitizer would take for
//! bytes that were never written, and end the program before its `main`.

use std::ffi::{c_int, c_void};
use std::mem;

use soft_hca_core::system::Next;

use crate::client;

static READ_CLASSID_FILE: Next = Next::new(c"rtnl_tc_read_classid_file");

/// `rtnl_tc_read_classid_file`, the first function that the library calls when it is loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtnl_tc_read_classid_file() -> c_int {
    client::libraries_begin();
    let address = READ_CLASSID_FILE.address();
    if address.is_null() {
        return 0;
    }
    type Function = unsafe extern "C" fn() -> c_int;
    // SAFETY: the symbol is this function of libnl, which has no arguments.
    let function = unsafe { mem::transmute::<*mut c_void, Function>(address) };
    // SAFETY: the caller is the library that has it.
    unsafe { function() }
}
