//! The counters of ports: what they are made of, and under which names sysfs has them.
//!
//! Sources: the kernel's `Documentation/ABI/stable/sysfs-class-infiniband`; IBTA volume 1, 16.1.3.5
//! (PortCounters) and 16.1.4.11 (PortCountersExtended); `rxe_hw_counters.c`. A Soft-RoCE device of
//! the kernel has `hw_counters` only, for it answers no performance management datagrams; adapters
//! have `counters`, too, and so has every device here.

use std::collections::BTreeMap;

use soft_hca_core::arena::{Qp, Tally};
use soft_hca_roce::transport::events::Event;

use soft_hca_core::arena::port_counters::LinkCounts;

/// Counts of what queue pairs have sent and received, and of their errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// By what they have asked for.
    sent: Tally,
    /// By what they were asked for.
    received: Tally,
    events: [u64; Event::COUNT],
}

impl Counts {
    /// Of one queue pair, since it was created.
    pub(crate) fn of(qp: &Qp) -> Self {
        Self { sent: qp.sent.load(), received: qp.received.load(), events: qp.events.load() }
    }

    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent.plus(other.sent),
            received: self.received.plus(other.received),
            events: each(self.events, other.events, u64::wrapping_add),
        }
    }

    /// The difference to `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent.since(before.sent),
            received: self.received.since(before.received),
            events: each(self.events, before.events, u64::wrapping_sub),
        }
    }
}

fn each<const N: usize>(a: [u64; N], b: [u64; N], both: impl Fn(u64, u64) -> u64) -> [u64; N] {
    std::array::from_fn(|i| both(a[i], b[i]))
}

/// A port: index of its device, and its number.
pub(crate) type PortOf = (usize, u8);

/// The counts that the counters of a port are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortCounts {
    /// Its queue pairs, with those that are no more.
    pub qps: Counts,
    /// The link to other hosts, if it is the port's.
    pub link: LinkCounts,
    /// How often it has gone down.
    pub downs: u64,
}

/// Packets in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packets {
    /// How many.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
    /// Those of the packets that are for a group.
    pub multicast: u64,
}

impl Packets {
    /// Requests that go in this direction, the answers to those that go in the other, and what the
    /// link has.
    fn of(requests: Tally, answered: Tally, link: Tally) -> Self {
        Self {
            packets: requests.packets.wrapping_add(answered.answers).wrapping_add(link.packets),
            octets: requests.octets.wrapping_add(answered.answer_octets).wrapping_add(link.octets),
            multicast: requests.multicast.wrapping_add(link.multicast),
        }
    }

    fn unicast(self) -> u64 {
        self.packets.wrapping_sub(self.multicast)
    }

    /// The unit of `port_xmit_data` is four octets.
    fn data(self) -> u64 {
        self.octets / 4
    }
}

impl PortCounts {
    /// Packets that have left by the port.
    pub(crate) fn sent(&self) -> Packets {
        Packets::of(self.qps.sent, self.qps.received, self.link.sent)
    }

    /// Packets that have come to the port.
    pub(crate) fn received(&self) -> Packets {
        Packets::of(self.qps.received, self.qps.sent, self.link.received)
    }

    fn event_count(&self, event: Event) -> u64 {
        self.qps.events[event as usize]
    }

    /// Counters of errors that are not 0, by their names in sysfs.
    pub(crate) fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let errors = COUNTERS.iter().filter(|counter| matches!(counter.value, Value::Error(_)));
        let named: BTreeMap<_, _> =
            errors.map(|counter| (counter.name, counter.value(self))).collect();
        named.into_iter().filter(|(_, value)| *value != 0)
    }
}

/// A counter of each port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    /// The folder in that of the port.
    pub folder: &'static str,
    /// Its name there.
    pub name: &'static str,
    value: Value,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    /// It counts something that cannot happen here, or is no counter.
    Constant(u64),
    Traffic(fn(&PortCounts) -> u64),
    /// It is 0 as long as nothing goes wrong.
    Error(fn(&PortCounts) -> u64),
}

impl Counter {
    /// Whether it has always the same value.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self.value, Value::Constant(_))
    }

    /// Its value at a port.
    pub(crate) fn value(&self, port: &PortCounts) -> u64 {
        match self.value {
            Value::Constant(value) => value,
            Value::Traffic(value) | Value::Error(value) => value(port),
        }
    }
}

const fn constant(folder: &'static str, name: &'static str, value: u64) -> Counter {
    Counter { folder, name, value: Value::Constant(value) }
}

const fn traffic(
    folder: &'static str,
    name: &'static str,
    value: fn(&PortCounts) -> u64,
) -> Counter {
    Counter { folder, name, value: Value::Traffic(value) }
}

const fn error(folder: &'static str, name: &'static str, value: fn(&PortCounts) -> u64) -> Counter {
    Counter { folder, name, value: Value::Error(value) }
}

const COUNTERS_DIR: &str = "counters";
const HW_COUNTERS_DIR: &str = "hw_counters";

