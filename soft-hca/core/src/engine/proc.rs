//! Entries of the table of processes that are the daemon's own threads.

/// The daemon's index in the table of processes.
pub const DAEMON: usize = 0;
/// The index of the daemon's thread that serves the link to other hosts.
pub const LINK: usize = 1;

/// Whether an index is that of a thread of the daemon.
pub(super) fn is_daemon(proc: usize) -> bool {
    matches!(proc, DAEMON | LINK)
}
