//! Decides what becomes of each of a program's calls and completions.

use std::collections::HashMap;
use std::time;

use soft_hca_verbs::ErrorNumber;

use super::Plan;
use super::call::{CallFault, Change, CompletionFault, End, Scope};
use super::device::{At, DeviceFault};
use super::packet::Direction;
use super::random::Random;
use super::trigger::Counting;

/// The action of faults on a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// The specifications that ask for it; empty if there is none.
    pub specs: String,
    /// It takes so long before anything else.
    pub delay: Option<time::Duration>,
    /// Then the process is killed.
    pub kill: bool,
    /// Or it fails, without being made.
    pub failure: Option<ErrorNumber>,
    /// Or it is not made, and reports that all is well.
    pub skip: bool,
}

/// Counts a program's calls and completions, each fault for itself.
#[derive(Debug)]
pub struct Injector {
    calls: Vec<(CallFault, Counts)>,
    completions: Vec<(CompletionFault, Counts)>,
    devices: Vec<(DeviceFault, At, Counts)>,
    lists: bool,
}

/// How often a fault could have fired.
#[derive(Debug)]
struct Counts {
    all: Counting,
    /// Of queue pairs that are counted by themselves.
    of_queue_pairs: HashMap<u32, Counting>,
    /// Its own, so that what happens does not depend on other faults.
    random: Random,
}

impl Counts {
    fn new(scope: &Scope, seed: u64) -> Self {
        let all = Counting::new(scope.trigger);
        Self { all, of_queue_pairs: HashMap::new(), random: Random::new(seed) }
    }

    fn fires(&mut self, scope: &Scope, qpn: Option<u32>) -> bool {
        if scope.qpn.is_some() && scope.qpn != qpn {
            return false;
        }
        let counting = match qpn {
            Some(qpn) if scope.per_queue_pair => {
                self.of_queue_pairs.entry(qpn).or_insert_with(|| Counting::new(scope.trigger))
            }
            _ => &mut self.all,
        };
        counting.fires(&mut self.random)
    }
}

impl Injector {
    /// For a program whose file has this name.
    pub fn new(plan: &Plan, program: &str) -> Self {
        let seed = plan.seed.unwrap_or(0);
        let is_meant = |scope: &Scope| scope.program.as_deref().is_none_or(|name| name == program);
        let calls = plan.calls.iter().enumerate().map(|(index, fault)| {
            (fault.clone(), Counts::new(&fault.scope, seed.wrapping_add(index as u64)))
        });
        let behind = plan.calls.len();
        let completions = plan.completions.iter().enumerate().map(|(index, fault)| {
            let seed = seed.wrapping_add((behind + index) as u64);
            (fault.clone(), Counts::new(&fault.scope, seed))
        });
        let behind = behind + plan.completions.len();
        let devices = plan.devices.iter().enumerate().filter_map(|(index, fault)| {
            let at = fault.at.clone()?;
            let counts = Counts::new(&at.scope, seed.wrapping_add((behind + index) as u64));
            Some((fault.clone(), at, counts))
        });
        Self {
            calls: calls.filter(|(fault, _)| is_meant(&fault.scope)).collect(),
            completions: completions.filter(|(fault, _)| is_meant(&fault.scope)).collect(),
            devices: devices.filter(|(_, at, _)| is_meant(&at.scope)).collect(),
            lists: plan.lists,
        }
    }

    /// Whether something can happen to calls of a verb, by its index in [`Verb::ALL`](super::Verb::ALL).
    pub fn is_about(&self, verb: usize) -> bool {
        self.calls.iter().any(|(fault, _)| fault.verb == verb)
            || self.devices.iter().any(|(_, at, _)| at.verb == verb)
    }

    /// Whether something can happen to completions.
    pub fn is_about_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// Whether the program is to say what it calls.
    pub fn lists(&self) -> bool {
        self.lists
    }

    /// A verb is called, about a queue pair if it has that argument. Of several faults all delays
    /// happen, and the first end that is another than the call's own.
    pub fn call(&mut self, verb: usize, qpn: Option<u32>) -> Action {
        let mut action = Action::default();
        for (fault, at, counts) in self.devices.iter_mut().filter(|(_, at, _)| at.verb == verb) {
            if counts.fires(&at.scope, qpn) {
                action.asked_by(&fault.clone().drawn(&mut counts.random).to_string());
            }
        }
        for (fault, counts) in self.calls.iter_mut().filter(|(fault, _)| fault.verb == verb) {
            if !counts.fires(&fault.scope, qpn) {
                continue;
            }
            action.asked_by(&fault.to_string());
            if let Some(delay) = fault.delay {
                let before = action.delay.unwrap_or_default();
                action.delay = Some(before + time::Duration::from_nanos(delay.ns));
            }
            if action.kill || action.skip || action.failure.is_some() {
                continue;
            }
            match fault.end {
                End::Done => {}
                End::Failure(errno) => action.failure = Some(errno),
                End::Kill => action.kill = true,
                End::Skip => action.skip = true,
            }
        }
        action
    }

    /// The change to a completion, if there is one, and the specification that asks for it. Some bring
    /// data.
    pub fn completion(
        &mut self,
        qpn: u32,
        is_receive: bool,
        brings_data: bool,
    ) -> Option<(Change, String)> {
        let direction = if is_receive { Direction::Receive } else { Direction::Send };
        let mut change = None;
        for (fault, counts) in &mut self.completions {
            let is_meant = fault.direction.is_none_or(|wanted| wanted == direction)
                && (brings_data || fault.change != Change::Damaged);
            if is_meant && counts.fires(&fault.scope, Some(qpn)) {
                change.get_or_insert_with(|| (fault.change, fault.to_string()));
            }
        }
        change
    }
}

