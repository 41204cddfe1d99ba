//! Both with one call failing, at one step of a run after the other: how they end.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::compare::diff::{CaseResult, Verdict};
use crate::compare::stage::{Maker, Stage, ending_in_words};
use crate::error::Error;
use crate::examples::Example;
use crate::faults::data::{self, OfExample, Row};
use crate::faults::{Watch, fails, faulty};
use crate::process::Ending;
use crate::run::{Observer, Progress};
use crate::transcript::Side;

/// Calls that fail, one for each step of a run: what the others do is checked for ours alone, by `harness faults`.
const CALLS: [&str; 11] = [
    "rdma_get_devices",
    "ibv_query_device",
    "ibv_reg_mr",
    "ibv_modify_qp",
    "rdma_join_multicast",
    "rdma_connect",
    "rdma_accept",
    "ibv_post_recv",
    "ibv_post_send",
    "ibv_poll_cq",
    "ibv_dereg_mr",
];
/// How long a side that is to run on is looked at while it does.
const RUNS_ON_FOR: Duration = Duration::from_millis(300);
/// How long a pair may take that does not come to where it is expected.
const LIMIT: Duration = Duration::from_secs(15);

/// What fails, and the endings in which ours differ from the C by design.
#[derive(Debug)]
pub struct Failing {
    /// The folder with what fails.
    faults: PathBuf,
    listed: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    example: String,
    /// Of this side, or of both.
    side: Option<Side>,
    /// Calls that fail; all, if none is named.
    #[serde(default)]
    calls: Vec<String>,
    reason: String,
}

impl Listed {
    fn means(&self, example: &Example, side: Side, call: &str) -> bool {
        self.example == example.name
            && self.side.is_none_or(|of| of == side)
            && (self.calls.is_empty() || self.calls.iter().any(|of| of == call))
    }
}

/// How server and client have ended.
type Endings = [Option<Ending>; 2];

impl Failing {
    /// Reads `failing.json` of a data folder; `faults` is the folder with what fails.
    pub fn read(data: &Path, faults: &Path) -> Result<Failing, Error> {
        let path = data.join("failing.json");
        let text = fs::read(&path).map_err(Error::read(&path))?;
        let listed: Vec<Listed> = serde_json::from_slice(&text).map_err(Error::json(&path))?;
        let unknown = listed.iter().find(|listed| Example::named(&listed.example).is_none());
        match unknown {
            None => Ok(Failing { faults: faults.to_owned(), listed }),
            Some(Listed { example, .. }) => {
                Err(Error::data(&path, format!("no example is called {example:?}")))
            }
        }
    }

    /// Has each call of a side fail once, with both makers' programs.
    pub fn compare(
        &self,
        stage: &Stage,
        example: &Example,
        side: Side,
    ) -> Result<CaseResult, Error> {
        let of_example: OfExample = data::read(&data::file(&self.faults, example))?;
        let rows = of_example.of(side).map_or(&[][..], |of_side| &of_side.fails);
        let rows: Vec<&Row> =
            rows.iter().filter(|row| CALLS.contains(&row.verb.as_str())).collect();
        let (mut differences, mut reasons, mut is_known) = (Vec::new(), Vec::new(), true);
        for row in &rows {
            let endings = |maker| ends(stage, example, maker, side, row);
            let mut both = [endings(Maker::C)?, endings(Maker::Rust)?];
            if differ(row, both) {
                both = [endings(Maker::C)?, endings(Maker::Rust)?];
            }
            if !differ(row, both) {
                continue;
            }
            for (of, index) in Side::BOTH.into_iter().zip(0..) {
                let [c, rust] = both.map(|endings| ending_in_words(endings[index]));
                if c != rust {
                    differences.push(format!("{} fails, {of}: C {c}, Rust {rust}", row.verb));
                }
            }
            let mut listed = self.listed.iter();
            match listed.find(|listed| listed.means(example, side, &row.verb)) {
                Some(listed) => reasons.push(listed.reason.as_str()),
                None => is_known = false,
            }
        }
        reasons.dedup();
        let verdict = match (differences.is_empty(), is_known) {
            (true, _) => Verdict::Same,
            (false, true) => Verdict::Known { reason: reasons.join("; ") },
            (false, false) => Verdict::Unexpected,
        };
        let case = format!("{} calls of the {side} fail", rows.len());
        Ok(CaseResult { case, verdict, differences })
    }
}

/// Whether the endings are others, where each has one way to end.
fn differ(row: &Row, [c, rust]: [Endings; 2]) -> bool {
    let is_chance = row.ends.iter().count() > 1
        || row.peer.as_ref().is_some_and(|peer| peer.iter().count() > 1);
    if !is_chance {
        return c != rust;
    }
    // Whichever way it ends by chance, it does so by itself.
    let by_itself =
        |endings: Endings| endings.map(|ending| matches!(ending, Some(Ending::Code(_))));
    by_itself(c) != by_itself(rust)
}

/// Ends a run when what still runs is expected to run on.
struct Quick<'d>(Watch<'d>);

impl Observer for Quick<'_> {
    fn is_settled(&mut self, so_far: &Progress<'_>) -> bool {
        self.0.is_settled(so_far)
    }

    fn settled_for(&self) -> Duration {
        RUNS_ON_FOR
    }
}

/// How a maker's pair ends when the first call of a verb fails on one side.
fn ends(
    stage: &Stage,
    example: &Example,
    maker: Maker,
    side: Side,
    row: &Row,
) -> Result<Endings, Error> {
    let flags: Vec<OsString> =
        example.tour_flags().split_whitespace().map(OsString::from).collect();
    let program = |of| {
        let args = example.arguments(of, stage.address_of(example, of), &flags)?;
        let program = stage.program(example, maker, of, args);
        Some(if of == side { faulty(&program, &fails(&row.verb)) } else { program })
    };
    let mut plan = stage.pair(example, program(Side::Server), program(Side::Client));
    plan.served = None;
    (plan.limit, plan.ready_limit) = (LIMIT, LIMIT);
    let played = stage.play(plan, false, &mut Quick(Watch { side, row }))?;
    Ok(Side::BOTH.map(|side| played.outcome.ending(side)))
}
