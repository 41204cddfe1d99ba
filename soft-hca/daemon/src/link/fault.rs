//! Faults of packets on purpose. Pure: packets and the time go in, packets come out.
//!
//! ```text
//! take ──> each fault of the plan in turn ──┬── ready ──────────────────────> pop
//!                                           └── held: late, or overtaken ─────^
//! ```

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use soft_hca_fault::{Counting, Destination, Direction, Kind, PacketFault, Plan, Random};
use soft_hca_roce::wire::bth::Qpn;

/// A packet that waits to be overtaken goes on after so long at the latest.
const OVERTAKEN_NS: u64 = 1_000_000;

/// How often each fault has happened, in the plan's order.
#[derive(Debug)]
pub(super) struct FaultCounters {
    /// The plan with its seed, as it can be given again.
    plan: Plan,
    times: Vec<AtomicU64>,
}

impl FaultCounters {
    /// For a plan that has a seed.
    pub(super) fn new(plan: Plan) -> Self {
        let times = plan.packets.iter().map(|_| AtomicU64::new(0)).collect();
        Self { plan, times }
    }

    /// A line about each fault of a plan.
    pub(super) fn describe(&self) -> String {
        let seed = self.plan.seed.unwrap_or(0);
        let mut text = format!("faults seed={seed}");
        for (index, (fault, times)) in self.plan.packets.iter().zip(&self.times).enumerate() {
            let separator = if index == 0 { ":" } else { "," };
            text += &format!("{separator} {fault} {} times", times.load(Relaxed));
        }
        text
    }
}

/// A packet on which faults act.
pub(super) trait FaultyPacket: Clone {
    /// Its bytes.
    fn bytes(&mut self) -> &mut [u8];
}

/// Decides about packets, and holds those that are late.
#[derive(Debug)]
pub(super) struct PacketInjector<P> {
    faults: Vec<(PacketFault, Counting)>,
    random: Random,
    ways: [Way<P>; 2],
}

/// One direction.
#[derive(Debug)]
struct Way<P> {
    ready: VecDeque<P>,
    /// Nothing of `ready` can go on before.
    blocked_until: u64,
    held: Vec<DelayedPacket<P>>,
}

#[derive(Debug)]
struct DelayedPacket<P> {
    packet: P,
    qpn: Option<Qpn>,
    until: u64,
    /// It goes on before if so many have overtaken it.
    overtaking: Option<u32>,
}

impl<P: FaultyPacket> PacketInjector<P> {
    /// For a plan with a seed.
    pub(super) fn new(plan: &Plan) -> Self {
        let counting = |fault: &PacketFault| (fault.clone(), Counting::new(fault.trigger));
        let way = || Way { ready: VecDeque::new(), blocked_until: 0, held: Vec::new() };
        Self {
            faults: plan.packets.iter().map(counting).collect(),
            random: Random::new(plan.seed.unwrap_or(0)),
            ways: [way(), way()],
        }
    }

    /// A packet comes by, on its way to a queue pair if it has a destination.
    pub(super) fn take(
        &mut self,
        now: u64,
        direction: Direction,
        to: Option<Destination>,
        mut packet: P,
        counters: &FaultCounters,
    ) {
        let mut copies = 0;
        let mut wait = None;
        let mut is_lost = false;
        for ((fault, counting), times) in self.faults.iter_mut().zip(&counters.times) {
            // A lost packet counts as one that came by.
            let fires = fault.is_about(direction, to) && counting.fires(&mut self.random);
            if !fires || is_lost {
                continue;
            }
            times.fetch_add(1, Relaxed);
            match fault.kind {
                Kind::Drop => is_lost = true,
                Kind::Duplicate => copies += 1,
                Kind::Corrupt => flip(packet.bytes(), &mut self.random),
                Kind::Delay(late) => wait = Some((now.saturating_add(late.ns), None)),
                Kind::Reorder(by) => wait = Some((now.saturating_add(OVERTAKEN_NS), Some(by))),
            }
        }
        let qpn = to.map(|to| to.qpn);
        let way = &mut self.ways[direction as usize];
        if is_lost {
            return;
        }
        for _ in 0..copies {
            way.passes(qpn, packet.clone());
        }
        match wait {
            None => way.passes(qpn, packet),
            Some((until, overtaking)) => {
                way.held.push(DelayedPacket { packet, qpn, until, overtaking })
            }
        }
    }

