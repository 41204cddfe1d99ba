//! Work requests as packets: when which are sent, and what they are answered with.

use std::collections::HashMap;
use std::time::Duration;

use soft_hca_roce::wire::headers::{Aeth, NakCode, Syndrome, rnr_delay};
use soft_hca_roce::wire::ip;
use soft_hca_roce::wire::opcode::{Operation, Service};
use soft_hca_roce::wire::packet::Headers;

use super::hosts::{Host, Hosts};
use super::message::{Begin, Message};
use super::queue_pair::QueuePairs;
use crate::entry::{Destination, Entry, Executed, SendPosted, What};
use crate::reason::Reason;
use crate::requests::{Request, requests};

/// What is sent, and when.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) t: u64,
    pub(super) from: Host,
    pub(super) to: Host,
    pub(super) transfer: Transfer,
    pub(super) comment: String,
}

/// Packets of one message, one way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    message: Message,
    mtu: usize,
    begin: Begin,
    source_qp: u32,
    way: Way,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    /// As many of the request's packets.
    Request(usize),
    /// What was asked for, or that all has come.
    Answer(Aeth),
    /// That one of the request's packets is not taken.
    Refusal(usize, Aeth),
}

impl Transfer {
    pub(super) fn source_qp(&self) -> u32 {
        self.source_qp
    }

    /// Headers and bytes of payload.
    pub(super) fn packets(&self) -> impl Iterator<Item = (Headers, usize)> + '_ {
        let Self { message, mtu, begin, way, .. } = self;
        let count = match way {
            Way::Request(count) => *count,
            Way::Answer(_) => message.answers(*mtu),
            Way::Refusal(..) => 1,
        };
        (0..count).map(move |index| match way {
            Way::Request(_) => message.packet(index, *mtu, begin),
            Way::Answer(aeth) => message.answer(index, *mtu, *aeth, begin),
            Way::Refusal(at, aeth) => (begin.packet(Operation::Acknowledge(*aeth), *at), 0),
        })
    }
}

/// Tries of a request that has to wait for long; more of them say no more.
const MAX_TRIES: u64 = 8;
/// The queue pair number by which a group's members are meant.
const GROUP: u32 = 0xff_ffff;

/// The packets of a record's work requests.
pub(super) fn transfers(hosts: &Hosts, entries: &[Entry]) -> Vec<Sent> {
    let requests = requests(entries);
    let by_execution = requests.iter().filter_map(|request| Some((request.executed?, request)));
    let by_execution = by_execution.collect::<HashMap<_, _>>();
    let mut transfers = Transfers {
        hosts,
        entries,
        qps: QueuePairs::default(),
        has_link: entries.iter().any(|entry| matches!(entry.what, What::Packet(_))),
        sent: Vec::new(),
    };
    for (index, entry) in entries.iter().enumerate() {
        transfers.qps.add(entry);
        if let (What::Executed(executed), Some(request)) = (&entry.what, by_execution.get(&index)) {
            transfers.executed(entry, executed, request);
        }
    }
    // What waits to the end of the record.
    let end = entries.last().map_or(0, |entry| entry.t);
    for request in requests.iter().filter(|request| request.executed.is_none()) {
        let entry = |index: Option<usize>| index.map(|index| &entries[index]);
        let (Some(Entry { process, what: What::SendPosted(posted), .. }), Some(stalled)) =
            (entry(request.posted), entry(request.stalled))
        else {
            continue;
        };
        let SendPosted { opcode, length, qp, wr_id, .. } = posted;
        let message = transfers.begin(*process, opcode, *length, *qp, *wr_id, Some(posted));
        if let (Some(message), What::Stalled { reason, .. }) = (message, &stalled.what) {
            transfers.tries(&message, reason, stalled.t, Some(end));
        }
    }
    transfers.sent
}

struct Transfers<'a> {
    hosts: &'a Hosts,
    entries: &'a [Entry],
    /// As they are at the time of the entry.
    qps: QueuePairs,
    /// Whether there are packets to and from other hosts.
    has_link: bool,
    sent: Vec<Sent>,
}

/// A request on its way.
#[derive(Debug)]
struct OnItsWay {
    message: Message,
    mtu: usize,
    qp: u32,
    from: Host,
    to: Host,
    /// To the peer.
    begin: Begin,
    /// How comments name it.
    name: String,
}

