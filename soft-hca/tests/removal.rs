//! Devices that are removed while programs use them, and come back under the same name.
//!
//! See `stock.rs` about programs that are not installed; the packages are ibverbs-utils, perftest
//! and rdmacm-utils.

use std::fs::File;

use programs::place::Place;
use programs::program::Program;
use programs::tcp;
use programs::{LIMIT, LOCALHOST, assert_has, comes_about, compile, installed};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/removal/removal.c");

/// A port of the connection manager: each fabric has its own.
const PORT: u16 = 7471;

/// The output of `removal.c` after its device has gone.
const TOLD: &str = "\
ibv_get_cq_event: EIO
event: local catastrophic error
poll of the channel: 1
ibv_get_async_event: EAGAIN
event: RDMA_CM_EVENT_DEVICE_REMOVAL 0
rdma_listen: ENXIO
ibv_query_device: EIO
ibv_query_port: EIO
ibv_alloc_pd: EIO
ibv_reg_mr: EIO
ibv_create_cq: EIO
ibv_modify_qp: EIO
ibv_req_notify_cq: EIO
ibv_post_send: EIO
ibv_poll_cq: 0
ibv_dealloc_pd: 0
ibv_destroy_ah: 0
ibv_destroy_qp: 0
ibv_destroy_srq: 0
ibv_destroy_cq: 0
ibv_dereg_mr: 0
ibv_destroy_comp_channel: 0
ibv_close_device: 0
rdma_destroy_id: 0
the device is gone
";

/// A fabric with two devices.
fn two(name: &str) -> Place {
    let options = ["--device", "rxe0", "--device", "rxe1"];
    Place::with(name, Vec::new(), options.map(String::from).to_vec())
}

/// `soft-hca device` for a device of the fabric, and what it says if it fails.
fn device(place: &Place, action: &str, device: &str) -> Result<(), String> {
    let line = ["device", action, device, "--fabric", place.fabric_name()];
    let output = place.command(&line).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    if output.status.success() { Ok(()) } else { Err(said) }
}

/// Lines in any order: two threads print the first two.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Each call of a program whose device goes, and of one that opens it when it is back.
#[test]
fn what_a_program_is_told() {
    let place = two("removal-told");
    let Some(program) = compile(&place, SOURCE, &["ibverbs", "rdmacm", "pthread"]) else { return };
    let keeper = place.keep();
    let mut program = place.start(&format!("{program} rxe1 198.18.1.1"));
    let output = program.output_file();
    let printed = || std::fs::read_to_string(&output).unwrap();
    program.wait_until(|| printed().contains("ready"));
    device(&place, "remove", "rxe1").unwrap();
    program.wait_until(|| printed().contains("the device is gone"));
    assert_eq!(sorted(&printed()), sorted(&format!("ready\n{TOLD}")));
    assert_has(&place.listing(), &["link rxe0/1 state ACTIVE", "device rxe1 removed"]);
    assert!(!place.listing().contains("qp lqpn"), "{}", place.listing());
    device(&place, "add", "rxe1").unwrap();
    assert_has(&program.succeed(), &["the device is gone\nibv_reg_mr: 0\n"]);
    assert_has(&place.listing(), &["link rxe1/1 state ACTIVE"]);
    place.end(keeper);
}

