//! The start of a process, before its `main`.

use crate::client;
use crate::real;

extern "C" fn starts() {
    real::find();
    client::starts();
}

/// The loader calls this function when it loads the library.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = starts;
