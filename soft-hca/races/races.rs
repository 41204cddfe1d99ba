//! Races between a program in Rust and its device, each with the program that has none: as races.c, whose words these
//! are. The calls of the device are in verbs.c.
//!
//! ```text
//! races CASE racy|right, races list, races all
//! ```

use std::cell::Cell;
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sge {
    address: u64,
    length: u32,
    lkey: u32,
}

/// A work request of two SGEs at most.
#[repr(C)]
struct Request {
    opcode: u32,
    flags: u32,
    count: u32,
    rkey: u32,
    remote_address: u64,
    list: [Sge; 2],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Keys {
    lkey: u32,
    rkey: u32,
}

// SAFETY: functions of verbs.c, which look at what they are given during the call. Memory is named by addresses, which the
// device checks.
unsafe extern "C" {
    safe fn device_open(is_shared: i32);
    safe fn device_register(address: u64, length: u64) -> Keys;
    safe fn device_bind(end: i32, lkey: u32, address: u64, length: u64) -> u32;
    safe fn device_send(end: i32, request: &Request);
    safe fn device_receive(end: i32, address: u64, length: u32, lkey: u32);
    safe fn device_poll(end: i32, count: i32);
    safe fn device_arm(end: i32);
    safe fn device_wait(end: i32);
    safe fn device_fail(end: i32);
    safe fn device_poll_flushed(end: i32);
    safe fn device_destroy(end: i32);
}

const RDMA_WRITE: u32 = 0;
const RDMA_WRITE_WITH_IMM: u32 = 1;
const SEND: u32 = 2;
const RDMA_READ: u32 = 4;
const FETCH_AND_ADD: u32 = 6;

const FENCE: u32 = 1;
const SIGNALED: u32 = 2;
const INLINE: u32 = 8;

/// Bytes of a message.
const MESSAGE: u32 = 64;

/// The ends of two pairs: the first of each posts, the second receives.
const A: i32 = 0;
const B: i32 = 1;
const OTHER_A: i32 = 2;
const OTHER_B: i32 = 3;

/// Registered memory that is never freed, which all threads and the device access as they like.
#[derive(Clone, Copy)]
struct Memory {
    bytes: &'static [Cell<u8>],
    keys: Keys,
}

// SAFETY: accesses by several threads at once are what the racy programs are about.
unsafe impl Send for Memory {}

impl Memory {
    fn new() -> Self {
        let bytes: &[Cell<u8>] = vec![Cell::new(0); 4096].leak();
        Self { bytes, keys: device_register(bytes.as_ptr() as u64, bytes.len() as u64) }
    }

    fn address(self, offset: usize) -> u64 {
        self.bytes.as_ptr() as u64 + offset as u64
    }

    /// A message from an offset on.
    fn at(self, offset: usize) -> Sge {
        Sge { address: self.address(offset), length: MESSAGE, lkey: self.keys.lkey }
    }

    fn store(self, offset: usize) {
        self.bytes[offset].set(7);
    }

    fn load(self, offset: usize) {
        black_box(self.bytes[offset].get());
    }

    /// The same from a thread of its own.
    fn store_in_thread(self, offset: usize) -> thread::JoinHandle<()> {
        thread::spawn(move || self.store(offset))
    }
}

fn send(end: i32, list: &[Sge], flags: u32) {
    request(end, SEND, list, flags, (0, 0));
}

fn request(end: i32, opcode: u32, from: &[Sge], flags: u32, (remote_address, rkey): (u64, u32)) {
    let mut list = [Sge::default(); 2];
    list[..from.len()].copy_from_slice(from);
    device_send(
        end,
        &Request { opcode, flags, count: from.len() as u32, rkey, remote_address, list },
    );
}

fn receive(end: i32, at: Sge) {
    device_receive(end, at.address, at.length, at.lkey);
}

/// The memory of the cases: to send from, and to receive into.
#[derive(Clone, Copy)]
struct Both {
    mine: Memory,
    theirs: Memory,
}

impl Both {
    /// A send from an offset of `mine`, and its receive.
    fn send(self, offset: usize) {
        receive(B, self.theirs.at(offset));
        send(A, &[self.mine.at(offset)], SIGNALED);
    }

