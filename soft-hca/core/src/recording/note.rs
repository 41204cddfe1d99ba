//! What is noted, as bytes: a fixed part for each kind, and behind it what has no fixed length.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The fixed part of a note.
pub trait Body: Sized + FromBytes + IntoBytes + Immutable {
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
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Body for $name {
            const KIND: u32 = $kind;
        }
    )* };
}

notes! {
    /// The process's file begins. Behind it its command line, each word ended by a 0.
    Began = 1 {
        /// Its process id.
        pid: u32,
    }
    /// A process has ended.
    Ended = 2 {
    }
    /// A command. Behind it the command, its answer, and if it is refused what was compared and why.
    Call = 3 {
        /// Nanoseconds that it took.
        duration: u64,
        /// Descriptor of the device file.
        fd: i32,
        /// 0 uverbs, 1 the connection manager.
        device: u32,
        /// 0, or why it was refused.
        errno: i32,
        /// Index in the fabric of the completion queue that was created.
        created: u32,
        /// Bytes of the command.
        request: u32,
        /// Bytes of the answer.
        answer: u32,
    }
    /// A send work request. Behind it its elements.
    SendPosted = 4 {
        /// Of the work request.
        wr_id: u64,
        /// Of an RDMA or atomic operation or a bind.
        address: u64,
        /// Of an atomic operation; for a bind the window's bytes, for a flush its placement types.
        compare_add: u64,
        /// Of compare and swap; for a flush its selectivity level.
        swap: u64,
        /// Of an RDMA or atomic operation.
        rkey: u32,
        /// Number of the queue pair.
        qpn: u32,
        /// `enum ibv_qp_type`.
        qp_type: u32,
        /// `enum ibv_wr_opcode`.
        opcode: u32,
        /// `enum ibv_send_flags`.
        flags: u32,
        /// Immediate data in network byte order, or the rkey to be invalidated.
        imm: u32,
        /// Bytes of inline data, or of a flush.
        length: u32,
        /// Of a datagram.
        dest_qpn: u32,
        /// Of a datagram.
        qkey: u32,
        /// Of a datagram's address handle.
        dgid: [u8; 16],
    }
    /// A receive. Behind it its elements.
    ReceivePosted = 5 {
        /// Of the work request.
        wr_id: u64,
        /// Number of the queue pair or index of the shared queue.
        queue: u32,
        /// 1 if it is a shared receive queue.
        is_shared: u32,
        /// 0 at a call of its process, 1 at a message.
        seen: u32,
    }
    /// A send work request waits. Behind it the cause.
    Stalled = 6 {
        /// Of the work request.
        wr_id: u64,
        /// Number of the queue pair.
        qpn: u32,
    }
    /// A send work request was executed or has failed. Behind it the cause, if it has.
    Executed = 7 {
        /// Of the work request.
        wr_id: u64,
        /// Of the receive work request that it has consumed.
        receive_wr_id: u64,
        /// Number of the queue pair.
        qpn: u32,
        /// `enum ibv_wr_opcode`.
        opcode: u32,
        /// Bytes.
        length: u32,
        /// `enum ibv_wc_status`.
        status: u32,
        /// The receive's queue pair, 0 for none.
        receive_qpn: u32,
        /// The process of that queue pair.
        receive_proc: u32,
    }
    /// A completion. Behind it the cause, if it is an error with one.
    Completion = 8 {
        /// Of the work request.
        wr_id: u64,
        /// Index in the fabric of the completion queue.
        cq: u32,
        /// Number of the queue pair.
        qpn: u32,
        /// `enum ibv_wc_opcode`.
        opcode: u32,
        /// `enum ibv_wc_status`.
        status: u32,
        /// Bytes.
        length: u32,
        /// Immediate data in network byte order, or the rkey to be invalidated.
        imm: u32,
        /// `enum ibv_wc_flags`.
        wc_flags: u32,
        /// 1 if the message has asked for an event.
        is_solicited: u32,
        /// 1 if the queue had no room.
        is_lost: u32,
    }
    /// A thread begins to wait.
    Wait = 9 {
        /// 0 completion channel, 1 event channel, 2 asynchronous events.
        channel: u32,
        /// Its descriptor.
        fd: i32,
    }
    /// It goes on.
    Woken = 10 {
        /// Nanoseconds.
        waited: u64,
        /// As in `Wait`.
        channel: u32,
        /// Its descriptor.
        fd: i32,
        /// 1 if there was an event.
        is_event: u32,
    }
    /// An event of the connection manager: behind it `struct rdma_ucm_event_resp`.
    Connection = 11 {
        /// Its descriptor.
        fd: i32,
    }
    /// An asynchronous event, as [`Async`](crate::engine::Async) has it in words.
    Raised = 12 {
        /// Which event.
        kind: u32,
        /// Of the object.
        index: u32,
    }
    /// An element of a list of memory.
    Element = 13 {
        /// First address.
        address: u64,
        /// Bytes.
        length: u32,
        /// Of the region.
        lkey: u32,
    }
    /// A fault that was asked for, as [`Happened`](soft_hca_fault::Happened) has it.
    Fault = 14 {
    }
    /// A packet of the link.
    Packet = 15 {
        /// This host's queue pair.
        qpn: u32,
        /// The receiver's queue pair.
        dest_qpn: u32,
        /// Its packet sequence number.
        psn: u32,
        /// Bytes of payload.
        length: u32,
        /// The BTH's opcode.
        opcode: u32,
        /// The extended header of an answer as its bytes; `u32::MAX` for none.
        aeth: u32,
        /// 0 for one that was sent.
        is_received: u32,
        /// See `LinkPacket`.
        ignored: u32,
        /// Addresses of sender and receiver as GIDs.
        from: [u8; 16],
        /// See `from`.
        to: [u8; 16],
    }
}
