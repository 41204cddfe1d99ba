//! The names of the rules.

use serde::{Serialize, Serializer};

/// The advice that a rule has for all its findings.
pub(super) struct Advice {
    /// Why it matters elsewhere.
    pub(super) why: &'static str,
    /// The cure.
    pub(super) cure: &'static str,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident = $name:literal,)*) => {
        /// A rule that a program should not break although it went well here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $($(#[$doc])* $rule,)*
        }

        impl Rule {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$rule),*];

            /// The name by which it is suppressed, such as `queue-full`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }
        }
    };
}

rules! {
    /// A send has met no posted receive, and a retry has saved it.
    ReceiveLate = "receive-late",
    /// A send's buffer has changed between the post and the poll of its completion.
    BufferEarly = "buffer-early",
    /// A receive's buffer is gone when its completion is polled.
    ReceiveGone = "receive-gone",
    /// Two posted receives, or a receive and what is sent or read into, share bytes.
    Overlap = "overlap",
    /// As many sends as the queue holds, none of them signaled.
    UnsignaledRun = "unsignaled-run",
    /// More work requests than were asked for.
    QueueFull = "queue-full",
    /// More completions can come than the completion queue was made for.
    CqFull = "cq-full",
    /// More SGEs than were asked for.
    SgeCount = "sge-count",
    /// More inline data than was asked for.
    InlineSize = "inline-size",
    /// An index beyond the table of P_Keys.
    PkeyIndex = "pkey-index",
    /// A queue was armed, and its thread sleeps without a poll after that.
    ArmOrder = "arm-order",
    /// The limit of a shared receive queue that is not armed again after its event.
    SrqLimit = "srq-limit",
    /// The two ends of a connection have different path MTUs.
    PathMtu = "path-mtu",
    /// Objects that are there when the process ends.
    Leaked = "leaked",
    /// Operations of devices access the same bytes, and nothing orders them.
    Race = "race",
    /// More reads or atomics at a time than the peer has resources for.
    ReadDepth = "read-depth",
    /// A program waits for an RDMA write by looking at its memory.
    PolledMemory = "polled-memory",
    /// Timers that never end, where nobody notices a peer that is gone.
    Timers = "timers",
    /// Requests posted to a queue pair whose failure the program has polled.
    AfterError = "after-error",
    /// A request in a state of its queue pair, or of the peer's, that is none for it.
    State = "state",
    /// A region is deregistered while requests use it.
    RkeyStale = "rkey-stale",
    /// Events that were taken and not acknowledged.
    Unacked = "unacked",
    /// A child of `fork` that uses what its parent has opened.
    Fork = "fork",
    /// Extended polls that give completions twice: a bug of the library, which `soft-hca doctor` knows by its release.
    PolledTwice = "polled-twice",
    /// A call that asks for more than the adapter announces whose limits the device has.
    Refused = "refused",
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
