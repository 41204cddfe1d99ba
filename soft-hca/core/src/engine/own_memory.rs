//! Copies within this process, without a system call, that survive a bad address.
//!
//! A program may unmap memory that it has registered. The system calls of `process_memory` report
//! that; a plain copy would end the program with a signal. So here the copy is a few instructions
//! at a known address, and a handler of SIGSEGV and SIGBUS that, for a fault at that address and no
//! other, has the copy return and say so. All other signals go to the program's own handler. The
//! program may set one at any time by the C library's functions; [`set_action`] keeps ours first.
//!
//! Without such a copy (processors other than x86-64 and arm64, a process in which nobody has
//! called [`guard`]) [`copy`] fails, and the system calls do the work.
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

/// Whether our handler for faults is installed at this signal, so that a program's comes after it.
pub fn is_guarded_signal(signal: libc::c_int) -> bool {
    machine::is_first_at(signal)
}

/// The program's `sigaction(2)`. At a signal that reports faults of copies our handler stays the
/// first one, and the program's gets all other faults.
///
/// # Safety
/// As for `sigaction(2)`: `new` and `old` are null or point to an action, which for `old` is written.
pub unsafe fn set_action(
    signal: libc::c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> libc::c_int {
    // SAFETY: it demands what this function demands, and gets the same arguments.
    unsafe { machine::set_action(signal, new, old) }
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
    #[inline]
    pub(super) fn of(segments: &'a [Segment]) -> Self {
        Self { segments, taken: 0 }
    }

    /// Copies the next `length` bytes to an address; false if they are not there, or an address is
    /// bad.
    #[inline]
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
    use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use libc::c_int;

    use crate::system::Next;

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

    /// The program's action at each of [`SIGNALS`], as a [`Word`].
    static OF_PROGRAM: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

    /// Whether our handler is installed.
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

    /// A program's handler and those of its flags in which ours may differ, in one word: our
    /// handler may read it while another thread sets another action.
    #[derive(Clone, Copy)]
    struct Word(u64);

    impl Word {
        const FLAGS: [c_int; 3] = [libc::SA_SIGINFO, libc::SA_RESETHAND, libc::SA_ONSTACK];
        /// Addresses of programs have 56 bits at most.
        const SHIFT: u32 = 8;

        fn of(action: &libc::sigaction) -> Self {
            let bits = (0..).zip(Self::FLAGS).filter(|(_, flag)| action.sa_flags & flag != 0);
            let bits: u64 = bits.map(|(bit, _)| 1 << bit).sum();
            Self((action.sa_sigaction as u64) << Self::SHIFT | bits)
        }

        fn handler(self) -> libc::sighandler_t {
            (self.0 >> Self::SHIFT) as libc::sighandler_t
        }

        fn flags(self) -> c_int {
            let set = (0..).zip(Self::FLAGS).filter(|(bit, _)| self.0 >> bit & 1 != 0);
            set.map(|(_, flag)| flag).sum()
        }

        fn has(self, flag: c_int) -> bool {
            self.flags() & flag != 0
        }

        /// Replaces our handler and flags by the program's.
        fn restore(self, action: &mut libc::sigaction) {
            action.sa_sigaction = self.handler();
            let other = Self::FLAGS.iter().fold(action.sa_flags, |flags, flag| flags & !flag);
            action.sa_flags = other | self.flags();
        }
    }

    /// The system's default action.
    const DEFAULT: Word = Word(0);

    /// The C library's function; a program may find ours by that name.
    unsafe fn sigaction(
        signal: c_int,
        new: *const libc::sigaction,
        old: *mut libc::sigaction,
    ) -> c_int {
        static REAL: Next = Next::new(c"sigaction");
        let address = REAL.address();
        type Function =
            unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
        // SAFETY: `Next` has found what comes behind us by the name of `sigaction`, which is that function in
        // every C library, and has this type.
        let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
        // SAFETY: the callers here pass null or pointers to whole actions that live through the call.
        unsafe { function(signal, new, old) }
    }

    fn index(signal: c_int) -> Option<usize> {
        SIGNALS.iter().position(|known| *known == signal)
    }

    /// Whether our handler is the first one at a signal.
    pub(super) fn is_first_at(signal: c_int) -> bool {
        index(signal).is_some() && IS_INSTALLED.load(Acquire)
    }

    fn is_ours(action: &libc::sigaction) -> bool {
        action.sa_sigaction == on_fault as *const () as usize
    }

    /// Replaces a program's handler by ours.
    fn with_ours(mut action: libc::sigaction) -> libc::sigaction {
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = action.sa_flags & !libc::SA_RESETHAND | libc::SA_SIGINFO;
        action
    }

    pub(super) unsafe fn set_action(
        signal: c_int,
        new: *const libc::sigaction,
        old: *mut libc::sigaction,
    ) -> c_int {
        let Some(index) = index(signal).filter(|_| IS_INSTALLED.load(Acquire)) else {
            // SAFETY: `set_action` demands of its caller what `sigaction` does.
            return unsafe { sigaction(signal, new, old) };
        };
        // SAFETY: null or an action that the caller may read, as `sigaction(2)` demands; copied at once.
        let new = unsafe { new.as_ref() }.copied();
        let ours = new.map(with_ours);
        let ours = ours.as_ref().map_or(ptr::null(), ptr::from_ref);
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        let known = Word(OF_PROGRAM[index].load(Acquire));
        // SAFETY: `ours` is null or points to a whole action of this function, `before` has room for one.
        let ret = unsafe { sigaction(signal, ours, before.as_mut_ptr()) };
        if ret != 0 {
            return ret;
        }
        if let Some(new) = new {
            OF_PROGRAM[index].store(Word::of(&new).0, Release);
        }
        // SAFETY: the call has succeeded, so it has filled the structure.
        let mut before = unsafe { before.assume_init() };
        if is_ours(&before) {
            known.restore(&mut before);
        }
        // SAFETY: null or an action that the caller lets us write, as `sigaction(2)` demands.
        if let Some(old) = unsafe { old.as_mut() } {
            *old = before;
        }
        0
    }

    pub(super) fn copy(from: u64, to: u64, length: u64) -> bool {
        // SAFETY: the instructions touch these two ranges and nothing else; a bad address in them
        // ends the copy. Written memory was registered to be written, or is the arena's, for which `arena` says how
        // others reach it meanwhile.
        unsafe { soft_hca_copy(to as *mut u8, from as *const u8, length as usize) == 0 }
    }

    pub(super) fn install() -> bool {
        let [Some(segv), Some(bus)] = SIGNALS.map(current) else { return false };
        // A second call finds our handler, which is not the program's.
        for (word, before) in OF_PROGRAM.iter().zip([segv, bus]).filter(|(_, b)| !is_ours(b)) {
            word.store(Word::of(&before).0, Release);
        }
        let is_installed = SIGNALS.iter().zip([segv, bus]).all(|(signal, before)| {
            let mut ours = with_ours(before);
            ours.sa_flags |= libc::SA_ONSTACK;
            // SAFETY: a whole action. Its handler is a function of this library, which is never unloaded, and
            // does at other faults what the program's would do.
            is_ours(&before) || unsafe { sigaction(*signal, &ours, ptr::null_mut()) == 0 }
        });
        IS_INSTALLED.store(is_installed, Release);
        is_installed
    }

    fn current(signal: c_int) -> Option<libc::sigaction> {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: without a new action the call only writes the structure, which is as large as it has to be.
        let is_known = unsafe { sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0 };
        // SAFETY: zeros are a valid action, and so is what the call has written.
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
        // SAFETY: a handler that is installed with SA_SIGINFO, as ours always is, gets its own `ucontext_t`
        // as the third argument, which nobody else uses until it returns.
        let at = instruction(unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext });
        if (begin..end).contains(&(*at as usize)) {
            *at = (&raw const soft_hca_copy_fault).expose_provenance() as Register;
            return;
        }
        pass_on(signal, info, context);
    }

    /// Takes the program's action at a signal that no copy has caused.
    fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        let Some(word) = index(signal).map(|index| &OF_PROGRAM[index]) else { return };
        let of_program = Word(word.load(Acquire));
        if of_program.has(libc::SA_RESETHAND) {
            // The handler is called once, then the default holds, unless the program has set
            // another.
            let _ = word.compare_exchange(of_program.0, DEFAULT.0, AcqRel, Acquire);
        }
        // SAFETY: a handler that is installed with SA_SIGINFO, as ours always is, gets a valid `siginfo_t`.
        let is_sent = unsafe { (*info).si_code } <= 0;
        match of_program.handler() {
            libc::SIG_IGN if is_sent => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                // The program's own action is set, and the instruction comes once more: this time it ends
                // the program, as if we were not there. A signal that was sent is sent once more.
                let mut default = MaybeUninit::<libc::sigaction>::zeroed();
                // SAFETY: zeros are a valid action; this one becomes the program's.
                of_program.restore(unsafe { default.assume_init_mut() });
                // SAFETY: all bytes of the action are set: zeros, and the program's handler and flags.
                unsafe { sigaction(signal, default.as_ptr(), ptr::null_mut()) };
                if is_sent {
                    // SAFETY: sends this thread a signal, which is blocked until we are done.
                    unsafe { libc::raise(signal) };
                }
            }
            handler if of_program.has(libc::SA_SIGINFO) => {
                // SAFETY: the address that the program has set with SA_SIGINFO, by which it says that this is a
                // function with these three arguments.
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    unsafe { std::mem::transmute(handler) };
                handler(signal, info, context);
            }
            handler => {
                // SAFETY: the address that the program has set without SA_SIGINFO, by which it says that this is
                // a function with this one argument.
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

    pub(super) fn is_first_at(_: libc::c_int) -> bool {
        false
    }

    pub(super) unsafe fn set_action(
        signal: libc::c_int,
        new: *const libc::sigaction,
        old: *mut libc::sigaction,
    ) -> libc::c_int {
        static REAL: crate::system::Next = crate::system::Next::new(c"sigaction");
        type Function = unsafe extern "C" fn(
            libc::c_int,
            *const libc::sigaction,
            *mut libc::sigaction,
        ) -> libc::c_int;
        // SAFETY: `Next` has found what comes behind us by the name of `sigaction`, which is that function in
        // every C library, and has this type.
        let function =
            unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(REAL.address()) };
        // SAFETY: this function demands of its caller what `sigaction` does.
        unsafe { function(signal, new, old) }
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
