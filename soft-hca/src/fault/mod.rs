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
//! | `occasion` | when a fault happens: with a probability, at the Nth, at most so often |
//! | `packet` | faults of the link's packets |
//! | `value` | probabilities and durations |
//! | `random` | the numbers that a seed determines |

mod occasion;
mod packet;
mod random;
mod spec;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;
use std::str::FromStr;

pub(crate) use occasion::Counting;
pub(crate) use packet::{Direction, Kind, PacketFault};
pub(crate) use random::Random;

use spec::{Number, Spec};

use crate::system;

/// What `--fault help` says.
pub const HELP: &str = "\
A fault is WHAT[:PART,...]; several are separated by blanks or semicolons, or each has its --fault.

WHAT happens to packets of the link (--roce):
  drop              they are lost
  duplicate         they come twice
  corrupt           one bit of theirs is wrong
  delay:DURATION    they are late, by 200us, 5ms or 1s
  reorder           later packets to the same queue pair overtake them: by=N of them [1]

PARTs say which packets; without any, all:
  P%, or p=P%       each with this probability, as 1% or 0.05%
  nth=N             only the Nth, counted from 1, of those that the other parts leave
  times=N           not more than N of them
  dir=send          only those that are sent; dir=receive: that are received
  qp=N              only those whose destination is queue pair N: of the peer's when sent, our own
                    when received. Queue pair 1 is the connection manager's

seed=N makes a run repeatable. The log has the seed of a run that was given none.

Examples:
  --fault drop:1% --fault reorder:2%,by=3 --fault seed=42
  --fault 'delay:5ms,p=10%,dir=receive; corrupt:nth=100'
  --fault drop:qp=1,dir=send,times=2     the connection manager's first two messages";

/// Why a specification is none. It names the part that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing has this name.
    #[error("{0:?} is no fault: it is drop, duplicate, corrupt, delay or reorder, or seed=N")]
    Fault(String),
    /// A key that this fault has not.
    #[error("{what} has no {key:?}: it takes {keys}")]
    Key {
        /// The fault.
        what: &'static str,
        /// The key.
        key: String,
        /// Those that it has.
        keys: &'static str,
    },
    /// A part without a key that could not be guessed.
    #[error("{what} cannot take {value:?}: a part is {keys}")]
    Part {
        /// The fault.
        what: &'static str,
        /// The part.
        value: String,
        /// The keys that it has.
        keys: &'static str,
    },
    /// A key is there twice.
    #[error("{key} is there twice in {spec:?}")]
    Twice {
        /// The key.
        key: &'static str,
        /// The whole specification.
        spec: String,
    },
    /// A value will not do.
    #[error("{key}={value} will not do: {wanted}")]
    Value {
        /// Its key.
        key: &'static str,
        /// The value.
        value: String,
        /// What it has to be.
        wanted: &'static str,
    },
    /// A value has to be there.
    #[error("{what} needs {key}: {wanted}")]
    Missing {
        /// The fault.
        what: &'static str,
        /// The key.
        key: &'static str,
        /// What it has to be.
        wanted: &'static str,
    },
    /// Two parts that exclude each other.
    #[error("nth=N says which one, so that {0} cannot be there as well")]
    Exclusive(&'static str),
}

/// All faults of a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub(crate) packets: Vec<PacketFault>,
    pub(crate) seed: Option<u64>,
}

impl Plan {
    /// Whether nothing is to go wrong.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// With a seed in any case.
    pub(crate) fn seeded(mut self) -> Plan {
        self.seed.get_or_insert_with(|| system::random() >> 32);
        self
    }

    /// The faults of both; the other one's seed counts if it has one.
    #[must_use]
    pub fn and(mut self, other: Plan) -> Plan {
        self.packets.extend(other.packets);
        self.seed = other.seed.or(self.seed);
        self
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
            } else {
                plan.packets.push(PacketFault::of(Spec::parse(text)?)?);
            }
        }
        Ok(plan)
    }
}

/// As it can be parsed.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.packets.iter().map(PacketFault::to_string);
        let seed = self.seed.map(|seed| format!("seed={seed}"));
        f.write_str(&faults.chain(seed).collect::<Vec<_>>().join(" "))
    }
}
