//! The beginning of a run as a sequence in the terminal: a lifeline for each process, and arrows
//! between them.

use std::collections::HashSet;

use soft_hca_verbs::{WcStatus, WrOpcode};

use crate::correlation::{Correlation, Participant};
use crate::entry::{Entry, Header, What};
use crate::severity::Severity;
use crate::words;

/// Signs that lifelines and arrows are drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signs {
    /// Box characters, for terminals that show UTF-8.
    Boxes,
    /// ASCII, for all others.
    Ascii,
}

/// How it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Entries that are shown at most: the first two thirds of them, and the last.
    pub entries: usize,
    /// Columns of the terminal.
    pub width: usize,
    /// With which signs.
    pub signs: Signs,
}

/// Columns that the time takes, with the space behind it.
const TIME: usize = 12;
/// The narrowest column of a process that can be read.
const NARROWEST: usize = 24;

/// The sequence as lines of text.
///
/// Every process has a lifeline with what it does beside it; a message, and a call that leads to
/// an event elsewhere, is an arrow from one lifeline to the other. Where the terminal has no room for
/// all, the last processes share a column.
pub fn sequence(header: &Header, entries: &[Entry], options: &Options) -> String {
    let correlation = Correlation::new(header, entries);
    let mut picture = Picture::new(&correlation, options);
    let mut out = picture.head();
    let is_shown = |at: &usize| !correlation.is_beneath[*at] && !correlation.aside.contains(at);
    let shown: Vec<usize> = (0..entries.len()).filter(is_shown).collect();
    // The end of a text that is too long is worth more than its middle.
    let left = shown.len().saturating_sub(options.entries);
    let end = if left == 0 { 0 } else { options.entries / 3 };
    let (first, rest) = shown.split_at(shown.len() - left - end);
    first.iter().for_each(|at| picture.entry(*at, &mut out));
    let (passed, last) = rest.split_at(left);
    if left > 0 {
        passed.iter().for_each(|at| picture.pass(*at));
        let left = words::thousands(left as u64);
        out += &format!("\n{}\n\n", picture.plain(&format!("{left} more entries")));
    }
    last.iter().for_each(|at| picture.entry(*at, &mut out));
    out
}

struct Picture<'p> {
    correlation: &'p Correlation<'p>,
    ascii: bool,
    /// Columns of a participant.
    width: usize,
    count: usize,
    /// Which participants are there.
    alive: Vec<bool>,
    /// Transfers whose arrow has been drawn.
    met: HashSet<usize>,
}

impl<'p> Picture<'p> {
    fn new(correlation: &'p Correlation<'p>, options: &Options) -> Self {
        let room = options.width.saturating_sub(TIME).max(NARROWEST);
        let count = correlation.participants.len().clamp(1, (room / NARROWEST).max(1));
        let ascii = options.signs == Signs::Ascii;
        // A process that began before the recording is there from its beginning.
        let begins = |participant: usize| {
            let is_begin = |entry: &Entry| matches!(entry.what, What::ProcessBegan { .. });
            let mut own = correlation
                .entries
                .iter()
                .zip(&correlation.participant)
                .filter(|(_, of)| **of == participant);
            !own.any(|(entry, _)| is_begin(entry))
        };
        let alive = (0..correlation.participants.len()).map(begins).collect();
        Self { correlation, ascii, width: room / count, count, alive, met: HashSet::new() }
    }

    fn line(&self) -> char {
        if self.ascii { '|' } else { '\u{2502}' }
    }

    /// The column of a participant.
    fn column(&self, participant: usize) -> usize {
        participant.min(self.count - 1)
    }

    fn head(&self) -> String {
        let titles = |of: fn(&Participant) -> &str| -> String {
            let participants = self.correlation.participants.iter().take(self.count);
            let cells = participants.map(|participant| self.cell(of(participant)));
            format!("{:TIME$}{}", "", cells.collect::<String>()).trim_end().to_owned() + "\n"
        };
        titles(|participant| &participant.title)
            + &titles(|participant| &participant.subtitle)
            + "\n"
    }

    /// A text that fills a column, or as much of it as fits.
    fn cell(&self, text: &str) -> String {
        let text = cut(&self.plain(text), self.width - 1, self.ascii);
        let used = text.chars().count();
        text + &" ".repeat(self.width - used)
    }

    /// A text without what cannot be shown in a terminal.
    fn plain(&self, text: &str) -> String {
        let plain = text.chars().map(|sign| match sign {
            '\u{2009}' => ',',
            sign if sign.is_control() => '?',
            '\u{2192}' if self.ascii => '>',
            '\u{b5}' if self.ascii => 'u',
            sign if self.ascii && !sign.is_ascii() => '?',
            sign => sign,
        });
        plain.collect()
    }

