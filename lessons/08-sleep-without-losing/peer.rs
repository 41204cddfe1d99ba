//! The client: sends messages, some at once and some after a while, in another pattern in every run.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use common::utilities::{OurResult, exit_code};
use kit::{
    OurOptions, our_await_completion, our_await_disconnect, our_buffer, our_client, our_connect,
    our_dereg_mr, our_disconnect, our_post_send, our_reg_mr, our_setup_send_wr, our_setup_sge,
    our_unsetup,
};
use rdma_sys::ibv_access_flags;

const MESSAGES: u32 = 20;

fn run() -> OurResult {
    let mut conn = our_client(OurOptions { message: "peer", ..OurOptions::default() })?;
    let buffer = our_buffer(&conn, 8)?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags(0))?;
    our_connect(&mut conn, &[])?;
    let mut seed = std::process::id();
    for number in 0..MESSAGES {
        // the constants of a linear congruential generator
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let pauses = [0, 0, 20, 200, 3000];
        thread::sleep(Duration::from_micros(pauses[(seed >> 16) as usize % pauses.len()]));
        if number % 4 == 2 {
            // by then the server sleeps, however busy the machine is
            thread::sleep(Duration::from_millis(100));
        }
        our_post_send(&conn, &mut our_setup_send_wr(&mut [our_setup_sge(&buffer, mr)]))?;
        our_await_completion(&conn)?;
    }
    our_await_disconnect(&conn)?;
    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)
}

pub fn main() -> ExitCode {
    exit_code(run())
}
