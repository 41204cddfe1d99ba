//! The messages' bytes: little-endian words, then a tail.

use std::num::NonZeroU64;

use soft_hca_fault::Happened;

use crate::arena::Scope;
use crate::device_spec::DeviceSet;
use crate::engine::Async;
use crate::errno::{Errno, Refusal, Result};
use crate::uapi::verbs::Qpn;

/// What a connection stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Nothing but the wish that the fabric lives on; `soft-hca run` holds one.
    Lifeline,
    /// An opened uverbs device, by its index in the fabric.
    Uverbs(u32),
    /// An opened rdma_cm device.
    Cm {
        /// The RDMA devices that its program finds.
        found: DeviceSet,
        /// The file's seed, if the program is run strictly.
        seed: Option<NonZeroU64>,
    },
    /// Takes no part in the fabric: asks for listings, tells of faults, pulls cables, removes
    /// devices.
    Observer,
}

impl FileKind {
    /// The kind's number, and two numbers of what else there is of it.
    fn to_numbers(self) -> (u32, u32, u64) {
        match self {
            Self::Lifeline => (0, 0, 0),
            Self::Uverbs(device) => (1, device, 0),
            Self::Cm { found, seed } => (2, found.bits(), seed.map_or(0, NonZeroU64::get)),
            Self::Observer => (3, 0, 0),
        }
    }

    fn from_numbers(numbers: (u32, u32, u64)) -> Option<Self> {
        match numbers {
            (0, 0, 0) => Some(Self::Lifeline),
            (1, device, 0) => Some(Self::Uverbs(device)),
            (2, found, seed) => {
                Some(Self::Cm { found: DeviceSet::from_bits(found), seed: NonZeroU64::new(seed) })
            }
            (3, 0, 0) => Some(Self::Observer),
            _ => None,
        }
    }
}

/// The first message on every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the connection stands for.
    pub kind: FileKind,
    /// Where the process keeps its nonce; 0 if it takes no part in the data path.
    pub nonce_addr: u64,
    /// The nonce, not 0 if `nonce_addr` is not.
    pub nonce: u64,
}

/// What a program asks of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Opens a file. For device files answered with [`Created::File`] and the descriptors [arena,
    /// event descriptor].
    Hello(Hello),
    /// A command as the program has written it, with file descriptors in it replaced by the
    /// daemon's numbers. `out_len` is the room for the answer in bytes.
    Command {
        /// Bytes that the answer may have.
        out_len: u32,
        /// All that was written, header included.
        bytes: Vec<u8>,
    },
    /// The next asynchronous event (uverbs) or connection manager event (cm). Answered with its
    /// bytes, or `EAGAIN`.
    PopEvent,
    /// The event descriptor of a completion channel.
    ChannelFd(ChannelId),
    /// Run this queue pair's send queue after so many nanoseconds. Not answered.
    Kick(Qpn, u64),
    /// Look for this asynchronous event. Not answered.
    Raise(Async),
    /// A listing of the fabric, answered by a file with its text.
    List,
    /// Why programs of the fabric do not go on, answered as [`List`](Self::List) by a line for each that waits.
    Why {
        /// A person asks: also of requests in send queues, and of events that nobody waits for.
        is_asked: bool,
    },
    /// The program has done with a completion channel of this file. Not answered.
    CloseChannel(ChannelId),
    /// Record the fabric until this connection ends. Answered with the recording's number; `EBUSY` if it is recorded already.
    Record {
        /// Bytes for each process.
        limit: u64,
        /// What is recorded.
        scope: Scope,
    },
    /// A fault that was asked for has happened; those of devices among its specifications are to.
    Fault(Happened),
    /// A port's cable is pulled, or plugged in again. `ENODEV` without such a device, `EINVAL`
    /// without such a port.
    Port {
        /// Index of the device in the fabric.
        device: u32,
        /// Number of the port.
        port: u8,
        /// It is plugged in.
        is_up: bool,
        /// How much later than now, in nanoseconds.
        after_ns: u64,
    },
    /// A device is removed, or comes back. `ENODEV` without such a device.
    Device {
        /// Index of the device in the fabric.
        device: u32,
        /// It comes back.
        is_there: bool,
        /// How much later than now, in nanoseconds.
        after_ns: u64,
    },
    /// A tree for `SYSFS_PATH` was written, as of a fabric that has just begun. What has become of
    /// ports and devices since then is to be in it.
    Sysfs,
    /// This process wants a share of the port to other hosts. Answered with its number; `ENOENT` if there
    /// is none.
    Share,
    /// It has a queue pair with a peer on another host in its share. Answered with the GIDs of the port's
    /// addresses, and a socket for each; `ENOENT` if it has no share.
    Sockets,
}

