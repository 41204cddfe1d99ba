//! The demo on two hosts: examples between two network namespaces of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo has put the programs: this test is in `deps` below it.
fn bin_dir() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().to_owned()
}

/// In a user namespace, as an ordinary user would have it.
fn unshare(command: &[&str]) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--map-root-user", "--net"]).args(command);
    unshare
}

#[test]
fn examples_run() {
    let link = ["ip", "link", "add", "name", "link0", "type", "veth", "peer", "name", "link1"];
    let tried = unshare(&link).output().unwrap();
    if !tried.status.success() {
        println!("left out here: {}", String::from_utf8_lossy(&tried.stderr));
        return;
    }
    let bin_dir = bin_dir();
    for file in ["soft-hca", "libsoft_hca_preload.so", "srq"] {
        let path = bin_dir.join(file);
        assert!(path.exists(), "build the workspace first: {} is missing", path.display());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("two_hosts");
    for example in
        ["ping-sr-2e", "ping-rdma-3", "atomic", "many-clients", "write-imm", "rc-example", "srq"]
    {
        let words = [script.to_str().unwrap(), bin_dir.to_str().unwrap(), example];
        let output = unshare(&words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success());
        let first = "fabric: soft-hca on two hosts, network namespaces of this machine: 192.0.2.1";
        assert!(text.starts_with(first) && text.contains(&format!("\n{example}: ok (")));
    }
}
