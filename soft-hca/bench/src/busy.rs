//! How long the threads of links have had a processor.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::pair::{Place, Stack};

/// Nanoseconds of threads, by their numbers.
#[derive(Debug, Default)]
pub struct Busy(HashMap<u64, u64>);

impl Busy {
    /// Of the link's thread of a place's fabric, which ends with its last program. Empty where there is
    /// none, or where the kernel does not keep such times.
    pub fn of_link(place: &Place) -> Self {
        let Stack::SoftHca(_, fabric) = &place.stack else { return Self::default() };
        let processes = numbers(Path::new("/proc")).filter(|pid| is_daemon(*pid, fabric));
        let threads = processes.flat_map(|pid| {
            let tasks = format!("/proc/{pid}/task");
            numbers(Path::new(&tasks)).map(move |thread| (thread, format!("{tasks}/{thread}")))
        });
        Self(threads.filter_map(|(thread, at)| Some((thread, time_of_link(&at)?))).collect())
    }

    /// Microseconds since `before`; `None` if nothing is known.
    pub fn since(&self, before: &Self) -> Option<f64> {
        let spent = |(thread, now): (&u64, &u64)| {
            now.saturating_sub(before.0.get(thread).copied().unwrap_or_default())
        };
        let total: u64 = self.0.iter().map(spent).sum();
        (total > 0).then_some(total as f64 / 1e3)
    }
}

fn numbers(folder: &Path) -> impl Iterator<Item = u64> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether a process is the daemon of a fabric: `soft-hca fabric FOLDER`.
fn is_daemon(pid: u64, fabric: &str) -> bool {
    let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = words.split('\0').skip(1);
    words.next() == Some("fabric")
        && words.next().is_some_and(|folder| Path::new(folder).ends_with(fabric))
}

/// The time of a thread that is a link's: the first number of `schedstat`
/// (`Documentation/scheduler/sched-stats.rst`).
fn time_of_link(at: &str) -> Option<u64> {
    let name = fs::read_to_string(format!("{at}/comm")).ok()?;
    let times = fs::read_to_string(format!("{at}/schedstat")).ok().filter(|_| name == "link\n")?;
    times.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_since_before() {
        let busy = |times: &[(u64, u64)]| Busy(times.iter().copied().collect());
        let before = busy(&[(1, 4_000), (2, 9_000)]);
        assert_eq!(busy(&[(1, 7_000)]).since(&before), Some(3.0));
        // One that has begun meanwhile.
        assert_eq!(busy(&[(1, 4_000), (3, 500)]).since(&before), Some(0.5));
        assert_eq!(busy(&[]).since(&before), None);
    }

    #[test]
    fn a_place_without_a_fabric_has_none() {
        let stack = Stack::SoftHca("soft-hca".into(), "no fabric has this name".into());
        let place = Place { stack, device: "rxe0", cores: [None; 2], host: None };
        assert!(Busy::of_link(&place).0.is_empty());
    }
}
