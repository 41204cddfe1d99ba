//! Messages at the wrong time, again, or for nobody.

use std::net::SocketAddr;

use soft_hca_core::uapi::ucma::event_type::{
    CONNECT_REQUEST, CONNECT_RESPONSE, DISCONNECTED, ESTABLISHED, REJECTED, TIMEWAIT_EXIT,
    UNREACHABLE,
};
use soft_hca_roce::wire::bth::{Psn, Qpn};
use soft_hca_roce::wire::cm::{
    Answered, CommId, Drep, Dreq, Message, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq, reason,
};

use super::hostile::Random;
use super::hosts::{CLIENT, Hosts, SERVER, address};
use super::*;
use crate::ucma::Cx;
use crate::ucma::id::Space;
use crate::ucma::pending::MAX_PENDING_REMOTE;
use crate::ucma::timer::{LISTENER_NS, RESPONSE_NS, TIME_WAIT_NS};
use crate::ucma::wire::{self, Ends, Envelope};

const NOBODY: CommId = CommId(0x7777_7777);

fn rej(reason: u16, rejected: Answered, (local, remote): (CommId, CommId)) -> Message {
    let (local_comm_id, remote_comm_id) = (local, remote);
    Rej { local_comm_id, remote_comm_id, rejected, reason, ..Rej::default() }.into()
}

fn dreq(local_comm_id: CommId, remote_comm_id: CommId) -> Dreq {
    Dreq { local_comm_id, remote_comm_id, remote_qpn: Qpn::new(0x12), ..Dreq::default() }
}

fn drep(local_comm_id: CommId, remote_comm_id: CommId) -> Message {
    Drep { local_comm_id, remote_comm_id, ..Drep::default() }.into()
}

fn assert_silent(hosts: &mut Hosts) {
    for host in [CLIENT, SERVER] {
        assert_eq!((hosts.sent(host), hosts.events(host)), (vec![], vec![]));
    }
}

#[test]
fn a_request_comes_again() {
    let (mut hosts, active) = Hosts::requested(TCP);
    let req = hosts.one(CLIENT);
    let Message::Req(Req { local_comm_id, .. }) = req else { panic!("{req:?}") };
    hosts.deliver(SERVER, &req);
    // While the program has not decided: it will take a while, and there is no second event.
    hosts.deliver(SERVER, &req);
    let mra = hosts.one(SERVER);
    let Message::Mra(content) = &mra else { panic!("{mra:?}") };
    assert_eq!((content.remote_comm_id, content.answered), (local_comm_id, Answered::Req));
    // Now the client asks again only much later.
    hosts.deliver(CLIENT, &mra);
    hosts.pass(10 * RESPONSE_NS);
    assert_eq!(hosts.sent(CLIENT), []);
    hosts.pass(10 * RESPONSE_NS);
    assert_eq!(hosts.one(CLIENT), req);
    let request = hosts.request();
    assert_eq!(hosts.events(SERVER), []);
    // When it has, the answer may have been lost.
    hosts.accept(request);
    let rep = hosts.one(SERVER);
    hosts.deliver(SERVER, &req);
    assert_eq!(hosts.one(SERVER), rep);
    hosts.deliver(CLIENT, &rep);
    hosts.establish(active);
    hosts.disconnect(CLIENT, active);
    hosts.carry();
    hosts.disconnect(SERVER, request);
    hosts.sent(SERVER);
    // In time wait the request is one of the past.
    hosts.deliver(SERVER, &req);
    let stale = rej(reason::STALE_CONNECTION, Answered::Req, (CommId::NONE, local_comm_id));
    assert_eq!(hosts.one(SERVER), stale);
    hosts.end();
}