    /// A one-sided request of an end, at the first bytes of `mine` and of `theirs`.
    fn one_sided(self, end: i32, opcode: u32, flags: u32) {
        let length = if opcode == FETCH_AND_ADD { 8 } else { MESSAGE };
        let own = Sge { length, ..self.mine.at(0) };
        request(end, opcode, &[own], flags, (self.theirs.address(0), self.theirs.keys.rkey));
    }
}

/// Accesses before the poll if it is racy, behind it if it is right.
fn around_poll(racy: bool, end: i32, access: impl FnOnce()) {
    if racy {
        access();
        device_poll(end, 1);
    } else {
        device_poll(end, 1);
        access();
    }
}

/// A local buffer of a request.
mod sent {
    use super::*;

    pub fn store(racy: bool, both: Both) {
        both.send(0);
        around_poll(racy, A, || both.mine.store(5));
    }

    pub fn filled_by_an_iterator(racy: bool, both: Both) {
        both.send(0);
        around_poll(racy, A, || both.mine.bytes[..64].iter().for_each(|byte| byte.set(1)));
    }

    pub fn swapped(racy: bool, both: Both) {
        both.send(0);
        around_poll(racy, A, || both.mine.bytes[63].swap(&both.mine.bytes[100]));
    }

    pub fn neighbour(racy: bool, both: Both) {
        both.one_sided(A, RDMA_WRITE, SIGNALED);
        both.mine.store(if racy { 63 } else { 64 });
        device_poll(A, 1);
    }

    pub fn second_element(racy: bool, both: Both) {
        receive(B, Sge { length: 2 * MESSAGE, ..both.theirs.at(0) });
        send(A, &[both.mine.at(0), both.mine.at(1024)], SIGNALED);
        around_poll(racy, A, || both.mine.store(1024));
    }

    pub fn inline(racy: bool, both: Both) {
        receive(B, both.theirs.at(0));
        send(A, &[both.mine.at(0)], if racy { SIGNALED } else { SIGNALED | INLINE });
        both.mine.store(0);
        device_poll(A, 1);
    }

    pub fn unsignaled(racy: bool, both: Both) {
        both.one_sided(A, RDMA_WRITE, 0);
        both.send(1024);
        around_poll(racy, A, || both.mine.store(0));
    }

    /// A vector that has no room for one more moves.
    pub fn vector_that_grows(racy: bool, both: Both) {
        let mut message = vec![1u8; 64];
        message.shrink_to_fit();
        let address = message.as_ptr() as u64;
        let Keys { lkey, .. } = device_register(address, 64);
        receive(B, both.theirs.at(0));
        send(A, &[Sge { address, length: MESSAGE, lkey }], SIGNALED);
        around_poll(racy, A, || message.extend_from_slice(&[2; 4096]));
        black_box(message);
    }

    pub fn dropped(racy: bool, both: Both) {
        let message = Box::new([1u8; 64]);
        let address = message.as_ptr() as u64;
        let Keys { lkey, .. } = device_register(address, 64);
        receive(B, both.theirs.at(0));
        send(A, &[Sge { address, length: MESSAGE, lkey }], SIGNALED);
        around_poll(racy, A, || drop(message));
    }

    /// Another call has its variables where those of the one before were.
    #[inline(never)]
    fn stack(both: Both, is_sent: bool, is_polled: bool) {
        let mut message = [0u8; 64];
        message.iter_mut().for_each(|byte| *byte = black_box(3));
        if is_sent {
            let address = black_box(&message).as_ptr() as u64;
            let Keys { lkey, .. } = device_register(address, 64);
            receive(B, both.theirs.at(0));
            send(A, &[Sge { address, length: MESSAGE, lkey }], SIGNALED);
        }
        if is_polled {
            device_poll(A, 1);
        }
        black_box(&message);
    }

    pub fn on_the_stack(racy: bool, both: Both) {
        stack(both, true, !racy);
        stack(both, false, racy);
    }
}

/// Cases of bytes that come: messages, answers, and writes of a peer.
mod come {
    use super::*;

    pub fn receive_load(racy: bool, both: Both) {
        both.send(0);
        around_poll(racy, B, || both.theirs.load(3));
    }

    pub fn receive_sum(racy: bool, both: Both) {
        both.send(0);
        let sum = || both.theirs.bytes[..64].iter().map(|byte| u32::from(byte.get())).sum::<u32>();
        around_poll(racy, B, || {
            black_box(sum());
        });
    }

    pub fn read_load(racy: bool, both: Both) {
        both.one_sided(A, RDMA_READ, SIGNALED);
        around_poll(racy, A, || both.mine.load(8));
    }

