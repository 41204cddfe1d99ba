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
struct Context {
    private: [u8; 0],
}

type Visit = unsafe extern "C-unwind" fn(*mut Context, *mut c_void) -> c_int;

/// `_URC_NO_REASON`: go on.
const GO_ON: c_int = 0;
/// `_URC_NORMAL_STOP`
const STOP: c_int = 4;

unsafe extern "C-unwind" {
    fn _Unwind_Backtrace(visit: Visit, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut Context) -> usize;
    fn _Unwind_GetCFA(context: *mut Context) -> usize;
    fn _Unwind_GetRegionStart(context: *mut Context) -> usize;
}

/// What the frames tell.
#[derive(Debug, Default)]
pub(super) struct Stack {
    /// Addresses behind the program's call instructions, the innermost first.
    callers: [usize; DEPTH],
    depth: usize,
    /// The file that they belong to.
    whose: Option<Whose>,
    /// Where the library's function begins that the program has called, 0 if there is none.
    pub function: usize,
    /// Where the program's own begins that has called it.
    pub own: usize,
    /// Where the program's frame is.
    pub frame: usize,
    /// Tells apart the ways through the library.
    pub way: u64,
    visited: u32,
}

impl Stack {
    /// Of the calling thread.
    pub(super) fn walk() -> Self {
        let mut stack = Self::default();
        // SAFETY: `visit` gets the stack that it expects, and lets nothing unwind.
        unsafe { _Unwind_Backtrace(visit, (&raw mut stack).cast()) };
        stack
    }

    /// Addresses behind the program's call instructions, the innermost first.
    pub(super) fn callers(&self) -> &[usize] {
        &self.callers[..self.depth]
    }

    /// Another frame, further out. Whether to go on.
    fn frame(&mut self, ip: usize, begins: impl Fn() -> usize, frame: impl Fn() -> usize) -> bool {
        self.visited += 1;
        if self.visited > DEEPEST || ip == 0 {
            return false;
        }
        let known = table::code(ip);
        match (known.map(|known| known.whose), self.depth) {
            (Some(Whose::Ours), 0) => true,
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
                self.push(ip)
            }
            (whose, 1..DEPTH) if whose == self.whose => self.push(ip),
            _ => false,
        }
    }

    /// Whether there is room for more.
    fn push(&mut self, ip: usize) -> bool {
        self.callers[self.depth] = ip;
        self.depth += 1;
        self.depth < DEPTH
    }
}

unsafe extern "C-unwind" fn visit(context: *mut Context, argument: *mut c_void) -> c_int {
    // SAFETY: `walk` has given it, and uses it when this is over.
    let stack = unsafe { &mut *argument.cast::<Stack>() };
    // SAFETY: the unwinder's frame, which it has given for this call, here and below.
    let ip = unsafe { _Unwind_GetIP(context) };
    // SAFETY: as above.
    let begins = || unsafe { _Unwind_GetRegionStart(context) };
    // SAFETY: as above.
    let frame = || unsafe { _Unwind_GetCFA(context) };
    if stack.frame(ip, begins, frame) { GO_ON } else { STOP }
}
