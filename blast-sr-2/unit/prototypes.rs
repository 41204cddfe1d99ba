//! Unit tests of `src/prototypes.rs`.

use super::*;

#[test]
fn numbers_go_in_network_byte_order() {
    let info =
        OurConnectInfo { remote_limit: 0x102, remote_data_size: 0x304, remote_n_data_buffers: 5 };
    let on_the_wire = info.to_private_data();
    let expected = [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5];
    assert_eq!(on_the_wire, expected);
    let read_back = OurConnectInfo::from_private_data(&on_the_wire);
    assert_eq!(read_back.remote_limit, info.remote_limit);
    assert_eq!(read_back.remote_data_size, info.remote_data_size);
    assert_eq!(read_back.remote_n_data_buffers, info.remote_n_data_buffers);

    let ack = OurAckInfo::new(0x708);
    assert_eq!(ack.0, [0, 0, 0, 0, 0, 0, 7, 8]);
    assert_eq!(ack.ack_count(), 0x708);
}
