//! Functions that have been called and have not returned, by their variables on the stack.
#![allow(unsafe_code, reason = "the unwinder of the C compiler's library")]

use std::ffi::{c_int, c_void};

use super::stack::{
    _Unwind_Backtrace, _Unwind_GetCFA, _Unwind_GetRegionStart, Context, GO_ON, STOP,
};

/// The largest number of frames that are looked at.
const DEEPEST: usize = 64;

/// A function that was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The address at which its variables end: another call of it from the same depth has the same.
    end: usize,
    /// The address at which its code begins.
    function: usize,
    /// The address of the outermost frame of this stack: a thread may have several stacks.
    stack: usize,
}

/// The frames of the calling thread's stack, from the innermost outwards.
struct Frames {
    /// The addresses at which each function's variables begin, and its code.
    all: [(usize, usize); DEEPEST],
    count: usize,
    is_whole: bool,
}

impl Frames {
    /// Walks the stack; `None` if it has more frames than are looked at.
    fn walk() -> Option<Self> {
        let mut frames = Self { all: [(0, 0); DEEPEST], count: 0, is_whole: true };
        // SAFETY: `visit` gets the frames that it expects, and lets nothing unwind.
        unsafe { _Unwind_Backtrace(visit, (&raw mut frames).cast()) };
        (frames.is_whole && frames.count > 0).then_some(frames)
    }

    /// The begin and end of each function's variables, and its code, except for the outermost function.
    fn spans(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let all = &self.all[..self.count];
        all.windows(2).map(|two| (two[0].0, two[1].0, two[0].1))
    }

    fn outermost(&self) -> usize {
        self.all[self.count - 1].0
    }
}

/// The function whose variable is at an address, if that is on the stack of the calling thread.
pub(crate) fn frame_of(address: usize) -> Option<Frame> {
    // Most memory is elsewhere: below the used part of the stack, or far above it.
    let here = 0u8;
    let here = std::ptr::from_ref(std::hint::black_box(&here)) as usize;
    const LARGEST: usize = 64 << 20;
    if !(here..here.saturating_add(LARGEST)).contains(&address) {
        return None;
    }
    let frames = Frames::walk()?;
    let (_, end, function) =
        frames.spans().find(|(begin, end, _)| (*begin..*end).contains(&address))?;
    Some(Frame { end, function, stack: frames.outermost() })
}

impl Frame {
    /// Whether the function has returned; the thread that has called it asks. Another call of the same function
    /// from the same depth counts as not returned.
    pub(crate) fn has_returned(self) -> bool {
        let is_it = |(_, end, function)| (end, function) == (self.end, self.function);
        let frames = Frames::walk().filter(|frames| frames.outermost() == self.stack);
        frames.is_some_and(|frames| !frames.spans().any(is_it))
    }
}

unsafe extern "C-unwind" fn visit(context: *mut Context, argument: *mut c_void) -> c_int {
    // SAFETY: `walk` passes its `Frames`, and does not use them until the walk is over.
    let frames = unsafe { &mut *argument.cast::<Frames>() };
    let Some(place) = frames.all.get_mut(frames.count) else {
        frames.is_whole = false;
        return STOP;
    };
    // SAFETY: the unwinder's context, which is valid during this call.
    *place = unsafe { (_Unwind_GetCFA(context), _Unwind_GetRegionStart(context)) };
    frames.count += 1;
    GO_ON
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[inline(never)]
    fn own() -> (Frame, bool) {
        let bytes = black_box([0u8; 64]);
        let frame = frame_of(bytes.as_ptr() as usize).expect("its own");
        let returned = frame.has_returned();
        black_box(&bytes);
        (frame, returned)
    }

    #[test]
    fn a_function_returns() {
        let bytes = black_box([0u8; 64]);
        let mine = frame_of(bytes.as_ptr() as usize).expect("this one's");
        let (frame, returned) = own();
        assert!(!returned);
        assert!(frame.has_returned());
        assert!(!mine.has_returned());
        black_box(&bytes);
    }

    #[test]
    fn other_memory_is_no_functions() {
        let elsewhere: Vec<u8> = (0..64).collect();
        assert_eq!(frame_of(elsewhere.as_ptr() as usize), None);
        static BYTES: [u8; 8] = [0; 8];
        assert_eq!(frame_of(BYTES.as_ptr() as usize), None);
        let frame = std::thread::spawn(|| own().0).join().unwrap();
        assert!(!frame.has_returned(), "of another stack nothing is known");
    }
}
