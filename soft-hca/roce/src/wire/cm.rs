//! Messages of the connection manager: [`Mad`]s of class 7. IBTA volume 1, 12.6;
//! `include/rdma/ibta_vol1_c12.h`. Comments at fields give byte, bit and bits from the byte behind
//! the MAD's header.
//!
//! An end is known by its communication id. Of a connection between the ids 7 and 9, with each
//! side's state in the specification's names:
//!
//! ```text
//!   active side, 7                             passive side, 9
//!   REQ Sent           REQ (7, -) ---------->  REQ Rcvd
//!                     (REQ again ----------->  still undecided
//!                       <------- MRA (9, 7)    "wait")
//!   REP Rcvd              <------- REP (9, 7)  REP Sent
//!   Established        RTU (7, 9) ---------->  Established
//!   DREQ Sent          DREQ (7, 9) --------->  DREQ Rcvd
//!   TimeWait              <------ DREP (9, 7)  TimeWait
//! ```
//!
//! A REJ instead of REP or RTU ends it early. A service request is one question, SIDR_REQ, and one
//! answer, SIDR_REP. LAP and APR, which agree on an alternate path, are only recognised.
//!
//! "Local" is whoever sends a message. All numbers are big-endian; where a width is less than the
//! type's, the low bits are sent. What is not listed is reserved and sent as 0.

mod cma_header;
mod value;

use thiserror::Error;

use super::bth::{Psn, Qpn};
use super::fields::{Field, message};
use super::ip::Gid;
use super::mad::{DATA_BYTES, Header, Mad};

pub use cma_header::CmaHeader;
pub use value::{Answered, CommId, PrivateData, RepVendorId};

/// The class of the connection manager's datagrams.
pub const CLASS: u8 = 0x07;
/// Its version.
pub const CLASS_VERSION: u8 = 2;
/// Its only method: to send.
pub const METHOD_SEND: u8 = 0x03;
const BASE_VERSION: u8 = 1;

/// Kinds of messages: a [`Header`]'s attribute.
pub mod attribute {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const REQ: u16 = 0x10;
    pub const MRA: u16 = 0x11;
    pub const REJ: u16 = 0x12;
    pub const REP: u16 = 0x13;
    pub const RTU: u16 = 0x14;
    pub const DREQ: u16 = 0x15;
    pub const DREP: u16 = 0x16;
    pub const SIDR_REQ: u16 = 0x17;
    pub const SIDR_REP: u16 = 0x18;
    pub const LAP: u16 = 0x19;
    pub const APR: u16 = 0x1a;
}

pub mod reason;

/// Statuses of a [`SidrRep`] (`enum ib_cm_sidr_status`).
pub mod sidr_status {
    /// [`SidrRep::qpn`](super::SidrRep::qpn) takes datagrams.
    pub const SUCCESS: u8 = 0;
    /// Nobody listens there.
    pub const UNSUPPORTED: u8 = 1;
    /// The program said no, or went away.
    pub const REJECT: u8 = 2;
}

/// Bytes of private data that messages have room for.
pub mod private_data {
    /// In a REQ, with the [`CmaHeader`](super::CmaHeader) before the program's data.
    pub const REQ: usize = 92;
    /// In an MRA.
    pub const MRA: usize = 222;
    /// In a REJ.
    pub const REJ: usize = 148;
    /// In a REP.
    pub const REP: usize = 196;
    /// In an RTU.
    pub const RTU: usize = 224;
    /// In a DREQ.
    pub const DREQ: usize = 220;
    /// In a DREP.
    pub const DREP: usize = 224;
    /// In a SIDR_REQ, with the [`CmaHeader`](super::CmaHeader) before the program's data.
    pub const SIDR_REQ: usize = 216;
    /// In a SIDR_REP.
    pub const SIDR_REP: usize = 136;
}

/// Room for additional information in a REJ or SIDR_REP.
const INFO_BYTES: usize = 72;

/// How the connection's queue pairs are connected: [`Req::transport`].
pub mod transport {
    /// Reliable connection.
    pub const RC: u8 = 0;
    /// Unreliable connection.
    pub const UC: u8 = 1;
}

/// The LID of RoCE's ports, which have none.
pub const NO_LID: u16 = 0xffff;

