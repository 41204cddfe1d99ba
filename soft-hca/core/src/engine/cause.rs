//! Why a work request waits or has failed, in numbers, and these as words that are traced.

use crate::trace::words::{Coded, Words, coded, decode};

coded! {
    /// Whose memory, and what for.
    pub enum MemorySide {
        /// A send work request's own list.
        Local = 0,
        /// The list of a receive.
        Receive = 1,
        /// What a peer's request names.
        Remote = 2,
        /// The region that a window is to be bound to.
        Bound = 3,
    }
}

coded! {
    /// Which check has failed, with what it has compared.
    pub enum Cause {
        /// Nothing has the key.
        Key {
            /// Whose memory.
            side: MemorySide,
            /// The lkey or rkey that was given.
            key: u32,
        } = 1,
        /// An access is not within a region.
        Bounds {
            /// Whose memory.
            side: MemorySide,
            /// The region's lkey or rkey.
            key: u32,
            /// First address and bytes of the access.
            access: (u64, u64),
            /// First address and bytes of the region.
            region: (u64, u64),
        } = 2,
        /// Rights are missing.
        Access {
            /// Whose memory.
            side: MemorySide,
            /// The region's; 0 if the rights are the queue pair's.
            key: u32,
            /// `enum ibv_access_flags`, as the request needs them.
            needed: u32,
            /// And as there are.
            allowed: u32,
        } = 3,
        /// The region belongs to another protection domain.
        Domain {
            /// Whose memory.
            side: MemorySide,
            /// The region's lkey or rkey.
            key: u32,
        } = 4,
        /// A window is not bound to this queue pair.
        Window {
            /// Whose memory.
            side: MemorySide,
            /// The window's rkey.
            key: u32,
        } = 5,
        /// Registered memory is not mapped.
        Unmapped {
            /// Whose memory.
            side: MemorySide,
        } = 6,
        /// A receive is too small.
        Small {
            /// Bytes of the message.
            length: u64,
            /// Bytes of the receive.
            room: u64,
            /// How many of the message are the header that a datagram's receive begins with.
            grh: u64,
        } = 7,
        /// A message is too long.
        Long {
            /// Its bytes.
            length: u64,
            /// Bytes that it may have.
            limit: u64,
        } = 8,
        /// An atomic operation's address is not a multiple of eight.
        Alignment {
            /// The address.
            address: u64,
        } = 9,
        /// The work request makes no sense.
        Malformed(why: MalformedWqe) = 10,
        /// The receiver has no receive work request.
        NotReady {
            /// Nanoseconds for which the request has waited.
            waited: u64,
            /// The receiver's `min_rnr_timer`.
            timer: u32,
            /// The requester's `rnr_retry`.
            retries: u32,
        } = 11,
        /// Nobody answers.
        NoResponse {
            /// Nanoseconds for which the request has waited.
            waited: u64,
            /// The requester's `timeout`.
            timeout: u32,
            /// The requester's `retry_cnt`.
            retries: u32,
            /// What is known of the one that should.
            peer: Peer,
        } = 12,
        /// A completion queue has no room.
        CqFull {
            /// The requester's; the receiver's otherwise.
            is_requester: bool,
            /// Its index in the fabric.
            cq: u32,
        } = 13,
        /// The queue pair was in the error state already.
        Flushed = 14,
        /// The peer on another host has refused it.
        Refused {
            /// `enum ibv_wc_status`: what the requester completes with for that.
            status: u32,
        } = 15,
        /// Nobody takes a datagram.
        Lost(why: Lost) = 16,
        /// It is put off on purpose, see `engine::held`.
        Held {
            /// For how many nanoseconds at least.
            duration: u64,
        } = 17,
    }
}

coded! {
    /// Why nobody takes a datagram, by the queue pair that it is for.
    pub enum Lost {
        /// There is none with this number.
        NoQueuePair(qpn: u32) = 0,
        /// It is no datagram queue pair.
        OtherType(qpn: u32) = 1,
        /// It is in this state.
        State(qpn: u32, state: u32) = 2,
        /// The datagram's Q_Key, and the queue pair's.
        QKey(qpn: u32, sent: u32, its: u32) = 3,
        /// The sender's P_Key, and the queue pair's.
        Partition(qpn: u32, sent: u32, its: u32) = 4,
        /// It has no receive.
        NoReceive(qpn: u32) = 5,
        /// Nobody has the address.
        NoPath = 6,
        /// Its program is run strictly.
        OnPurpose = 7,
    }
}

