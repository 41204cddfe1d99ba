//! Address handles by LID.
//!
//! rxe's provider looks for the Ethernet address of every destination, by a function of libibverbs
//! that knows none on InfiniBand. There is none to be found where a LID leads, and nobody needs it
//! here.

use std::ffi::{c_int, c_void};

use soft_hca_core::system::Next;

/// Where the LID of a `struct ibv_ah_attr` is.
const DLID: usize = 24;
/// No VLAN, as libibverbs has it.
const NO_VLAN: u16 = 0xffff;

/// `ibv_resolve_eth_l2_from_gid`: a destination that has a LID has an Ethernet address of zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(
    context: *mut c_void,
    attr: *mut c_void,
    eth_mac: *mut u8,
    vid: *mut u16,
) -> c_int {
    // SAFETY: the caller gives an address vector, which has its LID there.
    let dlid = unsafe { attr.cast::<u8>().add(DLID).cast::<u16>().read_unaligned() };
    if dlid != 0 {
        // SAFETY: the caller gives room for six bytes, and for a number or a null pointer.
        unsafe {
            eth_mac.write_bytes(0, 6);
            if !vid.is_null() {
                vid.write(NO_VLAN);
            }
        }
        return 0;
    }
    static REAL: Next = Next::of(c"ibv_resolve_eth_l2_from_gid", c"libibverbs.so.1");
    type Function = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut u8, *mut u16) -> c_int;
    let address = REAL.address();
    if address.is_null() {
        return libc::ENOSYS;
    }
    // SAFETY: the symbol is this function of libibverbs.
    let real = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
    // SAFETY: the caller keeps this function's contract, which is that of the C library's.
    unsafe { real(context, attr, eth_mac, vid) }
}
