//! Unit tests of `src/rdma_rc_example.rs`.

use super::*;

#[test]
fn record_as_c_lays_it_out() {
    let con_data = CmConData {
        addr: 0x0102_0304_0506_0708,
        rkey: 0x090a_0b0c,
        qp_num: 0x0d0e_0f10,
        lid: 0x1112,
        gid: [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34],
    };
    let record = con_data.to_network();
    assert!(record.iter().copied().eq(1..=34));
    assert_eq!(CmConData::from_network(&record), con_data);
}

#[test]
fn every_text_fits_in_the_buffer() {
    let buf = CArray::<u8>::calloc(MSG_SIZE).unwrap();
    for text in [MSG, RDMAMSGR, RDMAMSGW, MSG] {
        strcpy(&buf, text);
        assert_eq!(c_text(&buf), text);
    }
}

#[test]
fn texts_that_do_not_fit_are_cut() {
    let buf = CArray::<u8>::calloc(4).unwrap();
    strcpy(&buf, "too long");
    assert_eq!(c_text(&buf), "too ");
}
