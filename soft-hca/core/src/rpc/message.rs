//! The messages, which are [postcard](https://postcard.jamesmunns.com)'s bytes.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use soft_hca_fault::FaultReport;
use soft_hca_verbs::NumberSpan;

use crate::arena::Scope;
use crate::device_spec::DeviceSet;
use crate::engine::Async;
use crate::errno::{self, Errno, Refusal, Result};
use crate::rpc::field;
use crate::uapi::verbs::Qpn;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// Nothing but the wish that the fabric lives on; `soft-hca run` holds one.
    Lifeline,
    /// An opened uverbs device, by its index in the fabric.
    Uverbs(u32),
    /// An opened rdma_cm device.
    Cm {
        /// The RDMA devices that its program finds.
        found: DeviceSet,
        /// How events come late, if the program is run strictly.
        late: Option<LateEvents>,
    },
    /// Takes no part in the fabric: asks for listings, tells of faults, pulls cables, removes
    /// devices.
    Observer,
}

/// Events of the connection manager that a file's program can fetch only some time after they were brought forth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateEvents {
    /// The file's seed.
    pub seed: NonZeroU64,
    /// Of each id those with these numbers.
    pub numbers: NumberSpan,
}

/// The first message on every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The connection's purpose.
    pub kind: FileKind,
    /// Address of the process's nonce; 0 if it takes no part in the data path.
    pub nonce_addr: u64,
    /// The nonce, not 0 if `nonce_addr` is not.
    pub nonce: u64,
}

/// A request to the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        #[serde(with = "field::bytes")]
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
    Raise(#[serde(with = "field::event")] Async),
    /// A listing of the fabric, answered by a file with its text.
    List,
    /// Why programs of the fabric do not go on, answered as [`List`](Self::List) by a line for each that waits.
    Why {
        /// A person asks: also of requests in send queues, and of events that nobody waits for.
        is_asked: bool,
    },
    /// The program has done with a completion channel of this file. Not answered.
    CloseChannel(ChannelId),
    /// Record the fabric until this connection ends. Answered with [`Created::Recording`]; `EBUSY` if it is recorded already.
    Record {
        /// Bytes for each process.
        limit: u64,
        /// The events that are traced.
        scope: Scope,
    },
    /// A fault that was asked for has happened; those of devices among its specifications are to happen.
    Fault(#[serde(with = "field::fault")] FaultReport),
    /// A port's cable is pulled, or plugged in again. `ENODEV` without such a device, `EINVAL`
    /// without such a port.
    Port {
        /// Index of the device in the fabric.
        device: u32,
        /// Number of the port.
        port: u8,
        /// It is plugged in.
        is_up: bool,
        /// Nanoseconds until then.
        after_ns: u64,
    },
    /// A device is removed, or comes back. `ENODEV` without such a device.
    Device {
        /// Index of the device in the fabric.
        device: u32,
        /// It comes back.
        is_there: bool,
        /// Nanoseconds until then.
        after_ns: u64,
    },
    /// A tree for `SYSFS_PATH` was written, as of a fabric that has just begun. What has become of
    /// ports and devices since then is to be in it.
    Sysfs,
    /// This process wants a lease of the port to other hosts. Answered with [`Created::PortLease`]; `ENOENT` if
    /// there is none.
    PortLease,
    /// It has a queue pair with a peer on another host in its lease. Answered with the GIDs of the port's
    /// addresses, and a socket for each; `ENOENT` if it has no lease.
    Sockets,
    /// A thread of a strict program is stopped until the fabric's clock says this time: see
    /// [`await_time`](crate::arena::Arena::await_time). Not answered.
    Pause {
        /// In nanoseconds.
        until_ns: u64,
    },
}

/// A completion channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelId {
    /// Index in the arena.
    pub index: u32,
    /// Generation of the entry.
    pub generation: u32,
}

/// An object that a request has created, for the client itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// A recording, by its number.
    Recording(u32),
    /// A lease of the port to other hosts, by its number.
    PortLease(u32),
}

/// The daemon's answer to a request that it has executed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The object that was created, for the client itself.
    pub created: Option<Created>,
    /// Bytes for the program.
    #[serde(with = "field::bytes")]
    pub bytes: Vec<u8>,
}

impl From<Vec<u8>> for Answer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { created: None, bytes }
    }
}

impl From<Created> for Answer {
    fn from(created: Created) -> Self {
        Self { created: Some(created), bytes: Vec::new() }
    }
}

/// The daemon's reply: an answer, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply(pub Result<Answer>);

impl Reply {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        encoded(self)
    }

    /// Reads a message; `EINVAL` for one that is none.
    pub fn decode(message: &[u8]) -> Result<Self> {
        errno::decode(message)
    }
}

/// The error of a daemon that has no descriptor left.
pub const FULL: Errno = Errno::EMFILE.because(Refusal::DaemonFull);

impl Request {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        encoded(self)
    }

    /// Reads a message; `EINVAL` for one that is none.
    pub fn decode(message: &[u8]) -> Result<Self> {
        errno::decode(message)
    }
}

