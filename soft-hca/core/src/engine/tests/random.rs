//! Random work against a model of what memory has to hold and which completions there have to be.

use proptest::prelude::*;

use super::fabric::*;
use crate::uapi::rxe::Sge;
use crate::uapi::verbs::{opcode, send_flag};

const SIZE: usize = 4096;

#[derive(Clone, Debug)]
struct Work {
    opcode: u32,
    ours: Vec<(usize, usize)>,
    theirs: usize,
    cuts: Vec<usize>,
    is_inline: bool,
    is_signaled: bool,
    /// Rings the doorbell after this one.
    rings: bool,
}

fn work() -> impl Strategy<Value = Work> {
    (
        prop_oneof![
            3 => Just(opcode::SEND),
            1 => Just(opcode::SEND_WITH_IMM),
            2 => Just(opcode::RDMA_WRITE),
            1 => Just(opcode::RDMA_WRITE_WITH_IMM),
            2 => Just(opcode::RDMA_READ),
            1 => Just(opcode::ATOMIC_FETCH_AND_ADD),
        ],
        proptest::collection::vec((0..SIZE - 200, 0..200usize), 0..6),
        0..SIZE - 1200,
        proptest::collection::vec(0..1000usize, 0..4),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(opcode, ours, theirs, cuts, is_inline, is_signaled, rings)| Work {
            opcode,
            ours,
            theirs,
            cuts,
            is_inline,
            is_signaled,
            rings,
        })
}

/// The change to both memories, byte by byte.
fn apply(work: &Work, ours: &mut [u8], theirs: &mut [u8], add_at: usize) -> usize {
    let length: usize = work.ours.iter().map(|(_, length)| length).sum();
    match work.opcode {
        opcode::ATOMIC_FETCH_AND_ADD => {
            let word: [u8; 8] = theirs[add_at..add_at + 8].try_into().unwrap();
            ours[..8].copy_from_slice(&word);
            let sum = u64::from_ne_bytes(word).wrapping_add(1);
            theirs[add_at..add_at + 8].copy_from_slice(&sum.to_ne_bytes());
            8
        }
        opcode::RDMA_READ => {
            let mut at = work.theirs;
            for &(start, length) in &work.ours {
                ours[start..start + length].copy_from_slice(&theirs[at..at + length]);
                at += length;
            }
            length
        }
        _ => {
            let mut at = work.theirs;
            for &(start, length) in &work.ours {
                theirs[at..at + length].copy_from_slice(&ours[start..start + length]);
                at += length;
            }
            length
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn memory_and_completions_agree_with_the_model(
        works in proptest::collection::vec(work(), 1..40),
        by_daemon: bool,
        same_process: bool,
        sends_at_once: bool,
    ) {
        let world = World::sending(sends_at_once);
        let other = if same_process { US } else { THEM };
        let (a, b) = (world.qp(2, US), world.qp(2, other));
        world.connect(a, b);
        let mut ours = world.buffer(US, pattern(1, SIZE));
        let mut theirs = world.buffer(other, pattern(77, SIZE));
        let (mut our_model, mut their_model) = (ours.bytes.clone(), theirs.bytes.clone());
        let add_at = (theirs.addr().next_multiple_of(8) - theirs.addr()) as usize;
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for (i, work) in works.iter().enumerate() {
            let wr_id = i as u64;
            let length: usize = work.ours.iter().map(|(_, length)| length).sum();
            let mut wr = Wr::new(wr_id, work.opcode).imm(9);
            wr.flags = if work.is_signaled { send_flag::SIGNALED } else { 0 };
            if work.opcode == opcode::ATOMIC_FETCH_AND_ADD {
                wr = wr.sge(ours.sge(0, 8)).atomic(theirs.addr() + add_at as u64, theirs.key, 1, 0);
            } else {
                wr = wr.remote(theirs.addr() + work.theirs as u64, theirs.key);
                let is_inline = work.is_inline && length <= 304 && work.opcode != opcode::RDMA_READ;
                // Inline data is what memory held when it was posted, which the model does not
                // know unless all before it is done.
                if is_inline && i.checked_sub(1).is_none_or(|before| works[before].rings) {
                    let bytes: Vec<u8> = work.ours.iter()
                        .flat_map(|&(start, length)| our_model[start..start + length].to_vec())
                        .collect();
                    wr = wr.inline(&bytes);
                } else {
                    wr = work.ours.iter().fold(wr, |wr, &(start, length)| wr.sge(ours.sge(start, length)));
                }
            }
            let takes = matches!(work.opcode, opcode::SEND | opcode::SEND_WITH_IMM | opcode::RDMA_WRITE_WITH_IMM);
            if takes {
                // The receive is cut otherwise than the message, and is longer.
                let mut cuts: Vec<usize> = work.cuts.iter().map(|cut| cut % (length + 1)).collect();
                cuts.extend([0, length + 50]);
                cuts.sort_unstable();
                let sges: Vec<Sge> = cuts.windows(2)
                    .map(|cut| theirs.sge(work.theirs + cut[0], cut[1] - cut[0]))
                    .collect();
                world.receive(b, 1000 + wr_id, &sges);
            }
            let moved = apply(work, &mut our_model, &mut their_model, add_at) as u32;
            if work.is_signaled {
                sent.push((wr_id, moved));
            }
            if takes {
                received.push((1000 + wr_id, moved));
            }
            let is_sent = sends_at_once && work.rings && !by_daemon
                && world.send_at_once(a, std::slice::from_ref(&wr)) == 1;
            if is_sent {
                continue;
            }
            world.put(a, &wr);
            if work.rings || i + 1 == works.len() {
                if by_daemon {
                    world.actor(DAEMON).run_send_queue(a);
                } else {
                    world.doorbell(a);
                }
            }
        }
        let told = |qpn| -> Vec<(u64, u32)> {
            let all = world.poll(qpn);
            assert!(all.iter().all(|cqe| cqe.status == 0), "{all:?}");
            all.iter().map(|cqe| (cqe.wr_id, cqe.byte_len)).collect()
        };
        prop_assert_eq!(told(a), sent);
        prop_assert_eq!(told(b), received);
        prop_assert!(ours.bytes == our_model, "our memory");
        prop_assert!(theirs.bytes == their_model, "their memory");
    }
}
