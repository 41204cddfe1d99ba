//! Rates, times and percentages. They are masked where streams are compared; here they are held
//! against each other, against the counts beside them and against the time that the run has taken.

use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;

use crate::run::Outcome;
use crate::transcript::{Side, Stream};

/// How far a number may be off for its printed digits.
const PRECISION: f64 = 1e-5;
/// How much longer than the run a program may say that a part of it took: clocks are two.
const CLOCKS: Duration = Duration::from_millis(100);

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("a constant pattern"));
    };
}

pattern!(SIZE, r": (?:option|client) data_size ([0-9]+)$");
pattern!(SENT, r": ([0-9]+) recv completions, ([0-9]+) send completions$");
pattern!(COUNTED, r": ([0-9]+) (rdma_both|rdma_write|atomic) completions$");
pattern!(RATE, r": ([0-9.]+) (Messages|Megabits) per second$");
pattern!(EACH, r": ([0-9.]+) microseconds per (round-trip|buffer|message blasted)$");
pattern!(ELAPSED, r": ([0-9.]+) seconds elapsed time$");
pattern!(USED, r": ([0-9.]+) seconds (?:user|kernel) time \(([0-9.]+)%\)$");

/// Statistics that one side has printed of its work.
#[derive(Debug, Default)]
struct Statistics {
    size: f64,
    /// How often there was something that took time, and how many messages that were, if the
    /// unit is that of a time.
    counts: Option<Counts>,
    rates: Vec<(f64, String)>,
    each: Option<(f64, String)>,
    elapsed: Option<f64>,
    used: Vec<(f64, f64)>,
}

#[derive(Debug)]
enum Counts {
    /// Receives and sends.
    Sent(f64, f64),
    Of(String, f64),
}

/// Impossible numbers among those that both sides have printed.
pub fn complaints(outcome: &Outcome) -> Vec<String> {
    let mut complaints = Vec::new();
    for side in Side::BOTH {
        let lines = outcome.transcript.stream(side, Stream::Stderr);
        if let Err(what) = Statistics::read(&lines).check(outcome.elapsed) {
            complaints.push(format!("{side}.stderr: {what}"));
        }
    }
    complaints
}

impl Statistics {
    fn read(lines: &[String]) -> Statistics {
        let mut found = Statistics::default();
        for line in lines {
            let number = |pattern: &Regex, group: usize| -> Option<f64> {
                pattern.captures(line)?.get(group)?.as_str().parse().ok()
            };
            let word = |pattern: &Regex| pattern.captures(line).map(|found| found[2].to_owned());
            if let Some(size) = number(&SIZE, 1) {
                found.size = size;
            } else if let (Some(recv), Some(send)) = (number(&SENT, 1), number(&SENT, 2)) {
                found.counts = Some(Counts::Sent(recv, send));
            } else if let (Some(count), Some(of)) = (number(&COUNTED, 1), word(&COUNTED)) {
                found.counts = Some(Counts::Of(of, count));
            } else if let (Some(rate), Some(of)) = (number(&RATE, 1), word(&RATE)) {
                found.rates.push((rate, of));
            } else if let (Some(time), Some(of)) = (number(&EACH, 1), word(&EACH)) {
                found.each = Some((time, of));
            } else if let Some(elapsed) = number(&ELAPSED, 1) {
                found.elapsed = Some(elapsed);
            } else if let (Some(time), Some(share)) = (number(&USED, 1), number(&USED, 2)) {
                found.used.push((time, share));
            }
        }
        found
    }

    /// The times of one unit that there were, and the messages in them.
    fn times_and_messages(&self, unit: &str) -> Option<(f64, f64)> {
        Some(match (self.counts.as_ref()?, unit) {
            (Counts::Sent(recv, send), "round-trip") => (*recv, recv + send),
            (Counts::Sent(recv, _), _) => (*recv, *recv),
            (Counts::Of(of, n), "round-trip") if of != "atomic" => (*n, 2.0 * n),
            (Counts::Of(_, n), _) => (*n, *n),
        })
    }

    fn check(&self, run: Duration) -> Result<(), String> {
        let Some(elapsed) = self.elapsed else { return Ok(()) };
        let most = (run + CLOCKS).as_secs_f64();
        if elapsed > most {
            return Err(format!("{elapsed} seconds in a run of {:.3}", run.as_secs_f64()));
        }
        for (time, share) in &self.used {
            is_about("percent", *share, 100.0 * time / elapsed, 1e-4 + 100.0 * 1e-6 / elapsed)?;
        }
        let Some((each, unit)) = &self.each else { return Ok(()) };
        let Some((times, messages)) = self.times_and_messages(unit) else { return Ok(()) };
        is_about(&format!("microseconds per {unit}"), *each, 1e6 * elapsed / times, 2e-3)?;
        for (rate, of) in &self.rates {
            let rate_of_messages = messages / elapsed;
            let expected = match of.as_str() {
                "Megabits" => 8.0 * self.size * rate_of_messages / 1e6,
                _ => rate_of_messages,
            };
            is_about(&format!("{of} per second"), *rate, expected, 2e-6)?;
        }
        Ok(())
    }
}

/// Are the two the same, as far as they have been printed?
fn is_about(what: &str, said: f64, expected: f64, digits: f64) -> Result<(), String> {
    if !expected.is_finite() || (said - expected).abs() <= expected.abs() * PRECISION + digits {
        return Ok(());
    }
    Err(format!("{said} {what}, but the other numbers make it {expected:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: &str = "client: option data_size 8
client: 100 recv completions, 100 send completions
client: 1268.968300 Messages per second
client: 0.081214 Megabits per second
client: 1576.083 microseconds per round-trip
client: 0.157608350 seconds elapsed time
client: 0.136569000 seconds user time (86.6509%)
client: 0.008751000 seconds kernel time (5.5524%)";

    fn check(text: &str) -> Result<(), String> {
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        Statistics::read(&lines).check(Duration::from_secs(2))
    }

    #[test]
    fn numbers_that_go_together_are_right() {
        assert_eq!(check(PING), Ok(()));
        assert_eq!(check(""), Ok(()));
        assert_eq!(check("client: option data_size 8"), Ok(()));
        let fewer = PING.replace("100 send", "99 send").replace("1268.968300", "1262.623459");
        assert_eq!(check(&fewer.replace("0.081214", "0.080808")), Ok(()));
    }

    #[test]
    fn no_number_can_be_another() {
        for (number, other) in [
            ("data_size 8", "data_size 64"),
            ("100 recv", "101 recv"),
            ("100 send", "50 send"),
            ("1268.968300", "634.484150"),
            ("0.081214", "0.010152"),
            ("1576.083", "3152.166"),
            ("0.157608350", "0.257608350"),
            ("86.6509", "0.8665"),
            ("0.008751000", "0.087510000"),
        ] {
            let wrong = PING.replace(number, other);
            assert_ne!(wrong, PING);
            assert!(check(&wrong).is_err(), "{other}");
        }
    }

    #[test]
    fn nothing_takes_longer_than_the_run() {
        let text = "server: 2 rdma_both completions\nserver: 4.090072950 seconds elapsed time";
        assert!(check(text).unwrap_err().contains("in a run of 2"));
        assert_eq!(check(&text.replace("4.09", "1.09")), Ok(()));
    }
}
