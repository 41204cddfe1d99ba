//! Things put off for strict programs happen in computed time.
//!
//! The [clock](crate::clock) of what is put off stands still while programs run on to where they wait. When all of
//! them wait, what is due next happens at once. So nothing waits for time to pass, and what comes before what does not
//! depend on how fast programs run. If a program computes for long, time passes with the time that it has a processor for: one that
//! watches memory sees the same, however busy the machine is. If one sleeps for a time of its own, or cannot be seen, time passes as
//! the system's does. So it is until all wait again, or those have waited for whom it passes.
//!
//! A fabric with a link to other hosts, whose programs cannot be seen, has the system's time.

use std::sync::atomic::Ordering::Acquire;

use soft_hca_core::arena::Qp;
use soft_hca_core::engine::Env;
use soft_hca_core::system;
use soft_hca_core::uapi::verbs::state;

use super::daemon::Daemon;
use super::put_off::PutOff;
use crate::fabric::Fabric;
use crate::files;
use crate::idle::{self, Busy, Doing};

impl Daemon {
    /// Has the time of what is put off stand still while programs run.
    pub(super) fn compute_time(&mut self) {
        self.put_off.looks.are_on = true;
        let now_ns = system::now_ns();
        self.fabric.env.clock.stop(now_ns);
        self.fabric.arena.set_computed_ns(now_ns);
    }

    /// The clock that stands still says a later time from now on.
    fn skip_to(&self, due_ns: u64) {
        let clock = &self.fabric.env.clock;
        clock.skip_to(due_ns);
        self.fabric.arena.set_computed_ns(clock.at(due_ns));
    }

    /// When what is put off is due next, by the fabric's clock.
    fn next_put_off(&self) -> Option<u64> {
        let PutOff { queue_pairs, .. } = &self.put_off;
        let next = [queue_pairs.next(), self.put_off.next_pause(), self.cm.next_late()];
        next.into_iter().flatten().min()
    }

    /// When there is something to do for it, by the system's clock.
    pub(super) fn put_off_deadline(&self) -> Option<u64> {
        let due_ns = self.next_put_off()?;
        let real_ns = self.fabric.env.clock.real_of(due_ns, system::now_ns());
        let look_ns = self.put_off.looks.are_on.then_some(self.put_off.looks.next_ns);
        [real_ns, look_ns].into_iter().flatten().min()
    }

    /// A program has posted to a queue pair. Whether that is looked at when all wait: what the adapter finds then in
    /// memory, and whether there is a receive, does not depend on how fast the program goes on.
    pub(super) fn is_for_later(&mut self, qpn: u32, after_ns: u64) -> bool {
        let is_strict = |qp: &Qp| qp.strict_seed.load(Acquire) != 0;
        let is_later = self.put_off.looks.are_on
            && after_ns == 0
            && self.fabric.arena.qp(qpn).is_some_and(is_strict);
        if is_later {
            let now_ns = system::now_ns();
            if self.put_off.looks.busy.as_ref().is_some_and(Busy::have_waited) {
                self.put_off.looks.time_stands_still();
            }
            self.put_off.queue_pairs.add(qpn, self.fabric.env.clock.at(now_ns) + 1);
            self.put_off.looks.begin_anew(now_ns);
        }
        is_later
    }

    /// A thread of a program is stopped until a time.
    pub(super) fn pause(&mut self, until_ns: u64) {
        self.put_off.pause(until_ns);
        self.put_off.looks.begin_anew(system::now_ns());
    }

    /// Takes what the data path has put off.
    pub(super) fn take_put_off(&mut self, now_ns: u64) {
        let put_off = self.fabric.env.take_put_off();
        if !put_off.is_empty() {
            put_off.into_iter().for_each(|(qpn, due)| self.put_off.queue_pairs.add(qpn, due));
            self.put_off.looks.begin_anew(now_ns);
        }
    }

    /// Does what is due.
    pub(super) fn run_put_off(&mut self, now_ns: u64) {
        if self.put_off.looks.are_on
            && now_ns >= self.put_off.looks.next_ns
            && self.next_put_off().is_some()
        {
            self.look(now_ns);
        }
        self.run_due(now_ns);
    }

    fn run_due(&mut self, now_ns: u64) {
        let clock_ns = self.fabric.env.clock.at(now_ns);
        if self.next_put_off().is_none_or(|due_ns| due_ns > clock_ns) {
            return;
        }
        for qpn in self.put_off.queue_pairs.due(clock_ns) {
            self.run_put_off_queue(qpn);
        }
        self.take_rescheduled(now_ns);
        if self.put_off.end_pauses(clock_ns) {
            self.put_off.happened();
        }
        if self.cm.next_late().is_some_and(|due_ns| due_ns <= clock_ns) {
            self.run_cm_timers(now_ns);
            self.put_off.happened();
        }
        if let Some(busy) = &mut self.put_off.looks.busy {
            busy.begin_anew(system::now_ns());
        }
    }

