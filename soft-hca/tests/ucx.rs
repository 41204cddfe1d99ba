//! `ucx_perftest` in a fabric, over each transport that UCX has for the device. See `stock.rs` about
//! programs that are not installed.
//!
//! Tests of UCX's lower layer (UCT) take transport and device as options, those of the upper one
//! (UCP) from `UCX_TLS`, as there is no option for it. Nothing else is ever set but `UCX_LOG_LEVEL`,
//! with which UCX says what it has chosen.

use programs::place::Place;
use programs::{
    LIMIT, LOCALHOST, can_start_by, comes_about, tcp, the_processors, ucx_is_installed,
};

const PROGRAM: &str = "ucx_perftest";
const ITERATIONS: u32 = 100;

/// Messages of 8 bytes, which go inline, and of 1 MiB, which go by rendezvous.
const TAGGED: [&str; 4] =
    ["-t tag_lat", "-t tag_bw", "-t tag_lat -n 10 -s 1048576", "-t tag_bw -n 10 -s 1048576"];
const ONE_SIDED: [&str; 4] =
    ["-t ucp_put_lat", "-t ucp_put_bw", "-t ucp_get", "-t ucp_put_bw -n 10 -s 65536"];
const ATOMIC: [&str; 4] = ["-t ucp_add", "-t ucp_fadd", "-t ucp_swap", "-t ucp_cswap"];

/// Runs a pair; gives what both have written. `before` is a command that starts the program.
fn pair(place: &Place, transports: Option<&str>, before: &str, options: &str) -> [String; 2] {
    let _processors = the_processors();
    let port = tcp::free_port();
    let line = format!("{before} {PROGRAM} -p {port} -n {ITERATIONS} -w 10 {options}");
    let start = |line: &str| {
        place.start_in(line, |command| {
            command.env_remove("UCX_TLS").env("UCX_LOG_LEVEL", "info");
            command.envs(transports.map(|names| ("UCX_TLS", names)))
        })
    };
    let mut server = start(&line);
    server.wait_until(|| tcp::listens(port));
    let client = start(&format!("{line} {LOCALHOST}")).succeed();
    // The last of several counts.
    let words: Vec<&str> = options.split_whitespace().collect();
    let asked = words.iter().rposition(|&word| word == "-n").map(|at| words[at + 1]);
    let iterations = asked.map_or(ITERATIONS, |number| number.parse().unwrap());
    let last = client.lines().find_map(|line| line.strip_prefix("Final:")).unwrap_or_default();
    let numbers: Vec<f64> = last.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert!(numbers.first() == Some(&iterations.into()), "`{line}`:\n{client}");
    [server.succeed(), client]
}

/// Each of the upper layer's tests, over transports of choice. All that UCX chooses has to be `lane`.
fn upper(name: &str, transports: &str, lane: &str) {
    if !ucx_is_installed() {
        return;
    }
    let place = Place::new(name);
    for options in TAGGED.iter().chain(&ONE_SIDED).chain(&ATOMIC) {
        for text in pair(&place, Some(transports), "", options) {
            assert_eq!(lanes(&text), [lane], "`{options}`:\n{text}");
        }
    }
    place.assert_gone();
}

/// Transports and devices that UCX says it has chosen.
fn lanes(text: &str) -> Vec<&str> {
    let chosen = text.lines().filter_map(|line| line.split_once("ep_cfg[0]: "));
    let mut lanes: Vec<&str> = chosen
        .flat_map(|(_, chosen)| chosen.split(['(', ')', ' ']))
        .filter(|word| word.contains('/'))
        .collect();
    lanes.dedup();
    lanes
}

#[test]
fn reliable_connections() {
    upper("ucx-rc", "rc", "rc_verbs/rxe0:1");
}

#[test]
fn datagrams() {
    upper("ucx-ud", "ud", "ud_verbs/rxe0:1");
}

#[test]
fn reliable_connections_and_datagrams() {
    upper("ucx-rc-ud", "rc,ud", "rc_verbs/rxe0:1");
}

