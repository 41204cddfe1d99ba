//! The command line of the agent: `harness-agent [OPTIONS] -- PROGRAM [ARGUMENT...]`.
//!
//! A program of its own, and a small one: until a child has replaced its memory by its own, it
//! has its parent's, and that counts for its peak.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use getopts::{Options, ParsingStyle};
use harness::agent::Agent;

fn main() -> ExitCode {
    match agent(std::env::args_os().skip(1)) {
        Ok(agent) => ExitCode::from(agent.run()),
        Err(why) => {
            eprintln!("harness-agent: {why}");
            ExitCode::from(2)
        }
    }
}

fn agent(arguments: impl Iterator<Item = OsString>) -> Result<Agent, String> {
    let mut options = Options::new();
    options
        .parsing_style(ParsingStyle::StopAtFirstFree)
        .optopt("", "ready", "tell when the program listens", "rdma|tcp")
        .optopt("", "arg0", "what the program finds in argv[0]", "NAME")
        .optopt("", "time-limit", "end it after this time, or when nobody reads", "SECONDS");
    let found = options.parse(arguments).map_err(|error| error.to_string())?;
    let ready = found.opt_str("ready").map(|how| how.parse()).transpose()?;
    let limit = found.opt_get::<u64>("time-limit").map_err(|error| error.to_string())?;
    let arg0 = found.opt_str("arg0").map(OsString::from);
    let mut words = found.free.into_iter().map(OsString::from);
    Ok(Agent {
        program: words.next().ok_or("no program is named")?,
        arg0,
        args: words.collect(),
        ready,
        limit: limit.map(Duration::from_secs),
    })
}
