//! Where this process posts what a peer's sanitizer may report. Whether it has one itself does not matter, except that a
//! sanitizer's runtime knows the line.
#![allow(unsafe_code, reason = "a function of sanitizers")]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use soft_hca_core::arena::{PLACES, Place};

use super::runtime::function;
use crate::client::of_process::OfProcess;
use crate::client::process::Process;
use crate::client::site;

/// `__sanitizer_symbolize_pc` of `sanitizer/common_interface_defs.h`.
type Symbolize = unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_char, usize);

/// Numbers of places in the arena, by the addresses behind their calls.
static NUMBERS: OfProcess<HashMap<Vec<usize>, u32>> = OfProcess::new();

/// The number of the place where the calling thread's program is; 0 if it has none.
pub(super) fn number(process: &Process) -> u32 {
    let stack = site::callers();
    let callers = stack.callers();
    let mut numbers = NUMBERS.lock();
    if let Some(number) = numbers.get(callers) {
        return *number;
    }
    let Some(places) = process.arena.places.get(process.index).filter(|_| numbers.len() < PLACES)
    else {
        return 0;
    };
    let Some(place) = line(callers).or_else(|| offset(callers)) else { return 0 };
    let number = numbers.len() as u32 + 1;
    places.set(number, Place::new(&place));
    numbers.insert(callers.to_vec(), number);
    number
}

/// File and line of the program's innermost own function, if a sanitizer's runtime knows them: where headers are not
/// inlined, their functions have frames before it.
fn line(callers: &[usize]) -> Option<String> {
    // SAFETY: the type of that function.
    let symbolize: Symbolize = unsafe { function(c"__sanitizer_symbolize_pc") }?;
    let lines = callers.iter().filter_map(|caller| {
        let mut text = [0u8; 512];
        // SAFETY: any address, and room for so many letters, of which the last stays zero. The address of the call itself
        // is before the one behind it.
        unsafe {
            let call = (caller - 1) as *mut c_void;
            symbolize(call, c"%s:%l".as_ptr(), text.as_mut_ptr().cast(), text.len() - 1);
        }
        let text = CStr::from_bytes_until_nul(&text).ok()?.to_str().ok()?;
        let (file, line) = text.rsplit_once(':')?;
        let is_known = line.parse::<u32>().is_ok_and(|line| line > 0);
        let file = Path::new(file);
        let name = file.file_name()?.to_str()?;
        (is_known && !is_of_libraries(file)).then(|| format!("{name}:{line}"))
    });
    { lines }.next()
}

/// Whether a source file is a header of libibverbs or librdmacm, which have them in folders of these names.
fn is_of_libraries(file: &Path) -> bool {
    let folder = file.parent().and_then(Path::file_name);
    let is_header = file.extension().is_some_and(|extension| extension == "h");
    is_header && folder.is_some_and(|folder| folder == "infiniband" || folder == "rdma")
}

/// The file of code, and the call's offset there, for `addr2line`.
fn offset(callers: &[usize]) -> Option<String> {
    let (name, offset) = site::file_and_offset(*callers.first()?)?;
    Some(format!("{name}+{offset:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_libraries_are_no_places() {
        for header in
            ["/usr/include/infiniband/verbs.h", "/opt/rdma-core/librdmacm/rdma/rdma_cma.h"]
        {
            assert!(is_of_libraries(Path::new(header)));
        }
        for own in [
            "/home/me/rdma/server.c",
            "/home/me/rdma/src/wire.h",
            "/home/me/infiniband/a.rs",
            "a.h",
        ] {
            assert!(!is_of_libraries(Path::new(own)));
        }
    }

    #[test]
    fn without_a_sanitizer_a_place_is_an_offset_in_a_file() {
        let function = libc::getpid as *const () as usize;
        assert_eq!(line(&[function]), None);
        let place = offset(&[function + 1]).unwrap();
        let (file, offset) = place.split_once("+0x").unwrap();
        assert!(file.starts_with("libc"), "{place}");
        assert!(usize::from_str_radix(offset, 16).is_ok_and(|offset| offset < function), "{place}");
        assert_eq!(super::offset(&[8]), None);
    }
}
