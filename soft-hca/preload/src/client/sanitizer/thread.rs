//! ThreadSanitizer: accesses of the device are made by fibers, of which it thinks as of threads.
//!
//! | function | is called |
//! | --- | --- |
//! | `__tsan_create_fiber`, `__tsan_set_fiber_name`, `__tsan_destroy_fiber` | for each queue |
//! | `__tsan_get_current_fiber`, `__tsan_switch_to_fiber` | around the device's accesses: what is told between is the queue's |
//! | `__tsan_read_range_pc`, `__tsan_write_range_pc` | for each SGE; the place is that of the post |
//! | `__tsan_func_entry`, `__tsan_func_exit` | for the frames of the post, which a report shows |
//! | `AnnotateIgnoreReadsBegin` and its three like | while a thread moves large data of this library's own, of which it sees calls of `memcpy` and no locks |
//! | `__tsan_release`, `__tsan_acquire` | where the one happens before the other: post and access, access and poll |
//!
//! The fibers' are in `sanitizer/tsan_interface.h`, the annotations in `dynamic_annotations.h`; gcc from 10 and clang export all.
#![allow(unsafe_code, reason = "ThreadSanitizer's functions")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};

use super::runtime::function;

/// Switches without a synchronization of the two (`__tsan_switch_to_fiber_no_sync`).
const NO_SYNC: c_uint = 1;

/// Its functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadSanitizer {
    current: unsafe extern "C" fn() -> *mut c_void,
    create: unsafe extern "C" fn(c_uint) -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    name: unsafe extern "C" fn(*mut c_void, *const c_char),
    switch: unsafe extern "C" fn(*mut c_void, c_uint),
    acquire: unsafe extern "C" fn(*mut c_void),
    release: unsafe extern "C" fn(*mut c_void),
    read: unsafe extern "C" fn(*mut c_void, c_ulong, *mut c_void),
    write: unsafe extern "C" fn(*mut c_void, c_ulong, *mut c_void),
    enter: unsafe extern "C" fn(*mut c_void),
    exit: unsafe extern "C" fn(),
    /// Reads and writes.
    ignore: [Annotation; 2],
    heed: [Annotation; 2],
}

/// A function that takes the name of a source file and a line there.
type Annotation = unsafe extern "C" fn(*const c_char, c_int);

/// A fiber that makes the accesses of one queue of the device. Reports still know what it has accessed when it is gone.
#[derive(Debug)]
pub(super) struct Fiber {
    pub sanitizer: ThreadSanitizer,
    fiber: *mut c_void,
}

// SAFETY: the runtime's own structure, which a thread switches to while it has the queue to itself.
unsafe impl Send for Fiber {}

impl Fiber {
    /// Runs `f` as the fiber, with the frames of the calling thread's program: the innermost first.
    pub(super) fn run(&self, callers: &[usize], f: impl FnOnce()) {
        let Self { sanitizer, fiber } = self;
        let outer = callers.get(1..).unwrap_or_default();
        // SAFETY: a fiber that was not destroyed and is current in no other thread, as its queue is locked; the thread
        // goes back to its own before it returns. Frames are entered and left in pairs.
        unsafe {
            let own = (sanitizer.current)();
            (sanitizer.switch)(*fiber, NO_SYNC);
            outer.iter().rev().for_each(|caller| (sanitizer.enter)(*caller as *mut c_void));
            f();
            outer.iter().for_each(|_| (sanitizer.exit)());
            (sanitizer.switch)(own, NO_SYNC);
        }
    }
}

impl Fiber {
    /// Gives it another name.
    pub(super) fn rename(&self, name: &CStr) {
        // SAFETY: a fiber that was not destroyed, and a C string, of which the runtime makes a copy.
        unsafe { (self.sanitizer.name)(self.fiber, name.as_ptr()) };
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        // SAFETY: a fiber that is current in no thread, as `run` has switched back.
        unsafe { (self.sanitizer.destroy)(self.fiber) };
    }
}

/// A word whose address says what happens before what.
#[derive(Debug, Default)]
pub(super) struct Sync(u64);

impl Sync {
    pub(super) const fn new() -> Self {
        Self(0)
    }

    fn address(&self) -> *mut c_void {
        (&raw const self.0).cast_mut().cast()
    }
}

/// An access of the device to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl ThreadSanitizer {
    /// The sanitizer of this process, if it has one.
    pub(super) fn find() -> Option<Self> {
        // SAFETY: the types of `sanitizer/tsan_interface.h` and of the runtime's `tsan_interface.h`.
        unsafe {
            Some(Self {
                current: function(c"__tsan_get_current_fiber")?,
                create: function(c"__tsan_create_fiber")?,
                destroy: function(c"__tsan_destroy_fiber")?,
                name: function(c"__tsan_set_fiber_name")?,
                switch: function(c"__tsan_switch_to_fiber")?,
                acquire: function(c"__tsan_acquire")?,
                release: function(c"__tsan_release")?,
                read: function(c"__tsan_read_range_pc")?,
                write: function(c"__tsan_write_range_pc")?,
                enter: function(c"__tsan_func_entry")?,
                exit: function(c"__tsan_func_exit")?,
                ignore: [
                    function(c"AnnotateIgnoreReadsBegin")?,
                    function(c"AnnotateIgnoreWritesBegin")?,
                ],
                heed: [function(c"AnnotateIgnoreReadsEnd")?, function(c"AnnotateIgnoreWritesEnd")?],
            })
        }
    }

    /// A new fiber, which reports call by its name.
    pub(super) fn fiber(self, name: &CStr) -> Fiber {
        // SAFETY: may be called by any thread; there are no flags.
        let fiber = unsafe { (self.create)(0) };
        let fiber = Fiber { sanitizer: self, fiber };
        fiber.rename(name);
        fiber
    }

    /// Does something with data of this library's that are as large as to be copied by `memcpy`, which the runtime sees, under a
    /// lock that it does not see. Nothing else: memory that is allocated meanwhile is no longer known as free.
    pub(super) fn unseen<T>(self, f: impl FnOnce() -> T) -> T {
        // SAFETY: may be called by any thread, with a C string, in pairs; `f` does not unwind, as it moves data only.
        self.ignore.iter().for_each(|begin| unsafe { begin(c"soft-hca".as_ptr(), 0) });
        let done = f();
        // SAFETY: as before.
        self.heed.iter().for_each(|end| unsafe { end(c"soft-hca".as_ptr(), 0) });
        done
    }

    /// Orders what the calling thread has done so far before what follows [`ThreadSanitizer::acquire`].
    pub(super) fn release(&self, sync: &Sync) {
        // SAFETY: an address of this process, of which the runtime remembers what belongs to it.
        unsafe { (self.release)(sync.address()) };
    }

    /// Orders what was done before [`ThreadSanitizer::release`] before what the calling thread does from now on.
    pub(super) fn acquire(&self, sync: &Sync) {
        // SAFETY: the runtime takes any address as a name and does not read from it.
        unsafe { (self.acquire)(sync.address()) };
    }

    /// The current fiber or thread accesses bytes, at a place in the program.
    pub(super) fn access(&self, access: Access, address: u64, length: u32, place: usize) {
        let told = match access {
            Access::Read => self.read,
            Access::Write => self.write,
        };
        // SAFETY: the runtime looks at what it remembers of these bytes, not at them.
        unsafe { told(address as *mut c_void, length.into(), place as *mut c_void) };
    }
}
