//! A record as packets of RoCE v2 that Wireshark reads (pcapng): those that the run would have sent
//! over a network if every process had been a host of its own.
//!
//! They are built from the entries: connection management, messages in segments of the path MTU,
//! acknowledgements and answers, and refusals for what the record has reasons for. Sequence numbers
//! go on from those of the queue pairs. A record has no payload and no private data, so there are
//! zeros. Each packet has a comment that names its work request or call. Addresses are made up; see
//! `hosts`.
//!
//! Packets of a link to another host are not here: a record has but their headers' beginnings, and
//! `soft-hca run --pcap` records them as they are.

mod connection;
mod hosts;
mod message;
mod queue_pair;
#[cfg(test)]
mod tests;
mod transfers;
mod values;

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use soft_hca_roce::wire::bth::Psn;
use soft_hca_roce::wire::headers::Deth;
use soft_hca_roce::wire::icrc;
use soft_hca_roce::wire::mad::{GSI_QKEY, GSI_QPN};
use soft_hca_roce::wire::opcode::{Operation, Service};
use soft_hca_roce::wire::packet::{Headers, ICRC_BYTES, MAX_BYTES};
use soft_hca_roce::wire::pcapng::{Direction, Record, Recording};

use crate::entry::{Entry, Header};
use connection::Connections;
use hosts::{Host, Hosts};
use queue_pair::QueuePairs;
use transfers::{Transfer, transfers};

/// The name of the interface that has never been there.
const INTERFACE: &str = "made up from a record of soft-hca";

/// Writes a record's packets, in the order of time.
pub fn write<W: Write>(header: &Header, entries: &[Entry], to: W) -> io::Result<()> {
    let hosts = Hosts::new(entries);
    let at_the_end = QueuePairs::at_the_end(entries);
    let messages = Connections::messages(&hosts, &at_the_end, entries);
    let mut bursts = messages.into_iter().map(Burst::from).collect::<Vec<_>>();
    bursts.extend(transfers(&hosts, entries).into_iter().map(Burst::from));
    bursts.sort_by_key(|burst| burst.t);
    let mut recording = Recording::new(to, INTERFACE)?;
    let mut buffer = [0; MAX_BYTES];
    let mut mads = HashMap::new();
    for burst in bursts {
        let time = header.began_since_1970() + Duration::from_nanos(burst.t);
        burst.write(time, &hosts, &mut mads, &mut buffer, &mut recording)?;
    }
    Ok(())
}

/// Packets that are sent together.
#[derive(Debug)]
struct Burst {
    t: u64,
    from: Host,
    to: Host,
    what: What,
    comment: String,
}

#[derive(Debug)]
enum What {
    Mad(Box<[u8]>),
    Transfer(Transfer),
}

impl From<connection::Sent> for Burst {
    fn from(sent: connection::Sent) -> Self {
        let connection::Sent { t, from, to, message, transaction, comment } = sent;
        let what = What::Mad(Box::new(message.encode(transaction).encode()));
        Self { t, from, to, what, comment }
    }
}

impl From<transfers::Sent> for Burst {
    fn from(sent: transfers::Sent) -> Self {
        let transfers::Sent { t, from, to, transfer, comment } = sent;
        Self { t, from, to, what: What::Transfer(transfer), comment }
    }
}

impl Burst {
    fn write<W: Write>(
        &self,
        time: Duration,
        hosts: &Hosts,
        mads: &mut HashMap<Host, Psn>,
        buffer: &mut [u8; MAX_BYTES],
        recording: &mut Recording<W>,
    ) -> io::Result<()> {
        let mut write = |headers: Headers, payload: usize, bytes: &[u8], qp| {
            let Some(flow) = hosts.flow(self.from, self.to, qp) else { return Ok(()) };
            let layout = headers.build(payload, buffer).map_err(io::Error::other)?;
            let packet = &mut buffer[..layout.length];
            packet[layout.payload.start..layout.length - ICRC_BYTES].fill(0);
            packet[layout.payload.start..][..bytes.len()].copy_from_slice(bytes);
            icrc::seal(&flow, packet);
            let record = Record::new(time, Direction::Sent, flow, packet);
            recording.record(&Record { comment: &self.comment, ..record })
        };
        match &self.what {
            What::Mad(mad) => {
                let deth = Deth { qkey: GSI_QKEY, source_qpn: GSI_QPN };
                let operation = Operation::Datagram(deth, None);
                let psn = mads.entry(self.from).or_default();
                let headers = Headers::new(Service::Ud, operation, GSI_QPN, *psn);
                *psn += 1;
                write(headers, mad.len(), mad, GSI_QPN)
            }
            What::Transfer(transfer) => transfer.packets().try_for_each(|(headers, payload)| {
                write(headers, payload, &[], transfer.source_qp())
            }),
        }
    }
}
