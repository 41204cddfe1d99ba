//! The files whose code a process runs.
#![allow(unsafe_code, reason = "the loader's list")]

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::{fs, slice};

#[cfg(target_arch = "x86_64")]
use crate::client::memory;

/// Whose code an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The code of this library, or of another one of soft-hca's.
    Ours,
    /// The code of libibverbs, librdmacm or a provider.
    Library,
    /// The code of a program or another library: where the file begins in memory, to tell it from others.
    Program(usize),
}

/// A file that is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Module {
    /// Addresses in memory are so much greater than in the file.
    pub base: usize,
    /// Its path.
    pub path: Vec<u8>,
    /// Hexadecimal digits, if it has one.
    pub build_id: Vec<u8>,
}

/// An address that is looked for, and the file that has it.
struct Search {
    address: usize,
    found: Option<Module>,
}

/// The file whose code an address is in.
pub(super) fn module_of(address: usize) -> Option<Module> {
    let mut search = Search { address, found: None };
    // SAFETY: `look` gets the search that it expects.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    let mut module = search.found?;
    // The program itself has no name there; others may have one that depends on where the program was started.
    let path = match &module.path[..] {
        [] => fs::read_link("/proc/self/exe"),
        name => fs::canonicalize(OsStr::from_bytes(name)),
    };
    if let Ok(path) = path {
        module.path = path.into_os_string().into_vec();
    }
    Some(module)
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: `module_of` passes its own `Search`, which outlives the walk and is used by it alone.
    let search = unsafe { &mut *data.cast::<Search>() };
    // SAFETY: the loader's description of a file, with a table of so many headers.
    let (info, headers) =
        unsafe { (&*info, slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum.into())) };
    let base = info.dlpi_addr as usize;
    let is_here = |header: &&libc::Elf64_Phdr| {
        let begins = base.wrapping_add(header.p_vaddr as usize);
        header.p_type == libc::PT_LOAD
            && search.address.wrapping_sub(begins) < header.p_memsz as usize
    };
    if !headers.iter().any(|header| is_here(&header)) {
        return 0;
    }
    // SAFETY: null, or a string of the loader's.
    let name = unsafe { info.dlpi_name.as_ref().map(|name| CStr::from_ptr(name)) };
    let notes = headers.iter().filter(|header| header.p_type == libc::PT_NOTE);
    let build_id = notes.into_iter().find_map(|header| {
        let begins = base.wrapping_add(header.p_vaddr as usize) as *const u8;
        // SAFETY: notes are loaded with the rest of the file.
        build_id(unsafe { slice::from_raw_parts(begins, header.p_memsz as usize) })
    });
    search.found = Some(Module {
        base,
        path: name.map(CStr::to_bytes).unwrap_or_default().to_vec(),
        build_id: build_id.unwrap_or_default(),
    });
    1
}

/// `NT_GNU_BUILD_ID`
const BUILD_ID: u32 = 3;

/// The build ID that is among notes, in hexadecimal digits.
fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let (header, behind) = notes.split_first_chunk::<12>()?;
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let (name, length) = (word(0) as usize, word(4) as usize);
        let (name, behind) = behind.split_at_checked(name.next_multiple_of(4))?;
        if word(8) == BUILD_ID && name == b"GNU\0" {
            let mut digits = String::new();
            for byte in behind.get(..length)? {
                let _ = write!(digits, "{byte:02x}");
            }
            return Some(digits.into_bytes());
        }
        notes = behind.get(length.next_multiple_of(4)..)?;
    }
}

/// Whose code an address is in; `None` if no file has it.
pub(super) fn whose(address: usize) -> Option<Whose> {
    let module = module_of(address)?;
    let file = module.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let begins = |words: &[&str]| words.iter().any(|word| file.starts_with(word.as_bytes()));
    let is_provider = file.windows(6).any(|part| part == b"-rdmav");
    Some(if begins(&["libsoft_hca"]) || module_of_ours() == Some(module.base) {
        Whose::Ours
    } else if is_provider || begins(&["libibverbs", "librdmacm"]) {
        Whose::Library
    } else {
        Whose::Program(module.base)
    })
}

