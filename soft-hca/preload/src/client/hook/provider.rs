//! Whether the functions below ours are the provider's own, so that what they would do with the rings may be done without
//! them.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use soft_hca_core::config;

use crate::client::functions::Functions;
use crate::client::{sanitizer, strict};

/// Whether something stands before the provider's functions in some context, and is to be called.
static STANDS_BETWEEN: AtomicBool = AtomicBool::new(false);

/// Whether the functions below ours are the provider's own, of all contexts.
#[inline]
pub(super) fn is_next() -> bool {
    !STANDS_BETWEEN.load(Relaxed)
}

/// Looks at a context's functions before any is replaced.
pub(super) fn look(own: &Functions) {
    if stands_between(own) {
        STANDS_BETWEEN.store(true, Relaxed);
    }
}

/// The address at which a function's library is loaded.
pub(super) fn library_of(function: usize) -> Option<usize> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: looks for what is loaded at an address, whatever that is.
    let is_found = unsafe { libc::dladdr(function as *const c_void, found.as_mut_ptr()) != 0 };
    // SAFETY: zeros are null pointers, which the call may have replaced.
    is_found.then(|| unsafe { found.assume_init() }.dli_fbase as usize)
}

/// Whether something stands, or will stand, between our functions and the provider's: one of our layers, the library for
/// faults, or another that has replaced some of the context's functions. The provider's own are all of one library.
fn stands_between(own: &Functions) -> bool {
    let posts = [own.post_send, own.post_recv, own.post_srq_recv];
    let posts = posts.map(|post| post.and_then(|post| library_of(post as usize)));
    sanitizer::is_on()
        || strict::is_on()
        || config::has_faults()
        || posts != [library_of(own.poll_cq as usize); 3]
}
