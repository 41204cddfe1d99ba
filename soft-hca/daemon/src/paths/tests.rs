//! Paths that lead somewhere or not, and queue pairs that migrate between them.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use proptest::prelude::*;
use soft_hca_core::arena::Tally;
use soft_hca_core::device_spec;

use super::*;
use crate::device::{self, Device};

#[test]
fn a_way_leads_to_somebody_of_the_same_family() {
    let device = Arc::new(Device::local("rxe0", 7, &[]));
    let fabric = Fabric::new(vec![Arc::clone(&device)], || 0).unwrap();
    let mapped = |a, b, c, d| Ipv4Addr::new(a, b, c, d).to_ipv6_mapped().octets();
    let route = |from, to| route_to(&fabric, from, to);
    let here = mapped(127, 0, 0, 1);
    assert_eq!(route(here, here), Ok(Route::Local));
    assert_eq!(route(here, mapped(239, 0, 0, 1)), Ok(Route::Local));
    assert_eq!(route(here, mapped(203, 0, 113, 77)), Err(Errno::ETIMEDOUT));
    assert_eq!(route(here, [0; 16]), Err(Errno::EINVAL));
    let link_local = device.ports[0].gids.gid(0);
    assert_eq!(route(link_local, link_local), Ok(Route::Local));
    assert_eq!(route(link_local, here), Err(Errno::EINVAL));
}

/// Two connected queue pairs: `a` on rxe0, whose ports have the LIDs 1 and 2, `b` on rxe1 with 3
/// and 4.
struct Connection {
    fabric: Fabric,
    a: usize,
    b: usize,
}

fn path(port_num: u8, dlid: u16) -> Path {
    Path { port_num, dest: QpDest { dlid, ..QpDest::default() }, timeout: 14, ..Path::default() }
}

impl Connection {
    fn new() -> Self {
        Self::between("rxe0:infiniband,ports=2 rxe1:infiniband,ports=2", [path(1, 3), path(1, 1)])
    }

    /// Between two devices, by these paths.
    fn between(specs: &str, [to_b, to_a]: [Path; 2]) -> Self {
        let specs = device_spec::split(specs).unwrap();
        let devices = device::devices(&specs, 0x200, &[]).into_iter().map(Arc::new).collect();
        let mut fabric = Fabric::new(devices, || 0).unwrap();
        let mut made = |device, path| {
            let object = QpObject { qp_type: qp_type::RC, device, path, ..QpObject::default() };
            fabric.take_qp(object, 1).unwrap()
        };
        let (a, b) = (made(0, to_b), made(1, to_a));
        for (own, peer) in [(a, b), (b, a)] {
            let (own_qpn, peer_qpn) = (fabric.qpn(own).unwrap(), fabric.qpn(peer).unwrap());
            let qp = &fabric.arena.qps[own];
            qp.live.store(own_qpn, Release);
            qp.dest_qpn.store(peer_qpn, Release);
            qp.qp_type.store(qp_type::RC, Release);
            qp.state.store(state::RTS, Release);
            fabric.enter_partition(own);
            fabric.reroute(own);
        }
        Self { fabric, a, b }
    }

    fn known(&self, index: usize) -> &QpObject {
        self.fabric.qps.get(index).unwrap()
    }

    /// Loads an alternate path and asks for it to be armed.
    fn rearm(&mut self, index: usize, alternate: Path) {
        self.fabric.qps.get_mut(index).unwrap().alternate = Some(alternate);
        self.ask(index, State::Rearm).unwrap();
    }

    fn ask(&mut self, index: usize, state: State) -> Result<()> {
        let has_path = self.known(index).alternate.is_some();
        self.fabric.migration(index, Event::Requested { number: state as u8, has_path })
    }

    fn port(&mut self, device: usize, number: u8, is_up: bool) {
        self.fabric.set_port(device, number, is_up).unwrap();
    }

    fn states(&self) -> [State; 2] {
        [self.a, self.b].map(|index| self.known(index).migration)
    }

    fn ports(&self) -> [u8; 2] {
        [self.a, self.b].map(|index| self.known(index).path.port_num)
    }

