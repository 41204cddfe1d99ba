//! `soft-hca explain --vendor-err`: the meaning of an adapter's number, which a log has.

use std::fmt::Write;

use soft_hca_daemon::device::like::{self, Profile};
use soft_hca_verbs::{Failure, number};

use crate::Error;

/// The failure in a sentence, for programmers.
fn sentence(failure: Failure) -> &'static str {
    match failure {
        Failure::LocalBounds => "an SGE of the work request is longer than its memory region",
        Failure::LocalKey => "the lkey of an SGE is no memory region's, or no longer",
        Failure::LocalAccess => {
            "the memory region of an SGE lacks a right: the answer of an RDMA read or an atomic needs \
             IBV_ACCESS_LOCAL_WRITE. It shows when the answer comes"
        }
        Failure::PostedInError => {
            "the work request was posted when the queue pair was in the error state: look for the first completion \
             that failed"
        }
        Failure::RemoteRequest => {
            "the peer refuses the request (NAK: invalid request): its receive is too small, or its queue pair does not \
             take such requests"
        }
        Failure::RemoteAccess => {
            "the peer refuses the access (NAK: remote access error): a wrong rkey, an address out of the region's bounds, \
             or a right that the region or the queue pair does not grant"
        }
        Failure::RnrRetries => {
            "the peer had no receive posted, and rnr_retry attempts did not help: it posts too late or too few"
        }
        Failure::Retries => {
            "no answer came, and retry_cnt attempts did not help: the peer's queue pair is in another state, its process \
             has ended, the path is wrong, or the network is down. The peer gets no error"
        }
    }
}

/// Prints what a number of a profile's adapter means.
///
/// # Errors
/// There is no such profile, the text is no number, or no source tells what it means.
pub fn explain(profile: &str, number: &str) -> Result<(), Error> {
    crate::print(&text(profile, number)?)
}

fn text(profile: &str, given: &str) -> Result<String, Error> {
    let known = |profile: &Profile| !profile.vendor_err.is_empty();
    let profile = like::profile(profile).filter(|profile| known(profile)).ok_or_else(|| {
        let names = like::names().filter(|name| like::profile(name).is_some_and(known));
        let known = names.collect::<Vec<_>>().join(", ");
        Error::NoVendorErrors { name: profile.to_owned(), known }
    })?;
    let unknown = || {
        let numbers = profile.vendor_err.iter().map(|known| format!("{:#04x}", known.value));
        let known = numbers.collect::<Vec<_>>().join(", ");
        Error::UnknownVendorError { number: given.to_owned(), profile: profile.name.clone(), known }
    };
    let wanted = number(&given.to_ascii_lowercase()).ok_or_else(unknown)?;
    let mut out = String::new();
    for known in profile.vendor_err.iter().filter(|known| known.value == wanted) {
        let Profile { name, adapter, .. } = profile;
        let _ = writeln!(out, "vendor_err {wanted:#04x} of {name} ({adapter}): {}", known.status);
        if let Some(said) = &known.name {
            let _ = writeln!(out, "    {said}");
        }
        for failure in &known.failures {
            let _ = writeln!(out, "    {}", sentence(*failure));
        }
        let _ = writeln!(out, "    source: {}", known.source);
    }
    if out.is_empty() { Err(unknown()) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_explained_in_both_notations() {
        let explained = text("mlx5", "0x88").unwrap();
        assert!(explained.contains("IBV_WC_REM_ACCESS_ERR") && explained.contains("rkey"));
        assert_eq!(text("mlx5", "136").unwrap(), explained);
        assert_eq!(text("mlx5", "0X88").unwrap(), explained);
    }

    #[test]
    fn numbers_of_a_drivers_source_have_its_name() {
        let explained = text("irdma", "0x1000b").unwrap();
        assert!(explained.contains("IBV_WC_RNR_RETRY_EXC_ERR\n    FLUSH_RNR_RETRY_EXC_ERR\n"));
        // Send queues and receive queues have their own.
        let explained = text("bnxt_re", "7").unwrap();
        assert!(explained.contains("IBV_WC_REM_ACCESS_ERR\n    BNXT_RE_REQ_ST_REM_ACC\n"));
        assert!(explained.contains("IBV_WC_WR_FLUSH_ERR\n    BNXT_RE_RSP_ST_WR_FLUSH\n"));
        assert!(text("efa", "9").unwrap().contains("EFA_IO_COMP_STATUS_REMOTE_ERROR_BAD_DEST_QPN"));
    }

    #[test]
    fn what_is_not_known_is_said_with_what_is() {
        let said = |profile, number| text(profile, number).unwrap_err().to_string();
        let known = "known are 0x53, 0x52, 0x33, 0xf5, 0x8a, 0x88, 0x87, 0x81";
        assert!(said("mlx5", "0x99").contains(known), "{}", said("mlx5", "0x99"));
        assert!(said("mlx5", "many").contains(known));
        assert!(said("rxe", "0x88").contains("mlx5"));
    }
}
