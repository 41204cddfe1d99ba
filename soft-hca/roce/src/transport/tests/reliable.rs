//! Mixes of all operations, both ways, over networks from good to bad: every byte, every
//! completion, every atomic's result as if the requests had been executed one after the other.

use proptest::prelude::*;

use super::mix::mix;
use super::network::{Faults, Random};
use super::world::*;
use crate::transport::attributes::Mtu;
use crate::transport::request::{Opcode, Status};
use crate::transport::requester::WINDOW;
use crate::transport::timers::AckTimer;

#[derive(Clone, Debug)]
struct Scenario {
    seed: u64,
    mtu: Mtu,
    psn: u32,
    timeout: u8,
    faults: Faults,
    busy: u32,
    /// Requests of each end.
    requests: [usize; 2],
    /// Up to so many packets in a message.
    packets: u32,
    depth: u8,
    receives_are_late: bool,
}

fn scenarios(faults: impl Strategy<Value = Faults>) -> impl Strategy<Value = Scenario> {
    let sizes = (0..5usize, prop_oneof![4 => 1..6u32, 1 => 60..100u32]);
    let requests = prop_oneof![3 => 0..12usize, 1 => 12..90usize];
    let psn = prop_oneof![Just(0u32), 0xff_ff80..0x100_0000u32, 0..0x100_0000u32];
    // With the longer one, packets are sent once more before it is over.
    let psn = (psn, prop_oneof![Just(5u8), Just(14u8)]);
    (any::<u64>(), sizes, psn, faults, 0..3u32, [requests.clone(), requests], 1..6u8, any::<bool>())
        .prop_map(|(seed, (mtu, packets), psn, faults, busy, requests, depth, late)| Scenario {
            seed,
            mtu: Mtu::from_code(mtu as u8 + 1).unwrap(),
            psn: psn.0,
            timeout: psn.1,
            faults,
            busy: [0, 20, 100][busy as usize],
            requests: if packets > 10 { requests.map(|n| n.min(10)) } else { requests },
            packets,
            depth,
            receives_are_late: late,
        })
}

fn bad_networks() -> impl Strategy<Value = Faults> {
    (0..200u32, 0..200u32, 0..300u32, 0..20u32).prop_map(|(lost, duplicated, overtaken, late)| {
        Faults { lost, duplicated, overtaken, late }
    })
}

/// Packets that a request takes if none is lost, and the most that answer them.
fn packets(work: &Work, mtu: Mtu) -> [u64; 2] {
    let window = WINDOW.min((128 << 10) / mtu.bytes());
    let all = mtu.packets(work.request.length);
    match work.request.opcode {
        Opcode::Flush(..) => [1, 1],
        Opcode::Read(_) => [all.div_ceil(window / 2), all].map(u64::from),
        // In mid-message it may ask for acknowledgements, too.
        _ => [all, 1 + all.div_ceil(window / 4)].map(u64::from),
    }
}

fn run(scenario: &Scenario) {
    let mut attributes = attributes(scenario.mtu, scenario.psn);
    attributes.ack = AckTimer::new(scenario.timeout);
    attributes.max_rd_atomic = scenario.depth;
    attributes.max_dest_rd_atomic = scenario.depth;
    let size = scenario.mtu.bytes() * scenario.packets + 100;
    let Scenario { seed, faults, busy, .. } = *scenario;
    let mut world = World::new(seed, [attributes; 2], faults, busy, size as usize);
    let mut random = Random::new(!seed);
    let mut expected = Vec::new();
    for end in 0..2 {
        let peer = &mut world.ends[1 - end].receiver;
        random.fill(&mut peer.memory);
        let (work, result) =
            mix(&mut random, scenario.mtu, scenario.packets, scenario.requests[end], &peer.memory);
        let room = (scenario.mtu.bytes() * scenario.packets) as usize;
        let mut at = 0;
        for _ in &result.received {
            if scenario.receives_are_late {
                at += random.below(200_000);
            }
            peer.receives.push_back((at, room));
        }
        peer.windows = (FIRST_WINDOW..FIRST_WINDOW + 200).collect();
        world.work(end, work);
        expected.push(result);
    }
    world.run();
    for (end, expected) in expected.iter().enumerate() {
        let (program, peer) = (&world.ends[end].sender, &world.ends[1 - end].receiver);
        let all = (0..scenario.requests[end] as u64).map(|id| (id, Status::Success));
        assert!(program.completed.iter().copied().eq(all), "{:?}", program.completed);
        assert!(world.ends[end].requester().is_idle());
        assert_eq!(peer.failed, None);
        assert!(peer.memory == expected.memory, "memory");
        assert_eq!(peer.flushed, expected.flushed, "each once, however often it is asked for");
        for (id, (work, bytes)) in program.work.iter().zip(&expected.bytes).enumerate() {
            assert!(work.bytes == *bytes, "bytes of {id}, {:?}", work.request);
        }
        assert_eq!(peer.received.len(), expected.received.len());
        let is_good_network = faults == Faults::default() && busy == 0;
        if is_good_network && !scenario.receives_are_late {
            let all = program.work.iter().map(|work| packets(work, scenario.mtu));
            let [requests, answers] = all.fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
            let [to, from] = [1 - end, end];
            assert_eq!(world.network.sent[to] - world.network.responses[to], requests);
            // Acknowledgements may become one.
            assert!(world.network.responses[from] <= answers);
        }
        for (received, expected) in peer.received.iter().zip(&expected.received) {
            assert_eq!(received.0, expected.0);
            assert!(received.1[..expected.1.len()] == expected.1, "bytes of a receive");
        }
    }
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn every_byte_arrives_in_a_bad_network(scenario in scenarios(bad_networks())) {
        run(&scenario);
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn every_byte_arrives_in_a_good_network(scenario in scenarios(Just(Faults::default()))) {
        run(&scenario);
    }
}
