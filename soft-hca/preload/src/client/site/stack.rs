//! The frames of the calling thread, from here to the program's.
#![allow(unsafe_code, reason = "the unwinder of the C compiler's library")]

use std::ffi::{c_int, c_void};

use super::code::Whose;
use super::table;

/// So many frames of the program are looked at: where inline functions of headers were not inlined,
/// they have frames of their own.
pub(super) const DEPTH: usize = 4;

/// Behind so many frames nobody looks any further.
const DEEPEST: u32 = 64;

/// Of the unwinder: a frame.
#[repr(C)]
pub(super) struct Context {
    private: [u8; 0],
}

pub(super) type Visit = unsafe extern "C-unwind" fn(*mut Context, *mut c_void) -> c_int;

/// `_URC_NO_REASON`: go on.
pub(super) const GO_ON: c_int = 0;
/// `_URC_NORMAL_STOP`
pub(super) const STOP: c_int = 4;

unsafe extern "C-unwind" {
    pub(super) fn _Unwind_Backtrace(visit: Visit, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut Context) -> usize;
    pub(super) fn _Unwind_GetCFA(context: *mut Context) -> usize;
    pub(super) fn _Unwind_GetRegionStart(context: *mut Context) -> usize;
}

/// The call that the frames tell of.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    /// Addresses behind the program's call instructions, the innermost first.
    callers: [usize; DEPTH],
    depth: usize,
    /// The file that they belong to.
    whose: Option<Whose>,
    /// Where the library's function begins that the program has called, 0 if there is none.
    pub function: usize,
    /// Where the program's own begins that has called it.
    pub own: usize,
    /// Where these addresses are in the stack; 0 where that is not known.
    slots: [usize; DEPTH],
    /// Where the program's frame is.
    pub frame: usize,
    /// Tells apart the ways through the library.
    pub way: u64,
    visited: u32,
    /// The file whose frames are passed over until the program's are reached, besides those of libraries.
    passed: Option<Whose>,
}

impl Stack {
    /// Of the calling thread.
    pub(super) fn walk() -> Self {
        Self::walk_past(None)
    }

    /// The same of a call that is made through a function at an address: the frames of its file are none of the
    /// program's.
    pub(super) fn walk_behind(function: usize) -> Self {
        Self::walk_past(table::code(function).map(|code| code.whose))
    }

    fn walk_past(passed: Option<Whose>) -> Self {
        let mut stack = Self { passed, ..Self::default() };
        // SAFETY: `visit` gets the stack that it expects, and lets nothing unwind.
        unsafe { _Unwind_Backtrace(visit, (&raw mut stack).cast()) };
        stack
    }

    /// Addresses behind the program's call instructions, the innermost first.
    pub(crate) fn callers(&self) -> &[usize] {
        &self.callers[..self.depth]
    }

    /// Another frame, further out. Whether to go on.
    fn frame(&mut self, ip: usize, begins: impl Fn() -> usize, frame: impl Fn() -> usize) -> bool {
        self.visited += 1;
        if self.visited > DEEPEST || ip == 0 {
            return false;
        }
        let known = table::code(ip);
        let whose = known.map(|known| known.whose);
        if whose == Some(Whose::Library) {
            // The library's call was no call of the program's, but a function of the C library that a sanitizer
            // has replaced.
            *self = Self {
                passed: self.passed,
                visited: self.visited,
                way: self.way,
                ..Self::default()
            };
        }
        match (whose, self.depth) {
            (Some(Whose::Ours), 0) => true,
            (whose @ Some(_), 0) if whose == self.passed => true,
            (Some(Whose::Library), 0) => {
                self.way = (self.way ^ ip as u64).wrapping_mul(0x0100_0000_01b3);
                self.function = begins();
                true
            }
            (whose @ Some(Whose::Program(_)), 0) => {
                self.whose = whose;
                // It may have gone on to the next by a jump.
                let calls = known.map_or(0, |known| known.calls);
                self.function = if calls != 0 { calls } else { self.function };
                self.own = begins();
                self.frame = frame();
                self.push(ip, frame())
            }
            (whose, 1..DEPTH) if whose == self.whose => self.push(ip, frame()),
            _ => false,
        }
    }

    /// An address to which a function returns whose caller's stack ends there. Whether there is room for more.
    fn push(&mut self, ip: usize, end: usize) -> bool {
        self.callers[self.depth] = ip;
        self.slots[self.depth] = slot(ip, end).unwrap_or_default();
        self.depth += 1;
        self.depth < DEPTH
    }
}

/// Where a call has left the address to which it returns: of x86-64 it is known.
fn slot(ip: usize, end: usize) -> Option<usize> {
    let slot = end.wrapping_sub(size_of::<usize>());
    // SAFETY: the frame of a function that has not returned is there.
    let is_there = || unsafe { (slot as *const usize).read_volatile() } == ip;
    (cfg!(target_arch = "x86_64") && is_there()).then_some(slot)
}

/// Where a stack was walked from, and the addresses that it had in it: as long as these are where they were,
/// and it is the same function that asks from the same depth, the frames are the same.
#[derive(Clone, Copy)]
pub(super) struct Trail {
    from: usize,
    depth: usize,
    callers: [usize; DEPTH],
    slots: [usize; DEPTH],
}

impl Trail {
    /// Of no stack.
    pub(super) const NONE: Self =
        Self { from: 0, depth: 0, callers: [0; DEPTH], slots: [0; DEPTH] };

    /// Whether the calling thread, whose stack has reached an address, has these frames.
    pub(super) fn is_of(&self, from: usize) -> bool {
        let mut slots = self.slots.iter().zip(&self.callers).take(self.depth);
        // SAFETY: above where the stack ends, as this thread has found them from there before.
        let has = |slot: usize| unsafe { (slot as *const usize).read_volatile() };
        self.depth > 0 && self.from == from && slots.all(|(slot, ip)| has(*slot) == *ip)
    }
}

impl Stack {
    /// The trail by which it is recognized, if it can be, where the stack has reached an address.
    pub(super) fn trail(&self, from: usize) -> Trail {
        let Self { depth, callers, slots, .. } = *self;
        if slots[..depth].contains(&0) {
            return Trail::NONE;
        }
        Trail { from, depth, callers, slots }
    }
}

unsafe extern "C-unwind" fn visit(context: *mut Context, argument: *mut c_void) -> c_int {
    // SAFETY: `walk` has given it, and uses it when this is over.
    let stack = unsafe { &mut *argument.cast::<Stack>() };
    // SAFETY: the unwinder's frame, which it has given for this call, here and below.
    let ip = unsafe { _Unwind_GetIP(context) };
    // SAFETY: the unwinder's frame, which lives until this function returns.
    let begins = || unsafe { _Unwind_GetRegionStart(context) };
    // SAFETY: the unwinder's frame, which lives until this function returns.
    let frame = || unsafe { _Unwind_GetCFA(context) };
    if stack.frame(ip, begins, frame) { GO_ON } else { STOP }
}
