//! The rules: what each is called, why it matters, and what to do.

use serde::{Serialize, Serializer};

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident = $name:literal { $why:literal, $cure:literal })*) => {
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

            /// Why it matters elsewhere.
            pub fn why(self) -> &'static str {
                match self {
                    $(Self::$rule => $why,)*
                }
            }

            /// What to do instead.
            pub fn cure(self) -> &'static str {
                match self {
                    $(Self::$rule => $cure,)*
                }
            }
        }
    };
}

rules! {
    /// A send has met no posted receive, and a retry has saved it.
    ReceiveLate = "receive-late" {
        "a send that meets no receive is answered by a NAK (receiver not ready) and sent again later; with \
         the retries that another program or adapter has it fails with IBV_WC_RNR_RETRY_EXC_ERR",
        "post receives before the peer may send, and agree on how many messages may be on their way"
    }
    /// A send's buffer has changed between the post and the poll of its completion.
    BufferEarly = "buffer-early" {
        "an adapter reads a send's buffer when it sends, and once more when a packet was lost: until the \
         completion has been polled that may be at any time, and the peer gets what is there then",
        "write to a send's buffer, or free it, after its completion, or that of a signaled send behind it, \
         was polled"
    }
    /// A receive's buffer is gone when its completion is polled.
    ReceiveGone = "receive-gone" {
        "an adapter writes a message whenever it comes, and until its completion has been polled nobody knows that it \
         has: to memory that is something else's by then, another function's variables for one",
        "free a receive's buffer, or return from the function whose variable it is, after its completion was polled"
    }
    /// Two posted receives, or a receive and what is sent or read into, share bytes.
    Overlap = "overlap" {
        "an adapter writes a message whenever it comes: the bytes are the other request's as well",
        "give each request memory of its own until it has completed"
    }
    /// As many sends as the queue holds, none of them signaled.
    UnsignaledRun = "unsignaled-run" {
        "a send's place in the queue is free again when a signaled send behind it has completed and was \
         polled; without one the queue is full for ever, and ibv_post_send gives ENOMEM",
        "set IBV_SEND_SIGNALED at least once in max_send_wr sends, and poll its completion"
    }
    /// More work requests than were asked for.
    QueueFull = "queue-full" {
        "providers round a queue's size up, each in its own way: with the size that was asked for, posting \
         gives ENOMEM",
        "poll completions before posting more, or ask for a larger queue"
    }
    /// More completions can come than the completion queue was made for.
    CqFull = "cq-full" {
        "a completion queue that overflows is lost with all queue pairs that report to it \
         (IBV_EVENT_CQ_ERR); providers round its size up, each in its own way",
        "make the completion queue as large as all requests that may complete to it at a time"
    }
    /// More elements than were asked for.
    SgeCount = "sge-count" {
        "a work request with more elements than max_send_sge or max_recv_sge says gives EINVAL or ENOMEM \
         where the provider has not rounded up",
        "ask for as many elements as are used"
    }
    /// More inline data than was asked for.
    InlineSize = "inline-size" {
        "inline data that is longer than max_inline_data says gives ENOMEM or EINVAL where the provider has \
         not rounded up",
        "ask for as much inline data as is sent"
    }
    /// An index beyond the table of P_Keys.
    PkeyIndex = "pkey-index" {
        "a RoCE port has one P_Key, at index 0; adapters refuse another index with EINVAL",
        "use pkey_index 0, or look the key up with ibv_query_pkey"
    }
    /// A queue was armed, and its thread sleeps without a poll after that.
    ArmOrder = "arm-order" {
        "a completion that came before ibv_req_notify_cq gives no event, so that the thread may sleep for \
         ever",
        "arm, then poll until nothing is found, and only then wait"
    }
    /// The limit of a shared receive queue that is not armed again after its event.
    SrqLimit = "srq-limit" {
        "the limit of a shared receive queue gives one event: without another call of ibv_modify_srq nobody is told \
         when receives run out again, and peers get a NAK (receiver not ready)",
        "call ibv_modify_srq with IBV_SRQ_LIMIT once more when the event was taken and receives were posted"
    }
    /// The two ends of a connection have different path MTUs.
    PathMtu = "path-mtu" {
        "a message longer than the smaller path_mtu comes in packets of a length that the other side does not \
         expect: it drops them, or refuses them with IBV_WC_REM_INV_REQ_ERR; shorter ones pass",
        "exchange path_mtu when connecting, and set the smaller one at both ends, no larger than active_mtu of \
         their ports"
    }
    /// Objects that are there when the process ends.
    Leaked = "leaked" {
        "in a program that goes on, what is not destroyed keeps memory pinned and uses up the adapter's \
         limits",
        "destroy in the opposite order: queue pair, completion queue, regions, protection domain"
    }
    /// More reads or atomics at a time than the peer has resources for.
    ReadDepth = "read-depth" {
        "max_rd_atomic must not exceed the peer's max_dest_rd_atomic: one read more at a time fails with \
         IBV_WC_REM_INV_REQ_ERR",
        "exchange the limits when connecting, and take the smaller one"
    }
    /// A program waits for an RDMA write by looking at its memory.
    PolledMemory = "polled-memory" {
        "what lies in the memory that an RDMA write is for is undefined until a completion tells of it: bytes may come \
         in any order, and twice, so that those that are looked at are there before the others, or are \
         written once more over what the program has put there",
        "have the peer use a write with immediate data, or send a message behind the write, and wait for the \
         completion; or ask ibv_query_qp_data_in_order whether the device does more than it has to"
    }
    /// Timers that never end, where nobody notices a peer that is gone.
    Timers = "timers" {
        "with timeout 0 or rnr_retry 7 a request to a peer that is gone, or does not receive, never ends",
        "use a timeout of 14 or so and a limited rnr_retry, or have somebody watch the peer"
    }
    /// Requests posted to a queue pair whose failure the program has polled.
    AfterError = "after-error" {
        "a queue pair that has failed executes nothing any more: what is posted is flushed",
        "look at each completion's status, and connect anew after a failure"
    }
    /// A request in a state of its queue pair, or of the peer's, that is none for it.
    State = "state" {
        "adapters do not look at the state when something is posted: the request is lost, or fails, without an \
         error of the call; and a message to a peer that is not in RTR yet is lost, and sent again as long as \
         timeout and retry_cnt allow",
        "post receives from INIT on, and sends in RTS, when the peer has said that it is in RTR"
    }
    /// A region is deregistered while requests use it.
    RkeyStale = "rkey-stale" {
        "requests that begin later fail with IBV_WC_LOC_PROT_ERR, and an adapter may be writing to memory \
         that is the system's again",
        "deregister when all requests that use the region have completed, or the queue pair is destroyed"
    }
    /// Events that were taken and not acknowledged.
    Unacked = "unacked" {
        "an event that is not acknowledged keeps its memory, and what destroys its object waits for that, for \
         ever",
        "call rdma_ack_cm_event, ibv_ack_cq_events or ibv_ack_async_event for each event that was taken"
    }
    /// A child of `fork` that uses what its parent has opened.
    Fork = "fork" {
        "what was opened is the process's that has opened it: a kernel refuses a child's commands, and what it takes from \
         a queue its parent does not see",
        "open the device in the child"
    }
    /// Extended polls that give completions twice: a bug of the library, which `soft-hca doctor` knows by its release.
    PolledTwice = "polled-twice" {
        "in the rxe provider of rdma-core before 55 the poll behind an ibv_next_poll that has emptied the queue finds old \
         completions as if they were new, and misses others; the program is right, and so are other adapters' providers",
        "take rdma-core 55 or newer (soft-hca doctor says which one there is), or poll by ibv_poll_cq"
    }
    /// A call that asks for more than the adapter announces whose limits the device has.
    Refused = "refused" {
        "it is more than the adapter announces, or something that it does not have, as its driver's source \
         says",
        "ask the device for its limits (ibv_query_device), keep to them, and do without what it does not have"
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
