//! `./demo` says why it does not take what comes first, or what is missing. Everything that it calls is
//! a stand-in here.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::limited;
use crate::scripts::Folder;

impl Folder {
    /// `demo` and what it calls. The folder's name is an unusual one.
    fn new(name: &str) -> Self {
        let name = format!("harness demo's {name} {}", std::process::id());
        let folder = Self::with_demo(&name, &["harness/install", "lab/install", "path/cargo"]);
        for file in ["lab/run", "target/release/harness"] {
            folder.script(file, &format!("#!/bin/sh\necho {file}\n"));
        }
        folder
    }

    /// Output of `demo` with a `soft-hca` of this text.
    fn demo(&self, soft_hca: &str) -> Vec<String> {
        self.script("target/release/soft-hca", soft_hca);
        let output = self.run(&[]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
    }

    /// `demo` with arguments.
    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The command for `demo` with arguments, not yet started.
    fn command(&self, arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = limited::command(self.0.join("demo"));
        command
            .args(arguments)
            .env("PATH", format!("{}:{path}", self.0.join("path").display()))
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("SOFT_HCA_LOG");
        command
    }
}

#[test]
fn why_not_soft_hca_is_the_first_line() {
    if fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some()) {
        needs::skipped("this host has a device");
        return;
    }
    let folder = Folder::new("fabric");
    assert_eq!(folder.demo("#!/bin/sh\necho $1\n"), ["run"]);
    let problems = "#!/bin/sh
echo 'ok       one: fine'
echo 'problem  two: it is broken; mend it'
echo 'problem  three: gone; get it'
exit 1
";
    assert_eq!(
        folder.demo(problems),
        [
            "taking the lab: soft-hca does not work here: two: it is broken; mend it, and three: \
             gone; get it",
            "lab/run"
        ]
    );
    let mute = folder.demo("#!/bin/sh\nexit 1\n");
    assert!(
        mute[0].starts_with("taking the lab: soft-hca does not work here: no word"),
        "{mute:?}"
    );
    let wordy = folder.demo("#!/bin/sh\necho no such >&2\necho library >&2\nexit 1\n");
    assert!(wordy[0].ends_with("does not work here: no such library"), "{wordy:?}");
}

#[test]
fn a_run_can_be_recorded() {
    let folder = Folder::new("record");
    folder.script("target/release/soft-hca", "#!/bin/sh\necho \"$@\"\n");
    for arguments in
        [&["--record", "/x/run.shr", "mc", "-s"], &["mc", "--record", "/x/run.shr", "-s"]]
    {
        let output = folder.run(arguments);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("record -o /x/run.shr --fabric demo-"), "{text}");
        assert!(text.ends_with(" mc -s\n"), "{text}");
    }
    for arguments in [&["mc", "--record"][..], &["--device", "--record", "/x/run.shr"]] {
        assert_eq!(folder.run(arguments).status.code(), Some(1));
    }
}

