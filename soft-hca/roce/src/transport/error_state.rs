//! How a responder takes its queue pair to the error state.

use super::target::{Refusal, Target};
use serde::{Deserialize, Serialize};

/// Whether a responder has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ErrorState {
    #[default]
    Operational,
    /// It has failed, and the target was busy when it was told.
    Pending(Refusal),
    /// It has failed, and the target knows.
    Entered,
}

impl ErrorState {
    pub(super) fn has_failed(self) -> bool {
        self != ErrorState::Operational
    }

    /// Whether [`ErrorState::retry`] has something to do.
    pub(super) fn is_pending(self) -> bool {
        matches!(self, ErrorState::Pending(_))
    }

    pub(super) fn enter(&mut self, reason: Refusal, target: &mut impl Target) {
        *self = match target.fail(reason) {
            Ok(()) => ErrorState::Entered,
            Err(_) => ErrorState::Pending(reason),
        };
    }

    /// Tells a target that was busy.
    pub(super) fn retry(&mut self, target: &mut impl Target) {
        if let ErrorState::Pending(reason) = *self {
            self.enter(reason, target);
        }
    }
}
