//! The link to other hosts: RoCE v2 over UDP sockets of an ordinary user.
//!
//! | file | what |
//! | --- | --- |
//! | `handle` | what the rest of the daemon sees of it |

mod handle;

pub(crate) use handle::{Handle, ReceivedMad};
