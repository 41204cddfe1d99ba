//! The same command lines for the C pair and for ours, and what differs.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::compare::evidence::Evidence;
use crate::compare::stage::{Maker, Stage, ending_in_words};
use crate::compare::unified::unified;
use crate::error::Error;
use crate::examples::Example;
use crate::golden::case::{Case, ClientProgram, Device, Item, read_cases};
use crate::golden::differences::Unlisted;
use crate::golden::expect::Expectation;
use crate::golden::impossible;
use crate::golden::normalise::Agrees;
use crate::golden::rules::{Expected, Rules, Watch};
use crate::hosts::Played;
use crate::process::Ending;
use crate::run::Unobserved;
use crate::transcript::{Side, Stream};

/// Verdict on a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// Nothing differs.
    Same,
    /// The differences are listed, with this reason.
    Known {
        /// Why it differs.
        reason: String,
    },
    /// Something differs that nobody has listed: this C, twice, from the recorded one. Ours
    /// does as that.
    OtherC,
    /// Something differs that nobody has listed.
    Unexpected,
    /// It was not run.
    Skipped {
        /// Why not.
        why: String,
    },
}

/// A case, run twice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseResult {
    /// Its name within the example.
    pub case: String,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How the sides ended and what the streams differ in, as lines of text.
    pub differences: Vec<String>,
}

/// How often the C is run at most to see what varies where nothing is recorded.
const RUNS: usize = 5;

/// How often both are run at most to see whether one takes longer. The shortest run counts: on a
/// busy machine a run that polls may be slow several times, and a run that really sleeps is slow
/// each time.
const TIMES: usize = 12;
/// By how much one run may be longer than another that prints the same, and by what share of it more: an emulated
/// processor is slow, and not evenly.
const LONGER: Duration = Duration::from_millis(250);
const LONGER_SHARE: u32 = 10;

/// The cases and the rules.
#[derive(Debug)]
pub struct Diff {
    cases: Vec<Case>,
    rules: Rules,
    patience: u32,
}

impl Diff {
    /// Reads the recorded cases of these examples that fit the machine; only those named, if any
    /// is. Every name has to be one of them.
    pub fn read(
        data: &Path,
        examples: &[&Example],
        named: &[String],
        patience: u32,
        on_soft_hca: bool,
    ) -> Result<Diff, Error> {
        let mut cases = read_cases(data)?;
        let rules = Rules::read(data, &cases, true, on_soft_hca)?;
        let is_chosen = |case: &Case| examples.iter().any(|example| example.name == case.example);
        for name in named {
            let mut called = cases.iter().filter(|case| case.is_called(name)).peekable();
            let why = if called.peek().is_none() {
                format!("no case is called {name:?}")
            } else if !called.clone().any(is_chosen) {
                format!("{name:?} is no case of the examples that are named")
            } else if called.all(|case| !is_chosen(case) || !is_here(case)) {
                format!("{name:?} needs another machine than one with one device")
            } else {
                continue;
            };
            return Err(Error::Usage(format!("{why}; harness golden --list names the cases")));
        }
        cases.retain(|case| {
            is_chosen(case)
                && is_here(case)
                && (named.is_empty() || named.iter().any(|name| case.is_called(name)))
        });
        Ok(Diff { cases, rules, patience })
    }

    /// The cases of an example.
    pub fn cases<'a>(&'a self, example: &'a Example) -> impl Iterator<Item = &'a Case> {
        self.cases.iter().filter(|case| case.example == example.name)
    }

