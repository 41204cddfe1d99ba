//! The page is read, and what was read is sent; the rule `race` knows whether the send waits for the read.

use soft_hca_record::check::Rule;
use soft_hca_verbs::WrOpcode;

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// Bytes of the page.
const LENGTH: u64 = 20;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let sends = run.sends(run.student);
    let of = |opcodes: &[WrOpcode]| {
        let chosen = sends.iter().filter(|(_, send)| opcodes.contains(&send.opcode));
        chosen.copied().collect::<Vec<_>>()
    };
    let reads = of(&[WrOpcode::RDMA_READ]);
    let messages = of(&[WrOpcode::SEND, WrOpcode::SEND_WITH_IMM]);
    let Some(&(read, _)) = reads.last() else {
        return wrong(
            words!("nothing was read of the peer's page", "没有读对端那一页内存里的任何东西"),
            [],
        );
    };
    for read in &reads {
        run.is_executed(*read)?;
    }
    let bytes: u64 = reads.iter().map(|(_, read)| read.length).sum();
    if bytes != LENGTH {
        let entries = reads.iter().map(|(index, _)| *index);
        return wrong(
            words!(
                "{bytes} bytes were read, and the page has {LENGTH}",
                "读了 {bytes} 字节，而那一页有 {LENGTH} 字节"
            ),
            entries,
        );
    }
    let Some(&message) = messages.last() else {
        return wrong(words!("what was read is not sent back", "读来的东西没有发回去"), [read]);
    };
    if message.0 < read {
        return wrong(
            words!("the page was sent before it was read", "还没有读那一页，就发送了"),
            [message.0, read],
        );
    }
    if run.finding(&[Rule::Race]).is_some() {
        return wrong(
            words!(
                "the send reads bytes that the read before it may still be writing: nothing has the one \
                 wait for the other",
                "发送请求读的字节，它前面的 RDMA 读可能还在写：没有什么让它等"
            ),
            [read, message.0],
        );
    }
    run.is_complete(message)
}
