//! The parts of a run: setup, connection, messages, teardown.

use soft_hca_verbs::{CmEvent, QpState, WcStatus};

use super::Correlation;
use crate::arguments;
use crate::entry::{Entry, What};

/// A part of a run, as the course takes it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Setup,
    Connection,
    Messages,
    Teardown,
}

impl Phase {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Setup => "Setup",
            Self::Connection => "Connection",
            Self::Messages => "Messages",
            Self::Teardown => "Teardown",
        }
    }
}

/// Where each part begins, by the number of an entry. A part that begins where the next does is
/// empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phases {
    connection: usize,
    messages: usize,
    teardown: usize,
}

impl Phases {
    /// Takes a run apart.
    pub(crate) fn of(correlation: &Correlation<'_>) -> Self {
        let entries = correlation.entries;
        let first = |from: usize, is: &dyn Fn(&Entry) -> bool| {
            entries[from..].iter().position(is).map(|at| from + at)
        };
        let begins = first(0, &is_message);
        let done = entries.iter().rposition(moves);
        let messages = begins.unwrap_or(entries.len());
        let teardown = match (begins, done) {
            (_, Some(done)) => first(done, &takes_down),
            (Some(begins), None) => first(begins, &takes_down),
            // Without a message the connection is what counts.
            (None, None) => {
                let connected = entries.iter().rposition(connects);
                // Without a connection, the last call counts.
                let asked =
                    || entries.iter().rposition(|entry| is_call(entry) && !takes_down(entry));
                let connected = connected.or_else(asked).unwrap_or(0);
                first(connected, &takes_down)
            }
        }
        .unwrap_or(entries.len());
        let messages = messages.min(teardown);
        let by_manager = entries[..messages].iter().any(asks);
        let connection = first(0, &|entry| match by_manager {
            true => asks(entry),
            false => connects(entry),
        });
        Self { connection: connection.unwrap_or(messages).min(messages), messages, teardown }
    }

    /// The part that an entry is in.
    pub(crate) fn at(&self, at: usize) -> Phase {
        match at {
            _ if at >= self.teardown => Phase::Teardown,
            _ if at >= self.messages => Phase::Messages,
            _ if at >= self.connection => Phase::Connection,
            _ => Phase::Setup,
        }
    }
}

fn is_call(entry: &Entry) -> bool {
    matches!(entry.what, What::Call(_))
}

fn is_message(entry: &Entry) -> bool {
    matches!(entry.what, What::SendPosted(_) | What::Executed(_))
}

/// Whether a work request went its way, other than back.
fn moves(entry: &Entry) -> bool {
    match &entry.what {
        What::Executed(executed) => executed.status != WcStatus::WR_FLUSH_ERR,
        What::Completion(completion) => completion.status == WcStatus::SUCCESS,
        _ => false,
    }
}

/// Whether it begins a connection by the connection manager.
fn asks(entry: &Entry) -> bool {
    match &entry.what {
        What::Call(call) => {
            matches!(call.name.as_str(), "rdma_connect" | "rdma_join_multicast")
        }
        What::ConnectionEvent(event) => event.event == CmEvent::CONNECT_REQUEST,
        _ => false,
    }
}

/// Whether it is part of making a connection.
fn connects(entry: &Entry) -> bool {
    match &entry.what {
        What::Call(call) => matches!(call.name.as_str(), "ibv_modify_qp" | "rdma_accept"),
        What::ConnectionEvent(event) => event.event == CmEvent::ESTABLISHED,
        _ => asks(entry),
    }
}

fn takes_down(entry: &Entry) -> bool {
    const BEGINNINGS: [&str; 6] =
        ["rdma_disconnect", "rdma_destroy_", "rdma_leave_", "ibv_destroy_", "ibv_de", "ibv_close_"];
    match &entry.what {
        What::Call(call) if call.name == "ibv_modify_qp" => {
            arguments::word(&call.args, "qp_state") == Some(QpState::ERR)
        }
        What::Call(call) => BEGINNINGS.iter().any(|beginning| call.name.starts_with(beginning)),
        What::ConnectionEvent(event) => event.event == CmEvent::DISCONNECTED,
        What::ProcessEnded { .. } => true,
        _ => false,
    }
}
