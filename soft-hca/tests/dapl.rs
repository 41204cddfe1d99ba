//! DAPL's programs in a fabric, over two of its three providers: that of the connection manager, and
//! the one that makes its connections by TCP. See `stock.rs` about programs that are not installed.
//!
//! DAPL finds a provider's library and device by a line of `/etc/dat.conf`, or of the file that
//! `DAT_OVERRIDE` names; Debian's has lines for other devices only. The third provider addresses its
//! peers by InfiniBand's local identifiers, which there are none of on Ethernet.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use programs::place::Place;
use programs::program::Program;
use programs::{LIMIT, LOCALHOST, comes_about, descriptors, installed, tcp};

const BY_CM: &str = "rxe0-cma";
const BY_TCP: &str = "rxe0-scm";
const DAT_CONF: &str = "\
rxe0-cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"127.0.0.1 0\" \"\"
rxe0-scm u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 \"rxe0 1\" \"\"
";

/// Where a program of the `dtest` family tells its peer about itself, and where those that use the
/// provider of TCP listen. There is no option for them, and the ports are the machine's.
const PORTS: [u16; 3] = [15_828, 46_248, 32_112];

/// One pair at a time has the ports, in all of these tests and in those of another user.
fn the_ports() -> MutexGuard<'static, ()> {
    static PORTS_ARE_OURS: Mutex<()> = Mutex::new(());
    let guard = PORTS_ARE_OURS.lock().unwrap_or_else(PoisonError::into_inner);
    let are_free = comes_about(LIMIT, || PORTS.iter().all(|&port| !tcp::listens(port)));
    assert!(are_free, "somebody listens at {PORTS:?}");
    guard
}

fn place(name: &str) -> Place {
    let place = Place::new(name);
    fs::write(place.file("dat.conf"), DAT_CONF).unwrap();
    place
}

fn start(place: &Place, line: &str) -> Program {
    place.start_in(line, |command| command.env("DAT_OVERRIDE", place.file("dat.conf")))
}

/// Runs a pair of the `dtest` family; gives what both have written.
fn pair(place: &Place, line: &str, client_option: &str) -> [String; 2] {
    let _ports = the_ports();
    let mut server = start(place, line);
    server.wait_until(|| tcp::listens(PORTS[0]));
    let client = start(place, &format!("{line} {client_option} -h {LOCALHOST}")).succeed();
    [server.succeed(), client]
}

/// Messages both ways, RDMA writes and reads whose data are looked at, a stream of writes.
#[test]
fn dtest() {
    if !installed(&["dtest"]) {
        return;
    }
    let place = place("dtest");
    for provider in [BY_CM, BY_TCP] {
        // Waiting for events, polling, by a notification object.
        for options in ["", "-p", "-c"] {
            let line = format!("dtest -P {provider} -b 65536 {options}");
            let both = pair(&place, &line, "");
            for (text, [own, other]) in
                both.iter().zip([["server", "client"], ["client", "server"]])
            {
                let contains = |what: &str| text.contains(&format!("buffer contains: {what} data"));
                assert!(contains(&format!("{other} RDMA write")), "{text}");
                // The reading side does not wait until the peer has written that into its own memory. Before,
                // there is what was written to it.
                let reads = [format!("{other} RDMA read"), format!("{own} RDMA write")];
                assert!(reads.iter().any(|what| contains(what)), "{text}");
                assert!(text.contains("DAPL Test Complete. PASSED"), "{text}");
            }
        }
    }
    place.assert_gone();
}

/// RDMA writes with immediate data, and atomics. It sleeps for six seconds.
#[test]
fn dtestx() {
    if !installed(&["dtestx"]) {
        return;
    }
    let place = place("dtestx");
    let both = pair(&place, &format!("dtestx -P {BY_CM}"), "-c");
    for text in &both {
        let tests = ["RDMA_WRITE_WITH_IMMEDIATE_DATA", "CMP_SWAP", "FETCH_ADD"];
        for test in tests {
            assert!(text.contains(&format!(" {test} test - PASSED")), "no {test} in:\n{text}");
        }
        assert!(text.contains("immed/atomic test PASSED"), "{text}");
    }
    place.assert_gone();
}

/// Many connections. Over TCP the program may take it for an error that its peer is the first to
/// disconnect.
#[test]
fn dtestcm() {
    if !installed(&["dtestcm"]) {
        return;
    }
    let place = place("dtestcm");
    let both = pair(&place, &format!("dtestcm -P {BY_CM} -c 100"), "");
    for (text, side) in both.iter().zip(["Server", "Client"]) {
        assert!(text.contains(&format!("ALL 100 CONNECTED on {side}!")), "{text}");
        assert!(text.contains("DAPL Connection Test Complete."), "{text}");
    }
    place.assert_gone();
}

