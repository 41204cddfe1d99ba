//! Checks the ICRC of every RoCE packet in recordings, pcap or pcapng:
//! `cargo run -p soft-hca --example check_icrc -- FILE...`
//!
//! The last line counts. Fails if one is wrong, and if there are no packets at all.

use std::path::Path;
use std::process::ExitCode;

use programs::capture;

/// How many packets of a recording are right, and how many wrong.
fn check(path: &Path) -> Result<(usize, usize), Box<dyn std::error::Error>> {
    let packets = capture::packets(&std::fs::read(path)?)?;
    let mut wrong = 0;
    for packet in packets.iter().filter(|packet| !packet.is_right()) {
        println!("wrong ICRC: {packet:02x?}");
        wrong += 1;
    }
    Ok((packets.len() - wrong, wrong))
}

fn main() -> ExitCode {
    let (mut right, mut wrong) = (0, 0);
    for path in std::env::args_os().skip(1) {
        match check(Path::new(&path)) {
            Ok(counts) => (right, wrong) = (right + counts.0, wrong + counts.1),
            Err(error) => {
                eprintln!("{}: {error}", Path::new(&path).display());
                return ExitCode::from(2);
            }
        }
    }
    println!("{right} right, {wrong} wrong");
    if wrong == 0 && right > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
