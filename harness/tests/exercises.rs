//! The subjects of the exercises, which the recordings of their neighbours do not show.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo has put the programs: this test is in `deps` below it.
fn bin_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().to_owned()
}

/// Output of the harness on soft-hca, in a fabric that is called after `name`.
fn harness(name: &str, args: &[&str]) -> String {
    let fabric = format!("{name}-{}", std::process::id());
    let run = Command::new(bin_dir().join("soft-hca"))
        .args(["run", "--fabric", &fabric, "--", env!("CARGO_BIN_EXE_harness")])
        .args(args)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    text
}

#[test]
fn an_exercise_works_with_its_neighbours() {
    let bin_dir = bin_dir();
    let bin_dir = bin_dir.display();
    let neighbours =
        [("ping-sr-2e", "ping-sr-1"), ("ping-sr-2e", "ping-sr-2"), ("blast-sr-2e", "blast-sr-2")];
    let swapped = neighbours.map(|(one, other)| (other, one));
    for (server, client) in neighbours.into_iter().chain(swapped) {
        let server = format!("{bin_dir}/{server}-server -a 127.0.0.1");
        let client = format!("{bin_dir}/{client}-client -a 127.0.0.1 -c 100 -v");
        let text = harness("neighbours", &["pair", "--server", &server, "--client", &client]);
        assert!(text.contains("-server: 100 recv completions, 100 send completions"), "{text}");
        assert!(!text.contains("verification failed"), "{text}");
    }
}

/// Output of a run of many-clients: the server with `flags`, and these commands as its client.
fn many_clients(name: &str, flags: &str, clients: &str) -> String {
    let bin_dir = bin_dir();
    let server = format!("{}/many-clients-server -a 127.0.0.1 {flags}", bin_dir.display());
    let client = format!("{}/many-clients-client -a 127.0.0.1", bin_dir.display());
    let clients = clients.replace("CLIENT", &client);
    let text = harness(name, &["pair", "--server", &server, "--client", &clients]);
    assert!(!text.contains("verification failed"), "{text}");
    text
}

#[test]
fn no_addition_of_many_clients_is_lost() {
    for (name, flags) in [("threads", "-n 3"), ("one-poll", "-n 3 -o")] {
        let text = many_clients(name, flags, "CLIENT -n 3 -c 2000 -v");
        assert!(text.contains("-server: listener counter 6000\n"), "{text}");
    }
}

#[test]
fn clients_of_many_clients_may_be_programs_of_their_own() {
    for (name, flags) in [("programs", "-n 2"), ("programs-one-poll", "-n 2 -o")] {
        let both = "CLIENT -n 1 -c 2000 -v & CLIENT -n 1 -c 1000 -v && wait $!";
        let text = many_clients(name, flags, both);
        assert!(text.contains("-server: listener counter 3000\n"), "{text}");
    }
}

#[test]
fn one_client_too_many_is_refused() {
    for (name, flags) in [("refuses", "-n 1"), ("refuses-one-poll", "-n 1 -o")] {
        let both = "CLIENT -n 2 -c 2000 -v; test $? = 1";
        let text = many_clients(name, flags, both);
        assert!(text.contains("(RDMA_CM_EVENT_REJECTED) status"), "{text}");
        assert!(text.contains("-server: listener counter 2000\n"), "{text}");
    }
}

/// The client's output of a run over eight buffers on soft-hca.
fn client_of(example: &str) -> Vec<String> {
    let flags = ["-c", "100", "-s", "64", "-b", "8", "-T", "-x"];
    let bin_dir = bin_dir();
    let args = ["demo", "--bin-dir", bin_dir.to_str().unwrap(), example];
    let text = harness(example, &[&args, &flags[..]].concat());
    text.lines().filter_map(|line| line.strip_prefix("client| client: ")).map(Into::into).collect()
}

/// The number behind `name`.
fn number(lines: &[String], name: &str) -> usize {
    lines.iter().find_map(|line| line.strip_prefix(name)).unwrap().trim().parse().unwrap()
}

/// Of all completions: how many there may be if each posted list of sends has one. The client's
/// three receives for acks may be flushed at the end.
fn completions_and_most(example: &str) -> (usize, usize) {
    let lines = client_of(example);
    assert_eq!(number(&lines, "total work requests "), 100);
    let acks = lines.iter().filter(|line| line.starts_with("our_post_recv ack_count ")).count();
    let calls = number(&lines, "ibv_post_send calls ");
    (number(&lines, "total work completions "), calls + acks + 3)
}

#[test]
fn blast_sr_2e_has_one_completion_for_each_list_of_sends() {
    let (completions, most) = completions_and_most("blast-sr-2e");
    assert!(completions <= most, "{completions} completions, at most {most} were expected");
    // each ack brings two credits or more, so there are far fewer lists than sends
    let (completions, most) = completions_and_most("blast-sr-2");
    assert!(completions > most, "{completions} completions of single sends, not over {most}");
}
