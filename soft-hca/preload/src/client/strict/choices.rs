//! Which choices are made by the seed.

use std::sync::OnceLock;

use soft_hca_core::config;
use soft_hca_core::put_off::Draws;
use soft_hca_verbs::{Choice, Choices};

/// Those of this program, if it is run strictly; all if nothing else is asked for. Others get the kindest answer.
pub(super) fn choices() -> &'static Choices {
    static CHOICES: OnceLock<Choices> = OnceLock::new();
    CHOICES.get_or_init(|| config::strict().map(|strict| strict.choices).unwrap_or_default())
}

/// Numbers for a choice about the thing before which its object, which has a seed, had so many; none if the kindest
/// answer is wanted.
pub(super) fn draws(seed: u64, choice: Choice, before: u32) -> Option<Draws> {
    choices().has(choice, before).then(|| Draws::new(seed, choice, before.into()))
}