/// Connections that share receives. Each ends when the device says that its queue pair has taken the
/// last one.
#[test]
fn dtestsrq() {
    if !installed(&["dtestsrq"]) {
        return;
    }
    let place = place("dtestsrq");
    let line = format!("dtestsrq -P {BY_CM} -c 5");
    let mut server = start(&place, &line);
    server.wait_until(|| place.listens(45_248));
    let client = start(&place, &format!("{line} -h {LOCALHOST}")).succeed();
    for (text, side) in [(server.succeed(), "server"), (client, "client")] {
        assert!(text.contains(&format!("ALL 5 CONNECTED on {side}!")), "{text}");
        assert!(text.contains("DAPL RC SRQ Test Complete."), "{text}");
    }
    place.assert_gone();
}

/// A server of `dapltest`.
struct Server<'p> {
    place: &'p Place,
    program: Program,
}

impl<'p> Server<'p> {
    /// Each fabric has its own. Its tests listen at those behind it, which are in use now and then where ids get theirs
    /// by chance (`ip_local_port_range`): it is below these.
    const PORT: u16 = 5_278;

    fn start(place: &'p Place) -> Self {
        let port = Self::PORT;
        let mut program = start(place, &format!("dapltest -T S -D {BY_CM} -n {port}"));
        program.wait_until(|| place.listens(port));
        Self { place, program }
    }

    /// Runs a test with it, which has to report some figures.
    fn test(&self, kind: &str, options: &str, figures: &[&str]) {
        let port = Self::PORT;
        let line = format!("dapltest -T {kind} -D {BY_CM} -n {port} -s {LOCALHOST} {options}");
        let text = start(self.place, &line).succeed();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = words.contains("End of Work -- Client Exiting");
        assert!(said && !text.to_uppercase().contains("ERROR"), "{text}");
        for figure in figures {
            assert!(words.contains(figure), "no {figure:?} in:\n{text}");
        }
    }

    /// Asks it to end.
    fn end(mut self) {
        self.test("Q", "", &[]);
        let text = self.program.succeed();
        assert!(!text.to_uppercase().contains("ERROR") && text.contains("Exiting."), "{text}");
        self.place.assert_gone();
    }
}

/// Several tests of a kind, each with the figures that it has to report.
fn dapltest(name: &str, kind: &str, tests: &[(&str, &[&str])]) {
    if !installed(&["dapltest"]) {
        return;
    }
    let place = place(name);
    let server = Server::start(&place);
    for (options, figures) in tests {
        server.test(kind, options, figures);
    }
    server.end();
}

/// A server that goes on has its device open all the time, and makes completion channels for each
/// client.
#[test]
fn a_server_has_as_many_descriptors_after_ten_clients_as_after_one() {
    if !installed(&["dapltest"]) {
        return;
    }
    let place = place("dapltest-d");
    let server = Server::start(&place);
    let [daemon] = place.daemons()[..] else { panic!("{:?}", place.daemons()) };
    let test = || server.test("T", "-t 2 -w 4 -i 1 client SR 64 server SR 64", &[]);
    test();
    let processes = [server.program.pid(), daemon];
    let first = processes.map(descriptors);
    (1..10).for_each(|_| test());
    let are_few = || processes.map(descriptors).iter().zip(first).all(|(now, then)| *now <= then);
    assert!(comes_about(LIMIT, are_few), "{first:?}, {:?}", processes.map(descriptors));
    server.end();
}

/// Sends, RDMA writes and reads both ways. `-V` has the data compared. A test that takes hardly any time
/// has no figures, whence 1,000 iterations of the short ones.
#[test]
fn dapltest_transactions() {
    let mixed = "-V -t 2 -w 4 -i 20 client RW 4096 1 server RW 2048 4 client SR 1024 4 \
        server SR 4096 2 client SR 1024 3 -f server SR 2048 1 -f";
    let reads = "-V -i 1000 client RR 4096 2 server RR 1024 3";
    let large = "-V -P -i 20 -w 2 client RW 65536 server RR 65536";
    let tests: [(&str, &[&str]); 6] = [
        ("-i 1000 client SR 4096 2 server SR 4096 2", &["Total Send : 8.19 MB"]),
        ("-P -i 1000 client SR 4096 server SR 4096", &["Total Recv : 4.09 MB"]),
        ("-V -i 1000 client SR 4096 2 server SR 1024", &["Total Send : 12.28 MB"]),
        (mixed, &["2 threads, 4 EPs", "Total RDMA Write : 1.96 MB"]),
        (reads, &["Total RDMA Read : 11.26 MB"]),
        (large, &["Total RDMA Write : 2.62 MB", "Total RDMA Read : 2.62 MB"]),
    ];
    dapltest("dapltest-t", "T", &tests);
}

#[test]
fn dapltest_performance() {
    let tests: [(&str, &[&str]); 4] = [
        ("-i 1000 RW 4096 2", &["Mode : blocking", "Total Data Exchanged : 7.81 MB"]),
        ("-i 1000 -m p RW 4096 2", &["Mode : polling", "Total Data Exchanged : 7.81 MB"]),
        ("-i 1000 -m b RR 4096 2", &["Operation Type : RR", "Total Data Exchanged : 7.81 MB"]),
        ("-i 1000 -m p -p 16 RR 65536", &["Pipeline Length : 16", "Exchanged : 62.50 MB"]),
    ];
    dapltest("dapltest-p", "P", &tests);
}
