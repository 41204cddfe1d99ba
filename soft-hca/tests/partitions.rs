//! Partitions of InfiniBand, and ports with several LIDs.
//!
//! See `stock.rs` about programs that are not installed; the packages are ibverbs-utils, perftest,
//! rdmacm-utils, infiniband-diags, iproute2 and python3-pyverbs.

use std::path::PathBuf;
use std::process::Command;

use programs::place::Place;
use programs::{assert_has, headers, installed, pyverbs, tcp, write_python};

const PORT: u16 = 7471;

const GROUP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/partitions/group.c");

/// Of the partition 2 rxe0's port is a limited member and rxe1's a full one.
const DEVICES: [&str; 2] = [
    "rxe0:infiniband,pkey=0x8001,pkey=0x0002,lmc=2",
    "rxe1:infiniband,pkey=0x8001,pkey=0x8002,pkey=0x8003",
];
/// The output of a queue pair that has nothing to hear: IBV_WC_RETRY_EXC_ERR is 12.
const SILENCE: &str = "12 False\n";
const HEARD: &str = "0 True\n";

fn with(name: &str, devices: &[&str]) -> Place {
    let options = devices.iter().flat_map(|device| ["--device", device]).map(String::from);
    Place::with(name, Vec::new(), options.collect())
}

/// A fabric in which `partitions.py` is run; `None` without Python's module.
struct Cases {
    place: Place,
    python: PathBuf,
}

impl Cases {
    fn new(name: &str) -> Option<Self> {
        let python = pyverbs()?;
        let place = with(name, &DEVICES);
        write_python(&place, "partitions.py", include_str!("partitions/partitions.py"));
        Some(Self { place, python })
    }

    /// The output of a case.
    fn run(&self, case: &str) -> String {
        self.place.start(&format!("{} partitions.py {case}", self.python.display())).succeed()
    }
}

#[test]
fn ports_have_a_table_of_p_keys() {
    let Some(cases) = Cases::new("pkeys") else { return };
    let table = "rxe0 16 16 0xffff 0x8001 0x0002\nrxe1 16 16 0xffff 0x8001 0x8002 0x8003\n";
    assert_eq!(cases.run("keys"), table);
    // Empty places, and beyond the table: EINVAL.
    assert_eq!(cases.run("index"), "3 22\n15 22\n16 22\n65535 22\n");
    if installed(&["ibv_devinfo"]) {
        let text = cases.place.start("ibv_devinfo -v -d rxe0").succeed();
        assert_has(&text, &["max_pkeys:\t\t\t16", "port_lid:\t\t4", "port_lmc:\t\t0x02"]);
    }
    let pkey = "cat /sys/class/infiniband/rxe0/ports/1/pkeys/";
    let pkeys = [1, 2, 3].map(|index| cases.place.start(&format!("{pkey}{index}")).succeed());
    assert_eq!(pkeys, ["0x8001\n", "0x0002\n", "0x0000\n"]);
    cases.place.assert_gone();
}

/// A queue pair in another partition, or a limited member as the sender is, hears nothing.
#[test]
fn partitions_are_apart() {
    let Some(cases) = Cases::new("apart") else { return };
    // Indices of rxe0's and rxe1's P_Keys: default, full and full, limited and full; others.
    for (one, other, is_heard) in [
        (0, 0, true),
        (1, 1, true),
        (2, 2, true),
        (0, 1, false),
        (1, 2, false),
        (1, 3, false),
        (2, 0, false),
    ] {
        let indices = format!("{one} {other}");
        let reliable = cases.run(&format!("reliable {indices}"));
        assert_eq!(reliable, if is_heard { HEARD } else { SILENCE }, "{indices}");
        let unreliable = cases.run(&format!("unreliable {indices}"));
        assert_eq!(unreliable, if is_heard { HEARD } else { "0 False\n" }, "{indices}");
        let heard = cases.run(&format!("datagram {indices}"));
        assert_eq!(heard, if is_heard { "True\n" } else { "False\n" }, "{indices}");
    }
    cases.place.assert_gone();
}

