//! Whether processes may reach each other's memory.
#![allow(unsafe_code, reason = "memory of another process")]

use std::ffi::c_void;
use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use soft_hca_core::system;

use super::Finding::{self, Good, Warning};
use crate::{Error, cannot};

/// The hidden subcommand by which another process tries to reach this one's memory.
pub const PEER_SUBCOMMAND: &str = "doctor-peer";

/// The word that the peer finds at the address that it is given, and that it leaves there.
const WORD: u64 = 0x736f_6674_2d68_6361;

/// Another process, no ancestor of this one, reads and writes a word here as a peer would.
pub(super) fn peers() -> Finding {
    let word = AtomicU64::new(WORD);
    system::allow_peers();
    let asked = std::env::current_exe().and_then(|exe| {
        Command::new(exe)
            .arg(PEER_SUBCOMMAND)
            .arg(std::process::id().to_string())
            .arg((word.as_ptr() as u64).to_string())
            .stdin(Stdio::null())
            .output()
    });
    let reason = match asked {
        Ok(output) if output.status.success() && word.load(Ordering::Relaxed) == !WORD => {
            return Good("process_vm_readv and process_vm_writev between processes".into());
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_string(),
        Err(error) => error.to_string(),
    };
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let fix = match yama.trim() {
        "2" | "3" => format!(
            "kernel.yama.ptrace_scope is {}: as root, sysctl kernel.yama.ptrace_scope=1 (after a \
             restart if it was 3)",
            yama.trim()
        ),
        _ => {
            "in a container, start that with --cap-add SYS_PTRACE or a seccomp profile that allows \
              process_vm_readv and process_vm_writev"
                .into()
        }
    };
    Warning {
        what: format!(
            "a process cannot reach another's: {reason}; data is copied through shared memory \
             instead, which is slower"
        ),
        fix: format!("to make it faster: {fix}"),
    }
}

/// The process behind [`PEER_SUBCOMMAND`].
pub fn peer(pid: u32, address: u64) -> Result<(), Error> {
    let word = read_word(pid, address).map_err(cannot("process_vm_readv"))?;
    if word != WORD {
        let wrong = io::Error::other("something else lies there");
        return Err(cannot("find the word")(wrong));
    }
    write_word(pid, address, !word).map_err(cannot("process_vm_writev"))
}

fn parts(word: &mut u64, address: u64) -> (libc::iovec, libc::iovec) {
    let local = libc::iovec { iov_base: std::ptr::from_mut(word).cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: 8 };
    (local, remote)
}

fn whole_word(copied: isize) -> io::Result<()> {
    match copied {
        8 => Ok(()),
        0.. => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads a word of another process.
fn read_word(pid: u32, address: u64) -> io::Result<u64> {
    let mut word = 0;
    let (local, remote) = parts(&mut word, address);
    // SAFETY: the local part is a writable word; the remote address is checked by the kernel.
    let copied = unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, &remote, 1, 0) };
    whole_word(copied).map(|()| word)
}

/// Writes a word of another process. The caller knows what lies there.
fn write_word(pid: u32, address: u64, mut word: u64) -> io::Result<()> {
    let (local, remote) = parts(&mut word, address);
    // SAFETY: the local part is a readable word; the remote address is checked by the kernel.
    let copied = unsafe { libc::process_vm_writev(pid as libc::pid_t, &local, 1, &remote, 1, 0) };
    whole_word(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_process() {
        let word = std::sync::atomic::AtomicU64::new(7);
        let address = std::ptr::from_ref(&word) as u64;
        let pid = std::process::id();
        assert_eq!(read_word(pid, address).unwrap(), 7);
        write_word(pid, address, 8).unwrap();
        assert_eq!(word.into_inner(), 8);
        assert_eq!(read_word(pid, 8).unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn a_peer_finds_the_word_or_says_so() {
        let word = AtomicU64::new(WORD);
        let address = word.as_ptr() as u64;
        peer(std::process::id(), address).unwrap();
        assert_eq!(word.load(Ordering::Relaxed), !WORD);
        assert!(peer(std::process::id(), address).is_err());
        assert!(peer(std::process::id(), 8).unwrap_err().to_string().contains("readv"));
    }
}
