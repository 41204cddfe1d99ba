//! Programs that have nothing to do with others in their fabric, and must not notice what becomes
//! of those: checked traffic, connections that come and go, queue pairs that are created and
//! destroyed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;
use std::time::{Duration, Instant};

use crate::arena::Arena;
use crate::place::Place;
use crate::program::Program;
use crate::traffic::{ENDLESS, Traffic};
use crate::{LOCALHOST, comes_about, installed, tcp};

/// The programs of rdma-core that play a part.
const NEEDED: [&str; 2] = ["ucmatose", "ibv_rc_pingpong"];

/// How often one looks whether traffic has moved on.
const LOOK: Duration = Duration::from_millis(5);

/// How long they may take for [`ENOUGH`]: much longer than they need.
const PATIENCE: Duration = Duration::from_secs(60);

/// Enough to show that they go on: looks at which there were new completions, connections,
/// ping-pongs.
const ENOUGH: [u32; 3] = [30, 3, 3];

/// Their work so far.
#[derive(Debug, Default)]
pub struct Bystanders {
    /// See [`ENOUGH`].
    steps: [AtomicU32; 3],
    is_over: AtomicBool,
}

/// Whether all that takes part is installed; if not, the test is skipped.
pub fn can_stand_by() -> bool {
    installed(&NEEDED)
}

/// Does something while others do their work in the same fabric. They end well, and leave nothing.
pub fn among_bystanders(place: &Place, act: impl FnOnce(&Bystanders)) {
    let all = Bystanders::default();
    thread::scope(|scope| {
        scope.spawn(|| all.traffic(place));
        scope.spawn(|| all.connections(place));
        scope.spawn(|| all.ping_pongs(place));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            all.go_on("in the beginning");
            act(&all);
        }));
        all.is_over.store(true, Relaxed);
        // The first failure has the reason.
        if let Err(reason) = outcome {
            resume_unwind(reason);
        }
    });
    place.assert_no_objects();
}

impl Bystanders {
    /// Waits until each of them has gone on.
    pub fn go_on(&self, circumstances: &str) {
        let before = self.steps();
        let begin = Instant::now();
        let has_enough = || {
            let now = self.steps();
            (0..3).all(|i| now[i] - before[i] >= ENOUGH[i])
        };
        let go_on = comes_about(PATIENCE, || has_enough() || self.is_over.load(Relaxed));
        let steps: [u32; 3] = std::array::from_fn(|i| self.steps()[i] - before[i]);
        let time = begin.elapsed();
        assert!(
            go_on && has_enough(),
            "{circumstances}: of {ENOUGH:?} looks at traffic that moves, connections and ping-pongs \
             there were {steps:?} in {time:?}"
        );
        println!("{circumstances}: {steps:?} in {time:.1?}");
    }

    fn steps(&self) -> [u32; 3] {
        self.steps.each_ref().map(|steps| steps.load(Relaxed))
    }

    /// Waits for a program's good end; tells whether it was still wanted then.
    fn ends_well(&self, program: &mut Program) -> bool {
        loop {
            if program.ends_within(Duration::from_millis(100)).is_some() {
                program.succeed();
                return true;
            }
            if self.is_over.load(Relaxed) {
                return false;
            }
        }
    }

    fn traffic(&self, place: &Place) {
        let _end = EndOfAll(self);
        let options = "--events --threads 1 --queue-pairs 4 --max-message 64KiB";
        let mut pair = Traffic::start(place, &format!("{ENDLESS} {options}"));
        pair.wait_until_connected();
        let arena = Arena::of(place);
        let process = arena.process(pair.client.pid());
        let mut last = arena.filled_to(process);
        while !self.is_over.load(Relaxed) {
            thread::sleep(LOOK);
            let now = arena.filled_to(process);
            self.steps[0].fetch_add(u32::from(now != last), Relaxed);
            last = now;
            let ended = pair.client.has_ended() || pair.server.has_ended();
            assert!(!ended, "{}\n{}", pair.server.output(), pair.client.output());
        }
    }

    /// Connections by ucmatose: rping's two threads [race](crate::rping) at its end.
    fn connections(&self, place: &Place) {
        let line = |port| format!("ucmatose -b {LOCALHOST} -p {port} -C 3 -S 1000");
        self.pairs(place, 1, line, "-s", |port| place.listens(port));
    }

    fn ping_pongs(&self, place: &Place) {
        let line = |port| format!("ibv_rc_pingpong -e -g 1 -n 100 -p {port}");
        self.pairs(place, 2, line, "", tcp::listens);
    }

    /// Runs pairs of a program one after the other; the client gets the server's address, behind an option.
    fn pairs(
        &self,
        place: &Place,
        step: usize,
        line: impl Fn(u16) -> String,
        option: &str,
        is_up: impl Fn(u16) -> bool,
    ) {
        let _end = EndOfAll(self);
        while !self.is_over.load(Relaxed) {
            let port = tcp::free_port();
            let line = line(port);
            let mut server = place.start(&line);
            while !is_up(port) {
                if self.is_over.load(Relaxed) {
                    return;
                }
                assert!(!server.has_ended(), "{}", server.output());
                thread::sleep(LOOK);
            }
            let mut client = place.start(&format!("{line} {option} {LOCALHOST}"));
            let is_well = self.ends_well(&mut client) && self.ends_well(&mut server);
            self.steps[step].fetch_add(u32::from(is_well), Relaxed);
        }
    }
}

/// The end of one is the end of all, if it is too early.
struct EndOfAll<'a>(&'a Bystanders);

impl Drop for EndOfAll<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Relaxed);
    }
}
