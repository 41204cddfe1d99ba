//! The link to other hosts: RoCE v2 over UDP sockets of an ordinary user.
//!
//! | file | what |
//! | --- | --- |
//! | `handle` | what the rest of the daemon sees of it |

mod handle;

#[allow(unused_imports, reason = "the connection manager comes to use both")]
pub(crate) use handle::{Handle, ReceivedMad};
