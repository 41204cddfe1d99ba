//! The legacy write ABI of uverbs: `include/uapi/rdma/ib_user_verbs.h`.
//!
//! A command is a header, a payload, and, if it is answered, the address of the answer in the
//! payload's first word. Plain commands count in words of 4 bytes, extended ones in words of 8.

pub mod answer;
pub mod request;

use zerocopy::FromBytes;

use crate::errno::{Errno, Refusal, Result, ensure};
use crate::uapi::read_request;
use request::{CmdHdr, ExCmdHdr, Request};

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
    /// Bytes of room for the answer.
    pub out_len: usize,
    /// The part that begins with the address of the answer.
    response: &'a [u8],
}

impl<'a> Command<'a> {
    /// Takes apart what was written; `EINVAL` if the lengths in it do not fit.
    pub fn parse(written: &'a [u8]) -> Result<Self> {
        const TOO_SHORT: Errno = Errno::EINVAL.because(Refusal::ShortHeader);
        const OTHER_LENGTH: Errno = Errno::EINVAL.because(Refusal::CommandLength);
        let (header, behind) = CmdHdr::read_from_prefix(written).map_err(|_| TOO_SHORT)?;
        let CmdHdr { command: number, in_words, out_words } = header;
        let (in_words, out_words) = (usize::from(in_words), usize::from(out_words));
        let is_known = number & !(EXTENDED | 0xff) == 0;
        ensure(is_known, Errno::EINVAL.because(Refusal::NoSuchCommand))?;
        if number & EXTENDED == 0 {
            ensure(in_words * 4 == written.len(), OTHER_LENGTH)?;
            return Ok(Self { number, payload: behind, out_len: out_words * 4, response: behind });
        }
        let (ex, payload) = ExCmdHdr::read_from_prefix(behind).map_err(|_| TOO_SHORT)?;
        let (provider_in, provider_out) =
            (usize::from(ex.provider_in_words), usize::from(ex.provider_out_words));
        let is_reserved_empty = ex.cmd_hdr_reserved == 0;
        ensure(is_reserved_empty, Errno::EINVAL.because(Refusal::HeaderReserved))?;
        ensure(8 * (in_words + provider_in) == payload.len(), OTHER_LENGTH)?;
        let out_len = 8 * (out_words + provider_out);
        Ok(Self { number, payload, out_len, response: behind })
    }

    /// Where in the program the answer is to be written; `EINVAL` if the command is too short to
    /// say.
    pub fn response(&self) -> Result<u64> {
        let address = self.response.first_chunk().copied().map(u64::from_ne_bytes);
        address.ok_or(Errno::EINVAL.because(Refusal::ShortAnswerAddress))
    }

    /// The payload as what this command asks for; `EINVAL` if it is too short for that.
    pub fn request<R: Request>(&self) -> Result<R> {
        debug_assert_eq!(self.number, R::NUMBER);
        read_request(self.payload, R::REQUIRED)
    }

    /// The provider's data behind the request; `EINVAL` if it is too short.
    pub fn driver_data<R: Request, D: FromBytes>(&self) -> Result<D> {
        const TOO_SHORT: Errno = Errno::EINVAL.because(Refusal::ShortDriverData);
        let behind = self.payload.get(size_of::<R>()..).ok_or(TOO_SHORT)?;
        D::read_from_prefix(behind).map(|(data, _)| data).map_err(|_| TOO_SHORT)
    }

    /// This command, `written` so, with another request in the place of its own.
    pub fn with_request<R: Request>(&self, written: &[u8], request: &R) -> Vec<u8> {
        let mut bytes = written.to_vec();
        let start = written.len() - self.payload.len();
        let length = self.payload.len().min(size_of::<R>());
        bytes[start..start + length].copy_from_slice(&request.as_bytes()[..length]);
        bytes
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
        assert_eq!((command.number, command.out_len), (17, 4));
        assert_eq!(command.response(), Ok(0x1122));
        let request = request::CreateCompChannel { response: 0x1122 };
        assert_eq!(command.request(), Ok(request));
        assert_eq!(command.driver_data::<request::CreateCompChannel, u32>(), Err(Errno::EINVAL));
    }

    #[test]
    fn an_extended_command() {
        let mut bytes = vec![1, 0, 0, 0x80, 1, 0, 38, 0];
        bytes.extend(0x1122u64.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend([0; 8]);
        let command = Command::parse(&bytes).unwrap();
        assert_eq!((command.number, command.out_len), (command::EX_QUERY_DEVICE, 304));
        assert_eq!((command.payload.len(), command.response()), (8, Ok(0x1122)));
    }

    #[test]
    fn what_nobody_looks_at_may_be_missing() {
        // QUERY_QP without the mask at its end, and without the handle before that
        let mut bytes = vec![25, 0, 0, 0, 5, 0, 32, 0];
        bytes.extend(0x1122u64.to_le_bytes());
        bytes.extend(7u32.to_le_bytes());
        let command = Command::parse(&bytes).unwrap();
        let request = request::QueryQp { response: 0x1122, qp_handle: 7, attr_mask: 0 };
        assert_eq!(command.request(), Ok(request));
        let other = request::QueryQp { qp_handle: 8, attr_mask: 9, ..request };
        let mut expected = bytes.clone();
        expected[16] = 8;
        assert_eq!(command.with_request(&bytes, &other), expected);
        bytes.truncate(16);
        bytes[4] = 4;
        let command = Command::parse(&bytes).unwrap();
        assert_eq!(command.request::<request::QueryQp>(), Err(Errno::EINVAL));
    }

    #[test]
    fn lengths_must_fit() {
        assert!(Command::parse(&[]).is_err());
        assert!(Command::parse(&[17, 0, 0, 0, 3, 0, 1, 0]).is_err());
        assert!(Command::parse(&[17, 1, 0, 0, 2, 0, 1, 0]).is_err());
        assert!(Command::parse(&[1, 0, 0, 0x80, 0, 0, 0, 0]).is_err());
    }
}