#[test]
fn a_rejected_request_comes_again() {
    let (mut hosts, _) = Hosts::requested(TCP);
    let req = hosts.one(CLIENT);
    hosts.deliver(SERVER, &req);
    let request = hosts.request();
    hosts.worlds[SERVER].reject(hosts.files[SERVER], request, 0, b"no").unwrap();
    // The rejection is lost: the request is asked anew, and the former id does no harm.
    hosts.sent(SERVER);
    hosts.deliver(SERVER, &req);
    let again = hosts.request();
    hosts.destroy(SERVER, request);
    hosts.accept(again);
    assert_eq!(hosts.carry(), ["REP"]);
    assert_eq!(hosts.events(CLIENT), [(CONNECT_RESPONSE, 0)]);
    hosts.end();
}

#[test]
fn a_reply_comes_again() {
    let (mut hosts, active, _) = Hosts::accepted();
    let rep = hosts.one(SERVER);
    hosts.deliver(CLIENT, &rep);
    assert_eq!(hosts.events(CLIENT), [(CONNECT_RESPONSE, 0)]);
    hosts.deliver(CLIENT, &rep);
    let mra = hosts.one(CLIENT);
    assert!(matches!(&mra, Message::Mra(mra) if mra.answered == Answered::Rep), "{mra:?}");
    hosts.deliver(SERVER, &mra);
    hosts.establish(active);
    let rtu = hosts.one(CLIENT);
    // The "ready to use" was lost.
    hosts.deliver(CLIENT, &rep);
    assert_eq!(hosts.one(CLIENT), rtu);
    hosts.deliver(SERVER, &rtu);
    assert_eq!(hosts.events(SERVER), [(ESTABLISHED, 0)]);
    hosts.disconnect(CLIENT, active);
    hosts.sent(CLIENT);
    hosts.deliver(CLIENT, &rep);
    hosts.destroy(CLIENT, active);
    hosts.deliver(CLIENT, &rep);
    assert_silent(&mut hosts);
}

#[test]
fn ready_to_use_comes_twice_or_too_early() {
    let (mut hosts, active, request) = Hosts::accepted();
    hosts.carry();
    hosts.events(CLIENT);
    hosts.establish(active);
    let rtu = hosts.one(CLIENT);
    let Message::Rtu(content) = rtu.clone() else { panic!("{rtu:?}") };
    for wrong in [
        Rtu { local_comm_id: NOBODY, ..content.clone() },
        Rtu { remote_comm_id: NOBODY, ..content.clone() },
        Rtu { local_comm_id: CommId::NONE, ..content },
    ] {
        hosts.deliver(SERVER, &Message::Rtu(wrong));
        assert_silent(&mut hosts);
    }
    hosts.deliver(SERVER, &rtu);
    hosts.deliver(SERVER, &rtu);
    assert_eq!(hosts.events(SERVER), [(ESTABLISHED, 0)]);
    hosts.disconnect(SERVER, request);
    hosts.deliver(SERVER, &rtu);
    assert_eq!(hosts.events(SERVER), []);
    hosts.end();
}

#[test]
fn a_rejection_of_what_is_gone() {
    let (mut hosts, active, request) = Hosts::pending();
    hosts.destroy(SERVER, request);
    let rej = hosts.one(SERVER);
    hosts.destroy(CLIENT, active);
    hosts.sent(CLIENT);
    hosts.deliver(CLIENT, &rej);
    assert_silent(&mut hosts);
    hosts.end();
}

#[test]
fn a_rejection_comes_twice_or_too_late() {
    let (mut hosts, _, request) = Hosts::pending();
    hosts.worlds[SERVER].reject(hosts.files[SERVER], request, 0, &[]).unwrap();
    let rej = hosts.one(SERVER);
    hosts.deliver(CLIENT, &rej);
    hosts.deliver(CLIENT, &rej);
    assert_eq!(hosts.events(CLIENT), [(REJECTED, CONSUMER_DEFINED)]);
    hosts.end();

    let mut hosts = Hosts::new();
    let (active, request) = hosts.connected();
    let ids = hosts.ids(CLIENT, active);
    hosts.disconnect(CLIENT, active);
    hosts.carry();
    hosts.disconnect(SERVER, request);
    hosts.carry();
    let (_, _) = (hosts.events(CLIENT), hosts.events(SERVER));
    hosts.deliver(SERVER, &self::rej(28, Answered::Other, ids));
    assert_silent(&mut hosts);
    hosts.pass(TIME_WAIT_NS);
    assert_eq!(hosts.events(SERVER), [(TIMEWAIT_EXIT, 0)]);
}