    /// The lifelines, with a text beside one.
    fn row(&self, time: &str, participant: usize, mark: char, text: &str) -> String {
        let mut row = format!("{time:>width$} ", width = TIME - 1);
        for column in 0..self.count {
            let own = column == self.column(participant);
            let line = match own {
                true => mark,
                false if self.alive[column] => self.line(),
                false => ' ',
            };
            let text = if own { format!("{line} {text}") } else { line.to_string() };
            row += &self.cell(&text);
        }
        row.trim_end().to_owned() + "\n"
    }

    /// An arrow from a lifeline to another, with its label.
    fn arrow(&self, from: usize, to: usize, label: &str, failed: bool) -> String {
        let (from, to) = (self.column(from), self.column(to));
        let (left, right) = (from.min(to), from.max(to));
        let length = (right - left) * self.width - 1;
        let dash = match (failed, self.ascii) {
            (true, _) => '.',
            (false, true) => '-',
            (false, false) => '\u{2500}',
        };
        let label = cut(&self.plain(label), length.saturating_sub(6), self.ascii);
        let label = format!(" {label} ");
        let before = length.saturating_sub(label.chars().count()) / 2;
        let mut shaft: Vec<char> = std::iter::repeat_n(dash, length).collect();
        for (at, sign) in label.chars().enumerate() {
            if let Some(place) = shaft.get_mut(before + at) {
                *place = sign;
            }
        }
        let (head, place) = match (to == right, failed) {
            (true, false) => (if self.ascii { '>' } else { '\u{25b6}' }, length - 1),
            (false, false) => (if self.ascii { '<' } else { '\u{25c0}' }, 0),
            (true, true) => ('x', length - 1),
            (false, true) => ('x', 0),
        };
        shaft[place] = head;
        let mut row = " ".repeat(TIME);
        for column in 0..self.count {
            let line = if self.alive[column] { self.line() } else { ' ' };
            if column == left {
                row.push(line);
                row.extend(shaft.iter());
            } else if column < left || column >= right {
                row += &self.cell(&line.to_string());
            }
        }
        row.trim_end().to_owned() + "\n"
    }

    /// An entry that is not shown.
    fn pass(&mut self, at: usize) {
        let is_end = matches!(self.correlation.entries[at].what, What::ProcessEnded { .. });
        self.alive[self.correlation.participant[at]] = !is_end;
        if matches!(self.correlation.entries[at].what, What::Executed(_) | What::Completion(_)) {
            self.met.extend(self.correlation.transfer[at]);
        }
    }

    fn entry(&mut self, at: usize, out: &mut String) {
        let correlation = self.correlation;
        let entry = &correlation.entries[at];
        let participant = correlation.participant[at];
        let micros = entry.t / 1_000;
        let time = format!("{}.{:03} ms", micros / 1_000, micros % 1_000);
        let label = correlation.label(at);
        self.alive[participant] = true;
        for flow in correlation.flows.iter().filter(|flow| flow.to == at) {
            let from = correlation.participant[flow.from];
            if self.column(from) != self.column(participant) {
                *out += &self.arrow(
                    from,
                    participant,
                    &words::label(&correlation.entries[flow.from]).name,
                    false,
                );
            }
        }
        let executed =
            |transfer: usize| Some((transfer, correlation.transfers[transfer].executed?));
        if let Some((transfer, executed)) = correlation.transfer[at].and_then(executed) {
            // The receiver's completion may have been written before the sender's.
            let has_met = matches!(entry.what, What::Executed(_) | What::Completion(_));
            if has_met && self.met.insert(transfer) {
                self.message(executed, transfer, out);
            }
            if at == executed && correlation.transfers[transfer].completion.is_some() {
                return;
            }
        }
        let (well, bad) = if self.ascii { ('+', '!') } else { ('\u{251c}', '\u{2573}') };
        let mark = if Severity::of(entry) == Severity::Failure { bad } else { well };
        let rest = self.plain(&label.rest);
        // Results of a call are worth more than its arguments.
        let parts = [label.name.as_str(), &label.result].map(|part| part.chars().count() + 1);
        let room = (self.width - 3).saturating_sub(parts.iter().sum());
        let rest = if room < 6 { String::new() } else { cut(&rest, room, self.ascii) };
        let parts = [label.name.as_str(), &rest, &label.result];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let text = parts.join(" ");
        *out += &self.row(&time, participant, mark, text.trim_end());
        if let Some(reason) = label.reason.filter(|_| Severity::of(entry) != Severity::Well) {
            let reason = self.plain(&reason);
            let line = self.line();
            let room = self.width.saturating_sub(5).max(8);
            for piece in wrap(&reason, room) {
                *out += &self.row("", participant, line, &format!("  {piece}"));
            }
        }
        if matches!(entry.what, What::ProcessEnded { .. }) {
            self.alive[participant] = false;
        }
    }