#[test]
fn a_timeline_can_be_asked_for_anywhere() {
    let folder = Folder::new("timeline");
    let soft_hca = "#!/bin/sh\n[ $1 != record ] || echo entries >\"$3\"\necho \"$@\"\n";
    folder.script("target/release/soft-hca", soft_hca);
    let page = folder.0.join("a.html").display().to_string();
    let record = folder.0.join("a.shr");
    let said = |arguments: &[&str]| {
        let output = folder.run(&[&["mc"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for arguments in [
        &["--timeline", &page, "-s", "-c", "3"][..],
        &["-s", "-c", "3", "--timeline", &page],
        &["-s", "--timeline", &page, "-c", "3"],
        &["-s", &format!("--timeline={page}"), "-c", "3"],
    ] {
        let text = said(arguments);
        let lines: Vec<_> = text.lines().collect();
        let [run, show, end] = lines.as_slice() else { panic!("{text}") };
        let begin = format!("record -o {} --fabric ", record.display());
        assert!(run.starts_with(&begin) && run.ends_with(" mc -s -c 3"), "{text}");
        // The record beside the page was written.
        assert!(record.is_file());
        assert!(run.contains(" --address 127.0.0.1 "), "{text}");
        assert!(show.starts_with(&format!("show --html {page} --title mc -s -c 3 ")), "{text}");
        assert_eq!(*end, format!("the timeline is in {page}"));
    }
    let there = folder.command(&["mc", "-s", "--timeline"]).current_dir(&folder.0).output();
    let text = String::from_utf8(there.unwrap().stdout).unwrap();
    assert!(text.ends_with("/mc.html\n") && folder.0.join("mc.shr").is_file(), "{text}");
    let text = said(&["--timeline", &page, "-s", "--packets"]);
    assert!(text.contains(" --roce=always ") && text.contains(" --address link "), "{text}");
    // With an equals sign any name is the page's; without, an example's own word is not.
    let there = folder.command(&["mc", "--timeline=run", "-s"]).current_dir(&folder.0).output();
    let text = String::from_utf8(there.unwrap().stdout).unwrap();
    assert!(text.ends_with("/run\n") && folder.0.join("run.shr").is_file(), "{text}");
    let there =
        folder.command(&["read-write", "--timeline", "read"]).current_dir(&folder.0).output();
    let text = String::from_utf8(there.unwrap().stdout).unwrap();
    assert!(text.contains(" read-write read\n") && text.ends_with("/read-write.html\n"), "{text}");
    for wrong in
        [&["mc", "--packets"][..], &["--lab", "mc", "--timeline"], &["mc", "-c", "--record"]]
    {
        assert_eq!(folder.run(wrong).status.code(), Some(1), "{wrong:?}");
    }
}

/// The fabric writes to its log that it cannot write to the file.
#[test]
fn packets_that_are_not_all_there_are_an_error() {
    let folder = Folder::new("full");
    let soft_hca = "#!/bin/sh
[ $1 != ls ] || exec echo fabric does not run
echo \"WARN recording to $3 ends: No space left on device (os error 28)\" >>\"$SOFT_HCA_LOG\"
";
    folder.script("target/release/soft-hca", soft_hca);
    let file = folder.0.join("run.pcapng").display().to_string();
    fs::write(&file, "packets").unwrap();
    // The log may have an earlier run's line, which is not about this one.
    let log = folder.0.join("log");
    fs::write(&log, "WARN recording to elsewhere ends: Input/output error\n").unwrap();
    for own_log in [false, true] {
        let mut command = folder.command(&["mc", "--pcap", &file]);
        if own_log {
            command.env("SOFT_HCA_LOG", &log);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        let said = format!("demo: the packets in {file} are not all: No space left on device");
        assert!(text.contains(&said), "{text}");
    }
}

/// Any signal that ends the script ends the run and removes its temporary files.
#[test]
fn a_signal_ends_what_is_recorded() {
    for (signal, status) in [("TERM", 143), ("HUP", 129)] {
        let folder = Folder::new(&format!("signal {signal}"));
        let soft_hca = "#!/bin/bash
trap 'touch \"$0.ended\"; exit 143' TERM
echo runs
for ((;;)); do sleep 0.01; done
";
        folder.script("target/release/soft-hca", soft_hca);
        let tmp = folder.0.join("tmp");
        fs::create_dir(&tmp).unwrap();
        let page = folder.0.join("a.html").display().to_string();
        let mut child = folder
            .command(&["mc", "--timeline", &page])
            .env("TMPDIR", &tmp)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        limited::wait_for_line(&mut child, "runs");
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        assert_eq!(limited::status(&mut child), Some(status));
        assert!(folder.0.join("target/release/soft-hca.ended").exists());
        assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0);
    }
}

#[test]
fn packets_can_be_captured_with_or_without_a_record() {
    let folder = Folder::new("packets");
    let soft_hca = "#!/bin/sh\n[ $1 != ls ] || exec echo fabric does not run\necho \"$@\"\n";
    folder.script("target/release/soft-hca", soft_hca);
    let file = folder.0.join("run.pcapng").display().to_string();
    fs::write(&file, "packets").unwrap();
    let record = ["--record", "/x/run.shr"];
    let pcap = ["--pcap", &file];
    for (before, behind, how) in [
        (&pcap[..], &[][..], "run"),
        (&[], &pcap, "run"),
        (&record, &pcap, "record -o /x/run.shr"),
        (&[], &[record, pcap].concat(), "record -o /x/run.shr"),
        (&[], &[pcap, record].concat(), "record -o /x/run.shr"),
    ] {
        let output = folder.run(&[before, &["mc"], behind, &["-s"]].concat());
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let begin = format!("{how} --roce=always --pcap {file} --fabric demo-");
        assert!(text.starts_with(&begin) && text.contains(" --address link "), "{text}");
        assert!(text.ends_with(&format!(" mc -s\nthe packets are in {file}\n")), "{text}");
    }
    for arguments in [&["mc", "--pcap"][..], &["--lab", "mc", "--pcap", &file]] {
        assert_eq!(folder.run(arguments).status.code(), Some(1));
    }
}

/// An option means the same before and after the example, and its value may follow a space or an
/// equals sign.
#[test]
fn options_may_stand_anywhere() {
    let folder = Folder::new("anywhere");
    folder.script("target/release/soft-hca", "#!/bin/sh\necho \"$@\"\n");
    folder.script("lab/run", "#!/bin/sh\necho lab \"$@\"\n");
    folder.script("path/unshare", "#!/bin/sh\nshift $(($# - 4))\necho \"$@\"\n");
    for (arguments, begin, end) in [
        (&["mc/", "--soft-hca"][..], "run --fabric demo-", " mc\n"),
        (&["--soft-hca", "mc//", "-c", "3"], "run --fabric demo-", " mc -c 3\n"),
        (&["mc", "-c", "3", "--lab"], "lab --time-limit ", " mc -c 3\n"),
        (&["mc", "--two-hosts", "--soft-hca"], "--net harness/two_hosts ", " mc\n"),
        (&["mc", "--record=/x/run.shr", "-s"], "record -o /x/run.shr --fabric ", " mc -s\n"),
        (&["--record=/x/run.shr", "mc"], "record -o /x/run.shr --fabric ", " mc\n"),
        (&["mc", "--infiniband", "-c", "1"], "run --device rxe0:infiniband", " mc -c 1\n"),
        (
            &["--soft-hca", "mc", "--server", "-m x", "--client", "-s"],
            "run --fabric ",
            " mc --server -m x --client -s\n",
        ),
        (&["mc", "--soft-hca", "--", "--lab"], "run --fabric ", " mc --lab\n"),
    ] {
        let output = folder.run(arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(text.starts_with(begin) && text.ends_with(end), "{arguments:?}: {text}");
    }
    for help in [&["-h"][..], &["mc", "-h"], &["mc", "-c", "3", "--help"]] {
        let output = folder.run(help);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.starts_with("Usage: ./demo "), "{text}");
        assert_eq!(text.ends_with("\nThe flags of mc are in mc/README.md.\n"), help.len() > 1);
    }
}

#[test]
fn what_cannot_be_is_said_in_a_line() {
    let folder = Folder::new("refused");
    for (arguments, why) in [
        (&["--soft-hca", "mc", "--lab"][..], "--soft-hca and --lab name two places"),
        (&["--server-host", "alpha", "--client-host", "alpha", "mc"], "both hosts are alpha; "),
        (&["mc", "--pcap="], "--pcap needs a value; "),
        (&["--timeline=a.html"], "--timeline stands behind the example"),
        (&["mc", "--timeline="], "--timeline needs a value; "),
    ] {
        let output = folder.run(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains(why), "{arguments:?}: {text}");
    }
    let output = folder.command(&["mc"]).env("CARGO_TARGET_DIR", "/proc/none").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let said =
        "demo: cannot write to /proc/none, where the programs are built; CARGO_TARGET_DIR can ";
    assert!(text.starts_with(said) && text.lines().count() == 1, "{text}");
}

/// A path migrates on InfiniBand devices, which only soft-hca has to choose, and apm alone
/// migrates.
#[test]
fn devices_are_chosen_for_what_they_show() {
    let folder = Folder::new("devices");
    folder.script("target/release/soft-hca", "#!/bin/sh\necho \"$@\"\n");
    let said = |arguments: &[&str]| {
        let output = folder.run(&[&["--soft-hca"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let two = "run --device rxe0:infiniband,ports=2 --device rxe1:infiniband --fabric demo-";
    let beside = "run --device rxe0 --device rxe1:infiniband,ports=2 --device rxe2:infiniband ";
    for (arguments, begin, flags) in [
        (&["mc"][..], "run --fabric demo-", " --address 127.0.0.1 --fabric-name "),
        (
            &["--infiniband", "mc"],
            two,
            " --by-lid --migrate-on rxe1,rxe0,198.18.1.1 --fabric-name ",
        ),
        (&["apm"], beside, " --migrate-on rxe2,rxe1,198.18.2.1 --fabric-name "),
        (&["apm", "--pull-cable"], beside, " --migrate-on rxe2,rxe1,198.18.2.1 --pull-cable "),
    ] {
        let text = said(arguments);
        assert!(text.starts_with(begin) && text.contains(flags), "{text}");
    }
    assert!(said(&["apm", "--pull-cable", "-c", "9"]).ends_with(" apm -c 9\n"));
    for wrong in [&["--lab", "--infiniband"][..], &["mc", "--pull-cable"]] {
        assert_eq!(folder.run(wrong).status.code(), Some(1), "{wrong:?}");
    }
}

#[test]
fn of_one_example_only_what_it_needs_is_built() {
    let folder = Folder::new("build");
    folder.script("target/release/soft-hca", "#!/bin/sh\nexit\n");
    folder.script("path/cargo", "#!/bin/sh\necho cargo \"$@\" >&2\n");
    let built = |arguments: &[&str]| {
        let text = String::from_utf8(folder.run(arguments).stderr).unwrap();
        let line =
            text.lines().find_map(|line| line.strip_prefix("cargo build --release --quiet "));
        line.unwrap_or_else(|| panic!("{text}")).to_string()
    };
    let beside = "-p harness -p soft-hca -p soft-hca-preload -p soft-hca-faulty";
    assert_eq!(built(&["--soft-hca", "mc", "-s"]), format!("-p mc {beside}"));
    assert_eq!(built(&["--soft-hca"]), "--workspace");
    assert_eq!(built(&["--soft-hca", "--problem", "1"]), "--workspace");
    assert_eq!(built(&["--list"]), "-p harness");
}

/// Other crates of the workspace are none, and nothing is built to find that out.
#[test]
fn what_is_no_example_is_refused() {
    let folder = Folder::new("no example");
    folder.script("path/cargo", "#!/bin/sh\necho cargo \"$@\" >&2\n");
    for name in ["nothing", "common", "harness", "ping-sr"] {
        fs::create_dir_all(folder.0.join(name)).unwrap();
        fs::write(folder.0.join(name).join("Cargo.toml"), "").unwrap();
        for place in [&["--soft-hca", name][..], &["--server-host", "alpha", name]] {
            let unknown = folder.run(place);
            let text = String::from_utf8(unknown.stderr).unwrap();
            assert_eq!(unknown.status.code(), Some(1), "{text}");
            assert_eq!(text, format!("demo: no example is called '{name}'; see ./demo --list\n"));
        }
    }
}

#[test]
fn a_problem_has_its_own_examples() {
    let folder = Folder::new("problem");
    folder.script("target/release/soft-hca", "#!/bin/sh\necho \"$@\"\n");
    let output = folder.run(&["--soft-hca", "--problem", "2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with(" --problem 2\n"), "{text}");
    for (arguments, why) in [
        (&["--problem", "4"][..], "no problem '4'"),
        (&["--problem"], "needs a value"),
        (&["--problem", "1", "mc"], "no 'mc' beside it"),
        (&["--problem=1", "--two-hosts"], "runs on one host"),
        (&["--problem=1", "--client-host", "x"], "runs on one host"),
        (&["--problem=1", "--record", "/x/run.shr"], "record one of them"),
        (&["--problem=1", "--pcap", "/x/run.pcapng"], "record one of them"),
    ] {
        let output = folder.run(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn two_hosts_are_two_network_namespaces() {
    let folder = Folder::new("two hosts");
    folder.script("path/unshare", "#!/bin/sh\necho not for you >&2\nexit 1\n");
    let refused = folder.run(&["--two-hosts", "mc"]);
    let text = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let what = "demo: two hosts need network namespaces and a veth pair between them: unshare ";
    assert!(text.contains(what) && text.ends_with("--net: not for you\n"), "{text}");
    folder.script("path/unshare", "#!/bin/sh\nshift $(($# - 4))\necho \"$@\"\n");
    let output = folder.run(&["--two-hosts", "mc", "-s"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("harness/two_hosts target/release mc -s\n"), "{text}");
}
