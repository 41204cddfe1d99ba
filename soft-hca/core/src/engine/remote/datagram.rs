//! Datagrams to other hosts and from them.

use soft_hca_roce::wire::bth::DEFAULT_PKEY;

use crate::arena::Tally;
use crate::engine::actor::Actor;
use crate::engine::deferred::Deferred;
use crate::engine::delivery::{Datagram, Delivery, deliver, deliver_to_group};
use crate::engine::responder::ReceiveCompletion;
use crate::engine::segments::{Region, SegmentList};
use crate::engine::{effects, process_memory};
use crate::uapi::verbs::{network_type, opcode, send_flag};

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
                let delivery = deliver(self, qpn, &datagram, &mut deferred);
                matches!(delivery, Ok(Delivery::Received(_)))
            }
            DatagramReceiver::Group(group) => {
                deliver_to_group(self, &group, &datagram, &mut deferred) == Ok(true)
            }
        };
        effects::carry_out(self, &mut deferred);
        is_taken
    }
}
