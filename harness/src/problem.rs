//! The course's three problems (slides p. 186–228): a run of an example that has the problem beside
//! the same run of the one that has solved it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::agent::Usage;
use crate::columns;
use crate::demo::Demo;
use crate::error::Error;
use crate::examples::Example;
use crate::hosts::Played;
use crate::process::Ending;
use crate::run::{Client, Kill, Observer, Plan, Progress};
use crate::show::print;
use crate::transcript::Side;

/// When something is done to a side, counted from the start of the client.
const STRIKE: Duration = Duration::from_secs(1);
/// How long a side runs that does not end by itself, in whole seconds.
const LIMIT: Duration = Duration::from_secs(4);
/// Programs left then are ended after this time more.
const GRACE: Duration = Duration::from_secs(1);

/// One of the three.
struct Problem {
    title: &'static str,
    /// The action in both runs.
    what: &'static str,
    /// Of both runs: the example, and the flags of its server and its client.
    examples: [&'static str; 2],
    flags: [&'static str; 2],
    /// The side that gets a signal, and which.
    strike: Option<(Side, Strike)>,
    judge: [Judge; 2],
}

/// The comment on a run; an error if it did not go as it has to.
type Judge = fn(&Ran) -> Result<String, String>;

/// An action against a side.
#[derive(Clone, Copy)]
enum Strike {
    Kill,
    Stop,
}

impl Strike {
    fn signal(self) -> i32 {
        match self {
            Strike::Kill => libc::SIGKILL,
            Strike::Stop => libc::SIGSTOP,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Strike::Kill => "killed (SIGKILL)",
            Strike::Stop => "stopped (SIGSTOP)",
        }
    }
}

const PROBLEMS: [Problem; 3] = [
    Problem {
        title: "Problem 1: the sides disagree (slides p. 186-188)",
        what: "The server is told 3 messages of 8 bytes, the client 5 of 16.",
        examples: ["ping-sr-0", "ping-sr-1"],
        flags: ["-c 3 -s 8", "-c 5 -s 16"],
        strike: None,
        judge: [disagreed, agreed],
    },
    Problem {
        title: "Problem 2: the peer is gone (slides p. 189, 205-209)",
        what: "After a second of messages to and fro the client is killed.",
        examples: ["ping-sr-1", "ping-sr-2"],
        flags: ["", "-c 1000000000"],
        strike: Some((Side::Client, Strike::Kill)),
        judge: [unnoticed, noticed],
    },
    Problem {
        title: "Problem 3: a busy processor (slides p. 210-227)",
        what: "After a second of messages to and fro the server is stopped. For three seconds the \
               client has nothing to do but to wait for an answer.",
        examples: ["ping-sr-2", "ping-sr-3"],
        flags: ["", "-c 1000000000"],
        strike: Some((Side::Server, Strike::Stop)),
        judge: [busy, asleep],
    },
];

/// A run that is over.
struct Ran {
    played: Played,
    /// When the signal was sent, from the start of the run.
    struck: Option<Duration>,
}

impl Ran {
    fn endings(&self) -> [Option<Ending>; 2] {
        Side::BOTH.map(|side| self.played.outcome.ending(side))
    }

    fn ended(&self) -> String {
        let [server, client] = self
            .endings()
            .map(|ending| ending.map_or("nothing".to_owned(), |ending| ending.to_string()));
        format!("the server ended with {server}, the client with {client}")
    }
}

/// Shows problem `number`. True if both runs went as they have to.
pub fn show(demo: &Demo, number: u8) -> Result<bool, Error> {
    let problem = usize::from(number)
        .checked_sub(1)
        .and_then(|at| PROBLEMS.get(at))
        .ok_or_else(|| Error::Usage(format!("the course has problems 1 to {}", PROBLEMS.len())))?;
    print(&format!("{}\n{}\n{}\n\n", demo.fabric(), problem.title, problem.what))?;
    let [first, second] = [problem.run(demo, 0)?, problem.run(demo, 1)?];
    let runs = [first, second];
    let texts = [0, 1].map(|at| problem.text(demo, at, &runs[at]));
    let [left, right] = [&texts[0], &texts[1]];
    for line in columns::side_by_side([left, right], columns::width()) {
        print(&format!("{line}\n"))?;
    }
    print("\n")?;
    let mut well = true;
    for (at, ran) in runs.iter().enumerate() {
        let said = match problem.judge[at](ran) {
            Ok(said) => said,
            Err(said) => {
                well = false;
                format!("NOT AS EXPECTED: {said}")
            }
        };
        print(&format!("{}: {said}\n", problem.examples[at]))?;
    }
    Ok(well)
}

impl Problem {
    fn example(&self, at: usize) -> &'static Example {
        Example::named(self.examples[at]).expect("the problems are of examples that there are")
    }

    /// The server's arguments and the client's.
    fn arguments(&self, demo: &Demo, at: usize) -> [Vec<OsString>; 2] {
        let example = self.example(at);
        [(Side::Server, self.flags[0]), (Side::Client, self.flags[1])].map(|(side, flags)| {
            let flags: Vec<_> = flags.split_whitespace().map(OsString::from).collect();
            example.arguments(side, &demo.address, &flags).expect("the pings have both sides")
        })
    }

    fn run(&self, demo: &Demo, at: usize) -> Result<Ran, Error> {
        // Without standard error there is nobody who waits.
        let _ = writeln!(io::stderr(), "running {}", self.examples[at]);
        let [server, client] = self.arguments(demo, at);
        let mut plan = demo.plan_of(self.example(at), Some(server), client)?;
        if let Some(server) = &mut plan.server {
            *server = demo.hosts.measured(server, LIMIT)?;
        }
        if let Some(Client::Program(client)) = &mut plan.client {
            *client = demo.hosts.measured(client, LIMIT)?;
        }
        let plan = Plan {
            kill: self.strike.map(|(who, strike)| Kill {
                who,
                signal: strike.signal(),
                once: BTreeMap::new(),
                after: STRIKE,
            }),
            limit: LIMIT + GRACE,
            ..plan
        };
        let mut watch = Watch { began: Instant::now(), struck: None };
        let played = demo.hosts.play(plan, false, &mut watch)?;
        Ok(Ran { played, struck: watch.struck })
    }

    /// Both command lines, what the sides have printed, and when.
    fn text(&self, demo: &Demo, at: usize, ran: &Ran) -> Vec<String> {
        let mut text = vec![self.examples[at].to_owned()];
        for (side, arguments) in Side::BOTH.into_iter().zip(self.arguments(demo, at)) {
            let words: Vec<_> =
                arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            text.push(format!("{side}$ {} {}", self.example(at).binary(side), words.join(" ")));
        }
        let strike = self.strike.zip(ran.struck).map(|((who, strike), when)| {
            let at = when.as_secs_f64();
            (when, format!("{at:6.2}  -- the {who} is {} --", strike.word()))
        });
        let lines = ran.played.outcome.transcript.lines().iter().map(|line| {
            (line.at, format!("{:6.2}  {}| {}", line.at.as_secs_f64(), line.side, line.marked()))
        });
        let mut lines: Vec<_> = lines.chain(strike).collect();
        lines.sort_by_key(|(at, _)| *at);
        text.extend(lines.into_iter().map(|(_, line)| line));
        for (side, ending) in Side::BOTH.into_iter().zip(ran.endings()) {
            let how = match ending {
                Some(Ending::TimedOut) => "had to be ended".to_owned(),
                Some(Ending::Signal(libc::SIGKILL)) => "was killed".to_owned(),
                Some(ending) => format!("ended with {ending}"),
                None => "was not started".to_owned(),
            };
            text.push(format!("        {side} {how}"));
        }
        text
    }
}

/// Notes when the signal is sent.
struct Watch {
    began: Instant,
    struck: Option<Duration>,
}

impl Observer for Watch {
    fn may_kill(&mut self, _victim: Side, _so_far: &Progress<'_>) -> bool {
        self.struck = Some(self.began.elapsed());
        true
    }
}

fn disagreed(ran: &Ran) -> Result<String, String> {
    match ran.endings() {
        [Some(Ending::Code(server)), Some(Ending::Code(client))] if server != 0 && client != 0 => {
            Ok("both sides failed, for a message of 16 bytes does not fit a receive of 8"
                .to_owned())
        }
        _ => Err(ran.ended()),
    }
}

fn agreed(ran: &Ran) -> Result<String, String> {
    match ran.endings() {
        [Some(Ending::Code(0)), Some(Ending::Code(0))] => Ok("both sides ended well: the server \
            took the client's numbers, which came with its connect request"
            .to_owned()),
        _ => Err(ran.ended()),
    }
}

fn unnoticed(ran: &Ran) -> Result<String, String> {
    match ran.endings() {
        [Some(Ending::TimedOut), Some(Ending::Signal(libc::SIGKILL))] => {
            let lasted = ran.played.usage(Side::Server).map_or(LIMIT, |usage| usage.elapsed);
            let waited = lasted.saturating_sub(ran.struck.unwrap_or_default()).as_secs_f64();
            Ok(format!(
                "the server polled on for {waited:.1} s without noticing, until it was ended"
            ))
        }
        _ => Err(ran.ended()),
    }
}

fn noticed(ran: &Ran) -> Result<String, String> {
    match ran.endings() {
        [Some(Ending::Code(server)), Some(Ending::Signal(libc::SIGKILL))] if server != 0 => {
            let lines = ran.played.outcome.transcript.lines();
            let last = lines.iter().rfind(|line| line.side == Side::Server);
            let waited = last.and_then(|line| line.at.checked_sub(ran.struck?)).unwrap_or_default();
            Ok(format!(
                "a thread waits for connection events, and within {:.1} s the server had ended \
                 with {server}",
                (waited.as_secs_f64() * 10.0).ceil().max(1.0) / 10.0
            ))
        }
        _ => Err(ran.ended()),
    }
}

/// The least share of the time of waiting that counts as busy: the time in which the client ran, or was ready while others had
/// the processors.
const BUSY: f64 = 0.2;

fn busy(ran: &Ran) -> Result<String, String> {
    waited(ran, "it asks for completions all the time", |usage, waiting| {
        (usage.processor() + usage.ready).as_secs_f64() >= BUSY * waiting
    })
}

fn asleep(ran: &Ran) -> Result<String, String> {
    // All the time before the signal may have been work, with two threads.
    waited(ran, "it sleeps until a completion comes", |usage, waiting| {
        usage.processor().as_secs_f64() < 2.0 * STRIKE.as_secs_f64() + BUSY * waiting
    })
}

fn waited(ran: &Ran, why: &str, expected: fn(&Usage, f64) -> bool) -> Result<String, String> {
    let usage = ran.played.usage(Side::Client);
    let (Some(usage), [_, Some(Ending::TimedOut)]) = (usage, ran.endings()) else {
        return Err(ran.ended());
    };
    let spent = usage.processor().as_secs_f64();
    let waiting = usage.elapsed.saturating_sub(STRIKE).as_secs_f64();
    let said = format!(
        "the client took {spent:.2} s of processor time in {:.1} s, of which it waited {waiting:.1} \
         s: {why}",
        usage.elapsed.as_secs_f64()
    );
    if expected(&usage, waiting) { Ok(said) } else { Err(said) }
}
