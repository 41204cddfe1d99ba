//! Network interfaces.
#![allow(unsafe_code, reason = "if_nametoindex(3)")]

use std::ffi::CString;

/// The number of a network interface.
pub fn interface_number(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a C string that outlives the call.
    let number = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (number != 0).then_some(number)
}
