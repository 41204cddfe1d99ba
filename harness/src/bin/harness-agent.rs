//! The command line of the agent: `harness-agent [OPTIONS] -- PROGRAM [ARGUMENT...]`. With `--answer`
//! or `--ask` it runs nothing and finds out whether packets pass from one host to another.
//!
//! A program of its own, and a small one: until a child has replaced its memory by its own, it
//! has its parent's, and that counts for its peak.

use std::ffi::OsString;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use getopts::{Options, ParsingStyle};
use harness::agent::Agent;
use harness::reach;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Work of the agent.
enum Work {
    Run(Agent),
    Answer(IpAddr),
    Ask(Option<IpAddr>, IpAddr),
}

fn main() -> ExitCode {
    let done = work(std::env::args_os().skip(1)).and_then(|work| {
        let found = match work {
            Work::Run(agent) => return Ok(ExitCode::from(agent.run())),
            Work::Answer(own) => reach::answer(own),
            Work::Ask(own, peer) => reach::ask(own, peer, PATIENCE),
        };
        found.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
    });
    match done {
        Ok(code) => code,
        Err(why) => {
            eprintln!("harness-agent: {why}");
            ExitCode::from(2)
        }
    }
}

fn work(arguments: impl Iterator<Item = OsString>) -> Result<Work, String> {
    let mut options = Options::new();
    options
        .parsing_style(ParsingStyle::StopAtFirstFree)
        .optopt("", "ready", "tell when the program listens", "rdma|tcp")
        .optopt("", "arg0", "what the program finds in argv[0]", "NAME")
        .optopt("", "time-limit", "end it after this time, or when nobody reads", "SECONDS")
        .optflag("", "until-input-ends", "end it when standard input ends")
        .optopt("", "answer", "answer who asks at this address of the host", "ADDRESS")
        .optopt("", "ask", "ask a host that answers", "ADDRESS")
        .optopt("", "own", "the address that asks", "ADDRESS");
    let found = options.parse(arguments).map_err(|error| error.to_string())?;
    let address =
        |name| found.opt_get::<IpAddr>(name).map_err(|error| format!("--{name}: {error}"));
    if let Some(own) = address("answer")? {
        return Ok(Work::Answer(own));
    }
    if let Some(peer) = address("ask")? {
        return Ok(Work::Ask(address("own")?, peer));
    }
    let ready = found.opt_str("ready").map(|how| how.parse()).transpose()?;
    let limit = found.opt_get::<u64>("time-limit").map_err(|error| error.to_string())?;
    let arg0 = found.opt_str("arg0").map(OsString::from);
    let until_input_ends = found.opt_present("until-input-ends");
    let mut words = found.free.into_iter().map(OsString::from);
    Ok(Work::Run(Agent {
        program: words.next().ok_or("no program is named")?,
        arg0,
        args: words.collect(),
        ready,
        limit: limit.map(Duration::from_secs),
        until_input_ends,
    }))
}
