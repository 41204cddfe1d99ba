//! A thread: its queue pairs share a completion queue, and those that are reliable perhaps a
//! receive queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdma_sys::ibv_wc_status;

use crate::endpoint::{End, Endpoint, PROBE};
use crate::error::{Error, Obituary, Result};
use crate::pattern::Pattern;
use crate::plan::{Config, MAX_REQUESTS, Name, Service};
use crate::shared::SharedReceives;
use crate::verbs::{Completion, Cq, Device, Remote, status_text};

/// How long nothing may come. A machine with much else to do needs some of it.
const LIMIT: Duration = Duration::from_secs(100);
/// How long a thread sleeps before it looks whether the peer has gone.
const NAP: Duration = Duration::from_millis(50);
/// How long after the first unanswered request the peer is known to have gone.
const NEWS: Duration = Duration::from_secs(20);

/// The state that all threads share.
#[derive(Debug, Default)]
pub struct Status {
    /// The peer has gone.
    pub is_lost: AtomicBool,
    /// Bytes of all rounds that are over.
    pub bytes: AtomicU64,
    /// Requests of these.
    pub requests: AtomicU64,
}

impl Status {
    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}

/// A thread's share.
pub struct Worker {
    // Dropped in this order: queue pairs before the queues they use.
    endpoints: Vec<Endpoint>,
    by_qpn: HashMap<u32, usize>,
    shared: Option<SharedReceives>,
    cq: Cq,
    has_events: bool,
    status: Arc<Status>,
}

impl Worker {
    /// The queue pairs of a thread, not connected yet.
    pub fn new(
        device: &Arc<Device>,
        config: &Config,
        thread: u32,
        is_client: bool,
        status: &Arc<Status>,
    ) -> Result<Self> {
        let cq_entries = match config.cq_entries {
            0 => 3 * MAX_REQUESTS * config.queue_pairs,
            entries => entries,
        };
        let cq = Cq::new(device, cq_entries, config.events)?;
        let names = config.names(thread);
        let shared = if names.clone().any(Name::is_shared) {
            let background = Pattern::new(&[config.seed, thread.into(), is_client.into()]);
            Some(SharedReceives::new(device, background, MAX_REQUESTS * config.queue_pairs)?)
        } else {
            None
        };
        let endpoint = |name| Endpoint::new(device, config, name, is_client, &cq, shared.as_ref());
        let endpoints = names.map(endpoint).collect::<Result<Vec<_>>>()?;
        let by_qpn = endpoints.iter().map(Endpoint::qpn).zip(0..).collect();
        let (has_events, status) = (config.events, Arc::clone(status));
        Ok(Self { endpoints, by_qpn, shared, cq, has_events, status })
    }

    /// The attributes of its queue pairs that the peer has to know.
    pub fn ends(&self) -> Vec<End> {
        self.endpoints.iter().map(Endpoint::end).collect()
    }

    /// Connects them, and gets them ready for the first round.
    pub fn connect(&mut self, peers: &[End], counter: Remote) -> Result<()> {
        let mut both = self.endpoints.iter_mut().zip(peers);
        both.try_for_each(|(endpoint, peer)| endpoint.connect(peer, counter))
    }

    /// Goes through all rounds; gives the worker back and what was added to the peer's word.
    pub fn run(mut self) -> Result<(Self, u64)> {
        self.endpoints.iter_mut().try_for_each(Endpoint::start)?;
        while !self.endpoints.iter().all(Endpoint::is_done) {
            let Some(completion) = self.wait()? else { return Err(self.obituary()?) };
            let endpoint = self.endpoint(&completion)?;
            let endpoint = &mut self.endpoints[endpoint];
            let (bytes, requests) = endpoint.completed(&completion, self.shared.as_ref())?;
            self.status.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.status.requests.fetch_add(requests, Ordering::Relaxed);
            if let Some(status) = endpoint.failure {
                self.await_news(status)?;
                return Err(self.obituary()?);
            }
        }
        let added = self.endpoints.iter().fold(0u64, |sum, end| sum.wrapping_add(end.added));
        Ok((self, added))
    }

    fn endpoint(&self, completion: &Completion) -> Result<usize> {
        self.by_qpn.get(&completion.qpn).copied().ok_or(Error::Stranger(completion.qpn))
    }

    /// The next completion; `None` when the peer has gone.
    fn wait(&self) -> Result<Option<Completion>> {
        let since = Instant::now();
        loop {
            if let Some(completion) = self.cq.poll()? {
                return Ok(Some(completion));
            }
            if self.status.is_lost() {
                return Ok(None);
            }
            if since.elapsed() > LIMIT {
                return Err(self.stuck());
            }
            if !self.has_events {
                thread::yield_now();
                continue;
            }
            // The last request of a round is solicited; completions of our own are not.
            self.cq.arm(self.endpoints.iter().all(Endpoint::waits_for_peer))?;
            if let Some(completion) = self.cq.poll()? {
                return Ok(Some(completion));
            }
            // Without an event there is no look at the queue: none may get lost.
            while !self.cq.sleep(NAP)? && !self.status.is_lost() {
                if since.elapsed() > LIMIT {
                    let unannounced = self.cq.poll()?.is_some();
                    return Err(if unannounced { Error::NoEvent } else { self.stuck() });
                }
            }
        }
    }

    fn stuck(&self) -> Error {
        Error::Stuck(LIMIT.as_secs(), self.list(|endpoint| !endpoint.is_done()))
    }

    fn list(&self, is_meant: impl Fn(&&Endpoint) -> bool) -> String {
        let meant = self.endpoints.iter().filter(is_meant);
        meant.map(Endpoint::waits_for).collect::<Vec<_>>().join("; ")
    }

    /// A request was not answered: the peer must have gone.
    fn await_news(&self, status: ibv_wc_status::Type) -> Result<()> {
        let since = Instant::now();
        while !self.status.is_lost() {
            if since.elapsed() > NEWS {
                return Err(Error::Unanswered(status_text(status)));
            }
            thread::sleep(NAP);
        }
        Ok(())
    }

    /// Waits for the end of the queue pairs of a peer that has gone: each reliable one fails, at the latest
    /// with the next request.
    fn obituary(&mut self) -> Result<Error> {
        let is_reliable = |endpoint: &&Endpoint| endpoint.name.service() == Service::Rc;
        self.endpoints.iter().filter(is_reliable).try_for_each(Endpoint::probe)?;
        let since = Instant::now();
        while self.endpoints.iter().filter(is_reliable).any(|end| end.failure.is_none()) {
            let Some(completion) = self.cq.poll()? else {
                if since.elapsed() > LIMIT {
                    let is_unaware = |end: &&Endpoint| is_reliable(end) && end.failure.is_none();
                    return Err(Error::Unnoticed(self.list(is_unaware)));
                }
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            let endpoint = self.endpoint(&completion)?;
            let endpoint = &mut self.endpoints[endpoint];
            if completion.status != ibv_wc_status::IBV_WC_SUCCESS {
                endpoint.completed(&completion, self.shared.as_ref())?;
            } else if completion.wr_id == PROBE {
                // Its connection to us was closed before its queue pair.
                endpoint.probe()?;
            }
        }
        let count = |status| {
            self.endpoints.iter().filter(|endpoint| endpoint.failure == status).count() as u32
        };
        Ok(Error::PeerGone(Obituary {
            unanswered: count(Some(ibv_wc_status::IBV_WC_RETRY_EXC_ERR)),
            flushed: count(Some(ibv_wc_status::IBV_WC_WR_FLUSH_ERR)),
            unaware: count(None),
        }))
    }
}
