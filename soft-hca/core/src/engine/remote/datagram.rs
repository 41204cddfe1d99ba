//! Datagrams to other hosts and from them.

use soft_hca_roce::wire::bth::DEFAULT_PKEY;

use crate::arena::Tally;
use crate::engine::datagram::{Datagram, Delivery};
use crate::engine::deferred::Deferred;
use crate::engine::responder::ReceiveCompletion;
use crate::engine::segments::{Region, SegmentList};
use crate::engine::{Actor, process_memory};
use crate::uapi::verbs::{network_type, opcode, send_flag};

/// A datagram for another host.
#[derive(Debug)]
pub struct RemoteDatagram<'d> {
    /// The sender's GID.
    pub sgid: [u8; 16],
    /// The receiver's GID.
    pub dgid: [u8; 16],
    /// Of the address handle.
    pub traffic_class: u8,
    /// Of the address handle, if it is for a group. What is for one host has the system's.
    pub hop_limit: Option<u8>,
    /// The receiver's queue pair.
    pub dest_qpn: u32,
    /// The key that it has to have.
    pub qkey: u32,
    /// The sender's queue pair.
    pub source_qpn: u32,
    /// Its packet's number.
    pub psn: u32,
    /// Immediate data.
    pub immediate: Option<[u8; 4]>,
    /// The receiver is to have an event.
    pub solicited: bool,
    /// Its bytes.
    pub payload: &'d [u8],
}

/// Whom a datagram of another host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramReceiver {
    /// The queue pair with this number.
    QueuePair(u32),
    /// All queue pairs that are attached to the group with this GID.
    Group([u8; 16]),
}

impl Actor<'_> {
    /// Delivers a datagram of another host: `grh` are the 40 bytes before its payload. Whether
    /// somebody has taken it.
    pub fn deliver_remote(
        &self,
        grh: &[u8; 40],
        payload: &[u8],
        receiver: DatagramReceiver,
        (qkey, source_qpn): (u32, u32),
        immediate: Option<[u8; 4]>,
        solicited: bool,
    ) -> bool {
        let mut segments = SegmentList::new();
        segments.push(process_memory::ours(grh), Region::NONE);
        if !payload.is_empty() {
            segments.push(process_memory::ours(payload), Region::NONE);
        }
        let is_ipv4 = grh[0] >> 4 != 6;
        let received = ReceiveCompletion {
            opcode: if immediate.is_some() { opcode::SEND_WITH_IMM } else { opcode::SEND },
            flags: if solicited { send_flag::SOLICITED } else { 0 },
            imm: immediate.map_or(0, u32::from_ne_bytes),
            src_qp: source_qpn,
            network_type: if is_ipv4 { network_type::IPV4 } else { network_type::IPV6 },
            ..ReceiveCompletion::default()
        };
        // The link has dropped what is of another partition.
        let (pkey, tally) = (DEFAULT_PKEY.into(), Tally::default());
        let datagram = Datagram { proc: self.me, segments: &segments, qkey, pkey, received, tally };
        let mut deferred = Deferred::default();
        let is_taken = match receiver {
            DatagramReceiver::QueuePair(qpn) => {
                let delivery = self.deliver(qpn, &datagram, &mut deferred);
                matches!(delivery, Ok(Delivery::Received(_)))
            }
            DatagramReceiver::Group(group) => {
                self.deliver_to_group(&group, &datagram, &mut deferred) == Ok(true)
            }
        };
        self.run_deferred(&mut deferred);
        is_taken
    }
}
