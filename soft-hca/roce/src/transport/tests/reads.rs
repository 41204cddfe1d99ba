//! The data of reads, which leaves before what has come behind them is executed.

use super::details::FIRST;
use super::network::{Faults, Network, Random};
use super::world::{BASE, KEY, NetworkPort, Program, attributes};
use crate::transport::attributes::Mtu;
use crate::transport::queue_pair::QueuePair;
use crate::wire::bth::{Psn, Qpn};
use crate::wire::headers::Reth;
use crate::wire::opcode::{Operation, SendEnd, Service};
use crate::wire::packet::{Headers, Packet};

/// After each of the peer's packets, how many packets have been sent in all, without a poll.
fn sent_after(operations: &[Operation]) -> Vec<u64> {
    let mut qp = QueuePair::new(Service::Rc, attributes(Mtu::B256, FIRST)).unwrap();
    let (mut silent, mut receiver) = (Program::new(0, 0, 0), Program::new(0, 1024, 0));
    receiver.receives = operations.iter().map(|_| (0, 16)).collect();
    let (mut network, mut random) = (Network::new(0, Faults::default()), Random::new(0));
    let after = (0..).zip(operations).map(|(number, operation)| {
        let psn = Psn::new(FIRST) + number;
        let mut headers = Headers::new(Service::Rc, *operation, Qpn::new(1), psn);
        headers.ack_req = true;
        qp.handle_packets(0, &[Packet { headers, payload: &[] }], &mut silent, &mut receiver);
        let (network, random) = (&mut network, &mut random);
        let mut port = NetworkPort { network, random, busy: 0, now_ns: 0, to: 1 };
        qp.send_data(64, &mut port, &mut receiver);
        port.network.sent[1]
    });
    after.collect()
}

#[test]
fn it_is_sent_with_what_is_to_come_before() {
    let send = Operation::SendOnly(SendEnd::Plain);
    let read = |length| Operation::ReadRequest(Reth { address: BASE, rkey: KEY, length });
    // Acknowledgements alone, and responses without data, wait for the next poll.
    assert_eq!(sent_after(&[send, read(0)]), [0, 0]);
    assert_eq!(sent_after(&[send, read(600)]), [0, 1 + 3]);
    assert_eq!(sent_after(&[read(1), send]), [1, 1]);
}
