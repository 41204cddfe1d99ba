//! Reports of the library that has calls fail.

use std::slice;

use crate::client;

use crate::aside;

/// A fault that was asked for has happened: three lines, the call, the specifications, and an error or
/// signal by its name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn soft_hca_fault_happened(text: *const u8, bytes: usize) {
    // SAFETY: the caller gives so many bytes.
    let text = unsafe { slice::from_raw_parts(text, bytes) };
    aside(|| client::fault_happened(text));
}
