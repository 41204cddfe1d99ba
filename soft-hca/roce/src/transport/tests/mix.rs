//! Random requests, and what they come to if they are executed one after the other.

use super::network::Random;
use super::world::{BASE, FIRST_WINDOW, KEY, Work, apply};
use crate::transport::attributes::Mtu;
use crate::transport::request::{Opcode, Remote, WorkRequest};
use crate::transport::target::{Atomic, Completion, Received};
use crate::wire::headers::Feth;
use crate::wire::opcode::SendEnd;

/// Numbers that only atomics change, at the beginning of each memory.
const CELLS: u64 = 4;

/// The expected outcome of one end's requests.
#[derive(Default)]
pub(super) struct Expected {
    /// The peer's memory at the end.
    pub memory: Vec<u8>,
    /// The peer's receives.
    pub received: Vec<(Completion, Vec<u8>)>,
    /// The peer's memory that was flushed.
    pub flushed: Vec<(Remote, u32, Feth)>,
    /// The bytes of each request at the end: what was read is in them.
    pub bytes: Vec<Vec<u8>>,
}

/// Random requests of up to `packets` packets for a peer with `memory`, and what comes of them.
pub(super) fn mix(
    random: &mut Random,
    mtu: Mtu,
    packets: u32,
    count: usize,
    memory: &[u8],
) -> (Vec<Work>, Expected) {
    let mut memory = memory.to_vec();
    let mut window = FIRST_WINDOW;
    let mut expected = Expected::default();
    let mut was_read = false;
    let mut work = Vec::new();
    for id in 0..count {
        let mtu = u64::from(mtu.bytes());
        let most = mtu * u64::from(packets);
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
        let immediate = random.number().to_ne_bytes()[..4].try_into().unwrap();
        let mut bytes = vec![0; length];
        random.fill(&mut bytes);
        let mut atomic = |atomic| apply(&mut memory[cell..cell + 8], atomic).to_ne_bytes().to_vec();
        let mut after = bytes.clone();
        let mut received = None;
        let opcode = match random.below(11) {
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
                let swap = random.number();
                let mut atomic =
                    |atomic| apply(&mut memory[cell..cell + 8], atomic).to_ne_bytes().to_vec();
                bytes = vec![0; 8];
                after = atomic(Atomic::CompareSwap { compare, swap });
                Opcode::CompareSwap { remote: number, compare, swap }
            }
            8 => {
                let add = random.number();
                bytes = vec![0; 8];
                after = atomic(Atomic::FetchAdd(add));
                Opcode::FetchAdd { remote: number, add }
            }
            9 => {
                let feth = Feth { placement: 1, selectivity: random.below(2) as u8 };
                bytes.fill(0);
                after.fill(0);
                expected.flushed.push((remote, length as u32, feth));
                Opcode::Flush(remote, feth)
            }
            _ => {
                bytes = random.number().to_ne_bytes().to_vec();
                after = bytes.clone();
                atomic(Atomic::Write(bytes[..].try_into().unwrap()));
                Opcode::AtomicWrite(number)
            }
        };
        // A read that is answered again after what follows it was executed returns what that
        // wrote; who does not want it fences.
        let changes = !matches!(opcode, Opcode::Send(_) | Opcode::Read(_) | Opcode::Flush(..));
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
