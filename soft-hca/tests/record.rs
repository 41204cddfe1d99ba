//! Records of real programs: what is in them, as text, and what they explain.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use soft_hca_core::trace::{FOLDER, MIN_LIMIT};
use soft_hca_record::entry::{
    Completion, Direction, Executed, Outcome, Packet, PacketNote, Polled, ReceiveQueue, Seen, What,
};
use soft_hca_record::{Entry, Reader};
use soft_hca_verbs::{EventType, WcOpcode, WcStatus};

use programs::hosts::Hosts;
use programs::place::Place;
use programs::tcp::{free_port, listens};
use programs::{LIMIT, LOCALHOST, comes_about, compile, installed};

const QUIET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/record/quiet.c");

/// The output of a command.
fn said(place: &Place, arguments: &[&str]) -> String {
    let output = place.command(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn entries(place: &Place, file: &str) -> Vec<Entry> {
    let reader = Reader::new(BufReader::new(File::open(place.file(file)).unwrap())).unwrap();
    reader.map(Result::unwrap).collect()
}

/// Begins to record the place's fabric, which runs.
pub(crate) fn begin(place: &Place, file: &str, options: &[&str]) -> Child {
    let arguments = [&["record", "-o", file, "--fabric", place.fabric_name()], options].concat();
    let recorder = place.command(&arguments).spawn().unwrap();
    let has_begun = || fs::metadata(place.file(file)).is_ok_and(|found| found.len() > 0);
    assert!(comes_about(LIMIT, has_begun), "nothing is recorded");
    recorder
}

/// Ends that.
pub(crate) fn end(mut recorder: Child) {
    let pid = recorder.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert!(recorder.wait().unwrap().success());
}

/// Five messages there and back, each side in a process of its own.
fn ping_pong(place: &Place, port: u16) {
    ping_pong_of(place, port, 5);
}

fn ping_pong_of(place: &Place, port: u16, messages: u32) {
    let line = format!("ibv_rc_pingpong -g 1 -n {messages} -r 10 -p {port}");
    let mut server = place.start(&line);
    server.wait_until(|| listens(port));
    place.start(&format!("{line} {LOCALHOST}")).succeed();
    server.succeed();
}

#[test]
fn a_run_is_recorded_from_the_first_call_to_the_last() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = Place::new("record");
    let keeper = place.keep();
    let port = free_port();
    let recorder = begin(&place, "first.shr", &[]);
    ping_pong(&place, port);
    end(recorder);
    let entries = entries(&place, "first.shr");
    assert!(entries.windows(2).all(|pair| pair[0].t <= pair[1].t));
    let of = |process: u32| entries.iter().filter(move |entry| entry.process == process);
    let sides: Vec<u32> = entries
        .iter()
        .filter(|entry| match &entry.what {
            What::ProcessBegan { command, .. } => {
                command.first().is_some_and(|word| word == "ibv_rc_pingpong")
            }
            _ => false,
        })
        .map(|entry| entry.process)
        .collect();
    assert_eq!(sides.len(), 2);
    for side in sides {
        let call = |name: &str| {
            of(side).any(|entry| match &entry.what {
                What::Call(call) => call.name == name && matches!(call.result, Outcome::Done(_)),
                _ => false,
            })
        };
        for name in ["ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr", "ibv_create_cq"] {
            assert!(call(name), "{name}");
        }
        for name in ["ibv_create_qp", "ibv_modify_qp", "ibv_destroy_qp", "ibv_dealloc_pd"] {
            assert!(call(name), "{name}");
        }
        let posted = of(side).filter(|entry| matches!(entry.what, What::SendPosted(_)));
        assert_eq!(posted.count(), 5);
        let executed: Vec<&Executed> = of(side)
            .filter_map(|entry| match &entry.what {
                What::Executed(executed) => Some(executed),
                _ => None,
            })
            .collect();
        assert_eq!(executed.len(), 5);
        for executed in executed {
            assert_eq!((executed.status, executed.length), (WcStatus::SUCCESS, 4096));
            // Each has met a receive that the other side has posted.
            let met = executed.receive.unwrap();
            assert_ne!(met.process, side);
            assert!(of(met.process).any(|entry| match &entry.what {
                What::ReceivePosted(posted) => {
                    posted.queue == ReceiveQueue::Qp(met.qp) && posted.wr_id == met.wr_id
                }
                _ => false,
            }));
        }
        let completions: Vec<&Completion> = of(side)
            .filter_map(|entry| match &entry.what {
                What::Completion(completion) => Some(completion),
                _ => None,
            })
            .collect();
        let count = |opcode| completions.iter().filter(|one| one.opcode == opcode).count();
        assert_eq!((count(WcOpcode::SEND), count(WcOpcode::RECV)), (5, 5));
        assert!(matches!(of(side).next_back().unwrap().what, What::ProcessEnded { .. }));
    }
    let text = said(&place, &["show", "--commands", "first.shr"]);
    assert_eq!(text.lines().count(), entries.len());
    assert!(text.contains("qp_state=IBV_QPS_RTR, "), "{text}");
    assert!(said(&place, &["explain", "first.shr"]).starts_with("Nothing went wrong"));
    // Another run in the same fabric reads the same.
    let recorder = begin(&place, "second.shr", &[]);
    ping_pong(&place, port);
    end(recorder);
    let stable = |file| said(&place, &["show", "--stable", file]);
    assert_eq!(stable("first.shr"), stable("second.shr"));
    place.end(keeper);
}

/// The entries of a ping-pong of 40 messages, whose polls and posts are hooked or not.
fn hooked_ping_pong(program: &str, is_hooked: bool) -> Vec<Entry> {
    let place = Place::new("record-hook");
    let keeper = place.keep();
    let recorder = begin(&place, "run.shr", &[]);
    let port = free_port();
    let line = format!("{program} -g 1 -n 40 -r 8 -p {port}");
    let hook = if is_hooked { "1" } else { "0" };
    let start = |line: &str| place.start_in(line, |command| command.env("SOFT_HCA_HOOK", hook));
    let mut server = start(&line);
    server.wait_until(|| listens(port));
    start(&format!("{line} {LOCALHOST}")).succeed();
    server.succeed();
    end(recorder);
    place.end(keeper);
    entries(&place, "run.shr")
}

/// Where each receive was seen, and in what queue.
fn receives(entries: &[Entry]) -> impl Iterator<Item = (ReceiveQueue, Seen)> {
    entries.iter().filter_map(|entry| match &entry.what {
        What::ReceivePosted(posted) => Some((posted.queue, posted.seen)),
        _ => None,
    })
}

fn polls(entries: &[Entry]) -> impl Iterator<Item = &Polled> {
    entries.iter().filter_map(|entry| match &entry.what {
        What::Polled(polled) => Some(polled),
        _ => None,
    })
}

#[test]
fn receives_are_seen_when_they_are_posted() {
    if !installed(&["ibv_rc_pingpong", "ibv_srq_pingpong"]) {
        return;
    }
    // Neither side posts while the other sends.
    for (is_hooked, expected) in [(true, Seen::AtPost), (false, Seen::AtCall)] {
        let entries = hooked_ping_pong("ibv_rc_pingpong", is_hooked);
        let seen: Vec<Seen> = receives(&entries).map(|(_, seen)| seen).collect();
        assert!(seen.len() > 60 && seen.iter().all(|seen| *seen == expected), "{seen:?}");
        // Each side finds what completes there.
        let completions =
            entries.iter().filter(|entry| matches!(entry.what, What::Completion(_))).count();
        let found: u32 = polls(&entries).map(|polled| polled.found).sum();
        assert_eq!((completions, found), (160, if is_hooked { 160 } else { 0 }));
    }
    let entries = hooked_ping_pong("ibv_srq_pingpong -q 2", true);
    assert!(
        receives(&entries)
            .any(|(queue, seen)| { matches!(queue, ReceiveQueue::Srq(_)) && seen == Seen::AtPost })
    );
    let entries = hooked_ping_pong("ibv_srq_pingpong -q 2", false);
    assert!(receives(&entries).all(|(_, seen)| seen != Seen::AtPost));
}

/// The record of a program without a peer, with calls of its that are hooked or not.
fn quiet(is_hooked: bool) -> Option<Vec<Entry>> {
    let place = Place::new(&format!("record-quiet-{is_hooked}"));
    let program = compile(&place, QUIET, &["ibverbs"])?;
    let mut command = place.command(&["record", "-o", "run.shr", "--", &program]);
    let output = command.env("SOFT_HCA_HOOK", if is_hooked { "1" } else { "0" }).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    place.assert_gone();
    Some(entries(&place, "run.shr"))
}

#[test]
fn receives_of_a_shared_queue_are_seen_before_there_is_a_queue_pair() {
    let (Some(hooked), Some(plain)) = (quiet(true), quiet(false)) else { return };
    let srq = |entries: &[Entry]| {
        let shared = |(queue, _): &(ReceiveQueue, Seen)| matches!(queue, ReceiveQueue::Srq(_));
        receives(entries).filter(shared).map(|(_, seen)| seen).collect::<Vec<_>>()
    };
    assert_eq!((srq(&hooked), srq(&plain)), (vec![Seen::AtPost; 3], Vec::new()));
}

#[test]
fn polls_in_vain_are_counted() {
    let (Some(hooked), Some(plain)) = (quiet(true), quiet(false)) else { return };
    assert_eq!(polls(&plain).count(), 0);
    let polls: Vec<_> = polls(&hooked)
        .map(|polled| {
            let empty = polled.empty.map(|empty| {
                assert!(empty.duration() > 0);
                empty.count
            });
            (polled.function(), polled.found, empty)
        })
        .collect();
    let each = |function| [(function, 0, Some(1000)), (function, 3, None)];
    assert_eq!(polls, [each("ibv_poll_cq"), each("ibv_start_poll")].concat());
    assert!(hooked.windows(2).all(|pair| pair[0].t <= pair[1].t));
}

#[test]
fn a_command_is_recorded_in_a_fabric_of_its_own() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = Place::new("record-command");
    // Receives at a time, and so completions, of which the device has 32767 in a queue.
    let command = ["record", "-o", "run.shr", "--", "ibv_rc_pingpong", "-r", "40000"];
    let output = place.command(&command).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    place.assert_gone();
    let refusal = "= EINVAL (more completions than the device's max_cqe: requested ";
    let text = said(&place, &["show", "run.shr"]);
    let line = text.lines().find(|line| line.contains(refusal)).unwrap();
    assert!(line.contains("] ibv_create_cq("), "{line}");
    let text = said(&place, &["explain", "run.shr"]);
    assert!(text.contains("ibv_create_cq is refused with EINVAL"), "{text}");
    assert!(text.contains("why: more completions than the device's max_cqe"), "{text}");
}

