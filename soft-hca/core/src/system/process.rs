//! This process, as others see it.
#![allow(unsafe_code, reason = "attributes of the process")]

/// The effective user.
pub fn user() -> u32 {
    // SAFETY: the call reads a number of the process and takes no arguments.
    unsafe { libc::geteuid() }
}

/// Lets every process of this user reach this one's memory, where Yama would restrict that.
pub fn allow_peers() {
    // SAFETY: changes an attribute of this process; fails where Yama is not there.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// Whether the system lets other processes of its user look into this one, as far as it is this one's to say:
/// `PR_SET_DUMPABLE`, or a file that may be run and not read.
pub fn is_readable() -> bool {
    // SAFETY: reads an attribute of this process.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 }
}

/// Has the scheduler give this thread the processor in pieces of so many nanoseconds. A shorter piece
/// comes sooner: a thread that wakes then takes the place of one that computes, instead of waiting for
/// the end of its piece, which is milliseconds. It gets no more time by that. Linux before 6.12 knows
/// no pieces, and nothing changes.
///
/// A thread that is woken every 100 us and works for 40, on the processor of one that computes (6.18):
/// of its wake-ups the slowest hundredth takes 41 to 83 us with pieces of 100 us, and 64 to 2312 us
/// without.
pub fn set_time_slice(nanoseconds: u64) {
    /// `struct sched_attr` (`linux/sched/types.h`), the first version of it.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let mut attributes =
        Attributes { size: size_of::<Attributes>() as u32, ..Attributes::default() };
    // SAFETY: both calls are given a structure of the size that they are told, for this thread.
    unsafe {
        let (this, room) = (0, attributes.size);
        if libc::syscall(libc::SYS_sched_getattr, this, &raw mut attributes, room, 0) != 0 {
            return;
        }
        if attributes.policy == libc::SCHED_OTHER as u32 {
            attributes.runtime = nanoseconds;
            libc::syscall(libc::SYS_sched_setattr, this, &raw const attributes, 0);
        }
    }
}
