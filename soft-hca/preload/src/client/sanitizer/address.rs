//! AddressSanitizer: memory that the device is about to access is asked for.
//!
//! | function | is called |
//! | --- | --- |
//! | `__asan_region_is_poisoned` | for each SGE: the first byte that is not the program's to use |
//! | `__asan_get_shadow_mapping` | to leave out what the program has poisoned by itself, as allocators do |
//! | `__asan_report_error` | with the place of the post: the runtime's own report, and its end of the program |
//!
//! They are in `sanitizer/asan_interface.h`.
#![allow(unsafe_code, reason = "AddressSanitizer's functions")]

use std::ffi::{c_int, c_void};

use super::runtime::function;
use super::thread::Access;

/// The shadow of memory that `ASAN_POISON_MEMORY_REGION` was called for.
const BY_PROGRAM: u8 = 0xf7;

/// Its functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressSanitizer {
    first_poisoned: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    mapping: unsafe extern "C" fn(*mut usize, *mut usize),
    report: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void, c_int, usize),
}

impl AddressSanitizer {
    /// The sanitizer of this process, if it has one.
    pub(super) fn find() -> Option<Self> {
        // SAFETY: functions of these names have the types of `sanitizer/asan_interface.h`.
        unsafe {
            Some(Self {
                first_poisoned: function(c"__asan_region_is_poisoned")?,
                mapping: function(c"__asan_get_shadow_mapping")?,
                report: function(c"__asan_report_error")?,
            })
        }
    }

    /// The first byte of memory that is freed, outside of an object, or gone in another way.
    pub(super) fn first_bad(&self, address: u64, length: u64) -> Option<u64> {
        // SAFETY: looks at the shadow of these bytes.
        let found = unsafe { (self.first_poisoned)(address as *mut c_void, length as usize) };
        let found = Some(found as usize).filter(|found| *found != 0)?;
        (self.shadow(found) != BY_PROGRAM).then_some(found as u64)
    }

    /// The byte of shadow that says why an address is poisoned.
    fn shadow(&self, address: usize) -> u8 {
        let (mut scale, mut offset) = (0, 0);
        // SAFETY: two words that are filled in.
        unsafe { (self.mapping)(&raw mut scale, &raw mut offset) };
        // SAFETY: the runtime has looked at that byte before it has said that the address is poisoned.
        unsafe { (((address >> scale) + offset) as *const u8).read_volatile() }
    }

    /// Has the runtime report an access of the device's to a bad byte, at a place in the program.
    pub(super) fn report(&self, access: Access, bad: u64, length: u64, place: usize) {
        let here = 0u8;
        let stack = (&raw const here).cast_mut().cast();
        let is_write = c_int::from(access == Access::Write);
        // SAFETY: any place, and addresses of this thread's stack, from which the runtime walks the frames.
        unsafe {
            let (place, bad) = (place as *mut c_void, bad as *mut c_void);
            (self.report)(place, stack, stack, bad, is_write, length as usize);
        }
    }
}
