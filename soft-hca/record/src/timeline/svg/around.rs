//! The head above the rows, with the participants, and the legend.

use std::fmt::Write as _;

use super::elements;
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

/// The participants, and the lanes' names.
pub(in crate::timeline) fn head(correlation: &Correlation<'_>, frame: &Frame) -> String {
    let alone = frame.text_columns.len() == 1;
    let height = match (alone, frame.dimensions.is_stacked) {
        (_, true) => HIGHEST_HEAD,
        (true, false) => HIGH_HEAD,
        (false, false) => HEAD,
    };
    let mut out = open(frame, "head", 0.0, height);
    panels(frame, 0.0, height, &mut out);
    let is_stacked = frame.dimensions.is_stacked;
    if !is_stacked {
        let unit = unit(correlation);
        out += &elements::text("class=\"unit\"", frame.time, height - 10.0, unit);
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
        let title = format!("{}<title>{}</title>", escape(&title), escape(&participant.title));
        out += &elements::text("class=\"participant\"", x, y[0], &title);
        out += &elements::text("class=\"pid\"", x, y[1], &escape(&subtitle));
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
                    out += &elements::text("class=\"lane\"", *middle, y, &line);
                }
            }
        }
    }
    out + "</svg>"
}

/// The meaning of marks, as images of their own.
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
    let mark = |place: [f64; 4]| elements::rounded("class=\"m\"", place, 2);
    let bar = |class: &str, y: f64, height: f64| {
        elements::rounded(&format!("class=\"bar {class}\""), [2.0, y, 26.0, height], 2)
    };
    item("call", &mark([10.0, 3.0, 10.0, 10.0]), "call");
    if has(Lane::Events) {
        item("event", &elements::circle("class=\"m\"", 15.0, 8.0, 5.3), "event");
    }
    let request = |class: &str| bar(class, 4.5, 7.0) + &mark([2.0, 3.5, 9.0, 9.0]);
    let arrow =
        |class: &str| format!("<path class=\"line {class}\" d=\"M2 8H27M21 4L27 8L21 12\"/>");
    if has(Lane::SendQueue) {
        item("send", &request("send"), "work request in the send queue");
        item("send", &arrow("message"), "message");
    }
    if has(Lane::ReceiveQueue) {
        item("receive", &request("receive"), "receive in its queue");
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
        item("wait", &bar("wait", 6.0, 4.0), "thread waits");
    }
    if failures {
        item("bad", "<path class=\"m x\" d=\"M10.5 3.5l9 9m0 -9l-9 9\"/>", "failure");
    }
    out
}
