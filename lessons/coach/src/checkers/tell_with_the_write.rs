//! One request that writes the text into the peer's memory, and tells its length by immediate data.

use soft_hca_record::arguments::value;
use soft_hca_record::entry::SendPosted;
use soft_hca_verbs::WrOpcode;

use crate::facts::{At, Run, given, key};
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// Bytes of the text.
const LENGTH: u32 = 24;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let sends = run.sends(run.student);
    let entries = sends.iter().map(|(index, _)| *index);
    let [(index, send)] = sends[..] else {
        let count = sends.len();
        return match count {
            0 => wrong(
                words!("nothing was written into the peer's memory", "没有向对端的内存写任何东西"),
                [],
            ),
            _ => wrong(
                words!(
                    "{count} work requests were posted: a write with immediate data \
                     tells by itself, and one is enough",
                    "提交了 {count} 个工作请求：带立即数的写自己就会通知，一个就够了"
                ),
                entries,
            ),
        };
    };
    match send.opcode {
        WrOpcode::RDMA_WRITE_WITH_IMM => {}
        WrOpcode::RDMA_WRITE => {
            return wrong(
                words!(
                    "the peer is not told: a write without immediate data gives no \
                     completion there",
                    "没有通知对端：不带立即数的写，在那边不产生工作完成"
                ),
                [index],
            );
        }
        opcode => {
            return wrong(
                words!(
                    "an {opcode} goes into the peer's receive, and writes nothing to its page",
                    "{opcode} 进入对端的接收请求，并不写到它那一页内存里"
                ),
                [index],
            );
        }
    }
    let length = send.length;
    if length == 0 {
        return wrong(
            words!(
                "the immediate data come without the text: 0 bytes were written",
                "只有立即数，没有文本：写了 0 字节"
            ),
            [index],
        );
    }
    if length != u64::from(LENGTH) {
        let what = words!(
            "{length} bytes were written, and the text has {LENGTH}",
            "写了 {length} 字节，而文本有 {LENGTH} 字节"
        );
        return wrong(what, [index]);
    }
    let imm = send.imm.unwrap_or_default();
    if imm == LENGTH.swap_bytes() {
        return wrong(
            words!(
                "the immediate data are in host byte order: in network byte order they \
                 say {imm}, and the text has {LENGTH} bytes",
                "立即数用的是主机字节序：按网络字节序读出来是 {imm}，\
                 而文本有 {LENGTH} 字节"
            ),
            [index],
        );
    }
    if imm != LENGTH {
        return wrong(
            words!(
                "the immediate data say {imm}, and the text has {LENGTH} bytes",
                "立即数是 {imm}，而文本有 {LENGTH} 字节"
            ),
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
                words!(
                    "the region is deregistered before the completion of the write was \
                     polled: until then the adapter may read from it",
                    "还没有取走写的工作完成，就注销了内存区域：在那以前，网卡还可能从中读取"
                ),
                [Some(index), Some(at), polled].into_iter().flatten(),
            );
        }
    }
    Ok(())
}
