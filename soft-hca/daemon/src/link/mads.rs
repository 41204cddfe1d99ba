//! Management datagrams that have come, and wait for the packets of connections that came before them.
//!
//! A message of the connection manager may end a connection. An adapter has handled the packets before it by then, the
//! acknowledgement of the last request among them; here these come to other sockets, and a process that runs its
//! lease of the port may have been put aside in the middle of them.

use std::collections::VecDeque;

use super::handle::ReceivedMad;
use super::watch::IN_HAND_NS;

/// Those that wait, each with the time until which it does.
#[derive(Debug, Default)]
pub(super) struct WaitingMads(VecDeque<(u64, ReceivedMad)>);

impl WaitingMads {
    /// One has come at a time.
    pub(super) fn push(&mut self, mad: ReceivedMad, now: u64) {
        self.0.push_back((now + IN_HAND_NS, mad));
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes those that have waited: all if the packets are handled, else those that have waited for too long.
    pub(super) fn take(
        &mut self,
        are_handled: bool,
        now: u64,
    ) -> impl Iterator<Item = ReceivedMad> + '_ {
        let count = self.0.partition_point(|(until, _)| are_handled || *until <= now);
        self.0.drain(..count).map(|(_, mad)| mad)
    }
}

#[cfg(test)]
mod tests {
    use soft_hca_roce::wire::mad::MAD_BYTES;

    use super::*;

    #[test]
    fn datagrams_wait_until_packets_are_handled_but_not_for_ever() {
        let [from, to] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let mad = |first| {
            let mut mad = [0; MAD_BYTES];
            mad[0] = first;
            ReceivedMad { from, to, mad }
        };
        let mut waiting = WaitingMads::default();
        (0..3).for_each(|number| waiting.push(mad(number), u64::from(number)));
        let mut take = |are_handled, now| -> Vec<u8> {
            waiting.take(are_handled, now).map(|waited| waited.mad[0]).collect()
        };
        assert_eq!(take(false, IN_HAND_NS - 1), [0; 0]);
        assert_eq!(take(false, IN_HAND_NS + 1), [0, 1]);
        assert_eq!(take(true, 0), [2]);
        assert!(waiting.is_empty());
    }
}
