//! Duplicate requests: one that was executed before gets its response again, any other gets none.

use std::collections::HashMap;

use proptest::prelude::*;

use super::details::{MTU, arrive, pieces, read, responder, responses, send};
use super::world::{BASE, KEY, Program, cases};
use crate::transport::responder::{RcResponder, Response};
use crate::wire::headers::{AtomicEth, Feth, Reth};
use crate::wire::opcode::Operation;

/// Reads and atomics that are kept.
const KEPT: u32 = 4;
/// Packets of each read below.
const PACKETS: u32 = 3;
const LENGTH: u32 = 600;

/// A responder that has executed five reads, of which it keeps the last four, and two sends.
fn after_reads() -> (RcResponder, Program) {
    let (mut responder, mut program) = responder();
    for number in 0..=KEPT {
        read(&mut responder, &mut program, number * PACKETS, place(number), LENGTH);
    }
    program.receives = (0..2).map(|_| (0, 1)).collect();
    let end = (KEPT + 1) * PACKETS;
    for number in [end, end + 1] {
        send(&mut responder, &mut program, number);
    }
    assert_eq!(responses(&mut responder, &mut program).len() as u32, end + 1);
    (responder, program)
}

/// The offset at which a read begins.
fn place(number: u32) -> u64 {
    u64::from(number) * 1024
}

fn duplicate_read(number: u32, reth: Reth) -> Vec<Response> {
    let (mut responder, mut program) = after_reads();
    arrive(&mut responder, &mut program, number, Operation::ReadRequest(reth), &[]);
    let answer = responses(&mut responder, &mut program);
    assert!(!responder.has_failed() && program.failed.is_none());
    answer
}

#[test]
fn only_what_was_read_is_read_again() {
    let mtu = u64::from(MTU.bytes());
    let reth = |address, length| Reth { address: BASE + address, rkey: KEY, length };
    let second = place(1);
    for (number, offset, length, expected) in [
        (3, 0, 600, &[(3, 0, 256), (4, 256, 256), (5, 512, 88)][..]),
        // The rest of it, and a part of it.
        (4, mtu, 344, &[(4, 256, 256), (5, 512, 88)]),
        (5, 2 * mtu, 88, &[(5, 512, 88)]),
        (3, 0, 512, &[(3, 0, 256), (4, 256, 256)]),
        (4, mtu, 1, &[(4, 256, 1)]),
    ] {
        let expected: Vec<_> = expected
            .iter()
            .map(|&(number, offset, length)| (number, second + offset, length))
            .collect();
        let answer = duplicate_read(number, reth(second + offset, length));
        assert_eq!(pieces(&answer), expected, "{number} {offset} {length}");
    }
    let whole = reth(second, LENGTH);
    let longest = 0x5000 - second as u32;
    for (why, number, reth) in [
        ("a PSN that the connection never had", 0u32.wrapping_sub(1_000_000), whole),
        ("the PSN before the first one", u32::MAX, whole),
        ("a read that is no longer kept", 0, reth(0, LENGTH)),
        ("the rest of one that is no longer kept", 2, reth(2 * mtu, 88)),
        ("the PSN of a send", (KEPT + 1) * PACKETS, reth(0, 1)),
        ("another read's PSN", 6, whole),
        ("another address", 3, reth(second + 1, 1)),
        ("an address before it", 3, reth(second - 1, 1)),
        ("another part's address", 4, reth(second, 344)),
        ("an address as far behind as the PSN is not", 3, reth(second + mtu, 344)),
        ("another key", 3, Reth { rkey: KEY + 1, ..whole }),
        ("one byte more", 3, reth(second, LENGTH + 1)),
        ("all there is", 3, reth(second, longest)),
        ("one byte more than the rest", 4, reth(second + mtu, 345)),
        ("more than any message has", 3, reth(second, u32::MAX)),
        ("the end of the address space", 3, Reth { address: u64::MAX, ..whole }),
    ] {
        assert_eq!(duplicate_read(number, reth), [], "{why}");
    }
}

#[test]
fn a_read_of_nothing_is_answered_again() {
    let (mut responder, mut program) = responder();
    read(&mut responder, &mut program, 0, 0, 0);
    let answer = responses(&mut responder, &mut program);
    assert_eq!(answer.len(), 1);
    read(&mut responder, &mut program, 0, 0, 0);
    assert_eq!(responses(&mut responder, &mut program), answer);
    read(&mut responder, &mut program, 0, 0, 1);
    assert_eq!(responses(&mut responder, &mut program), []);
}