/// A completion channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelId {
    /// Index in the arena.
    pub index: u32,
    /// Generation of the entry.
    pub generation: u32,
}

/// What a request has created, for the client itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// A device file.
    File {
        /// Index of the process in the arena.
        process: u32,
        /// The file's number.
        file: u32,
        /// Why the daemon cannot reach the memory of a process that is new to it.
        refusal: Option<Errno>,
    },
    /// A completion channel, whose event descriptor comes along.
    Channel(ChannelId),
    /// A completion queue.
    Cq {
        /// Handle.
        handle: u32,
        /// Index in the arena.
        index: u32,
        /// Generation of the entry.
        generation: u32,
    },
    /// A queue pair.
    Qp {
        /// Handle.
        handle: u32,
        /// Number.
        qpn: Qpn,
    },
}

/// What the daemon answers a request with that it has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What the client itself has to know.
    pub created: Option<Created>,
    /// Bytes for the program.
    pub bytes: Vec<u8>,
}

impl From<Vec<u8>> for Answer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { created: None, bytes }
    }
}

/// The daemon's reply: an answer, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply(pub Result<Answer>);

impl Reply {
    /// The message: 0, what was created, its kind first, and bytes; or an error number, the
    /// check that failed and what it has compared.
    pub fn encode(&self) -> Vec<u8> {
        let answer = match &self.0 {
            Ok(answer) => answer,
            Err(error) => {
                let mut out = error.number().to_le_bytes().to_vec();
                out.extend(error.explanation());
                return out;
            }
        };
        let mut out = Vec::with_capacity(24 + answer.bytes.len());
        let mut words = |words: &[u32]| words.iter().for_each(|w| out.extend(w.to_le_bytes()));
        words(&[0]);
        match answer.created {
            None => words(&[0]),
            Some(Created::File { process, file, refusal }) => {
                words(&[1, process, file, refusal.map_or(0, |error| error.number() as u32)]);
            }
            Some(Created::Channel(ChannelId { index, generation })) => {
                words(&[2, index, generation]);
            }
            Some(Created::Cq { handle, index, generation }) => {
                words(&[3, handle, index, generation]);
            }
            Some(Created::Qp { handle, qpn }) => words(&[4, handle, qpn.into()]),
        }
        out.extend(&answer.bytes);
        out
    }

    /// Reads a message; `EINVAL` for one that is none.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut words = Words(message);
        let error = words.u32()? as i32;
        if error != 0 {
            return Ok(Self(Err(Errno::new(error).explained(words.0)?)));
        }
        let created = match words.u32()? {
            0 => None,
            1 => Some(Created::File {
                process: words.u32()?,
                file: words.u32()?,
                refusal: Some(words.u32()? as i32).filter(|error| *error != 0).map(Errno::new),
            }),
            2 => Some(Created::Channel(words.channel()?)),
            3 => Some(Created::Cq {
                handle: words.u32()?,
                index: words.u32()?,
                generation: words.u32()?,
            }),
            4 => Some(Created::Qp { handle: words.u32()?, qpn: words.qpn()? }),
            _ => return Err(Errno::EINVAL),
        };
        Ok(Self(Ok(Answer { created, bytes: words.0.to_vec() })))
    }
}

