//! The client: sends much over one connection and little over another, and waits for each answer.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use common::memory::CArray;
use common::outln;
use common::utilities::{OurResult, exit_code};
use kit::{
    OurControl, OurOptions, our_await_completion, our_buffer, our_client, our_connect,
    our_dereg_mr, our_disconnect, our_fill, our_post_recv, our_post_send, our_reg_mr,
    our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr};

/// Messages over the one.
const MUCH: u32 = 30;
/// After so many of them comes one over the other.
const LITTLE: u32 = 10;
/// Between two messages. An event is later than the message that has made it: some messages may come before
/// the server has it.
const PAUSE: Duration = Duration::from_millis(20);

struct Connection {
    conn: OurControl,
    buffer: CArray<u8>,
    mr: *mut ibv_mr,
}

impl Connection {
    fn new(text: &str) -> OurResult<Self> {
        let mut conn = our_client(OurOptions { message: "peer", ..OurOptions::default() })?;
        let buffer = our_buffer(&conn, text.len())?;
        our_fill(&buffer, text);
        let mr = our_reg_mr(&conn, &buffer, ibv_access_flags(0))?;
        our_connect(&mut conn, &[])?;
        Ok(Self { conn, buffer, mr })
    }

    /// Sends a message, and takes its answer, which has no bytes.
    fn ask(&self) -> OurResult {
        our_post_recv(&self.conn, &mut our_setup_recv_wr(&mut []))?;
        let mut sges = [our_setup_sge(&self.buffer, self.mr)];
        our_post_send(&self.conn, &mut our_setup_send_wr(&mut sges))?;
        // of the send, and of the receive
        our_await_completion(&self.conn)?;
        our_await_completion(&self.conn)?;
        thread::sleep(PAUSE);
        Ok(())
    }

    fn end(mut self) -> OurResult {
        our_disconnect(&mut self.conn)?;
        our_dereg_mr(&self.conn, self.mr)?;
        our_unsetup(&mut self.conn)
    }
}

fn run() -> OurResult {
    let busy = Connection::new("a message of many")?;
    let quiet = Connection::new("a message of few")?;
    for message in 1..=MUCH {
        busy.ask()?;
        if message % LITTLE == 0 {
            quiet.ask()?;
        }
    }
    outln!("all messages were answered");
    busy.end()?;
    quiet.end()
}

pub fn main() -> ExitCode {
    exit_code(run())
}
