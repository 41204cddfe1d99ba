//! The advice of each rule.

use super::rule::{Advice, Rule};
use super::rules;

impl Rule {
    fn advice(self) -> &'static Advice {
        match self {
            Self::ReceiveLate => &rules::receive_late::ADVICE,
            Self::BufferEarly => &rules::buffer_early::ADVICE,
            Self::ReceiveGone => &rules::receive_gone::ADVICE,
            Self::Overlap => &rules::overlap::ADVICE,
            Self::UnsignaledRun => &rules::unsignaled_run::ADVICE,
            Self::QueueFull => &rules::queue_full::ADVICE,
            Self::CqFull => &rules::cq_full::ADVICE,
            Self::SgeCount => &rules::sge_count::ADVICE,
            Self::InlineSize => &rules::inline_size::ADVICE,
            Self::PkeyIndex => &rules::pkey_index::ADVICE,
            Self::ArmOrder => &rules::arm_order::ADVICE,
            Self::SrqLimit => &rules::srq_limit::ADVICE,
            Self::PathMtu => &rules::path_mtu::ADVICE,
            Self::Leaked => &rules::leaked::ADVICE,
            Self::Race => &rules::race::ADVICE,
            Self::ReadDepth => &rules::read_depth::ADVICE,
            Self::PolledMemory => &rules::polled_memory::ADVICE,
            Self::Timers => &rules::timers::ADVICE,
            Self::AfterError => &rules::after_error::ADVICE,
            Self::State => &rules::state::ADVICE,
            Self::RkeyStale => &rules::rkey_stale::ADVICE,
            Self::Unacked => &rules::unacked::ADVICE,
            Self::Fork => &rules::fork::ADVICE,
            Self::PolledTwice => &rules::polled_twice::ADVICE,
            Self::Refused => &rules::refused::ADVICE,
        }
    }

    /// Why it matters elsewhere.
    pub fn why(self) -> &'static str {
        self.advice().why
    }

    /// The cure.
    pub fn cure(self) -> &'static str {
        self.advice().cure
    }
}
