//! Packets that wait to be sent together.

use std::io;
use std::net::IpAddr;

use arrayvec::ArrayVec;
use soft_hca_roce::wire::bth::Qpn;
use soft_hca_roce::wire::icrc;
use soft_hca_roce::wire::ip::{Addresses, Flow};
use soft_hca_roce::wire::packet::PORT;

use crate::arena::port_counters::octets;
use crate::port::path::Path;
use crate::port::socket::{Message, Socket};

/// Bytes that may wait.
const BYTES: usize = 512 << 10;
/// Packets that the system cuts one message into at most (`UDP_MAX_SEGMENTS` before Linux 6.9).
const SEGMENTS: usize = 64;
/// Bytes of a message: what IPv4's 16 bits of length leave.
const MESSAGE: usize = 65_507;
/// Messages that are handed to a socket at once.
const MESSAGES: usize = 16;

/// Packets in the order in which they go out, all of one socket.
///
/// Runs of equally long packets to one queue pair are one message, which the system cuts into packets
/// itself (`UDP_SEGMENT`), where it can. (The message comes whole to who has the queue pair of its first
/// packet, where nothing between the hosts has cut it.) The ICRC covers the identification of the IP header, and
/// that depends on the place in the run, so packets are sealed when they leave.
#[derive(Debug)]
pub struct Outbox {
    bytes: Box<[u8]>,
    used: usize,
    packets: Vec<Queued>,
    /// Packets that have left.
    gone: usize,
    /// The system cuts messages.
    cuts: bool,
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
struct Queued {
    path: Path,
    to: Qpn,
    start: usize,
    length: usize,
}

impl Outbox {
    /// Nothing waits.
    #[allow(clippy::new_without_default, reason = "it takes half a MiB")]
    pub fn new() -> Self {
        let bytes = vec![0; BYTES].into_boxed_slice();
        Self { bytes, used: 0, packets: Vec::new(), gone: 0, cuts: true }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Room for more packets, so many bytes of them; `None` if [`Outbox::flush`] has to make some.
    pub fn room(&mut self, needed: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(self.used..self.used + needed)
    }

    /// The packet of so many bytes for a queue pair that lies at the front of the room waits now.
    pub fn put(&mut self, path: Path, to: Qpn, length: usize) {
        self.packets.push(Queued { path, to, start: self.used, length });
        self.used += length;
    }

    /// Sends what waits, as far as the socket has room now. Tells to whom, how many packets, and
    /// their octets; gives how many the system refuses for good.
    pub fn flush(
        &mut self,
        socket: &Socket,
        mut sent_to: impl FnMut(IpAddr, usize, usize),
    ) -> usize {
        let mut refused = 0;
        while self.gone < self.packets.len() {
            let runs = self.runs();
            for &(first, count) in &runs {
                self.seal(first, count);
            }
            let mut messages = ArrayVec::<_, MESSAGES>::new();
            messages.extend(runs.iter().map(|&(first, count)| self.message(first, count)));
            let sent = socket.send(&messages);
            drop(messages);
            match sent {
                Ok(sent) => {
                    for &(first, count) in runs.iter().take(sent) {
                        let packets = &self.packets[first..first + count];
                        let to = packets[0].path.peer;
                        let lengths = packets.iter().map(|packet| octets(to, packet.length));
                        sent_to(to, count, lengths.sum());
                        self.gone += count;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return refused,
                // The interface cannot make the checksums that come with cutting.
                Err(error) if runs[0].1 > 1 && is_unsupported(&error) => {
                    tracing::debug!("packets are sent one by one: {error}");
                    self.cuts = false;
                }
                Err(error) => {
                    let Queued { path, length, .. } = self.packets[self.gone];
                    tracing::debug!(to = %path.peer, length, "a packet cannot be sent: {error}");
                    refused += runs[0].1;
                    self.gone += runs[0].1;
                }
            }
        }
        self.packets.clear();
        (self.used, self.gone) = (0, 0);
        refused
    }

    /// The runs at the front: first packet and how many.
    fn runs(&self) -> ArrayVec<(usize, usize), MESSAGES> {
        let mut runs = ArrayVec::new();
        let mut first = self.gone;
        while first < self.packets.len() && !runs.is_full() {
            let count = self.run(first);
            runs.push((first, count));
            first += count;
        }
        runs
    }

    /// How many packets behind `first`, with it, may go as one message.
    fn run(&self, first: usize) -> usize {
        let head = self.packets[first];
        if !self.cuts {
            return 1;
        }
        let most = SEGMENTS.min(MESSAGE / head.length.max(1));
        let rest = self.packets[first + 1..].iter().take(most.saturating_sub(1));
        let mut count = 1;
        for packet in rest {
            if (packet.path, packet.to) != (head.path, head.to) || packet.length > head.length {
                break;
            }
            count += 1;
            // A shorter one can only be the last.
            if packet.length < head.length {
                break;
            }
        }
        count
    }

    fn seal(&mut self, first: usize, count: usize) {
        for (id, packet) in self.packets[first..first + count].iter().enumerate() {
            let Path { own, peer, .. } = packet.path;
            let Some(addresses) = Addresses::new(own, peer) else { continue };
            let flow = Flow { addresses, source_port: PORT, destination_port: PORT };
            let bytes = &mut self.bytes[packet.start..packet.start + packet.length];
            icrc::seal_segment(&flow, bytes, id as u16);
        }
    }

    fn message(&self, first: usize, count: usize) -> Message<'_> {
        let (head, last) = (self.packets[first], self.packets[first + count - 1]);
        let bytes = &self.bytes[head.start..last.start + last.length];
        let segment = (count > 1).then_some(head.length as u16);
        Message { path: head.path, bytes, segment }
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use soft_hca_roce::wire::packet::MAX_BYTES;

    use super::*;

    fn path(host: u8) -> Path {
        Path::new(IpAddr::from([192, 0, 2, 100]), IpAddr::from([192, 0, 2, host]))
    }

    fn outbox(packets: &[(u8, u32, usize)]) -> Outbox {
        let mut outbox = Outbox::new();
        for &(host, qpn, length) in packets {
            assert!(outbox.room(length).is_some());
            outbox.put(path(host), Qpn::new(qpn), length);
        }
        outbox
    }

    #[test]
    fn runs_are_of_one_length_and_to_one_queue_pair() {
        let packets = [
            (1, 17, 1040),
            (1, 17, 1040),
            (1, 17, 16),
            (1, 17, 16),
            (1, 17, 20),
            (1, 18, 20),
            (1, 18, 20),
            (2, 18, 20),
        ];
        let mut outbox = outbox(&packets);
        let runs = outbox.runs();
        assert_eq!(runs[..], [(0, 3), (3, 1), (4, 1), (5, 2), (7, 1)]);
        let message = outbox.message(0, 3);
        assert_eq!((message.bytes.len(), message.segment), (2096, Some(1040)));
        assert_eq!(outbox.message(3, 1).segment, None);
        outbox.cuts = false;
        assert_eq!(outbox.runs().len(), packets.len());
    }

    #[test]
    fn runs_are_as_long_as_a_message_may_be() {
        let small = vec![(1, 17, 24); 100];
        assert_eq!(outbox(&small).runs()[..], [(0, 64), (64, 36)]);
        let large = vec![(1, 17, 4124); 30];
        assert_eq!(outbox(&large).runs()[..], [(0, 15), (15, 15)]);
    }

    #[test]
    fn what_is_full_says_so() {
        let mut outbox = Outbox::new();
        let mut count = 0;
        while outbox.room(MAX_BYTES).is_some() {
            outbox.put(path(1), Qpn::new(17), MAX_BYTES);
            count += 1;
        }
        assert_eq!(count, BYTES / MAX_BYTES);
    }
}
