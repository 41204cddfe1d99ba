//! Whether all threads of programs wait, from `/proc`.
//!
//! A thread that was woken counts as one that runs before it does. So if each has slept at a first look, and has slept
//! on until a second one, there was a time in between at which all of them did: nothing goes on then but by a timer, or by
//! somebody from outside.

use std::array;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;

use soft_hca_core::system;

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

/// A thread at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thread {
    pid: u32,
    thread: u32,
    /// How often it has gone to sleep before.
    times: u64,
}

/// Threads for which time passes: they run, or sleep for a time of their own. One in an uninterruptible sleep, such as for a
/// page that the system reads, runs, too, although it has no processor then: nothing else has to happen for it to go on.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    /// Those that were at the last look.
    threads: Vec<Thread>,
    /// For how long it has passed, in nanoseconds.
    passed_ns: u64,
    /// The time of the system's up to which that counts.
    until_ns: u64,
    /// The processes of those that run, each with the time that it had had a processor for when none had passed.
    computing: BTreeMap<u32, i64>,
    /// Whether a thread sleeps for a time.
    dozes: bool,
}

impl Busy {
    /// Those of some processes, for which no time has passed yet.
    pub(crate) fn of(pids: &[u32], now_ns: u64) -> Self {
        let mut busy = Self { until_ns: now_ns, ..Self::default() };
        busy.look(pids);
        busy
    }

    fn look(&mut self, pids: &[u32]) {
        let (mut running, passed_ns) = (BTreeSet::new(), self.passed_ns as i64);
        (self.threads, self.dozes) = (Vec::new(), false);
        for (pid, thread) in pids.iter().flat_map(|&pid| each(pid)) {
            let status = read(pid, thread, "status");
            let Some((state, times)) = status.as_deref().and_then(state_and_times) else {
                continue;
            };
            let it = Thread { pid, thread, times };
            let runs = matches!(state, 'R' | 'D');
            let does_doze = state == 'S' && it.dozes();
            if runs {
                running.insert(pid);
            }
            if runs || does_doze {
                self.threads.push(it);
            }
            self.dozes |= does_doze;
        }
        self.computing.retain(|pid, _| running.contains(pid));
        for pid in running {
            self.computing.entry(pid).or_insert_with(|| processor_ns(&[pid]) as i64 - passed_ns);
        }
    }

    /// Something has happened that they may look for: no time has passed since.
    pub(crate) fn begin_anew(&mut self, now_ns: u64) {
        self.until_ns = now_ns;
        for (pid, had_ns) in &mut self.computing {
            *had_ns = processor_ns(&[*pid]) as i64 - self.passed_ns as i64;
        }
    }

    /// Whether there were any, and each has gone to sleep since, or has ended.
    pub(crate) fn have_waited(&self) -> bool {
        let has_waited = |it: &Thread| {
            let status = read(it.pid, it.thread, "status");
            let now = status.as_deref().and_then(state_and_times);
            now.is_none_or(|(state, times)| times != it.times || matches!(state, 'Z' | 'X'))
        };
        !self.threads.is_empty() && self.threads.iter().all(has_waited)
    }

    /// How much time has passed since it was asked last: as long as the one of those that compute has had a processor that has had
    /// one for the shortest time. As much as the system's if one sleeps for a time, or none is known to compute.
    pub(crate) fn passes_ns(&mut self, pids: &[u32], now_ns: u64) -> u64 {
        let since = |(pid, had_ns): (&u32, &i64)| Some(system::processor_ns(*pid)? as i64 - had_ns);
        let computed = self.computing.iter().filter_map(since).min();
        let real_ns = now_ns.saturating_sub(self.until_ns);
        let passes_ns = match computed.filter(|_| !self.dozes) {
            Some(computed) => real_ns.min((computed - self.passed_ns as i64).max(0) as u64),
            None => real_ns,
        };
        self.passed_ns += passes_ns;
        self.until_ns = now_ns;
        self.look(pids);
        passes_ns
    }
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

/// The threads of a process, each with the number of that.
fn each(pid: u32) -> impl Iterator<Item = (u32, u32)> {
    threads(pid).into_iter().map(move |thread| (pid, thread))
}

/// A field of a `status`. In a name no line ends.
fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim()))
}