    /// The rules by which they are judged.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Runs a recorded case with both makers' programs; once more if the C has not done as it
    /// has always done, which may be chance, or if each has done what has been recorded, and not the same.
    pub fn case(&self, stage: &Stage, example: &Example, case: &Case) -> Result<CaseResult, Error> {
        if let Some(why) = out_of_reach(stage, case) {
            let verdict = Verdict::Skipped { why: why.to_owned() };
            return Ok(CaseResult { case: case.case.clone(), verdict, differences: Vec::new() });
        }
        let of_the_c = self.rules.of_the_c(case)?;
        let expected = self.rules.expected(case)?;
        let play = |maker| {
            let expected = if maker == Maker::C { &of_the_c } else { expected.here() };
            self.play(stage, example, case, maker, expected)
        };
        let judge = || {
            let (c, rust) = (play(Maker::C)?, play(Maker::Rust)?);
            Ok((self.once(example, case, &of_the_c, &expected, &c, &rust), c, rust))
        };
        let mut found = judge()?;
        let either = [&found.1, &found.2];
        let may_be_chance = match found.0.verdict {
            Verdict::OtherC => true,
            Verdict::Unexpected => either.iter().all(|run| self.is_like(&of_the_c, run)),
            _ => false,
        };
        let is_impossible = |run: &&Played| !impossible(&case.example, &run.outcome).is_empty();
        if may_be_chance || either.iter().any(is_impossible) {
            found = judge()?;
        }
        let (result, c, rust) = found;
        with_time(example, result, [&c, &rust], play)
    }

    /// Whether a run has begun, and gone as expected.
    fn is_like(&self, expected: &Expectation, run: &Played) -> bool {
        run.not_started.is_none()
            && expected.complaints(&run.outcome, &self.rules.normaliser).is_empty()
    }

    /// The result of a run of each.
    fn once(
        &self,
        example: &Example,
        case: &Case,
        of_the_c: &Expectation,
        expected: &Expected<'_>,
        c: &Played,
        rust: &Played,
    ) -> CaseResult {
        let result =
            |verdict, differences| CaseResult { case: case.case.clone(), verdict, differences };
        let normaliser = &self.rules.normaliser;
        let is_like = |expected: &Expectation| self.is_like(expected, rust);
        let differences = self.differences(example, case, c, rust);
        if c.not_started.is_some() {
            return result(Verdict::Unexpected, differences);
        }
        let wrong = wrong_numbers(example, [c, rust]);
        if !wrong.is_empty() {
            return result(Verdict::Unexpected, [differences, wrong].concat());
        }
        let live = of_the_c.like(&c.outcome, normaliser);
        if is_like(&live) {
            return match self.with_live(Verdict::Same, case, c, rust) {
                Verdict::Same => result(Verdict::Same, Vec::new()),
                verdict => result(verdict, differences),
            };
        }
        if let Some((difference, recorded)) = &expected.listed {
            // On top of what this C has done; or, where it has done something else, of what
            // was recorded.
            let on_live = self.rules.differences.expectation(case, &live, normaliser);
            let on_live = on_live.ok().flatten().map(|(_, expected)| expected);
            let here = expected.here();
            if on_live.iter().chain([recorded, here]).any(is_like) {
                let known = Verdict::Known { reason: difference.reason.clone() };
                return result(self.with_live(known, case, c, rust), differences);
            }
        }
        let c_is_as_recorded = of_the_c.complaints(&c.outcome, normaliser).is_empty();
        let as_recorded = is_like(expected.here()) || is_like(of_the_c);
        let verdict = match as_recorded && !c_is_as_recorded {
            true => Verdict::OtherC,
            false => Verdict::Unexpected,
        };
        result(verdict, differences)
    }

