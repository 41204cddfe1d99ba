//! Messages as datagrams: byte by byte, lost, doubled, late, and of nobody's making.

use soft_hca_core::uapi::ucma::Ece;
use soft_hca_core::uapi::ucma::event_type::{
    ADDR_ERROR, ADDR_RESOLVED, CONNECT_REQUEST, CONNECT_RESPONSE, DISCONNECTED, ESTABLISHED,
    REJECTED, ROUTE_RESOLVED, TIMEWAIT_EXIT, UNREACHABLE,
};
use soft_hca_roce::wire::bth::{Psn, Qpn};
use soft_hca_roce::wire::cm::{CommId, Dreq, Message, Rep, Req, Rtu, reason};
use soft_hca_roce::wire::mad::MAD_BYTES;

use super::hostile::Random;
use super::hosts::{CLIENT, Hosts, REQUEST_NS, SERVER, address, content};
use super::*;
use crate::ucma::id::Space;
use crate::ucma::messages::Outgoing;
use crate::ucma::pending::MAX_PENDING_REMOTE;
use crate::ucma::timer::{LISTENER_NS, MAX_RETRIES, REMOTE_RESPONSE_NS, TIME_WAIT_NS};
use crate::ucma::wire::{self, Ends, Envelope};

type Mad = [u8; MAD_BYTES];

/// Where a datagram's data begin.
const DATA: usize = 24;

/// The one datagram that a host has to send.
fn one(hosts: &mut Hosts, host: usize) -> Mad {
    let mut mads = hosts.datagrams(host);
    assert_eq!(mads.len(), 1);
    mads.remove(0)
}

fn transaction(mad: &Mad) -> u64 {
    u64::from_be_bytes(mad[8..16].try_into().unwrap())
}

/// A datagram written by hand: its attribute, its transaction, and bytes behind the header.
fn by_hand(attribute: u8, like: &Mad, parts: &[(usize, &[u8])]) -> Mad {
    let mut mad = [0; MAD_BYTES];
    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
    mad[8..16].copy_from_slice(&like[8..16]);
    mad[17] = attribute;
    mad[DATA..].copy_from_slice(&bytes(MAD_BYTES - DATA, parts));
    mad
}

fn low24(number: u32) -> [u8; 3] {
    let [_, bytes @ ..] = number.to_be_bytes();
    bytes
}

fn gid(host: usize) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, host as u8 + 1]
}

#[test]
fn a_connection_byte_by_byte() {
    let (mut hosts, active) = Hosts::requested(TCP);
    let req = one(&mut hosts, CLIENT);
    let id = hosts.worlds[CLIENT].id(active).unwrap();
    let (psn, port, label) = (low24(id.psn.get()), id.port.unwrap().1, id.flow_label);
    let lc = hosts.ids(CLIENT, active).0.0.to_be_bytes();
    let guid = GUID.to_be_bytes();
    let parts: &[(usize, &[u8])] = &[
        (0, &lc),
        (8, &[0, 0, 0, 0, 0x01, 0x06, 0x1d, 0x2f]),
        (16, &guid),
        (32, &[0, 0, 0x11, 4]),
        (39, &[3]),
        // Response timeout 20, RC, flow control.
        (43, &[0xa1]),
        (44, &psn),
        // Response timeout 20, retry count 7.
        (47, &[0xa7, 0xff, 0xff]),
        // MTU 1024, receiver-not-ready retries 6; 15 retries of messages, shared receive queue.
        (50, &[0x36, 0xf8, 0xff, 0xff, 0xff, 0xff]),
        (56, &gid(CLIENT)),
        (72, &gid(SERVER)),
        (88, &(label << 12 | 3).to_be_bytes()),
        // Class, hop limit, service level, acknowledgement timeout 19.
        (92, &[0, 64, 0, 0x98]),
        (140, &[0, 0x40]),
        (142, &port.to_be_bytes()),
        (156, &[10, 9, 0, 2]),
        (172, &[10, 9, 0, 1]),
        (176, b"hello"),
    ];
    assert_eq!(req, by_hand(0x10, &req, parts));
    hosts.deliver_datagram(SERVER, &req);

    let request = hosts.request();
    hosts.accept(request);
    let rep = one(&mut hosts, SERVER);
    let id = hosts.worlds[SERVER].id(request).unwrap();
    let psn = low24(id.psn.get());
    let rc = hosts.ids(SERVER, request).0.0.to_be_bytes();
    let parts: &[(usize, &[u8])] = &[
        (0, &rc),
        (4, &lc),
        (12, &[0, 0, 0x12]),
        (20, &psn),
        // Resources, depth, acknowledgement delay 15 and flow control, retries 6 and shared queue.
        (24, &[4, 2, 0x79, 0xd0]),
        (28, &guid),
        (36, b"welcome"),
    ];
    assert_eq!(rep, by_hand(0x13, &req, parts));
    hosts.deliver_datagram(CLIENT, &rep);

    hosts.establish(active);
    let rtu = one(&mut hosts, CLIENT);
    assert_eq!(rtu, by_hand(0x14, &req, &[(0, &lc), (4, &rc)]));
    hosts.deliver_datagram(SERVER, &rtu);

    hosts.disconnect(CLIENT, active);
    let dreq = one(&mut hosts, CLIENT);
    assert_eq!(dreq, by_hand(0x15, &dreq, &[(0, &lc), (4, &rc), (8, &[0, 0, 0x12])]));
    assert_ne!(transaction(&dreq), transaction(&req));
    hosts.deliver_datagram(SERVER, &dreq);
    hosts.disconnect(SERVER, request);
    let drep = one(&mut hosts, SERVER);
    assert_eq!(drep, by_hand(0x16, &dreq, &[(0, &rc), (4, &lc)]));
    hosts.deliver_datagram(CLIENT, &drep);
    hosts.pass(TIME_WAIT_NS);
    hosts.end();
}

