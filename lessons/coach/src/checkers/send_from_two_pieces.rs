//! One message of two elements, gathered by the adapter.

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};
use crate::words::words;

/// Bytes of header and data.
const LENGTHS: [u32; 2] = [8, 22];

/// The lesson's checker.
pub fn check(run: &Run) -> Verdict {
    let (index, send) = run.only_send(run.student)?;
    let lengths: Vec<u32> = send.sges.iter().map(|sge| sge.length).collect();
    let whole: u32 = LENGTHS.iter().sum();
    if send.length != u64::from(whole) {
        let length = send.length;
        return wrong(
            words!(
                "the message has {length} bytes, and header and data have {whole}",
                "消息有 {length} 字节，而头部和数据共有 {whole} 字节"
            ),
            [index],
        );
    }
    if lengths.len() == 1 {
        return wrong(
            words!(
                "the message was sent from one piece of memory: to copy header and data \
                 there is the work that the adapter can save",
                "消息是从一块内存发出的：把头部和数据拷到一起，正是网卡可以省去的工作"
            ),
            [index],
        );
    }
    if lengths != LENGTHS {
        return wrong(
            words!(
                "the elements have {lengths:?} bytes, and header and data {LENGTHS:?}",
                "各元素的字节数是 {lengths:?}，而头部和数据是 {LENGTHS:?}"
            ),
            [index],
        );
    }
    run.is_complete((index, send))
}
