//! When does a server listen? Told by a condition that is looked at again and
//! again, never by the clock alone.
//!
//! A fabric of another kind than the kernel's adds its way by implementing
//! [`Readiness`].

use std::collections::HashSet;
use std::fs;

use regex::Regex;

use crate::error::Error;
use crate::rdma_netlink;
use crate::soft_hca;
use crate::transcript::{Side, Transcript};

/// A way to tell that a server is ready for its client.
pub trait Readiness {
    /// Is it? `group` is the process group of the server. Asked many times a
    /// second until it says true or the server has ended.
    fn is_ready(&mut self, group: u32, transcript: &Transcript) -> Result<bool, Error>;

    /// Description of what is awaited, for the message when it never comes.
    fn awaited(&self) -> String;
}

/// The ways known here.
#[derive(Clone, Debug)]
pub enum Ready {
    /// A listening identifier of the RDMA connection manager.
    RdmaCm,
    /// A listening TCP socket.
    Tcp,
    /// A line of the server's output that matches. The text that its first group catches, if it has one,
    /// is the port that the client is told.
    Line(Regex),
}

impl Ready {
    /// The condition itself.
    pub fn condition(&self) -> Box<dyn Readiness> {
        match self {
            Ready::RdmaCm if soft_hca::is_inside() => Box::new(SoftHcaListener),
            Ready::RdmaCm => Box::new(RdmaCmListener),
            Ready::Tcp => Box::new(TcpListener),
            Ready::Line(pattern) => Box::new(OutputLine { pattern: pattern.clone() }),
        }
    }

    /// The port that the server has said.
    pub fn port(&self, transcript: &Transcript) -> Option<String> {
        let Ready::Line(pattern) = self else { return None };
        transcript
            .lines()
            .iter()
            .filter(|line| line.side == Side::Server)
            .find_map(|line| Some(pattern.captures(&line.text)?.get(1)?.as_str().to_owned()))
    }
}

impl std::str::FromStr for Ready {
    type Err = String;

    fn from_str(text: &str) -> Result<Ready, String> {
        match text.split_once(':') {
            None if text == "rdma" => Ok(Ready::RdmaCm),
            None if text == "tcp" => Ok(Ready::Tcp),
            Some(("line", pattern)) => {
                Regex::new(pattern).map(Ready::Line).map_err(|error| error.to_string())
            }
            _ => Err("expected rdma, tcp or line:REGEX".to_owned()),
        }
    }
}

struct RdmaCmListener;

impl Readiness for RdmaCmListener {
    fn is_ready(&mut self, group: u32, _: &Transcript) -> Result<bool, Error> {
        let pids = rdma_netlink::listeners()
            .map_err(|error| Error::Listen(format!("netlink RDMA: {error}")))?;
        Ok(pids.into_iter().any(|pid| in_group(pid, group)))
    }

    fn awaited(&self) -> String {
        "a listener of the RDMA connection manager (see rdma resource show cm_id)".to_owned()
    }
}

/// The same where soft-hca stands in for the kernel.
struct SoftHcaListener;

impl Readiness for SoftHcaListener {
    fn is_ready(&mut self, group: u32, _: &Transcript) -> Result<bool, Error> {
        let pids = soft_hca::listeners().map_err(|error| Error::Listen(error.to_string()))?;
        Ok(pids.into_iter().any(|pid| in_group(pid, group)))
    }

    fn awaited(&self) -> String {
        "a listener of the connection manager (see soft-hca ls)".to_owned()
    }
}

struct TcpListener;

impl Readiness for TcpListener {
    fn is_ready(&mut self, group: u32, _: &Transcript) -> Result<bool, Error> {
        let mut listening = HashSet::new();
        // The server's network need not be ours.
        let networks = ["/proc/net".to_owned(), format!("/proc/{group}/net")];
        for table in
            networks.iter().flat_map(|net| ["tcp", "tcp6"].map(|end| format!("{net}/{end}")))
        {
            // A kernel without IPv6 has no second table.
            if let Ok(text) = fs::read_to_string(table) {
                listening.extend(listening_inodes(&text));
            }
        }
        Ok(!listening.is_empty() && group_holds_socket(group, &listening))
    }

    fn awaited(&self) -> String {
        "a listening TCP socket (/proc/net/tcp)".to_owned()
    }
}

/// The inodes of the listening sockets in the text of /proc/net/tcp: the fourth
/// column is the state, 0A means LISTEN, the tenth the inode.
fn listening_inodes(table: &str) -> impl Iterator<Item = u64> + '_ {
    table.lines().skip(1).filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        (columns.nth(3)? == "0A").then_some(())?;
        columns.nth(5)?.parse().ok()
    })
}

/// Does any process of the group have one of these sockets open?
fn group_holds_socket(group: u32, sockets: &HashSet<u64>) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    processes
        .flatten()
        .filter(|entry| {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            pid.is_some_and(|pid| in_group(pid, group))
        })
        .filter_map(|entry| fs::read_dir(entry.path().join("fd")).ok())
        .flat_map(|files| files.flatten())
        .filter_map(|file| fs::read_link(file.path()).ok())
        .any(|target| {
            let inode = target.to_str().and_then(|text| {
                text.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok()
            });
            inode.is_some_and(|inode| sockets.contains(&inode))
        })
}

/// Is the process the group's leader or a descendant that stayed in the group?
fn in_group(pid: u32, group: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: getpgid(2) takes a number and touches no memory.
    let found = unsafe { libc::getpgid(pid) };
    u32::try_from(found).is_ok_and(|found| found == group)
}

struct OutputLine {
    pattern: Regex,
}

impl Readiness for OutputLine {
    fn is_ready(&mut self, _: u32, transcript: &Transcript) -> Result<bool, Error> {
        Ok(transcript
            .lines()
            .iter()
            .any(|line| line.side == Side::Server && self.pattern.is_match(&line.text)))
    }

    fn awaited(&self) -> String {
        format!("a line of output that matches {:?}", self.pattern.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net;

    /// Our own process group: the tests run inside it.
    fn own_group() -> u32 {
        // SAFETY: getpgrp(2) has no arguments and cannot fail.
        u32::try_from(unsafe { libc::getpgrp() }).unwrap()
    }

    #[test]
    fn a_process_belongs_to_its_own_group_only() {
        assert!(in_group(std::process::id(), own_group()));
        assert!(!in_group(std::process::id(), own_group() + 1));
        assert!(!in_group(u32::MAX, own_group()));
    }

    #[test]
    fn a_tcp_listener_is_seen_from_when_it_listens() {
        let none = Transcript::default();
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(TcpListener.is_ready(own_group(), &none).unwrap());
        drop(listener);
    }

    #[test]
    fn only_listening_rows_of_the_table_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1 0 100 0 0 10 0\n\
             1: 0100007F:1F91 0100007F:1F92 01 00000000:00000000 00:00000000 00000000 0 0 4712 1 0 100 0 0 10 0\n\
             broken\n";
        assert_eq!(listening_inodes(table).collect::<Vec<_>>(), [4711]);
    }

    #[test]
    fn the_ways_can_be_named_on_a_command_line() {
        assert!(matches!("rdma".parse(), Ok(Ready::RdmaCm)));
        assert!(matches!("tcp".parse(), Ok(Ready::Tcp)));
        assert!(matches!("line:^joined".parse(), Ok(Ready::Line(_))));
        assert!("line:(".parse::<Ready>().is_err());
        assert!("later".parse::<Ready>().is_err());
    }
}
