//! Units of a comparison: a command line, all calls of a side that fail, the pairings. A harness in a fabric of its own
//! may run each of them beside others.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::compare::diff::CaseResult;
use crate::compare::interop::{self, Pairing};
use crate::compare::results::ExampleResult;
use crate::compare::speed::{self, Speed};
use crate::compare::{Compare, Part, calls};
use crate::error::Error;
use crate::examples::Example;
use crate::faults::data;
use crate::golden::case::Case;
use crate::transcript::Side;

/// One of an example's.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    /// The example.
    pub example: &'static Example,
    /// The part of it.
    pub what: What<'a>,
}

/// The kinds of units.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// A recorded command line.
    Case(&'a Case),
    /// The user's flags.
    Own(&'a [OsString]),
    /// The calls of both.
    Calls,
    /// How both end when a call of this side fails.
    Failing(Side),
    /// All four pairings.
    Interop,
    /// Time, processor time, memory, size: while nothing else runs.
    Speed,
}

/// The findings of a unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// Of a command line.
    Case(CaseResult),
    /// Of the calls of both.
    Calls(CaseResult),
    /// Of calls that fail.
    Failing(CaseResult),
    /// Of the pairings.
    Pairings(Vec<Pairing>),
    /// Of speed and cost.
    Speed(Box<Speed>),
    /// Why there are no figures.
    NotMeasured(String),
}

impl What<'_> {
    /// Whether nothing else may run beside it.
    pub fn is_alone(&self) -> bool {
        matches!(self, What::Speed)
    }
}

impl ExampleResult {
    /// Takes what was found of it.
    pub fn take(&mut self, found: Found) {
        match found {
            Found::Case(case) => self.cases.push(case),
            Found::Calls(case) => self.calls.push(case),
            Found::Failing(case) => self.failing.push(case),
            Found::Pairings(pairings) => self.pairings = pairings,
            Found::Speed(speed) => self.speed = Some(*speed),
            Found::NotMeasured(why) => self.not_measured = Some(why),
        }
    }
}

impl Compare {
    /// Everything of an example, in the order in which it is told.
    pub(super) fn units(&self, example: &'static Example) -> Vec<Unit<'_>> {
        let flags = self.flags();
        let mut whats = Vec::new();
        if self.parts.contains(&Part::Diff) {
            match flags {
                Some(flags) => whats.push(What::Own(flags)),
                None => whats.extend(self.diff.cases(example).map(What::Case)),
            }
        }
        if self.parts.contains(&Part::Calls) {
            whats.push(What::Calls);
        }
        // Endings with other flags are written down nowhere.
        if self.parts.contains(&Part::Failing) && flags.is_none() {
            whats.extend(data::sides(example).iter().copied().map(What::Failing));
        }
        if self.parts.contains(&Part::Interop) {
            whats.push(What::Interop);
        }
        if self.parts.contains(&Part::Speed) {
            whats.push(What::Speed);
        }
        whats.into_iter().map(|what| Unit { example, what }).collect()
    }

    /// The user's flags, if there are any.
    fn flags(&self) -> Option<&[OsString]> {
        (!self.effort.flags.is_empty()).then_some(self.effort.flags.as_slice())
    }

    /// Looks at one of them.
    pub(super) fn look(&self, Unit { example, what }: Unit<'_>) -> Result<Found, Error> {
        let stage = &self.stage;
        Ok(match what {
            What::Case(case) => Found::Case(self.diff.case(stage, example, case)?),
            What::Own(flags) => Found::Case(self.diff.own(stage, example, flags)?),
            What::Calls => {
                Found::Calls(calls::compare(stage, example, self.flags(), &self.known_calls)?)
            }
            What::Failing(side) => Found::Failing(self.failing.compare(stage, example, side)?),
            What::Interop => Found::Pairings(interop::pairings(stage, example, self.flags())?),
            What::Speed => match speed::measure(stage, example, &self.effort) {
                Ok(speed) => Found::Speed(Box::new(speed)),
                Err(speed::Failure::Run(why)) => Found::NotMeasured(why),
                Err(speed::Failure::Harness(error)) => return Err(error),
            },
        })
    }
}