impl Action {
    fn asked_by(&mut self, spec: &str) {
        self.specs += if self.specs.is_empty() { "" } else { " " };
        self.specs += spec;
    }

    /// How the call ends: the name of an error or a signal, nothing if all seems well.
    pub fn outcome(&self) -> String {
        match self.failure {
            _ if self.kill => "SIGKILL".into(),
            Some(errno) => errno.to_string(),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use soft_hca_verbs::WcStatus;

    use super::*;
    use crate::Verb;

    const SEND: usize = Verb::index_of("ibv_post_send");
    const CONNECT: usize = Verb::index_of("rdma_connect");

    #[test]
    fn a_device_fails_at_a_call() {
        let mut injector =
            injector("device-removed:device=rxe1,at=ibv_post_send,nth=3,after=1ms..9ms");
        assert!(injector.is_about(SEND) && !injector.is_about(CONNECT));
        let mut specs = || injector.call(SEND, Some(17)).specs;
        assert_eq!((specs(), specs()), (String::new(), String::new()));
        let spec: Plan = specs().parse().unwrap();
        let drawn = spec.devices[0].after;
        assert!((1_000_000..=9_000_000).contains(&drawn.least().ns), "{drawn}");
        assert_eq!(specs(), "");
    }

    fn injector(plan: &str) -> Injector {
        Injector::new(&plan.parse().unwrap(), "program")
    }

    fn failures(injector: &mut Injector, qpn: u32, calls: usize) -> Vec<bool> {
        (0..calls).map(|_| injector.call(SEND, Some(qpn)).failure.is_some()).collect()
    }

    #[test]
    fn the_nth_call_fails() {
        let mut one = injector("ibv_post_send:nth=2,ENOMEM");
        assert_eq!(failures(&mut one, 17, 3), [false, true, false]);
        assert_eq!(one.call(CONNECT, None), Action::default());
        assert!(one.is_about(SEND) && !one.is_about(CONNECT) && !one.is_about_completions());
    }

    #[test]
    fn queue_pairs_are_counted_together_or_each_by_itself() {
        let mut together = injector("ibv_post_send:times=1,EIO");
        assert_eq!(failures(&mut together, 17, 2), [true, false]);
        assert_eq!(failures(&mut together, 18, 1), [false]);
        let mut each = injector("ibv_post_send:times=1,EIO,per=qp");
        assert_eq!(failures(&mut each, 17, 2), [true, false]);
        assert_eq!(failures(&mut each, 18, 2), [true, false]);
        let mut other = injector("ibv_post_send:EIO,qp=18");
        assert_eq!(failures(&mut other, 17, 1), [false]);
        assert_eq!(failures(&mut other, 18, 1), [true]);
    }

    #[test]
    fn only_programs_that_are_meant_have_faults() {
        assert!(injector("ibv_post_send:EIO,program=program").is_about(SEND));
        assert!(!injector("ibv_post_send:EIO,program=other").is_about(SEND));
        let completions = "completion:status=GENERAL_ERR,program=other";
        assert!(!injector(completions).is_about_completions());
    }

    #[test]
    fn what_happens_adds_up() {
        let mut both = injector("rdma_connect:5ms rdma_connect:1ms,EIO rdma_connect:kill");
        let action = both.call(CONNECT, None);
        assert_eq!(action.delay, Some(time::Duration::from_millis(6)));
        assert_eq!((action.kill, action.failure), (false, Some(ErrorNumber::EIO)));
        assert_eq!(action.outcome(), "EIO");
        let specs = "rdma_connect:delay=5ms rdma_connect:errno=EIO,delay=1ms rdma_connect:kill";
        assert_eq!(action.specs, specs);
        assert_eq!(injector("rdma_connect:kill").call(CONNECT, None).outcome(), "SIGKILL");
        let skips = injector("ibv_post_send:skip").call(SEND, None);
        assert!(skips.skip && skips.outcome().is_empty());
    }

    #[test]
    fn completions_have_a_direction() {
        let mut one = injector("completion:status=WR_FLUSH_ERR,dir=receive,nth=2");
        let mut polled = || one.completion(17, true, true).map(|(change, _)| change);
        assert_eq!(
            [(); 3].map(|()| polled()),
            [None, Some(Change::Status(WcStatus::WR_FLUSH_ERR)), None]
        );
        assert_eq!(one.completion(17, false, true), None);
    }

    #[test]
    fn data_are_damaged_where_there_are_any() {
        let mut one = injector("completion:damaged,nth=2");
        let mut polled = |brings_data| one.completion(17, false, brings_data);
        assert_eq!([true, false].map(&mut polled), [None, None]);
        let damaged = (Change::Damaged, "completion:damaged,nth=2".to_owned());
        assert_eq!([true, true].map(&mut polled), [Some(damaged), None]);
    }

    #[test]
    fn a_seed_does_the_same_whatever_else_is_called() {
        let mut alone = injector("ibv_post_send:EIO,10% seed=3");
        let mut beside = injector("ibv_post_send:EIO,10% rdma_connect:EIO,10% seed=3");
        let one = failures(&mut alone, 17, 1000);
        let other: Vec<bool> = (0..1000)
            .map(|_| {
                beside.call(CONNECT, None);
                beside.call(SEND, Some(17)).failure.is_some()
            })
            .collect();
        assert_eq!(one, other);
        assert_ne!(one, failures(&mut injector("ibv_post_send:EIO,10% seed=4"), 17, 1000));
    }
}
