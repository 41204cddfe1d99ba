//! The few system calls that several parts need and the standard library has not.
#![allow(unsafe_code, reason = "system calls")]

use std::ffi::{CStr, c_void};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Descriptors that a program is to keep without knowing it get numbers from here on, so that
/// those it opens itself start where they always do.
const HIDDEN_FROM: libc::c_int = 600;

/// How late the daemon's timers may be, in nanoseconds; the system's own choice is 50,000.
const TIMER_SLACK_NS: libc::c_ulong = 1000;

fn check(ret: libc::c_int) -> io::Result<libc::c_int> {
    if ret < 0 { Err(io::Error::last_os_error()) } else { Ok(ret) }
}

/// The effective user.
pub fn user() -> u32 {
    // SAFETY: has no preconditions.
    unsafe { libc::geteuid() }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A random number.
pub fn random() -> u64 {
    let mut number = now_ns();
    // SAFETY: eight bytes are writable. If the system gives none, the time has to do.
    unsafe { libc::getrandom((&raw mut number).cast(), 8, 0) };
    number
}

/// Takes a token from an event descriptor in semaphore mode if there is one. Never waits: the
/// flags of the open file are those that a program has set.
pub fn take_token(fd: RawFd) -> bool {
    let mut token = 0u64;
    let part = libc::iovec { iov_base: (&raw mut token).cast(), iov_len: 8 };
    // SAFETY: one part of eight writable bytes.
    unsafe { libc::preadv2(fd, &part, 1, -1, libc::RWF_NOWAIT) == 8 }
}

/// A lock on a folder. Whoever holds it may start the fabric in it or remove it; it ends with
/// the process.
#[derive(Debug)]
pub struct FolderLock {
    _folder: File,
}

impl FolderLock {
    /// Waits for the lock. `None` if the folder is gone, or went while we waited and may have
    /// been created anew.
    pub fn wait(folder: &Path) -> io::Result<Option<Self>> {
        Self::take(folder, libc::LOCK_EX)
    }

    /// Takes the lock if it is free at once.
    pub fn try_now(folder: &Path) -> io::Result<Option<Self>> {
        Self::take(folder, libc::LOCK_EX | libc::LOCK_NB)
    }

    fn take(folder: &Path, how: libc::c_int) -> io::Result<Option<Self>> {
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let opened = match File::open(folder) {
            Err(error) if gone(&error) => return Ok(None),
            opened => opened?,
        };
        loop {
            // SAFETY: our own descriptor.
            match check(unsafe { libc::flock(opened.as_raw_fd(), how) }) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let locked = opened.metadata()?;
        match fs::symlink_metadata(folder) {
            Ok(now) if (now.dev(), now.ino()) == (locked.dev(), locked.ino()) => {
                Ok(Some(Self { _folder: opened }))
            }
            Err(error) if !gone(&error) => Err(error),
            _ => Ok(None),
        }
    }
}

/// Leaves the process that started this one behind: it becomes no child of it or of the program
/// that it turns into, which might wait for all its children. The terminal and everything else
/// that was inherited is left behind as well. Call it before anything else.
pub fn become_daemon() -> io::Result<()> {
    // SAFETY: there is but one thread.
    if check(unsafe { libc::fork() })? > 0 {
        // SAFETY: has no preconditions.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: changes attributes of this process.
    unsafe { libc::setsid() };
    // SAFETY: as above.
    unsafe { libc::umask(0o077) };
    // Waits of some tens of microseconds are not to become twice as long.
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, TIMER_SLACK_NS) };
    // Kernels before 5.9 do not know the call; then the descriptors stay open, which harms nobody
    // but a reader of the other end of a pipe.
    // SAFETY: nobody in this process has opened a file yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    Ok(())
}

/// Moves a descriptor out of the way of those that the program opens, if there is room.
pub fn hide(fd: OwnedFd) -> OwnedFd {
    // SAFETY: a new descriptor of the same open file, which is nobody else's.
    match check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIDDEN_FROM) }) {
        // SAFETY: created above.
        Ok(high) => unsafe { OwnedFd::from_raw_fd(high) },
        Err(_) => fd,
    }
}

/// Keeps a file open in the program that this process is about to become.
pub fn keep_across_exec(fd: OwnedFd) -> io::Result<()> {
    let fd = hide(fd).into_raw_fd();
    // SAFETY: changes a flag of a descriptor that is deliberately left open.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }).map(drop)
}

