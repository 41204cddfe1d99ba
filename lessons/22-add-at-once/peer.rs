//! The server: gives access to its counter, and takes numbers from it as well, by a connection to itself:
//! what its processor would add is not atomic for the adapter.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::memory::CArray;
use common::utilities::{OurResult, Reported, exit_code};
use common::{errln, outln};
use kit::{
    OurControl, OurOptions, our_accept, our_await_completion, our_await_disconnect, our_buffer,
    our_client, our_connect, our_dereg_mr, our_disconnect, our_next_client, our_number,
    our_post_recv, our_post_send, our_reg_mr, our_remote, our_remote_data, our_server,
    our_set_number, our_setup_recv_wr, our_setup_send_wr, our_setup_sge, our_unsetup,
};
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_wr_opcode};

/// Numbers that the client takes.
const NUMBERS: u64 = 1000;
/// More than that the server does not take itself.
const OWN: u64 = 5000;
/// The first number.
const FIRST: u64 = 100;
/// Between two numbers of its own.
const PAUSE: Duration = Duration::from_micros(20);

/// Numbers that were taken: how many, and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    count: u64,
    sum: u64,
}

/// The server's own client: takes numbers until it is over.
fn take_own(is_over: &AtomicBool) -> OurResult<Taken> {
    let mut conn = our_client(OurOptions { message: "peer", ..OurOptions::default() })?;
    let answer = our_buffer(&conn, 8)?;
    let mr = our_reg_mr(&conn, &answer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    our_connect(&mut conn, &[])?;
    let taken = add_own(&conn, &answer, mr, is_over);
    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)?;
    taken
}

fn add_own(
    conn: &OurControl,
    answer: &CArray<u8>,
    mr: *mut ibv_mr,
    is_over: &AtomicBool,
) -> OurResult<Taken> {
    let (address, rkey) = our_remote(&conn.peer_data);
    let mut sges = [our_setup_sge(answer, mr)];
    let mut wr = our_setup_send_wr(&mut sges);
    wr.opcode = ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.remote_addr = address;
    wr.wr.atomic.rkey = rkey;
    wr.wr.atomic.compare_add = 1;
    let mut taken = Taken::default();
    while taken.count < OWN && !is_over.load(Ordering::Acquire) {
        our_post_send(conn, &mut wr)?;
        our_await_completion(conn)?;
        taken.count += 1;
        taken.sum += our_number(answer, 0);
        thread::sleep(PAUSE);
    }
    Ok(taken)
}

/// The client's message: the sum of its numbers.
fn told(conn: &OurControl, buffer: &CArray<u8>) -> OurResult<u64> {
    our_await_completion(conn)?;
    Ok(u64::from_be(our_number(buffer, 0)))
}

/// Were the numbers of both taken once each?
fn compare(counter: u64, own: Taken, sum: u64) -> OurResult {
    let counted = counter.wrapping_sub(FIRST);
    let taken = NUMBERS + own.count;
    if counted != taken {
        errln!("peer: {taken} numbers were taken, and the counter has counted {counted}");
        return Err(Reported);
    }
    let all: u64 = (FIRST..counter).sum();
    let its = all - own.sum;
    if sum != its {
        errln!("peer: the client's numbers were told to add up to {sum}, and it is {its}");
        return Err(Reported);
    }
    outln!("{taken} numbers were taken, each once");
    Ok(())
}

fn serve() -> OurResult {
    let mut conn = our_server(OurOptions { message: "peer", ..OurOptions::default() })?;
    let buffer = our_buffer(&conn, 8)?;
    let mr = our_reg_mr(&conn, &buffer, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE)?;
    our_post_recv(&conn, &mut our_setup_recv_wr(&mut [our_setup_sge(&buffer, mr)]))?;
    let counter = our_buffer(&conn, 8)?;
    our_set_number(&counter, 0, FIRST);
    let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
        | ibv_access_flags::IBV_ACCESS_REMOTE_READ
        | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
        | ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC;
    let counter_mr = our_reg_mr(&conn, &counter, access)?;

    let is_over = AtomicBool::new(false);
    let (own, sum) = thread::scope(|scope| -> OurResult<(Taken, u64)> {
        let own = scope.spawn(|| take_own(&is_over));
        // the second client is our own, for it calls when the first has called
        let mut itself = our_next_client(&conn)?;
        let itself_mr = our_reg_mr(&itself, &counter, access)?;
        our_accept(&mut itself, &our_remote_data(&counter, itself_mr))?;
        our_accept(&mut conn, &our_remote_data(&counter, counter_mr))?;

        let sum = told(&conn, &buffer);
        is_over.store(true, Ordering::Release);
        our_await_disconnect(&itself)?;
        our_disconnect(&mut itself)?;
        our_dereg_mr(&itself, itself_mr)?;
        our_unsetup(&mut itself)?;
        let own = own.join().map_err(|_| Reported)??;
        Ok((own, sum?))
    })?;

    let counter_now = our_number(&counter, 0);
    our_disconnect(&mut conn)?;
    our_dereg_mr(&conn, counter_mr)?;
    our_dereg_mr(&conn, mr)?;
    our_unsetup(&mut conn)?;
    compare(counter_now, own, sum)
}

pub fn main() -> ExitCode {
    exit_code(serve())
}
