//! Both when something goes wrong: one call fails, at one step of a run after the other, a message has another size, or
//! its data are damaged. How they end.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::compare::diff::{CaseResult, Verdict};
use crate::compare::evidence::Evidence;
use crate::compare::stage::{Maker, Stage, ending_in_words};
use crate::error::Error;
use crate::examples::Example;
use crate::faults::data::{self, OfExample, Row};
use crate::faults::{Watch, fails, faulty};
use crate::process::Ending;
use crate::run::{Observer, Progress};
use crate::transcript::{Side, Stream};

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
/// soft-hca's fault of completions.
const COMPLETION: &str = "completion";
/// How often both are run at most until one run of each is the same: some of it is chance.
const RUNS: usize = 4;
/// How long a side that is to run on is looked at while it does.
const RUNS_ON_FOR: Duration = Duration::from_millis(300);
/// How long a pair may take that does not come to where it is expected.
const LIMIT: Duration = Duration::from_secs(15);

/// Faults, and the endings in which ours differ from the C by design.
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
    /// Calls that fail, or `completion`; all, if none is named.
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

/// A mistake that a run is given.
struct Fault {
    /// As the lists of known differences have it: a call, or `completion`.
    name: String,
    /// As it is shown.
    words: String,
    /// soft-hca's specification.
    spec: String,
    flags: Vec<OsString>,
    /// The endings that are expected of both, where somebody has written them down.
    row: Option<Row>,
}

impl Fault {
    /// The faults of a side of an example, one after the other.
    fn all(example: &Example, side: Side, rows: &[Row]) -> Vec<Fault> {
        let flags = example.tour_flags().split_whitespace().map(OsString::from);
        let flags: Vec<_> = flags.collect();
        let of_call = |row: &Row| Fault {
            name: row.verb.clone(),
            words: format!("{} fails", row.verb),
            spec: fails(&row.verb),
            flags: flags.clone(),
            row: Some(row.clone()),
        };
        let calls = rows.iter().filter(|row| CALLS.contains(&row.verb.as_str())).map(of_call);
        let mut all: Vec<_> = calls.collect();
        let lies = |words: &str, spec: &str| Fault {
            name: COMPLETION.to_owned(),
            words: words.to_owned(),
            spec: format!("{COMPLETION}:{spec}"),
            flags: example.few(),
            row: None,
        };
        if example.is_of_suite() {
            all.push(lies("a message has another size", "bytes=7,dir=receive,nth=2"));
        }
        if side == Side::Client && matches!(example.evidence, Evidence::Verified(_)) {
            all.push(lies("data are damaged", "damaged"));
        }
        all
    }
}

/// How a run went: the endings, and how often it was said that something is not as expected.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ended {
    endings: Endings,
    complaints: [usize; 2],
}

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
        let faults = Fault::all(example, side, rows);
        let (mut differences, mut reasons, mut is_known) = (Vec::new(), Vec::new(), true);
        for fault in &faults {
            let mut seen: [Vec<Ended>; 2] = Default::default();
            let agree = |[c, rust]: &[Vec<Ended>; 2]| {
                c.iter().any(|c| rust.iter().any(|rust| !differ(fault, [*c, *rust])))
            };
            while seen[0].len() < RUNS && !agree(&seen) {
                for maker in Maker::BOTH {
                    seen[maker as usize].push(ends(stage, example, maker, side, fault)?);
                }
            }
            if agree(&seen) {
                continue;
            }
            let both = seen.map(|runs| runs[0]);
            for (of, index) in Side::BOTH.into_iter().zip(0..) {
                let [c, rust] = both.map(|run| {
                    let ending = ending_in_words(run.endings[index]);
                    format!("{ending} and complains {} times", run.complaints[index])
                });
                if c != rust {
                    differences.push(format!("{}, {of}: C {c}, Rust {rust}", fault.words));
                }
            }
            let mut listed = self.listed.iter();
            match listed.find(|listed| listed.means(example, side, &fault.name)) {
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
        let case = format!("{} faults of the {side}", faults.len());
        Ok(CaseResult { case, verdict, differences })
    }
}

/// Whether the runs are others, where each has one way to end.
fn differ(fault: &Fault, [c, rust]: [Ended; 2]) -> bool {
    let is_chance = fault.row.as_ref().is_some_and(|row| {
        let peer = row.peer.as_ref();
        row.ends.iter().count() > 1 || peer.is_some_and(|peer| peer.iter().count() > 1)
    });
    if !is_chance {
        return c != rust;
    }
    // Whichever way it ends by chance, it does so by itself.
    let by_itself = |run: Ended| run.endings.map(|ending| matches!(ending, Some(Ending::Code(_))));
    by_itself(c) != by_itself(rust)
}

/// Ends a run when what still runs is expected to run on.
struct Quick<'d>(Option<Watch<'d>>);

impl Observer for Quick<'_> {
    fn is_settled(&mut self, so_far: &Progress<'_>) -> bool {
        self.0.as_mut().is_some_and(|watch| watch.is_settled(so_far))
    }

    fn settled_for(&self) -> Duration {
        RUNS_ON_FOR
    }
}

/// How a maker's pair ends when something goes wrong on one side.
fn ends(
    stage: &Stage,
    example: &Example,
    maker: Maker,
    side: Side,
    fault: &Fault,
) -> Result<Ended, Error> {
    let program = |of| {
        let args = example.arguments(of, stage.address_of(example, of), &fault.flags)?;
        let program = stage.program(example, maker, of, args);
        Some(if of == side { faulty(&program, &fault.spec) } else { program })
    };
    let mut plan = stage.pair(example, program(Side::Server), program(Side::Client));
    plan.served = None;
    (plan.limit, plan.ready_limit) = (LIMIT, LIMIT);
    let watch = fault.row.as_ref().map(|row| Watch { side, row });
    let played = stage.play(plan, false, &mut Quick(watch))?;
    let outcome = &played.outcome;
    // Complaints of a call that fails are not the same by design; those of these are.
    let complaints = |of| match &fault.row {
        Some(_) => 0,
        None => {
            let lines = outcome.transcript.stream(of, Stream::Stderr);
            let complains = |line: &&String| line.contains("expected") || line.contains("failed");
            lines.iter().filter(complains).count()
        }
    };
    Ok(Ended {
        endings: Side::BOTH.map(|of| outcome.ending(of)),
        complaints: Side::BOTH.map(complaints),
    })
}
