//! The client: calls, several times at once, waits until all are answered, and hangs up in the end.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_await_completion, our_client, our_connect, our_disconnect, our_post_recv,
    our_post_send, our_setup_recv_wr, our_setup_send_wr, our_unsetup,
};

/// Calls at once.
const CALLS: [u32; 8] = [1, 4, 1, 3, 4, 1, 2, 4];
/// Before each, so that the server has gone to sleep.
const PAUSE: Duration = Duration::from_millis(100);

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "peer", ..OurOptions::default() })?;
    our_connect(&mut conn, &[])?;
    for calls in CALLS {
        thread::sleep(PAUSE);
        for _ in 0..calls {
            our_post_recv(&conn, &mut our_setup_recv_wr(&mut []))?;
        }
        for _ in 0..calls {
            our_post_send(&conn, &mut our_setup_send_wr(&mut []))?;
        }
        // of each call, and of its answer
        for _ in 0..2 * calls {
            our_await_completion(&conn)?;
        }
    }
    outln!("{} calls are answered", CALLS.iter().sum::<u32>());
    thread::sleep(PAUSE);
    our_disconnect(&mut conn)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
