//! `./demo EXAMPLE --pcap FILE`: a run's packets, as Wireshark reads them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::own_network;
use crate::scripts::Folder;
use harness::private::{self, Network};

/// Whether Wireshark's program is installed. If not, the test is skipped.
fn has_tshark() -> bool {
    let has_tshark = Command::new("tshark").arg("-v").stdout(Stdio::null()).status().is_ok();
    if !has_tshark {
        needs::missing("tshark is not installed (package tshark)");
    }
    has_tshark
}

/// The fields of each packet.
fn dissected<const N: usize>(file: &Path, fields: [&str; N]) -> Vec<[String; N]> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "--disable-protocol", "rpcordma", "-T", "fields"]);
    let output =
        tshark.args(fields.map(|field| ["-e", field]).concat()).arg("-r").arg(file).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let words = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
    lines.lines().map(|line| words(line).try_into().unwrap()).collect()
}

/// A folder with `demo`, which finds the programs that are built.
fn folder(name: &str) -> Folder {
    let own = std::env::current_exe().unwrap();
    let bin_dir = own.parent().and_then(Path::parent).unwrap();
    for file in ["soft-hca", "libsoft_hca_preload.so", "ping-sr-1-client"] {
        let path = bin_dir.join(file);
        assert!(path.exists(), "build the workspace first: {} is missing", path.display());
    }
    let name = format!("harness {name} {}", std::process::id());
    let folder = Folder::with_demo(&name, &["harness/install", "path/cargo"]);
    fs::create_dir(folder.0.join("target")).unwrap();
    symlink(bin_dir, folder.0.join("target/release")).unwrap();
    folder
}

/// Runs a command line in this folder, in a network of its own.
fn demo(folder: &Folder, names: &Path, words: impl IntoIterator<Item = OsString>) -> Output {
    let path = format!("{}:{}", folder.0.join("path").display(), std::env::var("PATH").unwrap());
    private::command(Network::WithInterface, names, words)
        .env("PATH", path)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("SOFT_HCA_LOG")
        .current_dir(&folder.0)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn wireshark_sees_a_connection_and_its_messages() {
    if !has_tshark() || !own_network::is_possible() {
        return;
    }
    let names = own_network::names_file();
    let folder = folder("packets");
    let demo_of: [OsString; 6] =
        ["./demo", "ping-sr-1", "--pcap", "run.pcapng", "-c", "3"].map(Into::into);
    let output = demo(&folder, &names, demo_of);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let file = folder.0.join("run.pcapng");
    assert!(said.ends_with(&format!("\nthe packets are in {}\n", file.display())), "{said}");

    let fields = [
        "_ws.malformed",
        "ip.src",
        "ip.dst",
        "infiniband.bth.opcode",
        "infiniband.mad.attributeid",
        "infiniband.bth.psn",
    ];
    let packets = dissected(&file, fields);
    for [malformed, from, to, ..] in &packets {
        assert_eq!((&malformed[..], &from[..], &to[..]), ("", private::ADDRESS, private::ADDRESS));
    }
    // Sends have numbers, and one of them may have been sent again.
    let [send, acknowledge, datagram] = ["4", "17", "100"];
    let has =
        |opcode: &str| packets.iter().filter(|packet| packet[3] == opcode).collect::<Vec<_>>();
    let mut messages = has(datagram).iter().map(|packet| &packet[4][..]).collect::<Vec<_>>();
    messages.dedup();
    // REQ, REP, RTU; DREQ, DREP.
    assert_eq!(messages, ["0x0010", "0x0013", "0x0014", "0x0015", "0x0016"]);
    let mut numbers = has(send).iter().map(|packet| &packet[5][..]).collect::<Vec<_>>();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 6, "{packets:?}");
    assert!(!has(acknowledge).is_empty());
    assert_eq!(has(send).len() + has(acknowledge).len() + has(datagram).len(), packets.len());
}

/// A disk on which there is no room for all packets.
#[test]
fn a_full_disk_is_an_error() {
    if !own_network::is_possible() {
        return;
    }
    let names = own_network::names_file();
    let folder = folder("full disk");
    let script = "mkdir disk && mount -t tmpfs -o size=8k tmpfs disk && exec ./demo ping-sr-1 --pcap disk/all -c 100";
    let output = demo(&folder, &names, ["sh".into(), "-c".into(), script.into()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains("/disk/all are not all: No space left on device"), "{said}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("the packets are in"));
}