/// The lower layer has neither `get` nor `swap` of the default size here: the first needs a layout,
/// the second more than verbs offer.
#[test]
fn the_lower_layer() {
    if !ucx_is_installed() {
        return;
    }
    let place = Place::new("ucx-uct");
    let reliable = [
        "am_lat",
        "am_bw",
        "am_bw -D zcopy -s 1024",
        "put_lat",
        "put_bw",
        "put_bw -D zcopy -s 65536",
        "get -D bcopy",
        "get -D zcopy -s 65536",
        "add_lat",
        "add_mr",
        "fadd",
        "cswap",
    ];
    for test in reliable {
        pair(&place, None, "", &format!("-x rc_verbs -d rxe0:1 -t {test}"));
    }
    for test in ["am_lat", "am_bw", "am_bw -D zcopy -s 512"] {
        pair(&place, None, "", &format!("-x ud_verbs -d rxe0:1 -t {test}"));
    }
    place.assert_gone();
}

/// UCX chooses shared memory for small messages where it can, and opens the device beside it.
#[test]
fn nothing_is_set() {
    if !ucx_is_installed() {
        return;
    }
    let place = Place::new("ucx-default");
    for options in TAGGED {
        for text in pair(&place, None, "", options) {
            assert!(lanes(&text).contains(&"rc_verbs/rxe0:1"), "{text}");
        }
    }
    place.assert_gone();
}

/// Between programs that have no shared memory, as in two containers, it chooses the device by itself.
#[test]
fn nothing_is_set_and_no_memory_is_shared() {
    if !ucx_is_installed() {
        return;
    }
    let unshare = "unshare --user --map-root-user --ipc";
    if !can_start_by(unshare) {
        return;
    }
    let place = Place::new("ucx-unshared");
    for options in TAGGED {
        for text in pair(&place, None, unshare, options) {
            assert_eq!(lanes(&text), ["rc_verbs/rxe0:1"], "{text}");
        }
    }
    place.assert_gone();
}

/// An endpoint over two devices does not outlive one of them; what UCX promises to who asks for it (`-e`)
/// is that it ends, and with which status.
#[test]
fn a_cable_of_two_is_pulled() {
    const BOTH: [&str; 2] = ["rc_verbs/rxe0:1", "rc_verbs/rxe1:1"];
    const ENDS: &str = "error handler called with status";
    if !ucx_is_installed() {
        return;
    }
    let devices = ["--device", "rxe0", "--device", "rxe1"].map(str::to_string);
    let place = Place::with("ucx-cable", Vec::new(), devices.to_vec());
    let keeper = place.keep();
    let cable = |action: &str| {
        let mut command =
            place.command(&["port", action, "rxe1/1", "--fabric", place.fabric_name()]);
        assert!(command.status().unwrap().success(), "{action}");
    };
    {
        let _processors = the_processors();
        let port = tcp::free_port();
        let line = format!("{PROGRAM} -e -t tag_bw -n 100000000 -s 1048576 -w 10 -p {port}");
        let start = |line: &str| {
            place
                .start_in(line, |command| command.env("UCX_TLS", "rc").env("UCX_LOG_LEVEL", "info"))
        };
        let mut server = start(&line);
        server.wait_until(|| tcp::listens(port));
        let mut client = start(&format!("{line} {LOCALHOST}"));
        let has_begun = comes_about(LIMIT, || client.output().contains("[thread 0]"));
        assert!(has_begun, "{}", client.output());
        let output = client.output();
        assert!(BOTH.iter().all(|lane| lanes(&output).contains(lane)), "{output}");
        cable("down");
        let outputs = || [server.output(), client.output()];
        let have_ended = comes_about(LIMIT, || outputs().iter().all(|text| text.contains(ENDS)));
        let [of_server, of_client] = outputs();
        let text = format!("server:\n{of_server}\nclient:\n{of_client}");
        assert!(have_ended && text.contains("(Endpoint timeout)"), "{text}");
        // The programs wait for each other.
        server.kill();
        client.kill();
    }
    place.assert_no_objects();
    cable("up");
    for text in pair(&place, Some("rc"), "", "-t tag_bw -n 10 -s 1048576") {
        assert!(BOTH.iter().all(|lane| lanes(&text).contains(lane)), "{text}");
    }
    place.end(keeper);
}
