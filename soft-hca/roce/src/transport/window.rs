//! The congestion window: how many packets may be unacknowledged. It grows as long as nothing is
//! lost, and a loss halves it (RFC 5681).

use super::attributes::Mtu;
use serde::{Deserialize, Serialize};

/// Requests in flight at most, and packets in the first congestion window.
pub const WINDOW: u32 = 64;

/// The first window in bytes. With [`WINDOW`] it is what a socket's default receive buffer holds: 92
/// packets of 1024 bytes, or 25 of 4096, and twice as much with the largest buffer that is usually
/// allowed.
const WINDOW_BYTES: u32 = 128 << 10;

/// How much larger than the first one it may become.
const GROWTH: u32 = 8;

/// The smallest one, in packets.
const LEAST: u32 = 8;

/// The state of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Window {
    packets: u32,
    most: u32,
    /// Slow-start threshold, in packets.
    threshold: u32,
    /// Above it: packets that were acknowledged since the window has grown.
    acknowledged: u32,
}

impl Window {
    /// Of a connection that has sent nothing.
    pub(super) fn first(mtu: Mtu) -> Self {
        let packets = WINDOW.min(WINDOW_BYTES / mtu.bytes());
        Self { packets, most: GROWTH * packets, threshold: u32::MAX, acknowledged: 0 }
    }

    /// Whether a connection with this MTU can have it.
    pub(super) fn is_possible(&self, mtu: Mtu) -> bool {
        let Self { packets, most, acknowledged, .. } = *self;
        most == Self::first(mtu).most && (LEAST..=most).contains(&packets) && acknowledged < packets
    }

    /// Packets that may be unacknowledged.
    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    /// So many packets were acknowledged.
    pub(super) fn grow(&mut self, packets: u32) {
        if self.packets < self.threshold {
            self.packets += packets;
        } else {
            self.acknowledged += packets;
            if self.acknowledged >= self.packets {
                self.acknowledged = 0;
                self.packets += 1;
            }
        }
        self.packets = self.packets.min(self.most);
    }

    /// A packet was lost.
    pub(super) fn shrink(&mut self) {
        self.packets = (self.packets / 2).max(LEAST);
        self.threshold = self.packets;
        self.acknowledged = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_until_a_loss_and_grows_by_one_then() {
        let mut window = Window::first(Mtu::B1024);
        assert_eq!(window.packets(), 64);
        window.grow(64);
        assert_eq!(window.packets(), 128);
        window.shrink();
        assert_eq!(window.packets(), 64);
        window.grow(63);
        assert_eq!(window.packets(), 64);
        window.grow(1);
        assert_eq!(window.packets(), 65);
        (0..1000).for_each(|_| window.grow(600));
        assert_eq!(window.packets(), 512);
        (0..10).for_each(|_| window.shrink());
        assert_eq!(window.packets(), 8);
    }

    #[test]
    fn a_socket_holds_the_first_one() {
        assert_eq!(Window::first(Mtu::B4096).packets(), 32);
        assert_eq!(Window::first(Mtu::B256).packets(), WINDOW);
    }
}