#[test]
fn groups_are_of_a_partition() {
    if !installed(&["cc"]) || !headers(&["infiniband/verbs.h"].into()) {
        return;
    }
    let place = with("group", &DEVICES);
    let program = place.file("group");
    let mut command = Command::new("cc");
    command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    let output = command.args([GROUP, "-libverbs"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (indices, heard) in
        [("0 0", "True\n"), ("2 2", "True\n"), ("0 1", "False\n"), ("2 1", "False\n")]
    {
        let line = format!("{} {indices}", program.display());
        assert_eq!(place.start(&line).succeed(), heard, "{indices}");
    }
    place.assert_gone();
}

/// Two limited members of the default partition: neither by queue pairs nor by the connection
/// manager do they find each other.
#[test]
fn limited_members_do_not_hear_each_other() {
    if !installed(&["rping", "ib_send_lat"]) {
        return;
    }
    let limited = ["rxe0:infiniband,pkey=0x7fff", "rxe1:infiniband,pkey=0x7fff", "rxe2:infiniband"];
    let place = with("limited", &limited);
    let line = format!("-C 2 -v -a 198.18.1.1 -p {PORT}");
    let mut server = place.start(&format!("rping -s {line}"));
    server.wait_until(|| place.listens(PORT));
    let mut client = place.start(&format!("rping -c -I 198.18.2.1 {line}"));
    client.succeed();
    server.succeed();
    let mut server = place.start(&format!("rping -s {line}"));
    server.wait_until(|| place.listens(PORT));
    let mut client = place.start(&format!("rping -c {line}"));
    assert!(!client.wait().success());
    // -110 is ETIMEDOUT.
    assert_has(&client.output(), &["RDMA_CM_EVENT_ADDR_ERROR", "error -110"]);
    server.kill();
    let (port, lat) = (tcp::free_port(), "ib_send_lat -n 10 -u 10");
    let mut server = place.start(&format!("{lat} -d rxe0 -p {port}"));
    server.wait_until(|| tcp::listens(port));
    let mut client = place.start(&format!("{lat} -d rxe1 -p {port} 127.0.0.1"));
    assert!(!client.wait().success());
    assert_has(&client.output(), &["Failed status 12"]);
    server.kill();
    place.assert_gone();
}

/// Processes on two devices, by perftest's option for the P_Key.
#[test]
fn perftest_in_a_partition() {
    if !installed(&["ib_send_lat", "ib_write_lat"]) {
        return;
    }
    for (program, ours, theirs) in
        [("ib_send_lat -c RC", 1, 1), ("ib_write_lat", 2, 2), ("ib_send_lat -c UD", 1, 1)]
    {
        let place = with("in-partition", &DEVICES);
        let port = tcp::free_port();
        let mut server =
            place.start(&format!("{program} -n 100 -d rxe0 --pkey_index={ours} -p {port}"));
        server.wait_until(|| tcp::listens(port));
        let client = format!("{program} -n 100 -d rxe1 --pkey_index={theirs} -p {port} 127.0.0.1");
        place.start(&client).succeed();
        server.succeed();
        place.assert_gone();
    }
}

/// With an LMC of 2 the port has four LIDs; the receiver learns of both ends' bits.
#[test]
fn every_lid_of_a_port_leads_there() {
    let Some(cases) = Cases::new("lids") else { return };
    let keeper = cases.place.keep();
    // rxe0 has the LIDs 4 to 7, rxe1 has 8, and no bits.
    assert_eq!(cases.run("paths"), "4 8 0\n5 8 1\n6 8 2\n7 8 3\n6\n");
    for bits in ["0 0", "3 3", "1 2"] {
        assert_eq!(cases.run(&format!("connection {bits}")), "0 100\n0 100\n", "{bits}");
    }
    assert_has(&cases.place.listing(), &["layer InfiniBand lid 4 lmc 2\n", "lid 8\n"]);
    if installed(&["ibstat"]) {
        let text = cases.place.start("ibstat rxe0").succeed();
        assert_has(&text, &["Base lid: 4", "LMC: 2", "SM lid: 4"]);
    }
    if installed(&["rdma"]) {
        let text = cases.place.start("rdma link show").succeed();
        assert_has(&text, &["subnet_prefix fe80:0000:0000:0000 lid 4 sm_lid 4 lmc 2", " lid 8 "]);
    }
    cases.place.end(keeper);
}

/// Words that are none, and devices without them.
#[test]
fn words_that_are_refused() {
    let place = Place::new("pkey-words");
    for (device, why) in [
        ("rxe0:pkey=0x8001", "rxe0: pkey and lmc are for InfiniBand devices"),
        ("rxe0:infiniband,pkey=0x8000", "pkey=0x8000: a P_Key is a number of 16 bits"),
        ("rxe0:infiniband,pkey=1,pkey=0x8001", "another P_Key of this partition"),
        ("rxe0:infiniband,lmc=8", "lmc=8: a port's LMC is 0 to 7"),
    ] {
        let output = place.command(&["run", "--device", device, "--", "true"]).output().unwrap();
        assert!(!output.status.success(), "{device}");
        assert_has(&String::from_utf8(output.stderr).unwrap(), &[why]);
    }
}
