//! Outcomes of calls that fail, as a page of the documentation.

use std::fmt::Write;

use crate::faults::data::{Data, Endings, OfSide, Row, sides};
use crate::process::Ending;
use crate::transcript::Side;

const INTRODUCTION: &str = "\
# When a verb fails

Each example was run with each of its calls failing once: the first of its kind, with ENOMEM, by
`soft-hca run --fault CALL:nth=1,errno=ENOMEM`. For each this page has what the program says, with which
status it ends, and how its peer ends; a side that runs on did so until it was killed. In every run nothing
was left behind: no process, no queue pair, no identifier of the connection manager.

This page is made by `harness faults --page`; `harness faults --soft-hca` runs all of it.
";

/// The page.
pub fn page(data: &Data) -> String {
    let mut page = String::from(INTRODUCTION);
    page += "\n## Why some end well, or run on\n\n";
    for (number, reason) in data.reasons.values().enumerate() {
        line(&mut page, &format!("{}. {reason}", number + 1));
    }
    for (example, of_example) in &data.examples {
        line(&mut page, &format!("\n## {}", example.name));
        for side in sides(example) {
            let Some(of_side) = of_example.of(*side) else { continue };
            let title = match sides(example).len() {
                1 => String::new(),
                _ => format!("\n### {side}\n"),
            };
            line(&mut page, &title);
            page += &table(data, *side, of_side, sides(example).len() == 2);
        }
    }
    page
}

fn line(page: &mut String, text: &str) {
    // A string takes all that is written to it.
    let _ = writeln!(page, "{text}");
}

fn table(data: &Data, side: Side, of_side: &OfSide, has_peer: bool) -> String {
    let mut table = String::new();
    let peer = if side == Side::Server { "client" } else { "server" };
    match has_peer {
        true => line(
            &mut table,
            &format!("| call | it says | it ends | the {peer} ends |\n| --- | --- | --- | --- |"),
        ),
        false => line(&mut table, "| call | it says | it ends |\n| --- | --- | --- |"),
    }
    for row in &of_side.fails {
        let says = row
            .says
            .as_ref()
            .map_or("nothing".into(), |says| format!("`{}`", says.replace('|', "\\|").trim()));
        let says = if row.overtaken { says + ", or nothing" } else { says };
        let why = why(data, row);
        let is_own = Row { peer: None, ..row.clone() }.needs_why();
        let (own, its) = if is_own { (why.as_str(), "") } else { ("", why.as_str()) };
        let mut text = format!("| `{}` | {says} | {}{own} |", row.verb, describe(&row.ends));
        if has_peer {
            let ends = row.peer.as_ref().map_or("is not started".to_owned(), describe);
            text += &format!(" {ends}{its} |");
        }
        line(&mut table, &text);
    }
    if !of_side.cannot_fail.is_empty() {
        let calls: Vec<_> = of_side.cannot_fail.iter().map(|call| format!("`{call}`")).collect();
        line(&mut table, &format!("\nReturn nothing and cannot fail: {}.", calls.join(", ")));
    }
    table
}

/// The number of the reason.
fn why(data: &Data, row: &Row) -> String {
    let place = |why: &String| data.reasons.keys().position(|name| name == why);
    row.why.as_ref().and_then(place).map_or(String::new(), |place| format!(" ({})", place + 1))
}

fn describe(endings: &Endings) -> String {
    let words = endings.iter().map(|ending| match ending {
        Ending::TimedOut => "runs on".to_owned(),
        Ending::Code(code) => code.to_string(),
        Ending::Signal(signal) => format!("by signal {signal}"),
    });
    words.collect::<Vec<_>>().join(" or ")
}
