//! The rules: what each is called, why it matters, and what to do.

use serde::{Serialize, Serializer};

use super::rules;

/// What a rule says of all that it finds.
pub(super) struct Advice {
    /// Why it matters elsewhere.
    pub(super) why: &'static str,
    /// What to do instead.
    pub(super) cure: &'static str,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident = $name:literal in $module:ident,)*) => {
        /// What a program should not do although it went well here.
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

            fn advice(self) -> &'static Advice {
                match self {
                    $(Self::$rule => &rules::$module::ADVICE,)*
                }
            }
        }
    };
}

rules! {
    /// A send has met no posted receive, and a retry has saved it.
    ReceiveLate = "receive-late" in receive_late,
    /// A send's buffer has changed between the post and the poll of its completion.
    BufferEarly = "buffer-early" in buffer_early,
    /// A receive's buffer is gone when its completion is polled.
    ReceiveGone = "receive-gone" in receive_gone,
    /// Two posted receives, or a receive and what is sent or read into, share bytes.
    Overlap = "overlap" in overlap,
    /// As many sends as the queue holds, none of them signaled.
    UnsignaledRun = "unsignaled-run" in unsignaled_run,
    /// More work requests than were asked for.
    QueueFull = "queue-full" in queue_full,
    /// More completions can come than the completion queue was made for.
    CqFull = "cq-full" in cq_full,
    /// More elements than were asked for.
    SgeCount = "sge-count" in sge_count,
    /// More inline data than was asked for.
    InlineSize = "inline-size" in inline_size,
    /// An index beyond the table of P_Keys.
    PkeyIndex = "pkey-index" in pkey_index,
    /// A queue was armed, and its thread sleeps without a poll after that.
    ArmOrder = "arm-order" in arm_order,
    /// The limit of a shared receive queue that is not armed again after its event.
    SrqLimit = "srq-limit" in srq_limit,
    /// The two ends of a connection have different path MTUs.
    PathMtu = "path-mtu" in path_mtu,
    /// Objects that are there when the process ends.
    Leaked = "leaked" in leaked,
    /// More reads or atomics at a time than the peer has resources for.
    ReadDepth = "read-depth" in read_depth,
    /// A program waits for an RDMA write by looking at its memory.
    PolledMemory = "polled-memory" in polled_memory,
    /// Timers that never end, where nobody notices a peer that is gone.
    Timers = "timers" in timers,
    /// Requests posted to a queue pair whose failure the program has polled.
    AfterError = "after-error" in after_error,
    /// A request in a state of its queue pair, or of the peer's, that is none for it.
    State = "state" in state,
    /// A region is deregistered while requests use it.
    RkeyStale = "rkey-stale" in rkey_stale,
    /// Events that were taken and not acknowledged.
    Unacked = "unacked" in unacked,
    /// A child of `fork` that uses what its parent has opened.
    Fork = "fork" in fork,
    /// Extended polls that give completions twice: a bug of the library, which `soft-hca doctor` knows by its release.
    PolledTwice = "polled-twice" in polled_twice,
    /// A call that asks for more than the adapter announces whose limits the device has.
    Refused = "refused" in refused,
}

impl Rule {
    /// Why it matters elsewhere.
    pub fn why(self) -> &'static str {
        self.advice().why
    }

    /// What to do instead.
    pub fn cure(self) -> &'static str {
        self.advice().cure
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
