//! A device that is not Soft-RoCE's, with two ports, is asked everything.

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use soft_hca_core::uapi::nldev;
use soft_hca_core::uapi::uverbs::command;
use soft_hca_core::uapi::verbs::{PortState, QpAttrMask, access};

use super::*;
use crate::fabric::Fabric;
use crate::fuzz::shapes;
use crate::sysfs;
use crate::uverbs::UverbsFile;

const GUID: u64 = 0x0211_22ff_fe33_4455;
/// GID 0 of the InfiniBand port.
const IB_GID: [u8; 16] =
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x57];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Port 1 is a RoCE port with 192.0.2.7 at GID 1, port 2 an InfiniBand port.
fn two_ports() -> Device {
    let interface = Interface {
        name: "lan7".into(),
        is_running: true,
        mac: Some([2, 0x11, 0x22, 0x33, 0x44, 0x55]),
        addresses: vec![ip("192.0.2.7")],
        mtu: 4000,
        ..Interface::default()
    };
    let roce = Port::rxe(1, &[interface], &[], 1);
    let entry = GidEntry { gid: IB_GID, gid_type: GidType::Ib, netdev: None };
    let infiniband = Port {
        number: 2,
        link_layer: LinkLayer::InfiniBand,
        state: PortState::INIT,
        phys_state: PhysState::LinkUp,
        cap_flags: 0x0251_0868,
        max_message: 1 << 30,
        max_mtu: 4,
        own_mtu: 2,
        followed: Vec::new(),
        max_vl_num: 4,
        width: Width::X4,
        speed: Speed::Edr,
        lid: 0x11,
        lmc: 1,
        sm_lid: 3,
        sm_sl: 5,
        pkeys: vec![0xffff, 0x8001],
        gids: GidTable::new(4, vec![entry]),
        netdev: None,
    };
    let mut device = Device::rxe("two0", GUID, &[], 1);
    device.ports = vec![roce, infiniband];
    device.provider = Provider {
        abi_version: 7,
        vendor_id: 0x1234,
        node_desc: "two ports".into(),
        fw_ver: "1.2.3".into(),
        send_wqe_bytes: 300,
        recv_wqe_bytes: 120,
        cqe_bytes: 128,
        ..device.provider
    };
    device.limits = Limits {
        max_send_wr: 50,
        max_recv_wr: 50,
        max_send_sge: 4,
        max_recv_sge: 4,
        max_inline_data: 80,
        max_cqe: 100,
        max_srq_wr: 30,
        max_srq_sge: 2,
        max_qp_init_rd_atom: 4,
        num_comp_vectors: 3,
        ..device.limits
    };
    device
}

/// A program that has opened the device.
struct Program {
    fabric: Fabric,
    file: UverbsFile,
}

impl Program {
    /// Handle 0 is a protection domain, 1 a completion queue.
    fn new() -> Self {
        Self::of(two_ports())
    }

    fn of(device: Device) -> Self {
        let device = Arc::new(device);
        let fabric = Fabric::new(vec![Arc::clone(&device)], || 0).unwrap();
        let mut program = Self { fabric, file: UverbsFile::new(1, 1, device) };
        let context = program.ask(command::GET_CONTEXT, 8, &[]).unwrap();
        assert_eq!(context[4..8], [3, 0, 0, 0]);
        assert_eq!(program.made(command::ALLOC_PD, 8, &[]), Ok(0));
        assert_eq!(program.made(command::CREATE_CQ, 32, &[(16, 100), (20, 2), (24, NONE)]), Ok(1));
        program
    }

    fn bytes(&mut self, number: u32, payload: &[u8]) -> Result<Vec<u8>> {
        let written = shapes::encode(number, payload, 100);
        let outcome = self.file.command(&mut self.fabric, &written);
        let has_reason = |error: &Errno| error.reason().is_some();
        assert!(outcome.as_ref().err().is_none_or(has_reason), "{:?} for no reason", outcome.err());
        Ok(outcome?.answer)
    }

