//! Copies within this process, without a system call, that survive a bad address.
//!
//! A program may unmap memory that it has registered. The system calls of `process_memory` report
//! that; a plain copy would end the program with a signal. So here the copy is a few instructions
//! at a known place, and a handler of SIGSEGV and SIGBUS that, for a fault at that place and no
//! other, has the copy return and say so. All other signals go to whoever handled them before.
//!
//! Where there is no such copy (processors other than x86-64 and arm64, a process in which nobody has
//! called [`guard`]) there is no [`copy`] either, and the system calls do the work.
#![allow(unsafe_code, reason = "memory by its address, and a signal handler")]

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::engine::segments::Segment;

/// Whether faults of [`copy`] are caught.
static IS_GUARDED: AtomicBool = AtomicBool::new(false);

/// Whether [`copy`] can be used in this process.
pub(super) fn is_guarded() -> bool {
    IS_GUARDED.load(Acquire)
}

/// Has faults of copies caught from now on. False where that is not possible.
pub fn guard() -> bool {
    if !is_guarded() && machine::install() {
        IS_GUARDED.store(true, Release);
    }
    is_guarded()
}

/// Copies `length` bytes within this process; false if an address is bad, when a part may have been
/// copied, or if nobody has called [`guard`].
pub(super) fn copy(from: u64, to: u64, length: u64) -> bool {
    is_guarded() && machine::copy(from, to, length)
}

/// The bytes of a list of segments of this process, one after the other.
pub(super) struct Stream<'a> {
    segments: &'a [Segment],
    /// Bytes of the first that were taken.
    taken: u64,
}

impl<'a> Stream<'a> {
    pub(super) fn of(segments: &'a [Segment]) -> Self {
        Self { segments, taken: 0 }
    }

