//! Processes whose polls are on record: those whose calls of `ibv_poll_cq` and its kin pass through the hook.

use std::collections::HashSet;

use crate::entry::{Entry, ReceivePosted, Seen as SeenAt, What};

/// Processes, as in [`Entry::process`].
#[derive(Debug, Default)]
pub(super) struct Seen(HashSet<u32>);

impl Seen {
    /// Whether an entry is the first to show that its process's calls pass through the hook. Polls show it, and
    /// posts by a function of the context, as the hook replaces all functions of a context together. So a program
    /// that never polls is told from one whose polls are not seen.
    pub(super) fn entry(&mut self, entry: &Entry) -> bool {
        let called = || entry.site.as_ref()?.place.as_ref()?.call.as_deref();
        let is_shown = match &entry.what {
            What::Polled(_) => true,
            What::ReceivePosted(ReceivePosted { seen, .. }) => *seen == SeenAt::AtPost,
            What::SendPosted(_) => called() == Some("ibv_post_send"),
            _ => false,
        };
        is_shown && self.0.insert(entry.process)
    }

    /// Whether an entry has shown that of a process.
    pub(super) fn is_seen(&self, process: u32) -> bool {
        self.0.contains(&process)
    }
}
