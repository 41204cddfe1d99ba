//! What went wrong in a run, in words for who does not know RDMA by heart: which call, which side,
//! which check with the values compared, and what usually causes it.

mod live;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use crate::entry::{Call, Completion, Entry, Executed, Outcome, ReceiveQueue, What};
use crate::reason::{ASKED_FOR, Memory, Peer, Reason, Side};
use crate::text::{duration, short_name};
use crate::value::{Name, Named, Value};

pub use live::Live;

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// When, as in [`Entry::t`].
    pub t: u64,
    /// The process, as in [`Entry::process`].
    pub process: u32,
    /// What has failed, in a line.
    pub what: String,
    /// Which check, on which side, with the values compared.
    pub why: String,
    /// What usually causes it.
    pub cause: String,
}

/// A request that waits.
#[derive(Debug)]
struct Stalled {
    /// Queue pair and `wr_id`.
    request: (u32, u64),
    process: u32,
    since: u64,
    reason: Reason,
    /// That it waits was told.
    is_told: bool,
}

/// Finds what went wrong in a record, entry after entry.
#[derive(Debug, Default)]
pub struct Explainer {
    processes: HashMap<u32, String>,
    /// Send work requests that have failed: their completions say nothing new.
    failed: HashSet<(u32, u64)>,
    stalled: Vec<Stalled>,
    /// The peers of queue pairs.
    peers: HashMap<u32, u32>,
    /// When the last receive was posted to a queue pair.
    receives: HashMap<u32, u64>,
    /// Flushed work requests of a queue pair.
    flushed: HashMap<u32, u64>,
    last: u64,
}

impl Explainer {
    /// At the beginning of a record.
    pub fn new() -> Self {
        Self::default()
    }

    fn who(&self, process: u32) -> String {
        self.processes.get(&process).cloned().unwrap_or_else(|| format!("process {process}"))
    }

    /// What an entry tells of, if it is a problem.
    pub fn problem(&mut self, entry: &Entry) -> Option<Problem> {
        self.last = self.last.max(entry.t);
        match &entry.what {
            What::ProcessBegan { pid, role, command, .. } => {
                let label = format!("{}[{pid}]", short_name(*role, command));
                self.processes.insert(entry.process, label);
                None
            }
            What::Call(call) => self.call(entry, call),
            What::ConnectionEvent(event) if event.status != 0 => {
                let (why, cause) = connection(&event.event, event.status)?;
                let what = format!("{} of id {}", event.event, event.id);
                Some(self.of(entry, what, why, cause))
            }
            What::ReceivePosted(posted) => {
                if let ReceiveQueue::Qp(qp) = posted.queue {
                    self.receives.insert(qp, entry.t);
                }
                None
            }
            What::Stalled { qp, wr_id, reason } => {
                self.stalled.push(Stalled {
                    request: (*qp, *wr_id),
                    process: entry.process,
                    since: entry.t,
                    reason: reason.clone(),
                    is_told: false,
                });
                None
            }
            What::ProcessEnded => {
                self.stalled.retain(|stalled| stalled.process != entry.process);
                None
            }
            What::Executed(executed) => self.executed(entry, executed),
            What::Completion(completion) => self.completion(entry, completion),
            What::AsyncEvent { event, element } => {
                let cause = asynchronous(event)?;
                let what = format!("{event} of {} {element}", element.kind());
                Some(self.of(entry, what, "the device reports it by itself".into(), cause))
            }
            What::Dropped { entries } => {
                let what = format!("{entries} entries are missing");
                let why = "the process has noted more at a time than could be read".into();
                Some(self.of(
                    entry,
                    what,
                    why,
                    "messages that come very fast; record with a larger --limit".into(),
                ))
            }
            _ => None,
        }
    }

    /// What is still open when the record ends: who waits for what, and flushed work requests.
    pub fn rest(&mut self) -> Vec<Problem> {
        let mut stalled = std::mem::take(&mut self.stalled);
        stalled.drain(..).map(|stalled| self.waits(self.last, &stalled)).collect()
    }

