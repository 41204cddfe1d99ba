//! Unit tests of `src/process_completions.rs`.

use super::*;
use common::memory::CArray;

#[test]
fn a_list_is_linked_in_order() {
    let requests = CArray::<ibv_send_wr>::calloc(3).unwrap();
    let mut list = OurSendWorkRequestList::default();
    assert_eq!(our_get_from_work_request_list(&mut list), None);
    for request in requests.iter() {
        our_add_to_work_request_list(&mut list, request);
    }
    assert_eq!(list.size, 3);
    // SAFETY: alive, and only this test uses it.
    let next = |i: usize| unsafe { (*requests[i].as_ptr()).next };
    assert_eq!(next(0), requests[1].as_ptr());
    assert_eq!(next(1), requests[2].as_ptr());
    assert!(next(2).is_null());

    // out at the front, on its own; in at the back
    assert_eq!(our_get_from_work_request_list(&mut list), Some(requests[0].as_ptr()));
    assert!(next(0).is_null());
    our_add_to_work_request_list(&mut list, &requests[0]);
    assert_eq!(next(2), requests[0].as_ptr());
    for i in [1, 2, 0] {
        assert_eq!(our_get_from_work_request_list(&mut list), Some(requests[i].as_ptr()));
    }
    assert_eq!(our_get_from_work_request_list(&mut list), None);
}
