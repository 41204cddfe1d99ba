//! The header that the IP port spaces put before a program's data. IBTA volume 1, annex A11.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::wire::bytes::array;
use crate::wire::ip::Addresses;

/// Where a request comes from and where it goes: what the IP port spaces put before the program's
/// private data in REQ and SIDR_REQ. The kernel's `struct cma_hdr`.
///
/// ```text
///  0         1                2      4                     20                        36
/// +---------+----------------+------+---------------------+-------------------------+
/// | version | IP version f0  | port | source address      | destination address     |
/// | 0       |                |      | (IPv4: last 4 of 16)|                         |
/// +---------+----------------+------+---------------------+-------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmaHeader {
    /// The active side's port; the other one is in the service id.
    pub source_port: u16,
    /// The addresses of both sides.
    pub addresses: Addresses,
}

impl CmaHeader {
    /// Bytes of the header.
    pub const BYTES: usize = 36;
    const VERSION: u8 = 0;

    /// Reads a header; `None` if the version of it or of IP is another.
    pub fn decode(bytes: &[u8; CmaHeader::BYTES]) -> Option<CmaHeader> {
        if bytes[0] != CmaHeader::VERSION {
            return None;
        }
        let addresses = match bytes[1] >> 4 {
            4 => Addresses::V4 {
                source: Ipv4Addr::from(array::<4>(bytes, 16)),
                destination: Ipv4Addr::from(array::<4>(bytes, 32)),
            },
            6 => Addresses::V6 {
                source: Ipv6Addr::from(array::<16>(bytes, 4)),
                destination: Ipv6Addr::from(array::<16>(bytes, 20)),
            },
            _ => return None,
        };
        Some(CmaHeader { source_port: u16::from_be_bytes(array(bytes, 2)), addresses })
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; CmaHeader::BYTES] {
        let mut bytes = [0; CmaHeader::BYTES];
        bytes[0] = CmaHeader::VERSION;
        bytes[2..4].copy_from_slice(&self.source_port.to_be_bytes());
        match self.addresses {
            Addresses::V4 { source, destination } => {
                bytes[1] = 4 << 4;
                bytes[16..20].copy_from_slice(&source.octets());
                bytes[32..].copy_from_slice(&destination.octets());
            }
            Addresses::V6 { source, destination } => {
                bytes[1] = 6 << 4;
                bytes[4..20].copy_from_slice(&source.octets());
                bytes[20..].copy_from_slice(&destination.octets());
            }
        }
        bytes
    }
}
