//! `utilities.c` of the OpenFabrics suite, its functions in their order. The last one,
//! `our_print_statistics`, is in each example: what it counts is part of the lesson.
//!
//! Every report is one line on standard error that begins with the program's name.

use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rdma_sys::ibv_wc_status;

use crate::memory::{CArray, OutOfMemory, Zeroable};
use crate::number::{Number, strtol};
use crate::print::Pointer;
pub use crate::verbs::Reported;
use crate::verbs::wc_status_str;
use crate::{errln, errno};

/// Result of a step that reports its own failure.
pub type OurResult<T = ()> = Result<T, Reported>;

/// The exit code of a program that ends so: 0, or 1.
pub fn exit_code(done: OurResult) -> ExitCode {
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A program's options as far as a report needs them.
pub trait Reporting {
    /// Begins every line: the last component of `argv[0]`.
    fn message(&self) -> &str;
    /// Whether the `our_trace_...` functions print (`-t`).
    fn tracing(&self) -> bool;
}

/// Characters that may stand around a value, and may not be all of it.
pub const WHITE_SPACE: [char; 6] = [' ', '\n', '\r', '\t', '\x0b', '\x0c'];

/// `len` zeroed elements; on failure one line, `message: Cannot allocate memory`.
pub fn our_calloc<T: Zeroable>(len: usize, message: &str) -> OurResult<CArray<T>> {
    CArray::calloc(len).map_err(|OutOfMemory| {
        errno::perror(message);
        Reported
    })
}

/// Reads the positive decimal number given to `-switch_char`. White space around it is fine.
pub fn our_scan_switch_ulong(switch_char: char, value: &str, message: &str) -> OurResult<u64> {
    let number @ Number { value: temp, rest, errno } = strtol(value, 10);
    let more = !rest.trim_start_matches(WHITE_SPACE).is_empty();
    if errno != 0 || number.is_missing(value) || more || temp <= 0 {
        return Err(illegal_value(switch_char, value, message));
    }
    Ok(temp.unsigned_abs())
}

/// The same as [`our_scan_switch_ulong`]. In C this one lets negative numbers through, which
/// then count as enormous ones.
pub fn our_scan_switch_uint64(switch_char: char, value: &str, message: &str) -> OurResult<u64> {
    our_scan_switch_ulong(switch_char, value, message)
}

/// [`our_scan_switch_ulong`] for a port number, which ends at 65535. C has no such function and
/// takes any number, of which the last 16 bits count as soon as there is an address to bind or to
/// resolve: 77857 is 12321.
pub fn our_scan_switch_port(switch_char: char, value: &str, message: &str) -> OurResult<u64> {
    let port = our_scan_switch_ulong(switch_char, value, message)?;
    if port > u64::from(u16::MAX) {
        return Err(illegal_value(switch_char, value, message));
    }
    Ok(port)
}

fn illegal_value(switch_char: char, value: &str, message: &str) -> Reported {
    errln!("{message}: illegal numeric value \"{value}\" for option -{switch_char}");
    Reported
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
    let text = wc_status_str(status);
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

/// Processor time that the process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// In its own code (C: `ru_utime`).
    pub user: Duration,
    /// In the kernel (C: `ru_stime`).
    pub kernel: Duration,
}

/// Now. C reads the clock of the day, which may be set while a run lasts; this one cannot.
pub fn our_get_current_time() -> Instant {
    Instant::now()
}

/// The time from `start` to `stop`.
pub fn our_get_elapsed_time(start: Instant, stop: Instant) -> Duration {
    stop.saturating_duration_since(start)
}

/// The process's own processor time, `getrusage(RUSAGE_SELF)`.
pub fn our_get_current_usage() -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure that it is given.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } < 0 {
        errno::perror("getrusage");
    }
    // SAFETY: plain integers, zeroed above or filled by the call.
    let usage = unsafe { usage.assume_init() };
    let duration = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec.unsigned_abs())
            + Duration::from_micros(t.tv_usec.unsigned_abs())
    };
    Usage { user: duration(usage.ru_utime), kernel: duration(usage.ru_stime) }
}

/// Processor time used between two readings. C's `our_compute_usage`, which subtracts one
/// `struct timeval` from another, is the subtraction of a [`Duration`] here; it ends at 0, where C's
/// goes below.
pub fn our_get_elapsed_usage(start: &Usage, stop: &Usage) -> Usage {
    Usage {
        user: stop.user.saturating_sub(start.user),
        kernel: stop.kernel.saturating_sub(start.kernel),
    }
}

/// `part` in percent of `base`; 0 if `base` is 0.
pub fn our_percentage_time(base: Duration, part: Duration) -> f64 {
    if base.is_zero() { 0.0 } else { 100.0 * part.as_secs_f64() / base.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positive_numbers_only() {
        let scan = |value| our_scan_switch_ulong('c', value, "test");
        assert_eq!(scan("12"), Ok(12));
        assert_eq!(scan(" +7 \t\n"), Ok(7));
        for bad in ["", "0", "-5", "12x", "1 2", "0x10", "99999999999999999999"] {
            assert_eq!(scan(bad), Err(Reported), "{bad:?}");
            assert_eq!(our_scan_switch_uint64('c', bad, "test"), Err(Reported), "{bad:?}");
        }
    }

    #[test]
    fn ports_end_at_65535() {
        assert_eq!(our_scan_switch_port('p', "65535", "test"), Ok(65535));
        assert_eq!(our_scan_switch_port('p', "65536", "test"), Err(Reported));
    }

    #[test]
    fn percentages() {
        assert_eq!(our_percentage_time(Duration::ZERO, Duration::from_secs(1)), 0.0);
        let percent = our_percentage_time(Duration::from_secs(4), Duration::from_secs(1));
        assert!((percent - 25.0).abs() < 1e-9);
    }

    #[test]
    fn usage_grows() {
        let start = our_get_current_usage();
        let begun = Instant::now();
        let used = loop {
            let used = our_get_elapsed_usage(&start, &our_get_current_usage());
            if used.user + used.kernel > Duration::ZERO || begun.elapsed().as_secs() > 30 {
                break used;
            }
        };
        assert!(used.user + used.kernel > Duration::ZERO);
    }
}