#[test]
fn a_service_byte_by_byte() {
    let (mut hosts, active) = Hosts::requested(UDP);
    let req = one(&mut hosts, CLIENT);
    let id = hosts.worlds[CLIENT].id(active).unwrap();
    let port = id.port.unwrap().1.to_be_bytes();
    let number = hosts.ids(CLIENT, active).0.0.to_be_bytes();
    let parts: &[(usize, &[u8])] = &[
        (0, &number),
        (4, &[0xff, 0xff]),
        (8, &[0, 0, 0, 0, 0x01, 0x11, 0x1d, 0x2f]),
        (16, &[0, 0x40, port[0], port[1]]),
        (32, &[10, 9, 0, 2]),
        (48, &[10, 9, 0, 1]),
        (52, b"hello"),
    ];
    assert_eq!(req, by_hand(0x17, &req, parts));
    hosts.deliver_datagram(SERVER, &req);
    let request = hosts.request();
    hosts.accept(request);
    let rep = one(&mut hosts, SERVER);
    let parts: &[(usize, &[u8])] = &[
        (0, &number),
        (8, &[0, 0, 0x12]),
        (12, &[0, 0, 0, 0, 0x01, 0x11, 0x1d, 0x2f]),
        (20, &[0x01, 0x23, 0x45, 0x67]),
        (96, b"welcome"),
    ];
    assert_eq!(rep, by_hand(0x18, &req, parts));
    hosts.end();
}

#[test]
fn a_rejection_byte_by_byte() {
    let (mut hosts, active) = Hosts::requested(TCP);
    let req = one(&mut hosts, CLIENT);
    hosts.deliver_datagram(SERVER, &req);
    let request = hosts.request();
    hosts.worlds[SERVER].reject(hosts.files[SERVER], request, 0, b"no").unwrap();
    let rej = one(&mut hosts, SERVER);
    let lc = hosts.ids(CLIENT, active).0.0.to_be_bytes();
    assert_eq!(rej, by_hand(0x12, &req, &[(4, &lc), (10, &[0, 28]), (84, b"no")]));
    // The side that has waited long enough says who it is.
    hosts.destroy(CLIENT, active);
    let rej = one(&mut hosts, CLIENT);
    let guid = GUID.to_be_bytes();
    let parts: &[(usize, &[u8])] = &[(0, &lc), (8, &[0x80, 8 << 1]), (10, &[0, 4]), (12, &guid)];
    assert_eq!(rej, by_hand(0x12, &req, parts));
    hosts.end();
}

