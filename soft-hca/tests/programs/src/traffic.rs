//! `soft-hca-traffic`, the program that checks every byte, as a pair.

use crate::place::{Place, built};
use crate::program::Program;
use crate::{LIMIT, LOCALHOST, comes_about, tcp};

/// More than anybody waits for.
pub const ENDLESS: &str = "--bytes 1000000GiB";

/// The line of a program whose peer was killed, when all its queue pairs have noticed.
pub const PEER_GONE: &str = "soft-hca-traffic: the peer has gone; queue pairs: ";

/// A pair of programs.
#[derive(Debug)]
pub struct Traffic {
    /// The side that listens.
    pub server: Program,
    /// The side that connects.
    pub client: Program,
}

/// The command line without options.
pub fn program() -> String {
    built("soft-hca-traffic").to_str().unwrap().to_string()
}

impl Traffic {
    /// Starts a pair; the options are the client's.
    pub fn start(place: &Place, options: &str) -> Self {
        let port = tcp::free_port();
        let line = format!("{} -p {port}", program());
        let mut server = place.start(&line);
        server.wait_until(|| tcp::listens(port));
        let client = place.start(&format!("{line} {options} {LOCALHOST}"));
        Self { server, client }
    }

    /// Waits until both have connected their queue pairs.
    pub fn wait_until_connected(&mut self) {
        for program in [&mut self.server, &mut self.client] {
            let output = program.output_file();
            program.wait_until(|| {
                std::fs::read_to_string(&output).is_ok_and(|text| text.contains(" queue pairs in "))
            });
        }
    }

    /// Waits for the good end of both; gives the client's output.
    pub fn succeed(&mut self) -> String {
        let both_end = || self.client.has_ended() && self.server.has_ended();
        // Whichever fails first has the reason, and the other one only waits.
        comes_about(10 * LIMIT, both_end);
        let texts = format!("{}\n{}", self.server.output(), self.client.output());
        for program in [&mut self.server, &mut self.client] {
            let status = program.wait();
            assert!(status.success(), "{status}\n{texts}");
        }
        self.client.output()
    }
}

/// A pair that nobody kills.
pub fn another_pair(place: &Place) {
    let options = "--bytes 1MiB --threads 2 --queue-pairs 2 --max-message 64KiB";
    let text = Traffic::start(place, options).succeed();
    assert!(text.contains("every byte checked"), "{text}");
}
