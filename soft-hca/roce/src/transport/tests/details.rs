//! Single rules of reliable connections, packet by packet.

use super::world::{BASE, KEY, Program, attributes, request};
use crate::transport::attributes::{Attributes, Mtu};
use crate::transport::request::{Opcode, Outgoing, Payload, Remote, Status, WorkRequest};
use crate::transport::requester::RcRequester;
use crate::transport::responder::{RcResponder, Response};
use crate::transport::target::Refusal;
use crate::wire::bth::{Psn, Qpn};
use crate::wire::headers::{Aeth, Feth, NakCode, Reth, Syndrome};
use crate::wire::opcode::{Operation, SendEnd, Service};
use crate::wire::packet::{Headers, Packet};

const SEND: Opcode = Opcode::Send(SendEnd::Plain);
const READ: Opcode = Opcode::Read(Remote { address: BASE, rkey: KEY });
pub(super) const MTU: Mtu = Mtu::B256;
/// The first packets' numbers are these, 0, 1, ...
pub(super) const FIRST: u32 = 0xff_fffe;

/// No requester or responder here has more packets to send at once.
pub(super) const MOST_AT_ONCE: usize = 10_000;

pub(super) fn psn(packet: u32) -> Psn {
    Psn::new(FIRST) + packet
}

/// Posts requests with these opcodes and lengths.
pub(super) fn requester(
    attributes: Attributes,
    requests: &[(Opcode, u32)],
) -> (RcRequester, Program) {
    let mut requester = RcRequester::new(attributes);
    let mut program = Program::new(0, 0, 0);
    for (id, &(opcode, length)) in (0..).zip(requests) {
        requester.post(request(id, opcode, length));
        program.expect(length);
    }
    (requester, program)
}

/// Everything that may be sent now.
pub(super) fn sent(requester: &mut RcRequester) -> Vec<Outgoing> {
    let mut packets = Vec::new();
    while requester.transmit(0, |run| {
        packets.extend_from_slice(run);
        assert!(packets.len() < MOST_AT_ONCE, "packets without end");
        Ok(())
    }) > 0
    {}
    packets
}

pub(super) fn numbers(packets: &[Outgoing]) -> Vec<u32> {
    packets.iter().map(|packet| packet.headers.psn.distance(psn(0)) as u32).collect()
}

fn respond(
    requester: &mut RcRequester,
    program: &mut Program,
    number: u32,
    operation: Operation,
    payload: &[u8],
) {
    let headers = Headers::new(Service::Rc, operation, Qpn::new(1), psn(number));
    requester.on_packets(0, &[Packet { headers, payload }], program);
}

/// An ACK that comes at that time.
pub(super) fn acknowledge_at(
    requester: &mut RcRequester,
    program: &mut Program,
    number: u32,
    now_ns: u64,
) {
    let operation = Operation::Acknowledge(ACK);
    let headers = Headers::new(Service::Rc, operation, Qpn::new(1), psn(number));
    requester.on_packets(now_ns, &[Packet { headers, payload: &[] }], program);
}

pub(super) fn acknowledge(
    requester: &mut RcRequester,
    program: &mut Program,
    number: u32,
    syndrome: Syndrome,
) {
    let operation = Operation::Acknowledge(Aeth { syndrome, msn: 0 });
    respond(requester, program, number, operation, &[]);
}

const ACK: Aeth = Aeth { syndrome: Syndrome::ACK, msn: 0 };
const SEQUENCE: Syndrome = Syndrome::Nak(NakCode::PsnSequence);

