//! States and types of queue pairs, and the attributes of changes of state.

use bitflags::bitflags;

words! {
    /// Types of queue pairs (`enum ibv_qp_type`).
    QpType, qp_type, "IBV_QPT_":
    RC = 2,
    UC = 3,
    UD = 4,
    RAW_PACKET = 8,
    XRC_SEND = 9,
    XRC_RECV = 10,
    DRIVER = 0xff,
}

words! {
    /// States of queue pairs (`enum ibv_qp_state`).
    QpState, state, "IBV_QPS_":
    RESET = 0,
    INIT = 1,
    RTR = 2,
    RTS = 3,
    SQD = 4,
    SQE = 5,
    ERR = 6,
}

/// Attributes that come with a change of state. [`QpAttrMask::STATE`] and [`QpAttrMask::CUR_STATE`] may
/// always come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// They must come.
    pub required: QpAttrMask,
    /// They may.
    pub optional: QpAttrMask,
}

impl QpState {
    /// The attributes that come with a change to another state for a type of queue pair: the table of
    /// `ib_modify_qp_is_ok` (`drivers/infiniband/core/verbs.c`), IBTA volume 1, chapter 10.3. `None` if
    /// it is illegal. A change to another state does not come without STATE.
    pub fn transition(self, to: Self, qp: QpType) -> Option<Transition> {
        use QpAttrMask as Mask;
        let none = Mask::empty();
        let is_ud = qp == QpType::UD;
        let is_rc = qp == QpType::RC;
        // "Running" attributes of connected types, more of them with acknowledgements.
        let connected =
            Mask::CUR_STATE | Mask::ALT_PATH | Mask::ACCESS_FLAGS | Mask::PATH_MIG_STATE;
        let running = match qp {
            QpType::UD => Mask::CUR_STATE | Mask::QKEY,
            QpType::RC => connected | Mask::MIN_RNR_TIMER,
            _ => connected,
        };
        let (required, optional) = match (self, to) {
            (_, Self::RESET | Self::ERR) => (none, none),
            (Self::RESET, Self::INIT) => (if is_ud { Mask::INIT_UD } else { Mask::INIT }, none),
            (Self::INIT, Self::INIT) => (none, if is_ud { Mask::INIT_UD } else { Mask::INIT }),
            (Self::INIT, Self::RTR) if is_ud => (none, Mask::PKEY_INDEX | Mask::QKEY),
            (Self::INIT, Self::RTR) => (
                if is_rc { Mask::RTR_RC } else { Mask::RTR_UC },
                Mask::ALT_PATH | Mask::ACCESS_FLAGS | Mask::PKEY_INDEX,
            ),
            (Self::RTR, Self::RTS) => (if is_rc { Mask::RTS_RC } else { Mask::RTS }, running),
            (Self::RTS | Self::SQD | Self::SQE, Self::RTS) => (none, running),
            (Self::RTS, Self::SQD) => (none, Mask::EN_SQD_ASYNC_NOTIFY),
            (Self::SQD, Self::SQD) if is_ud => (none, Mask::PKEY_INDEX | Mask::QKEY),
            (Self::SQD, Self::SQD) => {
                let path = Mask::AV
                    | Mask::ALT_PATH
                    | Mask::ACCESS_FLAGS
                    | Mask::PKEY_INDEX
                    | Mask::PATH_MIG_STATE;
                let acknowledged = Mask::PORT
                    | Mask::TIMEOUT
                    | Mask::RETRY_CNT
                    | Mask::RNR_RETRY
                    | Mask::MAX_QP_RD_ATOMIC
                    | Mask::MAX_DEST_RD_ATOMIC
                    | Mask::MIN_RNR_TIMER;
                (none, path | if is_rc { acknowledged } else { none })
            }
            _ => return None,
        };
        Some(Transition { required, optional })
    }
}

