//! Programs whose memory the system does not let others reach, or which may not reach that of
//! others: everything works all the same, by way of shared memory, and one line says so.
//!
//! See `stock.rs` about programs that are not installed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use programs::filter::forbid_reaching;
use programs::place::Place;
use programs::program::Program;
use programs::{LIMIT, LOCALHOST, can_start_by, comes_about, installed, skipped, tcp};

/// A port of the connection manager: each fabric has its own.
const PORT: u16 = 7471;

/// The line of a program that is closed.
const LINE: &str = "soft-hca: this system does not let programs reach each other's memory (";

/// A right that the system gives one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Free,
    /// The calls that reach memory end with this error number.
    Forbidden(i32),
}

use Right::{Forbidden, Free};

const EPERM: Right = Forbidden(libc::EPERM);
const ENOSYS: Right = Forbidden(libc::ENOSYS);

/// Daemon, server and client.
const EVERY_WAY: [[Right; 3]; 6] = [
    [Free, EPERM, EPERM],
    [Free, EPERM, Free],
    [Free, Free, EPERM],
    [EPERM, Free, EPERM],
    [EPERM, EPERM, EPERM],
    [ENOSYS, ENOSYS, ENOSYS],
];
const ALL_FORBIDDEN: [Right; 3] = [EPERM; 3];

impl Right {
    fn give(self, command: &mut Command) -> &mut Command {
        match self {
            Free => command,
            Forbidden(error) => forbid_reaching(command, error),
        }
    }

    fn start(self, place: &Place, line: &str) -> Program {
        place.start_in(line, |command| self.give(command))
    }
}

/// A fabric whose daemon has a right, and what keeps it alive.
fn fabric(name: &str, right: Right) -> (Place, Program) {
    let place = Place::new(name);
    let keeper = place.keep_in(|command| right.give(command));
    (place, keeper)
}

/// A program says it once if it is closed, and never if it is not.
fn assert_says_so(text: &str, [daemon, program]: [Right; 2]) {
    // A daemon that may reach nobody makes everybody closed.
    let is_closed = daemon != Free || program != Free;
    assert_eq!(text.matches(LINE).count(), usize::from(is_closed), "{text}");
}

/// Where the two programs meet.
#[derive(Clone, Copy)]
enum Meeting {
    Tcp,
    Cm,
}

/// Whether a closed program has sent much: it writes what it sends into shared memory.
fn has_sent(program: &Program) -> bool {
    const MUCH: u64 = 10_000_000;
    let table = fs::read_to_string(format!("/proc/{}/io", program.pid())).unwrap_or_default();
    let written = table.lines().find_map(|line| line.strip_prefix("wchar: "));
    written.is_some_and(|bytes| bytes.parse().is_ok_and(|bytes: u64| bytes > MUCH))
}

fn wait_until_sent(program: &mut Program) {
    let came = comes_about(LIMIT, || has_sent(program) || program.has_ended());
    assert!(came && !program.has_ended(), "{}", program.output());
}

/// Runs a server and a client, gives what each has written.
fn pair(
    place: &Place,
    [daemon, server_right, client_right]: [Right; 3],
    meeting: Meeting,
    [server, client]: [&str; 2],
) -> [String; 2] {
    let (port, listens): (u16, &dyn Fn(u16) -> bool) = match meeting {
        Meeting::Tcp => (tcp::free_port(), &tcp::listens),
        Meeting::Cm => (PORT, &|port| place.listens(port)),
    };
    let mut server = server_right.start(place, &format!("{server} -p {port}"));
    server.wait_until(|| listens(port));
    let mut client = client_right.start(place, &format!("{client} -p {port}"));
    let client = client.succeed();
    let server = server.succeed();
    assert_says_so(&server, [daemon, server_right]);
    assert_says_so(&client, [daemon, client_right]);
    [server, client]
}

/// A ping-pong of which every byte is compared.
fn ping_pong(program: &str, options: &str, ways: &[[Right; 3]]) {
    if !installed(&[program]) {
        return;
    }
    for (number, rights) in ways.iter().enumerate() {
        let name = format!("closed-{program}{}-{number}", options.trim());
        let (place, keeper) = fabric(&name, rights[0]);
        let line = format!("{program} -d rxe0 -g 1 -n 100 -c {options}");
        let both = pair(&place, *rights, Meeting::Tcp, [&line, &format!("{line} {LOCALHOST}")]);
        for text in &both {
            assert!(text.contains("100 iters in "), "{rights:?}: {text}");
            assert!(!text.contains("invalid data"), "{rights:?}: {text}");
        }
        place.assert_no_objects();
        place.end(keeper);
    }
}

#[test]
fn rc_ping_pong_in_every_way() {
    ping_pong("ibv_rc_pingpong", "-e", &EVERY_WAY);
}