    /// Copies the next `length` bytes to an address; false if they are not there, or an address is
    /// bad.
    pub(super) fn copy_to(&mut self, mut to: u64, mut length: u64) -> bool {
        while length > 0 {
            let Some((first, rest)) = self.segments.split_first() else { return false };
            let piece = length.min(first.length - self.taken);
            if !copy(first.addr.wrapping_add(self.taken), to, piece) {
                return false;
            }
            self.taken += piece;
            (to, length) = (to.wrapping_add(piece), length - piece);
            if self.taken == first.length {
                (self.segments, self.taken) = (rest, 0);
            }
        }
        true
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod machine {
    use std::arch::global_asm;
    use std::ffi::c_void;
    use std::mem::MaybeUninit;
    use std::ptr;
    use std::sync::OnceLock;

    use libc::c_int;

    // Arguments: rdi to, rsi from, rdx bytes; eax gives 0, or 1 after a fault. Nothing is on the
    // stack, so the handler can go on at the end from wherever the fault was.
    #[cfg(target_arch = "x86_64")]
    global_asm!(
        ".pushsection .text.soft_hca_copy, \"ax\", @progbits",
        ".globl soft_hca_copy, soft_hca_copy_end, soft_hca_copy_fault",
        ".hidden soft_hca_copy, soft_hca_copy_end, soft_hca_copy_fault",
        ".p2align 4",
        "soft_hca_copy:",
        "mov rcx, rdx",
        "cmp rcx, 256",
        "jae 4f",
        "2: cmp rcx, 8",
        "jb 3f",
        "mov rax, [rsi]",
        "mov [rdi], rax",
        "add rsi, 8",
        "add rdi, 8",
        "sub rcx, 8",
        "jmp 2b",
        "3: test rcx, rcx",
        "jz 5f",
        "mov al, [rsi]",
        "mov [rdi], al",
        "inc rsi",
        "inc rdi",
        "dec rcx",
        "jmp 3b",
        "4: rep movsb",
        "5: xor eax, eax",
        "ret",
        "soft_hca_copy_end:",
        "soft_hca_copy_fault:",
        "mov eax, 1",
        "ret",
        ".popsection",
    );

    // The same: x0 to, x1 from, x2 bytes; w0 gives 0 or 1. The order in which others see the bytes does
    // not count: they look for them behind an index or a lock that is released after the copy.
    #[cfg(target_arch = "aarch64")]
    global_asm!(
        ".pushsection .text.soft_hca_copy, \"ax\", @progbits",
        ".globl soft_hca_copy, soft_hca_copy_end, soft_hca_copy_fault",
        ".hidden soft_hca_copy, soft_hca_copy_end, soft_hca_copy_fault",
        ".p2align 4",
        "soft_hca_copy:",
        "subs x2, x2, #64",
        "b.lo 3f",
        "2: ldp x3, x4, [x1]",
        "ldp x5, x6, [x1, #16]",
        "ldp x7, x8, [x1, #32]",
        "ldp x9, x10, [x1, #48]",
        "stp x3, x4, [x0]",
        "stp x5, x6, [x0, #16]",
        "stp x7, x8, [x0, #32]",
        "stp x9, x10, [x0, #48]",
        "add x1, x1, #64",
        "add x0, x0, #64",
        "subs x2, x2, #64",
        "b.hs 2b",
        "3: add x2, x2, #64",
        "4: cmp x2, #8",
        "b.lo 5f",
        "ldr x3, [x1], #8",
        "str x3, [x0], #8",
        "sub x2, x2, #8",
        "b 4b",
        "5: cbz x2, 6f",
        "ldrb w3, [x1], #1",
        "strb w3, [x0], #1",
        "sub x2, x2, #1",
        "b 5b",
        "6: mov w0, #0",
        "ret",
        "soft_hca_copy_end:",
        "soft_hca_copy_fault:",
        "mov w0, #1",
        "ret",
        ".popsection",
    );

    unsafe extern "C" {
        fn soft_hca_copy(to: *mut u8, from: *const u8, bytes: usize) -> c_int;
        static soft_hca_copy_end: u8;
        static soft_hca_copy_fault: u8;
    }

    const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

    /// What was done at each of [`SIGNALS`] before.
    static BEFORE: OnceLock<[libc::sigaction; 2]> = OnceLock::new();

    pub(super) fn copy(from: u64, to: u64, length: u64) -> bool {
        // SAFETY: the instructions touch these two ranges and nothing else; a bad address in them
        // ends the copy. What is written is memory that was registered to be written, or the
        // arena's, which all reach by instructions like these and by atomics.
        unsafe { soft_hca_copy(to as *mut u8, from as *const u8, length as usize) == 0 }
    }

    pub(super) fn install() -> bool {
        if BEFORE.get().is_some() {
            return true;
        }
        let Some(before) = SIGNALS.map(current).into_iter().collect::<Option<Vec<_>>>() else {
            return false;
        };
        let Ok(before) = <[libc::sigaction; 2]>::try_from(before) else { return false };
        if BEFORE.set(before).is_err() {
            return true;
        }
        SIGNALS.iter().zip(before).all(|(signal, before)| {
            let mut ours = before;
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_fault;
            ours.sa_sigaction = handler as usize;
            ours.sa_flags =
                before.sa_flags & !libc::SA_RESETHAND | libc::SA_SIGINFO | libc::SA_ONSTACK;
            // SAFETY: a complete action, with a handler that lives as long as the process.
            unsafe { libc::sigaction(*signal, &ours, ptr::null_mut()) == 0 }
        })
    }

    fn current(signal: c_int) -> Option<libc::sigaction> {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: fills the structure, of which zeros are a valid one.
        let is_known = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0 };
        // SAFETY: as above.
        is_known.then(|| unsafe { action.assume_init() })
    }

    /// A register, as the system saves it.
    #[cfg(target_arch = "x86_64")]
    type Register = libc::greg_t;
    #[cfg(target_arch = "aarch64")]
    type Register = u64;

    /// The one that holds the address of the instruction.
    fn instruction(machine: &mut libc::mcontext_t) -> &mut Register {
        #[cfg(target_arch = "x86_64")]
        return &mut machine.gregs[libc::REG_RIP as usize];
        #[cfg(target_arch = "aarch64")]
        return &mut machine.pc;
    }

    extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        let begin = (soft_hca_copy as *const ()).expose_provenance();
        let end = (&raw const soft_hca_copy_end).expose_provenance();
        // SAFETY: what the system gives a handler with SA_SIGINFO.
        let at = instruction(unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext });
        if (begin..end).contains(&(*at as usize)) {
            *at = (&raw const soft_hca_copy_fault).expose_provenance() as Register;
            return;
        }
        pass_on(signal, info, context);
    }

    /// It was not ours: what was done before.
    fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        let index = usize::from(signal != SIGNALS[0]);
        let Some(before) = BEFORE.get().map(|before| before[index]) else { return };
        match before.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                // What the program has set, and the instruction once more: this time it ends the
                // program, as if we were not there. What somebody has sent is sent once more.
                // SAFETY: the action that was there before.
                unsafe { libc::sigaction(signal, &before, ptr::null_mut()) };
                // SAFETY: what the system gives a handler with SA_SIGINFO.
                if unsafe { (*info).si_code } <= 0 {
                    // SAFETY: sends this thread a signal, which is blocked until we are done.
                    unsafe { libc::raise(signal) };
                }
            }
            handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                // SAFETY: the program's own handler, which takes three arguments.
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    unsafe { std::mem::transmute(handler) };
                handler(signal, info, context);
            }
            handler => {
                // SAFETY: the program's own handler, which takes one argument.
                let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
                handler(signal);
            }
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod machine {
    pub(super) fn install() -> bool {
        false
    }

    pub(super) fn copy(_: u64, _: u64, _: u64) -> bool {
        false
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::process_memory::tests::Pages;
    use crate::system::page_bytes;

    fn address(bytes: &[u8]) -> u64 {
        bytes.as_ptr().expose_provenance() as u64
    }

    #[test]
    fn a_bad_address_is_no_signal() {
        assert!(guard());
        let page = page_bytes() as u64;
        let good = vec![7u8; 2 * page_bytes()];
        let pages = Pages::with_hole(2, 1);
        for length in [page + 1, page + 900, 2 * page] {
            assert!(!copy(address(&good), pages.segment().addr, length));
            assert!(!copy(pages.segment().addr, address(&good), length));
        }
        for (start, length) in [(page - 1, 2), (page - 96, 100), (page, 1), (page - 196, 255)] {
            assert!(!copy(address(&good), pages.segment().addr + start, length));
        }
        assert!(copy(address(&good), pages.segment().addr, page));
        assert!(!copy(8, address(&good), 1));
    }

    proptest! {
        #[test]
        fn streams_are_cut_anywhere(
            lengths in proptest::collection::vec(0usize..400, 0..6),
            cuts in proptest::collection::vec(0usize..500, 0..6),
        ) {
            guard();
            let source: Vec<u8> = (0..2400u32).map(|i| (i * 7) as u8).collect();
            let mut rest = &source[..];
            let segments: Vec<Segment> = lengths.iter().map(|&length| {
                let (piece, after) = rest.split_at(length);
                rest = after;
                Segment { addr: address(piece), length: length as u64 }
            }).collect();
            let total: usize = lengths.iter().sum();
            let mut target = vec![0u8; 2400];
            let (mut stream, mut taken) = (Stream::of(&segments), 0);
            for cut in cuts {
                let is_there = taken + cut <= total;
                let to = target.as_mut_ptr().expose_provenance() as u64 + taken as u64;
                prop_assert_eq!(stream.copy_to(to, cut as u64), is_there);
                if !is_there {
                    break;
                }
                taken += cut;
            }
            prop_assert!(target[..taken] == source[..taken]);
        }

        #[test]
        fn every_byte_gets_where_it_belongs(length in 0usize..700, from in 0usize..9, to in 0usize..9) {
            guard();
            let source: Vec<u8> = (0..800u32).map(|i| (i * 7) as u8).collect();
            let mut target = vec![0u8; 800];
            let to_address = target.as_mut_ptr().expose_provenance() as u64 + to as u64;
            prop_assert!(copy(address(&source) + from as u64, to_address, length as u64));
            let mut expected = vec![0u8; 800];
            expected[to..to + length].copy_from_slice(&source[from..from + length]);
            prop_assert!(target == expected);
        }
    }
}
