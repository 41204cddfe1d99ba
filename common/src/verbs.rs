//! Verbs and the connection manager in words, and how a verb that failed is reported.

use std::borrow::Cow;
use std::ffi::{CStr, c_int};

use rdma_sys::{ibv_wc_status, ibv_wc_status_str, rdma_cm_event_type, rdma_event_str};

use crate::{errln, errno};

/// A step failed and its message has been given. C: a return value that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported;

/// Outcome of a step whose number counts: an error is what the C function returns, not 0, and the
/// program prints it or ends with it.
///
/// Where nobody looks at the number, a step fails with [`Reported`].
pub type Outcome<T = ()> = Result<T, c_int>;

/// The return value of a verb, 0 if all is well, as an [`Outcome`].
pub fn outcome(ret: c_int) -> Outcome {
    if ret == 0 { Ok(()) } else { Err(ret) }
}

/// [`outcome`] of `verb`, with a failure reported by [`verb_err`].
pub fn verb_ok(verb: &str, ret: c_int) -> Outcome {
    outcome(ret).inspect_err(|&ret| verb_err(verb, ret))
}

/// Reports what a verb that failed returned, and `errno`. C: the macro `VERB_ERR`.
pub fn verb_err(verb: &str, ret: c_int) {
    let errno = errno::get();
    errln!("{verb} returned {ret} errno {errno}");
}

/// The meaning of a work completion's status.
pub fn wc_status_str(status: ibv_wc_status::Type) -> Cow<'static, str> {
    // SAFETY: the library has a constant string for every number.
    unsafe { CStr::from_ptr(ibv_wc_status_str(status)) }.to_string_lossy()
}

/// The name of an event of the connection manager.
pub fn event_str(event: rdma_cm_event_type::Type) -> Cow<'static, str> {
    // SAFETY: the library has a constant string for every number.
    unsafe { CStr::from_ptr(rdma_event_str(event)) }.to_string_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_events_have_names() {
        assert_eq!(wc_status_str(ibv_wc_status::IBV_WC_SUCCESS), "success");
        assert_eq!(
            wc_status_str(ibv_wc_status::IBV_WC_RETRY_EXC_ERR),
            "transport retry counter exceeded"
        );
        assert_eq!(
            event_str(rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED),
            "RDMA_CM_EVENT_ESTABLISHED"
        );
    }

    #[test]
    fn numbers_without_a_name_have_a_text() {
        assert_eq!(wc_status_str(9999), "unknown");
        assert_eq!(event_str(9999), "UNKNOWN EVENT");
    }

    #[test]
    fn only_zero_is_good() {
        assert_eq!(verb_ok("test", 0), Ok(()));
        assert_eq!(verb_ok("test", -1), Err(-1));
        assert_eq!(outcome(22), Err(22));
    }
}
