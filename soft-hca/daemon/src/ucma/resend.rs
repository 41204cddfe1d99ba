//! Retransmission of messages until they are answered: REQ, REP, DREQ and SIDR_REQ, which the
//! kernel's `mad.c` repeats.
//!
//! The source address of a REQ may be forged, and then the REPs go to a host that has asked for
//! nothing. So there are few REPs until the other side sends something that only a REP can have
//! told it (RFC 9000, 8.1, has the same rule and limit). A kernel sends its RTU again when a REP
//! comes again; since REPs are few, the RTU is repeated here without one.

use soft_hca_roce::wire::cm::{Answered, CommId, Message, Mra};

use super::cm::Cm;
use super::connection::ConnectionState;
use super::host::Cx;
use super::id::Key;
use super::peer::Peer;
use super::timer::{
    GIVE_UP_NS, PACKET_LIFE_NS, REMOTE_RESPONSE_NS, RESPONSE_NS, Timer, cm_timeout_ns,
};
use super::wire::Envelope;

/// Answers to each REQ of a side that is not heard of yet, at most.
const MOST_ANSWERS: u32 = 3;

impl Cm {
    /// Sends a message of an id's connection and waits for the answer. No message to an id of this
    /// machine gets lost; only a request may meet a listener that has no room.
    pub(super) fn send_until_answered(&mut self, cx: &mut Cx<'_>, key: Key, envelope: Envelope) {
        let is_request = matches!(envelope.message, Message::Req(_));
        let Ok(connection) = self.ids.connection_mut(key) else { return };
        connection.retries = 0;
        let again = connection.peer.is_remote() || is_request;
        let peer = connection.peer;
        connection.answered += 1;
        connection.unanswered = again.then(|| Box::new(envelope.clone()));
        self.wait_for_answer(cx, key);
        self.messages.send(peer, envelope);
    }

    /// Repeats the RTU of a connection to another host until a message has come by the connection,
    /// or all retries are used: without an RTU the other side may not use the connection.
    pub(super) fn repeat_unless_heard(&mut self, cx: &mut Cx<'_>, key: Key, rtu: &Envelope) {
        let Ok(connection) = self.ids.connection_mut(key) else { return };
        if connection.peer.is_remote() {
            connection.retries = 0;
            connection.unanswered = Some(Box::new(rtu.clone()));
            self.wait_for_answer(cx, key);
        }
    }

    pub(super) fn wait_for_answer(&mut self, cx: &mut Cx<'_>, key: Key) {
        let Ok(connection) = self.ids.connection(key) else { return };
        let wait_ns = match (connection.peer, connection.state) {
            (Peer::Local, ConnectionState::ReqSent) => RESPONSE_NS,
            // The active side answers in any case.
            (Peer::Local, ConnectionState::RepSent) => return,
            (Peer::Local, _) => GIVE_UP_NS,
            // `cm_req`'s and, on the same side, its disconnection's count the way.
            (Peer::Remote { .. }, ConnectionState::ReqSent) => {
                REMOTE_RESPONSE_NS + 2 * PACKET_LIFE_NS
            }
            (Peer::Remote { .. }, ConnectionState::DreqSent) if connection.is_active => {
                REMOTE_RESPONSE_NS + 2 * PACKET_LIFE_NS
            }
            (Peer::Remote { .. }, _) => REMOTE_RESPONSE_NS,
        };
        self.set_timer(key, cx.now_ns.saturating_add(wait_ns), Timer::Answer);
    }

    /// Sends the unanswered message again: what it got may have been lost.
    pub(super) fn send_again(&mut self, key: Key) {
        let Ok(connection) = self.ids.connection_mut(key) else { return };
        let peer = connection.peer;
        connection.answered += 1;
        if let Some(envelope) = connection.unanswered.as_deref().cloned() {
            self.messages.send(peer, envelope);
        }
    }

    /// Whether a message is to be sent again although the other side has not asked for it again.
    pub(super) fn is_sent_again(&self, cx: &Cx<'_>, key: Key) -> bool {
        let Ok(connection) = self.ids.connection(key) else { return false };
        match connection.state {
            ConnectionState::RepSent => {
                connection.is_heard
                    || connection.answered < connection.asked.saturating_mul(MOST_ANSWERS)
                    || cx.host.has_heard(connection.qpn)
            }
            ConnectionState::Established => !cx.host.has_heard(connection.qpn),
            _ => true,
        }
    }

    /// The answer has come, or none is wanted any more.
    pub(super) fn is_answered(&mut self, key: Key) {
        self.cancel_timer(key);
        if let Ok(connection) = self.ids.connection_mut(key) {
            connection.unanswered = None;
        }
    }

    /// `cm_mra_handler`: the message has come, and the answer will take a while.
    pub(super) fn received_mra(&mut self, cx: &mut Cx<'_>, from: Peer, mra: &Mra) {
        let active = || self.connection_of(from, mra.remote_comm_id, CommId::NONE);
        let (key, state) = match mra.answered {
            Answered::Req => (active(), ConnectionState::ReqSent),
            Answered::Rep => {
                let key = self.connection_of(from, mra.remote_comm_id, mra.local_comm_id);
                (key, ConnectionState::RepSent)
            }
            Answered::Other | Answered::Reserved => return,
        };
        let Some(key) = key.filter(|key| self.ids.connection_state(*key) == Some(state)) else {
            return;
        };
        if let Ok(connection) = self.ids.connection_mut(key) {
            connection.is_heard = true;
        }
        if from == Peer::Local {
            // It does not go without a word.
            return self.cancel_timer(key);
        }
        let wait_ns = cm_timeout_ns(mra.service_timeout & 0x1f) + REMOTE_RESPONSE_NS;
        self.set_timer(key, cx.now_ns.saturating_add(wait_ns), Timer::Answer);
    }
}
