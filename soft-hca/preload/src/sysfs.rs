//! `/sys/class/infiniband*` for programs that look there by themselves, as scripts do to learn a
//! device's network interface: they find the tree in which the libraries have found the device. The
//! links there lead to `/sys/devices/virtual/infiniband*`, which therefore is in the same tree.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

use crate::keeping_errno;
use crate::real;

/// How the paths begin that have another place.
const MOVED: [&[u8]; 2] = [b"/sys/class/infiniband", b"/sys/devices/virtual/infiniband"];
/// Where the machine has devices of its own, too: how many components name one of them. What the
/// other place does not have is not moved.
const SHARED: [(&[u8], usize); 2] = [(b"/sys/devices/pci", 4), (b"/sys/bus/pci/devices/", 5)];
/// The variable that names the folder in place of `/sys`.
const ROOT: &CStr = c"SYSFS_PATH";
/// The longest path that is moved.
const LONGEST: usize = 512;

/// A path in the other place. It owns nothing, since a thread that is cancelled in a call that
/// uses it frees nothing.
pub(crate) struct Moved([u8; LONGEST]);

impl Moved {
    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }
}

/// Where a path leads to, if not to where it says. The caller gives a C string or null.
pub(crate) unsafe fn moved(path: *const c_char) -> Option<Moved> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller gives a C string.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    if MOVED.iter().any(|moved| path.starts_with(moved)) {
        return moved_to(root()?.to_bytes(), path);
    }
    let (_, count) = SHARED.iter().find(|(shared, _)| path.starts_with(shared))?;
    let root = root()?.to_bytes();
    let device = moved_to(root, components(path, *count))?;
    // SAFETY: the path is a C string that outlives the call.
    let is_there = || unsafe { real::access(device.as_ptr(), libc::F_OK) } == 0;
    keeping_errno(is_there).then(|| moved_to(root, path)).flatten()
}

/// So many of a path's components, the first ones, or all if it has fewer.
fn components(path: &[u8], count: usize) -> &[u8] {
    let mut ends = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
    ends.nth(count - 1).map_or(path, |(end, _)| &path[..end])
}

/// The folder in place of `/sys`, as long as the program leaves its environment alone.
pub(crate) fn root() -> Option<&'static CStr> {
    // SAFETY: a name that ends with NUL.
    let root = unsafe { libc::getenv(ROOT.as_ptr()) };
    // SAFETY: `getenv` gives null or a C string of the environment, which nobody changes here.
    (!root.is_null()).then(|| unsafe { CStr::from_ptr(root) })
}

/// Whether a path, relative to a folder's descriptor or not, lies in the other place. The caller gives a
/// C string.
pub(crate) unsafe fn is_in_tree(dir: c_int, path: *const c_char) -> bool {
    let Some(root) = root() else { return false };
    // SAFETY: the caller gives a C string.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    if path.starts_with(b"/") {
        return path.starts_with(root.to_bytes());
    }
    let link = match dir {
        libc::AT_FDCWD => "/proc/self/cwd".to_owned(),
        fd => format!("/proc/self/fd/{fd}"),
    };
    let folder = std::fs::read_link(link);
    folder.is_ok_and(|folder| folder.as_os_str().as_bytes().starts_with(root.to_bytes()))
}

fn moved_to(root: &[u8], path: &[u8]) -> Option<Moved> {
    let rest = path.strip_prefix(b"/sys")?;
    let len = root.len() + rest.len();
    // The byte behind the path stays zero.
    if len >= LONGEST {
        return None;
    }
    let mut place = [0; LONGEST];
    place[..root.len()].copy_from_slice(root);
    place[root.len()..len].copy_from_slice(rest);
    Some(Moved(place))
}

/// `chdir(2)`: a shell's `cd`, as ibstatus has it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn chdir(path: *const c_char) -> c_int {
    // SAFETY: the caller gives null or a C string, as this function's contract wants it.
    let moved = unsafe { moved(path) };
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { real::chdir(moved.as_ref().map_or(path, Moved::as_ptr)) }
}

macro_rules! scandir_functions {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "(3)`, as libibumad lists a device's ports. What entries are chosen and in")]
        /// which order is for the caller's functions to say.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            path: *const c_char,
            list: *mut c_void,
            filter: *const c_void,
            compare: *const c_void,
        ) -> c_int {
            // SAFETY: the caller gives null or a C string, as this function's contract wants it.
            let moved = unsafe { moved(path) };
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { real::$name(moved.as_ref().map_or(path, Moved::as_ptr), list, filter, compare) }
        }
    )* };
}

scandir_functions!(scandir scandir64);

macro_rules! fopen_functions {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "(3)`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
            // SAFETY: the caller gives null or a C string, as this function's contract wants it.
            let moved = unsafe { moved(path) };
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { real::$name(moved.as_ref().map_or(path, Moved::as_ptr), mode) }
        }
    )* };
}

fopen_functions!(fopen fopen64);

#[cfg(test)]
mod tests {
    use super::*;

    fn text(root: &str, path: &str) -> Option<String> {
        let moved = moved_to(root.as_bytes(), path.as_bytes())?;
        let text = CStr::from_bytes_until_nul(&moved.0).expect("it ends with zero");
        Some(text.to_str().expect("both parts are text").to_owned())
    }

    #[test]
    fn a_path_of_sysfs_is_moved() {
        let moved = text("/run/f/sys-rxe0", "/sys/class/infiniband/rxe0/device/net");
        assert_eq!(moved.as_deref(), Some("/run/f/sys-rxe0/class/infiniband/rxe0/device/net"));
    }

    #[test]
    fn a_device_is_named_by_a_part_of_its_path() {
        let function = "/sys/devices/pci0000:3b/0000:3b:00.0";
        let device = |path: &'static str| components(path.as_bytes(), 4);
        assert_eq!(device("/sys/devices/pci0000:3b/0000:3b:00.0/numa_node"), function.as_bytes());
        assert_eq!(device("/sys/devices/pci0000:3b/0000:3b:00.0"), function.as_bytes());
        assert_eq!(device("/sys/devices/pci0000:3b"), b"/sys/devices/pci0000:3b");
    }

    #[test]
    fn a_path_without_room_is_not() {
        let long = format!("/sys/{}", "x".repeat(LONGEST - 5));
        assert_eq!(text("/r", &long[..LONGEST]).map(|text| text.len()), Some(LONGEST - 2));
        assert_eq!(text("/root", &long), None);
    }
}
