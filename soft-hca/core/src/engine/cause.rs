//! Why a work request waits or has failed, in numbers.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Whose memory, and what for: the discriminants are what is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
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

/// Which check has failed, with what it has compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing has the key.
    Key {
        /// Whose memory.
        side: MemorySide,
        /// The lkey or rkey that was given.
        key: u32,
    },
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
    },
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
    },
    /// The region belongs to another protection domain.
    Domain {
        /// Whose memory.
        side: MemorySide,
        /// The region's lkey or rkey.
        key: u32,
    },
    /// A window is not bound to this queue pair.
    Window {
        /// Whose memory.
        side: MemorySide,
        /// The window's rkey.
        key: u32,
    },
    /// Registered memory is not mapped.
    Unmapped {
        /// Whose memory.
        side: MemorySide,
    },
    /// A receive is too small.
    Small {
        /// Bytes of the message.
        length: u64,
        /// Bytes of the receive.
        room: u64,
        /// So many of the message are the header that a datagram's receive begins with.
        grh: u64,
    },
    /// A message is too long.
    Long {
        /// Its bytes.
        length: u64,
        /// Bytes that it may have.
        limit: u64,
    },
    /// An atomic operation's address is not a multiple of eight.
    Alignment {
        /// The address.
        address: u64,
    },
    /// The work request makes no sense.
    Malformed(MalformedWqe),
    /// The receiver has no receive work request.
    NotReady {
        /// Nanoseconds for which the request has waited.
        waited: u64,
        /// The receiver's `min_rnr_timer`.
        timer: u32,
        /// The requester's `rnr_retry`.
        retries: u32,
    },
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
    },
    /// A completion queue has no room.
    CqFull {
        /// The requester's; the receiver's otherwise.
        is_requester: bool,
        /// Its index in the fabric.
        cq: u32,
    },
    /// The queue pair was in the error state already.
    Flushed,
    /// The peer on another host has refused it.
    Refused {
        /// `enum ibv_wc_status`: what the requester completes with for that.
        status: u32,
    },
}

/// Why a work request makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
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

/// What is known of a peer that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It does not exist.
    Gone,
    /// It is connected to this queue pair, which is not ours.
    Elsewhere(u32),
    /// It is in this state.
    State(u32),
    /// It expects this packet, and another is sent.
    Psn(u32, u32),
    /// It is on another host.
    Remote,
    /// Its memory is not reached.
    Unreachable,
}

/// As it is noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Words {
    kind: u32,
    side: u32,
    key: u32,
    other: u32,
    values: [u64; 4],
}

impl MemorySide {
    fn from_word(word: u32) -> Option<Self> {
        [Self::Local, Self::Receive, Self::Remote, Self::Bound].get(word as usize).copied()
    }
}

impl MalformedWqe {
    fn from_word(word: u32) -> Self {
        let all = [Self::Opcode, Self::Elements, Self::NoReads, Self::AddressHandle];
        let known = all.into_iter().chain([Self::ReceiveElements, Self::NoReadsServed]);
        let windows = [Self::NoWindow, Self::WindowBound, Self::WindowBase];
        known
            .chain(windows)
            .chain([Self::Placement])
            .find(|known| *known as u32 == word)
            .unwrap_or(Self::Any)
    }
}

impl Peer {
    fn to_words(self) -> (u32, u64) {
        match self {
            Self::Gone => (0, 0),
            Self::Elsewhere(qpn) => (1, qpn.into()),
            Self::State(state) => (2, state.into()),
            Self::Psn(expected, sent) => (3, u64::from(expected) << 32 | u64::from(sent)),
            Self::Remote => (4, 0),
            Self::Unreachable => (5, 0),
        }
    }

    fn from_words(kind: u32, value: u64) -> Option<Self> {
        Some(match kind {
            0 => Self::Gone,
            1 => Self::Elsewhere(value as u32),
            2 => Self::State(value as u32),
            3 => Self::Psn((value >> 32) as u32, value as u32),
            4 => Self::Remote,
            5 => Self::Unreachable,
            _ => return None,
        })
    }
}

