//! Faults on purpose: what is to go wrong in a fabric, and how often, repeatable by a seed.
//!
//! ```text
//! plan = spec { (";" | blank) spec }
//! spec = "seed=" number | what [ ":" part { "," part } ]
//! part = key "=" value | value         such as nth=3, 1%, 5ms
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `spec` | a specification as its parts, for faults of every kind |
//! | `trigger` | when a fault fires: with a probability, at the Nth, at most so often |
//! | `packet` | faults of the link's packets |
//! | `device` | cables that are pulled, devices that are removed |
//! | `call` | faults of a program's calls and completions |
//! | `injector` | what becomes of each of them |
//! | `happened` | what is told of it |
//! | `verbs` | the calls, and how each reports a failure |
//! | `error` | why a specification is none |
//! | `names` | error numbers and statuses by their names |
//! | `value` | probabilities and durations |
//! | `random` | the numbers that a seed determines |

#![deny(unsafe_code)]
#![warn(unreachable_pub)]

mod call;
mod device;
mod error;
mod injector;
mod names;
mod packet;
mod random;
mod report;
mod spec;
#[cfg(test)]
mod tests;
mod trigger;
mod value;
mod verbs;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;

pub use call::Change;
pub use device::DeviceFault;
pub use error::Error;
pub use injector::{Action, Injector};
pub use packet::{Destination, Direction, Kind, PacketFault};
pub use random::Random;
pub use report::FaultReport;
pub use trigger::Counting;
pub use value::{Delay, Duration};
pub use verbs::{Fails, Verb};

use call::{CallFault, CompletionFault};
use spec::{Number, Spec};

/// The word that has programs say what they call.
const LIST: &str = "list";

/// The text of `--fault help`, before the calls.
const HELP: &str = "\
A fault is WHAT[:PART,...]; several are separated by blanks or semicolons, or each has its --fault.

WHAT is a call of libibverbs or librdmacm, such as ibv_reg_mr or rdma_connect (all stand below):
  errno=NAME        it is not made and fails with this error, as ENOMEM or 12
  delay=DURATION    it is made, or fails, so much later: by 200us, 5ms or 1s
  kill              the process ends there, by SIGKILL
  skip              it is not made, but says that it was: a receive that is not there, a completion
                    that comes later (what posts work requests, ibv_poll_cq, ibv_req_notify_cq)
or what such calls bring:
  completion        ibv_poll_cq gives one another status: status=IBV_WC_WR_FLUSH_ERR; another number
                    of bytes: bytes=7; or other data with it: damaged, the first byte that was
                    received or read

or what happens to packets of the link (--roce):
  drop              they are lost
  duplicate         they come twice
  corrupt           one bit of theirs is wrong
  delay:DURATION    they are late
  reorder           later packets to the same queue pair overtake them: by=N of them [1]

or what happens to a device:
  port-down         the cable of a port is pulled: device=NAME or NAME/PORT, after=DURATION from the
                    program's start [0us], for=DURATION until it is plugged in again [for good]
  device-removed    it is removed, as a card from its slot: device=NAME, after=DURATION from the
                    program's start [0us], for=DURATION until it is back [for good]
                    after=10ms..1s is any time between these. With at=CALL it happens at calls of a
                    program, just before they are made, or after=DURATION from there

PARTs say which; without any, all:
  P%, or p=P%       each with this probability, as 1% or 0.05%
  nth=N             only the Nth, counted from 1, of those that the other parts leave
  times=N           not more than N of them
  qp=N              only those of queue pair N. Of packets it is the destination: the peer's when
                    sent, our own when received. Queue pair 1 is the connection manager's
  per=qp            nth=N and times=N count each queue pair by itself (calls, completions)
  program=NAME      only in programs whose file has this name (calls, completions)
  service=rc        only packets of this service: rc, uc or ud. The connection manager's are ud
  dir=send          only completions of send work requests, packets that are sent; dir=receive: of
                    receives, that are received

Calls are counted in each process, and only those that it makes itself, not what one function of
the libraries calls of another. seed=N makes a run repeatable. The log has the seed of a run that was
given none. `list` lets nothing fail: programs say on standard error what they call.

Examples:
  --fault ibv_reg_mr:nth=2,errno=ENOMEM
  --fault 'completion:nth=3,status=IBV_WC_RETRY_EXC_ERR,program=ping-sr-1-client'
  --fault rdma_accept:delay=2s --fault ibv_post_send:kill,nth=10
  --fault drop:1% --fault reorder:2%,by=3 --fault seed=42
  --fault 'delay:5ms,p=10%,dir=receive; corrupt:nth=100'
  --fault drop:qp=1,dir=send,times=2     the connection manager's first two messages
  --fault port-down:device=rxe1,after=200ms,for=1s
  --fault port-down:device=rxe1,at=ibv_post_send,nth=1000
  --fault device-removed:device=rxe1,after=1s";