/// Where this library is.
fn module_of_ours() -> Option<usize> {
    module_of(module_of_ours as *const () as usize).map(|module| module.base)
}

/// The symbol of a function that begins at an address, if it has one.
pub(super) fn symbol(function: usize) -> Option<Vec<u8>> {
    if function == 0 {
        return None;
    }
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: looks for what is loaded at an address, whatever that is.
    if unsafe { libc::dladdr(function as *const c_void, found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: `dladdr` has filled it; what it leaves out is zero, as numbers and pointers may be.
    let found = unsafe { found.assume_init() };
    // SAFETY: null, or a name of the file's.
    let name = unsafe { found.dli_sname.as_ref().map(|name| CStr::from_ptr(name)) };
    name.map(|name| name.to_bytes().to_vec())
}

/// Bytes of the program's.
#[cfg(target_arch = "x86_64")]
fn bytes<const N: usize>(address: usize) -> Option<[u8; N]> {
    memory::read(address as u64, N).ok()?.try_into().ok()
}

/// The function that the call instruction before an address calls, by the tables of the loader. It is
/// the one that the program has named: those that this one goes on to by a jump have no frame before
/// theirs, and may have no name.
#[cfg(target_arch = "x86_64")]
pub(super) fn called(behind: usize) -> Option<usize> {
    let word = |[a, b, c, d]: [u8; 4]| i32::from_le_bytes([a, b, c, d]) as isize;
    let by_table = |behind: usize, offset: [u8; 4]| {
        bytes(behind.wrapping_add_signed(word(offset))).map(usize::from_le_bytes)
    };
    match bytes::<6>(behind.wrapping_sub(6))? {
        // call *offset(%rip)
        [0xff, 0x15, offset @ ..] => by_table(behind, offset),
        // call offset: what is there may be a stub that jumps on.
        [_, 0xe8, offset @ ..] => {
            let target = behind.wrapping_add_signed(word(offset));
            let stub = bytes::<16>(target)?;
            // endbr64, and a prefix, may come before the jump.
            let skipped = if stub.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
            let skipped = skipped + usize::from(stub[skipped] == 0xf2);
            match stub[skipped..] {
                // jmp *offset(%rip)
                [0xff, 0x25, a, b, c, d, ..] => by_table(target + skipped + 6, [a, b, c, d]),
                _ => Some(target),
            }
        }
        _ => None,
    }
}

/// The same where the instructions are others: it is not known.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn called(_: usize) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_among_notes() {
        let note = |kind: u32, text: &[u8]| {
            let mut note = [4u32, text.len() as u32, kind].map(u32::to_ne_bytes).concat();
            note.extend(b"GNU\0");
            note.extend(text);
            note.resize(note.len().next_multiple_of(4), 0);
            note
        };
        let notes = [note(1, b"abcde"), note(BUILD_ID, &[0x1a, 0xb, 0xff])].concat();
        assert_eq!(build_id(&notes).as_deref(), Some(&b"1a0bff"[..]));
        assert_eq!(build_id(&note(1, b"abcde")), None);
        assert_eq!(build_id(&notes[..notes.len() - 4]), None);
        assert_eq!(build_id(&[]), None);
    }

    #[test]
    fn this_program_is_found_and_so_is_the_c_library() {
        let own = this_program_is_found_and_so_is_the_c_library as *const () as usize;
        let module = module_of(own).unwrap();
        let path = std::env::current_exe().unwrap();
        assert_eq!(module.path, path.into_os_string().into_vec());
        assert!(module.base <= own);
        // These tests are linked with this library.
        assert_eq!(whose(own), Some(Whose::Ours));
        let function = libc::getpid as *const () as usize;
        assert!(matches!(whose(function), Some(Whose::Program(_))));
        assert_eq!(symbol(libc::malloc as *const () as usize).as_deref(), Some(&b"malloc"[..]));
        assert_eq!((whose(0), module_of(8), symbol(0)), (None, None, None));
    }
}
