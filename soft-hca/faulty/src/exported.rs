//! Functions of libibverbs and librdmacm. A definition without a version satisfies references to any.

use std::ffi::{CStr, c_void};
use std::mem;

use soft_hca_core::system::Next;
use soft_hca_fault::Verb;
use soft_hca_fault::each_verb;

use crate::argument::{Argument, Id, Ptr, Qp};
use crate::{failed, faults, operations, returned};

/// The library that a function is in.
const fn library(name: &str) -> &'static CStr {
    if name.as_bytes()[0] == b'i' { c"libibverbs.so.1" } else { c"librdmacm.so.1" }
}

/// Calls that give a context.
const OPENING: [usize; 2] =
    [Verb::index_of("ibv_open_device"), Verb::index_of("ibv_import_device")];

const fn name(with_nul: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(with_nul.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("it ends with NUL"),
    }
}

macro_rules! functions {
    (
        exported { $($name:ident($($arg:ident: $type:ident),*) -> $fails:ident;)* }
        operations { $($operations:tt)* }
        extended { $($extended:tt)* }
    ) => { $(
        #[doc = concat!("`", stringify!($name), "(3)`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> returned!($fails) {
            const VERB: usize = Verb::index_of(stringify!($name));
            static NEXT: Next = Next::of(
                name(concat!(stringify!($name), "\0")),
                library(stringify!($name)),
            );
            // SAFETY: the program passes what the function's declaration says, or null.
            if let Some(_errno) = faults::meet(VERB, || None$(.or(unsafe { $arg.qpn() }))*) {
                return failed!($fails, _errno);
            }
            let address = NEXT.address();
            if address.is_null() {
                faults::set_errno(libc::ENOSYS);
                return failed!($fails, libc::ENOSYS);
            }
            type Function = unsafe extern "C-unwind" fn($($type),*) -> returned!($fails);
            // SAFETY: the symbol is this function of the library.
            let function = unsafe { mem::transmute::<*mut c_void, Function>(address) };
            faults::enter();
            // SAFETY: the library's function gets what the program has given to ours.
            let returned = unsafe { function($($arg),*) };
            faults::leave();
            if OPENING[0] == VERB || OPENING[1] == VERB {
                // SAFETY: these functions return a new context, which nobody uses yet, or null.
                unsafe { operations::hook(returned.word()) };
            }
            returned
        }
    )* };
}

each_verb!(functions);
