//! How bad an entry is.

use soft_hca_verbs::{EventType, WcStatus};

use crate::connection;
use crate::entry::{Call, Entry, Outcome, PacketNote, What};

/// How bad an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// As it should be.
    Well,
    /// It has to wait, or was given back unexecuted because something else has failed.
    Notable,
    /// A failure.
    Failure,
}

impl Severity {
    /// How bad an entry is.
    pub(crate) fn of(entry: &Entry) -> Self {
        let by_status = |status| match status {
            WcStatus::SUCCESS => Self::Well,
            WcStatus::WR_FLUSH_ERR => Self::Notable,
            _ => Self::Failure,
        };
        match &entry.what {
            What::Call(Call { result: Outcome::Refused { .. }, .. }) => Self::Failure,
            What::ConnectionEvent(event) if connection::has_failed(event.event, event.status) => {
                Self::Failure
            }
            What::ConnectionEvent(_) => Self::Well,
            What::AsyncEvent { event, .. } => match *event {
                EventType::COMM_EST
                | EventType::SQ_DRAINED
                | EventType::QP_LAST_WQE_REACHED
                | EventType::SRQ_LIMIT_REACHED
                | EventType::PATH_MIG
                | EventType::PORT_ACTIVE
                | EventType::CLIENT_REREGISTER => Self::Well,
                _ => Self::Failure,
            },
            What::Stalled { .. } | What::Dropped { .. } => Self::Notable,
            // A datagram that was dropped.
            What::Executed(executed)
                if executed.status == WcStatus::SUCCESS && executed.reason.is_some() =>
            {
                Self::Notable
            }
            What::Executed(executed) => by_status(executed.status),
            What::Completion(completion) if completion.lost => Self::Failure,
            What::Completion(completion) => by_status(completion.status),
            What::Packet(packet) => match packet.note {
                Some(PacketNote::Nak(_)) => Self::Failure,
                Some(
                    PacketNote::Retransmission(_) | PacketNote::RnrNak(_) | PacketNote::Ignored(_),
                ) => Self::Notable,
                Some(PacketNote::Ack) | None => Self::Well,
            },
            _ => Self::Well,
        }
    }
}
