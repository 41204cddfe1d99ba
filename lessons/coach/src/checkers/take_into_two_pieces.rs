//! One receive of two elements, over which the adapter scatters header and data.

use soft_hca_verbs::{AccessFlags, WcStatus};

use crate::facts::{Run, access, key};
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// Bytes of the header.
const HEADER: u32 = 8;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let receives = run.receives(run.student);
    let [(index, receive)] = receives[..] else {
        let count = receives.len();
        return wrong(
            words!(
                "{count} receives were posted: one message goes into one receive",
                "提交了 {count} 个接收请求：一条消息只进入一个接收请求"
            ),
            receives.iter().map(|(index, _)| *index),
        );
    };
    let Some(&(sent, message)) = run.sends(run.peer).first() else {
        return wrong(
            words!(
                "the peer could not send: was the connection accepted?",
                "对端没能发送：连接被接受了吗？"
            ),
            [index],
        );
    };
    let (room, length) = (receive.length, message.length);
    if room < length {
        return wrong(
            words!(
                "the receive has room for {room} bytes, and the message has {length}",
                "接收请求只有 {room} 字节的空间，而消息有 {length} 字节"
            ),
            [index, sent],
        );
    }
    let [header, data] = receive.sges.as_slice() else {
        let count = receive.sges.len();
        return wrong(
            words!(
                "the receive has {count} element(s), for what belongs into two pieces of \
                 memory",
                "接收请求有 {count} 个元素，而消息要收进两块内存"
            ),
            [index],
        );
    };
    if header.length != HEADER {
        let length = header.length;
        return wrong(
            words!(
                "the first element has {length} bytes, and the header has {HEADER}",
                "第一个元素有 {length} 字节，而头部有 {HEADER} 字节"
            ),
            [index],
        );
    }
    if data.address == header.address + u64::from(HEADER) {
        return wrong(
            words!(
                "the second element begins where the first ends: header and data are in one \
                 piece",
                "第二个元素紧接着第一个：头部和数据在同一块内存里"
            ),
            [index],
        );
    }
    for (at, call) in run.done(run.student, "ibv_reg_mr") {
        let is_its = receive.sges.iter().any(|sge| Some(sge.lkey) == key(call, "lkey"));
        if is_its && !access(call).contains(AccessFlags::LOCAL_WRITE) {
            return wrong(
                words!(
                    "each region of the receive needs IBV_ACCESS_LOCAL_WRITE: the adapter \
                     writes to both",
                    "接收请求的每个内存区域都需要 IBV_ACCESS_LOCAL_WRITE：网卡要往两块里写"
                ),
                [at, index],
            );
        }
    }
    let completions = run.completions(run.student);
    let failed =
        completions.iter().find(|(_, completion)| completion.status == WcStatus::LOC_PROT_ERR);
    if let Some((at, completion)) = failed {
        return wrong(
            words!(
                "the receive fails with {status}: has each element the key of its region?",
                "接收请求失败，状态是 {status}：每个元素的密钥都是它自己内存区域的吗？",
                status = completion.status
            ),
            [index, *at],
        );
    }
    run.is_received(index)
}
