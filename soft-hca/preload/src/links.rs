//! `readlink`, `realpath` and what `ls -l` asks of a file besides its status, in
//! `/sys/class/infiniband*`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use crate::real;
use crate::sysfs::{self, Moved};

/// Defines functions that are the C library's but for the place of the path. In brackets stands
/// what comes before the path.
macro_rules! by_path {
    ($($name:ident[$($before:ident: $early:ty)?]($($after:ident: $late:ty),*);)*) => { $(
        #[doc = concat!("`", stringify!($name), "(2)`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            $($before: $early,)? path: *const c_char, $($after: $late),*
        ) -> isize {
            // SAFETY: the caller gives null or a C string, as this function's contract wants it.
            let moved = unsafe { sysfs::moved(path) };
            let path = moved.as_ref().map_or(path, Moved::as_ptr);
            // SAFETY: the caller keeps this function's contract, which is that of the C library's.
            unsafe { real::$name($($before,)? path, $($after),*) }
        }
    )* };
}

by_path! {
    readlink[](buffer: *mut c_char, bytes: usize);
    readlinkat[dir: c_int](buffer: *mut c_char, bytes: usize);
    __readlink_chk[](buffer: *mut c_char, bytes: usize, room: usize);
    __readlinkat_chk[dir: c_int](buffer: *mut c_char, bytes: usize, room: usize);
    getxattr[](name: *const c_char, value: *mut c_void, bytes: usize);
    lgetxattr[](name: *const c_char, value: *mut c_void, bytes: usize);
    listxattr[](names: *mut c_char, bytes: usize);
    llistxattr[](names: *mut c_char, bytes: usize);
}

/// Room for any resolved path and the zero at its end.
type Room = [u8; ROOM];
const ROOM: usize = libc::PATH_MAX as usize;

/// Where a path leads to; the caller gives a C string. The error is errno's.
unsafe fn resolved(path: *const c_char) -> Option<Room> {
    let mut room = [0; ROOM];
    // SAFETY: the caller's path, and room for any result.
    let found = unsafe { real::realpath(path, room.as_mut_ptr().cast()) };
    (!found.is_null()).then_some(room)
}

fn text(room: &Room) -> &[u8] {
    CStr::from_bytes_until_nul(room).map(CStr::to_bytes).unwrap_or_default()
}

/// A place as the program sees it: below `/sys` if it is in the tree whose root is given.
fn seen(root: &[u8], place: Room) -> Room {
    const SYS: &[u8] = b"/sys";
    let rest = match text(&place).strip_prefix(root) {
        Some(rest) if rest.is_empty() || rest[0] == b'/' => rest,
        _ => return place,
    };
    let mut room = [0; ROOM];
    let length = SYS.len() + rest.len();
    if length < room.len() {
        room[..SYS.len()].copy_from_slice(SYS);
        room[SYS.len()..length].copy_from_slice(rest);
    }
    room
}

/// `realpath(3)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn realpath(path: *const c_char, room: *mut c_char) -> *mut c_char {
    // SAFETY: the caller gives null or a C string, as this function's contract wants it.
    let Some(moved) = (unsafe { sysfs::moved(path) }) else {
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        return unsafe { real::realpath(path, room) };
    };
    let Some(sys) = sysfs::root() else { return ptr::null_mut() };
    // SAFETY: both are C strings that outlive the calls.
    let places = unsafe { resolved(moved.as_ptr()).zip(resolved(sys.as_ptr())) };
    let Some((place, root)) = places else { return ptr::null_mut() };
    let seen = seen(text(&root), place);
    if room.is_null() {
        // SAFETY: a C string; the caller frees the copy.
        unsafe { libc::strdup(seen.as_ptr().cast()) }
    } else {
        // SAFETY: a C string; the caller gives room for any path.
        unsafe { libc::strcpy(room, seen.as_ptr().cast()) }
    }
}

/// The name of `realpath` in hardened programs.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __realpath_chk(
    path: *const c_char,
    room: *mut c_char,
    bytes: usize,
) -> *mut c_char {
    // SAFETY: the caller gives null or a C string, as this function's contract wants it.
    if unsafe { sysfs::moved(path) }.is_some() && bytes >= size_of::<Room>() {
        // SAFETY: the caller keeps this function's contract, which is that of the C library's.
        return unsafe { realpath(path, room) };
    }
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { real::__realpath_chk(path, room, bytes) }
}

/// `canonicalize_file_name(3)`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: the path is the program's, and null asks for memory of the function's own.
    unsafe { realpath(path, ptr::null_mut()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(text: &str) -> Room {
        let mut room = [0; ROOM];
        room[..text.len()].copy_from_slice(text.as_bytes());
        room
    }

    #[test]
    fn what_is_in_the_tree_is_below_sys() {
        let seen = |place: &str| {
            String::from_utf8(text(&seen(b"/run/f/sys-rxe0", room(place))).to_vec()).unwrap()
        };
        assert_eq!(seen("/run/f/sys-rxe0/devices/virtual/a"), "/sys/devices/virtual/a");
        assert_eq!(seen("/run/f/sys-rxe0"), "/sys");
        assert_eq!(seen("/run/f/sys-rxe01/a"), "/run/f/sys-rxe01/a");
        assert_eq!(seen("/etc"), "/etc");
    }

    #[test]
    fn other_paths_are_resolved_as_ever() {
        let mut room = [0; ROOM];
        // SAFETY: a C string, and room for any path.
        let found = unsafe { realpath(c"/proc/../usr".as_ptr(), room.as_mut_ptr().cast()) };
        assert_eq!(found.cast_const().cast(), room.as_ptr());
        assert_eq!(text(&room), b"/usr");
        // SAFETY: the path is a C string, and null asks for memory of the function's own.
        assert!(unsafe { canonicalize_file_name(c"/no/such/file".as_ptr()) }.is_null());
    }
}
