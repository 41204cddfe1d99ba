//! `rdma_getaddrinfo(3)`, whose list is freed when it goes out of scope.

use std::ffi::c_int;
use std::ops::Deref;
use std::ptr;

use rdma_sys::{rdma_addrinfo, rdma_freeaddrinfo, rdma_getaddrinfo};

use crate::addrinfo::with_c_names;

/// The list that `rdma_getaddrinfo` gives; freed (`rdma_freeaddrinfo`) on drop. Dereferences to its first
/// entry.
pub struct RdmaAddrInfo {
    first: *mut rdma_addrinfo,
}

impl RdmaAddrInfo {
    /// `rdma_getaddrinfo(node, service, hints)`. An error is what the call returns: -1 with
    /// `errno`, or an error code of `getaddrinfo(3)`. A name with a NUL in it does not resolve.
    pub fn get(
        node: Option<&str>,
        service: Option<&str>,
        hints: &rdma_addrinfo,
    ) -> Result<Self, c_int> {
        let mut first = ptr::null_mut();
        let ret = with_c_names(node, service, |node, service| {
            // SAFETY: `with_c_names` passes C strings or null; the library writes the list.
            unsafe { rdma_getaddrinfo(node, service, hints, &mut first) }
        });
        if ret != 0 { Err(ret) } else { Ok(Self { first }) }
    }

    /// The first entry as the library takes it, not null; valid as long as the list.
    pub fn as_ptr(&self) -> *mut rdma_addrinfo {
        self.first
    }
}

impl Deref for RdmaAddrInfo {
    type Target = rdma_addrinfo;

    fn deref(&self) -> &rdma_addrinfo {
        // SAFETY: a successful rdma_getaddrinfo gives at least one entry, which lives until drop.
        unsafe { &*self.first }
    }
}

impl Drop for RdmaAddrInfo {
    fn drop(&mut self) {
        // SAFETY: came from rdma_getaddrinfo and is freed once.
        unsafe { rdma_freeaddrinfo(self.first) }
    }
}
