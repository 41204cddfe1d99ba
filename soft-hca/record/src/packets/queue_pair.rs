//! What calls say of queue pairs.

use std::collections::HashMap;

use soft_hca_roce::wire::bth::Psn;
use soft_hca_roce::wire::opcode::Service;

use super::values::{argument, argument_number, argument_text, number, result};
use crate::entry::{Call, Entry, Executed, Outcome, What};
use crate::value::Value;

/// The path MTU where it was not recorded: what the device's port has.
const MTU: usize = 1024;

/// A queue pair's attributes, as far as they were recorded.
#[derive(Clone, Debug)]
pub(super) struct QueuePair {
    pub(super) process: u32,
    pub(super) service: Service,
    pub(super) path_mtu: Option<usize>,
    pub(super) dest_qp: Option<u32>,
    pub(super) rq_psn: Option<Psn>,
    pub(super) sq_psn: Option<Psn>,
    pub(super) qkey: Option<u32>,
    pub(super) has_srq: bool,
    /// The packet that is sent next.
    pub(super) next: Psn,
    /// Messages that it has completed for its peer.
    pub(super) msn: u32,
}

impl QueuePair {
    fn new(process: u32, service: Service) -> Self {
        Self {
            process,
            service,
            path_mtu: None,
            dest_qp: None,
            rq_psn: None,
            sq_psn: None,
            qkey: None,
            has_srq: false,
            next: Psn::new(0),
            msn: 0,
        }
    }

    pub(super) fn mtu(&self) -> usize {
        self.path_mtu.unwrap_or(MTU)
    }

    fn modify(&mut self, call: &Call) {
        if argument_text(call, "qp_state") == Some("IBV_QPS_RESET") {
            let has_srq = self.has_srq;
            *self = Self { has_srq, ..Self::new(self.process, self.service) };
        }
        let psn = |name| argument_number(call, name).map(Psn::new);
        self.path_mtu = argument(call, "path_mtu").and_then(mtu).or(self.path_mtu);
        self.dest_qp = argument_number(call, "dest_qp_num").or(self.dest_qp);
        self.qkey = argument_number(call, "qkey").or(self.qkey);
        if let Some(psn) = psn("rq_psn") {
            self.rq_psn = Some(psn);
        }
        if let Some(psn) = psn("sq_psn") {
            (self.sq_psn, self.next) = (Some(psn), psn);
        }
    }
}

/// Bytes of a path MTU: `IBV_MTU_1024`, or the number of that.
fn mtu(value: &Value) -> Option<usize> {
    let bytes = match value {
        Value::Text(text) => text.strip_prefix("IBV_MTU_")?.parse().ok()?,
        other => match number(other)? {
            code @ 1..=5 => 128 << code,
            bytes => bytes as usize,
        },
    };
    matches!(bytes, 256 | 512 | 1024 | 2048 | 4096).then_some(bytes)
}

/// The queue pairs of a fabric by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct QueuePairs(HashMap<u32, QueuePair>);

impl QueuePairs {
    /// What the whole record says: connections are agreed upon before all attributes are set.
    pub(super) fn at_the_end(entries: &[Entry]) -> Self {
        let mut all = Self::default();
        entries.iter().for_each(|entry| all.add(entry));
        all
    }

    pub(super) fn get(&self, qp: u32) -> Option<&QueuePair> {
        self.0.get(&qp)
    }

    pub(super) fn get_mut(&mut self, qp: u32) -> Option<&mut QueuePair> {
        self.0.get_mut(&qp)
    }

    /// Takes in what an entry says.
    pub(super) fn add(&mut self, entry: &Entry) {
        match &entry.what {
            What::Call(call) => self.call(entry.process, call),
            // Calls may be missing.
            What::SendPosted(posted) => {
                let service = if posted.destination.is_some() { Service::Ud } else { Service::Rc };
                let new = || QueuePair::new(entry.process, service);
                self.0.entry(posted.qp).or_insert_with(new);
            }
            What::Executed(executed) => self.executed(entry.process, executed),
            _ => {}
        }
    }

    fn call(&mut self, process: u32, call: &Call) {
        if !matches!(call.result, Outcome::Done(_)) {
            return;
        }
        match &call.name[..] {
            "ibv_create_qp" => {
                let Some(qp) = result(call, "qp_num").and_then(number) else { return };
                let service = match argument_text(call, "qp_type") {
                    Some("IBV_QPT_UC") => Service::Uc,
                    Some("IBV_QPT_UD") => Service::Ud,
                    _ => Service::Rc,
                };
                let has_srq = argument(call, "srq").and_then(number).is_some();
                self.0.insert(qp, QueuePair { has_srq, ..QueuePair::new(process, service) });
            }
            "ibv_modify_qp" => {
                let qp = argument_number(call, "qp").and_then(|qp| self.0.get_mut(&qp));
                if let Some(qp) = qp {
                    qp.modify(call);
                }
            }
            _ => {}
        }
    }

    fn executed(&mut self, process: u32, executed: &Executed) {
        let new = QueuePair::new(process, Service::Rc);
        let qp = self.0.entry(executed.qp).or_insert(new);
        let Some(receive) = executed.receive else { return };
        if qp.service != Service::Ud {
            qp.dest_qp.get_or_insert(receive.qp);
        }
        let new = QueuePair::new(receive.process, qp.service);
        let peer = self.0.entry(receive.qp).or_insert(new);
        if peer.service != Service::Ud {
            peer.dest_qp.get_or_insert(executed.qp);
        }
    }
}
