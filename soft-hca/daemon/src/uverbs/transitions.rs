//! Refuses changes of a queue pair's state that are illegal, or come with other attributes than they
//! have to ([`QpState::transition`]).

use soft_hca_core::errno::{Errno, Label, Refusal, Result, Values, ensure};
use soft_hca_core::uapi::verbs::state::SQE;
use soft_hca_core::uapi::verbs::{QpAttrMask as Mask, QpState, QpType, Transition};

/// Refuses a change from one state to another that is illegal, or comes without an attribute that it
/// requires, or with one that does not belong to it.
pub(crate) fn check(qp: u32, from: u32, to: u32, given: Mask) -> Result<()> {
    let transition = QpState(from).transition(QpState(to), QpType(qp));
    let Transition { required, optional } = transition.ok_or(illegal(from, to))?;
    let allowed = required | optional | Mask::STATE | Mask::CUR_STATE;
    let (missing, others) = (required.difference(given), given.difference(allowed));
    ensure(missing.is_empty(), Errno::EINVAL.because(Refusal::AttributeMissing(missing)))?;
    ensure(others.is_empty(), Errno::EINVAL.because(Refusal::AttributeExcess(others)))
}

fn illegal(from: u32, to: u32) -> Errno {
    let refusal = match to {
        SQE => Refusal::TransitionToSqe,
        _ => Refusal::Transition(QpState(to)),
    };
    Errno::EINVAL.because(refusal).with(Values::of([(Label::State, from as u64)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use soft_hca_core::uapi::verbs::qp_type::{RC, UC, UD};
    use soft_hca_core::uapi::verbs::state::{ERR, INIT, RESET, RTR, RTS, SQD};

    fn is_legal(qp: u32, from: u32, to: u32, given: Mask) -> bool {
        check(qp, from, to, given).is_ok()
    }

    #[test]
    fn the_way_up() {
        assert!(is_legal(RC, RESET, INIT, Mask::INIT));
        assert!(is_legal(RC, INIT, INIT, Mask::STATE | Mask::ACCESS_FLAGS));
        assert!(is_legal(RC, INIT, RTR, Mask::RTR_RC));
        assert!(is_legal(RC, RTR, RTS, Mask::RTS_RC));
        assert!(is_legal(UC, INIT, RTR, Mask::RTR_UC));
        assert!(is_legal(UC, RTR, RTS, Mask::RTS));
        assert!(is_legal(UD, RESET, INIT, Mask::INIT_UD));
        assert!(is_legal(UD, INIT, RTR, Mask::STATE));
        assert!(is_legal(UD, RTR, RTS, Mask::RTS));
    }

    #[test]
    fn what_is_required_cannot_be_left_out() {
        for bit in Mask::all().iter().filter(|bit| *bit != Mask::STATE) {
            if Mask::RTR_RC.contains(bit) {
                assert!(!is_legal(RC, INIT, RTR, Mask::RTR_RC.difference(bit)), "{bit:?}");
            }
            if Mask::RTS_RC.contains(bit) {
                assert!(!is_legal(RC, RTR, RTS, Mask::RTS_RC.difference(bit)), "{bit:?}");
            }
        }
    }

    #[test]
    fn what_does_not_belong_is_refused() {
        assert!(!is_legal(UC, INIT, RTR, Mask::RTR_RC));
        assert!(!is_legal(UD, INIT, RTR, Mask::STATE | Mask::AV));
        assert!(!is_legal(RC, RESET, INIT, Mask::INIT | Mask::QKEY));
    }

    #[test]
    fn shortcuts_are_illegal() {
        assert!(!is_legal(RC, RESET, RTR, Mask::from_bits_retain(u32::MAX)));
        assert!(!is_legal(RC, RESET, RTS, Mask::RTS_RC));
        assert!(!is_legal(RC, INIT, RTS, Mask::RTS_RC));
        assert!(!is_legal(RC, ERR, INIT, Mask::INIT));
        assert!(!is_legal(RC, RTR, SQD, Mask::STATE));
    }

    #[test]
    fn the_reason_names_the_attribute() {
        let reason = |from, to, given| {
            let refused = check(RC, from, to, given).unwrap_err();
            refused.reason().unwrap().to_string()
        };
        let without_av = Mask::RTR_RC.difference(Mask::AV);
        assert_eq!(
            reason(INIT, RTR, without_av),
            "AV is missing, which this change of state requires"
        );
        assert_eq!(
            reason(RESET, INIT, Mask::INIT | Mask::QKEY),
            "QKEY does not belong to this change of state"
        );
        let unknown = Mask::STATE | Mask::from_bits_retain(1 << 31);
        assert_eq!(
            reason(RTS, ERR, unknown),
            "an unknown attribute does not belong to this change of state"
        );
        assert_eq!(
            reason(RESET, RTS, Mask::RTS_RC),
            "the queue pair is in no state that may go to RTS"
        );
    }

    #[test]
    fn every_state_can_end() {
        for from in RESET..=ERR {
            assert!(is_legal(RC, from, ERR, Mask::STATE));
            assert!(is_legal(RC, from, RESET, Mask::STATE));
        }
        assert!(is_legal(RC, RTS, SQD, Mask::STATE | Mask::EN_SQD_ASYNC_NOTIFY));
        assert!(is_legal(RC, SQD, RTS, Mask::STATE));
    }
}
