//! `./demo` on two hosts over ssh: this one, and a few namespaces with an sshd of their own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::scripts::Folder;

/// In a namespace of its own, which is the near host; makes the far one, and then runs lines with
/// `demo` for both.
const HOSTS: &str = r#"
set -euo pipefail
folder=$PWD
# The far host has its own /tmp with all that its sshd needs, root's home too, and its own processes,
# which end with the first of them.
mkdir -p far/root/.ssh
chmod 700 far/root far/root/.ssh
ssh-keygen -q -t ed25519 -N '' -f key
cp key.pub far/root/.ssh/authorized_keys
echo 'root:x:0:0:root:/tmp/root:/bin/sh' >far/passwd
dropbearkey -t ed25519 -f far/key >/dev/null 2>&1
coproc far {
    exec unshare --net --mount --pid --fork --kill-child --mount-proc sh -e -c '
        mount --bind "$1/far/passwd" /etc/passwd
        mount --bind "$1/far" /tmp
        echo ready
        read -r _
        exec dropbear -F -E -s -r /tmp/key -P "" -p 2222
    ' sh "$folder" 2>far.log
}
# unshare ignores SIGTERM while it waits for its child.
trap 'kill -KILL "$far_PID" 2>/dev/null' EXIT
read -r _ <&"${far[0]}"
for host in $$ $far_PID; do
    nsenter "--net=/proc/$host/ns/net" ip link set lo up
done
ip link add name link0 type veth peer name link0 netns "$far_PID"
ip address add 192.0.2.1/24 dev link0
nsenter "--net=/proc/$far_PID/ns/net" ip address add 192.0.2.2/24 dev link0
ip link set link0 up
nsenter "--net=/proc/$far_PID/ns/net" ip link set link0 up
echo >&"${far[1]}"
until (exec 3<>/dev/tcp/192.0.2.2/2222) 2>/dev/null; do
    kill -0 "$far_PID" || { cat far.log && exit 1; }
    sleep 0.05
done
ssh="ssh -F none -p 2222 -i $folder/key -o UserKnownHostsFile=$folder/known -o StrictHostKeyChecking=no"
export TMPDIR=$folder/tmp
demo() { "$folder/demo" --soft-hca --ssh "$ssh" "$@"; }
compare() { "$folder/compare" --soft-hca --ssh "$ssh" "$@"; }
# Folders and programs of either host.
left() {
    find "$TMPDIR" far -mindepth 1 -maxdepth 1 -name '*.*'
    ls -l /proc/[0-9]*/exe 2>/dev/null | grep -F " $TMPDIR/" || true
    nsenter "--pid=/proc/$far_PID/ns/pid_for_children" "--mount=/proc/$(pgrep -P "$far_PID")/ns/mnt" \
        sh -c 'ls -l /proc/[0-9]*/exe 2>/dev/null || true' | { grep -F ' /tmp/' || true; }
}
LINES
found=$(left)
test -z "$found" || { echo "left behind: $found"; exit 1; }
"#;

impl Folder {
    /// `demo` and what it calls, with stand-ins for what builds and installs.
    fn with_hosts(name: &str) -> Self {
        let name = format!("harness-ssh-{name}-{}", std::process::id());
        let folder = Self::with_demo(&name, &["harness/install", "path/cargo"]);
        fs::create_dir_all(folder.0.join("tmp")).unwrap();
        fs::create_dir_all(folder.0.join("target")).unwrap();
        let own = std::env::current_exe().unwrap();
        let bin_dir = own.parent().and_then(Path::parent).unwrap();
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for file in ["compare", "harness/two_machines.sh"] {
            folder.script(file, &fs::read_to_string(top.join(file)).unwrap());
        }
        for file in ["soft-hca", "libsoft_hca_preload.so", "srq"] {
            let path = bin_dir.join(file);
            assert!(path.exists(), "build the workspace first: {} is missing", path.display());
        }
        symlink(bin_dir, folder.0.join("target/release")).unwrap();
        folder
    }

    /// Runs lines of a shell between the two hosts.
    fn on_hosts(&self, lines: &str) -> Output {
        let path = std::env::var("PATH").unwrap();
        self.script("hosts", &HOSTS.replace("LINES", &format!("{{\n{lines}\n}} 2>&1")));
        Command::new("unshare")
            .args(["--net", "bash", "hosts"])
            .current_dir(&self.0)
            .env("PATH", format!("{}:{path}:/usr/sbin", self.0.join("path").display()))
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .unwrap()
    }
}

