//! Values of the fields of messages.

use std::ops::Deref;

use super::CmaHeader;
use crate::wire::fields::Field;

/// A communication id: names one end of a connection to the other end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommId(pub u32);

impl CommId {
    /// An end that is not known yet.
    pub const NONE: CommId = CommId(0);
}

impl Field for CommId {
    fn get(bytes: &[u8], at: usize, width: usize) -> CommId {
        CommId(u32::get(bytes, at, width))
    }

    fn put(&self, bytes: &mut [u8], at: usize, width: usize) {
        self.0.put(bytes, at, width);
    }
}

/// Which message an MRA or REJ answers (`enum cm_msg_response`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The request.
    Req,
    /// The reply.
    Rep,
    /// In a REJ none in particular, in an MRA a LAP.
    Other,
    /// The fourth value of two bits, which has no meaning.
    Reserved,
}

impl Field for Answered {
    fn get(bytes: &[u8], at: usize, width: usize) -> Answered {
        match u8::get(bytes, at, width) {
            0 => Answered::Req,
            1 => Answered::Rep,
            2 => Answered::Other,
            _ => Answered::Reserved,
        }
    }

    fn put(&self, bytes: &mut [u8], at: usize, width: usize) {
        let number: u8 = match self {
            Answered::Req => 0,
            Answered::Rep => 1,
            Answered::Other => 2,
            Answered::Reserved => 3,
        };
        number.put(bytes, at, width);
    }
}

/// A vendor as a REP has it: 24 bits, of which the low byte comes first and each other one 4 bytes
/// behind the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepVendorId(pub u32);

impl RepVendorId {
    const STRIDE: usize = 4;
}

impl Field for RepVendorId {
    fn get(bytes: &[u8], at: usize, _width: usize) -> RepVendorId {
        let byte = |part: usize| bytes[at / 8 + part * RepVendorId::STRIDE];
        RepVendorId(u32::from_le_bytes([byte(0), byte(1), byte(2), 0]))
    }

    fn put(&self, bytes: &mut [u8], at: usize, _width: usize) {
        for (part, byte) in self.0.to_le_bytes().into_iter().take(3).enumerate() {
            bytes[at / 8 + part * RepVendorId::STRIDE] = byte;
        }
    }
}

/// A message's private data: the program's, with zeros behind them up to the `N` bytes that the
/// message has room for. How many the program has given is not said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateData<const N: usize>([u8; N]);

impl<const N: usize> PrivateData<N> {
    /// Of some data; `None` if there is no room for them.
    pub fn new(data: &[u8]) -> Option<PrivateData<N>> {
        let mut bytes = [0; N];
        bytes.get_mut(..data.len())?.copy_from_slice(data);
        Some(PrivateData(bytes))
    }

    /// Of some data behind a header; `None` if there is no room for them.
    pub fn behind(header: &CmaHeader, data: &[u8]) -> Option<PrivateData<N>> {
        let mut bytes = [0; N];
        let (first, behind) = bytes.split_first_chunk_mut()?;
        *first = header.encode();
        behind.get_mut(..data.len())?.copy_from_slice(data);
        Some(PrivateData(bytes))
    }

    /// The header, if it is one, and the data behind it.
    pub fn split_header(&self) -> Option<(CmaHeader, &[u8])> {
        let (first, behind) = self.0.split_first_chunk()?;
        Some((CmaHeader::decode(first)?, behind))
    }
}

impl<const N: usize> Default for PrivateData<N> {
    fn default() -> PrivateData<N> {
        PrivateData([0; N])
    }
}

impl<const N: usize> Deref for PrivateData<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const N: usize> Field for PrivateData<N> {
    fn get(bytes: &[u8], at: usize, width: usize) -> PrivateData<N> {
        PrivateData(Field::get(bytes, at, width))
    }

    fn put(&self, bytes: &mut [u8], at: usize, width: usize) {
        self.0.put(bytes, at, width);
    }
}
