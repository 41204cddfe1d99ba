//! Messages that have come.

use std::net::IpAddr;

use soft_hca_roce::wire::cm::Message;
use soft_hca_roce::wire::mad::MAD_BYTES;

use super::cm::Cm;
use super::host::{Cx, Host};
use super::messages::Outgoing;
use super::peer::Peer;
use super::wire::{self, Envelope, NoMessage};

impl Cm {
    /// Receives the messages that ids of this fabric have sent each other, and those that these bring
    /// forth.
    pub(super) fn deliver(&mut self, cx: &mut Cx<'_>) {
        while let Some((from, envelope)) = self.messages.take() {
            self.received(cx, from, envelope);
        }
    }

    /// A message has come. Its handler decides what it means for the id that it is for; nothing else
    /// comes from the other end.
    fn received(&mut self, cx: &mut Cx<'_>, from: Peer, envelope: Envelope) {
        let cx = &mut cx.answering(envelope.transaction);
        match &envelope.message {
            Message::Req(req) => self.received_req(cx, from, req, &envelope),
            Message::Mra(mra) => self.received_mra(cx, from, mra),
            Message::Rej(rej) => self.received_rej(from, rej),
            Message::Rep(rep) => self.received_rep(cx, from, rep, envelope.ece_options),
            Message::Rtu(rtu) => self.received_rtu(from, rtu),
            Message::Dreq(dreq) => self.received_dreq(cx, from, dreq),
            Message::Drep(drep) => self.received_drep(cx, from, drep),
            Message::SidrReq(req) => self.received_sidr_req(cx, from, req, &envelope),
            Message::SidrRep(rep) => self.received_sidr_rep(cx, from, rep),
        }
    }

    /// A management datagram has come from another host's queue pair 1: `from` and `to` are the
    /// addresses of its packet. A datagram that is no message is dropped, or refused if it is a request.
    pub(crate) fn receive(
        &mut self,
        host: &mut dyn Host,
        (from, to): (IpAddr, IpAddr),
        mad: &[u8; MAD_BYTES],
        now_ns: u64,
    ) {
        let cx = &mut self.at(host, now_ns);
        let peer = Peer::Remote { own: to.to_canonical(), address: from.to_canonical() };
        match wire::decode(mad, (from, to)) {
            Ok(envelope) => self.received(cx, peer, envelope),
            Err(NoMessage::Refused(answer)) => {
                self.messages.count_dropped(from, "a request that cannot be met");
                self.messages.send(peer, *answer);
            }
            Err(NoMessage::Dropped(why)) => self.messages.count_dropped(from, why),
        }
        self.deliver(cx);
    }

    /// Messages for other hosts, to be sent in this order.
    pub(crate) fn take_messages(&mut self) -> Vec<Outgoing> {
        self.messages.take_outgoing()
    }
}
