//! A network of a test's own.

use std::path::{Path, PathBuf};

use harness::private::{self, Network};

/// The file that names the sources of names in such a network.
pub fn names_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("private-network.nsswitch")
}

/// Whether this host allows one with the device's interface. If not, the test is skipped.
pub fn is_possible() -> bool {
    let is_possible = private::is_possible(Network::WithInterface, &names_file());
    if !is_possible {
        needs::missing("this host allows no network of one's own");
    }
    is_possible
}
