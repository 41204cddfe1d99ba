//! The second run of a pair, which the coach starts if the first one is right.

/// The argument that the coach gives a peer in the second run.
const AGAIN: &str = "again";

/// Whether this peer is in the second run, in which it may ask for something else.
pub fn our_is_again() -> bool {
    std::env::args().any(|arg| arg == AGAIN)
}