    /// A command with these words.
    fn ask(&mut self, number: u32, length: usize, words: &[(usize, u32)]) -> Result<Vec<u8>> {
        let mut payload = vec![0; length];
        for &(at, word) in words {
            payload[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        self.bytes(number, &payload)
    }

    /// The handle of what a command has created.
    fn made(&mut self, number: u32, length: usize, words: &[(usize, u32)]) -> Result<u32> {
        let answer = self.ask(number, length, words)?;
        Ok(u32::from_le_bytes(answer[..4].try_into().unwrap()))
    }

    /// A queue pair with so much room: requests and SGEs of sends, of receives, inline bytes.
    fn queue_pair(
        &mut self,
        [send_wr, recv_wr, send_sge, recv_sge, inline]: [u32; 5],
    ) -> Result<u32> {
        let room = [(32, send_wr), (36, recv_wr), (40, send_sge), (44, recv_sge), (48, inline)];
        let words = [&[(12 + 8, 1), (16 + 8, 1), (52, 2 << 8)], &room[..]].concat();
        self.made(command::CREATE_QP, 56, &words)
    }

    fn modify(
        &mut self,
        handle: u32,
        mask: QpAttrMask,
        to: u8,
        bytes: &[(usize, u8)],
    ) -> Result<()> {
        let mut payload = vec![0; 112];
        payload[64] = handle as u8;
        payload[68..72].copy_from_slice(&mask.bits().to_le_bytes());
        payload[96] = to;
        bytes.iter().for_each(|&(at, byte)| payload[at] = byte);
        self.bytes(command::MODIFY_QP, &payload).map(drop)
    }

    fn address_handle(&mut self, port: u8, sgid_index: u8, dgid: [u8; 16]) -> Result<()> {
        let mut payload = vec![0; 56];
        payload[24..40].copy_from_slice(&dgid);
        (payload[44], payload[53], payload[54]) = (sgid_index, 1, port);
        self.bytes(command::CREATE_AH, &payload).map(drop)
    }
}

/// No completion channel.
const NONE: u32 = u32::MAX;
const REFUSED: Result<u32> = Err(Errno::EINVAL);

#[test]
fn the_device_and_its_ports_are_queried() {
    let mut program = Program::new();
    let device = program.ask(command::QUERY_DEVICE, 8, &[]).unwrap();
    let extended = program.ask(command::EX_QUERY_DEVICE, 8, &[]).unwrap();
    assert_eq!(extended[..176], device);
    assert_eq!(device[8..16], GUID.to_be_bytes());
    let word = |at: usize| u32::from_le_bytes(device[at..at + 4].try_into().unwrap());
    // Vendor, then max_qp_wr, max_sge, max_cqe, max_qp_init_rd_atom, max_srq_wr, max_srq_sge
    assert_eq!(word(40), 0x1234);
    assert_eq!([56, 64, 76, 100, 160, 164].map(word), [50, 4, 100, 4, 30, 2]);
    assert_eq!(device[171], 2);

    let mut port = |number: u32| program.ask(command::QUERY_PORT, 16, &[(8, number)]);
    let roce = port(1).unwrap();
    assert_eq!((roce[16], roce[20]), (16, 1));
    // State, largest and active MTU, link layer, whether a GID is needed
    assert_eq!((&roce[26..29], &roce[36..39]), (&[4, 5, 4][..], &[5, 2, 1][..]));
    let ib = port(2).unwrap();
    assert_eq!(ib[..8], [0x68, 8, 0x51, 2, 0, 0, 0, 0x40]);
    assert_eq!(ib[16..26], [4, 0, 0, 0, 2, 0, 0x11, 0, 3, 0]);
    assert_eq!(ib[26..40], [2, 4, 2, 1, 4, 5, 0, 0, 2, 32, 5, 1, 0, 0]);
    assert_eq!(port(0), Err(Errno::EINVAL));
    assert_eq!(port(3), Err(Errno::EINVAL));
}

#[test]
fn commands_are_checked_against_the_devices_limits() {
    let mut program = Program::new();
    let mut queue =
        |cqe, vector| program.made(command::CREATE_CQ, 32, &[(16, cqe), (20, vector), (24, NONE)]);
    assert_eq!((queue(101, 0), queue(100, 3)), (REFUSED, REFUSED));
    assert!(queue(100, 2).is_ok());
    let resized = program.ask(command::RESIZE_CQ, 16, &[(8, 1), (12, 101)]);
    assert_eq!(resized, Err(Errno::EINVAL));

    let most = [50, 50, 4, 4, 80];
    for at in 0..5 {
        let mut room = most;
        room[at] += 1;
        assert_eq!(program.queue_pair(room), REFUSED, "{room:?}");
    }
    assert!(program.queue_pair(most).is_ok());

    let mut shared = |wr, sge| program.made(command::CREATE_SRQ, 32, &[(20, wr), (24, sge)]);
    assert_eq!((shared(31, 2), shared(30, 3)), (REFUSED, REFUSED));
    let srq = shared(30, 2).unwrap();
    let resized = program.ask(command::MODIFY_SRQ, 24, &[(0, srq), (4, 1), (8, 31)]);
    assert_eq!(resized, Err(Errno::EINVAL));

    // Slots have room for the provider's work requests.
    let arena = &program.fabric.arena;
    let slot = |place: &soft_hca_core::arena::RingLocation| 1 << place.log2_slot.load(Acquire);
    assert_eq!((slot(&arena.cqs[0].ring), slot(&arena.srqs[0].ring)), (128, 256));
    assert_eq!((slot(&arena.qps[0].sq), slot(&arena.qps[0].rq)), (512, 256));
}

/// As many objects of each kind as are announced, and no more; one that goes makes room.
#[test]
fn announced_limits_are_kept() {
    let mut program = Program::new();
    let limits = program.file.device.limits.clone();
    let srq = [(20, 5), (24, 1)];
    let region = [(8, 1 << 16), (16, 1)];
    let window = [(12, 1)];
    let of_kind = |fabric: &Fabric, number| match number {
        command::CREATE_SRQ => fabric.in_use().srqs,
        command::ALLOC_PD => fabric.pds() as usize,
        _ => fabric.in_use().mrs,
    };
    for (create, length, words, most, destroy, at) in [
        (command::CREATE_SRQ, 32, &srq[..], limits.max_srq, (command::DESTROY_SRQ, 16), 8),
        (command::REG_MR, 40, &region[..], limits.max_mr, (command::DEREG_MR, 4), 0),
        (command::ALLOC_MW, 16, &window[..], limits.max_mw, (command::DEALLOC_MW, 4), 0),
        (command::ALLOC_PD, 8, &[], limits.max_pd, (command::DEALLOC_PD, 4), 0),
    ] {
        let before = of_kind(&program.fabric, create);
        let mut last = 0;
        // One more than there can be.
        let refused = (0..=most as usize).find_map(|_| {
            let made = program.made(create, length, words);
            made.map(|handle| last = handle).err()
        });
        assert_eq!(refused, Some(Errno::ENOMEM), "{create}");
        let own = usize::from(create == command::ALLOC_PD);
        assert_eq!(of_kind(&program.fabric, create) - before + own, most as usize, "{create}");
        program.ask(destroy.0, destroy.1, &[(at, last)]).unwrap();
        assert_eq!(program.made(create, length, words), Ok(last), "{create}");
    }
}

#[test]
fn a_shared_receive_queue_says_how_many_it_takes() {
    let mut program = Program::new();
    for (requested, taken) in [(1, 1), (5, 7), (8, 15), (15, 15)] {
        let answer = program.ask(command::CREATE_SRQ, 32, &[(20, requested), (24, 1)]).unwrap();
        let word = |answer: &[u8], at| u32::from_le_bytes(answer[at..at + 4].try_into().unwrap());
        assert_eq!(word(&answer, 4), taken);
        let queried = program.ask(command::QUERY_SRQ, 16, &[(8, word(&answer, 0))]).unwrap();
        assert_eq!(word(&queried, 0), taken);
    }
}

#[test]
fn a_group_has_so_many_members() {
    let mut program = Program::new();
    let max = program.file.device.limits.max_mcast_qp_attach;
    let group = |qp: u32| [(0, 0xff), (4, 0), (8, 0), (12, 7), (16, qp)];
    for member in 0..=max {
        let room = [(32, 1), (36, 1), (40, 1), (44, 1), (12 + 8, 1), (16 + 8, 1), (52, 4 << 8)];
        let qp = program.made(command::CREATE_QP, 56, &room).unwrap();
        let attached = program.ask(command::ATTACH_MCAST, 24, &group(qp)).map(drop);
        let expected = if member < max { Ok(()) } else { Err(Errno::ENOMEM) };
        assert_eq!(attached, expected, "{member}");
    }
}

#[test]
fn regions_allow_what_the_device_can_do() {
    let mut program = Program::new();
    let mut register = |access| program.ask(command::REG_MR, 40, &[(16, 4096), (36, access)]);
    let lacking = register(access::FLUSH_PERSISTENT | access::FLUSH_GLOBAL);
    assert_eq!(lacking, Err(Errno::EOPNOTSUPP));
    assert_eq!(register(1 << 10), Err(Errno::EINVAL));
    register(access::ON_DEMAND).unwrap();
    // Relaxed ordering, and what nobody knows and a device may ignore.
    register(access::RELAXED_ORDERING | 1 << 21).unwrap();
    // A peer that only flushes needs a key, too.
    let answer = register(access::FLUSH_GLOBAL).unwrap();
    assert_eq!(answer[4..8], answer[8..12]);
    assert_eq!(register(0).unwrap()[8..12], [0; 4]);
}

#[test]
fn what_is_in_use_is_not_destroyed() {
    let mut program = Program::new();
    let pair = program.queue_pair([1, 1, 1, 1, 0]).unwrap();
    let destroy_cq = |program: &mut Program| program.ask(command::DESTROY_CQ, 16, &[(8, 1)]);
    let dealloc_pd = |program: &mut Program| program.ask(command::DEALLOC_PD, 4, &[]);
    let refusal = destroy_cq(&mut program).unwrap_err();
    assert_eq!(refusal, Errno::EBUSY);
    let number = program.fabric.qpn(0).unwrap();
    assert_eq!(refusal.values().to_string(), format!(": qp {number}"));
    let refusal = dealloc_pd(&mut program).unwrap_err();
    assert_eq!(refusal, Errno::EBUSY);
    // All that was created, and of the shared receive queue its number.
    let users = refusal.values().to_string();
    assert!(users.starts_with(": ") && users.contains(&format!("qp {number}")), "{users}");
    program.ask(command::DESTROY_QP, 16, &[(8, pair)]).unwrap();
    destroy_cq(&mut program).unwrap();
    dealloc_pd(&mut program).unwrap();
}

#[test]
fn a_region_with_a_window_stays() {
    let mut program = Program::new();
    // Of a page, with all rights.
    let region = [(8, 0x1000), (16, 0x1000), (24, 0x1000), (36, 0x1f)];
    let mr = program.made(command::REG_MR, 40, &region).unwrap();
    let bound = |program: &Program, windows| {
        let mr = &program.fabric.arena.mrs[0];
        assert_ne!(mr.live.load(Acquire), 0);
        mr.bound.store(windows, Release);
    };
    bound(&program, 2);
    let dereg = |program: &mut Program| program.ask(command::DEREG_MR, 4, &[(0, mr)]);
    let refusal = dereg(&mut program).unwrap_err();
    assert_eq!(refusal, Errno::EINVAL);
    assert_eq!(refusal.reason(), Some(Refusal::MrInUse));
    bound(&program, 0);
    dereg(&mut program).unwrap();
    assert_eq!(program.fabric.arena.mrs[0].live.load(Acquire), 0);
}

#[test]
fn queue_pairs_and_address_handles_are_of_a_port() {
    let mut program = Program::new();
    let qp = program.queue_pair([10, 10, 1, 1, 0]).unwrap();
    for port in [0, 3] {
        assert_eq!(program.modify(qp, QpAttrMask::INIT, 1, &[(104, port)]), Err(Errno::EINVAL));
    }
    program.modify(qp, QpAttrMask::INIT, 1, &[(104, 2)]).unwrap();
    // To itself: GID 0 of port 2, with a path MTU that the port has
    let to = |port: u8, index: u8, mtu: u8| {
        let gid = IB_GID.iter().copied().enumerate();
        gid.chain([(24, index), (30, 1), (31, port), (98, mtu)]).collect::<Vec<_>>()
    };
    // No such port, beyond the GID table, a path MTU that is too large; an empty slot of the table
    for wrong in [to(3, 0, 4), to(2, 4, 4), to(2, 0, 5)] {
        assert_eq!(program.modify(qp, QpAttrMask::RTR_RC, 2, &wrong), Err(Errno::EINVAL));
    }
    for empty in [to(2, 1, 4), to(2, 3, 4)] {
        assert_eq!(program.modify(qp, QpAttrMask::RTR_RC, 2, &empty), Err(Errno::ENODATA));
    }
    // min_rnr_timer is taken by its low five bits
    let with_timer = [to(2, 0, 4), vec![(103, 0x2c)]].concat();
    program.modify(qp, QpAttrMask::RTR_RC, 2, &with_timer).unwrap();
    assert_eq!(program.modify(qp, QpAttrMask::RTS_RC, 3, &[(101, 5)]), Err(Errno::EINVAL));
    program.modify(qp, QpAttrMask::RTS_RC, 3, &[(101, 4)]).unwrap();
    let answer = program.ask(command::QUERY_QP, 16, &[(8, qp)]).unwrap();
    assert_eq!(answer[115..117], [0x0c, 2]);

    let roce_gid = two_ports().ports[0].gids.gid(1);
    assert_eq!(program.address_handle(1, 1, roce_gid), Ok(()));
    assert_eq!(program.address_handle(2, 0, IB_GID), Ok(()));
    assert_eq!(program.address_handle(2, 1, IB_GID), Err(Errno::ENODATA));
    assert_eq!(program.address_handle(2, 4, IB_GID), Err(Errno::EINVAL));
    assert_eq!(program.address_handle(3, 0, IB_GID), Err(Errno::EINVAL));
    let mut nobody = IB_GID;
    nobody[15] = 1;
    assert_eq!(program.address_handle(1, 0, nobody), Err(Errno::ETIMEDOUT));
    // On InfiniBand the LID decides, and nobody is asked whether it leads anywhere.
    assert_eq!(program.address_handle(2, 0, nobody), Ok(()));
}

/// Port 2's table has 0xffff, 0x8001 and an empty place; rxe, as port 1, takes any index.
#[test]
fn a_p_key_has_an_index() {
    let mut device = two_ports();
    device.ports[1].pkeys.push(0);
    let mut program = Program::of(device);
    let qp = program.queue_pair([10, 10, 1, 1, 0]).unwrap();
    let pkey = |program: &Program| program.fabric.arena.qps[0].pkey.load(Acquire);
    let mut init = |port: u8, index: u8| {
        let done = program.modify(qp, QpAttrMask::INIT, 1, &[(92, index), (104, port)]);
        done.map(|()| pkey(&program))
    };
    assert_eq!(init(2, 1), Ok(0x8001));
    assert_eq!(init(2, 2), Err(Errno::EINVAL));
    assert_eq!(init(2, 3), Err(Errno::EINVAL));
    assert_eq!(init(1, 3), Ok(0xffff));
    let index = QpAttrMask::PKEY_INDEX | QpAttrMask::STATE;
    assert_eq!(init(2, 0), Ok(0xffff));
    let refusal = program.modify(qp, index, 1, &[(92, 2)]).unwrap_err();
    assert_eq!(refusal.reason(), Some(Refusal::PkeyIndex));
    assert_eq!(pkey(&program), 0xffff);
    program.modify(qp, index, 1, &[(92, 1)]).unwrap();
    assert_eq!(pkey(&program), 0x8001);
    let answer = program.ask(command::QUERY_QP, 16, &[(8, qp)]).unwrap();
    assert_eq!(answer[104..106], [1, 0]);
}

#[test]
fn a_fabric_may_have_several_devices() {
    let mut program = Program::new();
    let other = Arc::new(Device::rxe("rxe0", 5, &[], 9));
    let gid = other.ports[0].gids.gid(0);
    assert_eq!(program.address_handle(1, 0, gid), Err(Errno::ETIMEDOUT));
    program.fabric.devices.push(Arc::clone(&other));
    assert_eq!(program.address_handle(1, 0, gid), Ok(()));

    let devices = &program.fabric.devices;
    let found = |text: &str| {
        let source = find_source(devices, ip(text))?;
        Some((source.device.name.clone(), source.port_num, source.gid_index))
    };
    assert_eq!(found("192.0.2.7"), Some(("two0".into(), 1, 1)));
    assert_eq!(found("fe80::9"), Some(("rxe0".into(), 1, 0)));
    // An InfiniBand port's GID is no address of IP.
    assert_eq!(found("fe80::211:22ff:fe33:4457"), None);
    assert_eq!(found("192.0.2.8"), None);
}

#[test]
fn sysfs_and_netlink_say_the_same() {
    let dir = std::env::temp_dir().join(format!("soft-hca-two-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    sysfs::write(
        &dir,
        "both",
        &[two_ports(), Device { index: 1, ..Device::rxe("rxe0", 5, &[], 9) }],
    )
    .unwrap();
    let class = sysfs::tree(&dir, "both").join("class");
    let read = |path: &str| fs::read_to_string(class.join(path)).unwrap().trim_end().to_owned();
    assert_eq!(read("infiniband_verbs/uverbs0/ibdev"), "two0");
    assert_eq!(read("infiniband_verbs/uverbs0/abi_version"), "7");
    assert_eq!(read("infiniband_verbs/uverbs0/dev"), "231:192");
    assert_eq!(read("infiniband_verbs/uverbs1/ibdev"), "rxe0");
    assert_eq!(read("infiniband_verbs/uverbs1/dev"), "231:193");
    assert_eq!(read("infiniband/two0/node_guid"), "0211:22ff:fe33:4455");
    assert_eq!(read("infiniband/two0/node_desc"), "two ports");
    assert_eq!(read("infiniband/two0/fw_ver"), "1.2.3");
    assert_eq!(read("infiniband/two0/parent"), "lan7");
    let port = |number: u8, file: &str| read(&format!("infiniband/two0/ports/{number}/{file}"));
    for (file, roce, infiniband) in [
        ("state", "4: ACTIVE", "2: INIT"),
        ("phys_state", "5: LinkUp", "5: LinkUp"),
        ("rate", "10 Gb/sec (1X FDR10)", "100 Gb/sec (4X EDR)"),
        ("lid", "0x0", "0x11"),
        ("lid_mask_count", "0", "1"),
        ("sm_lid", "0x0", "0x3"),
        ("sm_sl", "0", "5"),
        ("cap_mask", "0x00010000", "0x02510868"),
        ("link_layer", "Ethernet", "InfiniBand"),
        ("pkeys/0", "0xffff", "0xffff"),
        (
            "gids/0",
            "fe80:0000:0000:0000:0011:22ff:fe33:4455",
            "fe80:0000:0000:0000:0211:22ff:fe33:4457",
        ),
        ("gid_attrs/types/0", "RoCE v2", "IB/RoCE v1"),
    ] {
        assert_eq!((port(1, file).as_str(), port(2, file).as_str()), (roce, infiniband), "{file}");
    }
    assert_eq!(
        (port(2, "pkeys/1"), port(1, "gid_attrs/ndevs/1")),
        ("0x8001".into(), "lan7".into())
    );
    let ports = class.join("infiniband/two0/ports");
    for missing in ["1/pkeys/1", "2/gids/4", "2/gid_attrs/ndevs/0", "3", "0"] {
        assert!(!ports.join(missing).exists(), "{missing}");
    }

    let devices = soft_hca_core::sysfs::devices(&sysfs::tree(&dir, "both"));
    fs::remove_dir_all(&dir).unwrap();
    let [two, rxe] = &devices[..] else { panic!("{devices:?}") };
    assert_eq!((two.index, two.name.as_str(), two.node_guid), (0, "two0", GUID));
    assert_eq!((rxe.index, rxe.name.as_str(), rxe.node_guid), (1, "rxe0", 5));
    assert_eq!((two.ports.len(), rxe.ports.len()), (2, 1));
    let of = |port: &nldev::PortAttributes| {
        (port.number, port.cap_flags, port.state, port.netdev.clone())
    };
    assert_eq!(of(&two.ports[0]), (1, 0x10000, 4, "lan7".into()));
    assert_eq!(of(&two.ports[1]), (2, 0x0251_0868, 2, String::new()));
    let subnet = nldev::Subnet { prefix: 0xfe80 << 48, lid: 0x11, sm_lid: 3, lmc: 1 };
    assert_eq!([&two.ports[0], &two.ports[1]].map(|port| port.subnet), [None, Some(subnet)]);
}
