//! The receive has as much room as the peer has said, in memory that is registered.

use soft_hca_record::arguments;

use crate::facts::{Run, key};
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let receives = run.receives(run.student);
    let Some(&(index, receive)) = receives.first() else {
        return wrong(words!("no receive was posted", "没有提交接收请求"), []);
    };
    let regions = run.done(run.student, "ibv_reg_mr");
    for sge in &receive.sges {
        let is_its = |call: &_| key(call, "lkey") == Some(sge.lkey);
        let Some(&(at, call)) = regions.iter().find(|(_, call)| is_its(*call)) else {
            return wrong(
                words!(
                    "the receive has a key that no region has",
                    "接收请求的密钥不属于任何内存区域"
                ),
                [index],
            );
        };
        let length = arguments::number(&call.args, "length").unwrap_or_default();
        if u64::from(sge.length) > length {
            return wrong(
                words!(
                    "the element goes beyond its region: it has {bytes} bytes, and the \
                     region {length}",
                    "元素超出了它的内存区域：元素有 {bytes} 字节，\
                     内存区域只有 {length} 字节",
                    bytes = sge.length
                ),
                [at, index],
            );
        }
    }
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
    if room > length {
        return wrong(
            words!(
                "the receive has room for {room} bytes, although the peer has said {length}",
                "接收请求有 {room} 字节的空间，而对端说的是 {length} 字节"
            ),
            [index, sent],
        );
    }
    run.is_received(index)
}
