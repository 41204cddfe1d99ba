//! Which changes of a queue pair's state are legal, and with which attributes: the table of
//! `ib_modify_qp_is_ok` (`drivers/infiniband/core/verbs.c`), IBTA chapter 10.3.

/// States (`ibv_qp_state`).
pub(crate) mod state {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub(crate) const RESET: u8 = 0;
    pub(crate) const INIT: u8 = 1;
    pub(crate) const RTR: u8 = 2;
    pub(crate) const RTS: u8 = 3;
    pub(crate) const SQD: u8 = 4;
    pub(crate) const SQE: u8 = 5;
    pub(crate) const ERR: u8 = 6;
}

/// Types (`ibv_qp_type`).
pub(crate) mod qp_type {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub(crate) const RC: u8 = 2;
    pub(crate) const UC: u8 = 3;
    pub(crate) const UD: u8 = 4;
}

/// Attributes (`ibv_qp_attr_mask`).
pub(crate) mod mask {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    pub(crate) const STATE: u32 = 1;
    pub(crate) const CUR_STATE: u32 = 1 << 1;
    pub(crate) const EN_SQD_ASYNC_NOTIFY: u32 = 1 << 2;
    pub(crate) const ACCESS_FLAGS: u32 = 1 << 3;
    pub(crate) const PKEY_INDEX: u32 = 1 << 4;
    pub(crate) const PORT: u32 = 1 << 5;
    pub(crate) const QKEY: u32 = 1 << 6;
    pub(crate) const AV: u32 = 1 << 7;
    pub(crate) const PATH_MTU: u32 = 1 << 8;
    pub(crate) const TIMEOUT: u32 = 1 << 9;
    pub(crate) const RETRY_CNT: u32 = 1 << 10;
    pub(crate) const RNR_RETRY: u32 = 1 << 11;
    pub(crate) const RQ_PSN: u32 = 1 << 12;
    pub(crate) const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    pub(crate) const ALT_PATH: u32 = 1 << 14;
    pub(crate) const MIN_RNR_TIMER: u32 = 1 << 15;
    pub(crate) const SQ_PSN: u32 = 1 << 16;
    pub(crate) const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub(crate) const PATH_MIG_STATE: u32 = 1 << 18;
    pub(crate) const DEST_QPN: u32 = 1 << 20;
}

use mask::*;

/// Attributes that must and that may come with a change; `None` if it is illegal.
fn attributes(qp: u8, from: u8, to: u8) -> Option<(u32, u32)> {
    use qp_type::{RC, UD};
    use state::{ERR, INIT, RESET, RTR, RTS, SQD, SQE};
    let is_ud = qp == UD;
    let is_rc = qp == RC;
    // "Running" attributes of connected types, more of them with acknowledgements.
    let connected = CUR_STATE | ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE;
    let running = match qp {
        UD => CUR_STATE | QKEY,
        RC => connected | MIN_RNR_TIMER,
        _ => connected,
    };
    Some(match (from, to) {
        (_, RESET | ERR) => (0, 0),
        (RESET, INIT) if is_ud => (PKEY_INDEX | PORT | QKEY, 0),
        (RESET, INIT) => (PKEY_INDEX | PORT | ACCESS_FLAGS, 0),
        (INIT, INIT) if is_ud => (0, PKEY_INDEX | PORT | QKEY),
        (INIT, INIT) => (0, PKEY_INDEX | PORT | ACCESS_FLAGS),
        (INIT, RTR) if is_ud => (0, PKEY_INDEX | QKEY),
        (INIT, RTR) => {
            let path = AV | PATH_MTU | DEST_QPN | RQ_PSN;
            let acknowledged = if is_rc { MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER } else { 0 };
            (path | acknowledged, ALT_PATH | ACCESS_FLAGS | PKEY_INDEX)
        }
        (RTR, RTS) if is_rc => {
            (TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC, running)
        }
        (RTR, RTS) => (SQ_PSN, running),
        (RTS | SQD | SQE, RTS) => (0, running),
        (RTS, SQD) => (0, EN_SQD_ASYNC_NOTIFY),
        (SQD, SQD) if is_ud => (0, PKEY_INDEX | QKEY),
        (SQD, SQD) => {
            let path = AV | ALT_PATH | ACCESS_FLAGS | PKEY_INDEX | PATH_MIG_STATE;
            let acknowledged = PORT
                | TIMEOUT
                | RETRY_CNT
                | RNR_RETRY
                | MAX_QP_RD_ATOMIC
                | MAX_DEST_RD_ATOMIC
                | MIN_RNR_TIMER;
            (0, path | if is_rc { acknowledged } else { 0 })
        }
        _ => return None,
    })
}

