//! Baselines of the machine itself: the figures that all others are compared with.
#![allow(unsafe_code, reason = "the calls that are measured")]

use std::hint;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::Instant;

use crate::child::{Fork, Shared};
use crate::error::{Result, cannot};
use crate::stats;

/// Sizes of the raw throughput.
pub const SIZES: [usize; 3] = [64 << 10, 1 << 20, 4 << 20];

/// One set of baselines; times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baselines {
    /// A flag in shared memory, one way, both sides polling.
    pub flag: f64,
    /// `process_vm_writev` of 8 bytes.
    pub write: f64,
    /// An eventfd, one way, both sides blocking.
    pub wake: f64,
    /// `process_vm_writev` of [`SIZES`], MiB in a second.
    pub raw: [f64; 3],
}

/// Measures all of them.
pub fn measure(cores: [Option<usize>; 2]) -> Result<Baselines> {
    let mut raw = [0.0; 3];
    for (raw, size) in raw.iter_mut().zip(SIZES) {
        *raw = throughput(cores[1], size)?;
    }
    Ok(Baselines {
        flag: flag(cores[1])?,
        write: small_write(cores[1])?,
        wake: wake(cores[1])?,
        raw,
    })
}

/// Spins until a word has a value; on a busy machine, lets others run now and then.
fn await_word(word: &AtomicU32, value: u32) {
    let mut spins = 0u32;
    while word.load(Acquire) != value {
        hint::spin_loop();
        spins = spins.wrapping_add(1);
        if spins % (1 << 16) == 0 {
            thread::yield_now();
        }
    }
}

/// Microseconds that each of `count` calls takes on average.
pub fn time<T>(count: u32, mut call: impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        hint::black_box(call());
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(count)
}

/// The median of what batches give.
pub fn median_of(batches: usize, mut batch: impl FnMut() -> f64) -> f64 {
    let times: Vec<f64> = (0..batches).map(|_| batch()).collect();
    stats::summary(&times).map_or(f64::NAN, |summary| summary.median)
}

fn flag(peer_core: Option<usize>) -> Result<f64> {
    let shared = Shared::new()?;
    let (ping, pong) = (shared.word(0), shared.word(1));
    let _peer = Fork::start(peer_core, || {
        let mut round = 0u32;
        loop {
            round = round.wrapping_add(1);
            await_word(ping, round);
            pong.store(round, Release);
        }
    })?;
    let mut round = 0u32;
    let mut turn = || {
        round = round.wrapping_add(1);
        ping.store(round, Release);
        await_word(pong, round);
    };
    time(1000, &mut turn);
    Ok(median_of(200, || time(200, &mut turn)) / 2.0)
}

/// Memory as perftest allocates it.
struct Buffer {
    base: *mut libc::c_void,
    bytes: usize,
}

impl Buffer {
    fn new(bytes: usize) -> Result<Self> {
        let mut base = std::ptr::null_mut();
        // SAFETY: the pointer is there to be filled.
        match unsafe { libc::posix_memalign(&mut base, 4096, bytes) } {
            0 => Ok(Self { base, bytes }),
            error => Err(cannot("allocate")(io::Error::from_raw_os_error(error))),
        }
    }

    fn touch(&self) {
        // SAFETY: so many bytes were allocated, and this process is the only one to use them.
        unsafe { libc::memset(self.base, 7, self.bytes) };
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `new` has allocated it, and nobody uses it after this value.
        unsafe { libc::free(self.base) };
    }
}

/// A process whose memory can be written.
struct Target {
    source: Buffer,
    target: Buffer,
    peer: Fork,
}

impl Target {
    fn new(core: Option<usize>, bytes: usize) -> Result<Self> {
        let (source, target) = (Buffer::new(bytes)?, Buffer::new(bytes)?);
        source.touch();
        let shared = Shared::new()?;
        let peer = Fork::start(core, || {
            target.touch();
            shared.word(0).store(1, Release);
            loop {
                // SAFETY: the call waits for a signal and takes no memory.
                unsafe { libc::pause() };
            }
        })?;
        await_word(shared.word(0), 1);
        Ok(Self { source, target, peer })
    }

    /// One call that writes this many bytes. Whether it has.
    fn write(&self, bytes: usize) -> bool {
        let local = libc::iovec { iov_base: self.source.base, iov_len: bytes };
        let remote = libc::iovec { iov_base: self.target.base, iov_len: bytes };
        // SAFETY: reads our buffer and writes that of the child, which was made for it.
        let written = unsafe { libc::process_vm_writev(self.peer.pid, &local, 1, &remote, 1, 0) };
        written == bytes as isize
    }

    fn probe(&self, bytes: usize) -> Result<()> {
        if self.write(bytes) {
            return Ok(());
        }
        Err(cannot("write to a child's memory")(io::Error::last_os_error()))
    }
}

fn small_write(peer_core: Option<usize>) -> Result<f64> {
    let target = Target::new(peer_core, 4096)?;
    target.probe(8)?;
    Ok(median_of(2000, || time(16, || target.write(8))))
}

/// MiB in a second that `process_vm_writev` moves in pieces of this size.
pub fn throughput(peer_core: Option<usize>, size: usize) -> Result<f64> {
    // Twice the size, as perftest allocates it; how memory is paged depends on it.
    let target = Target::new(peer_core, 2 * size)?;
    target.probe(size)?;
    let count = ((512 << 20) / size) as u32;
    let micros = time(count, || target.write(size));
    Ok(size as f64 / f64::from(1 << 20) / micros * 1e6)
}

fn event_fd() -> Result<OwnedFd> {
    // SAFETY: the call takes numbers and creates a descriptor, nothing else.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(cannot("make an eventfd")(io::Error::last_os_error()));
    }
    // SAFETY: `eventfd` has made it above, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds a token to an eventfd.
fn give(fd: &OwnedFd) {
    let token = 1u64;
    // SAFETY: `token` has the eight bytes that are written and outlives the call.
    unsafe { libc::write(fd.as_raw_fd(), (&raw const token).cast(), 8) };
}

/// Waits for a token.
fn take(fd: &OwnedFd) {
    let mut token = 0u64;
    // SAFETY: there is room for eight bytes.
    unsafe { libc::read(fd.as_raw_fd(), (&raw mut token).cast(), 8) };
}

fn wake(peer_core: Option<usize>) -> Result<f64> {
    let (ping, pong) = (event_fd()?, event_fd()?);
    let _peer = Fork::start(peer_core, || {
        loop {
            take(&ping);
            give(&pong);
        }
    })?;
    let mut turn = || {
        give(&ping);
        take(&pong);
    };
    time(100, &mut turn);
    Ok(median_of(5000, || time(1, &mut turn)) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_measured() {
        // No figure is judged: the machine may be busy.
        let figures = measure([None, None]).unwrap();
        let Baselines { flag, write, wake, raw } = figures;
        assert!([flag, write, wake].iter().chain(&raw).all(|f| f.is_finite() && *f > 0.0));
    }
}
