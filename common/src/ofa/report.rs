//! One line on standard error for an outcome; the traces print only when they are asked for.

use std::ffi::CStr;

use rdma_sys::{ibv_wc_status, ibv_wc_status_str};

use crate::print::Pointer;
use crate::{errln, errno};

/// What a report needs to know of a program's options.
pub trait Reporting {
    /// Begins every line: the last component of `argv[0]`.
    fn message(&self) -> &str;
    /// Whether the `our_trace_...` functions print (`-t`).
    fn tracing(&self) -> bool;
}

/// Reports a failed call: what it returned (not 0) and `errno`. The text is that of `errno`,
/// or, if that is 0, of the value returned without its sign.
pub fn our_report_error(ret: i32, verb_name: &str, options: &impl Reporting) {
    let errno = errno::get();
    let err = if errno != 0 { errno.saturating_abs() } else { ret.saturating_abs() };
    let text = errno::strerror_r(err).unwrap_or_else(|| format!("Unknown errno {err}"));
    errln!("{}: {verb_name} returned {ret} errno {errno} {text}", options.message());
}

/// Reports `ret` as a work completion status, if it is one; says whether it was.
pub fn our_report_wc_status(ret: i32, verb_name: &str, options: &impl Reporting) -> bool {
    let status = match u32::try_from(ret) {
        Ok(status) if status <= ibv_wc_status::IBV_WC_GENERAL_ERR => status,
        _ => return false,
    };
    // SAFETY: the library returns a static string for every status.
    let text = unsafe { CStr::from_ptr(ibv_wc_status_str(status)) };
    let text = text.to_string_lossy();
    errln!("{}: {verb_name} returned status {ret} {text}", options.message());
    true
}

/// Reports that a step went well.
pub fn our_report_ok(verb_name: &str, options: &impl Reporting) {
    errln!("{}: {verb_name} ok", options.message());
}

/// Reports a pointer.
pub fn our_report_ptr<T>(verb_name: &str, ptr_name: &str, ptr: *const T, options: &impl Reporting) {
    errln!("{}: {verb_name} {ptr_name} {}", options.message(), Pointer(ptr));
}

/// Reports a number.
pub fn our_report_ulong(verb_name: &str, number_name: &str, number: u64, options: &impl Reporting) {
    errln!("{}: {verb_name} {number_name} {number}", options.message());
}

/// Reports a 64-bit number; the same as [`our_report_ulong`] here, where C has two types.
pub fn our_report_uint64(
    verb_name: &str,
    number_name: &str,
    number: u64,
    options: &impl Reporting,
) {
    our_report_ulong(verb_name, number_name, number, options);
}

/// Reports a text, in quotes.
pub fn our_report_string(
    verb_name: &str,
    string_name: &str,
    string: &str,
    options: &impl Reporting,
) {
    errln!("{}: {verb_name} {string_name} \"{string}\"", options.message());
}

/// [`our_report_error`] if tracing is on.
pub fn our_trace_error(ret: i32, verb_name: &str, options: &impl Reporting) {
    if options.tracing() {
        our_report_error(ret, verb_name, options);
    }
}

/// [`our_report_ok`] if tracing is on.
pub fn our_trace_ok(verb_name: &str, options: &impl Reporting) {
    if options.tracing() {
        our_report_ok(verb_name, options);
    }
}

/// [`our_report_ptr`] if tracing is on.
pub fn our_trace_ptr<T>(verb_name: &str, ptr_name: &str, ptr: *const T, options: &impl Reporting) {
    if options.tracing() {
        our_report_ptr(verb_name, ptr_name, ptr, options);
    }
}

/// [`our_report_ulong`] if tracing is on.
pub fn our_trace_ulong(verb_name: &str, number_name: &str, number: u64, options: &impl Reporting) {
    if options.tracing() {
        our_report_ulong(verb_name, number_name, number, options);
    }
}

/// [`our_report_uint64`] if tracing is on.
pub fn our_trace_uint64(verb_name: &str, number_name: &str, number: u64, options: &impl Reporting) {
    if options.tracing() {
        our_report_uint64(verb_name, number_name, number, options);
    }
}

/// [`our_report_string`] if tracing is on.
pub fn our_trace_string(
    verb_name: &str,
    string_name: &str,
    string: &str,
    options: &impl Reporting,
) {
    if options.tracing() {
        our_report_string(verb_name, string_name, string, options);
    }
}