/// Whether a queue pair may go from one state to another with these attributes.
pub(crate) fn is_legal(qp: u8, from: u8, to: u8, given: u32) -> bool {
    let Some((required, optional)) = attributes(qp, from, to) else { return false };
    given & required == required && given & !(required | optional | STATE | CUR_STATE) == 0
}

#[cfg(test)]
mod tests {
    use super::qp_type::{RC, UC, UD};
    use super::state::{ERR, INIT, RESET, RTR, RTS, SQD};
    use super::*;

    const INIT_RC: u32 = STATE | PKEY_INDEX | PORT | ACCESS_FLAGS;
    const RTR_UC: u32 = STATE | AV | PATH_MTU | DEST_QPN | RQ_PSN;
    const RTR_RC: u32 = RTR_UC | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER;
    const RTS_RC: u32 = STATE | TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC;

    #[test]
    fn the_way_up() {
        assert!(is_legal(RC, RESET, INIT, INIT_RC));
        assert!(is_legal(RC, INIT, INIT, STATE | ACCESS_FLAGS));
        assert!(is_legal(RC, INIT, RTR, RTR_RC));
        assert!(is_legal(RC, RTR, RTS, RTS_RC));
        assert!(is_legal(UC, INIT, RTR, RTR_UC));
        assert!(is_legal(UC, RTR, RTS, STATE | SQ_PSN));
        assert!(is_legal(UD, RESET, INIT, STATE | PKEY_INDEX | PORT | QKEY));
        assert!(is_legal(UD, INIT, RTR, STATE));
        assert!(is_legal(UD, RTR, RTS, STATE | SQ_PSN));
    }

    #[test]
    fn what_is_required_cannot_be_left_out() {
        for bit in (0..21).map(|bit| 1 << bit).filter(|bit| *bit != STATE) {
            if RTR_RC & bit != 0 {
                assert!(!is_legal(RC, INIT, RTR, RTR_RC & !bit), "{bit:#x}");
            }
            if RTS_RC & bit != 0 {
                assert!(!is_legal(RC, RTR, RTS, RTS_RC & !bit), "{bit:#x}");
            }
        }
    }

    #[test]
    fn what_does_not_belong_is_refused() {
        assert!(!is_legal(UC, INIT, RTR, RTR_RC));
        assert!(!is_legal(UD, INIT, RTR, STATE | AV));
        assert!(!is_legal(RC, RESET, INIT, INIT_RC | QKEY));
    }

    #[test]
    fn shortcuts_are_illegal() {
        assert!(!is_legal(RC, RESET, RTR, u32::MAX));
        assert!(!is_legal(RC, RESET, RTS, RTS_RC));
        assert!(!is_legal(RC, INIT, RTS, RTS_RC));
        assert!(!is_legal(RC, ERR, INIT, INIT_RC));
        assert!(!is_legal(RC, RTR, SQD, STATE));
    }

    #[test]
    fn every_state_can_end() {
        for from in RESET..=ERR {
            assert!(is_legal(RC, from, ERR, STATE));
            assert!(is_legal(RC, from, RESET, STATE));
        }
        assert!(is_legal(RC, RTS, SQD, STATE | EN_SQD_ASYNC_NOTIFY));
        assert!(is_legal(RC, SQD, RTS, STATE));
    }
}