#[test]
fn a_message_is_cut_as_the_kernel_cuts_it() {
    let remote = Remote { address: u64::MAX, rkey: 5 };
    let reth = |length| Reth { address: u64::MAX, rkey: 5, length };
    let end = SendEnd::Immediate([1, 2, 3, 4]);
    let write = Opcode::Write(remote, Some([1; 4]));
    let (mut requester, _) =
        requester(attributes(MTU, FIRST), &[(Opcode::Send(end), 600), (write, 512), (write, 0)]);
    let packets = sent(&mut requester);
    let operations: Vec<_> = packets.iter().map(|packet| packet.headers.operation).collect();
    let expected = [
        Operation::SendFirst,
        Operation::SendMiddle,
        Operation::SendLast(end),
        Operation::WriteFirst(reth(512)),
        Operation::WriteLast(Some([1; 4])),
        Operation::WriteOnly(reth(0), Some([1; 4])),
    ];
    assert_eq!(operations, expected);
    assert_eq!(numbers(&packets), [0, 1, 2, 3, 4, 5]);
    assert!(
        packets.iter().map(|packet| packet.headers.ack_req).eq([0, 0, 1, 0, 1, 1].map(|n| n == 1))
    );
    assert_eq!(packets[2].payload, Payload { id: 0, offset: 512, length: 88 });
    assert_eq!(packets[4].payload, Payload { id: 1, offset: 256, length: 256 });
}

#[test]
fn an_event_is_asked_for_by_the_last_packet() {
    let solicited = |opcode| {
        let mut requester = RcRequester::new(attributes(MTU, 0));
        requester.post(WorkRequest { solicited: true, ..request(0, opcode, 300) });
        sent(&mut requester).iter().map(|packet| packet.headers.solicited).collect::<Vec<_>>()
    };
    let remote = Remote { address: 0, rkey: 0 };
    assert_eq!(solicited(SEND), [false, true]);
    assert_eq!(solicited(Opcode::Write(remote, Some([0; 4]))), [false, true]);
    assert_eq!(solicited(Opcode::Write(remote, None)), [false, false]);
    assert_eq!(solicited(READ), [false]);
}

#[test]
fn the_window_asks_for_its_own_way_on_and_grows() {
    let (mut requester, mut program) = requester(attributes(MTU, FIRST), &[(SEND, 256 * 200)]);
    let packets = sent(&mut requester);
    assert_eq!(packets.len(), 64);
    let asking =
        packets.iter().filter(|packet| packet.headers.ack_req).cloned().collect::<Vec<_>>();
    assert_eq!(numbers(&asking), [15, 31, 47, 63]);
    acknowledge(&mut requester, &mut program, 15, Syndrome::ACK);
    let more: Vec<_> = (64..96).collect();
    assert_eq!(numbers(&sent(&mut requester)), more);
    // A loss makes it half of what it was, and from there it grows by one at a time.
    let lost = Syndrome::Nak(NakCode::PsnSequence);
    acknowledge(&mut requester, &mut program, 16, lost);
    assert_eq!(numbers(&sent(&mut requester)), (16..56).collect::<Vec<_>>());
    acknowledge(&mut requester, &mut program, 55, Syndrome::ACK);
    assert_eq!(numbers(&sent(&mut requester)), (56..97).collect::<Vec<_>>());
}

#[test]
fn reads_are_split_and_counted() {
    let attributes = Attributes { max_rd_atomic: 2, ..attributes(MTU, FIRST) };
    let (mut requester, mut program) = requester(attributes, &[(READ, 256 * 70 - 1), (SEND, 1)]);
    let packets = sent(&mut requester);
    let lengths = |packets: &[Outgoing]| -> Vec<_> {
        packets
            .iter()
            .map(|packet| match packet.headers.operation {
                Operation::ReadRequest(reth) => (reth.address - BASE, reth.length),
                _ => (0, 0),
            })
            .collect()
    };
    assert_eq!(lengths(&packets), [(0, 8192), (8192, 8192)]);
    assert_eq!(numbers(&packets), [0, 32]);
    for number in 0..32 {
        assert!(sent(&mut requester).is_empty());
        let operation = Operation::ReadResponseMiddle;
        respond(&mut requester, &mut program, number, operation, &[number as u8; 256]);
    }
    let packets = sent(&mut requester);
    assert_eq!(lengths(&packets), [(16384, 256 * 6 - 1), (0, 0)]);
    assert_eq!(numbers(&packets), [64, 70]);
    assert_eq!(program.completed, []);
}