    /// Runs the user's own flags with both. A difference listed for recorded command lines explains
    /// what differs here, too.
    pub fn own(
        &self,
        stage: &Stage,
        example: &'static Example,
        flags: &[std::ffi::OsString],
    ) -> Result<CaseResult, Error> {
        let args = |side| example.arguments(side, stage.address_of(example, side), flags);
        let play = |maker| {
            let program = |side| args(side).map(|args| stage.program(example, maker, side, args));
            let plan = stage.pair(example, program(Side::Server), program(Side::Client));
            stage.play(plan, false, &mut Unobserved)
        };
        let (c, rust) = (&play(Maker::C)?, &play(Maker::Rust)?);
        let case = Case::unrecorded(example, "run-your-flags", |side| args(side).is_some());
        let mut live = self.rules.of_run(&case, &c.outcome);
        let mut verdict = self.of_own(example, &live, rust);
        let started = c.not_started.is_none() && rust.not_started.is_none();
        // Variation from run to run is known only from more than one.
        for _ in 1..RUNS {
            let hangs =
                Side::BOTH.map(|side| c.outcome.ending(side)).contains(&Some(Ending::TimedOut));
            if verdict != Verdict::Unexpected || !started || hangs {
                break;
            }
            live = live.or(self.rules.of_run(&case, &play(Maker::C)?.outcome));
            verdict = self.of_own(example, &live, rust);
        }
        let wrong = wrong_numbers(example, [c, rust]);
        if !started || !wrong.is_empty() {
            verdict = Verdict::Unexpected;
        }
        let verdict = self.with_live(verdict, &case, c, rust);
        let differences = match verdict {
            Verdict::Same => Vec::new(),
            _ => [self.differences(example, &case, c, rust), wrong].concat(),
        };
        let result = CaseResult { case: "your flags".to_owned(), verdict, differences };
        with_time(example, result, [c, rust], play)
    }

    /// The verdict on ours if the C has done so.
    fn of_own(&self, example: &'static Example, live: &Expectation, rust: &Played) -> Verdict {
        let normaliser = &self.rules.normaliser;
        let run = Unlisted { live, ours: &rust.outcome, normaliser };
        if live.complaints(&rust.outcome, normaliser).is_empty() {
            return Verdict::Same;
        }
        match self.rules.differences.explain(example, &run) {
            Some(reason) => Verdict::Known { reason },
            None => Verdict::Unexpected,
        }
    }

    /// The verdict when what depends on the machine has been looked at, too.
    fn with_live(&self, verdict: Verdict, case: &Case, c: &Played, rust: &Played) -> Verdict {
        if !matches!(verdict, Verdict::Same | Verdict::Known { .. }) {
            return verdict;
        }
        let mut verdict = verdict;
        for (side, stream) in all_streams() {
            let [c, rust] = [c, rust].map(|played| {
                let lines = self.lines(case, played, side, stream);
                self.rules.normaliser.live(&case.example, &lines)
            });
            if c.len() != rust.len() && verdict == Verdict::Same {
                return Verdict::Unexpected;
            }
            // Where ours ends earlier by design, it has printed less.
            for (c, rust) in c.iter().zip(&rust) {
                match (rust.agrees_with(c), &verdict) {
                    (Agrees::No, _) => return Verdict::Unexpected,
                    (Agrees::Differs(reason), Verdict::Same) => {
                        verdict = Verdict::Known { reason: reason.to_owned() };
                    }
                    (Agrees::Same | Agrees::Differs(_), _) => {}
                }
            }
        }
        verdict
    }

    fn lines(&self, case: &Case, played: &Played, side: Side, stream: Stream) -> Vec<String> {
        let mut lines = played.outcome.transcript.stream(side, stream);
        let first = case.truncated_to_lines.get(&Item::Stream(side, stream));
        lines.truncate(first.copied().unwrap_or(usize::MAX));
        lines
    }

    fn play(
        &self,
        stage: &Stage,
        example: &Example,
        case: &Case,
        maker: Maker,
        expected: &Expectation,
    ) -> Result<Played, Error> {
        let mut watch = Watch { expected, normaliser: &self.rules.normaliser };
        let plan = case.plan(example, self.patience, |_, side, args| {
            stage.program(example, maker, side, args)
        });
        stage.play(plan, false, &mut watch)
    }