#[test]
fn a_disconnection_of_nothing_is_answered() {
    let mut hosts = Hosts::new();
    hosts.deliver(SERVER, &Message::Dreq(dreq(CommId(5), NOBODY)));
    let drep = drep(NOBODY, CommId(5));
    assert_eq!(hosts.one(SERVER), drep);
    // An answer to nothing is not.
    hosts.deliver(SERVER, &drep);
    assert_silent(&mut hosts);
    hosts.end();
}

#[test]
fn a_disconnection_comes_again() {
    let mut hosts = Hosts::new();
    let (active, request) = hosts.connected();
    hosts.disconnect(CLIENT, active);
    let dreq = hosts.one(CLIENT);
    let Message::Dreq(content) = dreq.clone() else { panic!("{dreq:?}") };
    let wrong = Dreq { remote_qpn: Qpn::new(content.remote_qpn.get() + 1), ..content };
    hosts.deliver(SERVER, &Message::Dreq(wrong));
    assert_silent(&mut hosts);
    hosts.deliver(SERVER, &dreq);
    hosts.deliver(SERVER, &dreq);
    assert_eq!(hosts.events(SERVER), [(DISCONNECTED, 0)]);
    hosts.disconnect(SERVER, request);
    let drep = hosts.one(SERVER);
    // The answer was lost.
    hosts.deliver(SERVER, &dreq);
    assert_eq!(hosts.one(SERVER), drep);
    hosts.deliver(CLIENT, &drep);
    hosts.deliver(CLIENT, &drep);
    assert_eq!(hosts.events(CLIENT), [(DISCONNECTED, 0)]);
    // It is not forgotten when the id is.
    hosts.destroy(SERVER, request);
    hosts.deliver(SERVER, &dreq);
    assert_eq!(hosts.one(SERVER), drep);
    hosts.end();
}

#[test]
fn a_stranger_changes_nothing() {
    let mut hosts = Hosts::new();
    let (active, _) = hosts.connected();
    let (local, remote) = hosts.ids(CLIENT, active);
    let stranger = IpAddr::from([10, 9, 0, 9]);
    let dreq = dreq(local, remote);
    for message in [
        rej(28, Answered::Other, (local, remote)),
        Message::Dreq(dreq.clone()),
        drep(local, remote),
    ] {
        let World { cm, machine, now } = &mut hosts.worlds[SERVER];
        let envelope = Envelope::new(1, message);
        cm.receive(machine, (stranger, address(SERVER)), &wire::encode(&envelope), *now);
        let cx = &mut Cx { host: machine, now_ns: *now, transaction: 0 };
        cm.messages.arrive(Peer::Local, envelope);
        cm.deliver(cx);
        cm.take_messages();
    }
    assert_silent(&mut hosts);
    hosts.deliver(SERVER, &Message::Dreq(dreq));
    assert_eq!(hosts.events(SERVER), [(DISCONNECTED, 0)]);
}

#[test]
fn a_request_that_nobody_listens_for() {
    let mut hosts = Hosts::new();
    hosts.active(TCP);
    let req = hosts.one(CLIENT);
    let Message::Req(Req { local_comm_id, .. }) = req else { panic!("{req:?}") };
    hosts.deliver(SERVER, &req);
    hosts.pass(LISTENER_NS - 1);
    // Again means no longer.
    hosts.deliver(SERVER, &req);
    assert_silent(&mut hosts);
    hosts.pass(1);
    let expected = rej(8, Answered::Req, (CommId::NONE, local_comm_id));
    assert_eq!(hosts.one(SERVER), expected);
    hosts.deliver(CLIENT, &expected);
    assert_eq!(hosts.events(CLIENT), [(REJECTED, 8)]);

    hosts.active(UDP);
    let req = hosts.one(CLIENT);
    let Message::SidrReq(content) = &req else { panic!("{req:?}") };
    hosts.deliver(SERVER, &req);
    hosts.pass(LISTENER_NS);
    let expected = Message::SidrRep(SidrRep {
        request_id: content.request_id,
        status: 1,
        service_id: 0x0111_1d2f,
        ..SidrRep::default()
    });
    assert_eq!(hosts.one(SERVER), expected);
    hosts.deliver(CLIENT, &expected);
    assert_eq!(hosts.events(CLIENT), [(UNREACHABLE, 1)]);
    hosts.end();
}

