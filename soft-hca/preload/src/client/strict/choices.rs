//! Which choices are made by the seed.

use std::sync::OnceLock;

use soft_hca_core::config;
use soft_hca_verbs::{Choice, Choices, RequestSpan};

/// Whether choices of a kind are made, if this program is run strictly. Others get the kindest answer.
pub(super) fn makes(choice: Choice) -> bool {
    choices().has(choice)
}

/// These kinds; all if nothing else is asked for.
pub(super) fn choices() -> Choices {
    static CHOICES: OnceLock<Choices> = OnceLock::new();
    *CHOICES.get_or_init(|| config::strict().map(|strict| strict.choices).unwrap_or_default())
}

/// The send work requests about which choices are made; all if nothing else is asked for.
pub(super) fn requests() -> RequestSpan {
    config::strict().map(|strict| strict.requests).unwrap_or_default()
}