#[test]
fn only_what_was_executed_once_is_answered_again() {
    let cell = AtomicEth { address: BASE, rkey: KEY, swap_or_add: 5, compare: 7 };
    let reth = Reth { address: BASE, rkey: KEY, length: 8 };
    let feth = Feth { placement: 1, selectivity: Feth::RANGE };
    let requests = [
        Operation::CompareSwap(cell),
        Operation::CompareSwap(AtomicEth { compare: 8, ..cell }),
        Operation::CompareSwap(AtomicEth { rkey: KEY + 1, ..cell }),
        Operation::FetchAdd(cell),
        Operation::FetchAdd(AtomicEth { address: BASE + 8, ..cell }),
        Operation::AtomicWrite(reth),
        Operation::AtomicWrite(Reth { address: BASE + 8, ..reth }),
        Operation::Flush(feth, reth),
        Operation::Flush(feth, Reth { length: 9, ..reth }),
        Operation::ReadRequest(reth),
    ];
    let payload = |operation| match operation {
        Operation::AtomicWrite(_) => &[1; 8][..],
        _ => &[],
    };
    let is_legal =
        |operation| !matches!(operation, Operation::CompareSwap(cell) if cell.rkey != KEY);
    for (first, executed) in requests.into_iter().enumerate().filter(|(_, first)| is_legal(*first))
    {
        for (second, request) in requests.into_iter().enumerate() {
            let (mut responder, mut program) = responder();
            arrive(&mut responder, &mut program, 0, executed, payload(executed));
            let answer = responses(&mut responder, &mut program);
            assert_eq!(answer.len(), 1, "{executed:?}");
            let memory = program.memory.clone();
            // The same request with the PSN before it gets no response.
            arrive(&mut responder, &mut program, u32::MAX, executed, payload(executed));
            assert_eq!(responses(&mut responder, &mut program), [], "{executed:?}");
            for _ in 0..2 {
                arrive(&mut responder, &mut program, 0, request, payload(request));
            }
            let expected = if first == second { &answer[..] } else { &[] };
            let again = responses(&mut responder, &mut program);
            assert_eq!(again, expected, "{executed:?} {request:?}");
            assert_eq!(program.memory, memory);
        }
    }
}

/// Requests of the property below: each is a read, or a send in its place if the flag is false.
fn requests() -> impl Strategy<Value = Vec<(Reth, bool)>> {
    let reth = (0..8u64, 0..4u64, 0..1100u32).prop_map(|(place, offset, length)| Reth {
        address: BASE + place * 1024 + offset * 256,
        rkey: KEY,
        length,
    });
    prop::collection::vec((reth, prop::bool::weighted(0.7)), 1..12)
}

proptest! {
    #![proptest_config(cases(400))]
    /// A read that comes again gets, at each PSN, the bytes that were sent with this PSN before, or
    /// fewer of them, or nothing.
    #[test]
    fn no_duplicate_brings_other_bytes(
        requests in requests(),
        again in prop::collection::vec((0..40i32, requests()), 1..4),
    ) {
        let (mut responder, mut program) = responder();
        program.receives = requests.iter().map(|_| (0, 1)).collect();
        let (mut number, mut brought) = (0, HashMap::new());
        for (reth, is_read) in &requests {
            if *is_read {
                arrive(&mut responder, &mut program, number, Operation::ReadRequest(*reth), &[]);
                number += MTU.packets(reth.length);
            } else {
                send(&mut responder, &mut program, number);
                number += 1;
            }
            let answer = responses(&mut responder, &mut program);
            let data = answer.iter().filter(|response| response.payload.is_some()).copied();
            let pieces = pieces(&data.collect::<Vec<_>>());
            brought.extend(pieces.into_iter().map(|(number, from, length)| (number, (from, length))));
        }
        for (behind, requests) in again {
            for (reth, _) in requests {
                let duplicate = number.wrapping_add_signed(-1 - behind);
                arrive(&mut responder, &mut program, duplicate, Operation::ReadRequest(reth), &[]);
                let answer = responses(&mut responder, &mut program);
                let data = answer.iter().filter(|response| response.payload.is_some()).copied();
                for (number, from, length) in pieces(&data.collect::<Vec<_>>()) {
                    let before = brought.get(&number).copied();
                    prop_assert!(
                        before.is_some_and(|(at, most)| at == from && length <= most),
                        "{number}: {from} {length} {before:?}"
                    );
                }
                prop_assert!(!responder.has_failed());
            }
        }
    }
}
