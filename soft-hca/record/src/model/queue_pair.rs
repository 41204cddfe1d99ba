//! Queue pairs.

use soft_hca_verbs::{Mtu, QpState};

use super::messages::Ends;
use super::receives::Receives;
use super::send_queue::SendQueue;
use super::stalled::Stalled;
use crate::arguments::{self, cq, number};
use crate::entry::ReceiveQueue;
use crate::value::{Named, Value};

/// How the life of a queue pair has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By `ibv_destroy_qp`.
    Destroyed,
    /// With its process.
    Process,
}

/// The capacity that was requested at creation. The provider may have given more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Capacity {
    /// `max_send_wr`
    pub send_wr: u64,
    /// `max_recv_wr`
    pub recv_wr: u64,
    /// `max_send_sge`
    pub send_sge: u64,
    /// `max_recv_sge`
    pub recv_sge: u64,
    /// `max_inline_data`
    pub inline: u64,
}

/// A queue pair.
#[derive(Clone, Debug, Default)]
pub struct QueuePair {
    /// Its process.
    pub process: u32,
    /// Its creation is on record.
    pub is_whole: bool,
    /// How, and when.
    pub end: Option<(End, u64)>,
    /// Its capacity.
    pub requested: Capacity,
    /// `sq_sig_all`
    pub signals_all: bool,
    /// The queue that its sends complete to.
    pub send_cq: Option<u32>,
    /// The queue that its receives complete to.
    pub recv_cq: Option<u32>,
    /// The shared queue that has its receives.
    pub srq: Option<u32>,
    /// `dest_qp_num`
    pub peer: Option<u32>,
    /// RDMA reads and atomic operations that it may have on their way.
    pub max_rd_atomic: u64,
    /// Those that its peer may have.
    pub max_dest_rd_atomic: u64,
    /// The MTU of its path.
    pub path_mtu: Option<Mtu>,
    /// The connection manager has connected it, or was asked for its attributes.
    pub is_managed: bool,
    /// When its program has accepted the connection, or confirmed that the peer has: the peer may send from then on.
    pub opened: Option<u64>,
    /// Its packets go to another host.
    pub has_packets: bool,
    /// One of its requests has failed, not by being flushed.
    pub has_failed: bool,
    /// It is in the error state, by a failure or by its program.
    pub is_in_error: bool,
    /// When its program has put it there, and the library's call that did it.
    pub shut: Option<(u64, Option<String>)>,
    /// The program has polled the completion of a request that has failed.
    pub failure_is_seen: bool,
    /// Its send queue.
    pub sends: SendQueue,
    /// The request at the head of its send queue waits.
    pub stalled: Option<Stalled>,
    /// Its own receives.
    pub receives: Receives,
    /// Messages that it has got.
    pub messages: u64,
    /// Messages of which only one end is on record.
    pub ends: Ends,
}

impl QueuePair {
    /// One that was created by a call with these arguments.
    pub(super) fn new(process: u32, args: &[Named]) -> Self {
        let of = |name| number(args, name).unwrap_or_default();
        let requested = Capacity {
            send_wr: of("max_send_wr"),
            recv_wr: of("max_recv_wr"),
            send_sge: of("max_send_sge"),
            recv_sge: of("max_recv_sge"),
            inline: of("max_inline_data"),
        };
        Self {
            process,
            is_whole: true,
            requested,
            signals_all: of("sq_sig_all") != 0,
            send_cq: cq(args, "send_cq"),
            recv_cq: cq(args, "recv_cq"),
            srq: arguments::srq(args, "srq"),
            ..Self::default()
        }
    }

    /// One that was used before its creation, if that is on record at all.
    pub(super) fn unknown(process: u32) -> Self {
        Self { process, ..Self::default() }
    }

    /// The queue that its receives are in.
    pub fn receive_queue(&self, number: u32) -> ReceiveQueue {
        self.srq.map_or(ReceiveQueue::Qp(number), ReceiveQueue::Srq)
    }

    /// Whether it is there.
    pub fn is_alive(&self) -> bool {
        self.end.is_none()
    }

    /// `ibv_modify_qp` but for what it empties.
    pub(super) fn modify(&mut self, t: u64, args: &[Named], by: Option<String>) -> Option<QpState> {
        let state = arguments::word(args, "qp_state");
        if state == Some(QpState::RESET) {
            self.reset();
        }
        for Named(name, value) in args {
            match (name.as_str(), value) {
                ("max_rd_atomic", Value::Number(depth)) => self.max_rd_atomic = *depth as u64,
                ("max_dest_rd_atomic", Value::Number(depth)) => {
                    self.max_dest_rd_atomic = *depth as u64;
                }
                ("dest_qp_num", Value::Name(peer)) => self.peer = u32::try_from(peer.number()).ok(),
                _ => {}
            }
        }
        self.path_mtu = arguments::word(args, "path_mtu").or(self.path_mtu);
        if state == Some(QpState::ERR) {
            self.is_in_error = true;
            self.shut.get_or_insert((t, by));
        }
        state
    }

    fn reset(&mut self) {
        *self = Self {
            process: self.process,
            is_whole: self.is_whole,
            requested: self.requested,
            signals_all: self.signals_all,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            srq: self.srq,
            // Until it is connected anew.
            peer: self.peer,
            is_managed: self.is_managed,
            has_packets: self.has_packets,
            ..Self::default()
        };
    }
}