/// A program that ends with status 7 at a signal, if it gets that once.
const SIGNALLED: &str = "trap 'exit 7' $0; echo is ready; while :; do sleep 0.05; done";

/// Signals that end a process that does not handle them, except for those that tell of a fault; the last are a
/// first and a last one for programs' own use.
const SIGNALS: [i32; 19] = [1, 2, 3, 5, 6, 10, 12, 13, 14, 15, 24, 25, 26, 27, 29, 30, 31, 34, 64];

#[test]
fn a_signal_is_the_programs() {
    let place = Place::new("record-signals");
    let status = |command: &[&str], signal: i32| {
        let number = signal.to_string();
        let output = place.file(&place.unique("said"));
        let mut recorder = place
            .command(&[command, &["--", "sh", "-c", SIGNALLED, &number]].concat())
            .stdout(File::create(&output).unwrap())
            .spawn()
            .unwrap();
        let is_ready = || fs::read_to_string(&output).is_ok_and(|text| text.contains("is ready"));
        assert!(comes_about(LIMIT, is_ready), "{command:?}");
        let words = [format!("-{signal}"), recorder.id().to_string()];
        assert!(Command::new("kill").args(words).status().unwrap().success());
        if !comes_about(LIMIT, || recorder.try_wait().unwrap().is_some()) {
            recorder.kill().unwrap();
        }
        recorder.wait().unwrap().code()
    };
    for signal in SIGNALS {
        assert_eq!(status(&["record", "-o", "run.shr"], signal), Some(7), "signal {signal}");
    }
    for command in [&["run"][..], &["run", "--explain"], &["check"], &["doctor"]] {
        for signal in [2, 10] {
            assert_eq!(status(command, signal), Some(7), "{command:?}, signal {signal}");
        }
    }
    // No program is left, as the fabric has ended.
    place.assert_gone();
}