    pub fn atomic_result(racy: bool, both: Both) {
        both.one_sided(A, FETCH_AND_ADD, SIGNALED);
        around_poll(racy, A, || both.mine.load(7));
    }

    /// The write with immediate data has the receive's completion tell of it.
    pub fn immediate(racy: bool, both: Both) {
        receive(B, both.theirs.at(1024));
        both.one_sided(A, RDMA_WRITE_WITH_IMM, SIGNALED);
        around_poll(racy, B, || both.theirs.load(0));
    }

    /// The first bytes of the window are written; the program has the ones behind it for itself.
    pub fn window(racy: bool, both: Both) {
        let rkey = device_bind(B, both.theirs.keys.lkey, both.theirs.address(0), 128);
        request(A, RDMA_WRITE, &[both.mine.at(0)], SIGNALED, (both.theirs.address(64), rkey));
        both.theirs.store(if racy { 64 } else { 128 });
        device_poll(A, 1);
    }

    /// A send from memory into which a read is under way waits for it if it is fenced.
    pub fn fenced(racy: bool, both: Both) {
        receive(B, both.theirs.at(1024));
        both.one_sided(A, RDMA_READ, SIGNALED);
        send(A, &[both.mine.at(0)], if racy { SIGNALED } else { SIGNALED | FENCE });
        device_poll(A, 2);
    }
}

/// Threads, of which one posts, and others poll or access.
mod threads {
    use super::*;

    pub fn another_stores(racy: bool, both: Both) {
        both.send(0);
        around_poll(racy, A, || both.mine.store_in_thread(0).join().expect("it ends"));
    }

    pub fn another_fills(racy: bool, both: Both) {
        let filling = both.mine.store_in_thread(0);
        let join = |filling: thread::JoinHandle<()>| filling.join().expect("it ends");
        if racy {
            both.send(0);
            device_poll(A, 1);
            join(filling);
        } else {
            join(filling);
            both.send(0);
            device_poll(A, 1);
        }
    }

    /// The word orders the poll before the store, or does not.
    pub fn told_by_a_word(racy: bool, both: Both) {
        static IS_POLLED: AtomicBool = AtomicBool::new(false);
        both.send(0);
        let (stores, loads) = if racy { (Relaxed, Relaxed) } else { (Release, Acquire) };
        let waiting = thread::spawn(move || {
            let Both { mine, .. } = both;
            while !IS_POLLED.load(loads) {
                thread::yield_now();
            }
            mine.store(0);
        });
        device_poll(A, 1);
        IS_POLLED.store(true, stores);
        waiting.join().expect("it ends");
    }

    /// Two threads post to one queue pair. The first completion is that of the first one's message.
    pub fn two_posters(racy: bool, both: Both) {
        both.send(0);
        thread::spawn(move || both.send(1024)).join().expect("it ends");
        device_poll(A, 1);
        both.mine.store(if racy { 1024 } else { 0 });
        device_poll(A, 1);
    }

    /// A thread polls, and this one does not wait for it.
    pub fn another_polls(racy: bool, both: Both) {
        both.send(0);
        let polling = thread::spawn(|| device_poll(A, 1));
        if racy {
            both.mine.store(0);
        }
        polling.join().expect("it ends");
        if !racy {
            both.mine.store(0);
        }
    }
}

/// Several queue pairs and queues, and their ends.
mod queues {
    use super::*;

    /// The completion of another queue pair says nothing of this one.
    pub fn two_pairs(racy: bool, both: Both) {
        both.send(0);
        receive(OTHER_B, both.theirs.at(1024));
        send(OTHER_A, &[both.mine.at(1024)], SIGNALED);
        device_poll(OTHER_A, 1);
        both.mine.store(if racy { 0 } else { 1024 });
        device_poll(A, 1);
    }

    /// Two queue pairs read into the same bytes.
    pub fn two_reads(racy: bool, both: Both) {
        both.one_sided(A, RDMA_READ, SIGNALED);
        let into = both.mine.at(if racy { 32 } else { 64 });
        let from = (both.theirs.address(128), both.theirs.keys.rkey);
        request(OTHER_A, RDMA_READ, &[into], SIGNALED, from);
        device_poll(A, 1);
        device_poll(OTHER_A, 1);
    }

    /// One queue pair sends what another one receives.
    pub fn sent_while_received(racy: bool, both: Both) {
        receive(A, both.mine.at(0));
        receive(OTHER_B, both.theirs.at(0));
        send(OTHER_A, &[both.mine.at(if racy { 0 } else { 64 })], SIGNALED);
        device_poll(OTHER_A, 1);
    }

