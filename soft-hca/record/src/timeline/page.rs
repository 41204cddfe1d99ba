//! The page around the picture.

use std::fmt::Write as _;

use super::data::data;
use super::frame::Lane;
use super::layout::{Kind, Layout};
use super::source::Sources;
use super::svg::{self, escape};
use crate::correlation::Correlation;
use crate::correlation::phases::Phase;
use crate::correlation::rounds::Folded;
use crate::entry::What;
use crate::explain;
use crate::words::{self, thousands};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
const WALK: &str = include_str!("walk.js");
const FILTER: &str = include_str!("filter.js");
/// Of use with the script alone, which shows them.
const TOOLS: &str = "<p id=\"tools\" hidden><input type=\"search\" placeholder=\"find  /\" \
    aria-label=\"find\"> <output></output> <button type=\"button\">one step at a time</button></p>\n";
/// Failures that are listed at the top.
const LISTED: usize = 8;

/// All of it.
///
/// There is a picture for a screen, one for a phone, and one for paper, which stays still.
pub(super) fn page(
    correlation: &Correlation<'_>,
    [layout, phone, paper]: [&Layout; 3],
    sources: &Sources,
) -> String {
    let title = title(correlation);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        escape(&title)
    );
    header(correlation, layout, &title, &mut out);
    out += "<main>\n";
    for (class, layout) in [("wide", layout), ("narrow", phone)] {
        let width = layout.frame.width;
        let _ = writeln!(out, "<div class=\"{class}\" style=\"--width:{width:.0}px\">");
        picture(correlation, layout, &mut out);
        out += "</div>\n";
    }
    out += "</main>\n<div id=\"paper\">\n";
    picture(correlation, paper, &mut out);
    out += "</div>\n<aside id=\"card\" aria-live=\"polite\" hidden></aside>\n";
    out += "<footer>Arrow keys go from thing to thing: up and down in time, left and right among what \
            belongs together. Enter keeps what is shown, Escape lets it go. While something is kept, \
            the pointer on another thing tells the time between them. / finds, and Enter goes to the next that \
            was found. L shows one step at a time: the right arrow or the space bar is the next one, the left \
            arrow the one before.</footer>\n";
    let _ = writeln!(
        out,
        "<script type=\"application/json\" id=\"run\">{}</script>",
        data(correlation, layout, sources)
    );
    let _ = writeln!(out, "<script>\n{SCRIPT}{WALK}{FILTER}</script>\n</body>\n</html>");
    out
}

fn picture(correlation: &Correlation<'_>, layout: &Layout, out: &mut String) {
    *out += "<div class=\"heads\">";
    *out += &svg::head(correlation, &layout.frame);
    *out += "</div>\n";
    for number in 0..layout.blocks.len() {
        block(correlation, layout, number, out);
    }
}

/// The title: the recorded command.
fn title(correlation: &Correlation<'_>) -> String {
    if !correlation.header.command.is_empty() {
        return words::command_line(&correlation.header.command);
    }
    let programs = correlation
        .participants
        .iter()
        .map(|participant| participant.title.split(' ').next().unwrap_or(""));
    let mut programs: Vec<_> = programs.collect();
    programs.dedup();
    programs.join(", ")
}

fn header(correlation: &Correlation<'_>, layout: &Layout, title: &str, out: &mut String) {
    let last = correlation.entries.last().map_or(0, |entry| entry.t);
    let began = correlation
        .header
        .began
        .get(..19)
        .unwrap_or(&correlation.header.began)
        .replacen('T', " ", 1);
    let _ = writeln!(
        out,
        "<header>\n<h1>{}</h1>\n<p class=\"about\">recorded {} UTC, device {}, {} entries in {}{}</p>",
        escape(title),
        escape(&began),
        escape(&correlation.header.device),
        thousands(correlation.entries.len() as u64),
        words::duration(last),
        escape(&aside(correlation))
    );
    let failures = correlation.failures();
    let mut lanes: Vec<Lane> = Vec::new();
    for column in &layout.frame.columns {
        lanes.extend(column.lanes.iter().map(|(lane, ..)| *lane));
    }
    let waits = correlation.entries.iter().any(|entry| matches!(entry.what, What::Wait { .. }));
    let legend = svg::legend(&lanes, waits, !failures.is_empty());
    let _ = writeln!(out, "<ul class=\"legend\">{legend}</ul>");
    let dropped: u64 = correlation
        .entries
        .iter()
        .map(|entry| match entry.what {
            What::Dropped { entries } => entries,
            _ => 0,
        })
        .sum();
    if dropped > 0 {
        let _ = writeln!(
            out,
            "<p class=\"warning\">{} entries are missing: they came faster than they could be written.</p>",
            thousands(dropped)
        );
    }
    if !failures.is_empty() {
        *out += "<ul class=\"failures\">\n";
        for &at in failures.iter().take(LISTED) {
            let label = correlation.label(at);
            let why = label.reason.unwrap_or_default();
            let _ = writeln!(
                out,
                "<li><a href=\"#\" data-go=\"{at}\"><b>{}</b> {}</a> <span>{}, {}</span></li>",
                escape(&label.name),
                escape(&why),
                escape(&correlation.participants[correlation.participant[at]].title),
                svg::time_and_unit(correlation, correlation.entries[at].t)
            );
        }
        if failures.len() > LISTED {
            let more = thousands((failures.len() - LISTED) as u64);
            let _ = writeln!(out, "<li>and {more} more failures</li>");
        }
        *out += "</ul>\n";
    }
    hangs(correlation, layout, out);
    *out += TOOLS;
    *out += "</header>\n";
}