/// The text of `--fault help`.
pub fn help() -> String {
    let mut text = format!("{HELP}\n\nCalls:\n");
    let mut line = String::new();
    for name in Verb::names() {
        if line.len() + name.len() > 96 {
            text += &format!(" {line}\n");
            line.clear();
        }
        line = line + " " + name;
    }
    text + " " + &line
}

/// All that is to go wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// With packets of the link.
    pub packets: Vec<PacketFault>,
    /// With devices and their ports.
    pub devices: Vec<DeviceFault>,
    pub(crate) calls: Vec<CallFault>,
    pub(crate) completions: Vec<CompletionFault>,
    /// Programs say what they call.
    pub(crate) lists: bool,
    /// The seed that determines with which of them; random if there is none.
    pub seed: Option<u64>,
}

impl Plan {
    /// Whether nothing is to go wrong with packets.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether data are damaged.
    pub fn damages(&self) -> bool {
        self.completions.iter().any(|fault| fault.change == Change::Damaged)
    }

    /// With a seed in any case.
    pub fn seeded(mut self) -> Plan {
        self.seed.get_or_insert_with(|| RandomState::new().hash_one(()) >> 32);
        self
    }

    /// The faults of both; the other one's seed counts if it has one.
    #[must_use]
    pub fn and(mut self, other: Plan) -> Plan {
        self.packets.extend(other.packets);
        self.devices.extend(other.devices);
        self.calls.extend(other.calls);
        self.completions.extend(other.completions);
        self.lists |= other.lists;
        self.seed = other.seed.or(self.seed);
        self
    }

    /// Faults of the link's packets, of devices, and in programs, if
    /// anything: the first and the last with the seed.
    pub fn split(mut self) -> (Plan, Vec<DeviceFault>, Option<Plan>) {
        let seed = self.seed;
        let (at_calls, devices) = std::mem::take(&mut self.devices)
            .into_iter()
            .partition::<Vec<_>, _>(|fault| fault.at.is_some());
        let of_devices = seed.unwrap_or_else(|| RandomState::new().hash_one(()));
        let draw = |(index, fault): (u64, DeviceFault)| {
            fault.drawn(&mut Random::new(of_devices.wrapping_add(index)))
        };
        let devices = (0..).zip(devices).map(draw).collect();
        self.devices = at_calls;
        let is_in_programs = self.lists
            || !self.calls.is_empty()
            || !self.completions.is_empty()
            || !self.devices.is_empty();
        let is_for_packets = !self.packets.is_empty() || !is_in_programs;
        let seed_of_packets = seed.filter(|_| is_for_packets);
        let packets = Plan { packets: self.packets, seed: seed_of_packets, ..Plan::default() };
        let programs = Plan { packets: Vec::new(), ..self };
        (packets, devices, is_in_programs.then_some(programs))
    }
}

impl FromStr for Plan {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut plan = Self::default();
        for text in text.split([';', ' ', '\t', '\n']).filter(|text| !text.is_empty()) {
            if let Some(seed) = text.strip_prefix("seed=") {
                if plan.seed.is_some() {
                    return Err(Error::Twice { key: "seed", spec: text.into() });
                }
                plan.seed = Some(Number::ANY.parse("seed", seed)?);
                continue;
            }
            let spec = Spec::parse(text)?;
            match spec.what {
                LIST => {
                    plan.lists = true;
                    spec.end(LIST, "nothing")?;
                }
                device::PORT_DOWN | device::DEVICE_REMOVED => {
                    plan.devices.push(DeviceFault::of(spec)?);
                }
                call::COMPLETION => plan.completions.push(CompletionFault::of(spec)?),
                call if call.starts_with("ibv_") || call.starts_with("rdma_") => {
                    plan.calls.push(CallFault::of(spec)?);
                }
                _ => plan.packets.push(PacketFault::of(spec)?),
            }
        }
        Ok(plan)
    }
}

/// As it can be parsed.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packets = self.packets.iter().map(PacketFault::to_string);
        let calls = self.calls.iter().map(CallFault::to_string);
        let completions = self.completions.iter().map(CompletionFault::to_string);
        let list = self.lists.then(|| LIST.to_string());
        let seed = self.seed.map(|seed| format!("seed={seed}"));
        let devices = self.devices.iter().map(DeviceFault::to_string);
        let all = packets.chain(devices).chain(calls).chain(completions).chain(list).chain(seed);
        f.write_str(&all.collect::<Vec<_>>().join(" "))
    }
}
