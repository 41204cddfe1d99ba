//! Arguments of calls: which queue pair they are about.

use std::ffi::c_void;
use std::ptr;

use crate::objects;

/// An argument or result as the C functions have it.
pub(crate) trait Argument: Copy {
    /// Its bits.
    fn word(self) -> usize;

    /// The number of the queue pair that it is about.
    ///
    /// # Safety
    ///
    /// A pointer points to what the function's declaration says, or is null.
    unsafe fn qpn(self) -> Option<u32> {
        None
    }
}

/// A pointer to anything.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Ptr(pub(crate) *mut c_void);

impl Ptr {
    pub(crate) const NULL: Self = Self(ptr::null_mut());
}

/// `struct ibv_qp *`
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Qp(*mut objects::Qp);

/// `struct rdma_cm_id *`
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Id(*mut objects::CmId);

impl Argument for Ptr {
    fn word(self) -> usize {
        self.0 as usize
    }
}

impl Argument for Qp {
    fn word(self) -> usize {
        self.0 as usize
    }

    unsafe fn qpn(self) -> Option<u32> {
        // SAFETY: the caller promises that it is null or a queue pair.
        unsafe { self.0.as_ref() }.map(|qp| qp.qp_num)
    }
}

impl Argument for Id {
    fn word(self) -> usize {
        self.0 as usize
    }

    unsafe fn qpn(self) -> Option<u32> {
        // SAFETY: the caller's promise, and that the library keeps an id's queue pair or null there.
        unsafe { self.0.as_ref().and_then(|id| id.qp.as_ref()) }.map(|qp| qp.qp_num)
    }
}

impl Argument for () {
    fn word(self) -> usize {
        0
    }
}

macro_rules! numbers {
    ($($type:ty)*) => { $(
        impl Argument for $type {
            fn word(self) -> usize {
                self as usize
            }
        }
    )* };
}

numbers!(u8 u16 i32 u32 u64 usize);
