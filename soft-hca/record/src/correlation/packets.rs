//! Packets of the link that both sides of are in the record: which one that was sent has come.

use std::collections::{BTreeSet, HashMap};

use super::model::Flow;
use crate::entry::{Direction, Entry, Packet, What};

/// A packet's key.
type Key<'r> = (&'r str, &'r str, &'r str, u32, u32);

fn key(packet: &Packet) -> Key<'_> {
    (&packet.from, &packet.to, &packet.opcode, packet.dest_qp, packet.psn)
}

/// Packets that were sent and have come. Of those that were sent more than once the last one has.
pub(super) fn pairs(entries: &[Entry]) -> Vec<Flow> {
    let mut sent: HashMap<Key<'_>, Vec<usize>> = HashMap::new();
    let mut pairs = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let What::Packet(packet) = &entry.what else { continue };
        match packet.direction {
            Direction::Sent => sent.entry(key(packet)).or_default().push(at),
            Direction::Received => {
                let from = sent.get_mut(&key(packet)).and_then(Vec::pop);
                pairs.extend(from.map(|from| Flow { from, to: at }));
            }
        }
    }
    pairs
}

/// Addresses of which both sides are in the record.
pub(super) fn own_addresses<'r>(entries: &'r [Entry], pairs: &[Flow]) -> BTreeSet<&'r str> {
    let ends = pairs.iter().filter_map(|pair| match &entries[pair.from].what {
        What::Packet(packet) => Some([packet.from.as_str(), packet.to.as_str()]),
        _ => None,
    });
    ends.flatten().collect()
}
