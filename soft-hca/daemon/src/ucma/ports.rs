//! Ports of the port spaces.

use std::collections::HashMap;

use soft_hca_core::errno::{Errno, Refusal, Result};

use super::id::{Key, Space};

/// Ports that are given to whom it does not matter, as in `ip_local_port_range`.
const EPHEMERAL: std::ops::Range<u16> = 32768..61000;

/// The ids that hold each port (the kernel's `rdma_bind_list`).
#[derive(Debug, Default)]
pub(super) struct Ports(HashMap<(Space, u16), Vec<Key>>);

impl Ports {
    /// An id holds a port.
    pub(super) fn hold(&mut self, port: (Space, u16), key: Key) {
        self.0.entry(port).or_default().push(key);
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ids that hold a port.
    pub(super) fn holders(&self, space: Space, port: u16) -> &[Key] {
        self.0.get(&(space, port)).map_or(&[], Vec::as_slice)
    }

    /// An unused port, searched from a random one on.
    pub(super) fn unused(&self, space: Space, random: u32) -> Result<u16> {
        let count = u32::from(EPHEMERAL.end - EPHEMERAL.start);
        let port = |i: u32| EPHEMERAL.start + ((random + i) % count) as u16;
        let mut candidates = (0..count).map(port);
        let unused = candidates.find(|port| !self.0.contains_key(&(space, *port)));
        unused.ok_or(Errno::EADDRNOTAVAIL.because(Refusal::PortsExhausted))
    }

    /// An id gives back its port.
    pub(super) fn release(&mut self, port: (Space, u16), key: Key) {
        let Some(holders) = self.0.get_mut(&port) else { return };
        holders.retain(|other| *other != key);
        if holders.is_empty() {
            self.0.remove(&port);
        }
    }
}