    /// Requests that have waited for so long at a time, each told once.
    fn waiting(&mut self, t: u64, ns: u64) -> Vec<Problem> {
        let mut stalled = std::mem::take(&mut self.stalled);
        let new = stalled
            .iter_mut()
            .filter(|stalled| !stalled.is_told && t.saturating_sub(stalled.since) >= ns);
        let problems = new.map(|stalled| {
            stalled.is_told = true;
            self.waits(t, stalled)
        });
        let problems = problems.collect();
        self.stalled = stalled;
        problems
    }

    /// Who waits for what.
    fn waits(&self, t: u64, stalled: &Stalled) -> Problem {
        let Stalled { request: (qp, wr_id), process, since, reason, .. } = stalled;
        let waited = duration(t.saturating_sub(*since));
        let peer = self.peers.get(qp);
        let peer = peer.map_or(String::new(), |peer| format!(", connected to qp {peer},"));
        let who = self.who(*process);
        Problem {
            t,
            process: *process,
            what: format!(
                "{who}: the send work request wr_id={wr_id:#x} of qp {qp}{peer} waits for {waited}"
            ),
            why: format!("{}: {reason}", side(reason)),
            cause: usual_cause(reason).into(),
        }
    }

    fn of(&self, entry: &Entry, what: String, why: String, cause: String) -> Problem {
        let (t, process) = (entry.t, entry.process);
        Problem { t, process, what: format!("{}: {what}", self.who(process)), why, cause }
    }

    fn call(&mut self, entry: &Entry, call: &Call) -> Option<Problem> {
        let Outcome::Refused { errno, reason, .. } = &call.result else {
            let find = |wanted| call.args.iter().find(|Named(name, _)| name == wanted);
            if let Some(Named(_, Value::Name(Name::Qp(peer)))) = find("dest_qp_num")
                && let Some(Named(_, Value::Name(Name::Qp(qp)))) = find("qp")
            {
                self.peers.insert(*qp, *peer);
            }
            return None;
        };
        let what = format!("{} is refused with {errno}", call.name);
        let why = reason.clone().unwrap_or_else(|| "no more is known than the number".into());
        let cause = if why == ASKED_FOR { FAULT_CAUSE } else { errno_cause(errno) };
        Some(self.of(entry, what, why, cause.into()))
    }

    fn executed(&mut self, entry: &Entry, executed: &Executed) -> Option<Problem> {
        let request = (executed.qp, executed.wr_id);
        self.stalled.retain(|stalled| stalled.request != request);
        if executed.status == "IBV_WC_SUCCESS" {
            return None;
        }
        self.failed.insert(request);
        let what = format!(
            "the work request wr_id={:#x} ({}) of qp {} fails with {}",
            executed.wr_id, executed.opcode, executed.qp, executed.status
        );
        let (mut why, cause) = explain(executed.reason.as_ref(), &executed.status);
        if let Some(Reason::ReceiverNotReady { .. }) = &executed.reason {
            why += &self.last_receive(entry.t);
        }
        Some(self.of(entry, what, why, cause))
    }

    /// When a receive was posted last, anywhere.
    fn last_receive(&self, t: u64) -> String {
        match self.receives.values().max() {
            Some(last) => format!("; the last receive was seen {} before", duration(t - *last)),
            None => "; no receive was seen in this run".into(),
        }
    }

    fn completion(&mut self, entry: &Entry, completion: &Completion) -> Option<Problem> {
        let Completion { qp, wr_id, .. } = *completion;
        if completion.lost {
            let what = format!("a completion of qp {qp} is lost");
            let why = format!("the completion queue {} has no room", completion.cq);
            return Some(self.of(
                entry,
                what,
                why,
                usual_cause(&Reason::CqFull { side: Side::Requester, cq: completion.cq }).into(),
            ));
        }
        if completion.status == "IBV_WC_SUCCESS" || self.failed.remove(&(qp, wr_id)) {
            return None;
        }
        if completion.status == "IBV_WC_WR_FLUSH_ERR" {
            let count = self.flushed.entry(qp).or_default();
            *count += 1;
            // One word for all.
            if *count > 1 {
                return None;
            }
        }
        let what = format!(
            "the work request wr_id={wr_id:#x} of qp {qp} completes with {}",
            completion.status
        );
        let (why, cause) = explain(completion.reason.as_ref(), &completion.status);
        Some(self.of(entry, what, why, cause))
    }
}

