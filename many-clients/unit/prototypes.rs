//! Unit tests of `src/prototypes.rs`.

use super::*;

#[test]
fn big_endian_on_the_wire() {
    let info = OurBufferInfo::new(0x708, 0x102, 0x304);
    assert_eq!(info.0, [0, 0, 0, 0, 0, 0, 7, 8, 0, 0, 1, 2, 0, 0, 3, 4]);
    assert_eq!((info.addr(), info.rkey()), (0x708, 0x304));

    let ack = OurAckInfo::new(0x708);
    assert_eq!(ack.0, [0, 0, 7, 8, 0, 0, 0, 0]);
    assert_eq!(ack.ack_count(), 0x708);
}
