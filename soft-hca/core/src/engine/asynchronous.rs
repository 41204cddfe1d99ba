//! Asynchronous events that the data path raises.

/// Declares the events with their numbers and what the index means that each has.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $kind:literal,)*) => {
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

            /// What [`Async::to_words`] has taken apart.
            pub fn from_words(kind: u32, index: u32) -> Option<Self> {
                match kind {
                    $($kind => Some(Self::$name(index)),)*
                    _ => None,
                }
            }
        }
    };
}

events! {
    /// The first completion of a queue was lost. Index of the completion queue.
    CqOverflow = 0,
    /// A shared receive queue has fallen below its limit. Its index.
    SrqLimit = 1,
    /// A send queue in SQD is idle. Number of the queue pair.
    SqDrained = 2,
    /// A queue pair has failed on its own. Its number.
    QpFatal = 3,
    /// A queue pair with a shared receive queue has failed and takes no more receives. Its number.
    LastWqeReached = 4,
    /// A queue pair has failed by a request of its peer that it does not allow. Its number.
    QpRequest = 5,
    /// A queue pair has failed by a request of its peer for memory that it may not use. Its number.
    QpAccess = 6,
    /// A queue pair has migrated to its alternate path. Its number.
    PathMigrated = 7,
    /// A queue pair's peer has migrated to a path that is not its alternate one. Its number.
    PathMigrationFailed = 8,
}
