//! Packets of RoCE v2 as bytes. Whatever bytes come, reading them ends with a packet or with the
//! reason why it is none; whatever is built is read again as it was.
//!
//! ```text
//!  IP 20 or 40   UDP 8      BTH 12   extended headers    payload        pad   ICRC 4
//! +------------+----------+--------+-------------------+--------------+-----+--------+
//! | ip         | port     | bth    | headers, as the   | of a message |     | icrc   |
//! |            | 4791     |        | opcode says       |              |     |        |
//! +------------+----------+--------+-------------------+--------------+-----+--------+
//!  `- made up, or in a    `------------------- packet -------------------------------'
//!     program's first 40                    a socket's datagram
//!     bytes, or recorded
//!     (`pcapng`)                        on queue pair 1 the payload is a
//!                                       `mad`, and most of those are of `cm`
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | [`packet`] | a whole packet: read, built |
//! | [`bth`], [`opcode`], [`headers`] | its parts |
//! | [`icrc`] | its check |
//! | [`ip`] | what carries it: addresses, IP and UDP headers |
//! | [`mad`], [`cm`] | management datagrams; the connection manager's messages |
//! | [`pcapng`] | recordings for Wireshark |
//!
//! A packet's way out and in:
//!
//! ```
//! use soft_hca_roce::wire::bth::{Psn, Qpn};
//! use soft_hca_roce::wire::icrc::{self, Right};
//! use soft_hca_roce::wire::ip::Flow;
//! use soft_hca_roce::wire::opcode::{Operation, SendEnd, Service};
//! use soft_hca_roce::wire::packet::{Headers, MAX_BYTES, Packet};
//!
//! let (source, destination) = ("192.0.2.1:4791".parse()?, "192.0.2.2:4791".parse()?);
//! let flow = Flow::new(source, destination).ok_or("two families")?;
//! let send = Operation::SendOnly(SendEnd::Plain);
//! let headers = Headers::new(Service::Rc, send, Qpn::new(0x11), Psn::new(7));
//! let headers = Headers { ack_req: true, ..headers };
//! let mut buffer = [0; MAX_BYTES];
//! let length = Packet { headers, payload: b"hello" }.build(&mut buffer)?;
//! icrc::seal(&flow, &mut buffer[..length]);
//!
//! // A socket sends and another receives these bytes.
//! let datagram = &buffer[..length];
//! assert_eq!(icrc::check(&flow, datagram), Some(Right::V4 { id: 0, dont_fragment: true }));
//! let packet = Packet::parse(datagram)?;
//! assert_eq!((packet.headers, packet.payload), (headers, &b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Numbers are big-endian on the wire, but for the ICRC and recordings, and the host's in all types
//! here; immediate data stay bytes. Lengths are bytes.
//!
//! Sources: IBTA volume 1, chapters 9, 12, 13 and annexes A11, A17, A19; Linux,
//! `drivers/infiniband/sw/rxe` and `include/rdma`, 6.1 and 6.12.

pub mod bth;
mod bytes;
pub mod cm;
mod fields;
pub mod headers;
pub mod icrc;
pub mod ip;
pub mod mad;
pub mod opcode;
pub mod packet;
pub mod pcapng;
#[cfg(test)]
pub(crate) mod samples;