    /// Whether each end reaches the other.
    fn reach(&self) -> [bool; 2] {
        [self.a, self.b].map(|index| self.fabric.arena.qps[index].route.load(Acquire) == 0)
    }

    fn raised(&self) -> Vec<Async> {
        self.fabric.env.take_raised().into()
    }

    fn qpns(&self) -> [u32; 2] {
        [self.a, self.b].map(|index| self.known(index).qpn)
    }
}

#[test]
fn both_ends_are_armed_when_both_have_a_path() {
    let mut pair = Connection::new();
    assert_eq!(pair.ask(pair.a, State::Rearm), Err(Errno::EINVAL), "no path yet");
    pair.rearm(pair.a, path(2, 4));
    assert_eq!(pair.states(), [State::Rearm, State::Migrated]);
    assert_eq!(pair.ask(pair.a, State::Migrated), Err(Errno::EINVAL), "not armed");
    pair.rearm(pair.b, path(2, 2));
    assert_eq!(pair.states(), [State::Armed; 2]);
    assert_eq!((pair.ports(), pair.raised()), ([1, 1], vec![]));
}

#[test]
fn both_ends_migrate() {
    let mut pair = Connection::new();
    pair.rearm(pair.a, path(2, 4));
    pair.rearm(pair.b, path(2, 2));
    pair.ask(pair.a, State::Migrated).unwrap();
    assert_eq!((pair.states(), pair.ports()), ([State::Migrated; 2], [2, 2]));
    assert_eq!(pair.raised(), pair.qpns().map(Async::PathMigrated));
    assert!(pair.known(pair.a).alternate.is_none() && pair.known(pair.b).alternate.is_none());
    // And back again.
    pair.rearm(pair.b, path(1, 1));
    pair.rearm(pair.a, path(1, 3));
    pair.ask(pair.b, State::Migrated).unwrap();
    assert_eq!((pair.states(), pair.ports()), ([State::Migrated; 2], [1, 1]));
}

#[test]
fn a_path_that_is_not_the_others() {
    let mut pair = Connection::new();
    pair.rearm(pair.a, path(2, 4));
    // From port 2 to the peer's first port, which is not where the peer's alternate path begins.
    pair.rearm(pair.b, path(2, 1));
    pair.ask(pair.a, State::Migrated).unwrap();
    let [a, b] = pair.qpns();
    assert_eq!(pair.raised(), [Async::PathMigrated(a), Async::PathMigrationFailed(b)]);
    assert_eq!((pair.states(), pair.ports()), ([State::Migrated, State::Armed], [2, 1]));
}

/// A path from and to LIDs of one port each.
fn by_bits(dlid: u16, src_path_bits: u8) -> Path {
    let mut path = path(1, dlid);
    path.dest.src_path_bits = src_path_bits;
    path
}

#[test]
fn paths_between_two_ports_differ_in_bits() {
    const DEVICES: &str = "rxe0:infiniband,lmc=2 rxe1:infiniband,lmc=2";
    for (bits, is_same) in [(1, true), (2, false)] {
        // rxe0 has the LIDs 4 to 7, rxe1 8 to 11.
        let mut pair = Connection::between(DEVICES, [by_bits(8, 0), by_bits(4, 0)]);
        pair.rearm(pair.a, by_bits(11, 1));
        pair.rearm(pair.b, by_bits(4 + bits, 3));
        pair.ask(pair.a, State::Migrated).unwrap();
        let expected = if is_same { State::Migrated } else { State::Armed };
        assert_eq!(pair.states(), [State::Migrated, expected], "{bits}");
        assert_eq!(pair.reach(), [true; 2]);
        pair.port(1, 1, false);
        assert_eq!(pair.reach(), [false; 2]);
    }
}

