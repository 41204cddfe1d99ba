//! The calls of both, and what becomes of them: records of a run of each, side by side.
//!
//! `soft-hca show --stable` has all but the order in which a program posts receives among its sends.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use crate::compare::diff::{CaseResult, Verdict};
use crate::compare::stage::{Maker, Stage, ending_in_words};
use crate::compare::unified::unified;
use crate::error::Error;
use crate::examples::Example;
use crate::recording::Recording;
use crate::run::Unobserved;
use crate::transcript::Side;

/// How often both are run at most until one run of each is the same: some of it is chance.
const RUNS: usize = 4;

/// Calls in which ours differ from the C by design.
#[derive(Debug)]
pub struct Known(Vec<Listed>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    example: String,
    /// Lines of a record, as a pattern: whoever has them, they are not compared.
    lines: Option<String>,
    /// Parts of lines, as a pattern, that are not compared.
    parts: Option<String>,
    reason: String,
}

impl Listed {
    /// Takes what is listed from the lines of a record; `None` if a pattern is none.
    fn leave_out(&self, of: &mut Vec<String>) -> Option<()> {
        if let Some(lines) = &self.lines {
            let pattern = Regex::new(lines).ok()?;
            of.retain(|line| !pattern.is_match(line));
        }
        if let Some(parts) = &self.parts {
            let pattern = Regex::new(parts).ok()?;
            of.iter_mut().for_each(|line| *line = pattern.replace_all(line, "").into_owned());
        }
        Some(())
    }
}

impl Known {
    /// Reads `calls.json` of a data folder.
    pub fn read(data: &Path) -> Result<Known, Error> {
        let path = data.join("calls.json");
        let text = fs::read(&path).map_err(Error::read(&path))?;
        let listed: Vec<Listed> = serde_json::from_slice(&text).map_err(Error::json(&path))?;
        for Listed { example, lines, parts, .. } in &listed {
            if Example::named(example).is_none() {
                return Err(Error::data(&path, format!("no example is called {example:?}")));
            }
            for pattern in [lines, parts].into_iter().flatten() {
                Regex::new(pattern).map_err(|error| Error::data(&path, error.to_string()))?;
            }
        }
        Ok(Known(listed))
    }

    fn of<'a>(&'a self, example: &'a Example) -> impl Iterator<Item = &'a Listed> {
        self.0.iter().filter(|listed| listed.example == example.name)
    }

    /// Whether two runs are the same but for what is listed, and the reasons.
    fn explain(&self, example: &Example, c: &[String], rust: &[String]) -> Option<String> {
        let mut rest = [c.to_vec(), rust.to_vec()];
        let mut reasons = Vec::new();
        for listed in self.of(example) {
            let before = rest.clone();
            for lines in &mut rest {
                listed.leave_out(lines)?;
            }
            if rest != before {
                reasons.push(listed.reason.as_str());
            }
        }
        (rest[0] == rest[1] && !reasons.is_empty()).then(|| reasons.join("; "))
    }
}

/// Runs both with few messages, or the user's flags, and compares what they have done.
pub fn compare(
    stage: &Stage,
    example: &Example,
    flags: Option<&[OsString]>,
    known: &Known,
) -> Result<CaseResult, Error> {
    let flags = flags.map_or_else(|| example.few(), <[_]>::to_vec);
    let words: Vec<_> = flags.iter().map(|flag| flag.to_string_lossy()).collect();
    let case = format!("calls {}", words.join(" ")).trim_end().to_owned();
    let result = |verdict, differences| CaseResult { case: case.clone(), verdict, differences };
    let mut seen: [Vec<Vec<String>>; 2] = Default::default();
    let mut found = None;
    for _ in 0..RUNS {
        for maker in Maker::BOTH {
            match done(stage, example, maker, &flags)? {
                Ok(lines) => seen[maker as usize].push(lines),
                Err(why) => {
                    return Ok(result(Verdict::Unexpected, vec![format!("{maker}: {why}")]));
                }
            }
        }
        let [c, rust] = &seen;
        if c.iter().any(|lines| rust.contains(lines)) {
            return Ok(result(Verdict::Same, Vec::new()));
        }
        found = c.iter().find_map(|c| rust.iter().find_map(|rust| known.explain(example, c, rust)));
        if found.is_some() {
            break;
        }
    }
    // The two that differ least, for the reader.
    let pairs = seen[0].iter().flat_map(|c| seen[1].iter().map(|rust| unified("calls", c, rust)));
    let differences = pairs.min_by_key(Vec::len).unwrap_or_default();
    let verdict = found.map_or(Verdict::Unexpected, |reason| Verdict::Known { reason });
    Ok(result(verdict, differences))
}

/// The calls of one maker's programs, and how they end; or why there is nothing.
fn done(
    stage: &Stage,
    example: &Example,
    maker: Maker,
    flags: &[OsString],
) -> Result<Result<Vec<String>, String>, Error> {
    let program = |side| {
        let args = example.arguments(side, stage.address_of(example, side), flags);
        args.map(|args| stage.program(example, maker, side, args))
    };
    let plan = stage.pair(example, program(Side::Server), program(Side::Client));
    let sides = Side::BOTH.map(|side| program(side).map(|_| side));
    let recording = Recording::begin()?;
    let played = stage.play(plan, false, &mut Unobserved)?;
    let record = recording.end()?;
    if let Some(why) = played.not_started.or(played.outcome.never_ready.clone()) {
        return Ok(Err(why));
    }
    let stable = without_chance(example.name, &record.stable()?);
    let mut lines: Vec<String> = stable.lines().map(str::to_owned).collect();
    if !has_chance(example.name) {
        lines.extend(posts(&record.commands()?));
    }
    let ending = |side| format!("{side} {}", ending_in_words(played.outcome.ending(side)));
    lines.extend(sides.into_iter().flatten().map(ending));
    Ok(Ok(lines))
}