/// All counters, in the order of the kernel's sources.
pub(crate) const COUNTERS: [Counter; 37] = [
    constant(COUNTERS_DIR, "symbol_error", 0),
    constant(COUNTERS_DIR, "link_error_recovery", 0),
    error(COUNTERS_DIR, "link_downed", |port| port.downs),
    error(COUNTERS_DIR, "port_rcv_errors", |port| port.link.damaged),
    constant(COUNTERS_DIR, "port_rcv_remote_physical_errors", 0),
    constant(COUNTERS_DIR, "port_rcv_switch_relay_errors", 0),
    error(COUNTERS_DIR, "port_xmit_discards", |port| port.link.unsendable),
    constant(COUNTERS_DIR, "port_xmit_constraint_errors", 0),
    error(COUNTERS_DIR, "port_rcv_constraint_errors", |port| port.link.other_partition),
    constant(COUNTERS_DIR, "local_link_integrity_errors", 0),
    constant(COUNTERS_DIR, "excessive_buffer_overrun_errors", 0),
    constant(COUNTERS_DIR, "VL15_dropped", 0),
    traffic(COUNTERS_DIR, "port_xmit_data", |port| port.sent().data()),
    traffic(COUNTERS_DIR, "port_rcv_data", |port| port.received().data()),
    traffic(COUNTERS_DIR, "port_xmit_packets", |port| port.sent().packets),
    traffic(COUNTERS_DIR, "port_rcv_packets", |port| port.received().packets),
    constant(COUNTERS_DIR, "port_xmit_wait", 0),
    traffic(COUNTERS_DIR, "unicast_xmit_packets", |port| port.sent().unicast()),
    traffic(COUNTERS_DIR, "unicast_rcv_packets", |port| port.received().unicast()),
    traffic(COUNTERS_DIR, "multicast_xmit_packets", |port| port.sent().multicast),
    traffic(COUNTERS_DIR, "multicast_rcv_packets", |port| port.received().multicast),
    traffic(HW_COUNTERS_DIR, "sent_pkts", |port| port.sent().packets),
    traffic(HW_COUNTERS_DIR, "rcvd_pkts", |port| port.received().packets),
    error(HW_COUNTERS_DIR, "duplicate_request", |port| port.event_count(Event::DuplicateRequest)),
    error(HW_COUNTERS_DIR, "out_of_seq_request", |port| {
        port.event_count(Event::OutOfSequenceRequest)
    }),
    error(HW_COUNTERS_DIR, "rcvd_rnr_err", |port| port.event_count(Event::RnrReceived)),
    error(HW_COUNTERS_DIR, "send_rnr_err", |port| port.event_count(Event::RnrSent)),
    error(HW_COUNTERS_DIR, "rcvd_seq_err", |port| port.event_count(Event::SequenceErrorReceived)),
    // When the kernel's rxe leaves acknowledgements to another thread.
    constant(HW_COUNTERS_DIR, "ack_deferred", 0),
    error(HW_COUNTERS_DIR, "retry_exceeded_err", |port| port.event_count(Event::RetriesExceeded)),
    error(HW_COUNTERS_DIR, "retry_rnr_exceeded_err", |port| {
        port.event_count(Event::RnrRetriesExceeded)
    }),
    error(HW_COUNTERS_DIR, "completer_retry_err", |port| port.event_count(Event::Retried)),
    error(HW_COUNTERS_DIR, "send_err", |port| port.link.unsendable),
    error(HW_COUNTERS_DIR, "link_downed", |port| port.downs),
    traffic(HW_COUNTERS_DIR, "rdma_sends", |port| port.qps.sent.sends),
    traffic(HW_COUNTERS_DIR, "rdma_recvs", |port| port.qps.received.sends),
    // How long the kernel keeps values that it has read, in milliseconds; here none are.
    constant(HW_COUNTERS_DIR, "lifespan", LIFESPAN_MS),
];

/// `RDMA_HW_STATS_DEFAULT_LIFESPAN`
const LIFESPAN_MS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn value(port: &PortCounts, folder: &str, name: &str) -> u64 {
        let is_it = |counter: &&Counter| (counter.folder, counter.name) == (folder, name);
        COUNTERS.iter().find(is_it).unwrap().value(port)
    }

    #[test]
    fn a_port_sends_requests_and_answers() {
        let sent = Tally {
            packets: 10,
            octets: 1000,
            sends: 4,
            answers: 3,
            answer_octets: 90,
            multicast: 2,
        };
        let received = Tally {
            packets: 5,
            octets: 400,
            sends: 1,
            answers: 2,
            answer_octets: 60,
            multicast: 1,
        };
        let link = Tally { packets: 7, octets: 70, ..Tally::default() };
        let qps = Counts { sent, received, events: [0; Event::COUNT] };
        let link = LinkCounts { sent: link, unsendable: 6, ..LinkCounts::default() };
        let port = PortCounts { qps, link, downs: 8 };
        let of = |name| value(&port, COUNTERS_DIR, name);
        assert_eq!((of("port_xmit_packets"), of("port_xmit_data")), (19, (1000 + 60 + 70) / 4));
        assert_eq!((of("port_rcv_packets"), of("port_rcv_data")), (8, (400 + 90) / 4));
        assert_eq!((of("unicast_xmit_packets"), of("multicast_xmit_packets")), (17, 2));
        assert_eq!((of("unicast_rcv_packets"), of("multicast_rcv_packets")), (7, 1));
        assert_eq!(value(&port, HW_COUNTERS_DIR, "rdma_sends"), 4);
        assert_eq!(value(&port, HW_COUNTERS_DIR, "rdma_recvs"), 1);
        // By its name once, in whatever folders it is.
        let errors: Vec<_> = port.errors().collect();
        assert_eq!(errors, [("link_downed", 8), ("port_xmit_discards", 6), ("send_err", 6)]);
    }

    #[test]
    fn what_a_queue_pair_had_is_not_counted_twice() {
        let some = Tally { packets: 5, octets: 500, ..Tally::default() };
        let before = Counts { sent: some, ..Counts::default() };
        let now = Counts { sent: some.plus(some), received: some, ..Counts::default() };
        assert_eq!(now.since(before), Counts { sent: some, received: some, ..Counts::default() });
        assert_eq!(now.since(before).plus(before), now);
    }
}
