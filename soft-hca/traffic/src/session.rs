//! The whole run of one side, from the agreement with the peer to the farewell.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::area::{Area, Content, Piece, Segment};
use crate::endpoint::End;
use crate::error::{Error, Obituary, Result};
use crate::pattern::Pattern;
use crate::peer::Peer;
use crate::plan::Config;
use crate::verbs::{Device, Region, Remote};
use crate::worker::{Status, Worker};

/// How often the progress is told.
const TELL: Duration = Duration::from_secs(2);

/// The greeting of the sides once their queue pairs exist.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    counter: Remote,
    /// Of each thread.
    ends: Vec<Vec<End>>,
}

/// Said when everything is ready for the first round.
#[derive(Debug, Serialize, Deserialize)]
struct Ready;

/// Said after the last round.
#[derive(Debug, Serialize, Deserialize)]
struct Farewell {
    /// The sum of what was added to the other side's word.
    added: u64,
}

/// The word that all of the peer's queue pairs add to, in memory of its own.
struct Counter {
    region: Region,
    background: Pattern,
}

impl Counter {
    const BYTES: usize = 4096;
    const WORD: Segment = Segment { offset: 2048, length: 8 };

    fn new(device: &Arc<Device>, config: &Config) -> Result<Self> {
        let this = Self {
            region: Region::new(device, Self::BYTES)?,
            background: Pattern::new(&[config.seed]),
        };
        this.area().fill(&Self::word(0));
        Ok(this)
    }

    fn area(&self) -> Area<'_> {
        Area { cells: &self.region, background: self.background }
    }

    fn word(value: u64) -> [Piece; 1] {
        [Piece { segment: Self::WORD, content: Content::Word(value) }]
    }

    fn remote(&self) -> Remote {
        let Remote { addr, rkey } = self.region.remote();
        Remote { addr: addr + u64::from(Self::WORD.offset), rkey }
    }

    /// Checks that it is as if the peer had added this.
    fn check(&self, added: u64) -> Result<()> {
        let word = Self::WORD.offset as usize..(Self::WORD.offset + Self::WORD.length) as usize;
        let bytes: Vec<u8> = self.region[word].iter().map(|cell| cell.get()).collect();
        let found = u64::from_ne_bytes(bytes.try_into().expect("a word has eight bytes"));
        if found != added {
            return Err(Error::Sum { added, found });
        }
        self.area().check(&Self::word(added)).map_err(Error::AroundSum)
    }
}

/// News for the main thread.
enum News {
    Worker(Result<(Worker, u64)>),
    Peer(Result<Farewell>),
}

/// The summary of a run.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Bytes of all messages, of both sides.
    pub bytes: u64,
    /// Requests, of both sides.
    pub requests: u64,
    /// From the first request to the last completion.
    pub time: Duration,
}

/// Runs the traffic; `say` gets lines about the progress.
pub fn run(
    peer: Peer,
    config: &Config,
    gid_index: u8,
    is_client: bool,
    say: impl Fn(&str),
) -> Result<Summary> {
    let device = Device::open(gid_index)?;
    let counter = Counter::new(&device, config)?;
    let status = Arc::new(Status::default());
    let (mut peer, workers) = connect(peer, config, is_client, &device, &counter, &status)?;
    let count = config.threads * config.queue_pairs;
    say(&format!("{count} queue pairs in {} threads", config.threads));

    let begin = Instant::now();
    let (sender, news) = mpsc::channel();
    for worker in workers {
        let sender = Sender::clone(&sender);
        // The receiver is gone only when this program ends.
        thread::spawn(move || drop(sender.send(News::Worker(worker.run()))));
    }
    let mut listener = peer.try_clone()?;
    thread::spawn(move || drop(sender.send(News::Peer(listener.hear()))));
    let outcome = follow(&mut peer, config, &status, &news, &say)?;
    counter.check(outcome.peer_added)?;
    Ok(Summary {
        bytes: status.bytes.load(Ordering::Relaxed),
        requests: status.requests.load(Ordering::Relaxed),
        time: outcome.end - begin,
    })
}

fn connect(
    mut peer: Peer,
    config: &Config,
    is_client: bool,
    device: &Arc<Device>,
    counter: &Counter,
    status: &Arc<Status>,
) -> Result<(Peer, Vec<Worker>)> {
    let worker = |thread| Worker::new(device, config, thread, is_client, status);
    let mut workers = (0..config.threads).map(worker).collect::<Result<Vec<_>>>()?;
    let ends = workers.iter().map(Worker::ends).collect();
    peer.tell(&Hello { counter: counter.remote(), ends })?;
    let theirs: Hello = peer.hear()?;
    for (worker, ends) in workers.iter_mut().zip(&theirs.ends) {
        worker.connect(ends, theirs.counter)?;
    }
    // Nobody writes into memory that is not prepared.
    peer.tell(&Ready)?;
    let Ready = peer.hear()?;
    Ok((peer, workers))
}

struct Outcome {
    peer_added: u64,
    end: Instant,
}

/// Waits for the end of all threads and of the peer.
fn follow(
    peer: &mut Peer,
    config: &Config,
    status: &Status,
    news: &Receiver<News>,
    say: &impl Fn(&str),
) -> Result<Outcome> {
    let (mut added, mut left) = (0u64, config.threads);
    // Memory and queue pairs stay until the peer is done with them, too.
    let mut workers = Vec::new();
    let mut farewell = None;
    let mut obituary = None;
    while left > 0 {
        match news.recv_timeout(TELL) {
            Ok(News::Worker(Ok((worker, its_added)))) => {
                workers.push(worker);
                added = added.wrapping_add(its_added);
                left -= 1;
            }
            Ok(News::Worker(Err(Error::PeerGone(more)))) => {
                obituary = Some(obituary.unwrap_or(Obituary::default()).plus(more));
                left -= 1;
            }
            Ok(News::Worker(Err(error))) => return Err(error),
            Ok(News::Peer(Ok(said))) => farewell = Some(said),
            Ok(News::Peer(Err(_))) => status.is_lost.store(true, Ordering::Relaxed),
            Err(RecvTimeoutError::Timeout) => {
                let [bytes, all] = [status.bytes.load(Ordering::Relaxed), config.bytes];
                say(&format!("{} of {} MiB", bytes >> 20, all >> 20));
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("a worker is still to report"),
        }
    }
    if let Some(obituary) = obituary {
        return Err(Error::PeerGone(obituary));
    }
    let end = Instant::now();
    peer.tell(&Farewell { added })?;
    while farewell.is_none() {
        match news.recv() {
            Ok(News::Peer(said)) => farewell = Some(said?),
            _ => unreachable!("only the peer is still to speak"),
        }
    }
    let peer_added = farewell.map_or(0, |farewell| farewell.added);
    Ok(Outcome { peer_added, end })
}