    /// The next packet that goes on.
    pub(super) fn pop(&mut self, now: u64, direction: Direction) -> Option<P> {
        let way = &mut self.ways[direction as usize];
        if now < way.blocked_until {
            return None;
        }
        if let Some(packet) = way.ready.pop_front() {
            return Some(packet);
        }
        // In the order of their times, those of one time as they came.
        let due = way.held.iter().enumerate().filter(|(_, held)| held.until <= now);
        let (index, _) = due.min_by_key(|(_, held)| held.until)?;
        Some(way.held.remove(index).packet)
    }

    /// Puts a packet back that cannot go on before a time, and nothing else in its direction.
    pub(super) fn put_back(&mut self, direction: Direction, packet: P, until: u64) {
        let way = &mut self.ways[direction as usize];
        way.ready.push_front(packet);
        way.blocked_until = until;
    }

    /// How many packets are in here that go in a direction.
    pub(super) fn len(&self, direction: Direction) -> usize {
        let way = &self.ways[direction as usize];
        way.ready.len() + way.held.len()
    }

    /// When [`PacketInjector::pop`] has something at the latest, if nothing comes before.
    pub(super) fn deadline(&self) -> Option<u64> {
        let of_way = |way: &Way<P>| {
            let held = way.held.iter().map(|held| held.until).min();
            let first = if way.ready.is_empty() { held } else { Some(0) };
            first.map(|first| first.max(way.blocked_until))
        };
        self.ways.iter().filter_map(of_way).min()
    }
}

impl<P> Way<P> {
    /// A packet goes on, and overtakes those that wait for it.
    fn passes(&mut self, qpn: Option<Qpn>, packet: P) {
        self.ready.push_back(packet);
        let is_overtaken = |held: &mut DelayedPacket<P>| {
            let Some(left) = held.overtaking.as_mut().filter(|_| held.qpn == qpn) else {
                return false;
            };
            *left = left.saturating_sub(1);
            *left == 0
        };
        for mut held in mem::take(&mut self.held) {
            if is_overtaken(&mut held) {
                self.ready.push_back(held.packet);
            } else {
                self.held.push(held);
            }
        }
    }
}