#[test]
fn the_alternate_path_has_a_p_key_of_its_own() {
    const DEVICES: &str = "rxe0:infiniband,pkey=0x8001 rxe1:infiniband,pkey=0x8001";
    let mut pair = Connection::between(DEVICES, [path(1, 2), path(1, 1)]);
    let pkeys = |pair: &Connection| {
        [pair.a, pair.b].map(|index| pair.fabric.arena.qps[index].pkey.load(Acquire))
    };
    assert_eq!(pkeys(&pair), [0xffff; 2]);
    pair.rearm(pair.a, Path { pkey_index: 1, ..path(1, 2) });
    pair.rearm(pair.b, Path { pkey_index: 1, ..path(1, 1) });
    assert_eq!(pkeys(&pair), [0xffff; 2]);
    pair.ask(pair.a, State::Migrated).unwrap();
    assert_eq!(pkeys(&pair), [0x8001; 2]);
}

#[test]
fn a_port_goes_down_and_comes_up() {
    let mut pair = Connection::new();
    assert_eq!(pair.reach(), [true; 2]);
    // Neither end has an alternate path, and the port is on the way of both.
    pair.port(1, 1, false);
    assert_eq!((pair.reach(), pair.raised()), ([false; 2], vec![]));
    pair.port(1, 1, true);
    assert_eq!(pair.reach(), [true; 2]);
    pair.port(1, 2, false);
    assert_eq!(pair.reach(), [true; 2]);
    assert_eq!(pair.fabric.set_port(1, 2, false).map(|changed| changed.is_some()), Ok(false));
    assert_eq!(pair.fabric.set_port(2, 1, true).err(), Some(Errno::ENODEV));
    assert_eq!(pair.fabric.set_port(0, 3, true).err(), Some(Errno::EINVAL));
}

/// To a device that is removed nothing leads, and to one that comes back all does.
#[test]
fn a_device_goes_and_comes_back() {
    let mut pair = Connection::new();
    assert_eq!(pair.fabric.set_device(1, false), Ok(true));
    assert_eq!(pair.fabric.set_device(1, false), Ok(false));
    assert!(!pair.reach()[0]);
    assert_eq!(pair.fabric.present(1).err(), Some(Errno::ENODEV));
    assert_eq!(pair.fabric.set_device(1, true), Ok(true));
    assert_eq!((pair.reach(), pair.raised()), ([true; 2], vec![]));
    assert_eq!(pair.fabric.set_device(1, true), Ok(false));
    assert_eq!(pair.fabric.set_device(2, false), Err(Errno::ENODEV));
}

#[test]
fn a_lost_path_is_left() {
    let mut pair = Connection::new();
    pair.rearm(pair.a, path(2, 4));
    pair.rearm(pair.b, path(2, 2));
    // There is no use in a path that leads nowhere.
    pair.port(1, 2, false);
    pair.port(0, 1, false);
    assert_eq!((pair.states(), pair.reach()), ([State::Armed; 2], [false; 2]));
    pair.port(1, 2, true);
    assert_eq!((pair.states(), pair.ports()), ([State::Migrated; 2], [2, 2]));
    assert_eq!((pair.reach(), pair.raised().len()), ([true; 2], 2));
}

/// An event of the two.
#[derive(Clone, Copy, Debug)]
enum Step {
    Port { device: usize, number: u8, is_up: bool },
    Rearm { is_a: bool, port: u8, lid: u16 },
    Migrate { is_a: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..2_usize, 1..3_u8, any::<bool>()).prop_map(|(device, number, is_up)| Step::Port {
            device,
            number,
            is_up
        }),
        (any::<bool>(), 1..3_u8, 1..5_u16).prop_map(|(is_a, port, lid)| Step::Rearm {
            is_a,
            port,
            lid
        }),
        any::<bool>().prop_map(|is_a| Step::Migrate { is_a }),
    ]
}