/// The error of a daemon that has no descriptor left.
pub const FULL: Errno = Errno::EMFILE.because(Refusal::DaemonFull);

impl Request {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut word = |value: u32| out.extend(value.to_le_bytes());
        match self {
            Self::Hello(hello) => {
                let (kind, what, seed) = hello.kind.to_numbers();
                word(1);
                word(kind);
                word(what);
                out.extend(seed.to_le_bytes());
                out.extend(hello.nonce_addr.to_le_bytes());
                out.extend(hello.nonce.to_le_bytes());
            }
            Self::Command { out_len, bytes } => {
                word(2);
                word(*out_len);
                out.extend(bytes);
            }
            Self::PopEvent => word(3),
            Self::ChannelFd(ChannelId { index, generation }) => {
                word(4);
                word(*index);
                word(*generation);
            }
            Self::Kick(qpn, after_ns) => {
                word(5);
                word((*qpn).into());
                out.extend(after_ns.to_le_bytes());
            }
            Self::Raise(what) => {
                let (kind, index) = what.to_words();
                word(6);
                word(kind);
                word(index);
            }
            Self::List => word(7),
            Self::CloseChannel(ChannelId { index, generation }) => {
                word(8);
                word(*index);
                word(*generation);
            }
            Self::Record { limit, scope } => {
                word(9);
                word(*scope as u32);
                out.extend(limit.to_le_bytes());
            }
            Self::Fault(happened) => {
                word(10);
                out.extend(happened.encode().into_bytes());
            }
            Self::Port { device, port, is_up, after_ns } => {
                word(11);
                word(*device);
                word((*port).into());
                word((*is_up).into());
                out.extend(after_ns.to_le_bytes());
            }
            Self::Device { device, is_there, after_ns } => {
                word(12);
                word(*device);
                word((*is_there).into());
                out.extend(after_ns.to_le_bytes());
            }
            Self::Sysfs => word(13),
            Self::Share => word(14),
            Self::Sockets => word(15),
            Self::Why { is_asked } => {
                word(16);
                word((*is_asked).into());
            }
        }
        out
    }

    /// Reads a message; `EINVAL` for one that is none.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut words = Words(message);
        let request = match words.u32()? {
            1 => {
                let kind = (words.u32()?, words.u32()?, words.u64()?);
                Self::Hello(Hello {
                    kind: FileKind::from_numbers(kind).ok_or(Errno::EINVAL)?,
                    nonce_addr: words.u64()?,
                    nonce: words.u64()?,
                })
            }
            2 => Self::Command {
                out_len: words.u32()?,
                bytes: std::mem::take(&mut words.0).to_vec(),
            },
            3 => Self::PopEvent,
            4 => Self::ChannelFd(words.channel()?),
            5 => Self::Kick(words.qpn()?, words.u64()?),
            6 => {
                let (kind, index) = (words.u32()?, words.u32()?);
                Self::Raise(Async::from_words(kind, index).ok_or(Errno::EINVAL)?)
            }
            7 => Self::List,
            8 => Self::CloseChannel(words.channel()?),
            9 => {
                let scope = Scope::of(words.u32()?).ok_or(Errno::EINVAL)?;
                Self::Record { scope, limit: words.u64()? }
            }
            10 => {
                let text = std::mem::take(&mut words.0);
                Self::Fault(Happened::decode(text).ok_or(Errno::EINVAL)?)
            }
            11 => Self::Port {
                device: words.u32()?,
                port: words.u32()?.try_into().map_err(|_| Errno::EINVAL)?,
                is_up: words.flag()?,
                after_ns: words.u64()?,
            },
            12 => Self::Device {
                device: words.u32()?,
                is_there: words.flag()?,
                after_ns: words.u64()?,
            },
            13 => Self::Sysfs,
            14 => Self::Share,
            15 => Self::Sockets,
            16 => Self::Why { is_asked: words.flag()? },
            _ => return Err(Errno::EINVAL),
        };
        if words.0.is_empty() { Ok(request) } else { Err(Errno::EINVAL) }
    }
}