/// All threads; none if one does not sleep.
fn sleepers(pids: &[u32]) -> Option<Vec<Thread>> {
    let mut all = Vec::new();
    for &pid in pids {
        let Some(first) = read(pid, pid, "status") else { continue };
        if field(&first, "Threads:") == Some("1") {
            all.extend(Thread::asleep(pid, pid, &first)?);
            continue;
        }
        for thread in threads(pid) {
            // One whose file is not there has ended.
            let Some(status) = read(pid, thread, "status") else { continue };
            all.extend(Thread::asleep(pid, thread, &status)?);
        }
    }
    Some(all)
}

/// A thread's state, and how often it has gone to sleep, from its `status`.
fn state_and_times(status: &str) -> Option<(char, u64)> {
    let times = field(status, "voluntary_ctxt_switches:")?.parse().ok()?;
    Some((field(status, "State:")?.chars().next()?, times))
}

impl Thread {
    /// A thread that sleeps, by its `status`, nobody if it has ended; none if it does not sleep.
    fn asleep(pid: u32, thread: u32, status: &str) -> Option<Option<Self>> {
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

/// Whether a thread is in a system call that sleeps for a time, or waits for nothing but one, from its `syscall`.
fn is_sleep(call: &str) -> bool {
    let mut words = call.split(' ');
    let number = words.next().and_then(|number| number.parse().ok());
    let value = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let [_, second, third, fourth, fifth] =
        array::from_fn(|_| words.next().and_then(value).unwrap_or(0));
    match number {
        Some(libc::SYS_nanosleep | libc::SYS_clock_nanosleep) => true,
        Some(libc::SYS_poll) => second == 0 && third as i32 > 0,
        Some(libc::SYS_ppoll) => second == 0 && third != 0,
        Some(libc::SYS_select | libc::SYS_pselect6) => {
            [second, third, fourth] == [0; 3] && fifth != 0
        }
        _ => false,
    }
}

/// For how many nanoseconds the threads of processes have had a processor.
pub(crate) fn processor_ns(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|pid| system::processor_ns(*pid)).sum()
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::io::{self, Write};
    use std::process::{self, Child, Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// Longer than anything takes.
    const LIMIT: Duration = Duration::from_secs(60);

    /// A process that ends with its test.
    struct Brief(Child);

    impl Brief {
        fn kill(&mut self) {
            let _ = self.0.kill();
            self.0.wait().unwrap();
        }
    }

    impl Drop for Brief {
        fn drop(&mut self) {
            self.kill();
        }
    }

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
        let waits = [
            (libc::SYS_poll, "0x1 0x0 0x3e8 0x0 0x0 0x0", true),
            (libc::SYS_poll, "0x1 0x1 0x3e8 0x0 0x0 0x0", false),
            (libc::SYS_poll, "0x1 0x0 0xffffffff 0x0 0x0 0x0", false),
            (libc::SYS_ppoll, "0x0 0x0 0x7ffd0 0x0 0x0 0x0", true),
            (libc::SYS_ppoll, "0x0 0x0 0x0 0x0 0x0 0x0", false),
            (libc::SYS_pselect6, "0x0 0x0 0x0 0x0 0x7ffd0 0x0", true),
            (libc::SYS_select, "0x4 0x7ffd8 0x0 0x0 0x7ffd0 0x0", false),
            (libc::SYS_select, "0x0 0x0 0x0 0x0 0x0 0x0", false),
        ];
        for (number, arguments, expected) in waits {
            assert_eq!(is_sleep(&format!("{number} {arguments} 0x7ffd8 0x7f0")), expected);
        }
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
        let sleep = Brief(Command::new("sleep").arg("1000").spawn().unwrap());
        let pid = sleep.0.id();
        let call = || read(pid, pid, "syscall");
        // Where the system does not tell, it seems to wait.
        let doing = if call().is_some() { Doing::Dozing } else { Doing::Nothing };
        assert!(comes_to(&sleep.0, doing), "{:?}", call());
        let mut busy = Busy::of(&[pid], 5);
        assert_eq!(busy.passes_ns(&[pid], 12), 7);
        assert!(!busy.have_waited());
    }

    /// In `posix_spawn` the parent is so until the child has begun its program.
    #[test]
    fn no_time_passes_in_an_uninterruptible_sleep() {
        const SPAWN: &str = "import os, sys
opens = [(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)]
os.close(1)
os.posix_spawn('/bin/true', ['true'], {}, file_actions=opens)";
        let fifo = env::temp_dir().join(format!("soft-hca-idle-{}", process::id()));
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let mut python = Command::new("python3");
        let python = python.args(["-c", SPAWN]).arg(&fifo).stdout(Stdio::piped()).spawn();
        let passed = python.map(|python| {
            let mut python = Brief(python);
            let pid = python.0.id();
            io::read_to_string(python.0.stdout.take().unwrap()).unwrap();
            let state = || Some(state_and_times(&read(pid, pid, "status")?)?.0);
            let end = Instant::now() + LIMIT;
            while state() != Some('D') && Instant::now() < end {
                thread::yield_now();
            }
            let passed = (state(), Busy::of(&[pid], 0).passes_ns(&[pid], 1 << 60));
            // Then its child has a file, and both end.
            let _file = File::options().read(true).write(true).open(&fifo).unwrap();
            python.0.wait().unwrap();
            passed
        });
        fs::remove_file(&fifo).unwrap();
        match passed {
            Ok(passed) => assert_eq!(passed, (Some('D'), 0)),
            Err(error) => needs::missing(format!("python3: {error}")),
        }
    }

    #[test]
    fn time_passes_for_threads_until_they_have_waited() {
        const LATER_NS: u64 = 1 << 60;
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(comes_to(&cat, Doing::Nothing));
        let mut nobody = Busy::of(&[cat.id()], 5);
        assert!(nobody.threads.is_empty() && !nobody.have_waited());
        assert_eq!(nobody.passes_ns(&[cat.id()], 12), 7);
        drop(cat.stdin.take());
        cat.wait().unwrap();
        let spin = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut spin = Brief(spin);
        assert!(comes_to(&spin.0, Doing::Something));
        let pids = [spin.0.id()];
        let mut busy = Busy::of(&pids, 0);
        assert!(!busy.have_waited());
        let (mut passed, end) = (0, Instant::now() + LIMIT);
        while passed < 1_000_000 {
            passed += busy.passes_ns(&pids, LATER_NS);
            busy.until_ns = 0;
            assert!(Instant::now() < end);
        }
        assert!(system::processor_ns(pids[0]).unwrap() >= passed);
        let had = system::processor_ns(pids[0]).unwrap();
        while system::processor_ns(pids[0]).unwrap() < had + 5_000_000 {
            assert!(Instant::now() < end);
        }
        let before = system::processor_ns(pids[0]).unwrap();
        busy.begin_anew(0);
        let passed = busy.passes_ns(&pids, LATER_NS);
        assert!(passed <= system::processor_ns(pids[0]).unwrap() - before);
        spin.kill();
        assert!(busy.have_waited());
        busy.begin_anew(2);
        assert_eq!(busy.passes_ns(&pids, 9), 7, "it has ended");
    }

    #[test]
    fn time_on_a_processor_is_counted() {
        let own = [process::id()];
        let (before, end) = (processor_ns(&own), Instant::now() + LIMIT);
        while processor_ns(&own) < before + 1_000_000 {
            assert!(Instant::now() < end);
        }
        assert_eq!(processor_ns(&[u32::MAX]), 0);
    }
}