/// All that went wrong in a record, as text.
pub fn text(entries: &[Entry]) -> String {
    let mut explainer = Explainer::new();
    let mut problems: Vec<_> =
        entries.iter().filter_map(|entry| explainer.problem(entry)).collect();
    problems.extend(explainer.rest());
    let lines = problems.iter().map(Problem::text);
    match lines.collect::<Vec<_>>() {
        none if none.is_empty() => "Nothing went wrong that the device knows of.\n".into(),
        lines => lines.join("\n"),
    }
}

impl Problem {
    /// In three lines.
    pub fn text(&self) -> String {
        let seconds = self.t as f64 / 1e9;
        let Self { what, why, cause, .. } = self;
        format!("{seconds:.6} s, {what}\n    why: {why}\n    usual cause: {cause}\n")
    }
}

/// Whose memory or queue pair a check is about.
fn side(reason: &Reason) -> &'static str {
    let (side, memory) = match reason {
        Reason::Key { side, memory, .. }
        | Reason::Bounds { side, memory, .. }
        | Reason::Access { side, memory, .. }
        | Reason::ProtectionDomain { side, memory, .. }
        | Reason::Unmapped { side, memory } => (*side, Some(*memory)),
        Reason::Window { side, .. } | Reason::CqFull { side, .. } => (*side, None),
        Reason::ReceiveTooSmall { .. }
        | Reason::ReceiverNotReady { .. }
        | Reason::NoResponse { .. }
        | Reason::Refused { .. }
        | Reason::Alignment { .. } => (Side::Responder, None),
        Reason::MessageTooLong { .. } | Reason::Malformed { .. } => (Side::Requester, None),
        Reason::Flushed | Reason::Other { .. } => return "on this side",
    };
    match (side, memory) {
        (_, Some(Memory::Local)) => "in the sender's own scatter/gather list",
        (_, Some(Memory::Receive)) => "in the scatter list of the receive that was met",
        (_, Some(Memory::Bound)) => "in the region that the window is to be bound to",
        (_, Some(Memory::Remote)) => "in the peer's memory, named by remote_addr and rkey",
        (Side::Requester, None) => "on the sender's side",
        (Side::Responder, None) => "on the peer's side",
    }
}

fn explain(reason: Option<&Reason>, status: &str) -> (String, String) {
    match reason {
        Some(reason) => (format!("{}: {reason}", side(reason)), usual_cause(reason).into()),
        None => (status_meaning(status).into(), "see the entries before it".into()),
    }
}

fn usual_cause(reason: &Reason) -> &'static str {
    match reason {
        Reason::Key { memory: Memory::Remote, .. } => {
            "the rkey was sent to the peer wrongly (byte order, lkey instead of rkey, an old one), \
             or the peer has deregistered the region too early"
        }
        Reason::Key { .. } => {
            "the element's lkey was not set, or the region has been deregistered before the work \
             request was done"
        }
        Reason::Bounds { .. } => {
            "address or length is not that of the registered buffer: an offset too far, a length in \
             other units, or a virtual address where the region is zero-based"
        }
        Reason::Access { key: None, .. } => {
            "the queue pair's qp_access_flags (ibv_modify_qp, to INIT) lack the right"
        }
        Reason::Access { .. } => {
            "the region was registered without the access flag (ibv_reg_mr); whatever writes needs \
             IBV_ACCESS_LOCAL_WRITE, and the peer's operations need IBV_ACCESS_REMOTE_..."
        }
        Reason::ProtectionDomain { .. } => {
            "the region and the queue pair were created with different protection domains"
        }
        Reason::Window { .. } => "the window is not bound yet, is invalidated, or another's",
        Reason::Unmapped { .. } => "the buffer was freed or unmapped while it was registered",
        Reason::ReceiveTooSmall { .. } => {
            "both sides do not agree on the size of messages, or the order of receives"
        }
        Reason::MessageTooLong { .. } => {
            "inline data beyond max_inline_data, or a message of more than 2 GiB"
        }
        Reason::Alignment { .. } => "atomic operations need an address that is a multiple of 8",
        Reason::Malformed { .. } => {
            "the work request or the queue pair's attributes are not as meant"
        }
        Reason::ReceiverNotReady { .. } => {
            "the receiver posts its receives too late or too few: nothing tells the sender, so both \
             have to agree on how many messages may be on their way; rnr_retry 7 waits for ever"
        }
        Reason::NoResponse { peer, .. } => match peer {
            Peer::Gone => "the peer has ended, or has destroyed its queue pair",
            Peer::NotConnectedToUs { .. } => "the queue pair numbers were exchanged wrongly",
            Peer::InState { .. } => {
                "the peer has not brought its queue pair to RTR yet, or it has failed before"
            }
            Peer::OtherPsn { .. } => "sq_psn of one side has to be rq_psn of the other",
            Peer::Remote | Peer::Unreachable => "the peer has ended, or the network is interrupted",
        },
        Reason::CqFull { .. } => {
            "the queue is too small for the work requests that complete in it, or nobody polls it"
        }
        Reason::Flushed => {
            "not a failure of its own: look at the first failure of this queue pair, or the end of \
             the connection"
        }
        Reason::Refused { status } if status == "IBV_WC_RNR_RETRY_EXC_ERR" => {
            "the receiver posts its receives too late or too few, and rnr_retry is not 7"
        }
        Reason::Refused { .. } => "a record of the other host says which check has failed there",
        Reason::Other { .. } => "see the check",
    }
}

