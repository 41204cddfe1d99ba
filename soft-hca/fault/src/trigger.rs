//! Triggers of a fault: a probability, a number, all that comes by.

use std::fmt;

use super::Error;
use super::random::Random;
use super::spec::{Number, Spec};
use super::value::Probability;

/// When a fault fires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    pub(super) chance: Chance,
    /// How often, at most.
    pub(super) times: Option<u32>,
}

/// At which of those that come by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Chance {
    #[default]
    All,
    Some(Probability),
    /// Counted from 1.
    Nth(u32),
}

impl Trigger {
    /// Its keys, for messages.
    pub(super) fn take(spec: &mut Spec<'_>) -> Result<Self, Error> {
        let nth = spec.number("nth", &Number::COUNT)?;
        let times = spec.number("times", &Number::COUNT)?;
        let probability = spec.value("p", Probability::WANTED)?;
        let chance = match (nth, probability) {
            (Some(_), Some(_)) => return Err(Error::Exclusive("a probability")),
            (Some(_), None) if times.is_some() => return Err(Error::Exclusive("times=N")),
            (Some(nth), None) => Chance::Nth(nth as u32),
            (None, Some(probability)) => Chance::Some(probability),
            (None, None) => Chance::All,
        };
        Ok(Self { chance, times: times.map(|times| times as u32) })
    }

    /// Its parts, as they can be parsed.
    pub(super) fn parts(&self) -> impl Iterator<Item = String> {
        let chance = match self.chance {
            Chance::All => None,
            Chance::Some(probability) => Some(probability.to_string()),
            Chance::Nth(nth) => Some(format!("nth={nth}")),
        };
        chance.into_iter().chain(self.times.map(|times| format!("times={times}")))
    }
}

/// Counts what comes by.
#[derive(Clone, Debug)]
pub struct Counting {
    trigger: Trigger,
    come: u64,
    fired: u32,
}

impl Counting {
    /// Nothing has come by yet.
    pub fn new(trigger: Trigger) -> Self {
        Self { trigger, come: 0, fired: 0 }
    }

    /// One more has come; whether the fault fires.
    pub fn fires(&mut self, random: &mut Random) -> bool {
        self.come += 1;
        let fires = match self.trigger.chance {
            Chance::All => true,
            Chance::Some(probability) => probability.takes(random.below(1_000_000)),
            Chance::Nth(nth) => self.come == u64::from(nth),
        } && self.trigger.times.is_none_or(|times| self.fired < times);
        self.fired = self.fired.saturating_add(fires.into());
        fires
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.fired, self.come)
    }
}
