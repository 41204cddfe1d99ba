//! Programs that the system does not let reach another's memory, as in some containers.
#![allow(unsafe_code, reason = "what a child does before it becomes the program")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets the system refuse `process_vm_readv` and `process_vm_writev` to a program and all that it
/// starts, with an error number of choice.
pub fn forbid_reaching(command: &mut Command, error: i32) -> &mut Command {
    // SAFETY: what runs in the child are two system calls.
    unsafe { command.pre_exec(move || install(error)) }
}

fn install(error: i32) -> io::Result<()> {
    let calls = [libc::SYS_process_vm_readv as u32, libc::SYS_process_vm_writev as u32];
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let jump = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        // The call's number is the first word of what a filter sees.
        step(load, 0, 0, 0),
        step(jump, 1, 0, calls[0]),
        step(jump, 0, 1, calls[1]),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: changes attributes of this process, for good; the filter lives through the call.
    let ret = unsafe {
        match libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) {
            0 => libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
            refused => refused,
        }
    };
    if ret == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