/// As with SIGTSTP, which stops both.
#[test]
fn a_recording_is_stopped_with_its_program() {
    let place = Place::new("record-stopped");
    let count = "while :; do echo x; sleep 0.05; done";
    let output = place.file("said");
    let mut recorder = place
        .command(&["record", "-o", "run.shr", "--", "sh", "-c", count])
        .stdout(File::create(&output).unwrap())
        // Of a process group whose parents have all ended the kernel stops nobody with SIGTSTP.
        .process_group(0)
        .spawn()
        .unwrap();
    let said = || fs::metadata(&output).map_or(0, |file| file.len());
    assert!(comes_about(LIMIT, || said() > 0));
    let pid = recorder.id().to_string();
    let send = |signal: &str| {
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    };
    let state = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(')').unwrap().1.trim_start().chars().next().unwrap()
    };
    let child = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let both = [&pid[..], child.trim()];
    send("-TSTP");
    assert!(comes_about(LIMIT, || both.iter().all(|pid| state(pid) == 'T')));
    let before = said();
    send("-CONT");
    assert!(comes_about(LIMIT, || said() > before));
    send("-TERM");
    assert_eq!(recorder.wait().unwrap().code(), Some(128 + 15));
    place.assert_gone();
}

#[test]
fn a_record_is_drawn_and_written_for_other_programs() {
    let place = Place::new("record-export");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ping-sr-1.shr");
    let show = |option: &[&str]| said(&place, &[&["show"], option, &[sample]].concat());
    let files: [(&str, &[u8]); 2] = [
        ("--html", b"<!DOCTYPE html>"),
        // The first packet of the trace: field 1, with a length.
        ("--perfetto", &[0x0a]),
    ];
    for (option, beginning) in files {
        assert_eq!(show(&[option, "out"]), "");
        let out = fs::read(place.file("out")).unwrap();
        assert!(out.starts_with(beginning) && out.len() > 1000, "{option}: {} bytes", out.len());
    }
    assert_eq!(show(&["--html", "out", "--title", "a <title>"]), "");
    let page = fs::read_to_string(place.file("out")).unwrap();
    assert!(page.contains("<h1>a &lt;title&gt;</h1>"), "{}", &page[..2000]);
    let read =
        r#"[{"file":"src/c_d_id.rs","function":"our_create_id","texts":[{"text":"In C: there"}]}]"#;
    fs::write(place.file("read.json"), read).unwrap();
    assert_eq!(show(&["--html", "out", "--references", "read.json"]), "");
    let page = fs::read_to_string(place.file("out")).unwrap();
    assert!(page.contains(r#"[{"text":"In C: there"}]"#) && page.contains("rdma_create_id(3)"));
    fs::write(place.file("read.json"), "[{}]").unwrap();
    let broken = ["show", "--html", "out", "--references", "read.json", sample];
    let broken = place.command(&broken).output().unwrap();
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    let why = String::from_utf8_lossy(&broken.stderr);
    assert!(why.contains("cannot read read.json: missing field `file`"), "{why}");
    let text = show(&["--sequence=20"]);
    assert!(text.contains("rdma_create_id") && text.contains(" more entries"), "{text}");
    let both = place.command(&["show", "--stable", "--html", "out", sample]).output().unwrap();
    assert_eq!(both.status.code(), Some(2), "{both:?}");
}

#[test]
fn ports_and_devices_are_on_record() {
    if !installed(&["ibv_asyncwatch"]) {
        return;
    }
    let place = Place::new("record-ports");
    let keeper = place.keep();
    let recorder = begin(&place, "run", &[]);
    let mut watch = place.start("stdbuf -oL ibv_asyncwatch -d rxe0");
    assert!(comes_about(LIMIT, || watch.output().contains("async event FD")));
    for action in ["down", "up"] {
        said(&place, &["port", action, "rxe0/1", "--fabric", place.fabric_name()]);
    }
    said(&place, &["device", "remove", "rxe0", "--fabric", place.fabric_name()]);
    assert!(comes_about(LIMIT, || watch.output().contains("(8)")));
    watch.kill();
    end(recorder);
    let events = entries(&place, "run").into_iter().filter_map(|entry| match entry.what {
        What::AsyncEvent { event, element: None, place: Some(place) } => Some((event, place)),
        _ => None,
    });
    let port = "port 1 of rxe0";
    let expected = [
        (EventType::PORT_ERR, port.to_owned()),
        (EventType::PORT_ACTIVE, port.to_owned()),
        (EventType::DEVICE_FATAL, "rxe0".to_owned()),
    ];
    assert_eq!(events.collect::<Vec<_>>(), expected);
    place.end(keeper);
}

#[test]
fn what_goes_wrong_is_said_when_it_happens() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = Place::new("record-explain");
    let refused = ["ibv_rc_pingpong", "-r", "40000"];
    // The lines that are soft-hca's, and how many of them are about the refusal.
    let said = |arguments: &[&str], variable: &str| {
        let mut command = place.command(&[arguments, &refused].concat());
        let output = command.env("SOFT_HCA_EXPLAIN", variable).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("soft-hca: "));
        let about = |line: &&str| {
            line.starts_with("soft-hca: ibv_rc_pingpong[")
                && line.contains(
                    "]: ibv_create_cq is refused with EINVAL: more completions than the device's \
                     max_cqe: requested ",
                )
                && line.contains(", limit 32767; usual cause: a wrong argument")
        };
        (lines.clone().count(), lines.filter(about).count())
    };
    assert_eq!(said(&["run", "--explain", "--"], ""), (1, 1));
    assert_eq!(said(&["run", "--"], "1"), (1, 1));
    assert_eq!(said(&["run", "--"], "0"), (0, 0));
    // The other one is how many entries there are.
    assert_eq!(said(&["record", "--"], "1"), (2, 1));
    // Within a fabric that is explained already, once.
    let program = place.soft_hca().to_str().unwrap();
    assert_eq!(said(&["run", "--explain", "--", program, "run", "--"], "1"), (1, 1));
    place.assert_gone();
}

