//! The ioctl ABI of uverbs, `include/uapi/rdma/ib_user_ioctl_cmds.h`: which error refuses it.
//!
//! rdma-core's libraries try most methods by `ioctl` first and, told by ENOTTY that the kernel has no
//! such thing, send the command of [`uverbs`](super::uverbs) that does the same. The methods that
//! have no such command hand the error to the program.

use crate::errno::Errno;

/// `RDMA_VERBS_IOCTL`
pub const RDMA_VERBS_IOCTL: u64 = 0xc018_1b01;

/// Objects, and those of their methods for which the libraries have another way. For the two that
/// read the table of GIDs that is sysfs.
const HAVE_ANOTHER_WAY: [(u16, &[u16]); 12] = [
    (0, &[0, 2, 3, 5, 6]), // DEVICE: INVOKE_WRITE, QUERY_PORT, GET_CONTEXT, QUERY_GID_TABLE, _ENTRY
    (1, &[0]),             // PD: DESTROY
    (3, &[0, 1]),          // CQ: CREATE, DESTROY
    (4, &[0, 1]),          // QP: CREATE, DESTROY
    (5, &[0, 1]),          // SRQ: CREATE, DESTROY
    (6, &[0]),             // AH: DESTROY
    (7, &[1, 5]),          // MR: DESTROY, REG
    (8, &[0]),             // MW: DESTROY
    (9, &[0]),             // FLOW: DESTROY
    (10, &[0]),            // XRCD: DESTROY
    (11, &[0]),            // RWQ_IND_TBL: DESTROY
    (12, &[0, 1]),         // WQ: CREATE, DESTROY
];

/// Bytes of a request's header, `ib_uverbs_ioctl_hdr`, that say what is asked for: length, object,
/// method, number of attributes.
pub const HEADER: usize = 8;

/// The error that refuses a request.
pub fn refusal(header: [u8; HEADER]) -> Errno {
    let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let (object, method) = (word(2), word(4));
    let has_another_way = HAVE_ANOTHER_WAY
        .iter()
        .any(|(known, methods)| *known == object && methods.contains(&method));
    if has_another_way { Errno::ENOTTY } else { Errno::EOPNOTSUPP }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(object: u16, method: u16) -> Errno {
        let words = [24, object, method, 0].map(u16::to_le_bytes);
        refusal(words.concat().try_into().unwrap())
    }

    #[test]
    fn what_has_a_command_is_sent_as_one() {
        for (object, method) in [(0, 0), (0, 3), (3, 0), (4, 1), (7, 1), (12, 1)] {
            assert_eq!(refused(object, method), Errno::ENOTTY, "{object} {method}");
        }
    }

    #[test]
    fn what_has_none_is_not_supported() {
        // QUERY_CONTEXT, QUERY_PORT_SPEED; ADVISE_MR, QUERY_MR, REG_DMABUF_MR
        for (object, method) in [(0, 4), (0, 7), (7, 2), (7, 3), (7, 4)] {
            assert_eq!(refused(object, method), Errno::EOPNOTSUPP, "{object} {method}");
        }
        // DM_ALLOC, COUNTERS_CREATE, ASYNC_EVENT_ALLOC, what nobody knows, a driver's own
        for (object, method) in [(14, 0), (15, 0), (16, 0), (99, 0), (3, 7), (4, 1 << 12)] {
            assert_eq!(refused(object, method), Errno::EOPNOTSUPP, "{object} {method}");
        }
    }
}
