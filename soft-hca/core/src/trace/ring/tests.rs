//! One process appends, another reads.

use std::path::PathBuf;
use std::thread;

use super::*;
use crate::trace::OtherVersion;
use crate::trace::event::{Event, Stalled};
use crate::trace::file::CHUNK;

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("soft-hca-ring-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn ring(&self, limit: u64) -> (TraceRing, TraceRing) {
        let path = self.0.join("ring");
        let ours = TraceRing::create(&path, 7, 3, limit).unwrap();
        let theirs = TraceRing::open(&path).unwrap().unwrap();
        assert_eq!((theirs.index(), theirs.generation()), (7, 3));
        (ours, theirs)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn about(t: u64) -> About {
    About { thread: 1, proc: 2, t, site: Site::default() }
}

fn times(ring: &TraceRing, at: &mut u64, is_over: bool) -> Vec<u64> {
    std::iter::from_fn(|| ring.read(at, is_over)).map(|record| record.about.t).collect()
}

#[test]
fn what_one_appends_another_reads() {
    let folder = Folder::new("reads");
    let (ours, theirs) = folder.ring(CHUNK);
    let mut at = TraceRing::start();
    assert_eq!(theirs.read(&mut at, true), None);
    let event = Event::from(Stalled { wr_id: 5, qpn: 17 });
    ours.append(about(1), &event, &[b"ab", b"c"]);
    ours.append(about(2), &event, &[]);
    let record = theirs.read(&mut at, false).unwrap();
    assert_eq!(record, Record { about: about(1), event, tail: b"abc".to_vec() });
    assert_eq!(times(&theirs, &mut at, false), [2]);
}

#[test]
fn what_has_no_room_is_counted() {
    let folder = Folder::new("room");
    let (ours, theirs) = folder.ring(3 * CHUNK + 1);
    let text = [0; 1000];
    let count = 4 * CHUNK / 1000;
    (0..count).for_each(|t| ours.append(about(t), &Stalled::default().into(), &[&text]));
    let read = times(&theirs, &mut TraceRing::start(), false);
    assert!(read.iter().copied().eq(0..read.len() as u64));
    assert_eq!(read.len() as u64 + theirs.dropped(), count);
    assert!(theirs.dropped() > 0 && read.len() as u64 > 2 * CHUNK / 1000);
}

#[test]
fn what_was_read_makes_room_for_more() {
    let folder = Folder::new("ring");
    let (ours, theirs) = folder.ring(CHUNK);
    let mut at = TraceRing::start();
    let mut next = 0;
    // Many laps, of records of all lengths.
    for round in 0..2000 {
        for _ in 0..round % 7 {
            let text = vec![round as u8; (round as usize * 131) % 5000];
            ours.append(about(next), &Stalled::default().into(), &[&text]);
            next += 1;
        }
        let first = next - round % 7;
        for t in first..next {
            let record = theirs.read(&mut at, false).unwrap();
            let text = &record.tail;
            assert_eq!((record.about.t, text.len()), (t, (round as usize * 131) % 5000));
            assert!(text.iter().all(|byte| *byte == round as u8));
        }
        assert_eq!(theirs.read(&mut at, false), None);
        theirs.release(at);
    }
    assert_eq!(theirs.dropped(), 0);
    assert!(at > 20 * theirs.capacity());
}

#[test]
fn threads_go_round_together() {
    let folder = Folder::new("laps");
    let (ours, theirs) = folder.ring(CHUNK);
    let count = 30_000;
    let is_done = std::sync::atomic::AtomicU32::new(0);
    let mut last = [None; 4];
    let mut read = 0;
    thread::scope(|scope| {
        for thread in 0..4u8 {
            let (ours, is_done) = (&ours, &is_done);
            scope.spawn(move || {
                for t in 0..count {
                    let text = vec![thread; usize::from(thread) * 3 + t as usize % 40];
                    ours.append(
                        About { thread: thread.into(), proc: 2, t, site: Site::default() },
                        &Stalled::default().into(),
                        &[&text],
                    );
                }
                is_done.fetch_add(1, Release);
            });
        }
        let mut at = TraceRing::start();
        loop {
            let is_over = is_done.load(Acquire) == 4;
            while let Some(record) = theirs.read(&mut at, false) {
                let text = &record.tail;
                let About { thread, t, .. } = record.about;
                assert_eq!(text.len(), thread as usize * 3 + t as usize % 40);
                assert!(text.iter().all(|byte| u32::from(*byte) == thread));
                assert!(last[thread as usize] < Some(t));
                last[thread as usize] = Some(t);
                read += 1;
            }
            theirs.release(at);
            if is_over {
                break;
            }
        }
    });
    assert_eq!(read + theirs.dropped(), 4 * count);
    assert!(read > count / 10, "{read}");
}

#[test]
fn a_note_that_was_never_finished_is_passed_over_in_the_end() {
    let folder = Folder::new("torn");
    let (ours, theirs) = folder.ring(CHUNK);
    ours.append(about(1), &Stalled::default().into(), &[]);
    ours.claim(60).unwrap();
    ours.append(about(2), &Stalled::default().into(), &[]);
    let mut at = TraceRing::start();
    assert_eq!(times(&theirs, &mut at, false), [1]);
    assert!(!theirs.ends_at(at), "it is being written");
    assert_eq!(times(&theirs, &mut at, true), [2]);
    assert!(theirs.ends_at(at));
}

#[test]
fn a_place_that_was_only_claimed_is_passed_over_in_the_end() {
    let folder = Folder::new("hole");
    let (ours, theirs) = folder.ring(CHUNK);
    ours.append(about(1), &Stalled::default().into(), &[]);
    let hole = ours.header().end.fetch_add(64, AcqRel);
    ours.append(about(2), &Stalled::default().into(), &[]);
    let mut at = TraceRing::start();
    assert_eq!(times(&theirs, &mut at, false), [1]);
    assert_eq!(at, hole);
    assert_eq!(times(&theirs, &mut at, true), [2]);
    ours.header().end.fetch_add(64, AcqRel);
    assert_eq!(times(&theirs, &mut at, true), []);
}

#[test]
fn threads_do_not_disturb_each_other() {
    let folder = Folder::new("threads");
    let (ours, theirs) = folder.ring(16 * CHUNK);
    thread::scope(|scope| {
        for thread in 0..4u8 {
            let ours = &ours;
            scope.spawn(move || {
                for t in 0..5000 {
                    let text = vec![thread; usize::from(thread) * 3];
                    ours.append(about(t), &Stalled::default().into(), &[&text]);
                }
            });
        }
    });
    let mut next = [0; 4];
    let mut at = TraceRing::start();
    while let Some(record) = theirs.read(&mut at, false) {
        let text = &record.tail;
        let thread = text.len() / 3;
        assert!(text.iter().all(|byte| usize::from(*byte) == thread));
        assert_eq!(record.about.t, next[thread]);
        next[thread] += 1;
    }
    assert_eq!((next, theirs.dropped()), ([5000; 4], 0));
}

#[test]
fn another_version_is_refused() {
    let folder = Folder::new("version");
    let (ours, _) = folder.ring(CHUNK);
    let path = folder.0.join("ring");
    ours.header().magic.store(u64::from_le_bytes(*b"hcaspool"), Release);
    let refusal = TraceRing::open(&path).unwrap_err();
    assert_eq!(refusal.to_string(), OtherVersion.to_string());
    ours.header().magic.store(0, Release);
    assert!(TraceRing::open(&path).unwrap().is_none(), "its header is not written yet");
}

/// Positions in the header, and the file's length, as another process of the same user may write them.
#[test]
fn uneven_positions_lead_nowhere() {
    let folder = Folder::new("uneven");
    let (ours, theirs) = folder.ring(CHUNK);
    let event = Event::from(Stalled::default());
    ours.append(about(1), &event, &[]);
    let end = ours.header().end.fetch_add(3, AcqRel);
    ours.append(about(2), &event, &[]);
    assert_eq!((ours.header().end.load(Acquire), ours.dropped()), (end + 3, 1));
    ours.header().end.store(end, Release);
    let mut at = TraceRing::start();
    assert_eq!(times(&theirs, &mut at, false), [1]);
    theirs.header().freed.store(5, Release);
    theirs.release(at);
    assert_eq!(theirs.header().freed.load(Acquire), end);
    // Records that were read are zeros, from the position below on.
    assert!((0..end).step_by(4).all(|at| theirs.word(at).load(Acquire) == 0));
    let path = folder.0.join("ring");
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(CHUNK + 3).unwrap();
    assert_eq!(TraceRing::open(&path).unwrap().unwrap().capacity(), ours.capacity());
}
