//! How it is known that the data have arrived: by what the programs print of them.

use std::ffi::OsString;

use regex::Regex;
use serde::Serialize;

use crate::compare::interop::verify;
use crate::examples::Example;
use crate::run::Outcome;
use crate::transcript::{Side, Stream};

/// How closely somebody has looked at the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// A program has compared them, or they were printed and are right.
    LookedAt,
    /// Both sides have counted the messages; neither looks at what is in them.
    Counted,
    /// Nobody did, with these flags.
    NotLookedAt,
}

/// More flags for a run in which the data are to be seen: with `-T` every verification is
/// reported, not only one that fails.
pub fn flags(example: &Example) -> impl Iterator<Item = &'static str> {
    verify(example).into_iter().flat_map(|flag| [flag, "-T"])
}

/// The texts that rc-example sends, reads and writes, and where each is shown. Some copies of
/// the C pad them with blanks.
const TEXTS: [(Side, &str, &str); 3] = [
    (Side::Client, "Message is: '", "SEND operation"),
    (Side::Client, "Contents of server's buffer: '", "RDMA read operation"),
    (Side::Server, "Contents of server buffer: '", "RDMA write operation"),
];

/// What read-write shows of the other side's memory.
const REMOTE: [(Side, &str); 2] = [
    (Side::Server, "^remote buffer: message from active/client side with pid [0-9]+$"),
    (Side::Client, "^remote buffer: message from passive/server side with pid [0-9]+$"),
];

/// Lines that say how many messages there were, `COUNT` being how many there should be.
const COUNTS: [(&str, Side, Stream, &str); 9] = [
    ("blast-sr-2", Side::Server, Stream::Stderr, ": COUNT recv completions, "),
    (
        "blast-sr-2",
        Side::Client,
        Stream::Stderr,
        ": COUNT recv completions, COUNT send completions",
    ),
    ("blast-rdma-1", Side::Server, Stream::Stderr, ": COUNT rdma_write completions$"),
    ("blast-rdma-1", Side::Client, Stream::Stderr, ": COUNT rdma_write completions$"),
    ("mckey", Side::Server, Stream::Stdout, "^data transfers complete$"),
    ("mc", Side::Server, Stream::Stdout, "^received message COUNT$"),
    ("srq", Side::Server, Stream::Stdout, "^recv count: COUNT, "),
    ("srq", Side::Client, Stream::Stdout, "^send count: COUNT, "),
    ("srq", Side::Client, Stream::Stdout, "^recv count: [0-9]+$"),
];

/// What a finished pair that ended well says of its data; the error is why it did not work.
/// `given` are the user's flags, if there are any.
pub fn of(
    example: &Example,
    outcome: &Outcome,
    given: Option<&[OsString]>,
) -> Result<Data, String> {
    if verify(example).is_some() {
        verified(example, outcome, given)
    } else if example.name == "rc-example" {
        texts(outcome)
    } else if example.name == "read-write" {
        remote(outcome)
    } else if example.name.starts_with("pubsub-") {
        published(outcome)
    } else {
        counted(example, outcome, given)
    }
}

fn verified(
    example: &Example,
    outcome: &Outcome,
    given: Option<&[OsString]>,
) -> Result<Data, String> {
    let said = |end: &str| {
        let lines = outcome.transcript.stream(Side::Client, Stream::Stderr);
        lines.iter().filter(|line| line.ends_with(end)).count()
    };
    match (said(" verification failed"), said(" verification ok")) {
        (0, 0) if given.is_some() => Ok(Data::NotLookedAt),
        (0, ok) => match given.map_or(count(example), |_| None) {
            Some(count) if count != ok => {
                Err(format!("the client has verified {ok} of {count} messages"))
            }
            _ => Ok(Data::LookedAt),
        },
        (failed, _) => Err(format!("the client says that {failed} verifications failed")),
    }
}

/// How many messages a run without the user's flags has.
fn count(example: &Example) -> Option<usize> {
    let mut flags = example.tour_flags().split_whitespace();
    flags.find(|flag| flag.eq_ignore_ascii_case("-c"))?;
    flags.next()?.parse().ok()
}

fn texts(outcome: &Outcome) -> Result<Data, String> {
    for (side, before, text) in TEXTS {
        let lines = outcome.transcript.stream(side, Stream::Stdout);
        let Some(shown) = lines.iter().find_map(|line| line.strip_prefix(before)) else {
            return Err(format!("the {side} does not say {before:?}"));
        };
        let shown = shown.trim_end_matches('\'').trim_end();
        if shown != text {
            return Err(format!("the {side} shows {shown:?}, not {text:?}"));
        }
    }
    Ok(Data::LookedAt)
}

fn remote(outcome: &Outcome) -> Result<Data, String> {
    for (side, pattern) in REMOTE {
        if !has(outcome, side, Stream::Stdout, pattern) {
            return Err(format!("the {side} does not show the other's text"));
        }
    }
    Ok(Data::LookedAt)
}

/// What the subscriber has seen has to have been published. It looks now and then, and may miss
/// some, the last, too.
fn published(outcome: &Outcome) -> Result<Data, String> {
    let shown =
        Regex::new(r": +[0-9]+ \([0-9]+ (?:bytes|times)\): (.+)$").expect("a constant pattern");
    let [published, seen] = Side::BOTH.map(|side| {
        let lines = outcome.transcript.stream(side, Stream::Stderr);
        let texts = lines.iter().filter_map(|line| Some(shown.captures(line)?[1].to_owned()));
        texts.collect::<Vec<_>>()
    });
    match seen.iter().find(|text| !published.contains(text)) {
        None if !seen.is_empty() => Ok(Data::LookedAt),
        None => Err("the subscriber has seen nothing".to_owned()),
        Some(text) => Err(format!("the subscriber has seen {text:?}, which was not published")),
    }
}