#[test]
fn rc_ping_pong_that_polls() {
    ping_pong("ibv_rc_pingpong", "", &[ALL_FORBIDDEN]);
}

#[test]
fn uc_ping_pong() {
    ping_pong("ibv_uc_pingpong", "-e", &[ALL_FORBIDDEN]);
}

#[test]
fn ud_ping_pong() {
    ping_pong("ibv_ud_pingpong", "-e", &[ALL_FORBIDDEN, [Free, Free, EPERM]]);
}

#[test]
fn srq_ping_pong() {
    ping_pong("ibv_srq_pingpong", "-e", &[ALL_FORBIDDEN, [Free, EPERM, Free]]);
}

/// Messages that do not fit into one piece on their way.
#[test]
fn long_messages() {
    ping_pong("ibv_rc_pingpong", "-e -s 3000001", &EVERY_WAY);
}

/// RDMA write and read, and what they bring is compared.
#[test]
fn rping() {
    if !installed(&["rping"]) {
        return;
    }
    for (number, rights) in EVERY_WAY.into_iter().enumerate() {
        let (place, keeper) = fabric(&format!("closed-rping-{number}"), rights[0]);
        let line = format!("-a {LOCALHOST} -C 10 -S 60000 -v -V");
        let lines = [format!("rping -s {line}"), format!("rping -c {line}")];
        let [server, client] = pair(&place, rights, Meeting::Cm, [&lines[0], &lines[1]]);
        assert!(server.contains("server ping data: rdma-ping-9: "), "{server}");
        assert!(client.contains("ping data: rdma-ping-9: "), "{client}");
        assert!(!client.contains("data mismatch"), "{client}");
        place.assert_no_objects();
        place.end(keeper);
    }
}

#[test]
fn stream() {
    if !installed(&["rstream"]) {
        return;
    }
    let (place, keeper) = fabric("closed-rstream", EPERM);
    let line = "rstream -T v -T b -S 70000 -C 20";
    pair(&place, ALL_FORBIDDEN, Meeting::Cm, [line, &format!("{line} -s {LOCALHOST}")]);
    place.end(keeper);
}

/// Requests that change the peer's memory where it stands.
#[test]
fn atomics() {
    if !installed(&["ib_atomic_lat"]) {
        return;
    }
    for (number, rights) in [ALL_FORBIDDEN, [Free, EPERM, Free]].into_iter().enumerate() {
        let (place, keeper) = fabric(&format!("closed-atomics-{number}"), rights[0]);
        for options in ["-A FETCH_AND_ADD", "-A CMP_AND_SWAP"] {
            let line = format!("ib_atomic_lat -d rxe0 -x 1 -F -n 50 {options}");
            pair(&place, rights, Meeting::Tcp, [&line, &format!("{line} {LOCALHOST}")]);
        }
        place.end(keeper);
    }
}

#[test]
fn bandwidth_with_lists() {
    if !installed(&["ib_write_bw", "ib_read_bw"]) {
        return;
    }
    let (place, keeper) = fabric("closed-bandwidth", EPERM);
    for program in ["ib_write_bw -b -q 2", "ib_read_bw"] {
        let line = format!("{program} -d rxe0 -x 1 -F -n 100 -s 20000");
        pair(&place, ALL_FORBIDDEN, Meeting::Tcp, [&line, &format!("{line} {LOCALHOST}")]);
    }
    place.end(keeper);
}

/// The survivor gets an error, and nothing is left.
#[test]
fn one_side_is_killed() {
    if !installed(&["ib_write_bw"]) {
        return;
    }
    for (number, rights) in [ALL_FORBIDDEN, [Free, Free, EPERM]].into_iter().enumerate() {
        let (place, keeper) = fabric(&format!("closed-kill-{number}"), rights[0]);
        for victim in 0..2 {
            let port = tcp::free_port();
            let line = format!("ib_write_bw -d rxe0 -x 1 -b -F -D 1000 -s 500000 -p {port}");
            let mut server = rights[1].start(&place, &line);
            server.wait_until(|| tcp::listens(port));
            let mut client = rights[2].start(&place, &format!("{line} {LOCALHOST}"));
            wait_until_sent(&mut client);
            let (dead, survivor) =
                if victim == 0 { (&mut server, &mut client) } else { (&mut client, &mut server) };
            dead.kill();
            let status = survivor.wait();
            assert!(status.code().is_some_and(|code| code != 0), "{status} {}", survivor.output());
            place.assert_no_objects();
        }
        place.end(keeper);
    }
}