#[test]
fn a_request_is_taken_back_before_anybody_listens() {
    let mut hosts = Hosts::new();
    let active = hosts.active(TCP);
    hosts.carry();
    hosts.destroy(CLIENT, active);
    assert_eq!(hosts.carry(), ["REJ"]);
    hosts.listener(TCP);
    hosts.pass(LISTENER_NS);
    assert_silent(&mut hosts);
    hosts.end();
}

#[test]
fn only_so_many_requests_wait_for_listeners() {
    let mut hosts = Hosts::new();
    hosts.active(TCP);
    let Message::Req(mut req) = hosts.one(CLIENT) else { panic!() };
    for number in 1..=MAX_PENDING_REMOTE as u32 {
        req.local_comm_id = CommId(number);
        hosts.deliver(SERVER, &Message::Req(req.clone()));
    }
    assert_eq!(hosts.sent(SERVER), []);
    req.local_comm_id = NOBODY;
    hosts.deliver(SERVER, &Message::Req(req));
    assert_eq!(hosts.one(SERVER), rej(8, Answered::Req, (CommId::NONE, NOBODY)));
    hosts.pass(LISTENER_NS);
    assert_eq!(hosts.sent(SERVER).len(), MAX_PENDING_REMOTE);
}

#[test]
fn a_service_request_comes_again() {
    let (mut hosts, _) = Hosts::requested(UDP);
    let req = hosts.one(CLIENT);
    hosts.deliver(SERVER, &req);
    hosts.deliver(SERVER, &req);
    let request = hosts.request();
    assert_silent(&mut hosts);
    hosts.accept(request);
    let rep = hosts.one(SERVER);
    hosts.deliver(CLIENT, &rep);
    hosts.deliver(CLIENT, &rep);
    assert_eq!(hosts.events(CLIENT), [(ESTABLISHED, 0)]);
    // The answer was lost: the service is asked anew.
    hosts.deliver(SERVER, &req);
    assert_eq!(hosts.events(SERVER), [(CONNECT_REQUEST, 0)]);
    hosts.end();
}

#[test]
fn peers_number_services_apart_from_connections() {
    let mut hosts = Hosts::new();
    hosts.listener(TCP);
    let (world, file) = (&mut hosts.worlds[SERVER], hosts.files[SERVER]);
    world.listener(file, 0x52, UDP, "10.9.0.1:7471");
    hosts.active(TCP);
    let req = hosts.one(CLIENT);
    let Message::Req(Req { local_comm_id, .. }) = req else { panic!("{req:?}") };
    hosts.active(UDP);
    let Message::SidrReq(mut sidr_req) = hosts.one(CLIENT) else { panic!() };
    sidr_req.request_id = local_comm_id;
    hosts.deliver(SERVER, &req);
    hosts.deliver(SERVER, &Message::SidrReq(sidr_req));
    assert_eq!(hosts.events(SERVER), [(CONNECT_REQUEST, 0), (CONNECT_REQUEST, 0)]);
}

