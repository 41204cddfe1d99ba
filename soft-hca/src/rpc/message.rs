//! The messages' bytes: little-endian words, then a tail.

use crate::errno::{Errno, Result};

/// What a connection stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Nothing but the wish that the fabric lives on; `soft-hca run` holds one.
    Lifeline,
    /// An opened uverbs device.
    Uverbs,
    /// An opened rdma_cm device.
    Cm,
    /// Asks for listings.
    Observer,
}

impl FileKind {
    const ALL: [Self; 4] = [Self::Lifeline, Self::Uverbs, Self::Cm, Self::Observer];
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
    /// Opens a file. Answered with `extra` = [process index, file id, error number] and, for device
    /// files, the descriptors [arena, event descriptor]. The error number says why the daemon cannot
    /// reach the memory of a process that is new to it; 0 if it can.
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
    /// The event descriptor of a completion channel: index and generation.
    ChannelFd(u32, u32),
    /// Run this queue pair's send queue after so many nanoseconds. Not answered.
    Kick(u32, u64),
    /// Look for an asynchronous event in this object: kind and index. Not answered.
    Raise(u32, u32),
    /// A listing of the fabric, answered by a file with its text.
    List,
    /// The program has done with a completion channel of this file: index and generation. Not
    /// answered.
    CloseChannel(u32, u32),
}

/// The daemon's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// 0, or an error number.
    pub error: i32,
    /// Numbers for the client itself; see the requests.
    pub extra: [u32; 4],
    /// Bytes for the program.
    pub bytes: Vec<u8>,
}

impl Reply {
    /// An answer that refuses.
    pub fn refused(error: Errno) -> Self {
        Self { error: error.0, ..Self::default() }
    }

    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.error.to_le_bytes().to_vec();
        self.extra.iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.extend(&self.bytes);
        out
    }

    /// Reads a message.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut words = Words(message);
        let error = words.u32()? as i32;
        let extra = [words.u32()?, words.u32()?, words.u32()?, words.u32()?];
        Ok(Self { error, extra, bytes: words.0.to_vec() })
    }
}

impl Request {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut word = |value: u32| out.extend(value.to_le_bytes());
        match self {
            Self::Hello(hello) => {
                word(1);
                word(hello.kind as u32);
                out.extend(hello.nonce_addr.to_le_bytes());
                out.extend(hello.nonce.to_le_bytes());
            }
            Self::Command { out_len, bytes } => {
                word(2);
                word(*out_len);
                out.extend(bytes);
            }
            Self::PopEvent => word(3),
            Self::ChannelFd(index, generation) => {
                word(4);
                word(*index);
                word(*generation);
            }
            Self::Kick(qpn, after_ns) => {
                word(5);
                word(*qpn);
                out.extend(after_ns.to_le_bytes());
            }
            Self::Raise(kind, index) => {
                word(6);
                word(*kind);
                word(*index);
            }
            Self::List => word(7),
            Self::CloseChannel(index, generation) => {
                word(8);
                word(*index);
                word(*generation);
            }
        }
        out
    }

    /// Reads a message; `EINVAL` for one that is none.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut words = Words(message);
        let request = match words.u32()? {
            1 => {
                let kind = words.u32()? as usize;
                Self::Hello(Hello {
                    kind: *FileKind::ALL.get(kind).ok_or(Errno::EINVAL)?,
                    nonce_addr: words.u64()?,
                    nonce: words.u64()?,
                })
            }
            2 => Self::Command {
                out_len: words.u32()?,
                bytes: std::mem::take(&mut words.0).to_vec(),
            },
            3 => Self::PopEvent,
            4 => Self::ChannelFd(words.u32()?, words.u32()?),
            5 => Self::Kick(words.u32()?, words.u64()?),
            6 => Self::Raise(words.u32()?, words.u32()?),
            7 => Self::List,
            8 => Self::CloseChannel(words.u32()?, words.u32()?),
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_way() {
        let requests = [
            Request::Hello(Hello { kind: FileKind::Cm, nonce_addr: 1 << 40, nonce: 7 }),
            Request::Command { out_len: 12, bytes: vec![1, 2, 3] },
            Request::PopEvent,
            Request::ChannelFd(3, 4),
            Request::Kick(0x11, u64::MAX),
            Request::Raise(1, 2),
            Request::List,
            Request::CloseChannel(5, 6),
        ];
        for request in requests {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
    }

    #[test]
    fn replies_survive_the_way() {
        let reply = Reply { error: 22, extra: [1, 2, 3, 4], bytes: vec![9; 336] };
        assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for message in [&[][..], &[9, 0, 0, 0], &[3, 0, 0, 0, 1], &[1, 0, 0, 0, 9, 0, 0, 0]] {
            assert_eq!(Request::decode(message), Err(Errno::EINVAL));
        }
    }
}