#[test]
fn a_fence_waits_for_reads_only() {
    let mut requester = RcRequester::new(attributes(MTU, FIRST));
    let mut program = Program::new(0, 0, 0);
    program.expect(1);
    requester.post(request(0, READ, 1));
    requester.post(request(1, SEND, 1));
    requester.post(WorkRequest { fence: true, ..request(2, SEND, 1) });
    assert_eq!(numbers(&sent(&mut requester)), [0, 1]);
    respond(&mut requester, &mut program, 0, Operation::ReadResponseOnly(ACK), &[0]);
    assert_eq!(numbers(&sent(&mut requester)), [2]);
}

#[test]
fn an_acknowledgement_is_for_all_before() {
    let (mut requester, mut program) = requester(attributes(MTU, FIRST), &[(SEND, 1); 5]);
    sent(&mut requester);
    // Not sent, and answered already.
    for ghost in [5, 100, 0xff_ffff, 0x80_0005] {
        acknowledge(&mut requester, &mut program, ghost, Syndrome::ACK);
        assert_eq!(program.completed, []);
    }
    acknowledge(&mut requester, &mut program, 2, Syndrome::ACK);
    assert_eq!(program.completed, [0, 1, 2].map(|id| (id, Status::Success)));
    acknowledge(&mut requester, &mut program, 1, Syndrome::Nak(NakCode::RemoteAccess));
    acknowledge(&mut requester, &mut program, 2, SEQUENCE);
    assert!(sent(&mut requester).is_empty() && !requester.has_failed());
    acknowledge(&mut requester, &mut program, 4, Syndrome::ACK);
    assert!(requester.is_idle());
    assert_eq!(requester.deadline(), None);
}

#[test]
fn a_lost_answer_to_a_read_is_noticed() {
    let requests = [(SEND, 1), (READ, 600), (SEND, 1)];
    let (mut requester, mut program) = requester(attributes(MTU, FIRST), &requests);
    assert_eq!(numbers(&sent(&mut requester)), [0, 1, 4]);
    // The second of three is lost; the third says so, and also that the first send is done.
    let response = Operation::ReadResponseFirst(ACK);
    respond(&mut requester, &mut program, 1, response, &[1; 256]);
    assert_eq!(program.completed, [(0, Status::Success)]);
    respond(&mut requester, &mut program, 3, Operation::ReadResponseLast(ACK), &[3; 88]);
    let again = sent(&mut requester);
    assert_eq!(numbers(&again), [2, 4]);
    let rest = Reth { address: BASE + 256, rkey: KEY, length: 344 };
    assert_eq!(again[0].headers.operation, Operation::ReadRequest(rest));
    // Later NAKs that were on their way are ignored.
    acknowledge(&mut requester, &mut program, 4, Syndrome::ACK);
    assert!(sent(&mut requester).is_empty());
    respond(&mut requester, &mut program, 2, Operation::ReadResponseFirst(ACK), &[2; 256]);
    respond(&mut requester, &mut program, 3, Operation::ReadResponseLast(ACK), &[3; 88]);
    acknowledge(&mut requester, &mut program, 4, Syndrome::ACK);
    assert_eq!(program.completed, [0, 1, 2].map(|id| (id, Status::Success)));
}

#[test]
fn nobody_goes_back_while_the_receiver_is_not_ready() {
    let attributes = Attributes { retry_cnt: 0, ..attributes(MTU, FIRST) };
    let (mut requester, mut program) = requester(attributes, &[(SEND, 1); 3]);
    sent(&mut requester);
    acknowledge(&mut requester, &mut program, 1, Syndrome::RnrNak { timer: 1 });
    assert_eq!(program.completed, [(0, Status::Success)]);
    acknowledge(&mut requester, &mut program, 1, SEQUENCE);
    acknowledge(&mut requester, &mut program, 1, Syndrome::RnrNak { timer: 31 });
    assert!(sent(&mut requester).is_empty());
    assert_eq!(requester.deadline(), Some(10_000));
    requester.on_timer(9_999, &mut program);
    assert!(sent(&mut requester).is_empty());
    requester.on_timer(10_000, &mut program);
    assert_eq!(numbers(&sent(&mut requester)), [1, 2]);
    assert_eq!(program.completed.len(), 1);
}