#[test]
fn a_reply_is_sent_again_until_it_is_answered() {
    let (mut hosts, _, _) = Hosts::accepted();
    let rep = one(&mut hosts, SERVER);
    for _ in 0..2 {
        hosts.worlds[SERVER].pass(REMOTE_RESPONSE_NS);
        assert_eq!(one(&mut hosts, SERVER), rep);
    }
    // The client has it and takes its time.
    hosts.deliver_datagram(CLIENT, &rep);
    hosts.deliver_datagram(CLIENT, &rep);
    assert_eq!(hosts.carry(), ["MRA"]);
    hosts.worlds[SERVER].pass(10 * REMOTE_RESPONSE_NS);
    assert_eq!(hosts.datagrams(SERVER).len(), 0);
    // After the time that the MRA asks for, the REP comes again, as often as there are retries.
    hosts.worlds[SERVER].pass(7 * REMOTE_RESPONSE_NS);
    for _ in 2..MAX_RETRIES {
        assert_eq!(one(&mut hosts, SERVER), rep);
        assert_eq!(hosts.events(SERVER), []);
        hosts.worlds[SERVER].pass(REMOTE_RESPONSE_NS);
    }
    assert_eq!(hosts.datagrams(SERVER).len(), 0);
    assert_eq!(hosts.events(SERVER), [(UNREACHABLE, TIMED_OUT)]);

    let (mut hosts, active, _) = Hosts::accepted();
    hosts.carry();
    hosts.establish(active);
    assert_eq!(hosts.carry(), ["RTU"]);
    hosts.pass(40 * REMOTE_RESPONSE_NS);
    assert_eq!(hosts.datagrams(SERVER).len(), 0);
    assert_eq!(hosts.events(SERVER), [(ESTABLISHED, 0)]);
    hosts.end();
}

/// Counts the messages that a host sends while nobody answers it, until it gives up.
fn sent_in_vain(hosts: &mut Hosts) -> usize {
    let mut sent = 0;
    for _ in 0..=MAX_RETRIES {
        sent += hosts.datagrams(SERVER).len();
        assert_eq!(hosts.events(SERVER), []);
        hosts.worlds[SERVER].pass(REMOTE_RESPONSE_NS);
    }
    assert_eq!(
        (hosts.datagrams(SERVER).len(), hosts.events(SERVER)),
        (0, vec![(UNREACHABLE, TIMED_OUT)])
    );
    sent
}

/// The sender of the request may have given an address that is not its own.
#[test]
fn a_reply_that_nobody_answers() {
    let (mut hosts, _, _) = Hosts::accepted();
    assert_eq!(sent_in_vain(&mut hosts), 3);
    hosts.end();
    // At most three replies go out for each request that comes.
    for asked in 1..6 {
        let (mut hosts, _) = Hosts::requested(TCP);
        let req = one(&mut hosts, CLIENT);
        (0..asked).for_each(|_| hosts.deliver_datagram(SERVER, &req));
        let request = hosts.request();
        hosts.accept(request);
        (0..asked).for_each(|_| hosts.deliver_datagram(SERVER, &req));
        let sent = sent_in_vain(&mut hosts);
        let most = 3 * 2 * asked;
        assert!((2 * asked..=most).contains(&sent), "{sent} for {asked}");
        hosts.end();
    }
}

#[test]
fn a_reply_to_somebody_who_is_heard_on_the_queue_pair() {
    let (mut hosts, _, _) = Hosts::accepted();
    hosts.worlds[SERVER].machine.heard = true;
    assert_eq!(sent_in_vain(&mut hosts), 1 + usize::from(MAX_RETRIES));
    hosts.end();
}

#[test]
fn ready_to_use_is_repeated_until_a_message_comes() {
    for heard_after in [0, 2, 100] {
        let (mut hosts, active, _) = Hosts::accepted();
        hosts.carry();
        hosts.establish(active);
        let rtu = one(&mut hosts, CLIENT);
        let mut repeated = 0;
        for number in 0..2 * MAX_RETRIES {
            hosts.worlds[CLIENT].machine.heard = number >= heard_after;
            hosts.worlds[CLIENT].pass(REMOTE_RESPONSE_NS);
            let again = hosts.datagrams(CLIENT);
            assert!(again.iter().all(|mad| *mad == rtu));
            repeated += again.len();
        }
        assert_eq!(repeated, usize::from(heard_after.min(MAX_RETRIES)));
        hosts.deliver_datagram(SERVER, &rtu);
        assert_eq!(hosts.events(SERVER), [(ESTABLISHED, 0)]);
        // The client's next message is not held up.
        hosts.disconnect(CLIENT, active);
        assert!(matches!(hosts.one(CLIENT), Message::Dreq(_)));
        hosts.end();
    }
}

