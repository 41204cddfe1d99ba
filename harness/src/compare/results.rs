//! All that was found, as it is written with `--json`.

use serde::Serialize;

use crate::compare::diff::{CaseResult, Verdict};
use crate::compare::interop::Pairing;
use crate::compare::speed::Speed;

/// Findings about an example.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExampleResult {
    /// Its name.
    pub example: &'static str,
    /// Why it was not looked at.
    pub skipped: Option<String>,
    /// The command lines that both have run.
    pub cases: Vec<CaseResult>,
    /// The calls of both.
    pub calls: Vec<CaseResult>,
    /// How both end when calls of a side fail.
    pub failing: Vec<CaseResult>,
    /// The four pairings.
    pub pairings: Vec<Pairing>,
    /// Speed and cost.
    pub speed: Option<Speed>,
    /// Why there is none, if it was to be measured.
    pub not_measured: Option<String>,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Where the programs ran.
    pub fabric: String,
    /// One for each example.
    pub examples: Vec<ExampleResult>,
    /// How many things were seen that nobody expects.
    pub unexpected: usize,
    /// How many examples and cases were not looked at.
    pub skipped: usize,
}

impl ExampleResult {
    /// How many cases came out so.
    pub fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.cases.iter().filter(|case| is(&case.verdict)).count()
    }

    /// Everything about it that nobody expects.
    pub fn unexpected(&self) -> Vec<String> {
        let mut found = Vec::new();
        for case in self.cases.iter().chain(&self.calls).chain(&self.failing) {
            match case.verdict {
                Verdict::Unexpected => found.push(format!("{}: an unlisted difference", case.case)),
                Verdict::OtherC => found.push(format!(
                    "{}: this C differs from the recorded one, as which ours is",
                    case.case
                )),
                Verdict::Same | Verdict::Known { .. } | Verdict::Skipped { .. } => {}
            }
        }
        for pairing in self.pairings.iter().filter(|pairing| !pairing.works) {
            let note = pairing.note.as_deref().unwrap_or_default();
            found.push(format!("{} server, {} client: {note}", pairing.server, pairing.client));
        }
        found.extend(self.not_measured.iter().map(|why| format!("cannot be measured: {why}")));
        found.extend(self.speed.iter().flat_map(|speed| speed.over.clone()));
        found
    }

    /// How much of it was not looked at.
    pub fn skipped(&self) -> usize {
        let cases = self.count(|verdict| matches!(verdict, Verdict::Skipped { .. }));
        usize::from(self.skipped.is_some()) + cases
    }
}

impl Results {
    /// Adds up.
    pub fn new(fabric: String, examples: Vec<ExampleResult>) -> Results {
        let unexpected = examples.iter().map(|example| example.unexpected().len()).sum();
        let skipped = examples.iter().map(ExampleResult::skipped).sum();
        Results { fabric, examples, unexpected, skipped }
    }
}