/// A shell's words for a ping-pong of five messages with an address.
fn ping_pong_script(address: &str) -> String {
    let line = format!("ibv_rc_pingpong -g 1 -n 5 -r 10 -p {}", free_port());
    format!(
        "{line} & server=$!; while ! {line} {address} 2>/dev/null; do sleep 0.1; done; wait $server"
    )
}

/// A run whose programs reach each other by the link, which loses a packet.
#[test]
fn packets_of_the_link_are_recorded() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let Some(hosts) = Hosts::new("record-link") else { return };
    let (place, address) = (&hosts.a.place, hosts.a.address);
    let script = ping_pong_script(address);
    let roce = format!("--roce=always,{address}");
    let drop = ["--fault", "drop:nth=5,dir=send"];
    let command = [&["record", &roce][..], &drop, &["--", "sh", "-c", &script]].concat();
    let output = place.command(&command).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let entries = entries(place, "run.shr");
    let packets: Vec<(u32, &Packet)> = entries
        .iter()
        .filter_map(|entry| match &entry.what {
            What::Packet(packet) => Some((entry.process, packet)),
            _ => None,
        })
        .collect();
    let sent = packets.iter().filter(|(_, packet)| packet.direction == Direction::Sent).count();
    // One is lost.
    assert_eq!(packets.len(), 2 * sent - 1);
    let again = packets
        .iter()
        .filter(|(_, packet)| matches!(packet.note, Some(PacketNote::Retransmission(_))));
    assert!(again.count() > 0);
    for (process, packet) in &packets {
        let is_theirs = entries.iter().any(|entry| {
            entry.process == *process
                && matches!(&entry.what, What::Completion(completion) if Some(completion.qp) == packet.qp)
        });
        assert!(is_theirs, "{packet:?}");
        assert_eq!((&packet.from[..], &packet.to[..]), (address, address));
    }
    // Work requests are executed when their acknowledgement has come.
    let executed = entries.iter().filter(|entry| matches!(entry.what, What::Executed(_)));
    assert_eq!(executed.count(), 10);
}

