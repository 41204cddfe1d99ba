//! Packets of the link to other hosts as entries: which of them are sent again, and why.

use std::collections::HashMap;

use soft_hca_core::trace::event;
use soft_hca_record::entry::{Direction, Ignored, Packet, PacketNote, Retransmission};
use soft_hca_roce::wire::headers::{Aeth, Syndrome, rnr_delay};
use soft_hca_roce::wire::{ip, opcode};

/// Packet sequence numbers have so many bits.
const PSN_BITS: u32 = 24;

/// Packets that a queue pair has sent.
#[derive(Debug)]
struct Sending {
    /// The next new packet.
    next: u32,
    /// The peer's refusal, if that is why packets come again.
    refused: Option<Retransmission>,
}

/// Packets that queue pairs have sent by the link.
#[derive(Debug, Default)]
pub(super) struct Packets {
    sending: HashMap<u32, Sending>,
}

/// Whether a packet is before the one that is next.
fn is_before(psn: u32, next: u32) -> bool {
    let ahead = next.wrapping_sub(psn) & ((1 << PSN_BITS) - 1);
    ahead != 0 && ahead < 1 << (PSN_BITS - 1)
}

impl Packets {
    /// A packet, after those that were traced before it.
    pub(super) fn packet(&mut self, traced: &event::Packet) -> Packet {
        let event::Packet {
            qpn,
            dest_qpn,
            psn,
            length,
            opcode,
            aeth,
            is_received,
            ignored,
            from,
            to,
        } = *traced;
        let answer = (aeth != u32::MAX).then(|| Aeth::decode(&aeth.to_be_bytes()).syndrome);
        let note = match (ignored, answer) {
            (1, _) => Some(PacketNote::Ignored(Ignored::NoQueuePair)),
            (2.., _) => Some(PacketNote::Ignored(Ignored::OtherAddress)),
            (_, Some(syndrome)) => {
                if is_received != 0 {
                    self.heard(qpn, syndrome);
                }
                match syndrome {
                    Syndrome::Ack { .. } => Some(PacketNote::Ack),
                    Syndrome::RnrNak { timer } => {
                        Some(PacketNote::RnrNak(rnr_delay(timer).as_nanos() as u64))
                    }
                    Syndrome::Nak(code) => Some(PacketNote::Nak(code)),
                    Syndrome::Reserved(_) => None,
                }
            }
            _ if is_received == 0 && is_request(opcode) => self.sent(qpn, psn),
            _ => None,
        };
        let name = u8::try_from(opcode).ok().and_then(opcode::name);
        Packet {
            direction: if is_received == 0 { Direction::Sent } else { Direction::Received },
            from: ip::address(&from).to_string(),
            to: ip::address(&to).to_string(),
            opcode: name.unwrap_or_else(|| opcode.to_string()),
            qp: Some(qpn),
            dest_qp: dest_qpn,
            psn,
            length,
            note,
        }
    }

    /// A request's packet is sent: for the first time, or why again.
    fn sent(&mut self, qpn: u32, psn: u32) -> Option<PacketNote> {
        let first = Sending { next: psn, refused: None };
        let sending = self.sending.entry(qpn).or_insert(first);
        if is_before(psn, sending.next) {
            let why = sending.refused.unwrap_or(Retransmission::Timeout);
            return Some(PacketNote::Retransmission(why));
        }
        sending.next = psn.wrapping_add(1);
        sending.refused = None;
        None
    }

    /// The peer has answered.
    fn heard(&mut self, qpn: u32, syndrome: Syndrome) {
        let Some(sending) = self.sending.get_mut(&qpn) else { return };
        sending.refused = match syndrome {
            Syndrome::RnrNak { .. } => Some(Retransmission::ReceiverNotReady),
            Syndrome::Nak(code) => Some(Retransmission::Nak(code)),
            _ => None,
        };
    }
}

/// Whether packets of an opcode are of a request that is acknowledged.
fn is_request(opcode: u32) -> bool {
    // Of reliable connections, answers apart.
    matches!(opcode, 0x00..=0x0c | 0x13..=0x1f)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(
        packets: &mut Packets,
        opcode: u32,
        psn: u32,
        aeth: u32,
        is_received: u32,
    ) -> Option<PacketNote> {
        let traced =
            event::Packet { qpn: 17, opcode, psn, aeth, is_received, ..Default::default() };
        packets.packet(&traced).note
    }

    #[test]
    fn a_packet_that_comes_again_has_a_reason() {
        let mut packets = Packets::default();
        let mut send = |psn| packet(&mut packets, 0x04, psn, u32::MAX, 0);
        assert_eq!((send(0xff_fffe), send(0xff_ffff), send(0)), (None, None, None));
        let late = Some(PacketNote::Retransmission(Retransmission::Timeout));
        assert_eq!(send(0xff_ffff), late);
        assert_eq!(send(1), None);
        // A receiver that is not ready, with timer 1.
        let note = packet(&mut packets, 0x11, 1, 0x2100_0000, 1);
        assert_eq!(note, Some(PacketNote::RnrNak(10_000)));
        let again = packet(&mut packets, 0x04, 1, u32::MAX, 0);
        assert_eq!(again, Some(PacketNote::Retransmission(Retransmission::ReceiverNotReady)));
        assert_eq!(packet(&mut packets, 0x11, 1, 0x1f00_0001, 1), Some(PacketNote::Ack));
        let again = packet(&mut packets, 0x04, 1, u32::MAX, 0);
        assert_eq!(again, late);
    }

    #[test]
    fn packets_have_names_and_addresses() {
        let [from, to] = ["192.0.2.1", "2001:db8::1"].map(|text| ip::gid(text.parse().unwrap()));
        let traced = event::Packet {
            opcode: 0x64,
            from,
            to,
            is_received: 1,
            ignored: 1,
            ..Default::default()
        };
        let packet = Packets::default().packet(&traced);
        assert_eq!((&packet.from[..], &packet.to[..]), ("192.0.2.1", "2001:db8::1"));
        assert_eq!((&packet.opcode[..], packet.direction), ("UD_SEND_ONLY", Direction::Received));
        assert_eq!(packet.note, Some(PacketNote::Ignored(Ignored::NoQueuePair)));
    }
}
