//! Faults of calls, and of the completions that calls bring.

use std::fmt;

use soft_hca_verbs::{ErrorNumber, WcStatus};

use super::Error;
use super::names::{self, like, question};
use super::packet::Direction;
use super::spec::{Number, Spec};
use super::trigger::Trigger;
use super::value::Duration;
use super::verbs::{Fails, Verb};

/// To whose calls and completions a fault happens, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    pub trigger: Trigger,
    /// Each queue pair is counted by itself.
    pub per_queue_pair: bool,
    /// Only those of this queue pair.
    pub qpn: Option<u32>,
    /// Only in programs whose file has this name.
    pub program: Option<String>,
}

/// A fault of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallFault {
    /// Index in [`Verb::ALL`].
    pub verb: usize,
    pub end: End,
    /// Before that, the call takes so long.
    pub delay: Option<Duration>,
    pub scope: Scope,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As it would.
    Done,
    /// It is not made, and fails.
    Failure(ErrorNumber),
    /// The process is killed before it is made.
    Kill,
    /// It is not made, and reports that all is well.
    Skip,
}

/// A change to a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its status.
    Status(WcStatus),
    /// How many bytes it says there are.
    Bytes(u32),
    /// The first byte that came with it, of a receive or an RDMA read.
    Damaged,
}

/// A fault of a completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompletionFault {
    pub change: Change,
    /// Only those of send work requests, or of receives.
    pub direction: Option<Direction>,
    pub scope: Scope,
}

const CALL_KEYS: &str = "errno=NAME, delay=DURATION, kill, skip, P%, nth=N, times=N, per=qp, qp=N, \
     program=NAME";
const COMPLETION_KEYS: &str = "status=NAME, bytes=N, damaged, P%, nth=N, times=N, dir=send, dir=receive, per=qp, \
     qp=N, program=NAME";

/// The key of [`Change::Bytes`].
const BYTES: &str = "bytes";
/// The word of [`Change::Damaged`].
const DAMAGED: &str = "damaged";

/// The fault that is one of completions.
pub(super) const COMPLETION: &str = "completion";

impl Scope {
    pub(super) fn take(spec: &mut Spec<'_>) -> Result<Self, Error> {
        let per_queue_pair = match spec.take("per")? {
            None => false,
            Some("qp") => true,
            Some(other) => {
                let wanted = "per=qp counts each queue pair by itself";
                return Err(Error::Value { key: "per", value: other.into(), wanted });
            }
        };
        let qpn = spec.number("qp", &Number::QPN)?.map(|qpn| qpn as u32);
        let program = spec.take("program")?;
        if let Some(name) = program.filter(|name| name.is_empty() || name.contains('/')) {
            let wanted = "a program is the name of its file, without a folder";
            return Err(Error::Value { key: "program", value: name.into(), wanted });
        }
        let trigger = Trigger::take(spec)?;
        Ok(Self { trigger, per_queue_pair, qpn, program: program.map(String::from) })
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = String> {
        let per = self.per_queue_pair.then(|| "per=qp".to_string());
        let qp = self.qpn.map(|qpn| format!("qp={qpn}"));
        let program = self.program.as_ref().map(|name| format!("program={name}"));
        self.trigger.parts().chain(per).chain(qp).chain(program)
    }
}

impl Scope {
    /// Checks that a verb about no queue pair is not counted by queue pairs.
    pub(super) fn check(&self, verb: &Verb) -> Result<(), Error> {
        let needs_queue_pair = self.per_queue_pair || self.qpn.is_some();
        if verb.has_queue_pair || !needs_queue_pair {
            return Ok(());
        }
        Err(Error::NoQueuePair(verb.name))
    }
}

impl CallFault {
    pub(super) fn of(mut spec: Spec<'_>) -> Result<Self, Error> {
        let Some(verb) = Verb::named(spec.what) else {
            return Err(Error::call(spec.what));
        };
        let what = verb.name;
        let kill = spec.word("kill")?;
        let skip = spec.word("skip")?;
        let delay = spec.value("delay", Duration::WANTED)?;
        let errno =
            spec.named("errno", names::ERROR_NUMBER, names::error_number, names::error_numbers)?;
        let scope = Scope::take(&mut spec)?;
        spec.end(what, CALL_KEYS)?;
        let end = match errno {
            _ if u8::from(kill) + u8::from(skip) + u8::from(errno.is_some()) > 1 => {
                return Err(Error::OneEnd(what));
            }
            _ if skip && !verb.can_be_skipped() => return Err(Error::CannotSkip(what)),
            Some(_) if verb.fails == Fails::Never => return Err(Error::CannotFail(what)),
            Some(errno) => End::Failure(errno),
            None if kill => End::Kill,
            None if skip => End::Skip,
            None if delay.is_none() => return Err(Error::Effect(what)),
            None => End::Done,
        };
        scope.check(verb)?;
        Ok(Self { verb: Verb::index_of(what), end, delay, scope })
    }
}

impl CompletionFault {
    pub(super) fn of(mut spec: Spec<'_>) -> Result<Self, Error> {
        let status = spec.named("status", names::STATUS, WcStatus::named, names::statuses)?;
        let bytes = spec.number(BYTES, &Number::BYTES)?;
        let damaged = spec.word(DAMAGED)?;
        let direction = Direction::take(&mut spec)?;
        let scope = Scope::take(&mut spec)?;
        spec.end(COMPLETION, COMPLETION_KEYS)?;
        let changes = [
            status.map(Change::Status),
            bytes.map(|bytes| Change::Bytes(bytes as u32)),
            damaged.then_some(Change::Damaged),
        ];
        let mut changes = changes.into_iter().flatten();
        let wanted = names::CHANGE;
        let change = changes.next();
        let change = change.ok_or(Error::Missing { what: COMPLETION, key: "status", wanted })?;
        match changes.next() {
            None => Ok(Self { change, direction, scope }),
            Some(_) => Err(Error::OneChange),
        }
    }
}

impl Error {
    /// There is no such call.
    pub(super) fn call(name: &str) -> Self {
        Self::Call { name: name.into(), like: question(&like(name, Verb::names())) }
    }
}

impl fmt::Display for CallFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match self.end {
            End::Done => None,
            End::Failure(errno) => Some(match errno.name() {
                Some(name) => format!("errno={name}"),
                None => format!("errno={}", errno.0),
            }),
            End::Kill => Some("kill".to_string()),
            End::Skip => Some("skip".to_string()),
        };
        let delay = self.delay.map(|delay| format!("delay={delay}"));
        let parts: Vec<String> = end.into_iter().chain(delay).chain(self.scope.parts()).collect();
        write!(f, "{}:{}", Verb::ALL[self.verb].name, parts.join(","))
    }
}

/// The outcome of the call that brings it.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Status(status) => write!(f, "{status}"),
            Change::Bytes(bytes) => write!(f, "{BYTES}={bytes}"),
            Change::Damaged => f.write_str(DAMAGED),
        }
    }
}

impl fmt::Display for CompletionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = self.direction.map(|direction| direction.to_string());
        let parts: Vec<String> = direction.into_iter().chain(self.scope.parts()).collect();
        match self.change {
            Change::Status(status) => write!(f, "{COMPLETION}:status={status}")?,
            change => write!(f, "{COMPLETION}:{change}")?,
        }
        parts.iter().try_for_each(|part| write!(f, ",{part}"))
    }
}
