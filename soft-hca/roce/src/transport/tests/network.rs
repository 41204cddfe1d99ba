//! Packets on their way between two ends: lost, duplicated, late, in another order, as a seed says.
//! A damaged packet is a lost one: its check is wrong.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::wire::packet::{Headers, MAX_BYTES};
pub(super) use crate::wire::samples::Random;

impl Random {
    pub fn number(&mut self) -> u64 {
        u64::from(self.next()) << 32 | u64::from(self.next())
    }

    /// Less than `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    pub fn permille(&mut self, chance: u32) -> bool {
        self.below(1000) < chance.into()
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.number().to_ne_bytes()[..chunk.len()]);
        }
    }
}

/// How bad the network is, in permille of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Faults {
    pub lost: u32,
    pub duplicated: u32,
    /// Late by a little, so that others overtake.
    pub overtaken: u32,
    /// Late by more than timers wait.
    pub late: u32,
}

/// A packet that arrives at `.0`, at end `.2`.
type Flying = (u64, u64, usize, Vec<u8>);

/// More often a packet with the same number is not lost or late, so that retries suffice.
const MOST_LOSSES: u8 = 2;

pub(super) struct Network {
    random: Random,
    faults: Faults,
    flying: BinaryHeap<Reverse<Flying>>,
    losses: HashMap<(usize, u32), u8>,
    /// Nothing arrives from now on.
    pub cut: bool,
    /// Packets that were sent, to each end.
    pub sent: [u64; 2],
    /// Of them responses.
    pub responses: [u64; 2],
}

impl Network {
    pub fn new(seed: u64, faults: Faults) -> Network {
        Network {
            random: Random::new(seed),
            faults,
            flying: BinaryHeap::new(),
            losses: HashMap::new(),
            cut: false,
            sent: [0; 2],
            responses: [0; 2],
        }
    }

    pub fn send(&mut self, now_ns: u64, to: usize, headers: &Headers, payload: &[u8]) {
        let mut bytes = vec![0; MAX_BYTES.min(payload.len() + 64)];
        let layout = headers.build(payload.len(), &mut bytes).unwrap();
        bytes[layout.payload].copy_from_slice(payload);
        bytes.truncate(layout.length);
        self.sent[to] += 1;
        self.responses[to] += u64::from(headers.operation.is_response());
        if self.cut {
            return;
        }
        let losses = self.losses.entry((to, headers.psn.get())).or_default();
        if self.random.permille(self.faults.lost) && *losses < MOST_LOSSES {
            *losses += 1;
            return;
        }
        let copies = 1 + u32::from(self.random.permille(self.faults.duplicated));
        for copy in 0..copies {
            let mut delay = 2_000;
            if copy > 0 || self.random.permille(self.faults.overtaken) {
                delay += self.random.below(30_000);
            }
            if self.random.permille(self.faults.late) && *losses < MOST_LOSSES {
                *losses += 1;
                delay += self.random.below(400_000);
            }
            // The second is the order of sending.
            let order = self.sent[0] + self.sent[1];
            self.flying.push(Reverse((now_ns + delay, order, to, bytes.clone())));
        }
    }

    pub fn next_arrival(&self) -> Option<u64> {
        self.flying.peek().map(|Reverse((at, ..))| *at)
    }

    pub fn arrive(&mut self, now_ns: u64) -> Option<(usize, Vec<u8>)> {
        if self.next_arrival()? > now_ns {
            return None;
        }
        let Reverse((_, _, to, bytes)) = self.flying.pop()?;
        Some((to, bytes))
    }

    pub fn cut(&mut self) {
        self.cut = true;
        self.flying.clear();
    }
}
