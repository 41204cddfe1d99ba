//! The runner with shell scripts as server and client: order of the start, time
//! order of the lines, kills, time limits, partial lines, nothing left running.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use harness::listen::Ready;
use harness::process::{Ending, Program};
use harness::run::{Client, Kill, Observer, Outcome, Plan, Progress, Unobserved, run};
use harness::transcript::{Side, Stream};

fn shell(script: &str) -> Program {
    Program {
        path: "/bin/sh".into(),
        arg0: Some("./script".into()),
        args: vec!["-c".into(), script.into()],
        ends_with_input: false,
    }
}

fn plan(server: Option<&str>, client: Option<&str>) -> Plan {
    Plan {
        server: server.map(shell),
        client: client.map(|script| Client::Program(shell(script))),
        ready: "line:^ready".parse().unwrap(),
        ready_limit: Duration::from_secs(30),
        limit: Duration::from_secs(30),
        kill: None,
        server_stopped: false,
        served: None,
    }
}

fn played(plan: &Plan) -> Outcome {
    run(plan, &mut Unobserved).unwrap()
}

fn texts(outcome: &Outcome) -> Vec<&str> {
    outcome.transcript.lines().iter().map(|line| line.text.as_str()).collect()
}

#[test]
fn the_client_starts_when_the_server_is_ready() {
    let outcome = played(&plan(
        Some("echo early; sleep 0.3; echo ready; sleep 0.5; echo late"),
        Some("echo client"),
    ));
    assert_eq!(texts(&outcome), ["early", "ready", "client", "late"]);
    assert_eq!((outcome.server, outcome.client), (Some(Ending::Code(0)), Some(Ending::Code(0))));
    let times: Vec<_> = outcome.transcript.lines().iter().map(|line| line.at).collect();
    assert!(times.is_sorted());
}

#[test]
fn the_client_starts_when_the_server_has_ended() {
    let outcome = played(&plan(Some("echo no >&2; exit 3"), Some("echo client; exit 4")));
    assert_eq!(texts(&outcome), ["no", "client"]);
    assert_eq!((outcome.server, outcome.client), (Some(Ending::Code(3)), Some(Ending::Code(4))));
}

#[test]
fn a_server_that_never_listens_is_reported_and_its_client_not_started() {
    let mut plan = plan(Some("sleep 60"), Some("echo client"));
    plan.ready_limit = Duration::from_millis(200);
    let outcome = played(&plan);
    assert!(outcome.never_ready.unwrap().contains("^ready"));
    assert_eq!((outcome.server, outcome.client), (Some(Ending::TimedOut), None));
}

#[test]
fn a_tcp_server_is_ready_when_it_listens() {
    let mut plan = plan(None, Some("echo client"));
    let play = ["--exact", "pairs::play_a_tcp_server", "--ignored", "--nocapture"];
    plan.server = Some(Program {
        path: std::env::current_exe().unwrap(),
        arg0: None,
        args: play.map(Into::into).to_vec(),
        ends_with_input: false,
    });
    plan.ready = Ready::Tcp;
    let outcome = played(&plan);
    let told = ["before", "client", "after"];
    let texts: Vec<_> = texts(&outcome).into_iter().filter(|text| told.contains(text)).collect();
    assert_eq!(texts, told);
    assert_eq!(outcome.server, Some(Ending::Code(0)));
}

#[test]
#[ignore = "the server of another test, not a test"]
fn play_a_tcp_server() {
    println!("\nbefore");
    std::thread::sleep(Duration::from_millis(400));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    std::thread::sleep(Duration::from_secs(2));
    drop(listener);
    println!("after");
}

#[test]
fn argv0_and_streams_are_kept_apart() {
    let outcome = played(&plan(None, Some("echo \"$0\"; echo error >&2")));
    assert_eq!(outcome.transcript.stream(Side::Client, Stream::Stdout), ["./script"]);
    assert_eq!(outcome.transcript.stream(Side::Client, Stream::Stderr), ["error"]);
    assert!(outcome.transcript.stream(Side::Server, Stream::Stdout).is_empty());
}

#[test]
fn a_partial_last_line_is_kept_and_marked() {
    let outcome = played(&plan(None, Some("echo whole; printf part")));
    let stdout = outcome.transcript.stream(Side::Client, Stream::Stdout);
    assert_eq!(stdout, ["whole", "part [no newline]"]);
}

#[test]
fn a_kill_comes_when_it_is_due() {
    let mut plan = plan(Some("echo ready; sleep 60"), Some("sleep 1; echo still here"));
    plan.kill = Some(Kill {
        who: Side::Server,
        signal: 15,
        once: BTreeMap::new(),
        after: Duration::from_millis(300),
    });
    let outcome = played(&plan);
    assert_eq!(outcome.server, Some(Ending::Signal(15)));
    assert_eq!(outcome.client, Some(Ending::Code(0)));
    assert_eq!(texts(&outcome), ["ready", "still here"]);
}

#[test]
fn a_kill_waits_for_what_both_sides_print() {
    let mut plan = plan(
        Some("echo ready; sleep 0.6; echo accepted; exec sleep 60"),
        Some("echo connected; sleep 0.3; echo no more; exec sleep 60"),
    );
    let once = [(Side::Server, "accept".to_owned()), (Side::Client, "connect".to_owned())];
    let after = Duration::from_millis(1);
    for (who, survivor) in [(Side::Server, Side::Client), (Side::Client, Side::Server)] {
        plan.kill = Some(Kill { who, signal: 9, once: once.clone().into(), after });
        plan.limit = Duration::from_secs(2);
        let outcome = played(&plan);
        assert_eq!(texts(&outcome), ["ready", "connected", "no more", "accepted"]);
        assert_eq!(outcome.ending(who), Some(Ending::Signal(9)));
        assert_eq!(outcome.ending(survivor), Some(Ending::TimedOut));
    }
}

