//! A buffer of a send that is changed before the poll of its completion.

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Changed, Sge, What};
use crate::model::{QueuePair, Range, Run, Send, overlap, range};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "an adapter reads a send's buffer when it sends, and once more when a packet was lost: until the \
         completion has been polled that may be at any time, and the peer gets what is there then",
    cure: "write to a send's buffer, or free it, after its completion, or that of a signaled send behind it, \
         was polled",
};

#[derive(Debug, Default)]
pub(in crate::check) struct BufferEarly;

/// The send whose SGE was changed, if it is a send's.
pub(super) fn send<'r>(scene: Scene<'r>, changed: &Changed) -> Option<&'r Send> {
    let Changed { qp: number, wr_id, address, length, returned, .. } = *changed;
    let qp = scene.run.live_qp(number).filter(|_| !returned)?;
    // The poll has freed the slots of those that it has found.
    let freed = scene.effect.freed.iter().filter(|(of, _)| *of == number).map(|(_, send)| send);
    let mut sends = freed.chain(qp.sends.requests());
    let is_it = |sge: &Sge| sge.address == address && sge.length == length;
    sends.find(|send| send.wr_id == wr_id && send.sges.iter().any(is_it))
}

/// Whether an adapter may have written to these bytes since a time.
fn may_be_an_adapter(run: &Run, process: u32, since: u64, at: Range) -> bool {
    let peer_of = |qp: &QueuePair| qp.peer.and_then(|peer| run.live_qp(peer));
    let is_posted = |qp: &QueuePair| {
        let writes = peer_of(qp).is_some_and(|peer| peer.process == process);
        qp.sends.pending().any(|send| {
            let reads = qp.process == process && send.is_read;
            writes && send.target.is_some_and(|target| overlap(target, at))
                || reads && send.sges.iter().any(|sge| overlap(range(sge), at))
        })
    };
    let regions = || run.regions.of_process(process);
    let is_far =
        |qp: &QueuePair| qp.process == process && qp.peer.is_some() && peer_of(qp).is_none();
    let known = run.processes.get(&process);
    known.is_some_and(|known| known.adapter_writes.since(since, at))
        || known.is_some_and(|known| known.written.shared(at).is_some())
        || run.live_qps().any(|(_, qp)| is_posted(qp))
        || regions().any(|region| region.is_elsewhere)
        // Writes of a peer on another host are not on record.
        || regions().any(|region| region.is_remote && overlap(region.range, at))
            && run.live_qps().any(|(_, qp)| is_far(qp))
}

impl Lookout for BufferEarly {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let What::Polled(polled) = &scene.entry.what else { return };
        for changed in &polled.changed {
            let Changed { qp, wr_id, address, length, unmapped, .. } = *changed;
            let Some(send) = send(scene, changed) else { continue };
            let at = (address, address.saturating_add(length.into()));
            let since = send.t.unwrap_or_default();
            if !unmapped && may_be_an_adapter(scene.run, scene.entry.process, since, at) {
                continue;
            }
            let became = if unmapped { "unmapped" } else { "changed" };
            let what = format!(
                "the buffer of a send (wr_id {wr_id:#x}, {length} bytes at {address:#x}) was {became} between the \
                 post and the poll of its completion"
            );
            let finding = scene.finds(Rule::BufferEarly, format!("qp {qp}"), what);
            found.push(Found { source: send.source.clone(), ..finding });
        }
    }
}