message! {
    /// A path of a REQ.
    Path {
        /// The sender's LID, [`NO_LID`].
        local_lid: u16 = (0, 0, 16);
        /// The receiver's LID, [`NO_LID`].
        remote_lid: u16 = (2, 0, 16);
        /// The sender's address.
        local_gid: Gid = (4, 0, 128);
        /// The receiver's address.
        remote_gid: Gid = (20, 0, 128);
        /// 20 bits.
        flow_label: u32 = (36, 0, 20);
        /// Static rate, 6 bits.
        rate: u8 = (39, 2, 6);
        /// Traffic class.
        traffic_class: u8 = (40, 0, 8);
        /// Hop limit.
        hop_limit: u8 = (41, 0, 8);
        /// Service level, 4 bits.
        service_level: u8 = (42, 0, 4);
        /// No router on the way; not set on RoCE v2.
        subnet_local: bool = (42, 4, 1);
        /// The ACK timeout of the sender's queue pair: 4.096 us * 2^n, 5 bits.
        ack_timeout: u8 = (43, 0, 5);
    }
}

message! {
    /// A request for a connection.
    Req {
        /// The sender's number for the connection.
        local_comm_id: CommId = (0, 0, 32);
        /// The vendor of the options in the MAD's modifier, 24 bits.
        vendor_id: u32 = (5, 0, 24);
        /// The service to connect to; see [`service_id`].
        service_id: u64 = (8, 0, 64);
        /// The sender's adapter.
        local_ca_guid: u64 = (16, 0, 64);
        /// Reliable datagrams only.
        local_qkey: u32 = (28, 0, 32);
        /// The sender's queue pair.
        local_qpn: Qpn = (32, 0, 24);
        /// Reads and atomics that the sender takes at a time.
        responder_resources: u8 = (35, 0, 8);
        /// Reliable datagrams only, 24 bits.
        local_eecn: u32 = (36, 0, 24);
        /// Reads and atomics that the sender would begin at a time.
        initiator_depth: u8 = (39, 0, 8);
        /// Reliable datagrams only, 24 bits.
        remote_eecn: u32 = (40, 0, 24);
        /// How long the sender waits for answers: 4.096 us * 2^n, 5 bits.
        remote_response_timeout: u8 = (43, 0, 5);
        /// See [`transport`], 2 bits.
        transport: u8 = (43, 5, 2);
        /// The sender counts credits.
        flow_control: bool = (43, 7, 1);
        /// The first packet's number that the *receiver* of this message is to send.
        starting_psn: Psn = (44, 0, 24);
        /// How long the sender takes to answer: 4.096 us * 2^n, 5 bits.
        local_response_timeout: u8 = (47, 0, 5);
        /// `retry_cnt` of the receiver's queue pair, 3 bits.
        retry_count: u8 = (47, 5, 3);
        /// The partition.
        pkey: u16 = (48, 0, 16);
        /// The path's MTU: 128 * 2^n bytes, 1 to 5; 4 bits.
        mtu: u8 = (50, 0, 4);
        /// Reliable datagrams only.
        rdc_exists: bool = (50, 4, 1);
        /// `rnr_retry` of the receiver's queue pair, 3 bits.
        rnr_retry_count: u8 = (50, 5, 3);
        /// How often messages are sent again, 4 bits.
        max_cm_retries: u8 = (51, 0, 4);
        /// The sender's queue pair has a shared receive queue.
        srq: bool = (51, 4, 1);
        /// 1: XRC; 3 bits.
        extended_transport: u8 = (51, 5, 3);
        /// The path.
        primary: Path = (52, 0, 352);
        /// Another path; all zeros if there is none.
        alternate: Path = (96, 0, 352);
        /// Suggested addresses are understood.
        sap_supported: bool = (139, 5, 1);
        /// The program's, behind a [`CmaHeader`] in the IP port spaces.
        private_data: PrivateData<{ private_data::REQ }> = (140, 0, 736);
    }
}

