//! Two connection managers that have nothing in common but the messages that a test carries
//! between them.

use soft_hca_core::uapi::ucma::event_type::{
    ADDR_ERROR, ADDR_RESOLVED, CONNECT_RESPONSE, DISCONNECTED, ESTABLISHED, REJECTED,
    ROUTE_RESOLVED, TIMEWAIT_EXIT, UNREACHABLE,
};
use soft_hca_roce::wire::cm::{CommId, Message};
use soft_hca_roce::wire::mad::MAD_BYTES;

use super::*;
use crate::ucma::id::State;
use crate::ucma::messages::Outgoing;
use crate::ucma::timer::{MAX_RETRIES, PACKET_LIFE_NS, REMOTE_RESPONSE_NS, TIME_WAIT_NS};
use crate::ucma::wire::{self, Envelope};

/// Two machines, 10.9.0.1 and 10.9.0.2, each with one opened file.
pub(super) struct Hosts {
    pub worlds: [World; 2],
    pub files: [FileId; 2],
}

/// After which a request is sent again.
pub(super) const REQUEST_NS: u64 = REMOTE_RESPONSE_NS + 2 * PACKET_LIFE_NS;
/// Rounds of messages that answer each other, at most.
const MOST_ROUNDS: u32 = 1000;
pub(super) const SERVER: usize = 0;
pub(super) const CLIENT: usize = 1;

pub(super) fn address(host: usize) -> IpAddr {
    IpAddr::from([10, 9, 0, host as u8 + 1])
}

/// Transaction and message of a datagram that a host has sent.
pub(super) fn content(host: usize, mad: &[u8; MAD_BYTES]) -> (u64, Message) {
    let Envelope { transaction, message, .. } =
        wire::decode(mad, (address(host), address(1 - host))).unwrap();
    (transaction, message)
}

fn name(message: &Message) -> &'static str {
    match message {
        Message::Req(_) => "REQ",
        Message::Mra(_) => "MRA",
        Message::Rej(_) => "REJ",
        Message::Rep(_) => "REP",
        Message::Rtu(_) => "RTU",
        Message::Dreq(_) => "DREQ",
        Message::Drep(_) => "DREP",
        Message::SidrReq(_) => "SIDR_REQ",
        Message::SidrRep(_) => "SIDR_REP",
    }
}

impl Hosts {
    pub(super) fn new() -> Self {
        let mut worlds = [World::new(), World::new()];
        for (host, world) in worlds.iter_mut().enumerate() {
            world.machine.own = address(host);
            world.machine.devices = vec![device(address(host), &[])];
            world.machine.neighbour = Some(address(1 - host));
            world.machine.random = 77 + host as u32;
        }
        let files = worlds.each_mut().map(|world| world.cm.open(1));
        Self { worlds, files }
    }

    /// Messages that a host has to send.
    pub(super) fn sent(&mut self, host: usize) -> Vec<Message> {
        self.datagrams(host).iter().map(|mad| content(host, mad).1).collect()
    }

    /// The same as it lies on the wire.
    pub(super) fn datagrams(&mut self, host: usize) -> Vec<[u8; MAD_BYTES]> {
        let outgoing = self.worlds[host].cm.take_messages();
        let ends = (address(host), address(1 - host));
        assert!(outgoing.iter().all(|outgoing| (outgoing.from, outgoing.to) == ends));
        outgoing.into_iter().map(|outgoing| outgoing.mad).collect()
    }

    /// The one message that a host has to send.
    pub(super) fn one(&mut self, host: usize) -> Message {
        let mut messages = self.sent(host);
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages.remove(0)
    }

    /// Gives a host a message of the other.
    pub(super) fn deliver(&mut self, to: usize, message: &Message) {
        self.deliver_datagram(to, &wire::encode(&Envelope::new(4711, message.clone())));
    }

    pub(super) fn deliver_datagram(&mut self, to: usize, mad: &[u8; MAD_BYTES]) {
        let World { cm, machine, now } = &mut self.worlds[to];
        cm.receive(machine, (address(1 - to), address(to)), mad, *now);
    }

