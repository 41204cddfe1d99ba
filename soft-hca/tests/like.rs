//! `--like PROFILE`: devices with an adapter's limits, as real programs see them.
//!
//! See `stock.rs` about programs that are not installed; the packages are ibverbs-utils, python3 and
//! libibverbs1.

use std::process::Output;

use programs::place::Place;
use programs::{assert_has, compile, installed};

/// The exit status of `check` where something was found.
const FOUND: i32 = 66;

/// Creates a queue pair by libibverbs' own functions, and says with which error that fails: its type, then
/// elements of a send and of a receive, and inline data. Then whether a shared receive queue can be
/// created. Offsets are those of `struct ibv_qp_init_attr`.
const SCRIPT: &str = r"
import ctypes, errno, sys
from ctypes import byref, c_char, c_int, c_uint32, c_void_p

verbs = ctypes.CDLL('libibverbs.so.1', use_errno=True)
for name in ('get_device_list', 'open_device', 'alloc_pd', 'create_srq', 'create_cq', 'create_qp'):
    getattr(verbs, 'ibv_' + name).restype = c_void_p
devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(c_void_p))
context = c_void_p(verbs.ibv_open_device(c_void_p(devices[0])))
pd = c_void_p(verbs.ibv_alloc_pd(context))
cq = c_void_p(verbs.ibv_create_cq(context, 8, None, None, 0))

def outcome(created, destroy):
    if not created:
        # Python's own table may have the other name of the number.
        names = {errno.EINVAL: 'EINVAL', errno.EOPNOTSUPP: 'EOPNOTSUPP'}
        return names.get(ctypes.get_errno(), ctypes.get_errno())
    destroy(c_void_p(created))
    return 'created'

kind, send_sge, recv_sge, inline = map(int, sys.argv[1:5])
init = (c_char * 64)()
c_void_p.from_buffer(init, 8).value = cq.value
c_void_p.from_buffer(init, 16).value = cq.value
for at, value in zip(range(32, 60, 4), (4, 4, send_sge, recv_sge, inline, kind)):
    c_uint32.from_buffer(init, at).value = value
print('qp', outcome(verbs.ibv_create_qp(pd, byref(init)), verbs.ibv_destroy_qp))
shared = (c_char * 24)()
c_uint32.from_buffer(shared, 8).value = 4
c_uint32.from_buffer(shared, 12).value = 1
print('srq', outcome(verbs.ibv_create_srq(pd, byref(shared)), verbs.ibv_destroy_srq))
verbs.ibv_destroy_cq(cq)
verbs.ibv_dealloc_pd(pd)
verbs.ibv_close_device(context)
";

/// `IBV_QPT_RC`, `IBV_QPT_UC` and `IBV_QPT_UD`
const RC: u32 = 2;
const UC: u32 = 3;
const UD: u32 = 4;

