//! The text is written into the peer's memory, and the peer is told after that.

use soft_hca_verbs::WrOpcode;

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// Bytes of the text.
const LENGTH: u64 = 22;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let sends = run.sends(run.student);
    let of = |opcodes: &[WrOpcode]| {
        let chosen = sends.iter().filter(|(_, send)| opcodes.contains(&send.opcode));
        chosen.copied().collect::<Vec<_>>()
    };
    let writes = of(&[WrOpcode::RDMA_WRITE, WrOpcode::RDMA_WRITE_WITH_IMM]);
    let tells = of(&[WrOpcode::SEND, WrOpcode::SEND_WITH_IMM, WrOpcode::RDMA_WRITE_WITH_IMM]);
    if writes.is_empty() {
        return match tells.iter().find(|(_, send)| send.length >= LENGTH) {
            Some((index, _)) => wrong(
                words!(
                    "the text was sent, not written: it went into the peer's receive, not to \
                     its page",
                    "文本是发送的，不是写入的：它进入了对端的接收请求，\
                     没有写到对端那一页内存里"
                ),
                [*index],
            ),
            None => wrong(
                words!("nothing was written into the peer's memory", "没有向对端的内存写任何东西"),
                [],
            ),
        };
    }
    for write in &writes {
        run.is_executed(*write)?;
    }
    let bytes: u64 = writes.iter().map(|(_, send)| send.length).sum();
    if bytes != LENGTH {
        let entries = writes.iter().map(|(index, _)| *index);
        return wrong(
            words!(
                "{bytes} bytes were written, and the text has {LENGTH}",
                "写了 {bytes} 字节，而文本有 {LENGTH} 字节"
            ),
            entries,
        );
    }
    let (Some(&(told, _)), Some(&(written, _))) = (tells.first(), writes.last()) else {
        let entries = writes.iter().map(|(index, _)| *index);
        return wrong(
            words!(
                "the peer is not told: a write gives no completion there, and nobody knows \
                 of it",
                "没有通知对端：写在那边不产生工作完成，没有谁知道"
            ),
            entries,
        );
    };
    if told < written {
        return wrong(
            words!(
                "the peer was told before the text was written: the message may be there first",
                "文本还没有写，就通知了对端：消息可能先到"
            ),
            [told, written],
        );
    }
    tells.last().map_or(Ok(()), |tell| run.is_complete(*tell))
}