/// Output of the lines; nothing where there cannot be two such hosts.
fn between_hosts(name: &str, lines: &str) -> Option<String> {
    let made = Command::new("unshare").args(["--net", "--mount", "true"]).output().unwrap();
    // In a user namespace sshd cannot become another user.
    if !made.status.success() || !Path::new("/usr/sbin/dropbear").exists() {
        needs::skipped("it needs root, and dropbear as sshd");
        return None;
    }
    let output = Folder::with_hosts(name).on_hosts(lines);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    Some(text)
}

#[test]
fn pairs_run_both_ways() {
    let lines = "demo --server-host 192.0.2.2 ping-sr-2e -c 3
        demo --client-host=192.0.2.2 rc-example
        demo --server-host 192.0.2.2 --client-host localhost read-write";
    let Some(text) = between_hosts("both-ways", lines) else { return };
    for line in [
        "fabric: soft-hca on two hosts, 192.0.2.2 (192.0.2.2) and localhost (192.0.2.1)",
        "client$ ping-sr-2e-client -a 192.0.2.2 -c 3",
        "client| client: 3 recv completions, 3 send completions",
        "fabric: soft-hca on two hosts, localhost (192.0.2.1) and 192.0.2.2 (192.0.2.2)",
        "client| test result is 0",
        "server| peer disconnected.",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
    for example in ["ping-sr-2e", "rc-example", "read-write"] {
        assert!(text.contains(&format!("\n{example}: ok (")), "{example}");
    }
}

/// With our own programs in the place of the C's.
#[test]
fn pairs_are_compared_both_ways() {
    let lines = "mkdir -p C/ping-sr-2
        for side in server client; do cp target/release/ping-sr-2-$side C/ping-sr-2/$side; done
        cp target/release/rc-example C
        compare --c C --server-host 192.0.2.2 --only interop rc-example
        case=ping-sr-2/run-count-100
        compare --client-host=192.0.2.2 --c C --only diff,interop --case $case ping-sr-2 --json found.json
        grep -q run-count-100 found.json";
    let Some(text) = between_hosts("compared", lines) else { return };
    for line in [
        "fabric: soft-hca on two hosts, 192.0.2.2 (192.0.2.2) and localhost (192.0.2.1)",
        "     C server, Rust client: works",
        "fabric: soft-hca on two hosts, localhost (192.0.2.1) and 192.0.2.2 (192.0.2.2)",
        "  run-count-100                    same",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
    assert_eq!(text.matches("4 of 4 pairings work").count(), 2);
}

#[test]
fn what_is_missing_is_said() {
    let lines = "says() { local said; said=$(demo \"${@:2}\" srq 2>&1) && exit 1; echo \"$1: ${said##*demo: }\"; }
        says here --server-host localhost
        says refused --ssh \"${ssh/2222/2223}\" --server-host 192.0.2.2
        says key --ssh \"${ssh/=no/=yes} -o UserKnownHostsFile=/dev/null\" --server-host 192.0.2.2
        says foreign --server-host 192.0.2.2 --address 192.0.2.77
        # Not even the table of own addresses comes before this rule.
        ip rule add pref 100 lookup local
        ip rule del pref 0
        ip rule add pref 50 iif link0 ipproto udp dport 4791 blackhole
        says blocked --client-host 192.0.2.2
        says back --server-host 192.0.2.2";
    let Some(text) = between_hosts("missing", lines) else { return };
    for said in [
        "here: both hosts are this one; ",
        "refused: cannot use the host 192.0.2.2: ssh: connect to host 192.0.2.2 port 2223: ",
        "key: cannot use the host 192.0.2.2: No ED25519 host key is known ",
        "foreign: 192.0.2.77 is no address of 192.0.2.2: ",
        "blocked: UDP port 4791 is blocked: what 192.0.2.2 on 192.0.2.2 sends does not reach ",
        "back: UDP port 4791 is blocked on the way back: what 192.0.2.2 on 192.0.2.2 sends ",
    ] {
        assert!(text.lines().any(|line| line.starts_with(said)), "{said}");
    }
}

/// A second signal comes while the script cleans up after the first.
#[test]
fn nothing_is_left_after_signals() {
    let lines = "coproc pair { exec \"$folder/demo\" --soft-hca --ssh \"$ssh\" --server-host 192.0.2.2 ping-sr-1 -c 50000000; }
        pid=$pair_PID
        while read -r line && [[ $line != *'connected cm_id'* ]]; do echo \"$line\"; done <&\"${pair[0]}\"
        kill -TERM $pid
        SECOND
        status=0
        wait $pid || status=$?
        echo \"status $status\"";
    let second =
        "for ((times = 0; times < 20; times++)); do sleep 0.02; kill -TERM $pid || true; done";
    for (name, second) in [("signal", ""), ("signals", second)] {
        let Some(text) = between_hosts(name, &lines.replace("SECOND", second)) else { return };
        assert!(text.ends_with("status 143\n"));
    }
}
