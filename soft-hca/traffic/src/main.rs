//! An ordinary verbs program whose every byte is checked.
//!
//! Two processes with several threads each, and several queue pairs in each thread: reliable and
//! unreliable connections and datagrams, with receive queues of their own or shared, all in a
//! thread with one completion queue that is polled or waited for. Between the two ends of a queue
//! pair goes what a seed says ([`plan`]): sends, RDMA writes and reads, atomics, from no byte to
//! some mebibytes, at odd addresses, in several segments, with immediate, inline, fenced,
//! solicited, in lists. As both ends know what has to come, both know what every byte of their
//! memory has to be afterwards ([`area`]), those around the messages included.
//!
//! When its peer is killed, the program finds out whether each reliable queue pair notices.
#![deny(unsafe_code)]

mod area;
mod endpoint;
mod error;
mod pattern;
mod peer;
mod plan;
mod session;
mod shared;
mod verbs;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use crate::error::{Error, Result};
use crate::peer::Peer;
use crate::plan::Config;

/// Sends, writes, reads and atomics of all sizes from many threads, and checks every byte.
///
/// Start it without a server's name first, then with one. Ends with 0 if every byte was right.
#[derive(Parser)]
#[command(name = "soft-hca-traffic", version)]
struct Cli {
    /// Where the server runs; without it this is the server
    server: Option<String>,
    /// TCP port by which both agree on what to do
    #[arg(short, long, default_value_t = 18_600)]
    port: u16,
    /// Index of the device's GID
    #[arg(short, long, default_value_t = 1)]
    gid_index: u8,
    /// Bytes to be moved, such as 32MiB or 1GiB (client)
    #[arg(long, default_value = "32MiB", value_parser = size)]
    bytes: u64,
    /// Threads of each side (client)
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Queue pairs of each thread (client)
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    queue_pairs: u32,
    /// Bytes of a message, at most (client)
    #[arg(long, default_value = "1MiB", value_parser = message_size)]
    max_message: u32,
    /// Entries of each thread's completion queue, such as fewer than its requests need: they have to
    /// wait for room then [default: as many as they need] (client)
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    cq_entries: u32,
    /// Another number draws everything differently (client)
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Wait for completion events instead of polling (client)
    #[arg(short, long)]
    events: bool,
    /// Only reliable connections, whose messages come though the network loses packets (client)
    #[arg(short, long)]
    reliable: bool,
}

/// Longest message, in bytes.
const MAX_MESSAGE: u64 = 64 << 20;

/// A number of bytes, perhaps with a unit.
fn size(text: &str) -> std::result::Result<u64, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, *bits)));
    let (digits, bits) = unit.unwrap_or((text, 0));
    let number = digits.trim().parse::<u64>().map_err(|error| error.to_string())?;
    number.checked_mul(1 << bits).ok_or_else(|| "too much".to_string())
}

fn message_size(text: &str) -> std::result::Result<u32, String> {
    match size(text)? {
        bytes @ 1..=MAX_MESSAGE => Ok(bytes as u32),
        _ => Err("from 1 byte to 64MiB".to_string()),
    }
}

/// Checks a client's request to a server.
fn check(config: &Config) -> Result<()> {
    let limits = [
        ((1..=64).contains(&config.threads), "a number of threads that is not from 1 to 64"),
        ((1..=256).contains(&config.queue_pairs), "a number of queue pairs not from 1 to 256"),
        (
            (1..=MAX_MESSAGE).contains(&config.max_message.into()),
            "messages that are not from 1 byte to 64 MiB",
        ),
    ];
    let wrong = limits.iter().find(|(is_met, _)| !is_met);
    wrong.map_or(Ok(()), |(_, what)| Err(Error::Config(what)))
}

fn run(cli: &Cli) -> Result<()> {
    let (peer, config) = match &cli.server {
        None => {
            let mut peer = Peer::accept(cli.port)?;
            let config: Config = peer.hear()?;
            check(&config)?;
            (peer, config)
        }
        Some(server) => {
            let mut peer = Peer::connect(server, cli.port)?;
            let config = Config {
                seed: cli.seed,
                bytes: cli.bytes,
                threads: cli.threads,
                queue_pairs: cli.queue_pairs,
                max_message: cli.max_message,
                cq_entries: cli.cq_entries,
                events: cli.events,
                reliable: cli.reliable,
            };
            peer.tell(&config)?;
            (peer, config)
        }
    };
    let done = session::run(peer, &config, cli.gid_index, cli.server.is_some(), |line| {
        println!("{line}")
    })?;
    let seconds = done.time.as_secs_f64();
    println!(
        "seed {}: {} bytes in {} requests, every byte checked, in {seconds:.1} s ({:.0} MiB/s)",
        config.seed,
        done.bytes,
        done.requests,
        done.bytes as f64 / seconds / f64::from(1 << 20),
    );
    Ok(())
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soft-hca-traffic: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("77"), Ok(77));
        assert_eq!(size("32MiB"), Ok(32 << 20));
        assert_eq!(size("1 GiB"), Ok(1 << 30));
        assert!(size("1MB").is_err() && size("").is_err() && size("99999999999GiB").is_err());
        assert_eq!(message_size("64MiB"), Ok(64 << 20));
        assert!(message_size("0").is_err() && message_size("65MiB").is_err());
    }
}
