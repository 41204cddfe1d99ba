//! A queue of work requests, as ThreadSanitizer knows it: a fiber that makes the device's accesses, another one for the
//! answers of a send queue's requests, and for each request a word that says when they are over.

use crate::client::outstanding::{Outstanding, Request};
use crate::client::sanitizer::thread::{Access, Fiber, Sync};

/// As many requests have a word of their own. With more, the completion of one is taken for that of later ones, too, so
/// that a race may be missed; none is reported falsely.
const SYNCS: usize = 256;

/// A stretch of memory that the device accesses for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub access: Access,
    pub address: u64,
    pub length: u32,
}

/// A request that was posted.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    number: usize,
    /// The process's moment, as peers are told of it.
    pub moment: u64,
    pub list: Vec<Stretch>,
}

/// The description of a request that is posted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct New {
    pub is_fenced: bool,
    pub moment: u64,
}

/// A queue of the program's.
#[derive(Debug)]
pub(super) struct Queue {
    /// None without ThreadSanitizer.
    fiber: Option<Fiber>,
    /// Answers of reads and atomics are written while later requests are sent, unless these are fenced.
    answers: Option<Fiber>,
    /// Orders an answer behind everything that was sent before it came.
    sent: Box<Sync>,
    /// Orders a fenced request behind the answers that were written before it.
    answered: Box<Sync>,
    /// Accesses of threads before they posted.
    posts: Box<Sync>,
    ends: Box<[Sync; SYNCS]>,
    /// The number of requests so far.
    count: usize,
    requests: Outstanding<Posted>,
}

impl Queue {
    /// A queue whose accesses are made by a fiber.
    pub(super) fn new(fiber: Option<Fiber>) -> Self {
        Self {
            fiber,
            answers: None,
            sent: Box::default(),
            answered: Box::default(),
            posts: Box::default(),
            ends: Box::new([const { Sync::new() }; SYNCS]),
            count: 0,
            requests: Outstanding::default(),
        }
    }

    /// From now on answers are written by a fiber of their own.
    pub(super) fn has_answers(&mut self, fiber: impl FnOnce() -> Option<Fiber>) {
        if self.fiber.is_some() && self.answers.is_none() {
            self.answers = fiber();
        }
    }

    /// The calling thread posts a request, from places in the program: the device accesses the memory from now on,
    /// until the completion is polled.
    pub(super) fn post(&mut self, callers: &[usize], new: Request<New>, list: Vec<Stretch>) {
        let Request { wr_id, is_signaled, what: New { is_fenced, moment } } = new;
        let number = self.count;
        self.count += 1;
        if let Some(fiber) = &self.fiber {
            fiber.sanitizer.release(&self.posts);
            let place = callers.first().copied().unwrap_or_default();
            let access = |fiber: &Fiber, which: &dyn Fn(Access) -> bool| {
                for &Stretch { access, address, length } in list.iter().filter(|s| which(s.access))
                {
                    fiber.sanitizer.access(access, address, length, place);
                }
                fiber.sanitizer.release(self.end(number));
            };
            fiber.run(callers, || {
                fiber.sanitizer.acquire(&self.posts);
                if is_fenced {
                    fiber.sanitizer.acquire(&self.answered);
                }
                access(fiber, &|access| access == Access::Read || self.answers.is_none());
                fiber.sanitizer.release(&self.sent);
            });
            if let Some(answers) = &self.answers {
                answers.run(callers, || {
                    answers.sanitizer.acquire(&self.posts);
                    answers.sanitizer.acquire(&self.sent);
                    access(answers, &|access| access == Access::Write);
                    answers.sanitizer.release(&self.answered);
                });
            }
        }
        self.requests.post(Request { wr_id, is_signaled, what: Posted { number, moment, list } });
    }

    fn end(&self, number: usize) -> &Sync {
        &self.ends[number % SYNCS]
    }

    /// The calling thread knows that a request is over, and what the fiber has done before it.
    fn acquire_end(&self, number: usize) {
        if let Some(fiber) = &self.fiber {
            fiber.sanitizer.acquire(self.end(number));
        }
    }

    /// The calling thread has polled a completion of a send. Returns the requests that are over.
    pub(super) fn sent(&mut self, wr_id: u64) -> Vec<Request<Posted>> {
        let done: Vec<_> = self.requests.through(wr_id).collect();
        if let Some(last) = done.last() {
            self.acquire_end(last.what.number);
        }
        done
    }

    /// The calling thread has polled a completion of a receive. Returns the receive.
    pub(super) fn received(&mut self, wr_id: u64) -> Option<Request<Posted>> {
        let done = self.requests.take(wr_id)?;
        self.acquire_end(done.what.number);
        Some(done)
    }

    /// The calling thread knows that what was posted up to a moment is over.
    pub(super) fn is_over_until(&mut self, moment: u64) {
        let number = |request: &mut Request<Posted>| {
            (request.what.moment <= moment).then_some(request.what.number)
        };
        let last = self.requests.iter_mut().filter_map(number).max();
        last.into_iter().for_each(|last| self.acquire_end(last));
    }

    /// The moment of the request that was posted last, if it is not known to be over.
    pub(super) fn newest(&self) -> Option<u64> {
        self.requests.last().map(|last| last.what.moment)
    }

    /// The calling thread knows that all that was posted so far is over.
    pub(super) fn is_over(&self) {
        if let Some(last) = self.count.checked_sub(1) {
            self.acquire_end(last);
        }
    }

    /// The same of a queue in which nothing is executed any more.
    pub(super) fn is_flushed(&mut self) {
        self.is_over();
        self.requests.clear();
    }
}
