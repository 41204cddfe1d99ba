//! Output of the two sides: every line with its side, stream and time.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// One of the two processes of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The process that is started first.
    Server,
    /// The process that is started once the server listens.
    Client,
}

impl Side {
    /// Both, in the order in which they start.
    pub const BOTH: [Side; 2] = [Side::Server, Side::Client];
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Side::Server => "server",
            Side::Client => "client",
        })
    }
}

/// One of the two output streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Both.
    pub const BOTH: [Stream; 2] = [Stream::Stdout, Stream::Stderr];
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        })
    }
}

/// A line of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The side that printed it.
    pub side: Side,
    /// Where.
    pub stream: Stream,
    /// When its end was read, counted from the start of the run.
    pub at: Duration,
    /// The text without its newline; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// False if the stream ended (or was cut) before a newline came.
    pub complete: bool,
}

impl Line {
    /// The text, with a mark if the newline is missing: a program that forgets
    /// it must not compare equal to one that does not.
    pub fn marked(&self) -> String {
        if self.complete { self.text.clone() } else { format!("{}{NO_NEWLINE}", self.text) }
    }
}

/// Appended to a last line without newline when streams are compared.
pub const NO_NEWLINE: &str = " [no newline]";

/// All lines of a run in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    lines: Vec<Line>,
}

impl Transcript {
    /// Adds a line at its place in time. The readers of the four streams run in
    /// parallel, so a line may arrive just after a later one.
    pub fn push(&mut self, line: Line) {
        let place = self.lines.partition_point(|earlier| earlier.at <= line.at);
        self.lines.insert(place, line);
    }

    /// Every line, earliest first.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The lines of one stream.
    pub fn of(&self, side: Side, stream: Stream) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.side == side && line.stream == stream)
    }

    /// The lines of one stream as they are compared, see [`Line::marked`].
    pub fn stream(&self, side: Side, stream: Stream) -> Vec<String> {
        self.of(side, stream).map(Line::marked).collect()
    }
}

/// Splits recorded text into lines the way a live stream is split.
pub fn split_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    match lines.pop() {
        Some(last) if !last.is_empty() => lines.push(last + NO_NEWLINE),
        _ => {}
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: u64, text: &str) -> Line {
        Line {
            side: Side::Server,
            stream: Stream::Stdout,
            at: Duration::from_millis(at),
            text: text.to_owned(),
            complete: true,
        }
    }

    #[test]
    fn lines_stand_in_the_order_of_time() {
        let mut transcript = Transcript::default();
        for (at, text) in [(5, "b"), (1, "a"), (9, "d"), (5, "c")] {
            transcript.push(line(at, text));
        }
        let texts: Vec<_> = transcript.lines().iter().map(|l| l.text.as_str()).collect();
        assert_eq!(texts, ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_stream_holds_only_its_own_lines() {
        let mut transcript = Transcript::default();
        transcript.push(line(1, "mine"));
        transcript.push(Line { stream: Stream::Stderr, ..line(2, "other stream") });
        transcript.push(Line { side: Side::Client, ..line(3, "other side") });
        assert_eq!(transcript.stream(Side::Server, Stream::Stdout), ["mine"]);
    }

    #[test]
    fn a_missing_newline_shows() {
        assert_eq!(split_lines("a\n\nb\n"), ["a", "", "b"]);
        assert_eq!(split_lines("a\nb"), ["a".to_owned(), format!("b{NO_NEWLINE}")]);
        assert!(split_lines("").is_empty());
        assert_eq!(Line { complete: false, ..line(0, "b") }.marked(), split_lines("b")[0]);
    }
}
