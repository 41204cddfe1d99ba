//! The texts that a publisher of the suite publishes, and when. Texts and pauses come from the C library's
//! generator with the second of the start as its seed, so that they can be told afterwards.

use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use regex::Regex;

use crate::run::Outcome;
use crate::transcript::{Line, Side, Stream};

static SHOWN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^server: +[0-9]+ \(([0-9]+) bytes\): (.*)$").expect("a constant pattern")
});

/// Seeds that are tried before the run's start and after it: a program looks at its clock late
/// on a machine that is busy, and the clocks of two hosts differ.
const EARLIER: u64 = 5;
const LATER: u64 = 130;

/// By how much a pause may seem too short: a line's time is when its end was read.
const LATE: Duration = Duration::from_millis(250);

/// The generator behind `random(3)` and `rand(3)`: each number is the sum of the third and the
/// thirty-first before it, without the lowest bit.
struct Random {
    state: [u32; 31],
    at: usize,
}

impl Random {
    fn new(seed: u32) -> Random {
        let mut state = [0; 31];
        let mut word = i64::from(if seed == 0 { 1 } else { seed } as i32);
        for place in &mut state {
            *place = word as u32;
            word = (16807 * (word % 127_773) - 2836 * (word / 127_773)) as i32 as i64;
            if word < 0 {
                word += 2_147_483_647;
            }
        }
        let mut random = Random { state, at: 3 };
        // so many are thrown away
        for _ in 0..310 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u32 {
        let sum = self.state[self.at].wrapping_add(self.state[(self.at + 28) % 31]);
        self.state[self.at] = sum;
        self.at = (self.at + 1) % 31;
        sum >> 1
    }
}

/// The next text of so many bytes, and the pause behind it.
fn publication(random: &mut Random, size: usize) -> (String, Duration) {
    let character = |random: &mut Random| (random.next() & 0x7f) as u8;
    let mut text = String::new();
    let mut next = character(random);
    for _ in 0..size {
        while !(b' '..=b'~').contains(&next) {
            next = character(random);
        }
        text.push(char::from(next));
        next += 1;
    }
    let pause = random.next();
    let pause = Duration::new(u64::from((pause >> 5) & 3), pause % 100_000_000);
    (text, pause)
}

/// Mistakes in what the server of a run has published.
pub fn complaints(example: &str, outcome: &Outcome) -> Vec<String> {
    if !example.starts_with("pubsub-") {
        return Vec::new();
    }
    let shown: Vec<(&Line, usize, String)> = outcome
        .transcript
        .of(Side::Server, Stream::Stderr)
        .filter_map(|line| {
            let found = SHOWN.captures(&line.text)?;
            Some((line, found[1].parse().ok()?, found[2].to_owned()))
        })
        .collect();
    let Ok(start) = outcome.began.duration_since(UNIX_EPOCH) else { return Vec::new() };
    let start = start.as_secs();
    let wrong = |seed: u64| wrong_with(&shown, seed as u32);
    let mut found = None;
    for seed in start.saturating_sub(EARLIER)..=start + LATER {
        match wrong(seed) {
            None => return Vec::new(),
            // The texts are of this seed, and a pause is too short.
            Some(Wrong::Pause(what)) => found = Some(what),
            Some(Wrong::Text) => {}
        }
    }
    let none = || format!("no second's seed makes these texts: {:?}", shown.first());
    vec![format!("server.stderr: {}", found.unwrap_or_else(none))]
}

enum Wrong {
    Text,
    Pause(String),
}

/// The mistake if that is the seed.
fn wrong_with(shown: &[(&Line, usize, String)], seed: u32) -> Option<Wrong> {
    let mut random = Random::new(seed);
    let mut short = None;
    let mut earliest = Duration::ZERO;
    for (line, size, text) in shown {
        let (expected, pause) = publication(&mut random, *size);
        if *text != expected {
            return Some(Wrong::Text);
        }
        if line.at + LATE < earliest {
            let early = earliest - line.at;
            short.get_or_insert(format!("{text:?} comes {early:?} before the pause is over"));
        }
        earliest = line.at + pause;
    }
    short.map(Wrong::Pause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Transcript;

    #[test]
    fn the_generator_is_the_librarys() {
        for seed in [0, 1, 7, 1_700_000_000, u32::MAX] {
            // SAFETY: any seed will do.
            unsafe { libc::srand(seed) };
            let mut random = Random::new(seed);
            for at in 0..100 {
                // SAFETY: may be called at any time; no other test of this program does.
                let expected = unsafe { libc::rand() };
                assert_eq!(random.next(), expected as u32, "number {at} of seed {seed}");
            }
        }
    }

    /// A run that has published three texts, each so long after the one before.
    fn published(change: impl Fn(&str) -> String, pauses: f64) -> Vec<String> {
        let elapsed = Duration::from_secs(9);
        let began = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let mut random = Random::new(1_700_000_001);
        let mut transcript = Transcript::default();
        let mut at = Duration::ZERO;
        for count in 1..4 {
            let (text, pause) = publication(&mut random, 8);
            let text = format!("server: {count:5} (8 bytes): {}", change(&text));
            let (side, stream) = (Side::Server, Stream::Stderr);
            transcript.push(Line { side, stream, at, text, complete: true });
            at += pause.mul_f64(pauses);
        }
        let outcome =
            Outcome { server: None, client: None, transcript, began, elapsed, never_ready: None };
        assert_eq!(complaints("ping-sr-0", &outcome), Vec::<String>::new());
        complaints("pubsub-rdma-1", &outcome)
    }

    #[test]
    fn texts_are_those_of_a_seed() {
        assert_eq!(published(str::to_owned, 1.0), Vec::<String>::new());
        assert_eq!(published(|text| text.chars().rev().collect(), 1.0).len(), 1);
        assert_eq!(published(|_| "abcdefgh".to_owned(), 1.0).len(), 1);
    }

    #[test]
    fn a_pause_may_be_longer_and_not_shorter() {
        assert_eq!(published(str::to_owned, 3.0), Vec::<String>::new());
        // Of these seeds some pause is long.
        let found = [1_700_000_000, 1_700_000_001, 1_700_000_002].map(|seed| {
            let mut random = Random::new(seed);
            let shown: Vec<_> = (0..6).map(|_| publication(&mut random, 8).0).collect();
            let line = |text: &String| Line {
                side: Side::Server,
                stream: Stream::Stderr,
                at: Duration::ZERO,
                text: text.clone(),
                complete: true,
            };
            let lines: Vec<_> = shown.iter().map(line).collect();
            let shown: Vec<_> = lines.iter().map(|line| (line, 8, line.text.clone())).collect();
            wrong_with(&shown, seed)
        });
        assert!(found.iter().all(|wrong| matches!(wrong, Some(Wrong::Pause(_)))));
    }
}
