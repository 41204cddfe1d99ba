//! Notes for `soft-hca doctor -- CMD`.

use soft_hca_core::config;
use soft_hca_core::notes::{self, Note};

/// Notes something, if `soft-hca doctor` has started this program.
pub(super) fn note(noted: Note) {
    if let Some(dir) = config::fabric_dir_of_program() {
        notes::note(&dir, noted);
    }
}