#[test]
fn a_lost_ready_to_use_is_asked_for() {
    for lost in 1..3 {
        let (mut hosts, active, _) = Hosts::accepted();
        hosts.carry();
        hosts.establish(active);
        for _ in 0..lost {
            assert!(matches!(hosts.one(CLIENT), Message::Rtu(_)));
            hosts.worlds[SERVER].pass(REMOTE_RESPONSE_NS);
            let rep = one(&mut hosts, SERVER);
            hosts.deliver_datagram(CLIENT, &rep);
        }
        assert_eq!(hosts.carry(), ["RTU"]);
        assert_eq!(hosts.events(SERVER), [(ESTABLISHED, 0)]);
        hosts.end();
    }
}

#[test]
fn a_service_request_is_sent_again() {
    let mut hosts = Hosts::new();
    hosts.active(UDP);
    for _ in 0..=MAX_RETRIES {
        assert_eq!((hosts.datagrams(CLIENT).len(), hosts.events(CLIENT)), (1, vec![]));
        hosts.pass(REMOTE_RESPONSE_NS);
    }
    assert_eq!(
        (hosts.datagrams(CLIENT).len(), hosts.events(CLIENT)),
        (0, vec![(UNREACHABLE, TIMED_OUT)])
    );
    hosts.end();
}