#[test]
fn an_acknowledgement_ends_the_wait_for_the_receiver() {
    let (mut requester, mut program) = requester(attributes(MTU, FIRST), &[(SEND, 1); 2]);
    sent(&mut requester);
    acknowledge(&mut requester, &mut program, 0, Syndrome::RnrNak { timer: 1 });
    assert!(sent(&mut requester).is_empty());
    acknowledge(&mut requester, &mut program, 0, Syndrome::Ack { credits: 31 });
    assert_eq!(program.completed, [(0, Status::Success)]);
    assert_eq!(numbers(&sent(&mut requester)), [1]);
    acknowledge(&mut requester, &mut program, 1, Syndrome::Ack { credits: 31 });
    assert!(requester.is_idle());
    assert_eq!(requester.deadline(), None);
}

#[test]
fn an_answer_of_the_wrong_kind_is_an_error() {
    let flush = Feth { placement: 1, selectivity: Feth::RANGE };
    let responses: [(Opcode, Operation, &[u8]); 7] = [
        (SEND, Operation::ReadResponseOnly(ACK), &[0]),
        (SEND, Operation::AtomicAcknowledge(ACK, 0), &[]),
        (READ, Operation::AtomicAcknowledge(ACK, 0), &[]),
        (READ, Operation::ReadResponseOnly(ACK), &[0; 2]),
        (
            Opcode::AtomicWrite(Remote { address: 0, rkey: 0 }),
            Operation::ReadResponseOnly(ACK),
            &[0],
        ),
        (
            Opcode::Flush(Remote { address: 0, rkey: 0 }, flush),
            Operation::ReadResponseOnly(ACK),
            &[0],
        ),
        (
            Opcode::Flush(Remote { address: 0, rkey: 0 }, flush),
            Operation::AtomicAcknowledge(ACK, 0),
            &[],
        ),
    ];
    for (opcode, response, payload) in responses {
        let (mut requester, mut program) = requester(attributes(MTU, FIRST), &[(opcode, 1)]);
        sent(&mut requester);
        respond(&mut requester, &mut program, 0, response, payload);
        assert_eq!(program.completed, [(0, Status::BadResponse)], "{opcode:?}");
    }
}

/// A responder whose program has some pages of memory.
pub(super) fn responder() -> (RcResponder, Program) {
    let mut program = Program::new(0, 0, 0);
    program.memory = (0..0x5000).map(|n| (n / 256) as u8).collect();
    (RcResponder::new(attributes(MTU, FIRST)), program)
}

pub(super) fn arrive(
    responder: &mut RcResponder,
    program: &mut Program,
    number: u32,
    operation: Operation,
    payload: &[u8],
) {
    let headers =
        Headers { ack_req: true, ..Headers::new(Service::Rc, operation, Qpn::new(1), psn(number)) };
    responder.on_packets(&[Packet { headers, payload }], program);
}

pub(super) fn send(responder: &mut RcResponder, program: &mut Program, number: u32) {
    arrive(responder, program, number, Operation::SendOnly(SendEnd::Plain), &[1]);
}

pub(super) fn read(
    responder: &mut RcResponder,
    program: &mut Program,
    number: u32,
    offset: u64,
    length: u32,
) {
    let reth = Reth { address: BASE + offset, rkey: KEY, length };
    arrive(responder, program, number, Operation::ReadRequest(reth), &[]);
}

pub(super) fn responses(responder: &mut RcResponder, program: &mut Program) -> Vec<Response> {
    let mut responses = Vec::new();
    while responder.transmit(program, |_, run| {
        responses.extend_from_slice(run);
        assert!(responses.len() < MOST_AT_ONCE, "responses without end");
        Ok(())
    }) > 0
    {}
    responses
}

fn answer(number: u32, syndrome: Syndrome, msn: u32) -> Response {
    let operation = Operation::Acknowledge(Aeth { syndrome, msn });
    let headers = Headers::new(Service::Rc, operation, attributes(MTU, 0).dest_qpn, psn(number));
    Response { headers, payload: None }
}

