//! One message: posted once, met by the receive, its completion polled.

use soft_hca_verbs::WrOpcode;

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};

/// Bytes of the text.
const LENGTH: u64 = 11;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let (index, send) = run.only_send(run.student)?;
    if send.opcode != WrOpcode::SEND {
        return wrong(
            format!("the work request is an {}, not an IBV_WR_SEND", send.opcode),
            [index],
        );
    }
    if send.length != LENGTH {
        let length = send.length;
        return wrong(format!("the message has {length} bytes, and the text {LENGTH}"), [index]);
    }
    run.is_complete((index, send))
}
