//! Asynchronous events that the data path raises.

use crate::uapi::verbs::event;

/// The object of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A completion queue: its index.
    Cq(u32),
    /// A shared receive queue: its index.
    Srq(u32),
    /// A queue pair: its number.
    Qp(u32),
}

/// Declares the events: what each is about, its number, and what it is to programs
/// (`enum ib_event_type`).
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($subject:ident) = $kind:literal => $event:ident,)*) => {
        /// An asynchronous event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Async {
            $($(#[$doc])* $name(u32),)*
        }

        impl Async {
            /// Kind and index, as they are sent to the daemon.
            pub fn to_words(self) -> (u32, u32) {
                match self {
                    $(Self::$name(index) => ($kind, index),)*
                }
            }

            /// The event that [`Async::to_words`] has taken apart.
            pub fn from_words(kind: u32, index: u32) -> Option<Self> {
                match kind {
                    $($kind => Some(Self::$name(index)),)*
                    _ => None,
                }
            }

            /// Its object.
            pub fn subject(self) -> Subject {
                match self {
                    $(Self::$name(index) => Subject::$subject(index),)*
                }
            }

            /// The event that programs get (`enum ib_event_type`).
            pub fn event_type(self) -> u32 {
                match self {
                    $(Self::$name(_) => event::$event,)*
                }
            }
        }
    };
}

events! {
    /// The first completion of a queue was lost.
    CqOverflow(Cq) = 0 => CQ_ERR,
    /// A shared receive queue has fallen below its limit.
    SrqLimit(Srq) = 1 => SRQ_LIMIT_REACHED,
    /// A send queue in SQD is idle.
    SqDrained(Qp) = 2 => SQ_DRAINED,
    /// A queue pair has failed on its own.
    QpFatal(Qp) = 3 => QP_FATAL,
    /// A queue pair with a shared receive queue has failed and takes no more receives.
    LastWqeReached(Qp) = 4 => QP_LAST_WQE_REACHED,
    /// A queue pair has failed by a request of its peer that it does not allow.
    QpRequest(Qp) = 5 => QP_REQ_ERR,
    /// A queue pair has failed by a request of its peer for memory that it may not use.
    QpAccess(Qp) = 6 => QP_ACCESS_ERR,
    /// A queue pair has migrated to its alternate path.
    PathMigrated(Qp) = 7 => PATH_MIG,
    /// A queue pair's peer has migrated to a path that is not its alternate one.
    PathMigrationFailed(Qp) = 8 => PATH_MIG_ERR,
}
