//! One receive of two elements, over which the adapter scatters header and data.

use soft_hca_verbs::{AccessFlags, WcStatus};

use crate::facts::{Run, access, key};
use crate::verdict::{Verdict, wrong};

/// Bytes of the header.
const HEADER: u32 = 8;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let receives = run.receives(run.student);
    let [(index, receive)] = receives[..] else {
        let count = receives.len();
        return wrong(
            format!("{count} receives were posted: one message goes into one receive"),
            receives.iter().map(|(index, _)| *index),
        );
    };
    let Some(&(sent, message)) = run.sends(run.peer).first() else {
        return wrong("the peer could not send: was the connection accepted?", [index]);
    };
    let (room, length) = (receive.length, message.length);
    if room < length {
        return wrong(
            format!("the receive has room for {room} bytes, and the message has {length}"),
            [index, sent],
        );
    }
    let [header, data] = receive.sges.as_slice() else {
        let count = receive.sges.len();
        return wrong(
            format!(
                "the receive has {count} element(s), for what belongs into two pieces of memory"
            ),
            [index],
        );
    };
    if header.length != HEADER {
        let length = header.length;
        return wrong(
            format!("the first element has {length} bytes, and the header has {HEADER}"),
            [index],
        );
    }
    if data.address == header.address + u64::from(HEADER) {
        return wrong(
            "the second element begins where the first ends: header and data are in one piece",
            [index],
        );
    }
    for (at, call) in run.done(run.student, "ibv_reg_mr") {
        let is_its = receive.sges.iter().any(|sge| Some(sge.lkey) == key(call, "lkey"));
        if is_its && !access(call).contains(AccessFlags::LOCAL_WRITE) {
            return wrong(
                "each region of the receive needs IBV_ACCESS_LOCAL_WRITE: the adapter writes to both",
                [at, index],
            );
        }
    }
    let completions = run.completions(run.student);
    let failed =
        completions.iter().find(|(_, completion)| completion.status == WcStatus::LOC_PROT_ERR);
    if let Some((at, completion)) = failed {
        return wrong(
            format!(
                "the receive fails with {}: has each element the key of its region?",
                completion.status
            ),
            [index, *at],
        );
    }
    run.is_received(index)
}