impl Transfers<'_> {
    fn executed(&mut self, entry: &Entry, executed: &Executed, request: &Request) {
        let posted = request.posted.and_then(|index| match &self.entries[index].what {
            What::SendPosted(posted) => Some(posted),
            _ => None,
        });
        let has_failed = executed.status != "IBV_WC_SUCCESS";
        let length = match posted {
            Some(posted) if has_failed => posted.length,
            _ => executed.length,
        };
        let Executed { qp, wr_id, .. } = *executed;
        let message = self.begin(entry.process, &executed.opcode, length, qp, wr_id, posted);
        let Some(message) = message else { return };
        let stalled = request.stalled.map(|index| &self.entries[index]);
        if let Some(Entry { t, what: What::Stalled { reason, .. }, .. }) = stalled {
            self.tries(&message, reason, *t, Some(entry.t));
        }
        let refused = |code| Some(Syndrome::Nak(code));
        let syndrome = match (&executed.status[..], &executed.reason) {
            ("IBV_WC_SUCCESS", _) => None,
            ("IBV_WC_REM_ACCESS_ERR", _) => refused(NakCode::RemoteAccess),
            ("IBV_WC_REM_INV_REQ_ERR", _) => refused(NakCode::InvalidRequest),
            ("IBV_WC_REM_OP_ERR", _) => refused(NakCode::RemoteOperational),
            // The last try, or all of them if nobody has said that the request waits.
            (
                "IBV_WC_RNR_RETRY_EXC_ERR" | "IBV_WC_RETRY_EXC_ERR",
                Some(
                    reason @ (Reason::ReceiverNotReady { waited, .. }
                    | Reason::NoResponse { waited, .. }),
                ),
            ) => {
                if stalled.is_none() {
                    self.tries(&message, reason, entry.t.saturating_sub(*waited), None);
                }
                return;
            }
            // It has never left its side.
            _ => return,
        };
        let count = message.message.packets(message.mtu);
        self.request(entry.t, &message, count);
        match syndrome {
            None => self.answer(entry.t, &message),
            Some(syndrome) => {
                let at = match executed.reason {
                    Some(Reason::ReceiveTooSmall { room, .. }) => {
                        (room as usize / message.mtu).min(count - 1)
                    }
                    _ => 0,
                };
                let name = format!("refuses {}: {}", message.name, executed.status);
                self.refuse(entry.t, &message, at, syndrome, name);
            }
        }
        if let Some(qp) = self.qps.get_mut(qp) {
            qp.next += message.message.numbers(message.mtu);
        }
    }

    /// What is known of a request and its peer.
    fn begin(
        &self,
        process: u32,
        opcode: &str,
        length: u64,
        qp: u32,
        wr_id: u64,
        posted: Option<&SendPosted>,
    ) -> Option<OnItsWay> {
        let attributes = self.qps.get(qp)?;
        let message = Message::new(opcode, length, attributes, qp, posted)?;
        let destination = posted.and_then(|posted| posted.destination.as_ref());
        let dest_qp = destination.map(|destination| destination.qp).or(attributes.dest_qp)?;
        let to = match (self.qps.get(dest_qp), destination) {
            (_, Some(Destination { qp: GROUP, gid, .. })) => {
                Host::Group(ip::address(&gid.parse::<std::net::Ipv6Addr>().ok()?.octets()))
            }
            (Some(peer), _) => Host::Process(peer.process),
            // Its packets have gone over the link.
            (None, _) if self.has_link => return None,
            (None, _) => Host::Unknown,
        };
        Some(OnItsWay {
            message,
            mtu: attributes.mtu(),
            qp,
            from: Host::Process(process),
            to,
            begin: Begin { service: attributes.service, dest_qp, psn: attributes.next },
            name: self.hosts.request(process, qp, wr_id, opcode),
        })
    }

    fn request(&mut self, t: u64, message: &OnItsWay, count: usize) {
        let OnItsWay { message, mtu, qp, from, to, begin, ref name } = *message;
        let transfer = Transfer { message, mtu, begin, source_qp: qp, way: Way::Request(count) };
        self.sent.push(Sent { t, from, to, transfer, comment: name.clone() });
    }

    fn back(&mut self, t: u64, message: &OnItsWay, way: Way, comment: String) {
        let OnItsWay { message, mtu, qp, from, to, begin, .. } = *message;
        let source_qp = begin.dest_qp;
        let begin = Begin { dest_qp: qp, ..begin };
        let transfer = Transfer { message, mtu, begin, source_qp, way };
        self.sent.push(Sent { t, from: to, to: from, transfer, comment });
    }

    fn answer(&mut self, t: u64, message: &OnItsWay) {
        if message.begin.service != Service::Rc {
            return;
        }
        let msn = self.qps.get_mut(message.begin.dest_qp).map_or(1, |peer| {
            peer.msn = (peer.msn + 1) & 0xff_ffff;
            peer.msn
        });
        let way = Way::Answer(Aeth { syndrome: Syndrome::ACK, msn });
        self.back(t, message, way, format!("answers {}", message.name));
    }

    fn refuse(
        &mut self,
        t: u64,
        message: &OnItsWay,
        at: usize,
        syndrome: Syndrome,
        comment: String,
    ) {
        if message.begin.service == Service::Rc {
            let msn = self.qps.get(message.begin.dest_qp).map_or(0, |peer| peer.msn);
            self.back(t, message, Way::Refusal(at, Aeth { syndrome, msn }), comment);
        }
    }

    /// Tries of a request that has to wait, from one time until another.
    fn tries(&mut self, message: &OnItsWay, reason: &Reason, from: u64, until: Option<u64>) {
        let (delay, retries, timer) = match *reason {
            Reason::ReceiverNotReady { min_rnr_timer, rnr_retry, .. } => {
                let timer = min_rnr_timer as u8;
                // 7 is for ever.
                let retries = if rnr_retry == 7 { MAX_TRIES } else { rnr_retry.into() };
                (rnr_delay(timer), retries, Some(timer))
            }
            Reason::NoResponse { timeout, retry_cnt, .. } => {
                let delay = Duration::from_nanos(4096 << timeout.min(31));
                // Without a timer nothing is tried again.
                (delay, if timeout == 0 { 0 } else { retry_cnt.into() }, None)
            }
            _ => return,
        };
        let delay = delay.as_nanos() as u64;
        let all = message.message.packets(message.mtu);
        for number in 0..=retries.min(MAX_TRIES) {
            let t = from + number * delay;
            if until.is_some_and(|until| number > 0 && t >= until) {
                return;
            }
            let Some(timer) = timer else {
                self.request(t, message, all);
                continue;
            };
            // Behind the first packet that is not taken nothing else is.
            let at = message.message.needs_receive(message.mtu).unwrap_or(0);
            self.request(t, message, at + 1);
            let name = format!("is not ready for {}: no receive is posted", message.name);
            self.refuse(t, message, at, Syndrome::RnrNak { timer }, name);
        }
    }
}
