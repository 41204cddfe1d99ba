//! The meaning of a connection event's status.

use soft_hca_roce::wire::cm::{reason, sidr_status};
use soft_hca_verbs::{CmEvent, ErrorNumber};

/// Statuses of a SIDR_REP message (IBTA 12.11.2), `enum ib_cm_sidr_status`.
const SERVICES: &[(i32, &str)] = &[
    (1, "the service is not supported"),
    (2, "rejected by the service's provider"),
    (3, "no queue pair"),
    (4, "redirected"),
    (5, "unsupported version"),
];

/// The name of a status other than 0: an error, or the reason of a rejection.
pub(crate) fn status_name(event: CmEvent, status: i32) -> Option<&'static str> {
    match event {
        _ if status < 0 => ErrorNumber(status.checked_neg()?).name(),
        CmEvent::REJECTED => reason::text(status.try_into().ok()?),
        CmEvent::UNREACHABLE => {
            SERVICES.iter().find(|(known, _)| *known == status).map(|(_, name)| *name)
        }
        _ => None,
    }
}

/// A status as a number and, where it has one, with its name.
pub(crate) fn status(event: CmEvent, status: i32) -> String {
    match status_name(event, status) {
        Some(name) => format!("{status} ({name})"),
        None => status.to_string(),
    }
}

/// Whether an event says that something has failed. A status of TIMEWAIT_EXIT is a timer's.
pub(crate) fn has_failed(event: CmEvent, status: i32) -> bool {
    status != 0 && event != CmEvent::TIMEWAIT_EXIT
}

/// Why an event has a status, and what usually causes it.
pub(crate) fn explain(event: CmEvent, number: i32) -> (String, &'static str) {
    const TIMED_OUT: i32 = -ErrorNumber::ETIMEDOUT.0;
    const INVALID_SERVICE_ID: i32 = reason::INVALID_SERVICE_ID as i32;
    const CONSUMER_DEFINED: i32 = reason::CONSUMER_DEFINED as i32;
    const STALE_CONNECTION: i32 = reason::STALE_CONNECTION as i32;
    const SIDR_UNSUPPORTED: i32 = sidr_status::UNSUPPORTED as i32;
    let (why, cause) = match (event, number) {
        (CmEvent::ADDR_ERROR, TIMED_OUT) => (
            "nobody has answered for the address",
            "no host has this address, or the host is down or in another network; without --roce \
             only this machine's own addresses are reached",
        ),
        (CmEvent::ADDR_ERROR, _) => {
            ("the address leads nowhere", "a mistyped address, or a machine without a route to it")
        }
        (CmEvent::ROUTE_ERROR, _) => {
            ("there is no route to the address", "the network has changed since it was resolved")
        }
        (CmEvent::REJECTED, INVALID_SERVICE_ID) => (
            "nobody listens at this address and port",
            "the server does not run yet, or listens at another port or port space",
        ),
        (CmEvent::REJECTED, CONSUMER_DEFINED) => (
            "the peer's program has refused the connection",
            "the server calls rdma_reject, or has ended while the request waited",
        ),
        (CmEvent::REJECTED, STALE_CONNECTION) => (
            "the peer still has an old connection of this queue pair",
            "a program that was killed and has come back with the same number: try again",
        ),
        (CmEvent::REJECTED, _) => (
            "the peer's connection manager has refused the connection",
            "the parameters of rdma_connect or rdma_accept do not suit the peer",
        ),
        (CmEvent::UNREACHABLE, ..=0) => (
            "nobody has answered the request",
            "the server does not call rdma_accept, or the network is interrupted",
        ),
        (CmEvent::UNREACHABLE, SIDR_UNSUPPORTED) => (
            "nobody listens for datagrams at this address and port",
            "the server does not run yet, or listens at another port or not with RDMA_PS_UDP",
        ),
        (CmEvent::UNREACHABLE, _) => (
            "the peer's program has refused the request",
            "the server calls rdma_reject, or has ended while the request waited",
        ),
        (CmEvent::CONNECT_ERROR, _) => (
            "the connection could not be completed",
            "the peer has ended or has rejected it at the last moment, or the queue pair could not \
             be brought to RTS",
        ),
        (CmEvent::MULTICAST_ERROR, _) => {
            ("the group could not be joined", "the group's address, or no route to it")
        }
        _ => ("the connection manager says no more", "see the calls before it"),
    };
    let word = if event == CmEvent::REJECTED { "reason" } else { "status" };
    let name = status_name(event, number).map_or(String::new(), |name| format!(", {name}"));
    (format!("{why} ({word} {number}{name})"), cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_names() {
        assert_eq!(status(CmEvent::ADDR_ERROR, -110), "-110 (ETIMEDOUT)");
        assert_eq!(status(CmEvent::REJECTED, 8), "8 (invalid service id)");
        assert_eq!(status(CmEvent::REJECTED, 28), "28 (consumer reject)");
        assert_eq!(status(CmEvent::REJECTED, 99), "99");
        assert_eq!(status(CmEvent::UNREACHABLE, 2), "2 (rejected by the service's provider)");
        assert_eq!(status(CmEvent::UNREACHABLE, i32::MIN), i32::MIN.to_string());
        assert_eq!(
            explain(CmEvent::ADDR_ERROR, -110).0,
            "nobody has answered for the address (status -110, ETIMEDOUT)"
        );
        assert!(!has_failed(CmEvent::TIMEWAIT_EXIT, 4));
        assert!(has_failed(CmEvent::REJECTED, 4));
    }
}
