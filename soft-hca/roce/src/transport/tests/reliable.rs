//! Mixes of all operations, both ways, over networks from good to bad: every byte, every
//! completion, every atomic's result as if the requests had been executed one after the other.

use proptest::prelude::*;

use super::network::{Faults, Random};
use super::world::*;
use crate::transport::attributes::Mtu;
use crate::transport::request::{Opcode, Remote, Status, WorkRequest};
use crate::transport::target::{Atomic, Completion, Received};
use crate::wire::opcode::SendEnd;

/// Numbers that only atomics change, at the beginning of each memory.
const CELLS: u64 = 4;

#[derive(Clone, Debug)]
struct Scenario {
    seed: u64,
    mtu: Mtu,
    psn: u32,
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
    (any::<u64>(), sizes, psn, faults, 0..3u32, [requests.clone(), requests], 1..6u8, any::<bool>())
        .prop_map(|(seed, (mtu, packets), psn, faults, busy, requests, depth, late)| Scenario {
            seed,
            mtu: Mtu::from_code(mtu as u8 + 1).unwrap(),
            psn,
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

/// What is to come of one end's requests.
struct Expected {
    /// The peer's memory at the end.
    memory: Vec<u8>,
    /// The peer's receives.
    received: Vec<(Completion, Vec<u8>)>,
    /// The bytes of each request at the end: what was read is in them.
    bytes: Vec<Vec<u8>>,
}

/// Random requests, and what comes of them.
fn mix(
    random: &mut Random,
    scenario: &Scenario,
    count: usize,
    memory: &[u8],
) -> (Vec<Work>, Expected) {
    let mut memory = memory.to_vec();
    let mut window = FIRST_WINDOW;
    let mut expected = Expected { memory: Vec::new(), received: Vec::new(), bytes: Vec::new() };
    let mut was_read = false;
    let mut work = Vec::new();
    for id in 0..count {
        let mtu = u64::from(scenario.mtu.bytes());
        let most = mtu * u64::from(scenario.packets);
        let length = match random.below(8) {
            0 => 0,
            1 => 1,
            2 => mtu - 1,
            3 => mtu,
            4 => mtu + 1,
            5 => random.below(mtu),
            _ => random.below(most + 1),
        };
        let length = length.min(most) as usize;
        let free = CELLS * 8;
        let start = free + random.below(memory.len() as u64 - free - length as u64 + 1);
        let remote = Remote { address: BASE + start, rkey: KEY };
        let cell = 8 * random.below(CELLS);
        let number = Remote { address: BASE + cell, rkey: KEY };
        let [start, cell] = [start as usize, cell as usize];
        let immediate = random.next().to_ne_bytes()[..4].try_into().unwrap();
        let mut bytes = vec![0; length];
        random.fill(&mut bytes);
        let mut atomic = |atomic| apply(&mut memory[cell..cell + 8], atomic).to_ne_bytes().to_vec();
        let mut after = bytes.clone();
        let mut received = None;
        let opcode = match random.below(10) {
            0 | 1 => {
                let end = match random.below(3) {
                    0 => SendEnd::Plain,
                    1 => SendEnd::Immediate(immediate),
                    _ => {
                        window += 1;
                        SendEnd::Invalidate(window)
                    }
                };
                received = Some((Received::Send(end), bytes.clone()));
                Opcode::Send(end)
            }
            2 | 3 => {
                memory[start..start + length].copy_from_slice(&bytes);
                let immediate = (random.below(2) == 0).then_some(immediate);
                received = immediate.map(|immediate| (Received::Write(immediate), Vec::new()));
                Opcode::Write(remote, immediate)
            }
            4..=6 => {
                bytes.fill(0);
                after.copy_from_slice(&memory[start..start + length]);
                Opcode::Read(remote)
            }
            7 => {
                let compare = u64::from_ne_bytes(memory[cell..cell + 8].try_into().unwrap())
                    ^ random.below(2);
                let swap = random.next();
                let mut atomic =
                    |atomic| apply(&mut memory[cell..cell + 8], atomic).to_ne_bytes().to_vec();
                bytes = vec![0; 8];
                after = atomic(Atomic::CompareSwap { compare, swap });
                Opcode::CompareSwap { remote: number, compare, swap }
            }
            8 => {
                let add = random.next();
                bytes = vec![0; 8];
                after = atomic(Atomic::FetchAdd(add));
                Opcode::FetchAdd { remote: number, add }
            }
            _ => {
                bytes = random.next().to_ne_bytes().to_vec();
                after = bytes.clone();
                atomic(Atomic::Write(bytes[..].try_into().unwrap()));
                Opcode::AtomicWrite(number)
            }
        };
        // A read that is answered again after what follows it was executed returns what that
        // wrote; who does not want it fences.
        let changes = !matches!(opcode, Opcode::Send(_) | Opcode::Read(_));
        let fence = random.below(8) == 0 || changes && was_read;
        was_read = matches!(opcode, Opcode::Read(_)) || was_read && !fence;
        let solicited = random.below(4) == 0;
        if let Some((received, receive)) = received {
            let completion = Completion { received, length: length as u32, solicited };
            expected.received.push((completion, receive));
        }
        let length = bytes.len() as u32;
        let request = WorkRequest { id: id as u64, opcode, length, solicited, fence };
        work.push(Work { request, bytes });
        expected.bytes.push(after);
    }
    expected.memory = memory;
    (work, expected)
}

fn run(scenario: &Scenario) {
    let mut attributes = attributes(scenario.mtu, scenario.psn);
    attributes.max_rd_atomic = scenario.depth;
    attributes.max_dest_rd_atomic = scenario.depth;
    let size = scenario.mtu.bytes() * scenario.packets + 100;
    let Scenario { seed, faults, busy, .. } = *scenario;
    let mut world = World::new(seed, [attributes; 2], faults, busy, size as usize);
    let mut random = Random(!seed);
    let mut expected = Vec::new();
    for end in 0..2 {
        let peer = &mut world.ends[1 - end].program;
        random.fill(&mut peer.memory);
        let (work, result) = mix(&mut random, scenario, scenario.requests[end], &peer.memory);
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
        let [program, peer] = [end, 1 - end].map(|end| &world.ends[end].program);
        let all = (0..scenario.requests[end] as u64).map(|id| (id, Status::Success));
        assert!(program.completed.iter().copied().eq(all), "{:?}", program.completed);
        assert!(world.ends[end].requester.is_idle());
        assert_eq!(peer.failed, None);
        assert!(peer.memory == expected.memory, "memory");
        for (id, (work, bytes)) in program.work.iter().zip(&expected.bytes).enumerate() {
            assert!(work.bytes == *bytes, "bytes of {id}, {:?}", work.request);
        }
        assert_eq!(peer.received.len(), expected.received.len());
        for (received, expected) in peer.received.iter().zip(&expected.received) {
            assert_eq!(received.0, expected.0);
            assert!(received.1[..expected.1.len()] == expected.1, "bytes of a receive");
        }
    }
}

fn cases(cases: u32) -> ProptestConfig {
    // Where nothing is optimised a part of them has to do.
    let cases = if cfg!(debug_assertions) { cases / 8 } else { cases };
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
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