/// Takes words off the front of a message.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (word, rest) = self.0.split_first_chunk().ok_or(Errno::EINVAL)?;
        self.0 = rest;
        Ok(*word)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Result<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Errno::EINVAL),
        }
    }

    fn qpn(&mut self) -> Result<Qpn> {
        Qpn::try_from(self.u32()?).map_err(|_| Errno::EINVAL)
    }

    fn channel(&mut self) -> Result<ChannelId> {
        Ok(ChannelId { index: self.u32()?, generation: self.u32()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_way() {
        let requests = [
            Request::Hello(Hello {
                kind: FileKind::Cm { found: DeviceSet::ALL, seed: NonZeroU64::new(5) },
                nonce_addr: 1 << 40,
                nonce: 7,
            }),
            Request::Hello(Hello { kind: FileKind::Uverbs(3), nonce_addr: 0, nonce: 0 }),
            Request::Command { out_len: 12, bytes: vec![1, 2, 3] },
            Request::PopEvent,
            Request::ChannelFd(ChannelId { index: 3, generation: 4 }),
            Request::Kick(Qpn::new(0x11), u64::MAX),
            Request::Raise(Async::SrqLimit(2)),
            Request::Port { device: 1, port: 2, is_up: true, after_ns: 5 },
            Request::Device { device: 1, is_there: false, after_ns: 5 },
            Request::Sysfs,
            Request::Share,
            Request::Sockets,
            Request::List,
            Request::Why { is_asked: true },
            Request::CloseChannel(ChannelId { index: 5, generation: 6 }),
            Request::Record { limit: 1 << 33, scope: Scope::Failures },
            Request::Fault(Happened {
                call: "ibv_reg_mr".into(),
                specs: "ibv_reg_mr:errno=EIO".into(),
                outcome: "EIO".into(),
            }),
        ];
        for request in requests {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
    }

    #[test]
    fn only_three_lines_are_a_fault() {
        for text in ["", "a", "a\nb", "a\nb\nc\nd", "a\rb\nc\nd", &"\n".repeat(4097)] {
            let message = [&10u32.to_le_bytes(), text.as_bytes()].concat();
            assert_eq!(Request::decode(&message), Err(Errno::EINVAL), "{text:?}");
        }
    }

    #[test]
    fn replies_survive_the_way() {
        let created = [
            None,
            Some(Created::File { process: 1, file: 2, refusal: None }),
            Some(Created::File { process: 1, file: 2, refusal: Some(Errno::EPERM) }),
            Some(Created::Channel(ChannelId { index: 1, generation: 2 })),
            Some(Created::Cq { handle: 1, index: 2, generation: 3 }),
            Some(Created::Qp { handle: 1, qpn: Qpn::new(2) }),
        ];
        let answers = created.map(|created| Ok(Answer { created, bytes: vec![9; 336] }));
        for reply in answers.into_iter().chain([Err(Errno::EINVAL)]).map(Reply) {
            assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
        }
    }

    #[test]
    fn a_refusal_brings_its_reason() {
        let reply = Reply(Err(Errno::EINVAL.because(Refusal::QueueTooLong).beyond(3, 2)));
        let Reply(refused) = Reply::decode(&reply.encode()).unwrap();
        let refused = refused.unwrap_err();
        assert_eq!(refused.reason(), Some(Refusal::QueueTooLong));
        assert_eq!(refused.values().to_string(), ": asked for 3, limit 2");
        let Reply(refused) = Reply::decode(&Reply(Err(Errno::EIO)).encode()).unwrap();
        assert_eq!(refused.unwrap_err().reason(), None);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for message in [&[][..], &[9, 0, 0, 0], &[3, 0, 0, 0, 1], &[1, 0, 0, 0, 9, 0, 0, 0]] {
            assert_eq!(Request::decode(message), Err(Errno::EINVAL));
        }
        for message in [&[][..], &[0, 0, 0, 0], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 9, 0, 0, 0]] {
            assert_eq!(Reply::decode(message), Err(Errno::EINVAL));
        }
    }
}