#[test]
fn acknowledgements_in_a_row_become_one() {
    let (mut responder, mut program) = responder();
    program.receives = (0..10).map(|_| (0, 1)).collect();
    for number in 0..5 {
        send(&mut responder, &mut program, number);
    }
    assert_eq!(responses(&mut responder, &mut program), [answer(4, Syndrome::ACK, 5)]);
    // Duplicates get the last one again.
    send(&mut responder, &mut program, 1);
    send(&mut responder, &mut program, 2);
    assert_eq!(responses(&mut responder, &mut program), [answer(4, Syndrome::ACK, 5)]);
    assert_eq!(program.received.len(), 5);
}

#[test]
fn a_gap_is_told_once() {
    let (mut responder, mut program) = responder();
    program.receives = (0..10).map(|_| (0, 1)).collect();
    for number in [1, 2, 3] {
        send(&mut responder, &mut program, number);
    }
    assert_eq!(responses(&mut responder, &mut program), [answer(0, SEQUENCE, 0)]);
    send(&mut responder, &mut program, 2);
    assert_eq!(responses(&mut responder, &mut program), []);
    send(&mut responder, &mut program, 0);
    send(&mut responder, &mut program, 2);
    let expected = [answer(0, Syndrome::ACK, 1), answer(1, SEQUENCE, 1)];
    assert_eq!(responses(&mut responder, &mut program), expected);
}

#[test]
fn behind_a_packet_without_a_receive_is_silence() {
    let (mut responder, mut program) = responder();
    let not_ready = answer(0, Syndrome::RnrNak { timer: 3 }, 0);
    for _ in 0..2 {
        for number in [0, 1, 2] {
            send(&mut responder, &mut program, number);
        }
        assert_eq!(responses(&mut responder, &mut program), [not_ready]);
    }
    responder.set_min_rnr_timer(31);
    send(&mut responder, &mut program, 0);
    let not_ready = answer(0, Syndrome::RnrNak { timer: 31 }, 0);
    assert_eq!(responses(&mut responder, &mut program), [not_ready]);
    program.receives.push_back((0, 1));
    send(&mut responder, &mut program, 0);
    send(&mut responder, &mut program, 2);
    let expected = [answer(0, Syndrome::ACK, 1), answer(1, SEQUENCE, 1)];
    assert_eq!(responses(&mut responder, &mut program), expected);
}

/// Bytes of a read whose answer is more than one run.
const LONG: u32 = 65 * 256 + 88;

fn allow(is_allowed: bool) -> Result<(), Refusal> {
    if is_allowed { Ok(()) } else { Err(Refusal::Access) }
}

#[test]
fn memory_that_may_no_longer_be_read() {
    let (mut responder, mut program) = responder();
    read(&mut responder, &mut program, 0, 0, LONG);
    assert_eq!(responder.transmit(&mut program, |_, run| allow(run.len() == 64)), 64);
    assert_eq!(responder.transmit(&mut program, |_, run| allow(run.len() != 2)), 0);
    assert_eq!(program.failed, Some(Refusal::Access));
    let nak = answer(64, Syndrome::Nak(NakCode::RemoteAccess), 1);
    assert_eq!(responses(&mut responder, &mut program), [nak]);
    // A repeated request is not answered then, and nobody fails for it.
    let (mut responder, mut program) = self::responder();
    read(&mut responder, &mut program, 0, 0, 600);
    assert_eq!(responses(&mut responder, &mut program).len(), 3);
    program.memory.clear();
    read(&mut responder, &mut program, 0, 0, 600);
    assert_eq!(responses(&mut responder, &mut program), []);
    assert!(!responder.has_failed());
}

/// Numbers, and first bytes' offsets and lengths, of a read's answer.
pub(super) fn pieces(responses: &[Response]) -> Vec<(u32, u64, u32)> {
    responses
        .iter()
        .map(|response| {
            let (remote, length) = response.payload.unwrap();
            let number = response.headers.psn.distance(psn(0)) as u32;
            (number, remote.address - BASE, length)
        })
        .collect()
}