    /// Carries messages until there are none; gives their names.
    pub(super) fn carry(&mut self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let before = names.len();
            for host in [CLIENT, SERVER] {
                for mad in self.datagrams(host) {
                    names.push(name(&content(host, &mad).1));
                    self.deliver_datagram(1 - host, &mad);
                }
            }
            if names.len() == before {
                self.worlds.iter().for_each(check);
                return names;
            }
        }
        panic!("the hosts answer each other without end: {names:?}");
    }

    pub(super) fn pass(&mut self, ns: u64) {
        self.worlds.iter_mut().for_each(|world| world.pass(ns));
    }

    pub(super) fn events(&mut self, host: usize) -> Vec<(u32, i32)> {
        self.worlds[host].statuses(self.files[host])
    }

    /// A listener on the server's side.
    pub(super) fn listener(&mut self, space: u16) -> u32 {
        self.worlds[SERVER].listener(self.files[SERVER], 0x51, space, "10.9.0.1:7471")
    }

    /// An id on the client's side that has asked.
    pub(super) fn active(&mut self, space: u16) -> u32 {
        let (world, file) = (&mut self.worlds[CLIENT], self.files[CLIENT]);
        let active = world.routed(file, 0xc1, space, "10.9.0.1:7471");
        world.connect(file, active, &asked()).unwrap();
        active
    }

    /// The id of a request that has come.
    pub(super) fn request(&mut self) -> u32 {
        word(&self.worlds[SERVER].event(self.files[SERVER]).unwrap(), 8)
    }

    pub(super) fn accept(&mut self, request: u32) {
        self.worlds[SERVER].accept(self.files[SERVER], request, 0x5a, &answered()).unwrap();
    }

    pub(super) fn establish(&mut self, active: u32) {
        self.worlds[CLIENT].establish(self.files[CLIENT], active).unwrap();
    }

    /// Both communication ids of an id's connection, its own first.
    pub(super) fn ids(&self, host: usize, id: u32) -> (CommId, CommId) {
        let connection = self.worlds[host].id(id).unwrap().connection.as_ref().unwrap();
        (connection.local_id, connection.remote_id)
    }

    pub(super) fn disconnect(&mut self, host: usize, id: u32) {
        self.worlds[host].disconnect(self.files[host], id).unwrap();
    }

    pub(super) fn destroy(&mut self, host: usize, id: u32) {
        self.worlds[host].destroy(self.files[host], id).unwrap();
    }

    /// A client that has asked a listener; its id.
    pub(super) fn requested(space: u16) -> (Self, u32) {
        let mut hosts = Self::new();
        hosts.listener(space);
        let active = hosts.active(space);
        (hosts, active)
    }

    /// A client whose request has come; the ids of both sides.
    pub(super) fn pending() -> (Self, u32, u32) {
        let (mut hosts, active) = Self::requested(TCP);
        hosts.carry();
        let request = hosts.request();
        (hosts, active, request)
    }

    /// A client whose request was accepted by a reply, which is still to be sent; the ids of both
    /// sides.
    pub(super) fn accepted() -> (Self, u32, u32) {
        let (mut hosts, active, request) = Self::pending();
        hosts.accept(request);
        (hosts, active, request)
    }

    /// Both ends of a connection, the client's first.
    pub(super) fn connected(&mut self) -> (u32, u32) {
        self.listener(TCP);
        let active = self.active(TCP);
        self.carry();
        let request = self.request();
        self.accept(request);
        self.carry();
        self.establish(active);
        assert_eq!(self.carry(), ["RTU"]);
        assert_eq!(
            (self.events(CLIENT), self.events(SERVER)),
            (vec![(CONNECT_RESPONSE, 0)], vec![(ESTABLISHED, 0)])
        );
        (active, request)
    }

    /// Nothing is left when both programs end.
    pub(super) fn end(mut self) {
        for host in [CLIENT, SERVER] {
            let file = self.files[host];
            self.worlds[host].close(file);
            self.carry();
        }
        self.worlds.iter_mut().for_each(World::forget);
        self.worlds.iter().for_each(check_empty);
    }
}

fn asked() -> ConnParam {
    ConnParam {
        qp_num: 0x11,
        private_data: b"hello".to_vec(),
        srq: 1,
        responder_resources: 4,
        initiator_depth: 3,
        flow_control: 1,
        retry_count: 9,
        rnr_retry_count: 6,
        ..ConnParam::default()
    }
}

