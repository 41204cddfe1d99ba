//! How it is known that the data have arrived: by what the programs print of them.

use std::ffi::OsString;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::examples::Example;
use crate::run::Outcome;
use crate::transcript::{Side, Stream};

/// How closely somebody has looked at the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// A program has compared them, or they were printed and are right.
    LookedAt,
    /// Both sides have counted the messages; neither looks at what is in them.
    Counted,
    /// Nobody did, with these flags.
    NotLookedAt,
}

/// A line that one side prints, as a pattern in which `COUNT` is how many messages there are.
pub type Says = (Side, Stream, &'static str);

/// Evidence that an example's data have arrived.
#[derive(Clone, Copy, Debug)]
pub enum Evidence {
    /// With this flag the client verifies each message.
    Verified(&'static str),
    /// These lines show the data.
    Shown(&'static [Says]),
    /// These lines say how many messages there were.
    Counted(&'static [Says]),
    /// The server shows what it publishes, and the client what it sees of that.
    Published,
    /// Nothing.
    None,
}

impl Evidence {
    /// The lines that are looked for.
    pub fn lines(self) -> &'static [Says] {
        match self {
            Evidence::Shown(lines) | Evidence::Counted(lines) => lines,
            Evidence::Verified(_) | Evidence::Published | Evidence::None => &[],
        }
    }
}

/// More flags for a run in which the data are to be seen: with `-T` every verification is
/// reported, not only one that fails.
pub fn flags(example: &Example) -> impl Iterator<Item = &'static str> {
    let verify = match example.evidence {
        Evidence::Verified(flag) => Some([flag, "-T"]),
        _ => None,
    };
    verify.into_iter().flatten()
}

/// Verdict of a finished pair that ended well on its data; the error is why it did not work.
/// `given` are the user's flags, if there are any.
pub fn of(
    example: &Example,
    outcome: &Outcome,
    given: Option<&[OsString]>,
) -> Result<Data, String> {
    match example.evidence {
        Evidence::Verified(_) => verified(example, outcome, given),
        Evidence::Shown(lines) => said(lines, example, outcome).map(|()| Data::LookedAt),
        Evidence::Published => published(outcome),
        Evidence::Counted(lines) if given.is_none() => {
            said(lines, example, outcome).map(|()| Data::Counted)
        }
        Evidence::Counted(_) | Evidence::None => Ok(Data::NotLookedAt),
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

/// Texts that the subscriber has seen have to have been published. It looks now and then, and may miss
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

fn said(lines: &[Says], example: &Example, outcome: &Outcome) -> Result<(), String> {
    let count = count(example).unwrap_or_default().to_string();
    for &(side, stream, pattern) in lines {
        let pattern = Regex::new(&pattern.replace("COUNT", &count)).expect("a constant pattern");
        let printed = outcome.transcript.stream(side, stream);
        if !printed.iter().any(|line| pattern.is_match(line)) {
            return Err(format!("the {side} does not say {:?}", pattern.as_str()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::{Line, Transcript};
    use std::time::{Duration, SystemTime};

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
            began: SystemTime::UNIX_EPOCH,
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