#[test]
fn a_part_of_a_read_is_answered_again() {
    let (mut responder, mut program) = responder();
    read(&mut responder, &mut program, 0, 0, 600);
    let all = responses(&mut responder, &mut program);
    assert_eq!(pieces(&all), [(0, 0, 256), (1, 256, 256), (2, 512, 88)]);
    let operations = all.iter().map(|response| response.headers.operation).collect::<Vec<_>>();
    let aeth = Aeth { syndrome: Syndrome::ACK, msn: 1 };
    let expected = [
        Operation::ReadResponseFirst(aeth),
        Operation::ReadResponseMiddle,
        Operation::ReadResponseLast(aeth),
    ];
    assert_eq!(operations, expected);
    read(&mut responder, &mut program, 1, 256, 344);
    let part = responses(&mut responder, &mut program);
    assert_eq!(pieces(&part), [(1, 256, 256), (2, 512, 88)]);
    assert_eq!(part[0].headers.operation, Operation::ReadResponseFirst(aeth));
    read(&mut responder, &mut program, 2, 512, 88);
    let part = responses(&mut responder, &mut program);
    assert_eq!(pieces(&part), [(2, 512, 88)]);
    assert_eq!(part[0].headers.operation, Operation::ReadResponseOnly(aeth));
    // More than was read is not answered.
    read(&mut responder, &mut program, 2, 0, 600);
    assert_eq!(responses(&mut responder, &mut program), []);
    // A new one goes on where the first ended.
    read(&mut responder, &mut program, 3, 0, 0);
    assert_eq!(responses(&mut responder, &mut program).len(), 1);
}

#[test]
fn an_answer_under_way_is_not_sent_twice() {
    let (mut responder, mut program) = responder();
    read(&mut responder, &mut program, 0, 0, LONG);
    let mut first = Vec::new();
    responder.transmit(&mut program, |_, run| {
        first.extend_from_slice(run);
        Ok(())
    });
    let piece = |number: u32, length| (number, u64::from(number) * 256, length);
    assert_eq!(pieces(&first), (0..64).map(|number| piece(number, 256)).collect::<Vec<_>>());
    // A repeated request whose answer is to come changes nothing; a lost answer comes first.
    read(&mut responder, &mut program, 64, 64 * 256, LONG - 64 * 256);
    read(&mut responder, &mut program, 63, 63 * 256, LONG - 63 * 256);
    read(&mut responder, &mut program, 63, 63 * 256, LONG - 63 * 256);
    let rest = responses(&mut responder, &mut program);
    assert_eq!(pieces(&rest), [piece(63, 256), piece(64, 256), piece(65, 88)]);
}

#[test]
fn a_flush_is_executed_once_and_answered_as_a_read_of_nothing() {
    let (mut responder, mut program) = responder();
    let feth = Feth { placement: 1, selectivity: Feth::RANGE };
    // More bytes than the MTU are still one packet.
    let reth = Reth { address: BASE + 256, rkey: KEY, length: 1000 };
    let flush = Operation::Flush(feth, reth);
    arrive(&mut responder, &mut program, 0, flush, &[]);
    let answer = responses(&mut responder, &mut program);
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0].headers.operation, Operation::ReadResponseOnly(Aeth { msn: 1, ..ACK }));
    assert_eq!((answer[0].headers.psn, answer[0].payload), (psn(0), None));
    // Its answer was lost.
    arrive(&mut responder, &mut program, 0, flush, &[]);
    assert_eq!(responses(&mut responder, &mut program), answer);
    assert_eq!(program.flushed, [(reth.into(), 1000, feth)]);
}