    pub fn shared_receive(racy: bool, both: Both) {
        receive(B, both.theirs.at(0));
        receive(B, both.theirs.at(128));
        send(OTHER_A, &[both.mine.at(0)], SIGNALED);
        device_poll(OTHER_B, 1);
        both.theirs.load(if racy { 128 } else { 0 });
    }

    pub fn event_only(racy: bool, both: Both) {
        device_arm(A);
        both.one_sided(A, RDMA_READ, SIGNALED);
        device_wait(A);
        around_poll(racy, A, || both.mine.load(1));
    }

    pub fn flushed(racy: bool, both: Both) {
        receive(B, both.theirs.at(0));
        device_fail(B);
        if racy {
            both.theirs.store(0);
        }
        device_poll_flushed(B);
        if !racy {
            both.theirs.store(0);
        }
    }

    pub fn destroyed(racy: bool, both: Both) {
        receive(B, both.theirs.at(0));
        if racy {
            both.theirs.load(0);
        }
        device_destroy(B);
        if !racy {
            both.theirs.load(0);
        }
    }
}

/// A program in two ways.
type Run = fn(bool, Both);

const SENT: &str = "what is sent, in Rust";
const COME: &str = "what comes, in Rust";
const THREADS: &str = "threads, in Rust";
const QUEUES: &str = "queues and their ends, in Rust";

/// The class, the name, and the program.
const CASES: &[(&str, &str, Run)] = &[
    (SENT, "rust-send-store", sent::store),
    (SENT, "rust-filled-by-iterator", sent::filled_by_an_iterator),
    (SENT, "rust-swapped", sent::swapped),
    (SENT, "rust-neighbour", sent::neighbour),
    (SENT, "rust-second-element", sent::second_element),
    (SENT, "rust-inline", sent::inline),
    (SENT, "rust-unsignaled", sent::unsignaled),
    (SENT, "rust-vector-grows", sent::vector_that_grows),
    (SENT, "rust-dropped", sent::dropped),
    (SENT, "rust-stack", sent::on_the_stack),
    (COME, "rust-receive-load", come::receive_load),
    (COME, "rust-receive-sum", come::receive_sum),
    (COME, "rust-read-load", come::read_load),
    (COME, "rust-atomic-result", come::atomic_result),
    (COME, "rust-immediate", come::immediate),
    (COME, "rust-window", come::window),
    (COME, "rust-fenced", come::fenced),
    (THREADS, "rust-another-stores", threads::another_stores),
    (THREADS, "rust-another-fills", threads::another_fills),
    (THREADS, "rust-told-by-word", threads::told_by_a_word),
    (THREADS, "rust-two-posters", threads::two_posters),
    (THREADS, "rust-another-polls", threads::another_polls),
    (QUEUES, "rust-two-pairs", queues::two_pairs),
    (QUEUES, "rust-two-reads", queues::two_reads),
    (QUEUES, "rust-sent-while-received", queues::sent_while_received),
    (QUEUES, "rust-shared-receive", queues::shared_receive),
    (QUEUES, "rust-event-only", queues::event_only),
    (QUEUES, "rust-flushed", queues::flushed),
    (QUEUES, "rust-destroyed", queues::destroyed),
];

fn run(name: &str, racy: bool) -> ExitCode {
    let Some((.., run)) = CASES.iter().find(|(_, known, _)| *known == name) else {
        return ExitCode::from(2);
    };
    device_open((name == "rust-shared-receive").into());
    run(racy, Both { mine: Memory::new(), theirs: Memory::new() });
    ExitCode::SUCCESS
}

/// Each in a process of its own: its exit status.
fn run_all(kind: &str) {
    let program = std::env::current_exe().expect("a program has a file");
    for (_, name, _) in CASES {
        let status = Command::new(&program).args([name, kind]).status();
        let code = status.ok().and_then(|status| status.code()).unwrap_or(128);
        println!("T {name} {kind} {code}");
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => CASES.iter().for_each(|(class, name, _)| println!("{class}: {name}")),
        ["all"] => ["racy", "right"].into_iter().for_each(run_all),
        [name, kind @ ("racy" | "right")] => return run(name, kind == "racy"),
        _ => {
            eprintln!("usage: races list | all | CASE racy|right");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