/// Makes one bit wrong.
fn flip(bytes: &mut [u8], random: &mut Random) {
    if let Some(bits) = (bytes.len() as u64).checked_mul(8).filter(|bits| *bits > 0) {
        let bit = random.below(bits);
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use soft_hca_roce::wire::opcode::Service;

    use super::*;

    fn rc(qpn: u32) -> Option<Destination> {
        Some(Destination { qpn: Qpn::new(qpn), service: Some(Service::Rc) })
    }

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Numbered(Vec<u8>);

    impl FaultyPacket for Numbered {
        fn bytes(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }

    struct World {
        injector: PacketInjector<Numbered>,
        counters: FaultCounters,
        now: u64,
    }

    impl World {
        fn new(plan: &str) -> Self {
            let plan: Plan = plan.parse().unwrap();
            Self {
                injector: PacketInjector::new(&plan),
                counters: FaultCounters::new(plan),
                now: 0,
            }
        }

        /// Puts packets in, and gives what has come out.
        fn send(&mut self, numbers: impl IntoIterator<Item = u8>) -> Vec<u8> {
            let mut out = Vec::new();
            for number in numbers {
                let packet = Numbered(vec![number]);
                self.injector.take(self.now, Direction::Send, rc(17), packet, &self.counters);
                out.extend(self.pop());
            }
            out
        }

        fn pop(&mut self) -> Vec<u8> {
            let pop = || self.injector.pop(self.now, Direction::Send);
            std::iter::from_fn(pop).map(|packet| packet.0[0]).collect()
        }

        fn times(&self, index: usize) -> u64 {
            self.counters.times[index].load(Relaxed)
        }
    }

    #[test]
    fn nothing_happens_to_others() {
        let mut world = World::new("drop:dir=receive drop:qp=18 drop:service=ud");
        assert_eq!(world.send(0..9), Vec::from_iter(0..9));
        assert_eq!(world.injector.deadline(), None);
        let packet = Numbered(vec![1]);
        world.injector.take(0, Direction::Receive, rc(17), packet, &world.counters);
        assert_eq!(world.injector.pop(0, Direction::Receive), None);
        assert_eq!((world.times(0), world.times(1), world.times(2)), (1, 0, 0));
        let to = Some(Destination { qpn: Qpn::new(17), service: Some(Service::Ud) });
        world.injector.take(0, Direction::Send, to, Numbered(vec![1]), &world.counters);
        assert_eq!((world.pop(), world.times(2)), (vec![], 1));
    }

    #[test]
    fn packets_are_lost_come_twice_and_are_damaged() {
        let mut world = World::new("drop:nth=2 duplicate:nth=3 corrupt:nth=4 seed=1");
        let out = world.send([0, 1, 2, 3, 4, 5]);
        assert_eq!(out[..3], [0, 2, 2]);
        assert_eq!((out[3] ^ 3).count_ones(), 1);
        assert_eq!(out[4..], [4, 5]);
        assert_eq!(
            world.counters.describe(),
            "faults seed=1: drop:nth=2 1 times, duplicate:nth=3 1 times, corrupt:nth=4 1 times"
        );
    }

    #[test]
    fn late_packets_come_when_it_is_time() {
        let mut world = World::new("delay:5us,nth=1 delay:1us,nth=2");
        assert_eq!(world.send([0, 1, 2]), [2]);
        assert_eq!(world.injector.deadline(), Some(1_000));
        world.now = 999;
        assert!(world.pop().is_empty());
        world.now = 5_000;
        assert_eq!(world.pop(), [1, 0]);
        assert_eq!(world.injector.deadline(), None);
    }

    #[test]
    fn packets_are_overtaken() {
        let mut world = World::new("reorder:by=2,nth=1");
        assert_eq!(world.send([0, 1, 2, 3]), [1, 2, 0, 3]);
        let mut world = World::new("reorder:nth=1");
        let packet = Numbered(vec![9]);
        assert!(world.send([0]).is_empty());
        // One to another queue pair is no matter.
        world.injector.take(0, Direction::Send, rc(18), packet, &world.counters);
        assert_eq!(world.pop(), [9]);
        assert_eq!(world.injector.deadline(), Some(OVERTAKEN_NS));
        world.now = OVERTAKEN_NS;
        assert_eq!(world.pop(), [0]);
    }

    #[test]
    fn what_was_put_back_comes_first() {
        let mut world = World::new("delay:5us,times=2");
        assert!(world.send([0, 1]).is_empty());
        world.injector.put_back(Direction::Send, Numbered(vec![7]), 6_000);
        assert!(world.send([2]).is_empty());
        assert_eq!(world.injector.len(Direction::Send), 4);
        world.now = 5_000;
        assert!(world.pop().is_empty());
        assert_eq!(world.injector.deadline(), Some(6_000));
        world.now = 6_000;
        assert_eq!(world.pop(), [7, 2, 0, 1]);
        assert_eq!(world.injector.deadline(), None);
    }

    proptest! {
        /// Without losses and damage everything comes, with them nothing that was not sent; the
        /// same seed does the same.
        #[test]
        fn no_packet_is_made_up_or_kept(
            drop in 0u32..30, twice in 0u32..30, late in 0u32..30, reorder in 0u32..30, seed: u64,
        ) {
            let plan = format!(
                "drop:{drop}% duplicate:{twice}% delay:3us,{late}% reorder:by=2,{reorder}% seed={seed}"
            );
            let run = || {
                let mut world = World::new(&plan);
                let mut out = Vec::new();
                for number in 0..=255 {
                    out.extend(world.send([number]));
                    world.now += 1_000;
                }
                world.now += OVERTAKEN_NS;
                out.extend(world.pop());
                prop_assert_eq!(world.injector.deadline(), None);
                prop_assert_eq!(world.injector.len(Direction::Send), 0);
                prop_assert_eq!(out.len() as u64, 256 - world.times(0) + world.times(1));
                Ok(out)
            };
            let out = run()?;
            prop_assert_eq!(&out, &run()?);
            let mut once = out;
            once.sort_unstable();
            once.dedup();
            prop_assert!(drop > 0 || once.len() == 256);
        }
    }
}
