//! One message of two elements, gathered by the adapter.

use crate::facts::Run;
use crate::verdict::{Verdict, wrong};

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
            format!("the message has {length} bytes, and header and data have {whole}"),
            [index],
        );
    }
    if lengths.len() == 1 {
        return wrong(
            "the message was sent from one piece of memory: to copy header and data there is the work that \
             the adapter can save",
            [index],
        );
    }
    if lengths != LENGTHS {
        return wrong(
            format!("the elements have {lengths:?} bytes, and header and data {LENGTHS:?}"),
            [index],
        );
    }
    run.is_complete((index, send))
}
