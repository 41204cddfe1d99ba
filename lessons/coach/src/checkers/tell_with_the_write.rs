//! One request that writes the text into the peer's memory, and tells its length by immediate data.

use soft_hca_record::arguments::value;
use soft_hca_record::entry::SendPosted;
use soft_hca_verbs::WrOpcode;

use crate::facts::{At, Run, given, key};
use crate::verdict::{Verdict, wrong};

/// Bytes of the text.
const LENGTH: u32 = 24;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let sends = run.sends(run.student);
    let entries = sends.iter().map(|(index, _)| *index);
    let [(index, send)] = sends[..] else {
        let count = sends.len();
        return match count {
            0 => wrong("nothing was written into the peer's memory", []),
            _ => wrong(
                format!(
                    "{count} work requests were posted: a write with immediate data tells by itself, and \
                     one is enough"
                ),
                entries,
            ),
        };
    };
    match send.opcode {
        WrOpcode::RDMA_WRITE_WITH_IMM => {}
        WrOpcode::RDMA_WRITE => {
            return wrong(
                "the peer is not told: a write without immediate data gives no completion there",
                [index],
            );
        }
        opcode => {
            return wrong(
                format!("an {opcode} goes into the peer's receive, and writes nothing to its page"),
                [index],
            );
        }
    }
    let length = send.length;
    if length == 0 {
        return wrong("the immediate data come without the text: 0 bytes were written", [index]);
    }
    if length != u64::from(LENGTH) {
        let what = format!("{length} bytes were written, and the text has {LENGTH}");
        return wrong(what, [index]);
    }
    let imm = send.imm.unwrap_or_default();
    if imm == LENGTH.swap_bytes() {
        return wrong(
            format!(
                "the immediate data are in host byte order: in network byte order they say {imm}, and the \
                 text has {LENGTH} bytes"
            ),
            [index],
        );
    }
    if imm != LENGTH {
        return wrong(
            format!("the immediate data say {imm}, and the text has {LENGTH} bytes"),
            [index],
        );
    }
    run.is_executed((index, send))?;
    run.is_complete((index, send))?;
    is_registered_until_polled(run, (index, send))
}

/// The region of what is written is there until the completion was polled.
fn is_registered_until_polled(run: &Run, (index, send): At<'_, SendPosted>) -> Verdict {
    let completion = run.request(index).completion;
    let polled = completion.and_then(|completion| run.polled(completion));
    for (_, region) in run.done(run.student, "ibv_reg_mr") {
        if !send.sges.iter().any(|sge| Some(sge.lkey) == key(region, "lkey")) {
            continue;
        }
        let mr = given(region, "mr");
        let mut gone = run.done(run.student, "ibv_dereg_mr").into_iter();
        let gone = gone.find(|(_, call)| value(&call.args, "mr") == mr);
        if let Some((at, _)) = gone.filter(|(at, _)| polled.is_none_or(|polled| *at < polled)) {
            return wrong(
                "the region is deregistered before the completion of the write was polled: until then the \
                 adapter may read from it",
                [Some(index), Some(at), polled].into_iter().flatten(),
            );
        }
    }
    Ok(())
}