coded! {
    /// Why a work request makes no sense.
    pub enum MalformedWqe {
        /// Nothing is known but that.
        Any = 0,
        /// Its opcode is none of this type of queue pair.
        Opcode = 1,
        /// It has more elements than its queue pair may.
        Elements = 2,
        /// It is an RDMA read or atomic, and `max_rd_atomic` is 0.
        NoReads = 3,
        /// Its address handle is none of the queue pair's protection domain.
        AddressHandle = 4,
        /// A receive has more elements than its queue may.
        ReceiveElements = 5,
        /// It is an RDMA read or atomic, and the peer's `max_dest_rd_atomic` is 0.
        NoReadsServed = 6,
        /// A bind of what is no window of the queue pair's protection domain.
        NoWindow = 7,
        /// A window of type 2 is bound already, or is to be bound to nothing.
        WindowBound = 9,
        /// A window of type 1, or of a zero-based region, that is to be zero-based.
        WindowBase = 10,
        /// A flush that guarantees nothing, or what is not known.
        Placement = 11,
    }
}

coded! {
    /// What is known of a peer that does not answer.
    pub enum Peer {
        /// It does not exist.
        Gone = 0,
        /// It is connected to this queue pair, which is not ours.
        Elsewhere(qpn: u32) = 1,
        /// It is in this state.
        State(state: u32) = 2,
        /// It expects this packet, and another is sent.
        Psn(expected: u32, sent: u32) = 3,
        /// It is on another host.
        Remote = 4,
        /// Its memory is not reached.
        Unreachable = 5,
        /// The path leads nowhere: nobody has the LID, or a port on it is down.
        NoPath = 6,
        /// Its P_Key, the second one, does not match ours.
        Partition(own: u32, its: u32) = 7,
    }
}

impl Cause {
    /// The words that are traced; none for none.
    pub(crate) fn words(cause: Option<Self>) -> Words {
        let mut words = Words::new();
        if let Some(cause) = cause {
            cause.put(&mut words);
        }
        words
    }

    /// The cause whose words bytes are; none for no bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn causes_are_what_their_words_say() {
        let side = MemorySide::Receive;
        let peers = [
            Peer::Gone,
            Peer::Elsewhere(7),
            Peer::State(1),
            Peer::Psn(0xff_ffff, 3),
            Peer::Remote,
            Peer::Unreachable,
            Peer::NoPath,
            Peer::Partition(0x8001, 0xffff),
        ];
        let silent =
            peers.map(|peer| Cause::NoResponse { waited: 5, timeout: 14, retries: 7, peer });
        let malformed = [
            MalformedWqe::Any,
            MalformedWqe::Opcode,
            MalformedWqe::Elements,
            MalformedWqe::NoReads,
            MalformedWqe::AddressHandle,
            MalformedWqe::ReceiveElements,
            MalformedWqe::NoReadsServed,
            MalformedWqe::NoWindow,
            MalformedWqe::WindowBound,
            MalformedWqe::WindowBase,
            MalformedWqe::Placement,
        ];
        let lost = [
            Lost::NoQueuePair(1),
            Lost::OtherType(2),
            Lost::State(3, 1),
            Lost::QKey(4, 5, 6),
            Lost::Partition(7, 0x8001, 0xffff),
            Lost::NoReceive(8),
            Lost::NoPath,
            Lost::OnPurpose,
        ];
        let others = [
            Cause::Key { side: MemorySide::Local, key: 1 },
            Cause::Bounds { side, key: 2, access: (3, 4), region: (5, u64::MAX) },
            Cause::Access { side: MemorySide::Remote, key: 2, needed: 3, allowed: 4 },
            Cause::Domain { side, key: 2 },
            Cause::Window { side, key: 2 },
            Cause::Unmapped { side },
            Cause::Small { length: 1 << 40, room: 2, grh: 40 },
            Cause::Long { length: 1, limit: 2 },
            Cause::Alignment { address: 9 },
            Cause::NotReady { waited: 1 << 40, timer: 12, retries: 6 },
            Cause::CqFull { is_requester: true, cq: 3 },
            Cause::Flushed,
            Cause::Refused { status: 10 },
            Cause::Held { duration: 1 << 40 },
        ];
        let all = others
            .into_iter()
            .chain(silent)
            .chain(malformed.map(Cause::Malformed))
            .chain(lost.map(Cause::Lost));
        for cause in all {
            let words = Cause::words(Some(cause));
            assert_eq!(Cause::decode(words.as_bytes()), Some(cause));
            assert_eq!(Cause::decode(words[..words.len() - 1].as_bytes()), None);
        }
        assert_eq!(Cause::decode(Cause::words(None).as_bytes()), None);
        assert_eq!(Cause::decode([10u64, 8].as_bytes()), None, "there is no such kind");
    }
}