/// A record says why what fails does.
#[test]
fn it_is_explained() {
    let place = two("removal-explained");
    let Some(program) = compile(&place, SOURCE, &["ibverbs", "rdmacm", "pthread"]) else { return };
    let record = place.file("removal.shr");
    let record = record.to_str().unwrap();
    let mut line = vec!["record", "-o", record, "--fabric", place.fabric_name()];
    line.extend(["--device", "rxe0", "--device", "rxe1", "--", &program, "rxe1", "198.18.1.1"]);
    let file = place.file("recorded.txt");
    let output = File::create(&file).unwrap();
    let child = place.command(&line).stdout(output).spawn().unwrap();
    let mut recorded = Program::new("soft-hca record", child, file.clone());
    let printed = |text: &str| std::fs::read_to_string(&file).unwrap().contains(text);
    recorded.wait_until(|| printed("ready"));
    device(&place, "remove", "rxe1").unwrap();
    recorded.wait_until(|| printed("the device is gone"));
    device(&place, "add", "rxe1").unwrap();
    recorded.succeed();
    let output = place.command(&["explain", record]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let why = "    why: the device has been removed\n    usual cause: the device was removed under";
    assert_has(&text, &["ibv_query_device is refused with EIO", "is refused with ENXIO", why]);
    place.assert_gone();
}

/// Its peer is as if a cable was pulled; who waits for it by events is woken; another device's
/// programs notice nothing.
#[test]
fn a_peer_finds_nobody() {
    if !installed(&["ibv_rc_pingpong", "ibv_devices", "ib_write_bw"]) {
        return;
    }
    let place = two("removal-peer");
    let keeper = place.keep();
    let connected =
        |count: usize| place.objects().iter().filter(|line| line.contains("RTS")).count() == count;
    let pair = |devices: [&str; 2], first: usize| {
        let port = tcp::free_port();
        let line = format!("ibv_rc_pingpong -g 1 -n 100000000 -p {port}");
        let mut server = place.start(&format!("{line} -d {} -e", devices[0]));
        server.wait_until(|| tcp::listens(port));
        let mut client = place.start(&format!("{line} -d {} {LOCALHOST}", devices[1]));
        client.wait_until(|| connected(first + 2));
        (server, client)
    };
    let mut others = pair(["rxe0", "rxe0"], 0);
    let (mut server, mut client) = pair(["rxe1", "rxe0"], 2);
    let port = tcp::free_port();
    let line = format!("ib_write_bw -x 1 -D 100 -p {port}");
    let mut target = place.start(&format!("{line} -d rxe1"));
    target.wait_until(|| tcp::listens(port));
    let mut writer = place.start(&format!("{line} -d rxe0 {LOCALHOST}"));
    // The target is in RTR.
    writer.wait_until(|| connected(5));
    device(&place, "remove", "rxe1").unwrap();
    assert!(!server.wait().success() && !writer.wait().success());
    let said = server.output();
    let is_told = said.contains("Failed to get cq_event") || said.contains("Couldn't post send");
    assert!(is_told, "{said}");
    assert_has(&writer.output(), &["Failed status 12"]);
    // Whether it is its turn to send is chance.
    [&mut client, &mut target].iter_mut().for_each(|program| program.kill());
    assert!(!others.0.has_ended() && !others.1.has_ended());
    let devices = || place.start("ibv_devices").succeed();
    assert!(!devices().contains("rxe1"), "{}", devices());
    let mut none = place.start("ibv_rc_pingpong -g 1 -d rxe1");
    assert!(!none.wait().success());
    assert_has(&none.output(), &["IB device rxe1 not found"]);
    device(&place, "add", "rxe1").unwrap();
    assert!(devices().contains("rxe1"), "{}", devices());
    let again = pair(["rxe1", "rxe0"], 2);
    [others.0, others.1, again.0, again.1].iter_mut().for_each(|program| program.kill());
    place.end(keeper);
}

/// A listener at all addresses stays; the connection to the device ends on both sides.
#[test]
fn connections_end() {
    if !installed(&["ucmatose", "rping"]) {
        return;
    }
    let place = two("removal-connections");
    let keeper = place.keep();
    let on = |device: &str, line: &str| {
        place.start(&format!("{} run --use {device} -- {line}", place.soft_hca().display()))
    };
    let count = |what: &str| place.objects().iter().filter(|line| line.contains(what)).count();
    let mut server = on("rxe1", "ucmatose -c 2");
    server.wait_until(|| place.listens(PORT));
    let client = "ucmatose -s 198.18.1.1";
    let mut first = on("rxe0", client);
    // Then the server has accepted.
    first.wait_until(|| count("state RTS") == 2);
    device(&place, "remove", "rxe1").unwrap();
    // It may not have got so far as to be told that it is connected.
    let is_over = || first.has_ended() || count("state DISCONNECT") == 1;
    assert!(comes_about(LIMIT, is_over), "{}", place.listing());
    assert_eq!((count("state DEVICE_REMOVAL"), count("state LISTEN")), (1, 1));
    device(&place, "add", "rxe1").unwrap();
    // librdmacm keeps the context that it has opened for a device.
    assert!(!on("rxe0", client).wait().success());
    assert!(!server.wait().success());
    assert_has(&server.output(), &["test complete", "return status"]);
    first.kill();
    let line = format!("-C 3 -v -a 198.18.1.1 -p {PORT}");
    let mut server = on("rxe1", &format!("rping -s {line}"));
    server.wait_until(|| place.listens(PORT));
    on("rxe0", &format!("rping -c {line}")).succeed();
    server.succeed();
    place.end(keeper);
}

/// A fault removes a device for a time, and who comes meanwhile does not find it.
#[test]
fn a_fault_removes_a_device() {
    let place = two("removal-fault");
    let keeper = place.keep();
    let run = |options: &str, program: &str| {
        place.start(&format!("{} run {options} -- {program}", place.soft_hca().display()))
    };
    let is = |state: &str| comes_about(LIMIT, || place.listing().contains(state));
    run("--fault device-removed:device=rxe1,after=1ms", "true").succeed();
    assert!(is("device rxe1 removed"), "{}", place.listing());
    let found = |options: &str| run(options, "ls /sys/class/infiniband").succeed();
    // The tree that this program finds is written only then.
    assert_eq!(
        (found("--use rxe1"), found("--name rxe_left")),
        (String::new(), "rxe_left\n".into())
    );
    device(&place, "add", "rxe1").unwrap();
    assert_eq!(found("--use rxe1"), "rxe1\n");
    assert_eq!(found("--name rxe_left"), "rxe1\nrxe_left\n");
    run("--fault device-removed:device=rxe0,after=1ms,for=1ms", "true").succeed();
    assert!(is("link rxe0/1 state ACTIVE"), "{}", place.listing());
    let mut wrong = run("--fault device-removed:device=rxe7", "true");
    assert!(!wrong.wait().success());
    assert_has(&wrong.output(), &["the fabric has no device rxe7"]);
    assert_has(&device(&place, "remove", "rxe7").unwrap_err(), &["the fabric has no device rxe7"]);
    device(&place, "remove", "rxe1").unwrap();
    device(&place, "remove", "rxe1").unwrap();
    let down = ["port", "down", "rxe1/1", "--fabric", place.fabric_name()];
    let down = place.command(&down).output().unwrap();
    assert!(!down.status.success());
    assert_has(&String::from_utf8(down.stderr).unwrap(), &["the device has been removed"]);
    place.end(keeper);
}
