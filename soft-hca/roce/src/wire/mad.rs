//! Management datagrams: 256 bytes that general services send each other from queue pair 1 to
//! queue pair 1. IBTA volume 1, 13.4; `include/rdma/ib_mad.h`, `struct ib_mad_hdr`. All numbers
//! are big-endian.
//!
//! ```text
//!  0      1       2         3        4        6     8               16          20         24
//! +------+-------+---------+--------+--------+-----+----------------+-----------+----------+------+
//! | base | class | class   | method | status | -   | transaction id | attribute | modifier | data |
//! | 1    |       | version |        |        |     |                | (and 2 -) |          | 232  |
//! +------+-------+---------+--------+--------+-----+----------------+-----------+----------+------+
//! ```

use super::bth::Qpn;
use super::bytes::array;

/// Bytes of a management datagram.
pub const MAD_BYTES: usize = 256;
/// Bytes behind its header.
pub const DATA_BYTES: usize = MAD_BYTES - Header::BYTES;
/// The queue pair of the general services.
pub const GSI_QPN: Qpn = Qpn::new(1);
/// Its key.
pub const GSI_QKEY: u32 = 0x8001_0000;

/// The header of every management datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The version of this header: 1.
    pub base_version: u8,
    /// Which service it is about.
    pub class: u8,
    /// The version of the service.
    pub class_version: u8,
    /// The method that is applied to the attribute.
    pub method: u8,
    /// The status of an answer.
    pub status: u16,
    /// Of the class.
    pub class_specific: u16,
    /// A number by which the asker knows the answer.
    pub transaction: u64,
    /// The kind of the data.
    pub attribute: u16,
    /// More about that.
    pub modifier: u32,
}

impl Header {
    /// Bytes of the header.
    pub const BYTES: usize = 24;
}

/// A management datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mad {
    /// Its header.
    pub header: Header,
    /// The rest, as the attribute says.
    pub data: [u8; DATA_BYTES],
}

impl Mad {
    /// Reads the payload of a datagram; `None` if it has another length.
    pub fn decode(bytes: &[u8]) -> Option<Mad> {
        let bytes: &[u8; MAD_BYTES] = bytes.try_into().ok()?;
        let header = Header {
            base_version: bytes[0],
            class: bytes[1],
            class_version: bytes[2],
            method: bytes[3],
            status: u16::from_be_bytes(array(bytes, 4)),
            class_specific: u16::from_be_bytes(array(bytes, 6)),
            transaction: u64::from_be_bytes(array(bytes, 8)),
            attribute: u16::from_be_bytes(array(bytes, 16)),
            modifier: u32::from_be_bytes(array(bytes, 20)),
        };
        Some(Mad { header, data: array(bytes, Header::BYTES) })
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; MAD_BYTES] {
        let header = &self.header;
        let mut bytes = [0; MAD_BYTES];
        let first = [header.base_version, header.class, header.class_version, header.method];
        bytes[..4].copy_from_slice(&first);
        bytes[4..6].copy_from_slice(&header.status.to_be_bytes());
        bytes[6..8].copy_from_slice(&header.class_specific.to_be_bytes());
        bytes[8..16].copy_from_slice(&header.transaction.to_be_bytes());
        bytes[16..18].copy_from_slice(&header.attribute.to_be_bytes());
        bytes[20..24].copy_from_slice(&header.modifier.to_be_bytes());
        bytes[Header::BYTES..].copy_from_slice(&self.data);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::samples::Random;

    #[test]
    fn datagrams_come_back() {
        let mut random = Random::new(4);
        for _ in 0..100 {
            let mut bytes = random.bytes(MAD_BYTES);
            bytes[18..20].fill(0);
            assert_eq!(Mad::decode(&bytes).unwrap().encode()[..], bytes);
        }
        for length in (0..300).filter(|length| *length != MAD_BYTES) {
            assert_eq!(Mad::decode(&random.bytes(length)), None);
        }
    }
}
