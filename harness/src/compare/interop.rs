//! All four pairings of C and Rust as server and client.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::compare::evidence::{self, Data};
use crate::compare::stage::{Maker, Stage, ending_in_words};
use crate::demo;
use crate::error::Error;
use crate::examples::{Example, Sides};
use crate::hosts::Played;
use crate::process::Ending;
use crate::run::Unobserved;
use crate::transcript::{Side, Stream};

/// Message of blast-sr-2's C when it has found, by chance, a flushed work request after a
/// complete transfer.
const FLUSHED: &str = "ibv_poll_cq completion status \"flushed\"";

/// How a pairing went.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pairing {
    /// Maker of the server.
    pub server: Maker,
    /// Maker of the client.
    pub client: Maker,
    /// Did they work together?
    pub works: bool,
    /// How closely somebody has looked at the data, if they did.
    pub data: Option<Data>,
    /// Note on it: why it failed, or why another ending is right.
    pub note: Option<String>,
}

/// Runs the four pairings. `flags` are the user's; with none a short run that verifies the
/// data where the example can. The servers take turns on one port, so that each maker's has to
/// cope with what the other's has left there.
pub fn pairings(
    stage: &Stage,
    example: &Example,
    flags: Option<&[OsString]>,
) -> Result<Vec<Pairing>, Error> {
    let mut found = Vec::new();
    if example.sides == Sides::Single {
        return Ok(found);
    }
    let own: Vec<OsString> = match flags {
        Some(flags) => flags.to_vec(),
        None => {
            let tour = example.tour_flags().split_whitespace();
            tour.chain(evidence::flags(example)).map(Into::into).collect()
        }
    };
    for client in Maker::BOTH {
        for server in Maker::BOTH {
            let program = |maker, side| {
                let args = example.arguments(side, stage.address_of(example, side), &own);
                args.map(|args| stage.program(example, maker, side, args))
            };
            let plan =
                stage.pair(example, program(server, Side::Server), program(client, Side::Client));
            let played = stage.play(plan, false, &mut Unobserved)?;
            let (mut works, mut note) = judge(example, [server, client], &played);
            let mut data = None;
            let refused = example.name == "apm" && note.is_some();
            if works && !refused {
                match evidence::of(example, &played.outcome, flags) {
                    Ok(seen) => data = Some(seen),
                    Err(why) => (works, note) = (false, Some(why)),
                }
            }
            found.push(Pairing { server, client, works, data, note });
        }
    }
    Ok(found)
}

/// Did the pair do its work, and what is there to say of it?
pub fn judge(example: &Example, makers: [Maker; 2], played: &Played) -> (bool, Option<String>) {
    let outcome = &played.outcome;
    if let Some(why) = played.not_started.as_ref().or(outcome.never_ready.as_ref()) {
        return (false, Some(why.clone()));
    }
    match demo::judge(example, outcome, false) {
        demo::Verdict::Ok => return (true, None),
        demo::Verdict::Expected(why) => return (true, Some(why.to_owned())),
        demo::Verdict::Failed(_) => {}
    }
    let by_chance = |side: Side, maker: Maker| {
        let stderr = outcome.transcript.stream(side, Stream::Stderr);
        outcome.ending(side) == Some(Ending::Code(1))
            && maker == Maker::C
            && example.name == "blast-sr-2"
            && stderr.iter().any(|line| line.contains(FLUSHED))
    };
    let sides = Side::BOTH.into_iter().zip(makers);
    if sides.clone().all(|(side, maker)| {
        outcome.ending(side) == Some(Ending::Code(0)) || by_chance(side, maker)
    }) {
        let why = "the C ends with 1 if it polls the flush of spare receives with the last ack";
        return (true, Some(why.to_owned()));
    }
    let endings: Vec<_> = sides
        .map(|(side, maker)| format!("{maker} {side} {}", ending_in_words(outcome.ending(side))))
        .collect();
    let last = Side::BOTH.into_iter().filter_map(|side| {
        let line = outcome.transcript.of(side, Stream::Stderr).last()?;
        Some(format!("; last of the {side}: {}", line.text))
    });
    (false, Some(endings.join(", ") + &last.collect::<String>()))
}