#[test]
fn a_flush_is_one_packet() {
    let feth = Feth { placement: 1, selectivity: 1 };
    let remote = Remote { address: BASE, rkey: KEY };
    let length = (1 << 31) + 1;
    let requests = [(Opcode::Flush(remote, feth), 2000), (Opcode::Flush(remote, feth), length)];
    let mut requester = RcRequester::new(attributes(MTU, FIRST));
    let mut program = Program::new(0, 0, 0);
    for (id, (opcode, length)) in (0..).zip(requests) {
        requester.post(request(id, opcode, length));
    }
    let packets = sent(&mut requester);
    let reth = |length| Reth { address: BASE, rkey: KEY, length };
    let operations: Vec<_> = packets.iter().map(|packet| packet.headers.operation).collect();
    assert_eq!(
        operations,
        [Operation::Flush(feth, reth(2000)), Operation::Flush(feth, reth(length))]
    );
    assert_eq!(numbers(&packets), [0, 1]);
    assert!(packets.iter().all(|packet| packet.headers.ack_req && packet.payload.length == 0));
    for number in [0, 1] {
        let answer = Operation::ReadResponseOnly(ACK);
        respond(&mut requester, &mut program, number, answer, &[]);
    }
    assert_eq!(program.completed, [(0, Status::Success), (1, Status::Success)]);
}

#[test]
fn answers_that_are_not_sent_do_not_pile_up() {
    let (mut responder, mut program) = responder();
    for number in 0..1000 {
        read(&mut responder, &mut program, number, 0, 1);
        read(&mut responder, &mut program, number / 2, 0, 1);
        send(&mut responder, &mut program, number);
        assert!(responder.kept() <= 20);
    }
}

#[test]
fn wrong_orders_and_lengths_are_invalid() {
    let plain = SendEnd::Plain;
    let reth = |length| Reth { address: BASE, rkey: KEY, length };
    let wrong: &[&[(Operation, usize)]] = &[
        &[(Operation::SendMiddle, 256)],
        &[(Operation::SendLast(plain), 1)],
        &[(Operation::SendFirst, 255)],
        &[(Operation::SendOnly(plain), 257)],
        &[(Operation::SendFirst, 256), (Operation::SendFirst, 256)],
        &[(Operation::SendFirst, 256), (Operation::SendOnly(plain), 1)],
        &[(Operation::SendFirst, 256), (Operation::SendLast(plain), 0)],
        &[(Operation::SendFirst, 256), (Operation::SendMiddle, 1)],
        &[(Operation::SendFirst, 256), (Operation::WriteLast(None), 1)],
        &[(Operation::SendFirst, 256), (Operation::ReadRequest(reth(1)), 0)],
        &[(Operation::WriteOnly(reth(2), None), 1)],
        &[(Operation::WriteOnly(reth(1), None), 2)],
        &[(Operation::WriteOnly(reth(u32::MAX), None), 2)],
        &[(Operation::WriteFirst(reth(256)), 256)],
        &[(Operation::WriteFirst(reth(513)), 256), (Operation::WriteLast(None), 256)],
        &[(Operation::WriteFirst(reth(512)), 256), (Operation::WriteMiddle, 256)],
        &[(Operation::WriteFirst(reth(512)), 256), (Operation::SendLast(plain), 256)],
        &[(Operation::ReadRequest(reth(u32::MAX)), 0)],
        &[(Operation::AtomicWrite(reth(8)), 4)],
        &[(Operation::Flush(Feth { placement: 1, selectivity: Feth::RANGE }, reth(u32::MAX)), 0)],
    ];
    for packets in wrong {
        let (mut responder, mut program) = responder();
        program.receives = (0..10).map(|_| (0, 4096)).collect();
        let last = packets.len() as u32 - 1;
        for (number, (operation, length)) in (0..).zip(*packets) {
            assert!(!responder.has_failed());
            arrive(&mut responder, &mut program, number, *operation, &vec![0; *length]);
        }
        let nak = answer(last, Syndrome::Nak(NakCode::InvalidRequest), 0);
        assert_eq!(responses(&mut responder, &mut program).last(), Some(&nak), "{packets:?}");
        assert!(responder.has_failed());
        assert_eq!(program.received.len(), 0);
        send(&mut responder, &mut program, last + 1);
        send(&mut responder, &mut program, 0);
        assert_eq!(responses(&mut responder, &mut program), []);
    }
}