message! {
    /// A message was received, and its answer takes longer.
    Mra {
        /// The sender's number for the connection.
        local_comm_id: CommId = (0, 0, 32);
        /// The receiver's.
        remote_comm_id: CommId = (4, 0, 32);
        /// Which message.
        answered: Answered = (8, 0, 2);
        /// How much longer: 4.096 us * 2^n, 5 bits.
        service_timeout: u8 = (9, 0, 5);
        /// The program's.
        private_data: PrivateData<{ private_data::MRA }> = (10, 0, 1776);
    }
}

message! {
    /// A connection is rejected.
    Rej {
        /// The sender's number for the connection; 0 if it rejects a REQ.
        local_comm_id: CommId = (0, 0, 32);
        /// The receiver's.
        remote_comm_id: CommId = (4, 0, 32);
        /// Which message is rejected.
        rejected: Answered = (8, 0, 2);
        /// Bytes of [`Rej::info`] that count, 7 bits.
        info_length: u8 = (9, 0, 7);
        /// Why; see [`reason`].
        reason: u16 = (10, 0, 16);
        /// Additional reject information.
        info: [u8; INFO_BYTES] = (12, 0, 576);
        /// The program's.
        private_data: PrivateData<{ private_data::REJ }> = (84, 0, 1184);
    }
}

message! {
    /// The reply to a request.
    Rep {
        /// The sender's number for the connection.
        local_comm_id: CommId = (0, 0, 32);
        /// The receiver's.
        remote_comm_id: CommId = (4, 0, 32);
        /// Reliable datagrams only.
        local_qkey: u32 = (8, 0, 32);
        /// The sender's queue pair.
        local_qpn: Qpn = (12, 0, 24);
        /// The vendor of the options in the MAD's modifier.
        vendor_id: RepVendorId = (15, 0, 8);
        /// Reliable datagrams only, 24 bits.
        local_eecn: u32 = (16, 0, 24);
        /// The first packet's number that the *receiver* of this message is to send.
        starting_psn: Psn = (20, 0, 24);
        /// Reads and atomics that the sender takes at a time.
        responder_resources: u8 = (24, 0, 8);
        /// Reads and atomics that the sender begins at a time.
        initiator_depth: u8 = (25, 0, 8);
        /// How long the sender's adapter takes to acknowledge: 4.096 us * 2^n, 5 bits.
        target_ack_delay: u8 = (26, 0, 5);
        /// The outcome of the alternate path, 2 bits.
        failover_accepted: u8 = (26, 5, 2);
        /// The sender counts credits.
        flow_control: bool = (26, 7, 1);
        /// `rnr_retry` of the receiver's queue pair, 3 bits.
        rnr_retry_count: u8 = (27, 0, 3);
        /// The sender's queue pair has a shared receive queue.
        srq: bool = (27, 3, 1);
        /// The sender's adapter.
        local_ca_guid: u64 = (28, 0, 64);
        /// The program's.
        private_data: PrivateData<{ private_data::REP }> = (36, 0, 1568);
    }
}

message! {
    /// Ready to use.
    Rtu {
        /// The sender's number for the connection.
        local_comm_id: CommId = (0, 0, 32);
        /// The receiver's.
        remote_comm_id: CommId = (4, 0, 32);
        /// The program's.
        private_data: PrivateData<{ private_data::RTU }> = (8, 0, 1792);
    }
}

message! {
    /// A request to disconnect.
    Dreq {
        /// The sender's number for the connection.
        local_comm_id: CommId = (0, 0, 32);
        /// The receiver's.
        remote_comm_id: CommId = (4, 0, 32);
        /// The *receiver's* queue pair.
        remote_qpn: Qpn = (8, 0, 24);
        /// The program's.
        private_data: PrivateData<{ private_data::DREQ }> = (12, 0, 1760);
    }
}

message! {
    /// Disconnected.
    Drep {
        /// The sender's number for the connection.
        local_comm_id: CommId = (0, 0, 32);
        /// The receiver's.
        remote_comm_id: CommId = (4, 0, 32);
        /// The program's.
        private_data: PrivateData<{ private_data::DREP }> = (8, 0, 1792);
    }
}

message! {
    /// Asks which queue pair takes datagrams.
    SidrReq {
        /// The sender's number for the request.
        request_id: CommId = (0, 0, 32);
        /// The partition.
        pkey: u16 = (4, 0, 16);
        /// The requested service; see [`service_id`].
        service_id: u64 = (8, 0, 64);
        /// The program's, behind a [`CmaHeader`] in the IP port spaces.
        private_data: PrivateData<{ private_data::SIDR_REQ }> = (16, 0, 1728);
    }
}