/// The script under a profile: by `run`, or by `check`, whose findings are on standard error.
fn creates(place: &Place, verb: &str, profile: &str, asked: [u32; 4]) -> Output {
    // A fabric of its own: the one before may not have ended yet, and has another profile.
    let fabric = place.unique("fabric");
    let mut command = place.command(&[verb, "--fabric", &fabric, "--like", profile]);
    let command = command.args(["--", "python3", "-c", SCRIPT]);
    command.args(asked.map(|number| number.to_string())).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn tools_show_the_limits() {
    if !installed(&["ibv_devinfo"]) {
        return;
    }
    for (profile, expected) in [
        ("mlx5", ["30", "30", "1048576", "ATOMIC_HCA"]),
        ("irdma", ["13", "13", "4063", "ATOMIC_NONE"]),
        // A device tells the smaller one of the limits of sends and receives.
        ("erdma", ["1", "1", "8192", "ATOMIC_HCA"]),
        ("rxe", ["32", "32", "1048576", "ATOMIC_HCA"]),
    ] {
        let options = ["--like".into(), profile.into()];
        let place = Place::with(&format!("like-{profile}"), Vec::new(), options.into());
        let keeper = place.keep();
        assert_has(&place.listing(), &[&format!("device rxe0 like {profile}\n")]);
        let shown = place.start("ibv_devinfo -v").succeed();
        place.end(keeper);
        let names = ["max_sge", "max_sge_rd", "max_qp_wr", "atomic_cap"];
        for (name, expected) in names.into_iter().zip(expected) {
            let line = shown.lines().find(|line| line.trim().starts_with(&format!("{name}:")));
            let value = line.and_then(|line| line.trim().split(':').next_back()).map(str::trim);
            let value = value.and_then(|value| value.split_whitespace().next());
            assert_eq!(value, Some(expected), "{profile}: {name}");
        }
        place.assert_gone();
    }
}

#[test]
fn what_an_adapter_refuses_is_refused_and_found() {
    if !installed(&["python3"]) {
        return;
    }
    let place = Place::new("like-refused");
    for (profile, asked, expected, found) in [
        ("mlx5", [RC, 31, 1, 0], "qp EINVAL\nsrq created\n", Some("max_send_sge is more")),
        ("mlx5", [RC, 30, 32, 0], "qp created\nsrq created\n", None),
        ("irdma", [RC, 1, 1, 102], "qp EINVAL\nsrq EOPNOTSUPP\n", Some("max_inline_data is more")),
        ("irdma", [RC, 13, 13, 101], "qp created\nsrq EOPNOTSUPP\n", Some("no shared receive")),
        ("irdma", [UC, 1, 1, 0], "qp EOPNOTSUPP\nsrq EOPNOTSUPP\n", Some("no queue pairs of")),
        ("erdma", [UD, 1, 1, 0], "qp EOPNOTSUPP\nsrq EOPNOTSUPP\n", Some("no queue pairs of")),
        ("erdma", [UC, 1, 1, 0], "qp EOPNOTSUPP\nsrq EOPNOTSUPP\n", Some("no queue pairs of")),
        ("erdma", [RC, 6, 1, 96], "qp created\nsrq EOPNOTSUPP\n", Some("no shared receive")),
        ("efa", [RC, 1, 1, 0], "qp EOPNOTSUPP\nsrq EOPNOTSUPP\n", Some("no queue pairs of")),
        ("efa", [UD, 2, 1, 80], "qp created\nsrq EOPNOTSUPP\n", Some("no shared receive")),
        ("rxe", [UC, 32, 32, 512], "qp created\nsrq created\n", None),
    ] {
        let case = format!("{profile} {asked:?}");
        assert_eq!(text(&creates(&place, "run", profile, asked).stdout), expected, "{case}");
        let output = creates(&place, "check", profile, asked);
        let findings = text(&output.stderr);
        assert_eq!(text(&output.stdout), expected, "{case}");
        match found {
            Some(reason) => {
                assert_eq!(output.status.code(), Some(FOUND), "{case}: {findings}");
                let profile = format!("like {profile}, ");
                assert_has(&findings, &["refused: python3", &profile, reason]);
            }
            None => assert_eq!(findings, "Nothing was found.\n", "{case}"),
        }
    }
    place.assert_gone();
}

/// The device says that it has no atomic operations, and who posts one all the same is found, in a record, too.
#[test]
fn atomic_operations_that_an_adapter_has_not() {
    let place = Place::new("like-atomic");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/like/atomic.c");
    let Some(program) = compile(&place, source, &["ibverbs"]) else { return };
    let run = |verb: &[&str], profile: &str| {
        let fabric = place.unique("fabric");
        let mut command = place.command(verb);
        let command = command.args(["--fabric", &fabric, "--like", profile, "--", &program]);
        command.output().unwrap()
    };
    let has_all = |text: &str| {
        assert_has(text, &["refused: atomic[", "like irdma, the device has no atomic operations"]);
    };
    let output = run(&["check"], "irdma");
    assert_eq!(output.status.code(), Some(FOUND), "{output:?}");
    has_all(&text(&output.stderr));
    assert_eq!(text(&run(&["check"], "erdma").stderr), "Nothing was found.\n");
    assert!(run(&["record", "-o", "run.shr"], "irdma").status.success());
    let output = place.command(&["check", "--record", "run.shr"]).output().unwrap();
    assert_eq!(output.status.code(), Some(FOUND), "{output:?}");
    has_all(&text(&output.stderr));
    place.assert_gone();
}

/// A record knows the profile of its run.
#[test]
fn what_was_refused_is_found_in_a_record() {
    if !installed(&["python3"]) {
        return;
    }
    let place = Place::new("like-record");
    let file = place.file("run.shr");
    let mut command = place.command(&["record", "--like", "mlx5", "-o"]);
    let command = command.arg(&file).args(["--", "python3", "-c", SCRIPT]);
    let output = command.args([RC, 31, 1, 0].map(|number| number.to_string())).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let output = place.command(&["check", "--record"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(FOUND));
    assert_has(
        &text(&output.stderr),
        &["refused: python3", "like mlx5, EINVAL: max_send_sge is more"],
    );
    place.assert_gone();
}

/// Without a profile the device is as ever, and what it refuses is not a finding.
#[test]
fn without_a_profile_nothing_is_different() {
    if !installed(&["python3"]) {
        return;
    }
    let place = Place::new("like-none");
    for (asked, expected, failed) in [
        ([UC, 32, 32, 512], "qp created", ""),
        ([RC, 33, 1, 0], "qp EINVAL", "one thing went wrong in the run; "),
    ] {
        let mut command = place.command(&["check", "--", "python3", "-c", SCRIPT]);
        let output = command.args(asked.map(|number| number.to_string())).output().unwrap();
        assert_eq!(text(&output.stdout), format!("{expected}\nsrq created\n"));
        let said = text(&output.stderr);
        let said = said.strip_prefix("Nothing was found.\n").expect(&said);
        assert!(said.starts_with(failed) && said.is_empty() == failed.is_empty(), "{said}");
    }
    place.assert_gone();
}

#[test]
fn a_profile_that_there_is_not() {
    let place = Place::new("like-nonsense");
    for (options, status) in [(["--like", "nonsense"], 2), (["--device", "rxe0:like=nonsense"], 1)]
    {
        let output = place.command(&["run"]).args(options).args(["--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(status));
        let names = ["nonsense", "bnxt_re", "efa", "erdma", "irdma", "mlx5", "rxe"];
        assert_has(&text(&output.stderr), &names);
    }
    place.assert_gone();
}

/// The failures of `vendor_err.c`, and their status.
const FAILURES: [(&str, &str); 8] = [
    ("local-bounds", "local protection error"),
    ("local-key", "local protection error"),
    ("local-access", "local protection error"),
    ("posted-in-error", "Work Request Flushed Error"),
    ("remote-request", "remote invalid request error"),
    ("remote-access", "remote access error"),
    ("rnr-retries", "RNR retry counter exceeded"),
    ("retries", "transport retry counter exceeded"),
];

/// Their numbers: those that were measured, and those of drivers' sources; 0 where none tells.
const NUMBERS: [(&str, [u32; 8]); 4] = [
    ("mlx5", [0x53, 0x52, 0x33, 0xf5, 0x8a, 0x88, 0x87, 0x81]),
    ("irdma", [0x10002, 0x10002, 0x10002, 0x10001, 0x1000a, 0x10003, 0x1000b, 0x10008]),
    ("bnxt_re", [4, 4, 4, 0, 6, 7, 9, 10]),
    ("rxe", [0; 8]),
];

/// Completions have the adapter's `vendor_err`, and those of other devices none. `soft-hca explain --vendor-err` knows each.
#[test]
fn completions_have_the_adapters_vendor_err() {
    let place = Place::new("like-vendor");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/like/vendor_err.c");
    let Some(program) = compile(&place, source, &["ibverbs"]) else { return };
    let explain = |profile: &str, number: &str| {
        place.command(&["explain", "--vendor-err", profile, number]).output().unwrap()
    };
    for (profile, numbers) in NUMBERS {
        let fabric = place.unique("fabric");
        let mut command = place.command(&["run", "--fabric", &fabric, "--like", profile, "--"]);
        let output = command.arg(&program).args(FAILURES.map(|(case, _)| case)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let number = |number| if number == 0 { "0000".into() } else { format!("{number:#04x}") };
        let lines = FAILURES.iter().zip(numbers).map(|((case, status), vendor)| {
            format!("{case}: {status}, vendor_err {}\n", number(vendor))
        });
        assert_eq!(text(&output.stdout), lines.collect::<String>(), "{profile}");
        for number in numbers.into_iter().filter(|number| *number != 0) {
            let output = explain(profile, &number.to_string());
            assert!(output.status.success(), "{output:?}");
            assert_has(&text(&output.stdout), &[&format!("of {profile}"), "IBV_WC_", "source: "]);
        }
    }
    let unknown = explain("mlx5", "0x99");
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    assert_has(&text(&unknown.stderr), &["0x99", "known are 0x53"]);
    place.assert_gone();
}

/// A peer that does not answer is given up as late as by the adapter: with seven retries 3.50 to 3.76 s were measured, whatever
/// the timeout below 17. Else it is nine milliseconds here.
#[test]
fn retries_take_as_long_as_the_adapters() {
    let place = Place::new("like-time");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/like/vendor_err.c");
    let Some(program) = compile(&place, source, &["ibverbs"]) else { return };
    let takes = |profile: &str| {
        let fabric = place.unique("fabric");
        let mut command = place.command(&["run", "--fabric", &fabric, "--like", profile, "--"]);
        let output = command.args([&program, "time"]).output().unwrap();
        let said = text(&output.stdout);
        let seconds = said.lines().nth(1).and_then(|line| line.strip_suffix(" s")?.parse().ok());
        seconds.unwrap_or_else(|| panic!("{output:?}"))
    };
    let (adapter, ours): (f64, f64) = (takes("mlx5"), takes("rxe"));
    assert!(adapter >= 3.50, "{adapter}");
    assert!(ours < adapter, "{ours} {adapter}");
    place.assert_gone();
}

/// Times are told beforehand, and words that are no timers refused.
#[test]
fn the_timers_are_explained() {
    let place = Place::new("like-timers");
    let explain = |arguments: &[&str]| {
        place.command(&["explain", "--timers"]).args(arguments).output().unwrap()
    };
    let explained = explain(&["timeout=14", "retry_cnt=7", "--like", "mlx5"]);
    assert!(explained.status.success(), "{explained:?}");
    assert_has(&text(&explained.stdout), &["536.9 ms to 2.15 s", "like mlx5 ", "3.65 s"]);
    for (arguments, said) in
        [(&["timeout=32"][..], "timeout=32"), (&["timeout=14", "--like", "rxe"], "of mlx5")]
    {
        let refused = explain(arguments);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert_has(&text(&refused.stderr), &[said]);
    }
    place.assert_gone();
}

/// A write that is cut off, at either end, has written a multiple of the path's MTU, or all: 16 KiB and 100 bytes.
#[test]
fn a_write_that_is_cut_off_has_written_whole_packets() {
    let place = Place::new("like-cut-off");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/like/vendor_err.c");
    let Some(program) = compile(&place, source, &["ibverbs"]) else { return };
    let written = |seed: u32| {
        let (fabric, strict) = (place.unique("fabric"), format!("--strict={seed}"));
        let mut command = place.command(&["run", "--fabric", &fabric, "--like", "mlx5", &strict]);
        let cases = ["cut-off", "cut-off-peer"].repeat(8);
        let output = command.args(["--", &program]).args(&cases).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = text(&output.stdout);
        let counts: Vec<u32> = said.lines().filter_map(|line| line.parse().ok()).collect();
        assert_eq!(counts.len(), cases.len(), "{said}");
        counts
    };
    let is_cut = (1..=50).any(|seed| {
        let counts = written(seed);
        let is_whole = |count: &u32| count % 1024 == 0 || *count == 16 * 1024 + 100;
        assert!(counts.iter().all(is_whole), "{counts:?}");
        // Most are begun as far as the last packet.
        counts.iter().any(|count| (1..16 * 1024).contains(count))
    });
    assert!(is_cut);
    place.assert_gone();
}

/// A message may have a GiB, as the port says, and not a word more.
#[test]
fn messages_are_no_longer_than_the_adapters() {
    let place = Place::new("like-long");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/like/vendor_err.c");
    let Some(program) = compile(&place, source, &["ibverbs"]) else { return };
    let fabric = place.unique("fabric");
    let mut command = place.command(&["run", "--fabric", &fabric, "--like", "mlx5", "--"]);
    let output = command.args([&program, "too-long"]).output().unwrap();
    assert_has(&text(&output.stdout), &["too-long: local length error"]);
    place.assert_gone();
}
