//! Mistakes that soft-hca lets pass and another adapter, or another order of events, does not:
//!
//! ```text
//! soft-hca-mistakes CASE wrong     makes the one that the case, mostly called like its rule, is about
//! soft-hca-mistakes CASE right     does the same without it
//! ```
//!
//! Two processes, a sender and a receiver. All ends well, and all is destroyed, in either way. The same
//! programs in C are `tests/check/mistakes.c` and those beside it.

mod managed;
mod process;
mod shared;
mod side;
mod writes;

use std::io;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use rdma_sys as sys;

use process::{Child, fork, is_asleep};
use shared::{BURST, Shared};
use side::{BYTES, Choice, DEPTH, Error, Remote, Result, Side, check};

const SIGNALED: u32 = sys::ibv_send_flags::IBV_SEND_SIGNALED.0;
const FENCE: u32 = sys::ibv_send_flags::IBV_SEND_FENCE.0;
const INLINE: u32 = sys::ibv_send_flags::IBV_SEND_INLINE.0;
const FEW: u32 = 8;
const MANY: u32 = 12;

/// The case that the program was told to run.
#[derive(Clone, Debug)]
struct Case {
    name: String,
    is_wrong: bool,
}

impl Case {
    fn is(&self, name: &str) -> bool {
        self.name == name
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&self.name.as_str())
    }

    fn is_wrongly(&self, name: &str) -> bool {
        self.is_wrong && self.is(name)
    }

    /// Whether a queue is armed again.
    fn is_armed_again(&self) -> bool {
        self.is_one_of(&["arm-order", "arm-polled"])
    }

    /// Whether the receiver has a completion channel.
    fn has_channel(&self) -> bool {
        self.is_armed_again() || self.is_one_of(&["arm-first", "unacked", "leaked"])
    }

    /// Whether the receiver is told that the message has come before it polls.
    fn is_told(&self) -> bool {
        self.is_one_of(&["arm-first", "rkey-received", "receive-gone"])
    }

    /// The parameters of both sides.
    fn choice(&self, is_sender: bool) -> Choice {
        let mut caps = sys::ibv_qp_cap {
            max_send_wr: DEPTH as u32,
            max_recv_wr: DEPTH as u32,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        if self.is_one_of(&["unsignaled-run", "never-polled", "queue-full"]) {
            caps.max_send_wr = FEW;
        }
        if self.is("sge-count") {
            caps.max_send_sge = if self.is_wrong { 2 } else { 3 };
            caps.max_inline_data = 48;
        }
        if self.is("inline-size") {
            caps.max_inline_data = if self.is_wrong { 0 } else { 8 };
        }
        let reads_out = if self.is("read-depth") { 4 } else { 1 };
        let few_entries = if self.is_wrong { 4 } else { 6 };
        Choice {
            caps,
            cq_entries: if self.is("cq-full") && is_sender {
                few_entries
            } else {
                2 * DEPTH as i32
            },
            has_channel: !is_sender && self.has_channel(),
            pkey_index: if self.is_wrongly("pkey-index") { 5 } else { 0 },
            ack_timeout: if self.is_wrongly("timers") { 0 } else { 14 },
            path_mtu: if self.is_wrongly("path-mtu") && is_sender {
                sys::ibv_mtu::IBV_MTU_512
            } else {
                sys::ibv_mtu::IBV_MTU_1024
            },
            reads_out,
            reads_in: if self.is_wrongly("read-depth") { 1 } else { reads_out },
        }
    }

    /// Does to the buffer of a send what may be done when its completion was polled.
    fn reuse_buffer(&self, side: &mut Side) {
        if self.is("buffer-early") { side.change() } else { side.free() }
    }

    /// The sender's part.
    fn sends(&self, side: &mut Side, peer: Remote, receiver: &Child) -> Result<()> {
        let lkey = side.lkey();
        let send = |side: &Side, flags: u32| side.post(1, flags, lkey, None);
        match self.name.as_str() {
            "polled-memory" => writes::take_turns(side, peer, true, self.is_wrong),
            "receive-late" => {
                send(side, SIGNALED)?;
                if self.is_wrong {
                    side.await_not_ready()?;
                }
                side.step()?;
                side.poll_good()
            }
            "unsignaled-run" | "never-polled" => {
                for number in 1..=MANY {
                    let is_last = number == MANY && self.is("unsignaled-run");
                    let is_signaled = number % 4 == 0 && (!self.is_wrong || is_last);
                    send(side, if is_signaled { SIGNALED } else { 0 })?;
                    if is_signaled {
                        side.poll_good()?;
                    }
                }
                Ok(())
            }
            "queue-full" | "cq-full" => {
                let polls_each = self.is("queue-full") && !self.is_wrong;
                let count = if self.is("cq-full") { 6 } else { MANY };
                for _ in 0..count {
                    send(side, SIGNALED)?;
                    if polls_each {
                        side.poll_good()?;
                    }
                }
                (0..count).filter(|_| !polls_each).try_for_each(|_| side.poll_good())
            }
            "read-depth" => {
                side.post(1, SIGNALED, lkey, Some(peer))?;
                side.poll_good()
            }
            "race" => {
                let unread = Remote { address: peer.address + BYTES as u64, ..peer };
                side.post(1, SIGNALED, lkey, Some(unread))?;
                send(side, if self.is_wrong { SIGNALED } else { SIGNALED | FENCE })?;
                (0..2).try_for_each(|_| side.poll_good())
            }
            "rkey-sent" => {
                send(side, SIGNALED)?;
                if self.is_wrong {
                    side.register_again()?;
                }
                side.poll_good()?;
                if self.is_wrong { Ok(()) } else { side.register_again() }
            }
            "srq-limit" => {
                for number in 0..2 * BURST {
                    if number == BURST {
                        side.await_step()?;
                    }
                    send(side, SIGNALED)?;
                    side.poll_good()?;
                }
                Ok(())
            }
            "state-peer" => {
                send(side, SIGNALED)?;
                if self.is_wrong {
                    side.step()?;
                }
                side.poll_good()
            }
            "buffer-early" | "buffer-freed" => {
                send(side, 0)?;
                if self.is_wrong {
                    self.reuse_buffer(side);
                }
                side.post(0, SIGNALED, lkey, None)?;
                side.poll_good()?;
                if !self.is_wrong {
                    self.reuse_buffer(side);
                }
                Ok(())
            }
            "after-error" => {
                side.post(1, SIGNALED, 0, None)?;
                side.poll()?;
                if self.is_wrong {
                    send(side, SIGNALED)?;
                    side.poll()?;
                }
                Ok(())
            }
            _ => {
                let flags = if self.is("inline-size") { SIGNALED | INLINE } else { SIGNALED };
                side.post(if self.is("sge-count") { 3 } else { 1 }, flags, lkey, None)?;
                side.poll_good()?;
                if self.is_told() {
                    side.step()?;
                }
                if self.is_armed_again() || self.is("arm-first") {
                    side.await_step()?;
                    while !is_asleep(receiver)? {}
                }
                if self.is_armed_again() || self.is_one_of(&["arm-first", "overlap"]) {
                    send(side, SIGNALED)?;
                    side.poll_good()?;
                }
                Ok(())
            }
        }
    }

    /// Receives that are posted.
    fn receives_posted(&self) -> usize {
        match self.name.as_str() {
            "unsignaled-run" | "never-polled" | "queue-full" => MANY as usize,
            "cq-full" => 6,
            "overlap" | "rkey-stale" | "sge-count" | "inline-size" => 2,
            "buffer-early" | "buffer-freed" | "arm-order" | "arm-polled" | "arm-first" => 2,
            _ => 1,
        }
    }

    /// Waits for an event in one way or the other.
    fn take_event(&self, side: &Side) -> Result<()> {
        if self.is_one_of(&["arm-polled", "arm-first"]) {
            side.await_event()?;
        }
        side.take_event(!self.is_wrongly("unacked"))
    }

    /// Frees the memory when the message's completion was polled, or already before that, which is wrong.
    fn receives_and_frees(&self, side: &mut Side) -> Result<()> {
        if self.is_wrong {
            side.free();
        }
        side.poll_good()?;
        if !self.is_wrong {
            side.free();
        }
        Ok(())
    }

    /// Arms the queue when the first of two messages has come.
    fn receives_armed(&self, side: &mut Side) -> Result<()> {
        side.arm()?;
        if !self.is_wrong {
            side.poll_good()?;
        }
        side.step()?;
        self.take_event(side)?;
        (0..if self.is_wrong { 2 } else { 1 }).try_for_each(|_| side.poll_good())
    }

    /// The receiver's part.
    fn receives(&self, side: &mut Side, peer: Remote) -> Result<()> {
        if self.is("polled-memory") {
            return writes::take_turns(side, peer, false, self.is_wrong);
        }
        if self.is("state-peer") {
            side.step()?;
            return side.poll_good();
        }
        if self.is("receive-late") {
            if self.is_wrong {
                side.step()?;
                side.await_step()?;
            }
            side.receive(0)?;
            side.step()?;
            if !self.is_wrong {
                side.await_step()?;
            }
            return side.poll_good();
        }
        let count = self.receives_posted();
        for number in 0..count {
            side.receive(if self.is_wrongly("overlap") { 0 } else { number })?;
        }
        let has_events = self.is_armed_again() || self.is("unacked");
        if has_events {
            side.arm()?;
        }
        side.step()?;
        if self.is_told() {
            side.await_step()?;
        }
        if self.is("arm-first") {
            return self.receives_armed(side);
        }
        if self.is_wrongly("rkey-received") {
            side.register_again()?;
        }
        if self.is("receive-gone") {
            return self.receives_and_frees(side);
        }
        if self.is_one_of(&["read-depth", "after-error"]) {
            return Ok(());
        }
        if has_events {
            self.take_event(side)?;
        }
        if self.is_armed_again() {
            side.poll_good()?;
            side.arm()?;
            if !self.is_wrong {
                check(side.poll_once()?.is_none(), "ibv_poll_cq")?;
            }
            side.step()?;
            self.take_event(side)?;
            return side.poll_good();
        }
        let is_one = self.is_one_of(&["rkey-stale", "sge-count", "inline-size"]);
        (0..if is_one { 1 } else { count }).try_for_each(|_| side.poll_good())
    }

    /// Forks a child that uses its parent's objects, or one that lives until it is told to end, with its own copy of
    /// the registered memory.
    fn bystander(&self, side: &Side) -> Result<Option<Child>> {
        if !self.is_one_of(&["fork", "fork-command"]) {
            return Ok(None);
        }
        let child = fork(!self.is_wrong, || {
            side.clear();
            match self.name.as_str() {
                "fork" if self.is_wrong => return side.poll_once().map(|_| ()),
                "fork-command" if self.is_wrong => side.ask_in_vain(),
                _ => {}
            }
            Ok(())
        })?;
        let lives = if self.is_wrong { child.end().map(|()| None) } else { Ok(Some(child)) };
        side.poll_once()?;
        lives
    }

    /// One side, to its end; the sender's child is the receiver.
    fn side(&self, peer: UnixStream, receiver: Option<&Child>) -> Result<()> {
        if self.is("receive-accepted") {
            let is_sender = receiver.is_some();
            return managed::side(self.choice(is_sender), peer, is_sender, self.is_wrong);
        }
        let choice = self.choice(receiver.is_some());
        let mut shared = (receiver.is_none() && self.is("srq-limit")).then(Shared::new);
        let mut side = match &mut shared {
            Some(shared) => Side::open(choice, peer, |pd, init| shared.create_qp(pd, init))?,
            None => Side::new(choice, peer)?,
        };
        if receiver.is_some() && self.is_wrongly("state") {
            // It is refused in RESET, and this does not look.
            let _ = side.post(1, SIGNALED, side.lkey(), None);
        }
        let peer = side.exchange_names()?;
        side.init()?;
        if receiver.is_none() && self.is("state-peer") {
            side.receive(0)?;
            if self.is_wrong {
                side.await_step()?;
            }
        }
        side.connect(peer)?;
        let begins_at_once = self.is_wrongly("state-peer");
        let has_another_step = begins_at_once || self.is_wrongly("receive-late");
        let mut bystander = None;
        match receiver {
            Some(receiver) => {
                bystander = self.bystander(&side)?;
                if !begins_at_once {
                    side.await_step()?;
                }
                self.sends(&mut side, peer.remote, receiver)?;
                if has_another_step {
                    side.await_step()?;
                }
            }
            None => match &shared {
                Some(shared) => shared.receives(&mut side, self.is_wrong)?,
                None => self.receives(&mut side, peer.remote)?,
            },
        }
        if self.is_wrongly("rkey-stale") {
            side.register_again()?;
        }
        // Neither ends what the other still needs.
        side.step()?;
        side.await_step()?;
        bystander.map_or(Ok(()), Child::end)?;
        side.destroy_qp()?;
        // A queue with an event that is not acknowledged cannot be destroyed.
        let is_stuck = receiver.is_none() && self.is_wrongly("unacked");
        if !is_stuck {
            side.destroy_cq()?;
        }
        shared.map_or(Ok(()), Shared::destroy)?;
        if self.is_wrongly("leaked") {
            return Ok(());
        }
        if !is_stuck {
            side.destroy_channel()?;
        }
        side.close()
    }
}

fn run() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, how] = &words[..] else {
        return Err(Error("CASE wrong, or CASE right", io::ErrorKind::InvalidInput.into()));
    };
    let case = Case { name: name.clone(), is_wrong: how == "wrong" };
    let (ours, theirs) = UnixStream::pair().map_err(|error| Error("socketpair", error))?;
    let receiver = fork(false, || case.side(theirs, None))?;
    case.side(ours, Some(&receiver))?;
    receiver.end()
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soft-hca-mistakes: {error}");
            ExitCode::FAILURE
        }
    }
}
