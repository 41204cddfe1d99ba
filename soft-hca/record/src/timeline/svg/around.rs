//! What is around the rows: the head with who stands where, and the legend.

use std::fmt::Write as _;

use super::values::{escape, n, unit};
use super::{open, panels};
use crate::correlation::Correlation;
use crate::timeline::frame::{Frame, Lane};
use crate::timeline::text::{fit, sans};

/// Pixels of the head.
const HEAD: f64 = 52.0;
/// And of a head where the titles stand above the lanes.
const HIGH_HEAD: f64 = 84.0;

/// And of one where the lanes' names go upwards.
const HIGHEST_HEAD: f64 = 120.0;

/// Who stands where, and the lanes' names.
pub(in crate::timeline) fn head(correlation: &Correlation<'_>, frame: &Frame) -> String {
    let alone = frame.text_columns.len() == 1;
    let height = match (alone, frame.room.is_stacked) {
        (_, true) => HIGHEST_HEAD,
        (true, false) => HIGH_HEAD,
        (false, false) => HEAD,
    };
    let mut out = open(frame, "head", 0.0, height);
    panels(frame, 0.0, height, &mut out);
    let is_stacked = frame.room.is_stacked;
    if !is_stacked {
        let _ = write!(
            out,
            "<text class=\"unit\" x=\"{}\" y=\"{}\">{}</text>",
            n(frame.time),
            n(height - 10.0),
            unit(correlation)
        );
    }
    let (size, small) = if is_stacked { (13.0, 11.5) } else { (15.5, 12.5) };
    for (number, (column, participant)) in
        frame.columns.iter().zip(&correlation.participants).enumerate()
    {
        let (lanes_from, lanes_to) = column.span();
        // Two have their titles above their texts, others above their lanes.
        let (x, room) = if is_stacked {
            // As far as the next one's.
            let next = frame.columns.get(number + 1);
            (lanes_from, next.map_or(frame.width, |next| next.span().0) - lanes_from - 4.0)
        } else if alone || !participant.recorded {
            (lanes_from, lanes_to - lanes_from)
        } else {
            let text_column = frame.text_columns[column.text_column];
            (text_column.x, text_column.width)
        };
        let title = match alone && correlation.participants.len() > 1 {
            true => format!("{} {}", number + 1, participant.title),
            false => participant.title.clone(),
        };
        let title = fit(&title, size, room, sans);
        let subtitle = fit(&participant.subtitle, small, room, sans);
        let y = if alone { [20.0, 37.0] } else { [height - 32.0, height - 12.0] };
        let _ = write!(
            out,
            "<text class=\"participant\" x=\"{x}\" y=\"{}\">{}<title>{}</title></text>\
             <text class=\"pid\" x=\"{x}\" y=\"{}\">{}</text>",
            n(y[0]),
            escape(&title),
            escape(&participant.title),
            n(y[1]),
            escape(&subtitle),
            x = n(x),
        );
        for (lane, middle, _) in &column.lanes {
            if is_stacked {
                let name = escape(&lane.name(correlation, number));
                let (x, y) = (n(*middle + 3.5), n(height - 5.0));
                let _ = write!(
                    out,
                    "<text class=\"lane\" transform=\"translate({x} {y}) rotate(-90)\">{name}</text>"
                );
                continue;
            }
            for (line, y) in
                lane.heading(correlation, number).into_iter().zip([height - 22.0, height - 10.0])
            {
                if !line.is_empty() {
                    let (x, y) = (n(*middle), n(y));
                    let _ = write!(out, "<text class=\"lane\" x=\"{x}\" y=\"{y}\">{line}</text>");
                }
            }
        }
    }
    out + "</svg>"
}

/// What marks mean, as images of their own.
pub(in crate::timeline) fn legend(lanes: &[Lane], waits: bool, failures: bool) -> String {
    let mut out = String::new();
    let mut item = |class: &str, inner: &str, text: &str| {
        let _ = write!(
            out,
            "<li class=\"e {class}\"><svg viewBox=\"0 0 30 16\" width=\"30\" height=\"16\" aria-hidden=\"true\">\
             {inner}</svg>{text}</li>"
        );
    };
    let has = |lane: Lane| lanes.contains(&lane);
    item(
        "call",
        "<rect class=\"m\" x=\"10\" y=\"3\" width=\"10\" height=\"10\" rx=\"2\"/>",
        "call",
    );
    if has(Lane::Events) {
        item("event", "<circle class=\"m\" cx=\"15\" cy=\"8\" r=\"5.3\"/>", "event");
    }
    let bar = |class: &str| {
        format!(
            "<rect class=\"bar {class}\" x=\"2\" y=\"4.5\" width=\"26\" height=\"7\" rx=\"2\"/>\
             <rect class=\"m\" x=\"2\" y=\"3.5\" width=\"9\" height=\"9\" rx=\"2\"/>"
        )
    };
    let arrow =
        |class: &str| format!("<path class=\"line {class}\" d=\"M2 8H27M21 4L27 8L21 12\"/>");
    if has(Lane::SendQueue) {
        item("send", &bar("send"), "work request in the send queue");
        item("send", &arrow("message"), "message");
    }
    if has(Lane::ReceiveQueue) {
        item("receive", &bar("receive"), "receive in its queue");
    }
    if has(Lane::Memory) {
        item("", &arrow("memory"), "access to remote memory");
    }
    if has(Lane::Completions) {
        item(
            "completion",
            "<path class=\"m\" d=\"M15 1.6l6.4 6.4l-6.4 6.4l-6.4 -6.4z\"/>",
            "completion",
        );
    }
    if has(Lane::Packets) {
        item("packet", &arrow("packet"), "packet");
    }
    if waits {
        item(
            "wait",
            "<rect class=\"bar wait\" x=\"2\" y=\"6\" width=\"26\" height=\"4\" rx=\"2\"/>",
            "thread waits",
        );
    }
    if failures {
        item("bad", "<path class=\"m x\" d=\"M10.5 3.5l9 9m0 -9l-9 9\"/>", "failure");
    }
    out
}