/// The order in which each program posts, from a line for each entry.
fn posts(commands: &str) -> Vec<String> {
    let pattern =
        r"^ *[0-9.]+ (\S+\[[0-9]+\]) ibv_post_(send|recv|srq_recv)\((?:.*?, (IBV_WR_\w+))?";
    let pattern = Regex::new(pattern).expect("a constant pattern");
    let mut of_programs: BTreeMap<&str, Vec<(&str, u32)>> = BTreeMap::new();
    for found in commands.lines().filter_map(|line| pattern.captures(line)) {
        let (program, post) = (found.get(1), found.get(3).or(found.get(2)));
        let (Some(program), Some(post)) = (program, post) else { continue };
        let posted = of_programs.entry(program.as_str()).or_default();
        match posted.last_mut() {
            Some((last, count)) if *last == post.as_str() => *count += 1,
            _ => posted.push((post.as_str(), 1)),
        }
    }
    let mut lines: Vec<String> = of_programs
        .into_iter()
        .map(|(program, posted)| {
            let words = posted.into_iter().map(|(post, count)| match count {
                1 => post.to_owned(),
                _ => format!("{post} ({count} times)"),
            });
            let name = program.split('[').next().unwrap_or(program);
            format!("{name} posts {}", words.collect::<Vec<_>>().join(", "))
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// Whether what an example posts, and when, is chance.
fn has_chance(example: &str) -> bool {
    example == "read-write" || example.starts_with("blast-sr-2")
}

/// The part of a record's stable text that is the same in every run of an example. The server of a blast acknowledges one
/// message or several at a time, by 8 bytes, and whether its last acknowledgement comes before its client has left is
/// chance. The server of `read-write` answers in the thread for completions, or in the other one if the client's
/// message came before `RDMA_CM_EVENT_ESTABLISHED`; what becomes of the answer is the same.
pub fn without_chance(example: &str, text: &str) -> String {
    let mut is_left_out = false;
    let keeps = |line: &&str| {
        // Lines that belong to the one before are further to the right.
        if has_chance(example) && !line.starts_with("      ") {
            is_left_out = match example {
                "read-write" => line.trim_start().starts_with("ibv_post_send(qp=qp2,"),
                _ => line.contains(", 8 bytes"),
            };
        }
        !is_left_out
    };
    text.split_inclusive('\n').filter(keeps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posts_are_told_in_their_order() {
        let commands = "\
   0.1 server[7] ibv_post_recv(qp=5, wr_id=0x1, 16 bytes [0x5/16 lkey=0x2])
   0.2 client[8] ibv_post_recv(qp=4, wr_id=0x1, 16 bytes [0x5/16 lkey=0x2])
   0.2 client[8] ibv_post_send(qp=4, wr_id=0x1, IBV_WR_SEND, IBV_SEND_SIGNALED, 16 bytes [0x5/16 lkey=0x2])
   0.3 client[8] ibv_post_send(qp=4, wr_id=0x1, IBV_WR_SEND, 16 bytes [0x5/16 lkey=0x2])
   0.3 client[8] qp=4 wr_id=0x1 IBV_WR_SEND is executed, 16 bytes
   0.4 server[7] ibv_post_srq_recv(srq=1, wr_id=0x1, 16 bytes [0x5/16 lkey=0x2])";
        let expected = ["client posts recv, IBV_WR_SEND (2 times)", "server posts recv, srq_recv"];
        assert_eq!(posts(commands), expected);
    }

    #[test]
    fn what_is_listed_is_not_compared() {
        let listed = Listed {
            example: "mc".to_owned(),
            lines: Some("^ibv_create_cq".to_owned()),
            parts: None,
            reason: "room".to_owned(),
        };
        let numbered = Listed {
            example: "read-write".to_owned(),
            lines: None,
            parts: Some(r"wr_id=\w+".to_owned()),
            reason: "a number".to_owned(),
        };
        let known = Known(vec![listed, numbered]);
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let explain = |name, c: &str, rust: &str| {
            known.explain(Example::named(name).unwrap(), &lines(c), &lines(rust))
        };
        let (c, rust) = ("ibv_create_cq(2)\nend", "ibv_create_cq(10)\nend");
        assert_eq!(explain("mc", c, rust).unwrap(), "room");
        assert_eq!(explain("mckey", c, rust), None);
        assert_eq!(explain("mc", c, "ibv_create_cq(10)\nother"), None);
        let post = "ibv_post_send(wr_id=wr_id1, 8 bytes)";
        assert_eq!(explain("read-write", post, &post.replace("wr_id1", "7")).unwrap(), "a number");
        assert_eq!(explain("read-write", post, "ibv_post_send(wr_id=7, 9 bytes)"), None);
    }

    #[test]
    fn chance_is_left_out() {
        let text =
            "server\n    ibv_post_send(qp=qp2, 8 bytes)\n      completion, 8 bytes\n    end\n";
        assert_eq!(without_chance("read-write", text), "server\n    end\n");
        assert_eq!(without_chance("blast-sr-2", text), "server\n    end\n");
        assert_eq!(without_chance("ping-sr-1", text), text);
    }
}
