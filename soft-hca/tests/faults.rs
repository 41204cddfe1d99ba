//! Faults of calls and completions in programs that were not made for it.
//!
//! See `stock.rs` about programs that are not installed; the packages are ibverbs-utils and
//! rdmacm-utils.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use programs::place::Place;
use programs::program::Program;
use programs::{LIMIT, LOCALHOST, comes_about, installed, tcp};

fn start(place: &Place, line: &str, faults: &str) -> Program {
    place.start_in(line, |command| command.env("SOFT_HCA_FAULT", faults))
}

/// A program that fails; gives what it has said.
fn fails(place: &Place, line: &str, faults: &str) -> String {
    let mut program = start(place, line, faults);
    assert!(!program.wait().success(), "{faults}: {}", program.output());
    program.output()
}

/// A client of `ibv_rc_pingpong` that fails.
fn pingpong_fails(place: &Place, faults: &str) -> String {
    let port = tcp::free_port();
    let line = format!("ibv_rc_pingpong -d rxe0 -g 1 -n 100 -p {port}");
    let mut server = place.start(&line);
    server.wait_until(|| tcp::listens(port));
    let said = fails(place, &format!("{line} {LOCALHOST}"), faults);
    server.kill();
    said
}

fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "no {part:?} in:\n{text}");
}

#[test]
fn calls_fail_as_their_manual_pages_say() {
    if !installed(&["ibv_rc_pingpong", "ibv_devinfo", "rping"]) {
        return;
    }
    let place = Place::new("faults");
    let devinfo = |faults| fails(&place, "ibv_devinfo", faults);
    // NULL, an error number by a function of the context, -1.
    assert_has(&devinfo("ibv_open_device:errno=EACCES"), "Failed to open device");
    assert_has(&devinfo("ibv_query_port:errno=EIO"), "Failed to query port");
    let rping = |faults| fails(&place, &format!("rping -s -a {LOCALHOST} -C 1"), faults);
    assert_has(&rping("rdma_bind_addr:errno=EADDRINUSE"), "rdma_bind_addr: Address already in use");
    assert_has(&rping("rdma_create_event_channel:errno=EMFILE"), "Too many open files");
    // A macro of verbs.h makes another call of the first; rdma-core 65's program makes the second.
    let registering = "ibv_reg_mr:errno=ENOMEM ibv_reg_buf_mr:errno=ENOMEM";
    assert_has(&pingpong_fails(&place, registering), "Couldn't register MR");
    assert_has(&pingpong_fails(&place, "ibv_post_send:errno=ENOMEM,nth=3"), "Couldn't post send");
    place.assert_gone();
}

/// A receive that the receiver only believes to have posted is none: the sender waits.
#[test]
fn a_receiver_is_not_ready() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = Place::new("fault-skip");
    let port = tcp::free_port();
    let line = format!("ibv_rc_pingpong -d rxe0 -g 1 -n 100 -p {port}");
    let faults = "ibv_post_recv:skip";
    let mut server = place.start_in(&line, |command| {
        command.env("SOFT_HCA_FAULT", faults).env("SOFT_HCA_EXPLAIN", "1")
    });
    server.wait_until(|| tcp::listens(port));
    let mut client = place.start(&format!("{line} {LOCALHOST}"));
    let waits = || server.output().contains("the receiver has no receive posted");
    assert!(comes_about(LIMIT, waits), "{}", server.output());
    client.kill();
    // `explain` passes it on.
    assert!(Command::new("kill").arg(server.pid().to_string()).status().unwrap().success());
    server.wait();
    place.assert_gone();
}

#[test]
fn completions_have_another_status() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = Place::new("fault-status");
    let faults = "completion:status=IBV_WC_RETRY_EXC_ERR,nth=2,dir=send";
    let said = pingpong_fails(&place, faults);
    assert_has(&said, "Failed status transport retry counter exceeded (12) for wr_id 2");
    place.assert_gone();
}

