//! Memory that this process shares with peers beside the fabric: by it they may tell each other anything, unseen.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::process;

/// A peer, as far as it was looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    operations: u64,
    shares: bool,
}

/// Peers by their process ids.
#[derive(Debug, Default)]
pub(super) struct Shared(HashMap<u32, Peer>);

impl Shared {
    /// Whether a peer, which has done another operation, shares memory with this process. It is looked at again and again,
    /// ever less often.
    pub(super) fn is_with(&mut self, pid: u32) -> bool {
        let peer = self.0.entry(pid).or_default();
        peer.operations += 1;
        if !peer.shares && peer.operations.is_power_of_two() {
            peer.shares = pid != process::id() && share(pid);
        }
        peer.shares
    }
}

fn share(pid: u32) -> bool {
    let maps = |of: &str| fs::read_to_string(format!("/proc/{of}/maps")).unwrap_or_default();
    let own = maps("self");
    let own = writable(&own);
    !own.is_empty() && !own.is_disjoint(&writable(&maps(&pid.to_string())))
}

/// Files of which a process has a writable mapping that is shared, the fabric's own apart: device and inode.
fn writable(maps: &str) -> HashSet<(&str, &str)> {
    let files = maps.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let [_, rights, _, device, inode] = [(); 5].map(|()| words.next().unwrap_or_default());
        let is_fabric = words.next().is_some_and(|path| path.starts_with("/memfd:soft-hca"));
        let is_shared = rights.starts_with("rw") && rights.ends_with('s');
        (is_shared && !is_fabric).then_some((device, inode))
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
5500-5600 r--s 00000000 00:1f 7                      /dev/shm/read
5600-5700 rw-s 00000000 00:01 1032                   /memfd:soft-hca (deleted)
5700-5800 rw-s 00000000 00:01 2055                   /dev/zero (deleted)
5800-5900 rw-p 00000000 00:1f 9                      /usr/lib/private.so
5900-5a00 rw-s 00000000 00:1f 8                      /dev/shm/written by all
";

    #[test]
    fn what_both_write_to_is_shared() {
        assert_eq!(writable(MAPS), HashSet::from([("00:01", "2055"), ("00:1f", "8")]));
        assert!(writable("").is_empty());
    }

    #[test]
    fn a_peer_that_is_gone_shares_nothing() {
        let mut shared = Shared::default();
        // No process has this id.
        assert!(!shared.is_with(u32::MAX));
        assert!(!shared.is_with(process::id()));
    }
}
