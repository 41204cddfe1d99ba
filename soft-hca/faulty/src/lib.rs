//! The functions of libibverbs and librdmacm that a program's calls meet where some of them are to
//! fail. It is preloaded only then.
//!
//! | file | what |
//! | --- | --- |
//! | `exported` | functions of the libraries, by their names |
//! | `operations` | functions of a context, which inline functions of `verbs.h` call |
//! | `faults` | whether something happens to a call |
//! | `argument`, `objects`, `layout` | what is looked at in the libraries' structures |
//!
//! Calls may block, and a thread may be cancelled (`pthread_cancel`) meanwhile, which ends functions
//! here midway: they hold nothing then.
#![allow(unsafe_code, reason = "functions that C programs call")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the libraries' functions"
)]

mod argument;
mod exported;
mod faults;
mod layout;
mod objects;
mod operations;

/// The value that a function returns, by how it fails.
macro_rules! returned {
    (Null) => {
        $crate::argument::Ptr
    };
    (MinusOne) => {
        std::ffi::c_int
    };
    (Number) => {
        std::ffi::c_int
    };
    (Never) => {
        ()
    };
}

/// The value of a function that fails with an error number, or is skipped: 0.
macro_rules! failed {
    (Null, $errno:expr) => {{
        let _ = $errno;
        $crate::argument::Ptr::NULL
    }};
    (MinusOne, $errno:expr) => {
        if $errno == 0 { 0 } else { -1 }
    };
    (Number, $errno:expr) => {
        $errno
    };
    (Never, $errno:expr) => {{
        let _ = $errno;
    }};
}

use {failed, returned};