    /// The arrow of a work request.
    fn message(&self, at: usize, transfer: usize, out: &mut String) {
        let transfer = &self.correlation.transfers[transfer];
        let from = self.correlation.participant[at];
        let What::Executed(executed) = &self.correlation.entries[at].what else { return };
        let failed = executed.status != WcStatus::SUCCESS;
        let label = self.correlation.message(transfer);
        let of_process = &self.correlation.of_process;
        let receivers = transfer.arrivals.iter().filter_map(|one| of_process.get(&one.process));
        let mut receivers: Vec<usize> = receivers.copied().collect();
        if receivers.is_empty() && executed.status != WcStatus::WR_FLUSH_ERR {
            receivers.extend(self.correlation.peer(transfer));
        }
        for to in receivers.into_iter().filter(|to| self.column(*to) != self.column(from)) {
            let reads = executed.opcode == WrOpcode::RDMA_READ && !failed;
            let (from, to) = if reads { (to, from) } else { (from, to) };
            *out += &self.arrow(from, to, &label, failed);
        }
    }
}

/// A text, or as much of it as fits.
fn cut(text: &str, room: usize, ascii: bool) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let end = if ascii { "~" } else { "\u{2026}" };
    text.chars().take(room.saturating_sub(1)).collect::<String>() + end
}

/// A text in lines.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{out_of_bounds, ping_pong};

    fn drawn(run: &(Header, Vec<Entry>), entries: usize, width: usize, signs: Signs) -> String {
        sequence(&run.0, &run.1, &Options { entries, width, signs })
    }

    #[test]
    fn lines_fit_the_terminal_and_lifelines_stand_straight() {
        let runs = [ping_pong(3), out_of_bounds()];
        for run in &runs {
            for width in [20, 40, 80, 132, 200] {
                for signs in [Signs::Ascii, Signs::Boxes] {
                    let text = drawn(run, 1000, width, signs);
                    let most = width.max(TIME + NARROWEST);
                    assert!(
                        text.lines().all(|line| line.chars().count() <= most),
                        "{width}\n{text}"
                    );
                    assert!(signs == Signs::Boxes || text.is_ascii(), "{text}");
                }
            }
        }
        let text = drawn(&runs[0], 1000, 80, Signs::Ascii);
        let second = TIME + (80 - TIME) / 2;
        let began = text.lines().position(|line| line.contains("+ begins")).unwrap();
        for line in text.lines().skip(began).take(40) {
            let sign = line.chars().nth(second).unwrap();
            assert!("|+! ".contains(sign) || line.contains('-'), "{line:?} has {sign:?}\n{text}");
        }
    }

    #[test]
    fn messages_and_connections_are_arrows() {
        let text = drawn(&ping_pong(1), 1000, 100, Signs::Ascii);
        let arrows: Vec<_> = text.lines().filter(|line| line.contains("---")).collect();
        let has = |label: &str, head: char| {
            arrows.iter().filter(|line| line.contains(label) && line.contains(head)).count()
        };
        assert_eq!(has(" SEND 16 B ", '>'), 1, "{text}");
        assert_eq!(has(" SEND 16 B ", '<'), 1, "{text}");
        assert_eq!(has(" rdma_connect ", '>'), 1);
        assert_eq!(has(" rdma_accept ", '<'), 1);
        assert_eq!(has(" rdma_disconnect ", '>'), 1);
        let text = drawn(&ping_pong(1), 1000, 100, Signs::Boxes);
        assert!(text.contains('\u{25b6}') && text.contains('\u{2502}'));
    }

    #[test]
    fn a_failure_does_not_arrive_and_says_why() {
        let text = drawn(&out_of_bounds(), 1000, 120, Signs::Ascii);
        let arrow = text
            .lines()
            .filter(|line| line.contains("..."))
            .find(|line| line.contains("RDMA WRITE 16 B"));
        let arrow = arrow.unwrap();
        assert!(arrow.ends_with("x|") || arrow.contains(".x"), "{arrow}");
        assert!(text.contains("! IBV_WC_REM_ACCESS_ERR"));
        assert!(text.contains("0x1008"));
    }

    #[test]
    fn the_beginning_and_the_end_are_shown() {
        let run = ping_pong(100);
        let text = drawn(&run, 50, 80, Signs::Ascii);
        let left = run.1.len() - 50;
        let (first, last) = text.split_once(&format!("\n{left} more entries\n\n")).unwrap();
        assert!(first.contains("+ rdma_listen") && last.contains("+ rdma_disconnect"), "{text}");
        assert!(last.trim_end().ends_with("+ ends"), "{text}");
        assert!(last.lines().filter(|line| line.contains(" ms ")).count() <= 16);
        assert!(!drawn(&run, run.1.len(), 80, Signs::Ascii).contains("more entries"));
        let empty = sequence(&run.0, &[], &Options { entries: 1, width: 80, signs: Signs::Ascii });
        assert!(empty.trim().is_empty());
    }
}