/// Threads that were blocked at the end, and why.
fn hangs(correlation: &Correlation<'_>, layout: &Layout, out: &mut String) {
    let problems = explain::all(correlation.entries);
    let hangs: Vec<_> = problems.iter().filter(|problem| problem.is_hang).collect();
    if hangs.is_empty() {
        return;
    }
    *out += "<ul class=\"failures hangs\">\n";
    for hang in hangs.iter().take(LISTED) {
        let (what, why) = (escape(&hang.what), escape(&hang.why));
        // Polls in vain are on record as one, at the end of some of them.
        let is_that = |at: &usize| {
            let entry = &correlation.entries[*at];
            entry.t >= hang.t
                && entry.process == hang.process
                && entry.place() == hang.source.as_deref()
                && layout.positions[*at].is_some()
        };
        let what = match (0..correlation.entries.len()).find(is_that) {
            Some(at) => format!("<a href=\"#\" data-go=\"{at}\">{what}</a>"),
            None => what,
        };
        let place =
            hang.source.as_ref().map(|place| format!("<br>in {}", escape(&place.to_string())));
        let _ = writeln!(out, "<li><b>hangs</b> {what}<br>{why}{}</li>", place.unwrap_or_default());
    }
    *out += "</ul>\n";
}

/// The processes that are not in the picture.
fn aside(correlation: &Correlation<'_>) -> String {
    let pids = correlation.aside.iter().filter_map(|&at| match correlation.entries[at].what {
        What::ProcessBegan { pid, .. } => Some(format!("; soft-hca's daemon has pid {pid}")),
        _ => None,
    });
    pids.collect()
}

fn block(correlation: &Correlation<'_>, layout: &Layout, number: usize, out: &mut String) {
    let block = &layout.blocks[number];
    let above = number.checked_sub(1);
    if let Some(phase) = block.heading {
        let strip = svg::strip(layout, above, number, "strip");
        let _ = writeln!(
            out,
            "<section class=\"phase\">{strip}<h2>{} <span>{}</span></h2></section>",
            phase.title(),
            escape(&summary(correlation, phase))
        );
    }
    match block.kind {
        Kind::Shown => {
            let _ = writeln!(
                out,
                "<div class=\"block\">{}</div>",
                svg::block(correlation, layout, number)
            );
        }
        // On paper nobody unfolds it.
        Kind::Folded { rounds, .. } if layout.frame.dimensions.is_still => {
            let strip = svg::strip(layout, above, number, "strip torn");
            let _ = writeln!(
                out,
                "<div class=\"fold\">{strip}<span class=\"more\"><b>{}</b> {}</span></div>",
                escape(&more(&rounds)),
                took(&rounds)
            );
        }
        Kind::Folded { rounds, left_out } => {
            let strip = svg::strip(layout, above, number, "strip torn");
            let _ = write!(
                out,
                "<details class=\"fold\"><summary>{strip}<span class=\"more\"><b>{}</b> {}</span></summary>\
                 <div class=\"block\">{}</div>",
                escape(&more(&rounds)),
                took(&rounds),
                svg::block(correlation, layout, number)
            );
            if left_out > 0 {
                let _ = write!(out, "<p class=\"left-out\">{}</p>", not_here(left_out));
            }
            *out += "</details>\n";
        }
        Kind::LeftOut { entries } => {
            let strip = svg::strip(layout, above, number, "strip torn");
            let _ = writeln!(
                out,
                "<div class=\"fold\">{strip}<span class=\"more\">{}</span></div>",
                not_here(entries)
            );
        }
    }
}

fn more(rounds: &Folded) -> String {
    let number = thousands(rounds.rounds as u64);
    match rounds.transfers {
        0 => format!("\u{2026} {number} more like this \u{2026}"),
        _ => format!("\u{2026} {number} more rounds like this one \u{2026}"),
    }
}

fn took(rounds: &Folded) -> String {
    let each = rounds.duration / rounds.rounds.max(1) as u64;
    format!("{}, {} each", words::duration(rounds.duration), words::duration(each))
}

fn not_here(entries: usize) -> String {
    format!(
        "{} more entries are not in this picture; soft-hca show has them as text",
        thousands(entries as u64)
    )
}

/// The content of a part of the run, in a few words.
fn summary(correlation: &Correlation<'_>, phase: Phase) -> String {
    if phase != Phase::Messages {
        return String::new();
    }
    let opcodes = correlation.transfers.iter().filter_map(|of| Some(correlation.operation(of)?.0));
    let kinds = words::counted(opcodes);
    let kinds = kinds
        .iter()
        .map(|(opcode, count)| format!("{} {}", thousands(*count), words::short_opcode(*opcode)));
    kinds.collect::<Vec<_>>().join(", ")
}
