//! Threads that their program cancels (`pthread_cancel`).
#![allow(unsafe_code, reason = "cancellation of threads")]

use std::ffi::c_int;

/// `PTHREAD_CANCEL_DISABLE`
const DISABLED: c_int = 1;

unsafe extern "C" {
    /// Not a system call, and never fails with a valid state.
    safe fn pthread_setcancelstate(state: c_int, before: &mut c_int) -> c_int;
}

/// Runs something to its end even if the thread is cancelled meanwhile: half a conversation with
/// the daemon would leave its answer to the next one who asks. The cancellation takes place when
/// the thread next comes to a point for that.
pub fn put_off<T>(what: impl FnOnce() -> T) -> T {
    let mut before = 0;
    pthread_setcancelstate(DISABLED, &mut before);
    let value = what();
    pthread_setcancelstate(before, &mut 0);
    value
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;
    use std::ptr;
    use std::sync::atomic::Ordering::{Acquire, Release};
    use std::sync::atomic::{AtomicBool, AtomicU32};
    use std::thread;

    use super::*;

    /// How far the thread has come: it is in the middle, it is through.
    static STAGE: AtomicU32 = AtomicU32::new(0);
    static IS_CANCELLED: AtomicBool = AtomicBool::new(false);

    extern "C" fn talk(_: *mut c_void) -> *mut c_void {
        put_off(|| {
            STAGE.store(1, Release);
            while !IS_CANCELLED.load(Acquire) {
                thread::yield_now();
            }
            // SAFETY: a point of cancellation, with no memory involved.
            unsafe { libc::usleep(1) };
            STAGE.store(2, Release);
        });
        // It is to end as other threads do.
        pthread_setcancelstate(DISABLED, &mut 0);
        ptr::null_mut()
    }

    #[test]
    fn a_cancelled_thread_finishes_what_it_is_at() {
        let mut id = 0;
        // SAFETY: the function takes no argument and gives none back.
        let made = unsafe { libc::pthread_create(&mut id, ptr::null(), talk, ptr::null_mut()) };
        assert_eq!(made, 0);
        while STAGE.load(Acquire) == 0 {
            thread::yield_now();
        }
        // SAFETY: the thread has not been joined yet.
        assert_eq!(unsafe { libc::pthread_cancel(id) }, 0);
        IS_CANCELLED.store(true, Release);
        // SAFETY: as above; nobody wants its value.
        assert_eq!(unsafe { libc::pthread_join(id, ptr::null_mut()) }, 0);
        assert_eq!(STAGE.load(Acquire), 2);
    }
}
