//! The receive has as much room as the peer has said, in memory that is registered.

use soft_hca_record::arguments;

use crate::facts::{Run, key};
use crate::verdict::{Verdict, wrong};

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let receives = run.receives(run.student);
    let Some(&(index, receive)) = receives.first() else {
        return wrong("no receive was posted", []);
    };
    let regions = run.done(run.student, "ibv_reg_mr");
    for sge in &receive.sges {
        let is_its = |call: &_| key(call, "lkey") == Some(sge.lkey);
        let Some(&(at, call)) = regions.iter().find(|(_, call)| is_its(*call)) else {
            return wrong("the receive has a key that no region has", [index]);
        };
        let length = arguments::number(&call.args, "length").unwrap_or_default();
        if u64::from(sge.length) > length {
            return wrong(
                format!(
                    "the element goes beyond its region: it has {} bytes, and the region {length}",
                    sge.length
                ),
                [at, index],
            );
        }
    }
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
    if room > length {
        return wrong(
            format!("the receive has room for {room} bytes, although the peer has said {length}"),
            [index, sent],
        );
    }
    run.is_received(index)
}