impl Cause {
    /// What is noted.
    pub(crate) fn to_words(self) -> Words {
        let of = |kind, side, key, other, values| Words { kind, side, key, other, values };
        let at = |kind, side: MemorySide, key| of(kind, side as u32, key, 0, [0; 4]);
        match self {
            Self::Key { side, key } => at(1, side, key),
            Self::Bounds { side, key, access, region } => {
                of(2, side as u32, key, 0, [access.0, access.1, region.0, region.1])
            }
            Self::Access { side, key, needed, allowed } => {
                of(3, side as u32, key, 0, [needed.into(), allowed.into(), 0, 0])
            }
            Self::Domain { side, key } => at(4, side, key),
            Self::Window { side, key } => at(5, side, key),
            Self::Unmapped { side } => at(6, side, 0),
            Self::Small { length, room, grh } => of(7, 0, 0, 0, [length, room, grh, 0]),
            Self::Long { length, limit } => of(8, 0, 0, 0, [length, limit, 0, 0]),
            Self::Alignment { address } => of(9, 0, 0, 0, [address, 0, 0, 0]),
            Self::Malformed(why) => of(10, 0, 0, why as u32, [0; 4]),
            Self::NotReady { waited, timer, retries } => {
                of(11, 0, 0, 0, [waited, timer.into(), retries.into(), 0])
            }
            Self::NoResponse { waited, timeout, retries, peer } => {
                let (peer, value) = peer.to_words();
                of(12, 0, 0, peer, [waited, timeout.into(), retries.into(), value])
            }
            Self::CqFull { is_requester, cq } => of(13, 0, cq, is_requester.into(), [0; 4]),
            Self::Flushed => of(14, 0, 0, 0, [0; 4]),
            Self::Refused { status } => of(15, 0, 0, status, [0; 4]),
        }
    }

    /// What [`Cause::to_words`] has taken apart.
    pub fn from_words(words: &Words) -> Option<Self> {
        let Words { kind, side, key, other, values: [first, second, third, fourth] } = *words;
        let side = MemorySide::from_word(side)?;
        Some(match kind {
            1 => Self::Key { side, key },
            2 => Self::Bounds { side, key, access: (first, second), region: (third, fourth) },
            3 => Self::Access { side, key, needed: first as u32, allowed: second as u32 },
            4 => Self::Domain { side, key },
            5 => Self::Window { side, key },
            6 => Self::Unmapped { side },
            7 => Self::Small { length: first, room: second, grh: third },
            8 => Self::Long { length: first, limit: second },
            9 => Self::Alignment { address: first },
            10 => Self::Malformed(MalformedWqe::from_word(other)),
            11 => Self::NotReady { waited: first, timer: second as u32, retries: third as u32 },
            12 => Self::NoResponse {
                waited: first,
                timeout: second as u32,
                retries: third as u32,
                peer: Peer::from_words(other, fourth)?,
            },
            13 => Self::CqFull { is_requester: other != 0, cq: key },
            14 => Self::Flushed,
            15 => Self::Refused { status: other },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_survive_the_way() {
        let side = MemorySide::Receive;
        let peers = [
            Peer::Gone,
            Peer::Elsewhere(7),
            Peer::State(1),
            Peer::Psn(0xff_ffff, 3),
            Peer::Remote,
            Peer::Unreachable,
        ];
        let silent =
            peers.map(|peer| Cause::NoResponse { waited: 5, timeout: 14, retries: 7, peer });
        let senseless = [
            MalformedWqe::Any,
            MalformedWqe::Opcode,
            MalformedWqe::Elements,
            MalformedWqe::NoReads,
            MalformedWqe::AddressHandle,
            MalformedWqe::ReceiveElements,
            MalformedWqe::NoReadsServed,
            MalformedWqe::Placement,
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
        ];
        let all = others.into_iter().chain(silent).chain(senseless.map(Cause::Malformed));
        for cause in all {
            assert_eq!(Cause::from_words(&cause.to_words()), Some(cause));
        }
        assert_eq!(Cause::from_words(&Words::default()), None);
    }
}
