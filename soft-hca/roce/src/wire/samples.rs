//! Packets for tests: one with each opcode, and any.

use proptest::prelude::*;

use super::bth::{Psn, Qpn};
use super::headers::{Aeth, AtomicEth, Deth, Feth, Reth, Syndrome};
use super::opcode::{Operation, SendEnd, Service};
use super::packet::Headers;

/// The values that extended headers are made of.
#[derive(Clone, Copy, Debug)]
struct Values {
    reth: Reth,
    atomic: AtomicEth,
    aeth: Aeth,
    deth: Deth,
    feth: Feth,
    immediate: [u8; 4],
}

fn operations(values: Values) -> Vec<(Service, Operation)> {
    let Values { reth, atomic, aeth, deth, feth, immediate } = values;
    let connected = [
        Operation::SendFirst,
        Operation::SendMiddle,
        Operation::SendLast(SendEnd::Plain),
        Operation::SendLast(SendEnd::Immediate(immediate)),
        Operation::SendOnly(SendEnd::Plain),
        Operation::SendOnly(SendEnd::Immediate(immediate)),
        Operation::WriteFirst(reth),
        Operation::WriteMiddle,
        Operation::WriteLast(None),
        Operation::WriteLast(Some(immediate)),
        Operation::WriteOnly(reth, None),
        Operation::WriteOnly(reth, Some(immediate)),
    ];
    let reliable = [
        Operation::ReadRequest(reth),
        Operation::ReadResponseFirst(aeth),
        Operation::ReadResponseMiddle,
        Operation::ReadResponseLast(aeth),
        Operation::ReadResponseOnly(aeth),
        Operation::Acknowledge(aeth),
        Operation::AtomicAcknowledge(aeth, atomic.compare),
        Operation::CompareSwap(atomic),
        Operation::FetchAdd(atomic),
        Operation::SendLast(SendEnd::Invalidate(reth.rkey)),
        Operation::SendOnly(SendEnd::Invalidate(reth.rkey)),
        Operation::Flush(feth, reth),
        Operation::AtomicWrite(reth),
    ];
    let datagrams = [Operation::Datagram(deth, None), Operation::Datagram(deth, Some(immediate))];
    let of = |service, operations: &[Operation]| {
        operations.iter().map(move |operation| (service, *operation)).collect::<Vec<_>>()
    };
    [
        of(Service::Rc, &connected),
        of(Service::Rc, &reliable),
        of(Service::Uc, &connected),
        of(Service::Ud, &datagrams),
        of(Service::Cnp, &[Operation::CongestionNotification]),
    ]
    .concat()
}

/// Headers with each opcode, in their order.
pub(crate) fn headers() -> Vec<Headers> {
    let values = Values {
        reth: Reth { address: 0x7f00_1234_5678, rkey: 0x1a2b, length: 4 },
        atomic: AtomicEth { address: 0x7f00_1234_5678, rkey: 0x1a2b, swap_or_add: 7, compare: 3 },
        aeth: Aeth { syndrome: Syndrome::ACK, msn: 5 },
        deth: Deth { qkey: 0x1111_1111, source_qpn: Qpn::new(0x22) },
        feth: Feth { placement: 1, selectivity: 0 },
        immediate: [1, 2, 3, 4],
    };
    let of = |(service, operation)| {
        Headers::new(service, operation, Qpn::new(0x11), Psn::new(0xfe_dcba))
    };
    operations(values).into_iter().map(of).collect()
}

fn number() -> impl Strategy<Value = u32> {
    0..1u32 << 24
}

fn values() -> impl Strategy<Value = Values> {
    let reth =
        any::<(u64, u32, u32)>().prop_map(|(address, rkey, length)| Reth { address, rkey, length });
    let atomic = any::<(u64, u32, u64, u64)>().prop_map(|(address, rkey, swap_or_add, compare)| {
        AtomicEth { address, rkey, swap_or_add, compare }
    });
    let aeth = any::<[u8; 4]>().prop_map(|bytes| Aeth::decode(&bytes));
    let deth = any::<[u8; 8]>().prop_map(|bytes| Deth::decode(&bytes));
    let feth = any::<[u8; 4]>().prop_map(|bytes| Feth::decode(&bytes));
    (reth, atomic, aeth, deth, feth, any::<[u8; 4]>()).prop_map(
        |(reth, atomic, aeth, deth, feth, immediate)| Values {
            reth,
            atomic,
            aeth,
            deth,
            feth,
            immediate,
        },
    )
}

/// Any headers that can be built.
pub(crate) fn any_headers() -> impl Strategy<Value = Headers> {
    let which = any::<prop::sample::Index>();
    let numbers = (1..1u32 << 24, number(), any::<u16>());
    (values(), which, numbers, any::<[bool; 5]>()).prop_map(
        |(values, which, (dest_qpn, psn, pkey), flags)| {
            let operations = operations(values);
            let (service, operation) = operations[which.index(operations.len())];
            let [solicited, mig_req, fecn, becn, ack_req] = flags;
            let psn = Psn::new(psn);
            Headers {
                service,
                operation,
                solicited,
                mig_req,
                pkey,
                fecn,
                becn,
                dest_qpn: Qpn::new(dest_qpn),
                ack_req,
                psn,
            }
        },
    )
}

/// Payloads of any length, mostly short.
pub(crate) fn payload() -> impl Strategy<Value = Vec<u8>> {
    let any_bytes = |lengths| prop::collection::vec(any::<u8>(), lengths);
    prop_oneof![4 => any_bytes(0..40), 1 => any_bytes(4090..4097)]
}

/// Random bytes, of which many begin as a packet does.
pub(crate) fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![0..0x1eu8, 0x20..0x2cu8, Just(0x64), Just(0x65), any::<u8>()];
    let flags = prop_oneof![Just(0x40), 0..0x80u8, any::<u8>()];
    let rest = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..80),
        1 => prop::collection::vec(any::<u8>(), 4080..4140),
    ];
    (opcode, flags, rest).prop_map(|(opcode, flags, rest)| [vec![opcode, flags], rest].concat())
}

/// Random numbers that are the same in every run (`splitmix64`).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 32) as u32
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}
