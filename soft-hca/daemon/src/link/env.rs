//! The data path's environment in the link's thread.

use std::sync::Arc;

use soft_hca_core::engine::{Async, DAEMON, Env, RemoteDatagram, trace_packet};
use soft_hca_core::port::LinkPort;
use soft_hca_core::port::Path;
use soft_hca_core::system;
use soft_hca_core::trace::{Event, event};
use soft_hca_roce::wire::bth::{Psn, Qpn};
use soft_hca_roce::wire::headers::Deth;
use soft_hca_roce::wire::ip;
use soft_hca_roce::wire::mad::GSI_QPN;
use soft_hca_roce::wire::opcode::{Operation, Service};
use soft_hca_roce::wire::packet::Headers;

use crate::env::DaemonEnv;
use crate::link::handle::Shared;
use crate::link::tap::Tap;

/// The thread's side of it.
#[derive(Debug)]
pub(super) struct LinkEnv {
    pub daemon: Arc<DaemonEnv>,
    pub shared: Arc<Shared>,
    pub port: LinkPort<Tap>,
}

impl Env for LinkEnv {
    fn now_ns(&self) -> u64 {
        system::now_ns()
    }

    fn wake_channel(&self, channel: u32, generation: u32) {
        self.daemon.wake_channel(channel, generation);
    }

    fn reschedule(&self, qpn: u32, after_ns: u64) {
        self.daemon.reschedule(qpn, after_ns);
        self.shared.mads.wake();
    }

    fn raise(&self, what: Async) {
        self.daemon.raise(what);
        self.shared.mads.wake();
    }

    fn trace(&self, proc: u32, event: &Event, tail: &[u8]) {
        self.daemon.trace(proc, event, tail);
    }

    fn link_doorbell(&self, qpn: u32) {
        self.shared.arena.link_doorbell(qpn);
    }

    fn send_datagram(&self, datagram: &RemoteDatagram<'_>) -> bool {
        if datagram.hop_limit == Some(0) {
            // For a group, but for none of other hosts.
            return true;
        }
        let path = Path {
            traffic_class: datagram.traffic_class,
            hop_limit: datagram.hop_limit,
            ..Path::new(ip::address(&datagram.sgid), ip::address(&datagram.dgid))
        };
        let deth = Deth { qkey: datagram.qkey, source_qpn: Qpn::new(datagram.source_qpn) };
        let headers = Headers {
            solicited: datagram.solicited,
            ..Headers::new(
                Service::Ud,
                Operation::Datagram(deth, datagram.immediate),
                Qpn::new(datagram.dest_qpn),
                Psn::new(datagram.psn),
            )
        };
        let fill = |bytes: &mut [u8]| -> Result<(), std::convert::Infallible> {
            bytes.copy_from_slice(datagram.payload);
            Ok(())
        };
        let is_sent = self.port.send(&path, &headers, datagram.payload.len(), fill).is_some();
        if is_sent && deth.source_qpn != GSI_QPN {
            trace_packet(&self.shared.arena, self, || event::Packet {
                qpn: datagram.source_qpn,
                length: datagram.payload.len() as u32,
                ..event::Packet::of(&headers, (path.own, path.peer))
            });
        }
        is_sent
    }

    fn is_there(&self, proc: usize) -> bool {
        proc == DAEMON || self.daemon.is_there(proc)
    }
}