#[test]
fn data_are_damaged() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = Place::new("fault-damaged");
    let port = tcp::free_port();
    // The server looks at what it has received last.
    let line = format!("ibv_rc_pingpong -d rxe0 -g 1 -n 100 -p {port} -c");
    let fault = "completion:damaged,dir=receive,nth=100";
    let mut server = place.start_in(&line, |command| command.env("SOFT_HCA_FAULT", fault));
    server.wait_until(|| tcp::listens(port));
    place.start(&format!("{line} {LOCALHOST}")).succeed();
    server.wait();
    assert_has(&server.output(), "invalid data in page 0");
    place.assert_gone();
}

#[test]
fn a_process_is_killed_at_a_call() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let place = Place::new("fault-kill");
    let mut program =
        start(&place, "ibv_devinfo", "ibv_query_device_ex:kill ibv_query_device:kill");
    assert_eq!(program.wait().signal(), Some(9), "{}", program.output());
    place.assert_gone();
}

#[test]
fn a_call_takes_longer() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let place = Place::new("fault-delay");
    let began = Instant::now();
    start(&place, "ibv_devinfo", "ibv_open_device:delay=400ms").succeed();
    assert!(began.elapsed() >= Duration::from_millis(400));
    place.assert_gone();
}

#[test]
fn only_the_programs_that_are_meant_have_faults() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let place = Place::new("fault-program");
    start(&place, "ibv_devinfo", "ibv_open_device:errno=EIO,program=ibv_devices").succeed();
    fails(&place, "ibv_devinfo", "ibv_open_device:errno=EIO,program=ibv_devinfo");
    let nested = "exec \"$0\" run --fabric inner -- ibv_devinfo";
    let mut run = place.command(&["run", "--fault", "ibv_open_device:errno=EIO", "--", "sh", "-c"]);
    // Faults are handed on, and the library is loaded once.
    assert!(!run.args([nested]).arg(place.soft_hca()).output().unwrap().status.success());
    place.assert_gone();
}

#[test]
fn programs_say_what_they_call() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let place = Place::new("fault-list");
    let said = start(&place, "ibv_devinfo", "list").succeed();
    for call in ["ibv_get_device_list", "ibv_open_device", "ibv_query_port", "ibv_close_device"] {
        assert_eq!(said.matches(&format!("soft-hca: calls {call}\n")).count(), 1, "{said}");
    }
    place.assert_gone();
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_log_and_a_record_say_that_it_was_asked_for() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    let place = Place::new("fault-record");
    let faults = "ibv_open_device:errno=EIO,nth=1 ibv_query_device_ex:errno=EIO,5ms";
    fails(&place, "ibv_devinfo", faults);
    let log = fs::read_to_string(place.file("soft-hca.log")).unwrap();
    let line = "ibv_open_device: EIO, a fault that was asked for: ibv_open_device:errno=EIO,nth=1";
    assert_has(&log, line);
    let arguments = ["record", "--fault", "ibv_query_device_ex:errno=EIO", "--fault"];
    let more = ["ibv_query_device:errno=EIO", "--", "ibv_devinfo"];
    said(&mut place.command(&[&arguments[..], &more[..]].concat()));
    let text = said(&mut place.command(&["show", "run.shr"]));
    assert_has(&text, ":errno=EIO) = EIO (a fault that was asked for)");
    let text = said(&mut place.command(&["explain", "run.shr"]));
    assert_has(&text, "is refused with EIO\n    why: a fault that was asked for\n");
    place.assert_gone();
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    let place = Place::new("fault-refused");
    for (spec, why) in [
        ("ibv_reg_mrs:errno=EIO", "no call is named \"ibv_reg_mrs\" (ibv_reg_mr or"),
        ("ibv_reg_mr:errno=EINVALL", "errno=EINVALL will not do (EINVAL"),
        ("completion:status=FLUSHED", "a status is a name of ibv_wc_status"),
    ] {
        let output = place.command(&["run", "--fault", spec, "--", "true"]).output().unwrap();
        assert!(!output.status.success());
        assert_has(&String::from_utf8(output.stderr).unwrap(), why);
    }
    let output = place.command(&["run", "--fault", "help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert_has(&help, "ibv_post_send");
    place.assert_gone();
}