#[test]
fn a_planned_sigkill_is_no_timeout() {
    let mut plan = plan(None, Some("sleep 60"));
    plan.kill = Some(Kill {
        who: Side::Client,
        signal: 9,
        once: BTreeMap::new(),
        after: Duration::from_millis(100),
    });
    assert_eq!(played(&plan).client, Some(Ending::Signal(9)));
}

#[test]
fn what_runs_too_long_is_ended_with_its_descendants() {
    let mut plan = plan(Some("echo ready; sleep 77 & echo $!; wait"), Some("exit 5"));
    plan.limit = Duration::from_millis(500);
    let start = Instant::now();
    let outcome = played(&plan);
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(outcome.server, Some(Ending::TimedOut));
    assert_eq!(outcome.client, Some(Ending::Code(5)));
    let descendant = texts(&outcome)[1].to_owned();
    assert!(is_gone(&descendant), "{descendant} still runs");
}

#[test]
fn what_a_program_leaves_behind_is_ended_too() {
    let outcome = played(&plan(None, Some("sleep 77 >/dev/null 2>&1 & echo $!")));
    assert_eq!(outcome.client, Some(Ending::Code(0)));
    let descendant = texts(&outcome)[0].to_owned();
    assert!(is_gone(&descendant), "{descendant} still runs");
}

/// Not there, or a zombie that nobody has collected yet. The kill has been sent, so
/// it is only a matter of the kernel's doing it.
fn is_gone(pid: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
        if stat.map_or(true, |stat| stat.contains(") Z ") || stat.contains(") X ")) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn a_settled_run_is_ended_early_and_counts_as_timed_out() {
    struct Settled;
    impl Observer for Settled {
        fn is_settled(&mut self, so_far: &Progress<'_>) -> bool {
            so_far.client.is_some() && so_far.server.is_none()
        }
    }
    let mut plan = plan(Some("echo ready; sleep 77"), Some("exit 0"));
    plan.limit = Duration::from_secs(60);
    let start = Instant::now();
    let outcome = run(&plan, &mut Settled).unwrap();
    assert_eq!(outcome.server, Some(Ending::TimedOut));
    let took = start.elapsed();
    assert!((Duration::from_secs(3)..Duration::from_secs(30)).contains(&took), "{took:?}");
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let mut plan = plan(None, None);
    plan.server = Some(Program {
        path: "/nonexistent/program".into(),
        arg0: None,
        args: Vec::new(),
        ends_with_input: false,
    });
    let error = run(&plan, &mut Unobserved).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/program"), "{error}");
}

#[test]
fn the_client_is_told_the_port_that_the_server_says() {
    let mut plan = plan(Some("echo port 4711; sleep 0.3"), Some("echo to {port}"));
    plan.ready = "line:^port ([0-9]+)$".parse().unwrap();
    assert_eq!(texts(&played(&plan)), ["port 4711", "to 4711"]);
}

#[test]
fn a_client_that_needs_the_port_is_not_started_without() {
    let mut plan = plan(Some("exit 3"), Some("echo to {port}"));
    plan.ready = "line:^port ([0-9]+)$".parse().unwrap();
    let outcome = played(&plan);
    assert!(outcome.never_ready.unwrap().contains("its port"));
    assert_eq!((outcome.server, outcome.client), (Some(Ending::Code(3)), None));
}

#[test]
fn a_server_that_serves_for_ever_is_ended_when_it_has_said_that_it_is_done() {
    let mut plan = plan(
        Some("trap 'echo ended; exit 5' TERM; echo ready; sleep 0.5; echo done; sleep 60 & wait"),
        Some("echo client"),
    );
    plan.served = Some("^done$".parse().unwrap());
    let outcome = played(&plan);
    assert_eq!(texts(&outcome), ["ready", "client", "done", "ended"]);
    assert_eq!(outcome.server, Some(Ending::Code(5)));
}

#[test]
fn a_server_that_serves_for_ever_does_not_outlive_a_client_that_has_failed() {
    let mut plan = plan(Some("echo ready; exec sleep 60"), Some("exit 1"));
    plan.served = Some("^done$".parse().unwrap());
    let outcome = played(&plan);
    assert_eq!(outcome.server, Some(Ending::Signal(15)));
    assert_eq!(outcome.client, Some(Ending::Code(1)));
}

#[test]
fn a_stopped_server_goes_on_after_the_end_of_the_client() {
    let mut plan =
        plan(Some("echo ready; sleep 0.2; echo later"), Some("echo client; exec sleep 60"));
    plan.server_stopped = true;
    plan.kill = Some(Kill {
        who: Side::Client,
        signal: 9,
        once: BTreeMap::new(),
        after: Duration::from_millis(600),
    });
    let outcome = played(&plan);
    assert_eq!(texts(&outcome), ["ready", "client", "later"]);
    let times: Vec<_> = outcome.transcript.lines().iter().map(|line| line.at).collect();
    assert!(times[2] - times[1] >= Duration::from_millis(300), "{times:?}");
    assert_eq!((outcome.server, outcome.client), (Some(Ending::Code(0)), Some(Ending::Signal(9))));
}
