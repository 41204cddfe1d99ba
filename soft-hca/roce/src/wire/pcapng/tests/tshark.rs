//! Wireshark's program, which reads recordings.

use std::path::PathBuf;
use std::process::Command;

/// A file that is removed with it.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // It may not have been written.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Whether Wireshark's program is installed. If not, the test is skipped.
pub(crate) fn has_tshark() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|dir| dir.join("tshark").is_file());
    if !is_there {
        needs::missing("tshark is not installed (package tshark)");
    }
    is_there
}

/// Protocols that Wireshark guesses to be in payloads, which are bytes of any kind here.
const GUESSED: [&str; 9] = [
    "smc",
    "smb_direct",
    "rpcordma",
    "nvme-rdma",
    "lnet",
    "iser",
    "infiniband.eoib",
    "infiniband_sdp",
    "fcoib",
];

/// The fields of each packet of a recording, as Wireshark reads them.
pub(crate) fn tshark(name: &str, recording: &[u8], fields: &[&str]) -> Vec<Vec<String>> {
    let file = std::env::temp_dir().join(format!("soft-hca-{}-{name}", std::process::id()));
    let file = Temporary(file);
    std::fs::write(&file.0, recording).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-T", "fields", "-E", "separator=|"]);
    tshark.args(["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]);
    tshark.arg("-r").arg(&file.0);
    GUESSED.iter().for_each(|protocol| _ = tshark.args(["--disable-protocol", protocol]));
    fields.iter().for_each(|field| _ = tshark.args(["-e", field]));
    let output = tshark.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| line.split('|').map(String::from).collect()).collect()
}