fn answered() -> ConnParam {
    ConnParam { qp_num: 0x12, private_data: b"welcome".to_vec(), initiator_depth: 2, ..asked() }
}

/// Everything that both programs hear while a client connects and leaves, without the numbers
/// and addresses that differ between one host and two.
fn a_life(worlds: &mut [&mut World], mut carry: impl FnMut(&mut [&mut World])) -> Vec<Vec<u8>> {
    let client_at = worlds.len() - 1;
    let (server, client) = (worlds[0].cm.open(1), worlds[client_at].cm.open(2));
    let mut heard = Vec::new();
    let mut hear = |worlds: &mut [&mut World], heard: &mut Vec<Vec<u8>>| {
        carry(worlds);
        let mut last = None;
        for (at, file) in [(0, server), (client_at, client)] {
            while let Some(mut event) = worlds[at].event(file) {
                last = Some(word(&event, 8));
                event[8..12].fill(0);
                heard.push(event.to_vec());
            }
        }
        last
    };
    worlds[0].listener(server, 0x51, TCP, "10.9.0.1:7471");
    let active = worlds[client_at].routed(client, 0xc1, TCP, "10.9.0.1:7471");
    worlds[client_at].connect(client, active, &asked()).unwrap();
    let request = hear(worlds, &mut heard).unwrap();
    worlds[0].accept(server, request, 0x5a, &answered()).unwrap();
    hear(worlds, &mut heard);
    for (at, file, id) in [(0, server, request), (client_at, client, active)] {
        for state in 1..4 {
            let attr = worlds[at].about(file, command::INIT_QP_ATTR, id, state).unwrap();
            // Masks, queue pairs, counts and timeouts; not addresses and packet numbers.
            heard.push([&attr[..24], &attr[32..40], &attr[124..]].concat());
        }
    }
    worlds[client_at].establish(client, active).unwrap();
    hear(worlds, &mut heard);
    worlds[client_at].disconnect(client, active).unwrap();
    hear(worlds, &mut heard);
    worlds[0].disconnect(server, request).unwrap();
    hear(worlds, &mut heard);
    worlds.iter_mut().for_each(|world| world.pass(TIME_WAIT_NS));
    hear(worlds, &mut heard);
    heard
}

#[test]
fn two_hosts_hear_what_one_hears() {
    let one = a_life(&mut [&mut World::new()], |_| {});
    let mut hosts = Hosts::new();
    let [server, client] = &mut hosts.worlds;
    let two = a_life(&mut [server, client], |worlds| {
        for host in [CLIENT, SERVER, CLIENT] {
            for Outgoing { from, to, mad } in worlds[host].cm.take_messages() {
                let World { cm, machine, now } = &mut *worlds[1 - host];
                cm.receive(machine, (from, to), &mad, *now);
            }
        }
    });
    // Request, response, six times attributes, established, two disconnected, two time waits.
    assert_eq!((one.len(), two.len()), (13, 13));
    one.iter().zip(&two).for_each(|(one, two)| assert_eq!(one, two));
}

#[test]
fn the_messages_of_a_connection() {
    let (mut hosts, active) = Hosts::requested(TCP);
    assert_eq!(hosts.carry(), ["REQ"]);
    let request = hosts.request();
    hosts.accept(request);
    assert_eq!(hosts.carry(), ["REP"]);
    hosts.establish(active);
    assert_eq!(hosts.carry(), ["RTU"]);
    assert_eq!(
        (hosts.events(CLIENT), hosts.events(SERVER)),
        (vec![(CONNECT_RESPONSE, 0)], vec![(ESTABLISHED, 0)])
    );
    // Both at the same time.
    hosts.disconnect(CLIENT, active);
    hosts.disconnect(SERVER, request);
    assert_eq!(hosts.carry(), ["DREQ", "DREQ"]);
    assert_eq!(
        (hosts.events(CLIENT), hosts.events(SERVER)),
        (vec![(DISCONNECTED, 0)], vec![(DISCONNECTED, 0)])
    );
    hosts.disconnect(CLIENT, active);
    assert_eq!(hosts.carry(), ["DREP"]);
    hosts.pass(TIME_WAIT_NS);
    assert_eq!(
        (hosts.events(CLIENT), hosts.events(SERVER)),
        (vec![(TIMEWAIT_EXIT, 0)], vec![(TIMEWAIT_EXIT, 0)])
    );
    hosts.end();
}