/// A recording's packets by Wireshark: queue pair, sequence number, opcode.
fn dissected(place: &Place, file: &str) -> Vec<(u32, u32, u32)> {
    let fields = ["infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.opcode"];
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-T", "fields"]).args(fields.map(|field| ["-e", field]).concat());
    let output = tshark.arg("-r").arg(place.file(file)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    };
    let packet = |line: &str| match line.split('\t').map(number).collect::<Vec<_>>()[..] {
        [qp, psn, opcode] => (qp, psn, opcode),
        _ => panic!("{line}"),
    };
    String::from_utf8(output.stdout).unwrap().lines().map(packet).collect()
}

/// `--pcap` alone turns the link on, and when the command returns all packets are in the file.
#[test]
fn packets_are_captured_beside_the_record() {
    if !installed(&["ibv_devinfo", "ibv_rc_pingpong", "tshark"]) {
        return;
    }
    let Some(hosts) = Hosts::new("record-pcap") else { return };
    let (place, address) = (&hosts.a.place, hosts.a.address);
    let recorded = |program: &[&str]| {
        let command = [&["record", "--pcap", "link.pcapng", "--"], program].concat();
        let output = place.command(&command).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (dissected(place, "link.pcapng"), String::from_utf8(output.stderr).unwrap())
    };
    const STAYED: &str = "what is for 127.0.0.1 stays in the fabric";
    let (packets, said) = recorded(&["sh", "-c", &ping_pong_script(address)]);
    assert!(!said.contains(STAYED), "{said}");
    let [first, middle, last, acknowledge] = [0, 1, 2, 17];
    let (acknowledgements, sent): (Vec<_>, Vec<_>) =
        packets.into_iter().partition(|(.., opcode)| *opcode == acknowledge);
    assert!(!acknowledgements.is_empty());
    // By queue pair, with the numbers counted from the first: what is sent again is there once.
    let mut queue_pairs = BTreeMap::<u32, (u32, BTreeMap<u32, u32>)>::new();
    for (qp, psn, opcode) in sent {
        let (begin, opcodes) = queue_pairs.entry(qp).or_insert((psn, BTreeMap::new()));
        opcodes.insert(psn.wrapping_sub(*begin) & 0xff_ffff, opcode);
    }
    assert_eq!(queue_pairs.len(), 2);
    for (numbers, opcodes) in queue_pairs.values().map(|(_, sent)| (sent.keys(), sent.values())) {
        assert!(numbers.copied().eq(0..20), "{queue_pairs:?}");
        // 4096 bytes by a path MTU of 1024.
        let message = [first, middle, middle, last];
        assert_eq!(opcodes.copied().collect::<Vec<_>>(), message.repeat(5));
    }
    assert!(entries(place, "run.shr").iter().any(|entry| matches!(entry.what, What::Packet(_))));
    let (packets, said) = recorded(&["ibv_devinfo"]);
    assert!(packets.is_empty() && said.contains(STAYED), "{said}{packets:?}");
}

