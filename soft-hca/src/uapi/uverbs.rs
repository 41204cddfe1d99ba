//! The legacy write ABI of uverbs: `include/uapi/rdma/ib_user_verbs.h`.
//!
//! A command is a header, a payload, and, if it is answered, the address of the answer in the
//! payload's first word. Plain commands count in words of 4 bytes, extended ones in words of 8.

use crate::errno::{Errno, Result};

/// Command numbers. Those of extended commands have [`EXTENDED`] set.
pub mod command {
    use super::EXTENDED;
    named_numbers!("IB_USER_VERBS_CMD_":
        GET_CONTEXT = 0,
        QUERY_DEVICE = 1,
        QUERY_PORT = 2,
        ALLOC_PD = 3,
        DEALLOC_PD = 4,
        CREATE_AH = 5,
        DESTROY_AH = 8,
        REG_MR = 9,
        DEREG_MR = 13,
        ALLOC_MW = 14,
        DEALLOC_MW = 16,
        CREATE_COMP_CHANNEL = 17,
        CREATE_CQ = 18,
        RESIZE_CQ = 19,
        DESTROY_CQ = 20,
        REQ_NOTIFY_CQ = 23,
        CREATE_QP = 24,
        QUERY_QP = 25,
        MODIFY_QP = 26,
        DESTROY_QP = 27,
        POST_SEND = 28,
        ATTACH_MCAST = 30,
        DETACH_MCAST = 31,
        CREATE_SRQ = 32,
        MODIFY_SRQ = 33,
        QUERY_SRQ = 34,
        DESTROY_SRQ = 35,
        EX_QUERY_DEVICE = EXTENDED | 1,
        EX_CREATE_CQ = EXTENDED | 18,
        EX_CREATE_QP = EXTENDED | 24,
    );
}

/// Marks an extended command.
pub const EXTENDED: u32 = 1 << 31;

/// A command, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    /// One of [`command`].
    pub number: u32,
    /// The payload.
    pub payload: &'a [u8],
    /// Where in the whole command the address of the answer lies, if an answer may be wanted.
    pub response_at: usize,
    /// Bytes of room for the answer.
    pub out_len: usize,
}

/// Bytes of a plain command's header.
const HEADER: usize = 8;
/// Bytes of an extended command's two headers.
const EX_HEADER: usize = 24;

fn word<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(Errno::EINVAL)
}

impl<'a> Command<'a> {
    /// Takes apart what was written; `EINVAL` if the lengths in it do not fit.
    pub fn parse(written: &'a [u8]) -> Result<Self> {
        let number = u32::from_le_bytes(word(written, 0)?);
        let in_words = usize::from(u16::from_le_bytes(word(written, 4)?));
        let out_words = usize::from(u16::from_le_bytes(word(written, 6)?));
        if number & !(EXTENDED | 0xff) != 0 {
            return Err(Errno::EINVAL);
        }
        if number & EXTENDED == 0 {
            if in_words * 4 != written.len() {
                return Err(Errno::EINVAL);
            }
            let payload = &written[HEADER..];
            return Ok(Self { number, payload, response_at: HEADER, out_len: out_words * 4 });
        }
        let provider_in = usize::from(u16::from_le_bytes(word(written, 16)?));
        let provider_out = usize::from(u16::from_le_bytes(word(written, 18)?));
        let reserved = u32::from_le_bytes(word(written, 20)?);
        if reserved != 0 || EX_HEADER + 8 * (in_words + provider_in) != written.len() {
            return Err(Errno::EINVAL);
        }
        let out_len = 8 * (out_words + provider_out);
        Ok(Self { number, payload: &written[EX_HEADER..], response_at: 8, out_len })
    }

    /// Byte `at` of the payload.
    pub fn u8(&self, at: usize) -> Result<u8> {
        word::<1>(self.payload, at).map(|byte| byte[0])
    }

    /// The 16-bit word at byte `at` of the payload.
    pub fn u16(&self, at: usize) -> Result<u16> {
        word(self.payload, at).map(u16::from_le_bytes)
    }

    /// The 32-bit word at byte `at` of the payload.
    pub fn u32(&self, at: usize) -> Result<u32> {
        word(self.payload, at).map(u32::from_le_bytes)
    }

    /// The 64-bit word at byte `at` of the payload.
    pub fn u64(&self, at: usize) -> Result<u64> {
        word(self.payload, at).map(u64::from_le_bytes)
    }

    /// The GID at byte `at` of the payload.
    pub fn gid(&self, at: usize) -> Result<[u8; 16]> {
        word(self.payload, at)
    }
}

/// An answer under construction, zeroed.
#[derive(Clone, Debug)]
pub struct Answer(pub Vec<u8>);

impl Answer {
    /// `bytes` zeros.
    pub fn new(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    /// Puts bytes at an offset that the caller knows to fit.
    pub fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Puts a byte.
    pub fn u8(&mut self, at: usize, value: u8) -> &mut Self {
        self.put(at, &[value])
    }

    /// Puts a 16-bit word.
    pub fn u16(&mut self, at: usize, value: u16) -> &mut Self {
        self.put(at, &value.to_le_bytes())
    }

    /// Puts a 32-bit word.
    pub fn u32(&mut self, at: usize, value: u32) -> &mut Self {
        self.put(at, &value.to_le_bytes())
    }

    /// Puts a 64-bit word.
    pub fn u64(&mut self, at: usize, value: u64) -> &mut Self {
        self.put(at, &value.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_command() {
        // CREATE_COMP_CHANNEL, 4 words in, 1 out, response at 0x1122
        let mut bytes = vec![17, 0, 0, 0, 4, 0, 1, 0];
        bytes.extend(0x1122u64.to_le_bytes());
        let command = Command::parse(&bytes).unwrap();
        assert_eq!((command.number, command.out_len, command.response_at), (17, 4, 8));
        assert_eq!(command.u64(0), Ok(0x1122));
        assert_eq!(command.u32(8), Err(Errno::EINVAL));
    }

    #[test]
    fn an_extended_command() {
        let mut bytes = vec![1, 0, 0, 0x80, 1, 0, 38, 0];
        bytes.extend(0x1122u64.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend([0; 8]);
        let command = Command::parse(&bytes).unwrap();
        assert_eq!((command.number, command.out_len), (command::EX_QUERY_DEVICE, 304));
        assert_eq!(command.payload.len(), 8);
    }

    #[test]
    fn lengths_must_fit() {
        assert!(Command::parse(&[]).is_err());
        assert!(Command::parse(&[17, 0, 0, 0, 3, 0, 1, 0]).is_err());
        assert!(Command::parse(&[17, 1, 0, 0, 2, 0, 1, 0]).is_err());
        assert!(Command::parse(&[1, 0, 0, 0x80, 0, 0, 0, 0]).is_err());
    }
}
