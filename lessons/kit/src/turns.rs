//! The coach runs a pair twice, if the first run is right.

/// What the coach gives a peer behind its name in the second run.
const AGAIN: &str = "again";

/// Whether this peer is one of the second run: it may ask for something else then.
pub fn our_is_again() -> bool {
    std::env::args().any(|arg| arg == AGAIN)
}