/// A stopped program cannot copy. Its peer waits some seconds, then gets an error.
#[test]
fn one_side_is_stopped() {
    if !installed(&["ib_write_bw"]) {
        return;
    }
    let (place, keeper) = fabric("closed-stop", EPERM);
    let port = tcp::free_port();
    let line = format!("ib_write_bw -d rxe0 -x 1 -F -n 100000000 -s 100000 -p {port}");
    let mut server = EPERM.start(&place, &line);
    server.wait_until(|| tcp::listens(port));
    let mut client = EPERM.start(&place, &format!("{line} {LOCALHOST}"));
    wait_until_sent(&mut client);
    // As `soft-hca run` becomes the program, its id is the program's.
    let signal = |name: &str| {
        let id = server.pid().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    };
    signal("-STOP");
    let status = client.wait();
    assert!(status.code().is_some_and(|code| code != 0), "{status} {}", client.output());
    // The fabric has not stopped with it.
    assert_eq!(place.objects().iter().filter(|object| object.starts_with("qp ")).count(), 1);
    signal("-CONT");
    server.kill();
    place.assert_no_objects();
    place.end(keeper);
}

/// A program that its user may run but not read: the system lets nobody look into it.
#[test]
fn unreadable_programs() {
    const PROGRAM: &str = "ibv_rc_pingpong";
    if !installed(&[PROGRAM]) {
        return;
    }
    if soft_hca_core::system::user() == 0 {
        skipped("nothing is hidden from root");
        return;
    }
    let (place, keeper) = fabric("closed-unreadable", Free);
    let path = std::env::var_os("PATH").unwrap();
    let mut files = std::env::split_paths(&path).map(|dir| dir.join(PROGRAM));
    let copy = place.file(PROGRAM);
    fs::copy(files.find(|file| file.is_file()).unwrap(), &copy).unwrap();
    fs::set_permissions(&copy, Permissions::from_mode(0o111)).unwrap();
    let options = "-d rxe0 -g 1 -n 100 -c -e";
    let hidden = format!("{} {options}", copy.display());
    let plain = format!("{PROGRAM} {options}");
    for [server, client] in [[&hidden, &hidden], [&hidden, &plain], [&plain, &hidden]] {
        let port = tcp::free_port();
        let is_hidden = |line: &String| usize::from(*line == hidden);
        let mut server_program = place.start(&format!("{server} -p {port}"));
        server_program.wait_until(|| tcp::listens(port));
        let text = place.start(&format!("{client} -p {port} {LOCALHOST}")).succeed();
        assert_eq!(text.matches(LINE).count(), is_hidden(client), "{text}");
        assert!(!text.contains("invalid data"), "{text}");
        let text = server_program.succeed();
        assert_eq!(text.matches(LINE).count(), is_hidden(server), "{text}");
        assert!(!text.contains("invalid data"), "{text}");
    }
    place.end(keeper);
}

/// A program in a namespace where the ids of processes are others: what it could reach with the
/// ids that the fabric knows are strangers.
#[test]
fn other_namespaces() {
    if !installed(&["rping"]) {
        return;
    }
    let unshare = "unshare --user --map-root-user --pid --fork --kill-child";
    if !can_start_by(unshare) {
        return;
    }
    let (place, keeper) = fabric("closed-namespaces", Free);
    let line = format!("rping -a {LOCALHOST} -p {PORT} -C 10 -S 3000 -v -V");
    for [server, client] in [["", unshare], [unshare, ""], [unshare, unshare]] {
        let mut server = place.start(&format!("{server} {line} -s"));
        server.wait_until(|| place.listens(PORT));
        let text = place.start(&format!("{client} {line} -c")).succeed();
        assert!(text.contains("ping data: rdma-ping-9: "), "{text}");
        assert!(!text.contains("data mismatch"), "{text}");
        assert_eq!(text.matches(LINE).count(), usize::from(!client.is_empty()), "{text}");
        server.succeed();
        place.assert_no_objects();
    }
    place.end(keeper);
}

/// The listing shows who is closed.
#[test]
fn the_listing_tells() {
    if !installed(&["rping"]) {
        return;
    }
    let (place, keeper) = fabric("closed-listing", Free);
    let mut server = EPERM.start(&place, &format!("rping -s -a {LOCALHOST} -p {PORT}"));
    server.wait_until(|| place.listens(PORT));
    let line = format!("process pid {} comm rping memory closed", server.pid());
    assert!(comes_about(LIMIT, || place.listing().contains(&line)), "{}", place.listing());
    server.kill();
    place.end(keeper);
}

#[test]
fn the_doctor_calls_it_slower() {
    let place = Place::new("closed-doctor");
    let examine = |right: Right| {
        let output = right.give(&mut place.command(&["doctor"])).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (can_work, text) = examine(Free);
    assert_eq!(examine(EPERM).0, can_work, "{text}");
    let text = examine(EPERM).1;
    let line = text.lines().find(|line| line.contains("memory of peers: ")).unwrap();
    assert!(line.starts_with("warning "), "{line}");
    assert!(line.contains("Operation not permitted"), "{line}");
    assert!(line.contains("slower; to make it faster: "), "{line}");
}