/// Lets every process of this user reach this one's memory, where Yama would restrict that.
pub fn allow_peers() {
    // SAFETY: changes an attribute of this process; fails where Yama is not there.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
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
pub fn read_word(pid: u32, address: u64) -> io::Result<u64> {
    let mut word = 0;
    let (local, remote) = parts(&mut word, address);
    // SAFETY: the local part is a writable word; the remote address is checked by the kernel.
    let copied = unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, &remote, 1, 0) };
    whole_word(copied).map(|()| word)
}

/// Writes a word of another process. The caller knows what lies there.
pub fn write_word(pid: u32, address: u64, mut word: u64) -> io::Result<()> {
    let (local, remote) = parts(&mut word, address);
    // SAFETY: the local part is a readable word; the remote address is checked by the kernel.
    let copied = unsafe { libc::process_vm_writev(pid as libc::pid_t, &local, 1, &remote, 1, 0) };
    whole_word(copied)
}

/// A file that is nowhere but in memory. The name shows in /proc/PID/maps.
pub fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: the name is a C string.
    let fd = check(unsafe {
        libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
    })?;
    // SAFETY: created above, and nobody else's.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Makes the size of a memory file what it is for ever: whoever else has it cannot take pages away
/// under those who have mapped it.
pub fn seal_size(file: &File) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: our own descriptor.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }).map(drop)
}

/// Whether a file is a library or program for this machine. It is not loaded, only looked at.
pub fn is_for_this_machine(file: &Path) -> bool {
    /// Identification (magic, class, byte order, version) and machine.
    fn kind(file: &Path) -> io::Result<([u8; 7], [u8; 2])> {
        let mut header = [0; 20];
        File::open(file)?.read_exact(&mut header)?;
        let mut identification = [0; 7];
        identification.copy_from_slice(&header[..7]);
        Ok((identification, [header[18], header[19]]))
    }
    let own = kind(Path::new("/proc/self/exe"));
    matches!((kind(file), own), (Ok(file), Ok(own)) if file == own)
}

/// Whether the loader finds a library. It stays loaded.
pub fn try_library(name: &CStr) -> bool {
    // SAFETY: the name is a C string; the libraries asked for do nothing when they are loaded
    // but register themselves.
    !unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY) }.is_null()
}

/// Whether this process has loaded a library whose file name begins so.
pub fn has_library(name: &str) -> bool {
    struct Search<'a> {
        name: &'a [u8],
        is_found: bool,
    }
    unsafe extern "C" fn look(
        library: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        search: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: the search that is given below, used by nobody else meanwhile.
        let search = unsafe { &mut *search.cast::<Search<'_>>() };
        // SAFETY: the loader gives a valid entry.
        let path = unsafe { (*library).dlpi_name };
        if !path.is_null() {
            // SAFETY: names of libraries are C strings.
            let path = unsafe { CStr::from_ptr(path) }.to_bytes();
            let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            search.is_found |= file.starts_with(search.name);
        }
        0
    }
    let mut search = Search { name: name.as_bytes(), is_found: false };
    // SAFETY: the function gets what it expects, and the search lives until the end of the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.is_found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("soft-hca-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn a_lock_keeps_others_out() {
        let folder = folder("lock");
        let first = FolderLock::try_now(&folder).unwrap();
        assert!(first.is_some());
        assert!(FolderLock::try_now(&folder).unwrap().is_none());
        drop(first);
        assert!(FolderLock::wait(&folder).unwrap().is_some());
        fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_went_is_not_locked() {
        let folder = folder("gone");
        let first = FolderLock::wait(&folder).unwrap().unwrap();
        let waiting = std::thread::spawn({
            let folder = folder.clone();
            move || FolderLock::wait(&folder).unwrap().is_some()
        });
        fs::remove_dir(&folder).unwrap();
        drop(first);
        assert!(!waiting.join().unwrap());
    }

    #[test]
    fn libraries_of_this_process() {
        assert!(has_library("libc.so"));
        assert!(!has_library("libno-such-library.so"));
    }

    #[test]
    fn files_for_this_machine() {
        assert!(is_for_this_machine(&std::env::current_exe().unwrap()));
        assert!(!is_for_this_machine(Path::new("/etc/passwd")));
        assert!(!is_for_this_machine(Path::new("/")));
    }

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
}
