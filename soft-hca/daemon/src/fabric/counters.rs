//! Counters of ports, summed when somebody looks.
//!
//! Queue pairs are counted where they are executed. What one has counted belongs to the port that
//! its path begins at, and stays there when the queue pair takes another path or ends.

use std::collections::BTreeMap;

use super::Fabric;
use crate::counters::{Counts, PortCounts, PortOf};
use crate::objects::QpObject;

fn port_of(object: &QpObject) -> PortOf {
    (object.device, object.path.port_num)
}

impl Fabric {
    /// A queue pair is about to have another path, or none: its port keeps what it has counted.
    pub(crate) fn keep_counts(&mut self, index: usize) {
        let Some(object) = self.qps.get_mut(index) else { return };
        let counts = Counts::of(&self.arena.qps[index]);
        let port = self.port_counts.entry(port_of(object)).or_default();
        port.qps = port.qps.plus(counts.since(object.counted));
        object.counted = counts;
    }

    /// A port has gone down.
    pub(crate) fn count_down(&mut self, port: PortOf) {
        self.port_counts.entry(port).or_default().downs += 1;
    }

    /// The counts until now, of each port of each device.
    pub(crate) fn count_ports(&self) -> BTreeMap<PortOf, PortCounts> {
        let ports = self
            .devices
            .iter()
            .flat_map(|device| device.ports.iter().map(move |port| (device.index, port.number)));
        let kept = |port| (port, self.port_counts.get(&port).copied().unwrap_or_default());
        let mut counts: BTreeMap<PortOf, PortCounts> = ports.map(kept).collect();
        for (index, object) in self.qps.iter() {
            if let Some(port) = counts.get_mut(&port_of(object)) {
                let more = Counts::of(&self.arena.qps[index]).since(object.counted);
                port.qps = port.qps.plus(more);
            }
        }
        // The link is the first device's, which is a RoCE device with one port then.
        if let Some(mut first) = counts.first_entry() {
            first.get_mut().link = self.roce.counts();
        }
        counts
    }
}
