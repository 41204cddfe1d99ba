//! The state of a run: what calls create, modify and destroy.

use soft_hca_verbs::QpState;

use super::{CompletionQueue, Effect, End, QueuePair, Run, SharedReceiveQueue, Stop};
use crate::arguments::{self, cq, number, qp, srq};
use crate::entry::{Call, Entry, Outcome};
use crate::value::Named;

impl Run {
    /// A call, by its entry and that one's number.
    pub(super) fn call(&mut self, at: usize, entry: &Entry, call: &Call, effect: &mut Effect) {
        let Entry { t, process, thread, .. } = *entry;
        let has_asked = self.asked.remove(&(process, thread));
        let Outcome::Done(given) = &call.result else { return };
        let args = &call.args;
        match call.name.as_str() {
            "ibv_create_comp_channel" => {
                let fd = arguments::channel(given, "channel");
                self.process_mut(process).channels.extend(fd);
            }
            "ibv_create_cq" | "ibv_create_cq_ex" => {
                let new = || CompletionQueue::new(process, args);
                self.cqs.extend(cq(given, "cq").map(|number| (number, new())));
            }
            // The queue is there until its events are acknowledged.
            "ibv_destroy_cq" if call.unacknowledged == 0 => {
                let gone = |number| Some((number, self.cqs.remove(&number)?));
                effect.destroyed = cq(args, "cq").and_then(gone);
            }
            "ibv_req_notify_cq" => {
                let queue = cq(args, "cq").and_then(|number| self.cqs.get_mut(&number));
                let Some(queue) = queue else { return };
                let solicited_only = number(args, "solicited_only").is_some_and(|only| only != 0);
                queue.arms((at, t), call.duration, solicited_only);
            }
            "ibv_create_srq" | "ibv_create_srq_ex" => {
                let new = || SharedReceiveQueue::new(process, args);
                self.srqs.extend(srq(given, "srq").map(|number| (number, new())));
            }
            "ibv_create_qp" | "ibv_create_qp_ex" => {
                let new = || QueuePair::new(process, args);
                self.qps.extend(qp(given, "qp_num").map(|number| (number, new())));
            }
            "ibv_modify_qp" => self.modifies(entry, args, has_asked, effect),
            "ibv_destroy_qp" => {
                let Some(number) = qp(args, "qp") else { return };
                effect.stopped.extend(self.stops(number, Stop::Destroyed));
                self.empty(number);
                self.qp_mut(number, process).end = Some((End::Destroyed, t));
            }
            "rdma_init_qp_attr" => _ = self.asked.insert((process, thread)),
            name if name.starts_with("rdma_") => self.manages(entry, name, args),
            _ => {}
        }
    }

    /// `ibv_modify_qp`, by a thread that has asked the connection manager for the attributes, or not.
    fn modifies(&mut self, entry: &Entry, args: &[Named], has_asked: bool, effect: &mut Effect) {
        let Some(number) = qp(args, "qp") else { return };
        let by = entry.place().and_then(|place| place.call.clone());
        let stop = match arguments::word(args, "qp_state") {
            Some(QpState::RESET) => Some(Stop::Reset),
            Some(QpState::ERR) => Some(Stop::Shut),
            _ => None,
        };
        effect.stopped.extend(stop.and_then(|how| self.stops(number, how)));
        if stop == Some(Stop::Reset) {
            self.empty(number);
        }
        let known = self.qp_mut(number, entry.process);
        known.is_managed |= has_asked;
        known.modify(entry.t, args, by);
    }

    /// A call of the connection manager, which may name the queue pair that it connects.
    fn manages(&mut self, entry: &Entry, name: &str, args: &[Named]) {
        let named = qp(args, "qp_num");
        if let Some(qp) = named.and_then(|number| self.qps.get_mut(&number)) {
            qp.is_managed = true;
        }
        if name == "rdma_accept" {
            // Of a process that has asked it is the command by which the library confirms the answer.
            let of_id = || self.ids.get(entry.process, args)?.qp;
            let number = named.or_else(of_id);
            if let Some(qp) = number.and_then(|number| self.qps.get_mut(&number)) {
                qp.opened.get_or_insert(entry.t);
            }
        }
    }
}