proptest! {
    /// Whatever ports and programs do: who is armed has an alternate path, who has migrated has
    /// none; nobody stays on a path that is lost while the other one leads somewhere; each end
    /// reaches the other exactly if both ports of its path are up; and each migration is told once.
    #[test]
    fn ports_come_and_go(steps in prop::collection::vec(step(), 1..40)) {
        let mut pair = Connection::new();
        for step in steps {
            let before = pair.ports();
            match step {
                Step::Port { device, number, is_up } => pair.port(device, number, is_up),
                Step::Rearm { is_a, port, lid } => {
                    let index = if is_a { pair.a } else { pair.b };
                    pair.rearm(index, path(port, lid));
                }
                Step::Migrate { is_a } => {
                    let index = if is_a { pair.a } else { pair.b };
                    let _ = pair.ask(index, State::Migrated);
                }
            }
            let raised = pair.raised();
            for (end, index) in [pair.a, pair.b].into_iter().enumerate() {
                let object = pair.known(index);
                prop_assert!(object.migration == State::Migrated || object.alternate.is_some());
                let is_armed = object.migration == State::Armed;
                prop_assert!(!is_armed || !pair.fabric.has_lost_path(index));
                let is_up = |lid: u16| pair.fabric.port_of_lid(lid).is_some_and(Port::is_up);
                let own = object.device as u16 * 2 + u16::from(object.path.port_num);
                prop_assert_eq!(pair.reach()[end], is_up(own) && is_up(object.path.dest.dlid));
                let told = raised.iter().filter(|what| **what == Async::PathMigrated(object.qpn));
                let is_moved = before[end] != object.path.port_num;
                prop_assert!(told.count() >= usize::from(is_moved));
            }
        }
    }
}

/// A queue pair's counts stay with the port that it had then.
#[test]
fn each_port_keeps_what_was_counted_there() {
    let mut pair = Connection::new();
    let sent = |pair: &Connection| {
        let counts = pair.fabric.count_ports();
        [(0, 1), (0, 2), (1, 1)].map(|port| counts[&port].sent().packets)
    };
    let send = |pair: &Connection, packets| {
        let qp = &pair.fabric.arena.qps[pair.a];
        qp.sent.add(&Tally { packets, ..Tally::default() });
    };
    send(&pair, 5);
    assert_eq!(sent(&pair), [5, 0, 0]);
    pair.rearm(pair.a, path(2, 4));
    pair.rearm(pair.b, path(2, 2));
    pair.ask(pair.a, State::Migrated).unwrap();
    assert_eq!(sent(&pair), [5, 0, 0]);
    send(&pair, 7);
    assert_eq!(sent(&pair), [5, 7, 0]);
    pair.fabric.release_qp(pair.a).unwrap();
    assert_eq!(sent(&pair), [5, 7, 0]);
    // The next one in the entry begins anew.
    let path = path(1, 1);
    let next = QpObject { qp_type: qp_type::RC, device: 1, path, ..QpObject::default() };
    pair.a = pair.fabric.take_qp(next, 1).unwrap();
    assert_eq!(sent(&pair), [5, 7, 0]);
    send(&pair, 2);
    assert_eq!(sent(&pair), [5, 7, 2]);
    pair.port(0, 2, false);
    pair.port(0, 2, false);
    pair.port(0, 2, true);
    assert_eq!(pair.fabric.count_ports()[&(0, 2)].downs, 1);
    assert_eq!(pair.fabric.count_ports()[&(0, 1)].downs, 0);
}

#[test]
fn messages_are_as_long_as_the_port_says() {
    let pair = Connection::new();
    let port = &pair.fabric.devices[0].ports[0];
    pair.fabric.describe_path(pair.a);
    let limit = pair.fabric.arena.qps[pair.a].max_message.load(Acquire);
    assert_eq!((limit, port.max_message), (1 << 30, 1 << 30));
}

#[test]
fn packets_have_what_their_path_needs() {
    let pair = Connection::new();
    let port = &pair.fabric.devices[0].ports[0];
    let by_lid = QpDest { dlid: 3, ..QpDest::default() };
    // LRH, BTH, ICRC; with a GRH.
    assert_eq!(packet_octets(port, &by_lid), 8 + 12 + 4);
    assert_eq!(packet_octets(port, &QpDest { is_global: 1, ..by_lid }), 8 + 40 + 12 + 4);
    // Ethernet, IP, UDP, BTH, ICRC.
    let port = &Device::local("rxe0", 7, &[]).ports[0];
    let ipv4 = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets();
    let to = |dgid| QpDest { dgid, is_global: 1, ..QpDest::default() };
    assert_eq!(packet_octets(port, &to(ipv4)), 14 + 20 + 8 + 12 + 4);
    assert_eq!(packet_octets(port, &to([0xfd; 16])), 14 + 40 + 8 + 12 + 4);
}