    fn differences(
        &self,
        example: &Example,
        case: &Case,
        c: &Played,
        rust: &Played,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for (maker, played) in [(Maker::C, c), (Maker::Rust, rust)] {
            let never_ready = played.outcome.never_ready.as_ref();
            for why in played.not_started.iter().chain(never_ready) {
                lines.push(format!("{maker}: {why}"));
            }
        }
        for side in Side::BOTH.into_iter().filter(|&side| case.has(side)) {
            let [c, rust] = [c, rust].map(|played| ending_in_words(played.outcome.ending(side)));
            if c == rust {
                lines.push(format!("{side}: both {c}"));
            } else {
                lines.push(format!("{side}: C {c}, Rust {rust}"));
            }
        }
        for (side, stream) in all_streams() {
            let printed = [c, rust].map(|played| self.lines(case, played, side, stream));
            let normal = |lines| self.rules.normaliser.apply(example.name, lines);
            let name = format!("{side}.{stream}");
            let live = |lines| self.rules.normaliser.live(example.name, lines);
            lines.extend(unified(&name, &normal(&printed[0]), &normal(&printed[1])));
            let text = |lines| live(lines).into_iter().map(|live| live.text).collect::<Vec<_>>();
            lines.extend(unified(&name, &text(&printed[0]), &text(&printed[1])));
        }
        lines
    }
}

/// Impossible numbers of either.
fn wrong_numbers(example: &Example, runs: [&Played; 2]) -> Vec<String> {
    let makers = Maker::BOTH.into_iter().zip(runs);
    let wrong = makers.flat_map(|(maker, run)| {
        let complaints = impossible(example.name, &run.outcome);
        complaints.into_iter().map(move |what| format!("{maker}: {what}"))
    });
    wrong.collect()
}

/// The result, or that one of the two takes much longer, although both print the same.
fn with_time(
    example: &Example,
    result: CaseResult,
    first: [&Played; 2],
    play: impl Fn(Maker) -> Result<Played, Error>,
) -> Result<CaseResult, Error> {
    let is_over = |run: &Played| {
        !Side::BOTH.map(|side| run.outcome.ending(side)).contains(&Some(Ending::TimedOut))
    };
    // Pauses of random length are looked at for themselves.
    let comparable = result.verdict == Verdict::Same
        && !matches!(example.evidence, Evidence::Published)
        && first.iter().all(|run| is_over(run));
    if !comparable {
        return Ok(result);
    }
    let mut times = first.map(|run| run.outcome.elapsed);
    let differ = |[c, rust]: [Duration; 2]| c.abs_diff(rust) > LONGER + c.min(rust) / LONGER_SHARE;
    for _ in 1..TIMES {
        if !differ(times) {
            return Ok(result);
        }
        for (maker, time) in Maker::BOTH.into_iter().zip(&mut times) {
            *time = play(maker)?.outcome.elapsed.min(*time);
        }
    }
    if !differ(times) {
        return Ok(result);
    }
    let [c, rust] = times.map(|time| time.as_secs_f64());
    let differences = vec![format!("C takes {c:.1} s, Rust {rust:.1} s")];
    Ok(CaseResult { verdict: Verdict::Unexpected, differences, ..result })
}

fn all_streams() -> impl Iterator<Item = (Side, Stream)> {
    Side::BOTH.into_iter().flat_map(|side| Stream::BOTH.map(|stream| (side, stream)))
}

/// Does the case fit a machine with one device?
fn is_here(case: &Case) -> bool {
    matches!(case.device, Device::Any | Device::One)
}

/// The reason why a case cannot be done on other hosts.
fn out_of_reach(stage: &Stage, case: &Case) -> Option<&'static str> {
    if stage.is_local() {
        None
    } else if case.kill.is_some() {
        Some("a side on another host cannot be killed at a given time")
    } else if !matches!(case.client_program, ClientProgram::Client) {
        Some("its second program is none of the pair's")
    } else {
        None
    }
}
