//! The words of the verbs as types, each once: numbers of rdma-core's headers and their names, and why
//! work requests fail and calls are refused.
//!
//! ```
//! use soft_hca_verbs::WcStatus;
//!
//! assert_eq!(WcStatus(12), WcStatus::RETRY_EXC_ERR);
//! assert_eq!(WcStatus(12).to_string(), "IBV_WC_RETRY_EXC_ERR");
//! assert_eq!("IBV_WC_RETRY_EXC_ERR".parse(), Ok(WcStatus(12)));
//! assert_eq!(WcStatus(99).to_string(), "99");
//! ```
//!
//! A word is a number that may have any value, for it comes from a device, a file or a program, and
//! some values have names. It is written and read, by [`serde`], too, as the name, or as the number
//! where there is none. Flags are sets of bits with names, joined by `|`.
//!
//! | file | what | header |
//! | --- | --- | --- |
//! | `word` | how words are defined, written and read | |
//! | `work` | work requests | `infiniband/verbs.h` |
//! | `completion` | completions | |
//! | `queue_pair` | states and types of queue pairs, what a change of state comes with | |
//! | `memory` | access to memory | |
//! | `event` | asynchronous events, and those of the connection manager | and `rdma/rdma_cma.h` |
//! | `port` | ports and paths | |
//! | `limit` | limits of devices | |
//! | `object` | kinds of objects | |
//! | `error_number` | error numbers of refused calls | `errno.h` |
//! | [`cause`] | why work requests wait or fail | |
//! | `choice` | choices that `--strict` makes | |
//! | `failure` | failures that adapters tell apart by a number of their own | |
//! | `refusal` | why calls are refused | |
//! | `number_span` | successive things by their numbers | |
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

#[macro_use]
mod word;

pub mod cause;
mod choice;
mod completion;
mod error_number;
mod event;
mod failure;
mod limit;
mod memory;
mod number_span;
mod object;
mod port;
mod queue_pair;
mod refusal;
mod work;

pub use cause::Cause;
pub use choice::{Choice, Choices, NoChoices, Subject};
pub use completion::{WcFlags, WcOpcode, WcStatus};
pub use error_number::ErrorNumber;
pub use event::{CmEvent, EventType};
pub use failure::{Failure, VendorErrors};
pub use limit::DeviceLimit;
pub use memory::{AccessFlags, MwType, OdpCaps};
pub use number_span::{NoNumbers, NumberSpan};
pub use object::ObjectKind;
pub use port::{Mtu, PortState};
pub use queue_pair::{QpAttrMask, QpState, QpType, SrqAttrMask, Transition};
pub use refusal::Refusal;
pub use word::{Unknown, list, number};
pub use work::{Placement, Selectivity, SendFlags, WrOpcode};

/// The same values as plain numbers, as they stand in rings and shared memory.
pub mod numbers {
    pub use crate::completion::{status, wc_flag, wc_opcode};
    pub use crate::event::{cm_event, event};
    pub use crate::memory::{access, mw_type, odp};
    pub use crate::port::{mtu, port_state};
    pub use crate::queue_pair::{qp_attr, qp_type, state};
    pub use crate::work::{opcode, placement, selectivity, send_flag};
}
