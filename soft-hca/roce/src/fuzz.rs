//! Fuzz targets: each takes any bytes and checks what has to hold whatever they are. `soft-hca/fuzz`
//! runs them with coverage; a few random inputs run with the unit tests.

mod snapshot;
mod transport;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::wire::cm::{CmaHeader, Message};
use crate::wire::icrc;
use crate::wire::ip::{Addresses, Flow};
use crate::wire::mad::{GSI_QPN, Header, Mad};
use crate::wire::packet::{PORT, Packet};
use crate::wire::pcapng::{Direction, Record, Recording};

pub use snapshot::snapshot;
pub use transport::transport;

/// Input from a network: packets, management datagrams, the connection manager's messages.
pub fn wire(data: &[u8]) {
    packet(data);
    check(data);
    mad(data);
    // A message, however short the input is.
    let mut message = [1, 7, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec();
    if let [kind, data @ ..] = data {
        message[17] = 0x10 + kind % 12;
        message.resize(Header::BYTES, 0);
        message.extend(data);
        message.resize(256, *kind);
        mad(&message);
    }
    if let Some(header) = data.first_chunk().and_then(CmaHeader::decode) {
        assert_eq!(CmaHeader::decode(&header.encode()), Some(header));
    }
}

/// A packet that is read is read again after it was built.
fn packet(data: &[u8]) {
    let Ok(packet) = Packet::parse(data) else { return };
    let mut buffer = vec![0xa5; data.len()];
    let length = packet.build(&mut buffer);
    let length = length.unwrap_or_else(|error| panic!("{packet:?}: {error}"));
    assert_eq!(Packet::parse(&buffer[..length]), Ok(packet));
    assert_eq!(packet.headers.operation.opcode(packet.headers.service), Some(data[0]));
    if packet.headers.dest_qpn == GSI_QPN {
        mad(packet.payload);
    }
}

/// A sealed packet is right, and a recording takes it.
fn check(data: &[u8]) {
    let v4 = Addresses::V4 {
        source: Ipv4Addr::new(192, 0, 2, 1),
        destination: Ipv4Addr::new(192, 0, 2, 2),
    };
    let v6 = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::UNSPECIFIED };
    for addresses in [v4, v6] {
        let flow = Flow { addresses, source_port: 49152, destination_port: PORT };
        icrc::check(&flow, data);
        let mut packet = data.to_vec();
        icrc::seal(&flow, &mut packet);
        let right = icrc::check(&flow, &packet);
        assert_eq!(right.is_some(), Packet::is_length(packet.len()));
        let mut record = Record::new(Duration::ZERO, Direction::Received, flow, &packet);
        record.comment = std::str::from_utf8(data).unwrap_or_default();
        let mut recording = Recording::new(Vec::new(), "fuzz").unwrap_or_else(|e| panic!("{e}"));
        recording.record(&record).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// A management datagram that is read is read again after it was written.
fn mad(bytes: &[u8]) {
    let Some(mad) = Mad::decode(bytes) else { return };
    assert_eq!(Mad::decode(&mad.encode()).as_ref(), Some(&mad));
    let Ok(message) = Message::decode(&mad) else { return };
    let encoded = message.encode(mad.header.transaction);
    assert_eq!(Message::decode(&encoded), Ok(message));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::wire::samples;

    proptest! {
        #[test]
        fn random_bytes_hold(input in samples::datagram()) {
            super::wire(&input);
        }

        #[test]
        fn random_bytes_do_no_harm_to_a_connection(
            input in prop::collection::vec(any::<u8>(), 0..2000),
        ) {
            super::transport(&input);
            super::snapshot(&input);
        }
    }
}