/// The rejection that a host has to send, by its reason.
fn reason_of(hosts: &mut Hosts, host: usize) -> u16 {
    match hosts.one(host) {
        Message::Rej(rej) => rej.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_host_that_has_forgotten_its_connection() {
    let mut hosts = Hosts::new();
    let (_, request) = hosts.connected();
    // The client's host begins anew, and gives the queue pair its old number.
    hosts.worlds[CLIENT].cm = Cm::default();
    hosts.files[CLIENT] = hosts.worlds[CLIENT].cm.open(1);
    hosts.active(TCP);
    let req = one(&mut hosts, CLIENT);
    hosts.deliver_datagram(SERVER, &req);
    let answers = hosts.datagrams(SERVER);
    assert_eq!(answers.len(), 2);
    let Message::Dreq(_) = content(SERVER, &answers[0]).1 else { panic!() };
    let Message::Rej(rej) = content(SERVER, &answers[1]).1 else { panic!() };
    assert_eq!(rej.reason, reason::STALE_CONNECTION);
    assert_eq!(transaction(&answers[1]), transaction(&req));
    answers.iter().for_each(|mad| hosts.deliver_datagram(CLIENT, mad));
    assert_eq!(hosts.events(CLIENT), [(REJECTED, 10)]);
    // It knows of no connection: that is over.
    assert_eq!(hosts.carry(), ["DREP"]);
    assert_eq!(hosts.events(SERVER), [(DISCONNECTED, 0)]);
    // And when that is long enough ago, the queue pair can be connected.
    hosts.pass(TIME_WAIT_NS);
    assert_eq!(hosts.events(SERVER), [(TIMEWAIT_EXIT, 0)]);
    hosts.active(TCP);
    assert_eq!(hosts.carry(), ["REQ"]);
    assert_eq!(hosts.events(SERVER), [(CONNECT_REQUEST, 0)]);
    hosts.destroy(SERVER, request);
    hosts.end();
}

#[test]
fn a_copy_of_a_request_of_the_past() {
    let (mut hosts, active) = Hosts::requested(TCP);
    let req = one(&mut hosts, CLIENT);
    hosts.deliver_datagram(SERVER, &req);
    let request = hosts.request();
    hosts.accept(request);
    hosts.carry();
    hosts.establish(active);
    hosts.carry();
    hosts.destroy(SERVER, request);
    hosts.carry();
    hosts.events(SERVER);
    hosts.deliver_datagram(SERVER, &req);
    assert_eq!((hosts.datagrams(SERVER).len(), hosts.events(SERVER)), (0, vec![]));
    hosts.end();
}

#[test]
fn requests_that_cannot_be_met() {
    let (mut hosts, _) = Hosts::requested(TCP);
    let req = one(&mut hosts, CLIENT);
    let at = |at: usize| DATA + at;
    let changes: [(usize, u8, u16); 12] = [
        // Another port space, and what is none.
        (at(13), 0x02, 8),
        (at(8), 1, 8),
        // UC and XRC.
        (at(43), 0xa3, 28),
        (at(51), 0xf9, 28),
        // Somebody else's GIDs.
        (at(71), 7, 12),
        (at(87), 7, 12),
        // MTU 0, 2048 and what is none.
        (at(50), 0x06, 26),
        (at(50), 0x46, 26),
        (at(50), 0xf6, 26),
        // Another version, somebody else's addresses.
        (at(140), 1, 28),
        (at(141), 0x50, 28),
        (at(175), 9, 28),
    ];
    for (at, byte, expected) in changes {
        let mut changed = req;
        changed[at] = byte;
        hosts.deliver_datagram(SERVER, &changed);
        assert_eq!(reason_of(&mut hosts, SERVER), expected, "byte {at}");
    }
    assert_eq!(hosts.events(SERVER), []);
    // A smaller MTU is fine, and it is the connection's.
    let mut smaller = req;
    smaller[at(50)] = 0x16;
    hosts.deliver_datagram(SERVER, &smaller);
    let request = hosts.request();
    let attr = |hosts: &mut Hosts| {
        hosts.worlds[SERVER].about(hosts.files[SERVER], command::INIT_QP_ATTR, request, 2).unwrap()
    };
    // The path's MTU, and the GID that packets go to.
    let attr = attr(&mut hosts);
    assert_eq!(word(&attr, 12), 1);
    assert!(attr.windows(16).any(|window| window == gid(CLIENT)));
    hosts.end();
}

#[test]
fn what_is_no_message_is_dropped() {
    let (mut hosts, _) = Hosts::requested(TCP);
    let req = one(&mut hosts, CLIENT);
    // Version, class, class version, method, attribute: LAP, APR and unknown ones.
    let changes =
        [(0, 2), (1, 3), (2, 1), (3, 0x83), (16, 1), (17, 0x19), (17, 0x1a), (17, 0x1b), (17, 0)];
    for (count, (at, byte)) in (1..).zip(changes) {
        let mut changed = req;
        changed[at] = byte;
        hosts.deliver_datagram(SERVER, &changed);
        assert_eq!(hosts.worlds[SERVER].cm.messages.dropped(), count);
    }
    assert_eq!((hosts.datagrams(SERVER).len(), hosts.events(SERVER)), (0, vec![]));
    hosts.end();
}

/// Programs that want a connection and a disconnection get both, whatever becomes of a third of
/// the messages.
#[test]
fn connections_over_a_bad_network() {
    let mut doubled = 0;
    for seed in 1..40 {
        let mut random = Random(seed * 0x9e37_79b9);
        let mut hosts = Hosts::new();
        hosts.listener(TCP);
        let active = hosts.active(TCP);
        let mut request = None;
        let mut heard: [Vec<(u32, i32)>; 2] = Default::default();
        let mut under_way: Vec<(usize, Mad)> = Vec::new();
        for _ in 0..400 {
            for host in [CLIENT, SERVER] {
                under_way.extend(hosts.datagrams(host).into_iter().map(|mad| (1 - host, mad)));
            }
            while !under_way.is_empty() {
                let at = random.below(under_way.len() as u64) as usize;
                let (to, mad) = under_way[at];
                match random.below(6) {
                    0 | 1 => drop(under_way.swap_remove(at)),
                    2 => {
                        doubled += 1;
                        hosts.deliver_datagram(to, &mad);
                    }
                    _ => {
                        under_way.swap_remove(at);
                        hosts.deliver_datagram(to, &mad);
                    }
                }
            }
            for host in [CLIENT, SERVER] {
                while let Some(event) = hosts.worlds[host].event(hosts.files[host]) {
                    let (kind, status, _, id) = summary(&event);
                    heard[host].push((kind, status));
                    match kind {
                        CONNECT_REQUEST => {
                            request = Some(id);
                            hosts.accept(id);
                        }
                        CONNECT_RESPONSE => hosts.establish(active),
                        ESTABLISHED => hosts.disconnect(SERVER, request.unwrap()),
                        DISCONNECTED if host == CLIENT => hosts.disconnect(CLIENT, active),
                        _ => {}
                    }
                }
            }
            hosts.worlds.iter().for_each(check);
            hosts.pass(S);
        }
        let expected = [
            vec![(CONNECT_REQUEST, 0), (ESTABLISHED, 0), (DISCONNECTED, 0), (TIMEWAIT_EXIT, 0)],
            vec![(CONNECT_RESPONSE, 0), (DISCONNECTED, 0), (TIMEWAIT_EXIT, 0)],
        ];
        assert_eq!(heard, expected, "seed {seed}");
        hosts.end();
    }
    assert!(doubled > 39, "{doubled}");
}

/// Any bytes from any address, of which most are nearly a message: no table grows beyond what it
/// may hold, and nobody gets more answers than a message deserves.
#[test]
fn any_datagram_does_no_harm() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut hosts = Hosts::new();
    let (active, request) = hosts.connected();
    let ids = [hosts.ids(CLIENT, active), hosts.ids(SERVER, request)];
    hosts.active(TCP);
    hosts.active(UDP);
    let mut samples = hosts.datagrams(CLIENT);
    let (local_comm_id, remote_comm_id) = ids[0];
    let remote_qpn = Qpn::new(0x99);
    let dreq = Dreq { local_comm_id, remote_comm_id, remote_qpn, ..Dreq::default() };
    samples.push(wire::encode(&Envelope::new(1, dreq)));
    let rtu = Rtu { local_comm_id, remote_comm_id, ..Rtu::default() };
    samples.push(wire::encode(&Envelope::new(1, rtu)));
    for round in 0..60_000u32 {
        let mut mad = random.of(&samples);
        match random.below(8) {
            0 => mad.iter_mut().for_each(|byte| *byte = random.next() as u8),
            1 => mad[17] = 0x10 + random.below(11) as u8,
            2 => mad[DATA..DATA + 4].copy_from_slice(&round.to_be_bytes()),
            _ => {}
        }
        for _ in 0..random.below(4) {
            mad[random.below(MAD_BYTES as u64) as usize] = random.next() as u8;
        }
        let from = match random.below(3) {
            0 => IpAddr::from([10, 9, random.below(8) as u8, random.next() as u8]),
            _ => address(CLIENT),
        };
        let World { cm, machine, now } = &mut hosts.worlds[SERVER];
        cm.receive(machine, (from, address(SERVER)), &mad, *now);
        let answers = cm.take_messages();
        assert!(answers.len() <= 2, "{answers:?}");
        assert!(answers.iter().all(|Outgoing { from: own, to, .. }| {
            (*own, *to) == (address(SERVER), from) || *to == address(CLIENT)
        }));
        if round % 256 == 0 {
            check(&hosts.worlds[SERVER]);
            hosts.worlds[SERVER].pass(S / 100);
            hosts.worlds[SERVER].cm.take_messages();
        }
    }
    let cm = &hosts.worlds[SERVER].cm;
    assert!(
        cm.pending.requests().len() <= MAX_PENDING_REMOTE
            && cm.ids.len() <= 2 + 1024
            && cm.connections.timewaits() == 0
    );
    let dropped = cm.messages.dropped();
    assert!(dropped > 1000, "{dropped}");
    hosts.pass(LISTENER_NS);
    hosts.end();
}

#[test]
fn whoever_goes_while_connected_says_so_more_than_once() {
    let mut hosts = Hosts::new();
    let (active, request) = hosts.connected();
    hosts.destroy(CLIENT, active);
    let dreq = one(&mut hosts, CLIENT);
    hosts.pass(S / 10);
    assert_eq!(one(&mut hosts, CLIENT), dreq);
    hosts.deliver_datagram(SERVER, &dreq);
    assert!(hosts.worlds[CLIENT].cm.awaits_drep());
    hosts.disconnect(SERVER, request);
    assert_eq!(hosts.carry(), ["DREP"]);
    assert!(!hosts.worlds[CLIENT].cm.awaits_drep());
    hosts.pass(S);
    assert_eq!(hosts.datagrams(CLIENT).len(), 0);

    // A disconnection that has begun goes on, and not for ever.
    let mut hosts = Hosts::new();
    let (active, _) = hosts.connected();
    hosts.disconnect(CLIENT, active);
    hosts.destroy(CLIENT, active);
    assert_eq!(hosts.datagrams(CLIENT).len(), 1);
    for wait in [1, 2, 4] {
        hosts.pass(wait * S / 10);
        assert_eq!(hosts.datagrams(CLIENT).len(), 1);
    }
    hosts.pass(8 * S / 10);
    assert!(hosts.datagrams(CLIENT).is_empty() && !hosts.worlds[CLIENT].cm.awaits_drep());
}

#[test]
fn ids_know_the_addresses_of_both_hosts() {
    let mut hosts = Hosts::new();
    let file = hosts.files[SERVER];
    hosts.worlds[SERVER].listener(file, 0x51, TCP, "0.0.0.0:7471");
    let (world, file) = (&mut hosts.worlds[CLIENT], hosts.files[CLIENT]);
    // Bound to an address, by itself or on the way, or not.
    let mut active = Vec::new();
    for (bound, from) in
        [(Some("10.9.0.2:4000"), None), (None, Some("10.9.0.2:4001")), (None, None)]
    {
        let id = world.create(file, 0xc1, TCP);
        if let Some(address) = bound {
            world.bind(file, id, address).unwrap();
        }
        world.resolve_from(file, id, from, "10.9.0.1:7471").unwrap();
        world.route(file, id).unwrap();
        world.connect(file, id, &ConnParam { qp_num: 0x20 + id, ..ConnParam::default() }).unwrap();
        active.push(id);
    }
    assert_eq!(
        world.events(file),
        [
            ADDR_RESOLVED,
            ROUTE_RESOLVED,
            ADDR_RESOLVED,
            ROUTE_RESOLVED,
            ADDR_RESOLVED,
            ROUTE_RESOLVED
        ]
    );
    assert_eq!(hosts.carry(), ["REQ", "REQ", "REQ"]);
    for id in active {
        let request = hosts.request();
        for (host, id) in [(CLIENT, id), (SERVER, request)] {
            let route = hosts.worlds[host].about(hosts.files[host], command::QUERY_ROUTE, id, 0);
            let route = route.unwrap();
            let place = |gid: [u8; 16]| route.windows(16).position(|window| window == gid);
            // The path's destination comes before its source.
            assert!(place(gid(1 - host)).unwrap() < place(gid(host)).unwrap());
        }
    }
    // Nobody is there.
    let (world, file) = (&mut hosts.worlds[CLIENT], hosts.files[CLIENT]);
    let id = world.create(file, 0xc2, TCP);
    world.resolve(file, id, "10.9.0.9:7471").unwrap();
    world.pass(2 * S);
    assert_eq!(world.statuses(file), [(ADDR_ERROR, TIMED_OUT)]);
    hosts.end();
}

#[test]
fn values_come_back_from_datagrams() {
    let mut hosts = Hosts::new();
    hosts.active(TCP);
    let mad = one(&mut hosts, CLIENT);
    let of_packet = |from: usize| (address(from), address(1 - from));
    let envelope = wire::decode(&mad, of_packet(CLIENT)).unwrap();
    assert_eq!(wire::encode(&envelope), mad);
    let Message::Req(req) = envelope.message else { panic!() };
    // An IPv4 address of a program that speaks IPv6 stays in its clothes.
    let ends = Ends {
        space: Space::Ib,
        src: "[::ffff:10.9.0.2]:5".parse().unwrap(),
        dst: "[::ffff:10.9.0.1]:7471".parse().unwrap(),
    };
    let ece = Ece { vendor_id: 0x12_3456, attr_mod: 0x789a_bcde };
    let req = Req {
        vendor_id: ece.vendor_id,
        service_id: ends.service_id(),
        private_data: ends.private_data(b"hello").unwrap(),
        ..req
    };
    let envelope =
        Envelope { ece_options: ece.attr_mod, ends: Some(ends), ..Envelope::new(9, req) };
    assert_eq!(wire::decode(&wire::encode(&envelope), of_packet(CLIENT)), Ok(envelope));
    let rep = Rep {
        local_comm_id: CommId(1),
        remote_comm_id: CommId(2),
        local_ca_guid: 3,
        local_qpn: Qpn::new(4),
        starting_psn: Psn::new(5),
        responder_resources: 6,
        initiator_depth: 7,
        rnr_retry_count: 1,
        srq: true,
        private_data: wire::private_data(&[1; 196]).unwrap(),
        ..wire::rep(ece)
    };
    let envelope = Envelope { ece_options: ece.attr_mod, ..Envelope::new(9, rep) };
    assert_eq!(wire::decode(&wire::encode(&envelope), of_packet(SERVER)), Ok(envelope));
    assert_eq!(REQUEST_NS, 6_144_000_000);
}
