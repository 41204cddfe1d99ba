//! Functions of a provider's, which programs call by inline functions of `verbs.h`.
#![allow(unsafe_code, reason = "addresses of functions")]

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `poll_cq` of `struct ibv_context_ops`
pub(crate) type PollCq = unsafe extern "C-unwind" fn(*mut c_void, c_int, *mut c_void) -> c_int;
/// `post_send`, `post_recv` and `post_srq_recv` of `struct ibv_context_ops`
pub(crate) type Post = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_void) -> c_int;
/// `start_poll` of `struct ibv_cq_ex`
pub(crate) type StartPoll = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void) -> c_int;
/// `next_poll` of `struct ibv_cq_ex`
pub(crate) type NextPoll = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
/// `end_poll` of `struct ibv_cq_ex`
pub(crate) type EndPoll = unsafe extern "C-unwind" fn(*mut c_void);

/// The functions of a context that are replaced; a provider may lack some.
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    pub poll_cq: PollCq,
    pub post_send: Option<Post>,
    pub post_recv: Option<Post>,
    pub post_srq_recv: Option<Post>,
}

/// One of these types.
///
/// # Safety
/// The type is a function pointer.
pub(crate) unsafe trait Function: Copy {}

// SAFETY: a function pointer, as big as any other.
unsafe impl Function for PollCq {}
// SAFETY: a function pointer, as big as any other.
unsafe impl Function for Post {}
// SAFETY: a function pointer, as big as any other.
unsafe impl Function for StartPoll {}
// SAFETY: a function pointer, as big as any other.
unsafe impl Function for NextPoll {}
// SAFETY: a function pointer, as big as any other.
unsafe impl Function for EndPoll {}

/// The word that has a function's address, or 0. It may be one of the program's own, in a structure of `verbs.h`.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Slot<F>(AtomicUsize, PhantomData<F>);

impl<F: Function> Slot<F> {
    /// Without a function.
    pub(crate) const fn empty() -> Self {
        Self(AtomicUsize::new(0), PhantomData)
    }

    /// The function, if there is one.
    #[inline]
    pub(crate) fn load(&self, order: Ordering) -> Option<F> {
        let address = self.0.load(order);
        // SAFETY: the word is 0, which is `None` of a function pointer, or the address of such a function: `store` puts
        // no other there, nor does a program into its structures.
        unsafe { std::mem::transmute_copy::<usize, Option<F>>(&address) }
    }

    /// Puts a function in the place of the one that is there, or none.
    pub(crate) fn store(&self, function: Option<F>, order: Ordering) {
        // SAFETY: `Option` of a function pointer is as large as an address, and `None` is 0.
        let address = unsafe { std::mem::transmute_copy::<Option<F>, usize>(&function) };
        self.0.store(address, order);
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    unsafe extern "C-unwind" fn none_left(_: *mut c_void) -> c_int {
        libc::ENOENT
    }

    #[test]
    fn a_slot_has_a_function_or_none() {
        let slot = Slot::<NextPoll>::empty();
        assert!(slot.load(Relaxed).is_none());
        slot.store(Some(none_left), Relaxed);
        // SAFETY: `none_left` does not use its argument.
        assert_eq!(unsafe { slot.load(Relaxed).unwrap()(ptr::null_mut()) }, libc::ENOENT);
        slot.store(None, Relaxed);
        assert!(slot.load(Relaxed).is_none());
    }
}