fn counted(
    example: &Example,
    outcome: &Outcome,
    given: Option<&[OsString]>,
) -> Result<Data, String> {
    if given.is_some() {
        return Ok(Data::NotLookedAt);
    }
    let count = count(example).unwrap_or_default().to_string();
    let of_it: Vec<_> = COUNTS.iter().filter(|(name, ..)| *name == example.name).collect();
    for (_, side, stream, pattern) in &of_it {
        let pattern = pattern.replace("COUNT", &count);
        if !has(outcome, *side, *stream, &pattern) {
            return Err(format!("the {side} does not say {pattern:?}"));
        }
    }
    Ok(if of_it.is_empty() { Data::NotLookedAt } else { Data::Counted })
}

fn has(outcome: &Outcome, side: Side, stream: Stream, pattern: &str) -> bool {
    let pattern = Regex::new(pattern).expect("a constant pattern");
    outcome.transcript.stream(side, stream).iter().any(|line| pattern.is_match(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::{Line, Transcript};
    use std::time::Duration;

    fn outcome(lines: &[(Side, Stream, &str)]) -> Outcome {
        let mut transcript = Transcript::default();
        for &(side, stream, text) in lines {
            let text = text.to_owned();
            transcript.push(Line { side, stream, at: Duration::ZERO, text, complete: true });
        }
        Outcome {
            server: None,
            client: None,
            transcript,
            elapsed: Duration::ZERO,
            never_ready: None,
        }
    }

    fn example(name: &str) -> &'static Example {
        Example::named(name).unwrap()
    }

    #[test]
    fn every_message_has_to_be_verified() {
        let ping = example("ping-sr-0");
        let run = |ok: usize, failed: usize| {
            let line = |end| move |n| format!("client: {n} verification {end}");
            let lines: Vec<_> =
                (0..ok).map(line("ok")).chain((0..failed).map(line("failed"))).collect();
            let lines: Vec<_> =
                lines.iter().map(|text| (Side::Client, Stream::Stderr, text.as_str())).collect();
            outcome(&lines)
        };
        assert_eq!(of(ping, &run(100, 0), None), Ok(Data::LookedAt));
        assert!(of(ping, &run(99, 0), None).is_err());
        assert!(of(ping, &run(99, 1), None).is_err());
        assert!(of(ping, &run(0, 0), None).is_err());
        let given: [OsString; 1] = ["-t".into()];
        assert_eq!(of(ping, &run(0, 0), Some(&given)), Ok(Data::NotLookedAt));
        assert!(of(ping, &run(3, 1), Some(&given)).is_err());
    }

    #[test]
    fn the_texts_have_to_be_right() {
        let rc = example("rc-example");
        let right = [
            (Side::Client, Stream::Stdout, "Message is: 'SEND operation      '"),
            (Side::Client, Stream::Stdout, "Contents of server's buffer: 'RDMA read operation '"),
            (Side::Server, Stream::Stdout, "Contents of server buffer: 'RDMA write operation'"),
        ];
        assert_eq!(of(rc, &outcome(&right), None), Ok(Data::LookedAt));
        assert!(of(rc, &outcome(&right[..2]), None).is_err());
        let mut wrong = right;
        wrong[1].2 = "Contents of server's buffer: 'RDMA read opera'";
        assert!(of(rc, &outcome(&wrong), None).is_err());
    }

    #[test]
    fn what_a_subscriber_sees_was_published() {
        let run = |seen| {
            let lines = [
                (Side::Server, Stream::Stderr, "server:     1 (8 bytes): abcdefgh"),
                (Side::Server, Stream::Stderr, "server:     2 (8 bytes): bcdefghi"),
                (Side::Client, Stream::Stderr, "client:     0 (2 times): "),
                (Side::Client, Stream::Stderr, seen),
            ];
            of(example("pubsub-rdma-1"), &outcome(&lines), None)
        };
        assert_eq!(run("client:     2 (1 times): bcdefghi"), Ok(Data::LookedAt));
        assert_eq!(run("client:     2 (2 times): abcdefgh"), Ok(Data::LookedAt));
        assert!(run("client:     2 (2 times): abcdefghi").is_err());
        assert!(run("client:     2 (2 times): ").is_err());
    }

    #[test]
    fn the_other_sides_memory_has_to_be_shown() {
        let example = example("read-write");
        let client = "remote buffer: message from passive/server side with pid 17";
        let server = "remote buffer: message from active/client side with pid 18";
        let run = |server, client| {
            let lines =
                [(Side::Server, Stream::Stdout, server), (Side::Client, Stream::Stdout, client)];
            of(example, &outcome(&lines), None)
        };
        assert_eq!(run(server, client), Ok(Data::LookedAt));
        assert!(run(server, "remote buffer: ").is_err());
        assert!(run(server, server).is_err());
    }

    #[test]
    fn what_is_only_counted_is_said_to_be() {
        let mc = example("mc");
        let received = |n| outcome(&[(Side::Server, Stream::Stdout, n)]);
        assert_eq!(of(mc, &received("received message 2"), None), Ok(Data::Counted));
        assert!(of(mc, &received("received message 1"), None).is_err());
        let both = [
            (Side::Server, Stream::Stderr, "server: 100 recv completions, 100 send completions"),
            (Side::Client, Stream::Stderr, "client: 100 recv completions, 100 send completions"),
        ];
        assert_eq!(of(example("blast-sr-2"), &outcome(&both), None), Ok(Data::Counted));
        assert!(of(example("blast-sr-2"), &outcome(&both[..1]), None).is_err());
    }
}
