//! Queue pairs that somebody has made up, or changed, between two steps.

use crate::transport::attributes::{Attributes, Mtu};
use crate::transport::packet_sender::{Busy, PacketSender};
use crate::transport::queue_pair::QueuePair;
use crate::transport::request::{Failure, Remote, SendQueue, Status, WorkRequest};
use crate::transport::snapshot::most_bytes;
use crate::transport::target::{Access, Atomic, Completion, Refusal, Target};
use crate::transport::timers::AckTimer;
use crate::wire::bth::{Psn, Qpn};
use crate::wire::headers::Feth;
use crate::wire::opcode::Service;
use crate::wire::packet::{Headers, MAX_BYTES, Packet};

use super::transport::{Input, datagram, request};

/// Whatever a snapshot says, who goes on with it neither fails nor goes beyond what it is given.
pub fn snapshot(data: &[u8]) {
    let mut input = Input::new(data);
    let attributes = Attributes {
        dest_qpn: Qpn::new(1),
        mtu: Mtu::from_code(input.byte() % 5 + 1).unwrap_or(Mtu::B256),
        sq_psn: Psn::new(1),
        rq_psn: Psn::new(1),
        ack: AckTimer::new(14),
        retry_cnt: 7,
        rnr_retry: 6,
        min_rnr_timer: 1,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
    };
    let service = [Service::Rc, Service::Uc][usize::from(input.byte() % 2)];
    let made = QueuePair::new(service, attributes);
    let mut qp = made.unwrap_or_else(|error| panic!("{error}"));
    qp.modify_to_rts(attributes);
    let mut anybody = Anybody { posted: 0, requests: Vec::new() };
    let mut now = 0;
    while !input.is_empty() {
        let step = input.byte();
        match step % 8 {
            0 => {
                anybody.posted += 1;
                anybody.requests.push(request(anybody.posted, &mut input));
            }
            1 | 2 => {
                now = qp.deadline().unwrap_or(now).max(now);
                let mut queue = Anybody { requests: anybody.requests.split_off(0), ..anybody };
                qp.poll(now, 8, &mut Nowhere, &mut queue, &mut Anybody::default());
                anybody = queue;
            }
            3 => {
                let mut bytes = vec![0; most_bytes(&attributes)];
                let length = qp.save(&mut bytes).map_or(0, <[u8]>::len);
                bytes.truncate(length);
                for _ in 0..step >> 5 {
                    let at = input.number() as usize % bytes.len().max(1);
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = input.byte();
                    }
                }
                qp = QueuePair::restore(&bytes).unwrap_or(qp);
            }
            _ => {
                let psn = Psn::new(1 + u32::from(input.byte()));
                let bytes = datagram(
                    if service == Service::Rc { 0 } else { 0x20 },
                    psn,
                    attributes.mtu,
                    &mut input,
                );
                let Ok(packet) = Packet::parse(&bytes) else { continue };
                let (mut queue, mut target) = (Anybody::default(), Anybody::default());
                qp.handle_packets(now, &[packet], &mut queue, &mut target);
            }
        }
    }
    let _ = QueuePair::restore(data);
}

/// A program that does whatever it is asked for.
#[derive(Default)]
struct Anybody {
    posted: u64,
    requests: Vec<WorkRequest>,
}

impl SendQueue for Anybody {
    fn next_request(&mut self) -> Result<Option<WorkRequest>, Busy> {
        Ok(self.requests.pop())
    }

    fn gather(&mut self, _: u64, _: u32, _: &mut [&mut [u8]]) -> Result<(), Failure> {
        Ok(())
    }

    fn scatter(&mut self, _: u64, _: u32, _: &[&[u8]]) -> Result<(), Failure> {
        Ok(())
    }

    fn complete(&mut self, _: u64, _: Status) -> Result<(), Busy> {
        Ok(())
    }
}

impl Target for Anybody {
    fn consume_receive(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    fn scatter(&mut self, _: u32, _: &[&[u8]]) -> Result<(), Refusal> {
        Ok(())
    }

    fn complete(&mut self, _: Completion) -> Result<(), Refusal> {
        Ok(())
    }

    fn check(&mut self, _: Access, _: Remote, _: u32) -> Result<(), Refusal> {
        Ok(())
    }

    fn read(&mut self, _: Remote, _: &mut [&mut [u8]]) -> Result<(), Refusal> {
        Ok(())
    }

    fn write(&mut self, _: Remote, _: &[&[u8]]) -> Result<(), Refusal> {
        Ok(())
    }

    fn atomic(&mut self, _: Remote, _: Atomic) -> Result<u64, Refusal> {
        Ok(0)
    }

    fn flush(&mut self, _: Remote, _: u32, _: Feth) -> Result<(), Refusal> {
        Ok(())
    }

    fn fail(&mut self, _: Refusal) -> Result<(), Busy> {
        Ok(())
    }
}

/// A network that loses everything. Each packet has to fit its buffer.
struct Nowhere;

impl PacketSender for Nowhere {
    fn send<E: From<Busy>>(
        &mut self,
        packets: impl ExactSizeIterator<Item = (Headers, usize)> + Clone,
        fill: impl FnOnce(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!((1..=64).contains(&packets.len()));
        let mut payloads: Vec<_> = packets.clone().map(|(_, length)| vec![0; length]).collect();
        for (headers, length) in packets {
            assert!(headers.build(length, &mut [0; MAX_BYTES]).is_ok());
        }
        fill(&mut payloads.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())
    }
}