fn encoded(message: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(message).expect("a vector takes any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seed and numbers of a file that comes late.
    const LATE: (u64, u64) = (5, 3 << u32::BITS | 7);

    fn late() -> Option<LateEvents> {
        Some(LateEvents { seed: NonZeroU64::new(LATE.0)?, numbers: NumberSpan::new(3, 7)? })
    }

    #[test]
    fn requests_survive_the_way() {
        let requests = [
            Request::Hello(Hello {
                kind: FileKind::Cm { found: DeviceSet::ALL, late: late() },
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
            Request::PortLease,
            Request::Sockets,
            Request::Pause { until_ns: 1 << 40 },
            Request::List,
            Request::Why { is_asked: true },
            Request::CloseChannel(ChannelId { index: 5, generation: 6 }),
            Request::Record { limit: 1 << 33, scope: Scope::Failures },
            Request::Fault(FaultReport {
                call: "ibv_reg_mr".into(),
                specs: "ibv_reg_mr:errno=EIO".into(),
                outcome: "EIO".into(),
            }),
        ];
        for request in requests {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
    }

    /// A message of the same kind with other parts.
    fn like(request: &Request, parts: &impl Serialize) -> Vec<u8> {
        postcard::to_allocvec(&(request.encode()[0], parts)).unwrap()
    }

    #[test]
    fn only_three_lines_are_a_fault() {
        let [call, specs, outcome] = ["a", "b", "c"].map(String::from);
        let request = Request::Fault(FaultReport { call, specs, outcome });
        assert_eq!(request.encode(), like(&request, &"a\nb\nc"));
        for text in ["", "a", "a\nb", "a\nb\nc\nd", "a\rb\nc\nd", &"\n".repeat(4097)] {
            assert_eq!(Request::decode(&like(&request, &text)), Err(Errno::EINVAL), "{text:?}");
        }
    }

    #[test]
    fn values_that_mean_nothing_are_refused() {
        let kind = FileKind::Cm { found: DeviceSet::ALL, late: late() };
        let hello = Request::Hello(Hello { kind, nonce_addr: 0, nonce: 0 });
        let kick = Request::Kick(Qpn::new(1), 0);
        let raise = Request::Raise(Async::CqOverflow(1));
        let why = Request::Why { is_asked: true };
        let port = Request::Port { device: 0, port: 1, is_up: true, after_ns: 0 };
        let pairs = [
            (like(&hello, &(2u32, u32::MAX, Some(LATE), 0u64, 0u64)), hello.encode()),
            (like(&kick, &(1u32, 0u64)), kick.encode()),
            (like(&raise, &(0u32, 1u32)), raise.encode()),
            (like(&why, &true), why.encode()),
            (like(&port, &(0u32, 1u8, true, 0u64)), port.encode()),
        ];
        pairs.into_iter().for_each(|(message, same)| assert_eq!(message, same));
        let wrong = [
            // A kind of request that there is not, and one of file.
            vec![17],
            like(&hello, &(4u32, 0u64, 0u64)),
            // A seed is not 0, a last number not before the first, a queue pair's number has 24 bits, an event is of one of nine kinds.
            like(&hello, &(2u32, u32::MAX, Some((0u64, LATE.1)), 0u64, 0u64)),
            like(&hello, &(2u32, u32::MAX, Some((5u64, 3u64 << u32::BITS | 2)), 0u64, 0u64)),
            like(&kick, &(1u32 << 24, 0u64)),
            like(&raise, &(9u32, 1u32)),
            // A flag is 0 or 1, a port's number has 8 bits.
            like(&why, &2u8),
            like(&port, &(0u32, 256u16, true, 0u64)),
        ];
        for message in wrong {
            assert_eq!(Request::decode(&message), Err(Errno::EINVAL), "{message:?}");
        }
        for number in [0, -1, i32::MIN] {
            let reply = postcard::to_allocvec(&Err::<(), _>(Errno::new(number))).unwrap();
            assert_eq!(Reply::decode(&reply), Err(Errno::EINVAL), "{number}");
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
            Some(Created::Recording(7)),
            Some(Created::PortLease(3)),
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
        assert_eq!(refused.values().to_string(), ": requested 3, limit 2");
        let Reply(refused) = Reply::decode(&Reply(Err(Errno::EIO)).encode()).unwrap();
        assert_eq!(refused.unwrap_err().reason(), None);
    }

    /// Neither a part of a message nor one with something behind it is taken, whatever lengths are in it.
    #[test]
    fn a_message_is_whole() {
        let request = Request::Command { out_len: 300, bytes: vec![7; 300] }.encode();
        let answer = Answer { created: Some(Created::Recording(300)), bytes: vec![7; 300] };
        let reply = Reply(Ok(answer)).encode();
        for end in 0..request.len() {
            assert_eq!(Request::decode(&request[..end]), Err(Errno::EINVAL), "{end}");
        }
        for end in 0..reply.len() {
            assert_eq!(Reply::decode(&reply[..end]), Err(Errno::EINVAL), "{end}");
        }
        assert_eq!(Request::decode(&[&request[..], &[0]].concat()), Err(Errno::EINVAL));
        assert_eq!(Reply::decode(&[&reply[..], &[0]].concat()), Err(Errno::EINVAL));
        // More bytes than there can be memory for.
        let command = Request::Command { out_len: 0, bytes: Vec::new() };
        assert_eq!(Request::decode(&like(&command, &(0u32, u64::MAX >> 1))), Err(Errno::EINVAL));
    }
}