flags! {
    /// Attributes of a queue pair that a MODIFY_QP gives (`enum ibv_qp_attr_mask`).
    QpAttrMask, qp_attr, "IBV_QP_":
    STATE = 1,
    CUR_STATE = 1 << 1,
    EN_SQD_ASYNC_NOTIFY = 1 << 2,
    ACCESS_FLAGS = 1 << 3,
    PKEY_INDEX = 1 << 4,
    PORT = 1 << 5,
    QKEY = 1 << 6,
    AV = 1 << 7,
    PATH_MTU = 1 << 8,
    TIMEOUT = 1 << 9,
    RETRY_CNT = 1 << 10,
    RNR_RETRY = 1 << 11,
    RQ_PSN = 1 << 12,
    MAX_QP_RD_ATOMIC = 1 << 13,
    ALT_PATH = 1 << 14,
    MIN_RNR_TIMER = 1 << 15,
    SQ_PSN = 1 << 16,
    MAX_DEST_RD_ATOMIC = 1 << 17,
    PATH_MIG_STATE = 1 << 18,
    CAP = 1 << 19,
    DEST_QPN = 1 << 20,
}

bitflags! {
    /// Attributes of a shared receive queue that a MODIFY_SRQ gives (`enum ibv_srq_attr_mask`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SrqAttrMask: u32 {
        /// `IBV_SRQ_MAX_WR`
        const MAX_WR = 1;
        /// `IBV_SRQ_LIMIT`
        const LIMIT = 2;
    }
}

/// The attributes of the usual changes of state.
impl QpAttrMask {
    const BASIC: Self = Self::STATE.union(Self::PKEY_INDEX).union(Self::PORT);
    /// RESET to INIT, connected types.
    pub const INIT: Self = Self::BASIC.union(Self::ACCESS_FLAGS);
    /// RESET to INIT, datagrams.
    pub const INIT_UD: Self = Self::BASIC.union(Self::QKEY);
    /// INIT to RTR, unreliable connections.
    pub const RTR_UC: Self =
        Self::STATE.union(Self::AV).union(Self::PATH_MTU).union(Self::DEST_QPN).union(Self::RQ_PSN);
    /// INIT to RTR, reliable connections.
    pub const RTR_RC: Self =
        Self::RTR_UC.union(Self::MAX_DEST_RD_ATOMIC).union(Self::MIN_RNR_TIMER);
    /// RTR to RTS, unreliable types.
    pub const RTS: Self = Self::STATE.union(Self::SQ_PSN);
    /// RTR to RTS, reliable connections.
    pub const RTS_RC: Self = Self::RTS
        .union(Self::TIMEOUT)
        .union(Self::RETRY_CNT)
        .union(Self::RNR_RETRY)
        .union(Self::MAX_QP_RD_ATOMIC);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_as_the_kernel_gives_them() {
        let masks = [QpAttrMask::INIT, QpAttrMask::INIT_UD, QpAttrMask::RTR_RC, QpAttrMask::RTS_RC];
        assert_eq!(masks.map(|mask| mask.bits()), [0x39, 0x71, 0x129181, 0x12e01]);
    }

    #[test]
    fn every_state_can_end_and_only_its_neighbours_follow() {
        let follows = |from: QpState| {
            let is_legal = |to: &&QpState| from.transition(**to, QpType::RC).is_some();
            let names = QpState::ALL.iter().filter(is_legal).filter_map(|to| to.short_name());
            names.collect::<Vec<_>>().join(" ")
        };
        let all = QpState::ALL.iter().map(|from| follows(*from)).collect::<Vec<_>>();
        let end = "RESET ERR";
        let expected = [
            "RESET INIT ERR",
            "RESET INIT RTR ERR",
            "RESET RTS ERR",
            "RESET RTS SQD ERR",
            "RESET RTS SQD ERR",
            "RESET RTS ERR",
            end,
        ];
        assert_eq!(all, expected);
    }
}
