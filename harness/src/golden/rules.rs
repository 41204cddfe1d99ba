//! The data that say how a run is judged: rules for lines, for timing, and the lists of
//! differences.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::golden::case::Case;
use crate::golden::differences::{Difference, Differences};
use crate::golden::expect::Expectation;
use crate::golden::normalise::Normaliser;
use crate::golden::timing::Timing;
use crate::private::{ADDRESS, CLIENT_ADDRESS};
use crate::run::{Observer, Outcome, Progress};
use crate::transcript::Side;

/// The rules of a data folder.
#[derive(Debug)]
pub struct Rules {
    data: PathBuf,
    /// The rules for lines.
    pub normaliser: Normaliser,
    timing: Timing,
    /// The differences by design.
    pub differences: Differences,
    of_soft_hca: Differences,
    left_out: Vec<LeftOut>,
}

/// Cases that are not run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeftOut {
    /// Of this example, or of all.
    example: Option<String>,
    /// The case of this name, or all.
    case: Option<String>,
    /// Why.
    reason: String,
}

impl LeftOut {
    fn means(&self, case: &Case) -> bool {
        self.example.as_ref().is_none_or(|name| *name == case.example)
            && self.case.as_ref().is_none_or(|name| *name == case.case)
    }
}

/// Expectations of a case.
#[derive(Debug)]
pub struct Expected<'a> {
    /// Of the C, on a device like the recorded one.
    pub recorded: Expectation,
    /// Of a program that differs by design.
    pub listed: Option<(&'a Difference, Expectation)>,
    /// Of the same on soft-hca, if that differs again.
    pub on_soft_hca: Option<(&'a Difference, Expectation)>,
}

impl Expected<'_> {
    /// Of our programs on a device.
    pub fn by_design(&self) -> &Expectation {
        self.listed.as_ref().map_or(&self.recorded, |(_, expected)| expected)
    }

    /// Of our programs where they run.
    pub fn here(&self) -> &Expectation {
        self.on_soft_hca.as_ref().map_or(self.by_design(), |(_, expected)| expected)
    }
}

impl Rules {
    /// Reads them; the lists of differences only if they are to count.
    pub fn read(
        data: &Path,
        cases: &[Case],
        by_design: bool,
        on_soft_hca: bool,
    ) -> Result<Rules, Error> {
        let differences = match by_design {
            true => Differences::read(data, cases)?,
            false => Differences::default(),
        };
        let of_soft_hca = match on_soft_hca {
            true => Differences::of_soft_hca(data, cases)?,
            false => Differences::default(),
        };
        let mut timing = Timing::read(data)?;
        if on_soft_hca {
            timing.are_for_soft_hca();
        }
        Ok(Rules {
            data: data.to_owned(),
            normaliser: Normaliser::read(data)?,
            timing,
            differences,
            of_soft_hca,
            left_out: Vec::new(),
        })
    }

    /// Takes the other host of two for the recorded one, and what is listed in `two-hosts.json` for
    /// impossible there.
    pub fn are_for_two_hosts(&mut self, cases: &[Case]) -> Result<(), Error> {
        let path = self.data.join("two-hosts.json");
        if path.exists() {
            let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
            self.left_out = serde_json::from_str(&text).map_err(Error::json(&path))?;
        }
        for entry in &self.left_out {
            if !cases.iter().any(|case| entry.means(case)) {
                let what = format!("{:?} {:?}: there is no such case", entry.example, entry.case);
                return Err(Error::data(&path, what));
            }
        }
        self.normaliser.take_for(CLIENT_ADDRESS, ADDRESS);
        self.normaliser.take_for("0a:09:00:02", "0a:09:00:01");
        self.normaliser.take_for("ff:fe:00:00:02", "ff:fe:00:00:01");
        Ok(())
    }

    /// Why a case is not run here, if it is not.
    pub fn leave_out(&self, case: &Case) -> Option<&str> {
        let entry = self.left_out.iter().find(|entry| entry.means(case))?;
        Some(&entry.reason)
    }

    /// The expectations of a case, from its recordings and the lists.
    pub fn expected(&self, case: &Case) -> Result<Expected<'_>, Error> {
        let recorded = Expectation::read(&self.data, case, &self.normaliser, &self.timing)?;
        let listed = self.differences.expectation(case, &recorded, &self.normaliser)?;
        let usual = listed.as_ref().map_or(&recorded, |(_, expected)| expected);
        let on_soft_hca = self.of_soft_hca.expectation(case, usual, &self.normaliser)?;
        Ok(Expected { recorded, listed, on_soft_hca })
    }

    /// The expectation of somebody who does as a run did for which there is no recording.
    pub fn of_run(&self, case: &Case, outcome: &Outcome) -> Expectation {
        Expectation::of_run(case, outcome, &self.normaliser, &self.timing)
    }

    /// The expectation of the C itself where it runs.
    pub fn of_the_c(&self, case: &Case) -> Result<Expectation, Error> {
        let recorded = Expectation::read(&self.data, case, &self.normaliser, &self.timing)?;
        // An entry that replaces lines of ours says nothing of the C.
        let here = self.of_soft_hca.expectation(case, &recorded, &self.normaliser).ok().flatten();
        Ok(here.map_or(recorded, |(_, expected)| expected))
    }
}

/// Lets a side be killed only in mid-run, and ends a run early once only the time
/// limit is missing from the expectation.
#[derive(Debug)]
pub struct Watch<'a> {
    /// The expectation.
    pub expected: &'a Expectation,
    /// The rules for lines.
    pub normaliser: &'a Normaliser,
}

impl Observer for Watch<'_> {
    fn may_kill(&mut self, victim: Side, so_far: &Progress<'_>) -> bool {
        self.expected.has_printed_all(victim, so_far, self.normaliser)
    }

    fn is_settled(&mut self, so_far: &Progress<'_>) -> bool {
        self.expected.is_settled(so_far, self.normaliser)
    }
}
