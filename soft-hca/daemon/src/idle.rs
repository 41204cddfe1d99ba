//! Whether all threads of programs wait, from `/proc`.
//!
//! A thread that was woken counts as one that runs before it does. So if each has slept at a first look, and has slept
//! on until a second one, there was a time in between at which all of them did: nothing goes on then but by a timer, or by
//! somebody from outside.

use std::fs::{self, File};
use std::io::Read;

/// The threads of some processes, as far as waiting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// One runs, or it cannot be seen what it does.
    Something,
    /// All sleep, one of them for a time that its program has chosen.
    Dozing,
    /// All sleep until something happens.
    Nothing,
}

/// A thread that sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sleeper {
    pid: u32,
    thread: u32,
    /// How often it has gone to sleep before.
    times: u64,
}

impl Doing {
    /// Looks at the threads of processes.
    pub(crate) fn of(pids: &[u32]) -> Self {
        let Some(sleepers) = sleepers(pids) else { return Self::Something };
        let dozes = sleepers.iter().any(|sleeper| sleeper.dozes());
        match self::sleepers(pids) {
            Some(still) if still != sleepers => Self::Something,
            None => Self::Something,
            Some(_) if dozes => Self::Dozing,
            Some(_) => Self::Nothing,
        }
    }
}

/// Bytes of a file that are looked at: all that is asked of any is before that.
const BYTES: usize = 4096;

/// The beginning of a file of a thread.
fn read(pid: u32, thread: u32, file: &str) -> Option<String> {
    let mut bytes = [0; BYTES];
    let mut file = File::open(format!("/proc/{pid}/task/{thread}/{file}")).ok()?;
    let length = file.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// The numbers of a process's threads; none of one that has ended.
fn threads(pid: u32) -> Vec<u32> {
    // The first one has the process's number.
    let first = read(pid, pid, "status");
    if first.is_some_and(|status| field(&status, "Threads:") == Some("1")) {
        return vec![pid];
    }
    let folder = fs::read_dir(format!("/proc/{pid}/task"));
    let names = folder.into_iter().flatten().flatten().map(|thread| thread.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// A field of a `status`. In a name no line ends.
fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim()))
}

/// All threads; none if one does not sleep.
fn sleepers(pids: &[u32]) -> Option<Vec<Sleeper>> {
    let mut all = Vec::new();
    for &pid in pids {
        let Some(first) = read(pid, pid, "status") else { continue };
        if field(&first, "Threads:") == Some("1") {
            all.extend(Sleeper::of(pid, pid, &first)?);
            continue;
        }
        for thread in threads(pid) {
            // One whose file is not there has ended.
            let Some(status) = read(pid, thread, "status") else { continue };
            all.extend(Sleeper::of(pid, thread, &status)?);
        }
    }
    Some(all)
}

/// A thread's state, and how often it has gone to sleep, from its `status`.
fn state_and_times(status: &str) -> Option<(char, u64)> {
    let times = field(status, "voluntary_ctxt_switches:")?.parse().ok()?;
    Some((field(status, "State:")?.chars().next()?, times))
}

impl Sleeper {
    /// A thread by its `status`, nobody if it has ended; none if it does not sleep.
    fn of(pid: u32, thread: u32, status: &str) -> Option<Option<Self>> {
        match state_and_times(status)? {
            ('S', times) => Some(Some(Self { pid, thread, times })),
            ('Z' | 'X', _) => Some(None),
            _ => None,
        }
    }

    /// Whether it sleeps for a time. Where that cannot be seen it does not.
    fn dozes(self) -> bool {
        let call = read(self.pid, self.thread, "syscall");
        call.as_deref().is_some_and(is_sleep)
    }
}

/// Whether a thread is in a system call that sleeps for a time, from its `syscall`.
fn is_sleep(call: &str) -> bool {
    let number = call.split(' ').next().and_then(|number| number.parse().ok());
    [libc::SYS_nanosleep, libc::SYS_clock_nanosleep].map(Some).contains(&number)
}

/// For how many nanoseconds the threads of processes have had a processor, where the system counts that.
pub(crate) fn processor_ns(pids: &[u32]) -> Option<u64> {
    let of = |thread: &str| thread.split(' ').next()?.parse::<u64>().ok();
    let threads = pids.iter().flat_map(|&pid| threads(pid).into_iter().map(move |t| (pid, t)));
    let all = threads.filter_map(|(pid, thread)| read(pid, thread, "schedstat"));
    let sum = all.filter_map(|thread| of(&thread)).sum();
    (sum > 0).then_some(sum)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{self, Child, Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// Longer than anything takes.
    const LIMIT: Duration = Duration::from_secs(60);

    fn comes_to(child: &Child, doing: Doing) -> bool {
        let end = Instant::now() + LIMIT;
        while Doing::of(&[child.id()]) != doing {
            if Instant::now() > end {
                return false;
            }
            thread::yield_now();
        }
        true
    }

    #[test]
    fn what_a_thread_does_is_in_its_files() {
        let status = "Name:\ta\\nState: R\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t7\n";
        assert_eq!(state_and_times(status), Some(('S', 7)));
        assert_eq!(state_and_times("State:\tS\n"), None);
        assert!(is_sleep(&format!("{} 0x0 0x0", libc::SYS_clock_nanosleep)));
        assert!(!is_sleep("running") && !is_sleep("-1 0x0 0x0") && !is_sleep(""));
    }

    #[test]
    fn programs_run_wait_and_sleep() {
        let own = process::id();
        assert_eq!(Doing::of(&[own]), Doing::Something);
        assert_eq!(Doing::of(&[]), Doing::Nothing);
        let mut cat = Command::new("cat");
        let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        assert!(comes_to(&cat, Doing::Nothing));
        assert_eq!(Doing::of(&[cat.id(), own]), Doing::Something);
        let (mut stdin, mut stdout) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        let before = sleepers(&[cat.id()]);
        stdin.write_all(b"a").unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        assert!(comes_to(&cat, Doing::Nothing));
        assert!(sleepers(&[cat.id()]) != before, "it was awake in between");
        drop(stdin);
        assert!(comes_to(&cat, Doing::Nothing), "it has ended");
        cat.wait().unwrap();
    }

    #[test]
    fn a_program_that_sleeps_for_a_time_is_known() {
        let mut sleep = Command::new("sleep").arg("1000").spawn().unwrap();
        let call = || read(sleep.id(), sleep.id(), "syscall");
        // Where the system does not tell, it seems to wait.
        let doing = if call().is_some() { Doing::Dozing } else { Doing::Nothing };
        assert!(comes_to(&sleep, doing), "{:?}", call());
        sleep.kill().unwrap();
        sleep.wait().unwrap();
    }

    #[test]
    fn time_on_a_processor_is_counted() {
        let own = [process::id()];
        let Some(before) = processor_ns(&own) else { return };
        let end = Instant::now() + LIMIT;
        while processor_ns(&own).is_some_and(|now| now < before + 1_000_000) {
            assert!(Instant::now() < end);
        }
    }
}