fn status_meaning(status: &str) -> &'static str {
    match status {
        "IBV_WC_WR_FLUSH_ERR" => "the queue pair was in the error state already",
        "IBV_WC_REM_ACCESS_ERR" => "the peer's memory does not allow it",
        "IBV_WC_REM_OP_ERR" => "the peer could not take the message into its receive",
        "IBV_WC_REM_INV_REQ_ERR" => "the peer's queue pair refuses the operation",
        "IBV_WC_LOC_PROT_ERR" => "local memory may not be used so",
        "IBV_WC_LOC_QP_OP_ERR" => "the work request makes no sense",
        "IBV_WC_LOC_LEN_ERR" => "a length is wrong",
        "IBV_WC_MW_BIND_ERR" => "the window cannot be bound so",
        "IBV_WC_RNR_RETRY_EXC_ERR" => "the receiver had no receive posted for too long",
        "IBV_WC_RETRY_EXC_ERR" => "the peer did not answer for too long",
        _ => "no more is known than the status",
    }
}

const FAULT_CAUSE: &str = "--fault or SOFT_HCA_FAULT, as the argument says";

fn errno_cause(errno: &str) -> &'static str {
    match errno {
        "EINVAL" => "a wrong argument, or an object in the wrong state",
        "ENOENT" => "an object of another context, or one that is destroyed",
        "ENOMEM" => "more objects than the device has",
        "EBUSY" => "another object still uses this one: destroy them in the other order",
        "EFAULT" => "an address that is not in the program's memory",
        "EADDRINUSE" => "another program listens at this port",
        "EADDRNOTAVAIL" | "ENODEV" => "the address is none of this machine's devices",
        "EACCES" => "a child of fork uses what its parent has opened",
        "EOPNOTSUPP" | "ENOSYS" | "EPROTONOSUPPORT" => "the device cannot do that",
        _ => "see the check",
    }
}

/// Why a connection event has a status, and its usual cause.
fn connection(event: &str, status: i32) -> Option<(String, String)> {
    Some(match (event, status) {
        ("RDMA_CM_EVENT_REJECTED", 8) => (
            "nobody listens at this address and port (reason 8, invalid service id)".into(),
            "the server does not run yet, or listens at another port or port space".into(),
        ),
        ("RDMA_CM_EVENT_REJECTED", 28) => (
            "the peer's program has refused the connection (reason 28, consumer reject)".into(),
            "the server calls rdma_reject, or has ended while the request waited".into(),
        ),
        ("RDMA_CM_EVENT_REJECTED", reason) => (
            format!("the connection is rejected for reason {reason}"),
            "see ib_cm_rej_reason".into(),
        ),
        ("RDMA_CM_EVENT_UNREACHABLE", status) => (
            format!("nobody has answered the request (status {status})"),
            "the server does not call rdma_accept, or the network is interrupted".into(),
        ),
        (_, status) => (format!("status {status}"), "see the calls before it".into()),
    })
}

fn asynchronous(event: &str) -> Option<String> {
    let cause = match event {
        "IBV_EVENT_CQ_ERR" => "completions were lost, for their queue was full",
        "IBV_EVENT_QP_FATAL" => "the queue pair has failed",
        _ => return None,
    };
    Some(cause.into())
}