message! {
    /// The answer to that.
    SidrRep {
        /// The number of the request.
        request_id: CommId = (0, 0, 32);
        /// See [`sidr_status`].
        status: u8 = (4, 0, 8);
        /// Bytes of [`SidrRep::info`] that count.
        info_length: u8 = (5, 0, 8);
        /// The queue pair.
        qpn: Qpn = (8, 0, 24);
        /// The service that was requested.
        service_id: u64 = (12, 0, 64);
        /// The queue pair's key.
        qkey: u32 = (20, 0, 32);
        /// Additional information.
        info: [u8; INFO_BYTES] = (24, 0, 576);
        /// The program's.
        private_data: PrivateData<{ private_data::SIDR_REP }> = (96, 0, 1088);
    }
}

impl Rej {
    /// Puts in additional information of `N` bytes, at most 72.
    pub fn set_info<const N: usize>(&mut self, info: [u8; N]) {
        const { assert!(N <= INFO_BYTES) };
        self.info = [0; INFO_BYTES];
        self.info[..N].copy_from_slice(&info);
        self.info_length = N as u8;
    }
}

/// Why a management datagram is no message.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoMessage {
    /// Of another class, version or method.
    #[error("not for the connection manager")]
    Class,
    /// LAP or APR. To be ignored: the peer's alternate path then is not used.
    #[error("about an alternate path (attribute {0:#06x})")]
    AlternatePath(u16),
    /// Of no meaning.
    #[error("unknown attribute {0:#06x}")]
    Attribute(u16),
}

macro_rules! messages {
    ($($name:ident = $attribute:ident),* $(,)?) => {
        /// A message.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each holds the struct of its name")]
        pub enum Message {
            $($name($name),)*
        }

        impl Message {
            /// Reads the message in a management datagram.
            pub fn decode(mad: &Mad) -> Result<Message, NoMessage> {
                let header = &mad.header;
                let kind =
                    (header.base_version, header.class, header.class_version, header.method);
                if kind != (BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND) {
                    return Err(NoMessage::Class);
                }
                match header.attribute {
                    $(attribute::$attribute => {
                        Ok(Message::$name(Field::get(&mad.data, 0, 8 * DATA_BYTES)))
                    })*
                    other @ (attribute::LAP | attribute::APR) => {
                        Err(NoMessage::AlternatePath(other))
                    }
                    other => Err(NoMessage::Attribute(other)),
                }
            }

            /// The management datagram for the message. An answer has the transaction id of what
            /// it answers; a DREQ has a new one.
            pub fn encode(&self, transaction: u64) -> Mad {
                let mut data = [0; DATA_BYTES];
                let attribute = match self {
                    $(Message::$name(message) => {
                        message.put(&mut data, 0, 8 * DATA_BYTES);
                        attribute::$attribute
                    })*
                };
                let header = Header {
                    base_version: BASE_VERSION,
                    class: CLASS,
                    class_version: CLASS_VERSION,
                    method: METHOD_SEND,
                    transaction,
                    attribute,
                    ..Header::default()
                };
                Mad { header, data }
            }
        }

        $(impl From<$name> for Message {
            fn from(message: $name) -> Message {
                Message::$name(message)
            }
        })*
    };
}

messages! {
    Req = REQ,
    Mra = MRA,
    Rej = REJ,
    Rep = REP,
    Rtu = RTU,
    Dreq = DREQ,
    Drep = DREP,
    SidrReq = SIDR_REQ,
    SidrRep = SIDR_REP,
}

/// The service id of a port in a port space (`rdma_get_service_id`, `enum rdma_ucm_port_space`).
pub const fn service_id(port_space: u16, port: u16) -> u64 {
    (port_space as u64) << 16 | port as u64
}

/// Port space and port of a service id, if it has some.
pub const fn port(service_id: u64) -> Option<(u16, u16)> {
    if service_id >> 32 == 0 { Some(((service_id >> 16) as u16, service_id as u16)) } else { None }
}

#[cfg(test)]
mod tests;
