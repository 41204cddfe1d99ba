//! What is noted, as bytes: a fixed part for each kind, and behind it what has no fixed length.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The fixed part of a note.
pub(crate) trait Body: Sized + FromBytes + IntoBytes + Immutable {
    /// The number of this kind.
    const KIND: u32;

    /// The fixed part of a note's bytes and what is behind it.
    fn take(bytes: &[u8]) -> Option<(Self, &[u8])> {
        Self::read_from_prefix(bytes).ok()
    }
}

macro_rules! notes {
    ($($(#[$doc:meta])* $name:ident = $kind:literal {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
    })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
        #[repr(C, packed)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: $type,)*
        }

        impl Body for $name {
            const KIND: u32 = $kind;
        }
    )* };
}

notes! {
    /// The process's file begins. Behind it its command line, each word ended by a 0.
    Began = 1 {
        pid: u32,
    }
    /// A process has ended.
    Ended = 2 {
    }
    /// A command. Behind it the command, its answer, and if it is refused what was compared and why.
    Call = 3 {
        duration: u64,
        /// Descriptor of the device file.
        fd: i32,
        /// 0 uverbs, 1 the connection manager.
        device: u32,
        /// 0, or why it was refused.
        errno: i32,
        /// Index in the fabric of the completion queue that was created.
        created: u32,
        request: u32,
        answer: u32,
    }
    /// A send work request. Behind it its elements.
    SendPosted = 4 {
        wr_id: u64,
        /// Of an RDMA or atomic operation or a bind.
        address: u64,
        /// Of an atomic operation; for a bind the window's bytes, for a flush its placement types.
        compare_add: u64,
        /// Of compare and swap; for a flush its selectivity level.
        swap: u64,
        rkey: u32,
        qpn: u32,
        qp_type: u32,
        opcode: u32,
        flags: u32,
        imm: u32,
        /// Bytes of inline data, or of a flush.
        length: u32,
        /// Of a datagram.
        dest_qpn: u32,
        qkey: u32,
        dgid: [u8; 16],
    }
    /// A receive. Behind it its elements.
    ReceivePosted = 5 {
        wr_id: u64,
        /// Number of the queue pair or index of the shared queue.
        queue: u32,
        is_shared: u32,
        /// 0 at a call of its process, 1 at a message.
        seen: u32,
    }
    /// A send work request waits. Behind it the cause.
    Stalled = 6 {
        wr_id: u64,
        qpn: u32,
    }
    /// A send work request was executed or has failed. Behind it the cause, if it has.
    Executed = 7 {
        wr_id: u64,
        receive_wr_id: u64,
        qpn: u32,
        opcode: u32,
        length: u32,
        status: u32,
        /// The receive's queue pair, 0 for none.
        receive_qpn: u32,
        receive_proc: u32,
    }
    /// A completion. Behind it the cause, if it is an error with one.
    Completion = 8 {
        wr_id: u64,
        cq: u32,
        qpn: u32,
        opcode: u32,
        status: u32,
        length: u32,
        imm: u32,
        wc_flags: u32,
        is_solicited: u32,
        is_lost: u32,
    }
    /// A thread begins to wait.
    Wait = 9 {
        /// 0 completion channel, 1 event channel, 2 asynchronous events.
        channel: u32,
        fd: i32,
    }
    /// It goes on.
    Woken = 10 {
        waited: u64,
        channel: u32,
        fd: i32,
        is_event: u32,
    }
    /// An event of the connection manager: behind it `struct rdma_ucm_event_resp`.
    Connection = 11 {
        fd: i32,
    }
    /// An asynchronous event, as [`Async`](crate::engine::Async) has it in words.
    Raised = 12 {
        kind: u32,
        index: u32,
    }
    /// An element of a list of memory.
    Element = 13 {
        address: u64,
        length: u32,
        lkey: u32,
    }
    /// A fault that was asked for, as [`Happened`](crate::fault::Happened) has it.
    Fault = 14 {
    }
    /// A packet of the link.
    Packet = 15 {
        /// This host's queue pair.
        qpn: u32,
        dest_qpn: u32,
        psn: u32,
        /// Bytes of payload.
        length: u32,
        opcode: u32,
        /// The extended header of an answer as its bytes; `u32::MAX` for none.
        aeth: u32,
        is_received: u32,
        /// See `LinkPacket`.
        ignored: u32,
        /// Addresses of sender and receiver as GIDs.
        from: [u8; 16],
        to: [u8; 16],
    }
}