#[test]
fn a_service_on_another_host() {
    let (mut hosts, _) = Hosts::requested(UDP);
    assert_eq!(hosts.carry(), ["SIDR_REQ"]);
    let request = hosts.request();
    hosts.accept(request);
    assert_eq!(hosts.carry(), ["SIDR_REP"]);
    let event = hosts.worlds[CLIENT].event(hosts.files[CLIENT]).unwrap();
    assert_eq!((word(&event, 12), word(&event, 20), word(&event, 24)), (9, 0x12, 0x0123_4567));
    assert_eq!((&event[28..44], &event[60..67]), (&gid(SERVER)[..], &b"welcome"[..]));
    hosts.end();
}

fn gid(host: usize) -> [u8; 16] {
    soft_hca_core::uapi::ucma::Sockaddr::Ip((address(host), 0).into()).gid()
}

#[test]
fn whoever_leaves_says_so_across_hosts() {
    // Before the answer, before the use, while connected.
    let (mut hosts, active, request) = Hosts::pending();
    hosts.destroy(CLIENT, active);
    assert_eq!(hosts.carry(), ["REJ"]);
    let late = hosts.worlds[SERVER].accept(hosts.files[SERVER], request, 1, &answered());
    assert_eq!(late, Err(Errno::EINVAL));
    assert_eq!(hosts.carry(), [""; 0]);

    let active = hosts.active(TCP);
    hosts.carry();
    let request = hosts.request();
    hosts.accept(request);
    hosts.carry();
    hosts.destroy(CLIENT, active);
    assert_eq!(hosts.carry(), ["REJ"]);
    assert_eq!(hosts.events(SERVER), [(REJECTED, CONSUMER_DEFINED)]);
    hosts.end();

    let mut hosts = Hosts::new();
    let (_, request) = hosts.connected();
    let file = hosts.files[CLIENT];
    hosts.worlds[CLIENT].close(file);
    assert_eq!(hosts.carry(), ["DREQ"]);
    assert_eq!(hosts.events(SERVER), [(DISCONNECTED, 0)]);
    hosts.disconnect(SERVER, request);
    assert_eq!(hosts.carry(), ["DREP"]);
    hosts.pass(TIME_WAIT_NS);
    assert_eq!(hosts.events(SERVER), [(TIMEWAIT_EXIT, 0)]);
}

#[test]
fn a_host_that_does_not_answer() {
    let mut hosts = Hosts::new();
    hosts.active(TCP);
    for _ in 0..MAX_RETRIES {
        assert_eq!(hosts.sent(CLIENT).len(), 1);
        hosts.pass(REQUEST_NS);
    }
    assert_eq!((hosts.sent(CLIENT).len(), hosts.events(CLIENT)), (1, vec![]));
    hosts.pass(REQUEST_NS);
    assert_eq!(
        (hosts.sent(CLIENT).len(), hosts.events(CLIENT)),
        (0, vec![(UNREACHABLE, TIMED_OUT)])
    );

    let (active, _) = hosts.connected();
    hosts.disconnect(CLIENT, active);
    for _ in 0..=MAX_RETRIES {
        assert_eq!(hosts.events(CLIENT), []);
        assert!(matches!(hosts.one(CLIENT), Message::Dreq(_)));
        hosts.pass(REQUEST_NS);
    }
    assert_eq!(hosts.events(CLIENT), [(DISCONNECTED, TIMED_OUT)]);
    hosts.end();
}

