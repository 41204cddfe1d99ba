//! `utilities.c` of the OpenFabrics suite, but for the statistics that each example prints.
//!
//! Every report is one line on standard error that begins with the program's name.

mod clock;
mod report;
mod switches;

pub use clock::{
    Usage, our_get_current_time, our_get_current_usage, our_get_elapsed_usage, our_percentage_time,
};
pub use report::{
    Reporting, our_report_error, our_report_ok, our_report_ptr, our_report_string,
    our_report_uint64, our_report_ulong, our_report_wc_status, our_trace_error, our_trace_ok,
    our_trace_ptr, our_trace_string, our_trace_uint64, our_trace_ulong,
};
pub use switches::{
    WHITE_SPACE, our_calloc, our_scan_switch_port, our_scan_switch_uint64, our_scan_switch_ulong,
};

/// A step failed and its message has been given. C: a return value that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported;

/// Result of a step that reports its own failure.
pub type OurResult<T = ()> = Result<T, Reported>;
