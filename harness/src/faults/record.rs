//! Writes down what happens when calls fail.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::error::Error;
use crate::examples::{Example, sound};
use crate::faults::data::{self, Endings, OfExample, OfSide, Row};
use crate::faults::{Faults, calls, other};
use crate::process::Ending;
use crate::run::{Observer, Progress};
use crate::transcript::Side;

/// A side that still runs so long after the other has ended is taken to run on.
const PATIENCE: Duration = Duration::from_secs(4);
/// Both of them, from the client's start on.
const LIMIT: Duration = Duration::from_secs(12);
/// How soft-hca refuses to have a function fail that returns nothing.
const CANNOT_FAIL: &str = "returns nothing and so cannot fail";

impl Faults {
    /// Writes the files of the selected examples. Reasons stay where what happens is the same.
    pub fn record(&self, out: &mut dyn Write) -> Result<(), Error> {
        for example in sound().filter(|example| self.is_selected(example)) {
            let path = data::file(&self.selection.data, example);
            let before: Option<OfExample> = data::read(&path).ok();
            let good = self.listing(example)?;
            let mut of_example = OfExample::default();
            for side in Side::BOTH {
                if !data::sides(example).contains(&side) {
                    continue;
                }
                let usual = self.said(example, side, &good).into_iter().collect();
                let known = before.as_ref().and_then(|before| before.of(side));
                let calls = calls(&good, side);
                let of_side = self.of_side(example, side, &calls, &usual, known, out)?;
                match side {
                    Side::Server => of_example.server = Some(of_side),
                    Side::Client => of_example.client = of_side,
                }
            }
            let text = serde_json::to_string_pretty(&of_example).map_err(Error::json(&path))?;
            fs::write(&path, text + "\n").map_err(Error::write(&path))?;
        }
        Ok(())
    }

    fn of_side(
        &self,
        example: &Example,
        side: Side,
        calls: &[String],
        usual: &BTreeSet<String>,
        before: Option<&OfSide>,
        out: &mut dyn Write,
    ) -> Result<OfSide, Error> {
        let mut of_side = OfSide::default();
        for verb in calls {
            let outcome = self.with_fault(example, side, verb, Some(LIMIT), &mut OneHasEnded)?;
            let said = self.said(example, side, &outcome);
            if said.iter().any(|line| line.contains(CANNOT_FAIL)) {
                of_side.cannot_fail.push(verb.clone());
                continue;
            }
            // Other lines of a program that goes on are a matter of time.
            let has_failed = matches!(outcome.ending(side), Some(Ending::Code(code)) if code != 0);
            let new = said.iter().filter(|line| !usual.contains(*line));
            let any = || new.clone().next().filter(|_| has_failed);
            let says_so = |line: &&String| {
                [verb.as_str(), "errno", "fail"].iter().any(|word| line.contains(word))
            };
            let says = new.clone().find(says_so).or_else(any).cloned();
            let mut row = Row {
                verb: verb.clone(),
                says,
                overtaken: false,
                ends: Endings::one(outcome.ending(side).unwrap_or(Ending::TimedOut)),
                peer: outcome.ending(other(side)).map(Endings::one),
                why: None,
            };
            let known = before.and_then(|before| before.fails.iter().find(|old| old.verb == *verb));
            row.keep_known(known);
            let line = format!("{}/{side}: {row:?}\n", example.name);
            out.write_all(line.as_bytes()).map_err(Error::write(Path::new("standard output")))?;
            of_side.fails.push(row);
        }
        Ok(of_side)
    }
}

impl Row {
    /// Further endings and the reason of an earlier recording, where this run was like it.
    fn keep_known(&mut self, known: Option<&Row>) {
        let Some(known) = known else { return };
        let allows = |known: &Endings, new: &Endings| new.iter().all(|ending| known.allow(ending));
        let peers = match (&known.peer, &self.peer) {
            (Some(known), Some(new)) => allows(known, new),
            (known, new) => known.is_none() && new.is_none(),
        };
        if peers && allows(&known.ends, &self.ends) {
            (self.ends, self.peer) = (known.ends.clone(), known.peer.clone());
        }
        self.overtaken = known.overtaken;
        self.why = known.why.clone().filter(|_| self.needs_why());
    }
}

/// Ends a run some time after the first side has ended.
struct OneHasEnded;

impl Observer for OneHasEnded {
    fn is_settled(&mut self, so_far: &Progress<'_>) -> bool {
        so_far.server.is_some() || so_far.client.is_some()
    }

    fn settled_for(&self) -> Duration {
        PATIENCE
    }
}
