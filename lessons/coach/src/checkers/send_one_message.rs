//! One message: posted once, met by the receive, its completion polled.

use soft_hca_verbs::WrOpcode;

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// Bytes of the text.
const LENGTH: u64 = 11;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let (index, send) = run.only_send(run.student)?;
    if send.opcode != WrOpcode::SEND {
        return wrong(
            words!(
                "the work request is an {opcode}, not an IBV_WR_SEND",
                "这个工作请求是 {opcode}，应该是 IBV_WR_SEND",
                opcode = send.opcode
            ),
            [index],
        );
    }
    if send.length != LENGTH {
        let length = send.length;
        return wrong(
            words!(
                "the message has {length} bytes, and the text {LENGTH}",
                "消息有 {length} 字节，而文本有 {LENGTH} 字节"
            ),
            [index],
        );
    }
    run.is_complete((index, send))
}