#[test]
fn a_neighbour_that_is_not_there() {
    let mut hosts = Hosts::new();
    let (world, file) = (&mut hosts.worlds[CLIENT], hosts.files[CLIENT]);
    world.machine.knows_neighbour = false;
    let id = world.create(file, 1, TCP);
    world.resolve(file, id, "10.9.0.1:7471").unwrap();
    let until = world.now + 2 * S;
    let mut looks = 0;
    while let Some(at) = world.cm.next_timer() {
        assert!(world.now < at && at <= until);
        assert!(world.statuses(file).is_empty() && world.route(file, id).is_err());
        world.pass(at - world.now);
        looks += 1;
    }
    // Soon at first, and then seldom.
    assert!((20..100).contains(&looks), "{looks}");
    assert_eq!((world.now, world.statuses(file)), (until, vec![(ADDR_ERROR, TIMED_OUT)]));
    // It may try again, and the neighbour is there after a while.
    world.resolve(file, id, "10.9.0.1:7471").unwrap();
    world.pass(S);
    world.machine.knows_neighbour = true;
    world.pass(S / 10);
    assert_eq!(world.statuses(file), [(ADDR_RESOLVED, 0)]);
    world.route(file, id).unwrap();
    assert_eq!(world.cm.next_timer(), None);
    // Nothing is heard of an id that has gone meanwhile.
    world.machine.knows_neighbour = false;
    let id = world.create(file, 1, TCP);
    world.resolve(file, id, "10.9.0.1:7471").unwrap();
    world.destroy(file, id).unwrap();
    assert_eq!(world.cm.next_timer(), None);
    assert_eq!(world.statuses(file), [(ROUTE_RESOLVED, 0)]);
    hosts.end();
}

/// Programs on two hosts do what comes to their minds, and messages are lost, doubled and
/// overtake each other.
#[test]
fn any_order_of_messages_keeps_the_tables_together() {
    let mut reached = [0; 16];
    for seed in 1..9 {
        let mut random = hostile::Random(seed * 0x9e37_79b9);
        let mut hosts = Hosts::new();
        let mut under_way: Vec<(usize, [u8; MAD_BYTES])> = Vec::new();
        for _ in 0..6_000 {
            let host = random.below(2) as usize;
            let (world, file) = (&mut hosts.worlds[host], hosts.files[host]);
            let id = match world.cm.listing() {
                ids if ids.is_empty() => 0,
                ids => ids[random.below(ids.len() as u64) as usize].id,
            };
            let at = random.of(&["10.9.0.1:7471", "10.9.0.2:7471", "0.0.0.0:7471"]);
            // Half of the time what a sensible program would do next.
            let state = world.id(id).map(|id| id.state);
            let usual: &[u64] = match state {
                Some(State::Idle) => &[3, 6],
                Some(State::Bound) => &[4, 6],
                Some(State::AddrResolved) => &[9],
                Some(State::RouteResolved) => &[11],
                Some(State::Connect) => &[14, 17, 17, 23, 20],
                Some(State::Disconnect) => &[20, 23, 21],
                _ => &[0],
            };
            let number = if random.below(2) == 0 { random.of(usual) } else { random.below(24) };
            let _ = match number {
                0..3 if world.cm.ids.len() < 30 => {
                    world.create(file, 1 + random.below(4), random.of(&[TCP, TCP, UDP]));
                    Ok(())
                }
                3 => world.bind(file, id, at),
                4 | 5 => world.listen(file, id, random.below(3) as u32),
                6..9 => world.resolve(file, id, at),
                9..11 => world.route(file, id),
                11..14 => world.connect(file, id, &asked()),
                14..17 => world.accept(file, id, 7, &answered()),
                17..19 => world.establish(file, id),
                19 => world.reject(file, id, 0, &[1; 3]),
                20 => world.disconnect(file, id),
                21 if random.below(3) == 0 => world.destroy(file, id).map(drop),
                22 => {
                    world.pass(random.of(&[S / 100, S / 10, REQUEST_NS]));
                    Ok(())
                }
                _ => {
                    for event in world.events(file) {
                        reached[event as usize] += 1;
                    }
                    Ok(())
                }
            };
            under_way.extend(hosts.datagrams(host).into_iter().map(|mad| (1 - host, mad)));
            for _ in 0..random.below(3).min(under_way.len() as u64) {
                let at = random.below(under_way.len() as u64) as usize;
                let (to, mad) = under_way[at];
                let fate = random.below(16);
                if fate != 0 {
                    hosts.deliver_datagram(to, &mad);
                    under_way.extend(hosts.datagrams(to).into_iter().map(|mad| (1 - to, mad)));
                }
                if fate != 1 {
                    under_way.swap_remove(at);
                }
            }
            hosts.worlds.iter().for_each(check);
        }
        hosts.pass(TIME_WAIT_NS);
        hosts.end();
    }
    // The walk has been to most places, or it proves nothing.
    for event in [0, 2, 4, 5, 7, 8, 9, 10, 15] {
        assert!(reached[event] > 0, "no event {event} in {reached:?}");
    }
}
