//! The closing table.

use crate::compare::diff::{CaseResult, Verdict};
use crate::compare::results::{ExampleResult, Results};
use crate::compare::speed::Waits;

/// Rows of text as a table: every column as wide as its widest cell.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Outcomes of every example, busy-polling, blocking and others apart, and the counts.
pub fn closing(results: &Results) -> String {
    let headings = [
        "example",
        "diff",
        "calls",
        "faults",
        "pairs",
        "time R/C",
        "CPU R/C",
        "start-up R/C",
        "memory R-C",
    ];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    for waits in [Some(Waits::BusyPolling), Some(Waits::Blocking), Some(Waits::Once), None] {
        let of_kind =
            |example: &&ExampleResult| example.speed.as_ref().map(|speed| speed.waits) == waits;
        let mut examples = results.examples.iter().filter(of_kind).peekable();
        if let (Some(_), Some(waits)) = (examples.peek(), waits) {
            rows.push(vec![format!("- {waits}")]);
        }
        rows.extend(examples.map(row));
    }
    let mut text = aligned(&rows);
    let mut unexpected = Vec::new();
    for example in &results.examples {
        let found = example.unexpected();
        unexpected.extend(found.into_iter().map(|what| format!("! {}: {what}\n", example.example)));
        if let Some(why) = &example.skipped {
            unexpected.push(format!("  {}: skipped, {why}\n", example.example));
        }
    }
    text.push_str(&unexpected.concat());
    let sum = |is: fn(&Verdict) -> bool| {
        results.examples.iter().map(|example| example.count(is)).sum::<usize>()
    };
    let pairings = results.examples.iter().flat_map(|example| &example.pairings);
    text.push_str(&format!(
        "{} command lines as the C, {} with known differences, {} where this C is not as recorded; \
         {} of {} pairings work\n{} unexpected, {} skipped\n",
        sum(|verdict| *verdict == Verdict::Same),
        sum(|verdict| matches!(verdict, Verdict::Known { .. })),
        sum(|verdict| *verdict == Verdict::OtherC),
        pairings.clone().filter(|pairing| pairing.works).count(),
        pairings.count(),
        results.unexpected,
        results.skipped,
    ));
    text
}

fn row(example: &ExampleResult) -> Vec<String> {
    let none = || "-".to_owned();
    if example.skipped.is_some() {
        return vec![example.example.to_owned(), "skipped".to_owned()];
    }
    let diff = match example.cases.len() {
        0 => none(),
        _ => cases(example),
    };
    let pairs = match example.pairings.len() {
        0 => none(),
        all => {
            let work = example.pairings.iter().filter(|pairing| pairing.works).count();
            format!("{work}/{all}")
        }
    };
    let speed = example.speed.as_ref();
    let ratio = |ratio: Option<crate::compare::stats::Ratio>| {
        ratio.map_or_else(none, |ratio| ratio.to_string())
    };
    vec![
        example.example.to_owned(),
        diff,
        word(&example.calls),
        word(&example.failing),
        pairs,
        ratio(speed.and_then(|speed| speed.time)),
        ratio(speed.and_then(|speed| speed.cpu)),
        ratio(speed.and_then(|speed| speed.start_up)),
        speed.map_or_else(none, |speed| format!("{:+.1} MiB", speed.more_memory_kib / 1024.0)),
    ]
}

/// How all of these came out, in a word.
fn word(cases: &[CaseResult]) -> String {
    let is = |is: fn(&Verdict) -> bool| cases.iter().any(|case| is(&case.verdict));
    let word = match cases {
        [] => "-",
        _ if is(|verdict| *verdict == Verdict::Unexpected) => "UNEXPECTED",
        _ if is(|verdict| matches!(verdict, Verdict::Known { .. })) => "known",
        _ => "same",
    };
    word.to_owned()
}

/// How the command lines of an example came out, in words.
pub fn cases(example: &ExampleResult) -> String {
    let mut parts = vec![format!("{} same", example.count(|v| *v == Verdict::Same))];
    for (count, word) in [
        (example.count(|v| matches!(v, Verdict::Known { .. })), "known"),
        (example.count(|v| *v == Verdict::OtherC), "other C"),
        (example.count(|v| *v == Verdict::Unexpected), "UNEXPECTED"),
        (example.count(|v| matches!(v, Verdict::Skipped { .. })), "skipped"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    parts.join(", ")
}
