//! Findings of `soft-hca doctor`.

/// The state of one thing that has to be in place.
pub(super) enum Finding {
    Good(String),
    /// Some programs will not work, or not as fast.
    Warning {
        what: String,
        fix: String,
    },
    /// Nothing will work.
    Problem {
        what: String,
        fix: String,
    },
}
