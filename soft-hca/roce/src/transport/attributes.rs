//! The attributes of a connected queue pair: those of `ibv_modify_qp` that matter to the transport.

use crate::transport::timers::AckTimer;
use crate::wire::bth::{Psn, Qpn};
use serde::{Deserialize, Serialize};

/// The path MTU: the bytes of payload in every packet of a message but its last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 256,
    /// 512 bytes.
    B512 = 512,
    /// 1024 bytes, the most that fits an Ethernet frame of 1500.
    B1024 = 1024,
    /// 2048 bytes.
    B2048 = 2048,
    /// 4096 bytes.
    B4096 = 4096,
}

impl Mtu {
    /// From the code of `enum ibv_mtu`, 1 to 5.
    pub const fn from_code(code: u8) -> Option<Mtu> {
        Some(match code {
            1 => Mtu::B256,
            2 => Mtu::B512,
            3 => Mtu::B1024,
            4 => Mtu::B2048,
            5 => Mtu::B4096,
            _ => return None,
        })
    }

    /// In bytes.
    pub const fn bytes(self) -> u32 {
        self as u32
    }

    /// The packets, and so the PSNs, that a message of `length` bytes takes: an empty one takes one,
    /// too.
    pub const fn packets(self, length: u32) -> u32 {
        let packets = length.div_ceil(self.bytes());
        if packets == 0 { 1 } else { packets }
    }
}

/// The attributes of a reliable connected queue pair. Of an unreliable one only those before
/// [`Attributes::ack`] matter. IBTA volume 1, 11.2.5.2.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Attributes {
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// Payload of a full packet, in both directions.
    pub mtu: Mtu,
    /// The PSN of our first request.
    pub sq_psn: Psn,
    /// The PSN of the peer's first request.
    pub rq_psn: Psn,
    /// Local ACK timeout.
    pub ack: AckTimer,
    /// How often a request is retransmitted after a timeout, 0 to 7.
    pub retry_cnt: u8,
    /// How often a request is retransmitted after an RNR NAK, 0 to 6; 7 is infinite.
    pub rnr_retry: u8,
    /// The timer code of our RNR NAKs, see [`super::timers::rnr_wait_ns`].
    pub min_rnr_timer: u8,
    /// Our reads and atomics that may be outstanding at a time.
    pub max_rd_atomic: u8,
    /// The peer's reads and atomics that may be.
    pub max_dest_rd_atomic: u8,
}
