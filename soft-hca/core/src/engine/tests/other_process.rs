//! A peer that really is another process: a child that does nothing but lie there.
#![allow(unsafe_code, reason = "a child by fork")]

use std::sync::atomic::Ordering::Release;

use super::fabric::*;
use crate::engine::Copier;
use crate::engine::process_memory;
use crate::engine::segments::{Fault, Memory, Segment};
use crate::uapi::verbs::opcode;

/// A child with a copy of all our memory, nonce included. Ends with the value.
struct Child(libc::pid_t);

impl Child {
    fn new() -> Self {
        // SAFETY: the child calls nothing but `pause` and `_exit`, which are safe after a fork.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: ends the child with its parent, should a test be killed.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            loop {
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            }
        }
        Self(pid)
    }

    fn end(&self) {
        // SAFETY: a child of ours that nobody has waited for, so that its id is no other process's.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        // SAFETY: it is waited for once, here; a status that is not asked for is null.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }

    /// Bytes of the child's memory at an address.
    fn read(&self, segment: Segment) -> Vec<u8> {
        let mut bytes = vec![0; segment.length as usize];
        let local = [process_memory::ours_mut(&mut bytes)];
        process_memory::read(self.0 as u32, &local, &[segment], segment.length).unwrap();
        bytes
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn bytes_reach_another_process() {
    for me in [US, DAEMON] {
        let world = World::new();
        let (a, b) = world.rc();
        let mut ours = world.buffer(US, pattern(1, 100_000));
        let mut theirs = world.buffer(THEM, vec![0; 100_000]);
        let (addr, key) = (theirs.addr(), theirs.key);
        let child = Child::new();
        world.announce(THEM, child.0 as u32);
        world.receive(b, 20, &[theirs.whole()]);
        let expected = every_kind(&world, me, a, &mut ours, addr, key);
        assert!(child.read(Segment { addr, length: 100_000 }) == expected);
        assert!(theirs.bytes.iter().all(|byte| *byte == 0), "only the child's memory changed");
    }
}

#[test]
fn a_process_that_has_ended_does_not_answer() {
    let world = World::new();
    let (a, b) = world.rc();
    let child = Child::new();
    world.announce(THEM, child.0 as u32);
    let mut theirs = world.buffer(THEM, vec![0; 8]);
    let wr = Wr::new(1, opcode::RDMA_WRITE).inline(b"abcd").remote(theirs.addr(), theirs.key);
    world.send(a, &wr);
    assert_eq!(world.statuses(a), [(1, 0)]);
    // SAFETY: our own child; it is waited for when the value is dropped.
    unsafe { libc::kill(child.0, libc::SIGKILL) };
    // SAFETY: waits until it has ended but leaves it there: a zombie has no memory any more.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: it is waited for once, here; a status that is not asked for is null.
    assert_eq!(unsafe { libc::waitid(libc::P_PID, child.0 as u32, &mut info, options) }, 0);
    world.send(a, &wr);
    assert_eq!(world.poll(a), []);
    assert_eq!(world.env.take_rescheduled().len(), 1, "it is tried again until the timeout");
    assert_eq!(world.poll(b), []);
}

#[test]
fn a_stranger_is_not_touched() {
    let mut world = World::new();
    let mut theirs = world.buffer(THEM, vec![0; 8]);
    let child = Child::new();
    world.announce(THEM, child.0 as u32);
    // The nonce that is to be found in it is another one.
    let set_nonce = |world: &World, nonce| world.arena.procs[THEM].nonce.store(nonce, Release);
    set_nonce(&world, 5);
    let bytes = *b"12345678";
    let from = [process_memory::ours(&bytes)];
    let to = [Segment { addr: theirs.addr(), length: 8 }];
    let from = Memory::unregistered(US, &from);
    let copy = |world: &World| {
        let to = Memory::unregistered(THEM, &to);
        world.copier.copy(&world.arena, US, from, to)
    };
    assert_eq!(copy(&world), Err(Fault::Unreachable));
    set_nonce(&world, *world.nonce);
    assert_eq!(copy(&world), Ok(()));
    // Known now; but another process under that entry is not, even where it could be written.
    *world.nonce ^= 1;
    let stranger = Child::new();
    *world.nonce ^= 1;
    let entry = &world.arena.procs[THEM];
    entry.pid.store(stranger.0 as u32, Release);
    assert_eq!(copy(&world), Err(Fault::Unreachable));
    assert_eq!(stranger.read(to[0]), [0; 8]);
    entry.pid.store(child.0 as u32, Release);
    assert_eq!(copy(&world), Ok(()));
    entry.live.store(0, Release);
    assert_eq!(copy(&world), Err(Fault::Unreachable));
    let nobody = Memory::unregistered(5000, &to);
    assert_eq!(world.copier.copy(&world.arena, US, from, nobody), Err(Fault::Unreachable));
    assert_eq!(child.read(to[0]), bytes);
}
