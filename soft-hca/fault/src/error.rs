//! Specifications that cannot be read.

/// Why a specification is none. It names the part that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing has this name.
    #[error(
        "{0:?} is no fault: it is a call such as ibv_post_send, completion, drop, duplicate, \
         corrupt, delay, reorder, port-down, device-removed, list or seed=N"
    )]
    Fault(String),
    /// No call has this name.
    #[error("no call is named {name:?}{like}")]
    Call {
        /// The name.
        name: String,
        /// Those that are like it, as a question.
        like: String,
    },
    /// Nothing would happen to the call.
    #[error(
        "{0} is to fail with errno=NAME, to take longer by delay=DURATION, to kill, or to skip"
    )]
    Effect(&'static str),
    /// Several ends.
    #[error("{0} can have one of errno=NAME, kill and skip")]
    OneEnd(&'static str),
    /// Several changes.
    #[error("completion can have one of status=NAME, bytes=N and damaged")]
    OneChange,
    /// A function that gives more than that all is well.
    #[error(
        "{0} cannot be skipped: what posts work requests, ibv_poll_cq and ibv_req_notify_cq can"
    )]
    CannotSkip(&'static str),
    /// A function without a result.
    #[error(
        "{0} returns nothing and so cannot fail: it can take longer by delay=DURATION, or kill"
    )]
    CannotFail(&'static str),
    /// A function that is about no queue pair.
    #[error("{0} is about no queue pair: it has neither qp=N nor per=qp")]
    NoQueuePair(&'static str),
    /// Nothing has this name.
    #[error("{key}={value} will not do{like}: {wanted}")]
    Name {
        /// Its key.
        key: &'static str,
        /// The name.
        value: String,
        /// The values that are valid.
        wanted: &'static str,
        /// Those that are like it, as a question.
        like: String,
    },
    /// A key that this fault has not.
    #[error("{what} has no {key:?}: it takes {keys}")]
    Key {
        /// The fault.
        what: &'static str,
        /// The key.
        key: String,
        /// Those that it has.
        keys: &'static str,
    },
    /// A part without a key that could not be guessed.
    #[error("{what} cannot take {value:?}: a part is {keys}")]
    Part {
        /// The fault.
        what: &'static str,
        /// The part.
        value: String,
        /// The keys that it has.
        keys: &'static str,
    },
    /// A key is there twice.
    #[error("{key} is there twice in {spec:?}")]
    Twice {
        /// The key.
        key: &'static str,
        /// The whole specification.
        spec: String,
    },
    /// A value will not do.
    #[error("{key}={value} will not do: {wanted}")]
    Value {
        /// Its key.
        key: &'static str,
        /// The value.
        value: String,
        /// The values that are valid.
        wanted: &'static str,
    },
    /// A value has to be there.
    #[error("{what} needs {key}: {wanted}")]
    Missing {
        /// The fault.
        what: &'static str,
        /// The key.
        key: &'static str,
        /// The values that are valid.
        wanted: &'static str,
    },
    /// Two parts that exclude each other.
    #[error("nth=N says which one, so that {0} cannot be there as well")]
    Exclusive(&'static str),
}
