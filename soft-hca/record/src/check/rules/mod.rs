//! The rules, each a file or a folder: what it looks for, and its advice. `soft-hca/mistakes` has a wrong program for each,
//! `soft-hca/docs/check.md` a line.

mod after_error;
mod arm_order;
mod buffer_early;
mod cq_full;
mod fork;
mod inline_size;
mod leaked;
mod overlap;
mod path_mtu;
mod pkey_index;
mod polled_memory;
mod polled_twice;
mod queue_full;
mod race;
mod read_depth;
mod receive_gone;
mod receive_late;
mod refused;
mod rkey_stale;
mod sge_count;
mod srq_limit;
mod state;
mod timers;
mod unacked;
mod unsignaled_run;

use super::found::Lookout;
use super::rule::{Advice, Rule};

macro_rules! rules {
    ($($rule:ident => $file:ident::$lookout:ident,)*) => {
        impl Rule {
            fn advice(self) -> &'static Advice {
                match self {
                    $(Self::$rule => &$file::ADVICE,)*
                }
            }

            /// The rule, as it follows a record from the beginning.
            pub(super) fn lookout(self) -> Box<dyn Lookout> {
                match self {
                    $(Self::$rule => Box::<$file::$lookout>::default(),)*
                }
            }
        }
    };
}

rules! {
    AfterError => after_error::AfterError,
    ArmOrder => arm_order::ArmOrder,
    BufferEarly => buffer_early::BufferEarly,
    CqFull => cq_full::CqFull,
    Fork => fork::Fork,
    InlineSize => inline_size::InlineSize,
    Leaked => leaked::Leaked,
    Overlap => overlap::Overlap,
    PathMtu => path_mtu::PathMtu,
    PkeyIndex => pkey_index::PkeyIndex,
    PolledMemory => polled_memory::PolledMemory,
    PolledTwice => polled_twice::PolledTwice,
    QueueFull => queue_full::QueueFull,
    Race => race::Races,
    ReadDepth => read_depth::ReadDepth,
    ReceiveGone => receive_gone::ReceiveGone,
    ReceiveLate => receive_late::ReceiveLate,
    Refused => refused::Refused,
    RkeyStale => rkey_stale::RkeyStale,
    SgeCount => sge_count::SgeCount,
    SrqLimit => srq_limit::SrqLimit,
    State => state::State,
    Timers => timers::Timers,
    Unacked => unacked::Unacked,
    UnsignaledRun => unsignaled_run::UnsignaledRun,
}

impl Rule {
    /// Why it matters elsewhere.
    pub fn why(self) -> &'static str {
        self.advice().why
    }

    /// The cure.
    pub fn cure(self) -> &'static str {
        self.advice().cure
    }
}