    /// Runs a queue pair. That a message has begun changes nothing that its receiver may look at.
    fn run_put_off_queue(&mut self, qpn: u32) {
        let seen = |fabric: &Fabric| {
            let consumer = fabric.arena.qp(qpn).map(|qp| qp.sq_consumer.load(Acquire));
            (consumer, fabric.env.in_transit().is_some_and(|all| all.has_any_of(qpn)))
        };
        let before = seen(&self.fabric);
        self.run_queue(qpn);
        let after = seen(&self.fabric);
        if before != after || after.1 {
            self.put_off.happened();
        }
    }

    /// Looks whether all programs wait.
    fn look(&mut self, now_ns: u64) {
        let pids: Vec<u32> = self.fabric.processes.iter().map(|(_, pid)| pid).collect();
        let doing = Doing::of(&pids);
        // Requests that they made before they wait come first.
        let is_asked = self.poller.is_ready() || self.deferred.next().is_some();
        let looks = &mut self.put_off.looks;
        let passes = match doing {
            Doing::Nothing if !is_asked => return self.all_wait(now_ns),
            Doing::Dozing if !is_asked => true,
            _ => looks.busy.is_some() || looks.goes_on(now_ns, || idle::processor_ns(&pids)),
        };
        if passes {
            let passed_ns = looks.time_passes(&pids, now_ns);
            self.skip_to(self.fabric.env.clock.at(now_ns) + passed_ns);
        }
        let due_ns = self.next_put_off().unwrap_or(u64::MAX);
        let due_in_ns = due_ns.saturating_sub(self.fabric.env.clock.at(now_ns));
        self.put_off.looks.become_rarer(now_ns, due_in_ns);
    }

    /// All programs wait: what is due next happens.
    fn all_wait(&mut self, now_ns: u64) {
        self.put_off.looks.time_stands_still();
        self.put_off.looks.begin_anew(now_ns);
        // First of all what has come in the meantime, such as a receive for a message that has waited for it.
        let waiting = self.rescheduled.due(u64::MAX);
        waiting.iter().for_each(|qpn| self.run_queue(*qpn));
        self.take_rescheduled(now_ns);
        if waiting.iter().any(|qpn| !self.rescheduled.contains(*qpn)) {
            self.put_off.happened();
            return;
        }
        while let Some(due_ns) = self.next_put_off() {
            self.skip_to(due_ns);
            self.run_due(now_ns);
            // Their programs wait on if it was nothing that they can see.
            if self.put_off.has_happened || self.poller.is_ready() {
                break;
            }
        }
    }

    /// Has threads that wait for it go on if something has happened.
    pub(super) fn tell_what_happened(&mut self) {
        let has_happened = std::mem::take(&mut self.put_off.has_happened);
        let is_put_off = self.put_off.looks.are_on && self.next_put_off().is_some();
        let looks = &mut self.put_off.looks;
        if is_put_off && !looks.have_work {
            looks.forget();
            looks.begin_anew(system::now_ns());
        }
        looks.have_work = is_put_off;
        // Without strict programs nobody waits.
        if looks.are_on && looks.have_begun {
            self.fabric.arena.set_moment(has_happened, is_put_off);
        }
    }

    /// Whether there is a queue pair with this number in the error state.
    pub(super) fn has_failed(&self, qpn: u32) -> bool {
        self.fabric.arena.qp(qpn).is_some_and(|qp| qp.state.load(Acquire) == state::ERR)
    }

    pub(super) fn run_cm_timers(&mut self, now: u64) {
        let mut host = files::CmHost { fabric: &mut self.fabric };
        self.cm.run_timers(&mut host, now);
    }

    /// Executes what is in a queue pair's send queue.
    pub(super) fn run_queue(&mut self, qpn: u32) {
        self.fabric.actor().run_send_queue(qpn);
        if self.has_failed(qpn) {
            self.failed.insert(qpn);
            self.put_off.happened();
        }
    }

    /// Takes the queue pairs that the data path has to be run again.
    pub(super) fn take_rescheduled(&mut self, now: u64) {
        for (qpn, after_ns) in self.fabric.env.take_rescheduled() {
            self.rescheduled.add(qpn, now.saturating_add(after_ns));
        }
        self.take_put_off(now);
    }
}