#[test]
fn what_has_no_room_is_counted() {
    if !installed(&["ibv_rc_pingpong"]) {
        return;
    }
    let place = Place::new("record-limit");
    let keeper = place.keep();
    let recorder = begin(&place, "run.shr", &["--limit", "262144"]);
    let signal = |child: &Child, name: &str| {
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    // Nobody reads meanwhile.
    signal(&recorder, "-STOP");
    ping_pong_of(&place, free_port(), 2000);
    signal(&recorder, "-CONT");
    end(recorder);
    let text = said(&place, &["explain", "run.shr"]);
    assert!(text.contains(" entries are missing"), "{text}");
    let entries = entries(&place, "run.shr");
    assert!(entries.iter().any(|entry| matches!(entry.what, What::Dropped { .. })));
    place.end(keeper);
}

#[test]
fn what_cannot_be_recorded_or_shown_is_said_in_a_line() {
    let place = Place::new("record-errors");
    let refused = |arguments: &[&str]| {
        let output = place.command(arguments).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let text = refused(&["record", "--fabric", "none"]);
    assert!(text.contains("fabric none does not run"), "{text}");
    assert!(refused(&["show", "none.shr"]).contains("cannot read none.shr"));
    fs::write(place.file("other"), "{}\n").unwrap();
    assert!(refused(&["show", "other"]).contains("this is no record of soft-hca"));
    fs::write(place.file("old"), "{\"format\":\"soft-hca record\",\"version\":1}\n").unwrap();
    let text = refused(&["show", "old"]);
    assert!(text.contains("has format version 1, and this program knows version 2 only"), "{text}");
    assert!(text.contains("record the run again (soft-hca record -o FILE -- CMD)"), "{text}");
    let keeper = place.keep();
    let recorder = begin(&place, "first.shr", &[]);
    let text = refused(&["record", "-o", "second.shr", "--fabric", place.fabric_name()]);
    assert!(text.contains("is being recorded already"), "{text}");
    end(recorder);
    place.end(keeper);
}

/// As one of a release that traces in another layout begins its file.
#[test]
fn a_process_of_another_version_is_refused() {
    let place = Place::new("record-version");
    let keeper = place.keep();
    let fabric = place.fabric();
    let options = ["record", "-o", "run.shr", "--fabric", place.fabric_name()];
    let mut recorder = place.command(&options);
    let recorder = recorder.stderr(Stdio::piped()).spawn().unwrap();
    let traces = || fs::read_dir(fabric.join(FOLDER)).is_ok_and(|mut files| files.next().is_some());
    assert!(comes_about(LIMIT, traces), "nothing is recorded");
    let mut ring = vec![0; MIN_LIMIT as usize];
    ring[..8].copy_from_slice(b"hcaspool");
    fs::write(fabric.join(FOLDER).join("1-9-other"), ring).unwrap();
    let output = recorder.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    // The line that it records comes first.
    assert!(!output.status.success() && text.lines().count() == 2, "{text}");
    assert!(text.contains("is traced by another version of soft-hca than this one"), "{text}");
    place.end(keeper);
}
