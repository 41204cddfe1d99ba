//! Unit tests of `src/process_completions.rs`.

use super::*;
use common::memory::CArray;

#[test]
fn a_list_is_linked_in_order() {
    let requests = CArray::<ibv_send_wr>::calloc(3).unwrap();
    let mut list = OurSendWorkRequestList::default();
    for i in [2, 0, 1] {
        our_add_to_work_request_list(&mut list, &requests[i]);
    }
    assert_eq!((list.head, list.tail), (requests[2].as_ptr(), requests[1].as_ptr()));
    assert_eq!(list.size, 3);
    // SAFETY: alive, and only this test uses it.
    let next = |i: usize| unsafe { (*requests[i].as_ptr()).next };
    assert_eq!(next(2), requests[0].as_ptr());
    assert_eq!(next(0), requests[1].as_ptr());
    assert!(next(1).is_null());

    // a request that was in the midst of an old list ends a new one
    list = OurSendWorkRequestList::default();
    our_add_to_work_request_list(&mut list, &requests[0]);
    assert_eq!((list.head, list.tail), (requests[0].as_ptr(), requests[0].as_ptr()));
    assert!(next(0).is_null());
}
