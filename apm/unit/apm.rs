//! Unit tests of `src/apm.rs`.

use std::hint::black_box;

use rdma_sys::param_t;

use super::*;

/// A request that brings this private data.
fn event(private_data: &[u8]) -> rdma_cm_event {
    let mut conn: rdma_conn_param = zeroed();
    conn.private_data = private_data.as_ptr().cast();
    conn.private_data_len = private_data.len() as u8;
    rdma_cm_event {
        id: ptr::null_mut(),
        listen_id: ptr::null_mut(),
        event: rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST,
        status: 0,
        param: param_t { conn },
    }
}

#[test]
fn the_lid_comes_in_network_byte_order() {
    assert_eq!(get_alt_dlid_from_private_data(&event(&[1, 2, 0, 0])), Ok(0x102));
    assert_eq!(get_alt_dlid_from_private_data(&event(&[1, 2, 0])), Err(-1));
}

#[test]
fn a_failed_completion_is_a_failure() {
    let mut wc: ibv_wc = zeroed();
    assert_eq!(check_completion("test", &wc), Ok(()));
    wc.status = ibv_wc_status::IBV_WC_WR_FLUSH_ERR;
    assert_eq!(check_completion("test", &wc), Err(-1));
}

#[test]
fn memory_beyond_any_is_refused() {
    assert_eq!(malloc(0).map(|buf| buf.len()), Ok(1));
    // memory that nobody looks at need not be asked for
    assert_eq!(black_box(malloc(usize::MAX)).map(|buf| buf.len()), Err(-1));
}