/// Messages with any content, of which the communication ids are those of living connections as
/// often as not.
#[test]
fn any_message_does_no_harm() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut hosts = Hosts::new();
    hosts.listener(UDP);
    hosts.active(TCP);
    let Message::Req(template) = hosts.one(CLIENT) else { panic!() };
    let (active, request) = hosts.connected();
    let ids = [hosts.ids(CLIENT, active), hosts.ids(SERVER, request)];
    for _ in 0..30_000 {
        let host = random.below(2) as usize;
        let (world, file) = (&mut hosts.worlds[host], hosts.files[host]);
        let living =
            world.cm.connections.requests().map(|(remote, key)| {
                (remote.comm_id, world.cm.ids.connection(key).unwrap().local_id)
            });
        let mut known: Vec<(CommId, CommId)> = ids.iter().copied().chain(living).collect();
        known.push((CommId(random.below(9) as u32), CommId(random.below(9) as u32)));
        known.sort_unstable();
        let (local_comm_id, _) = random.of(&known);
        let remote_comm_id = random.of(&known).1;
        // Of any length, as far as there is room.
        let length = random.below(300) as usize;
        let data = |room: usize| vec![1; length.min(room)];
        let address: SocketAddr =
            random.of(&["10.9.0.1:7471", "[fd00::1]:7471", "239.0.0.1:1"]).parse().unwrap();
        let answered = random.of(&[Answered::Req, Answered::Rep, Answered::Other]);
        let byte = random.next() as u8;
        let src = "10.9.0.2:4000".parse().unwrap();
        let message = match random.below(10) {
            0..2 => {
                let ends = Ends { space: Space::Tcp, src, dst: address };
                Message::Req(Req {
                    local_comm_id,
                    service_id: ends.service_id(),
                    starting_psn: Psn::new(random.next() as u32),
                    private_data: ends.private_data(&data(56)).unwrap(),
                    ..template.clone()
                })
            }
            2 => Message::Mra(Mra {
                local_comm_id,
                remote_comm_id,
                answered,
                service_timeout: byte,
                ..Mra::default()
            }),
            3 => rej(byte.into(), answered, (local_comm_id, remote_comm_id)),
            4 => Message::Rep(Rep {
                local_comm_id,
                remote_comm_id,
                local_ca_guid: random.next(),
                local_qpn: Qpn::new(0x12),
                starting_psn: Psn::new(random.next() as u32),
                responder_resources: byte,
                initiator_depth: byte,
                rnr_retry_count: byte,
                flow_control: byte & 1 != 0,
                private_data: wire::private_data(&data(196)).unwrap(),
                ..Rep::default()
            }),
            5 => Message::Rtu(Rtu { local_comm_id, remote_comm_id, ..Rtu::default() }),
            6 => Message::Dreq(dreq(local_comm_id, remote_comm_id)),
            7 => drep(local_comm_id, remote_comm_id),
            8 => {
                let space = random.of(&[Space::Udp, Space::Tcp, Space::Ib]);
                let ends = Ends { space, src, dst: address };
                Message::SidrReq(SidrReq {
                    request_id: local_comm_id,
                    service_id: ends.service_id(),
                    private_data: ends.private_data(&data(180)).unwrap(),
                    ..SidrReq::default()
                })
            }
            _ => Message::SidrRep(SidrRep {
                request_id: local_comm_id,
                status: byte,
                service_id: random.next(),
                private_data: wire::private_data(&data(136)).unwrap(),
                ..SidrRep::default()
            }),
        };
        if random.below(64) == 0 {
            world.pass(random.of(&[S / 10, RESPONSE_NS]));
        }
        while let Some(event) = world.event(file) {
            let id = word(&event, 8);
            let _ = match random.below(4) {
                0 => world.accept(file, id, 7, &ConnParam { qp_num: 0x12, ..ConnParam::default() }),
                1 => world.disconnect(file, id),
                2 if world.cm.ids.len() > 6 => world.destroy(file, id).map(drop),
                _ => Ok(()),
            };
        }
        hosts.deliver(host, &message);
        hosts.worlds.iter().for_each(check);
        // Nobody's messages arrive.
        hosts.sent(CLIENT);
        hosts.sent(SERVER);
    }
    hosts.pass(LISTENER_NS);
    hosts.end();
}
