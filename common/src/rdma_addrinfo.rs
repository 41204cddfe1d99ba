//! `rdma_getaddrinfo(3)`, whose list is freed when it goes out of scope.

use std::ffi::{CString, c_int};
use std::ops::Deref;
use std::ptr;

use rdma_sys::{rdma_addrinfo, rdma_freeaddrinfo, rdma_getaddrinfo};

/// What `rdma_getaddrinfo` gives; freed (`rdma_freeaddrinfo`) on drop. Dereferences to its first
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
        let c_string =
            |text: Option<&str>| text.map(CString::new).transpose().map_err(|_| libc::EAI_NONAME);
        let (node, service) = (c_string(node)?, c_string(service)?);
        let as_ptr = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |t| t.as_ptr());
        let mut first = ptr::null_mut();
        // SAFETY: both names are NUL-terminated or null, and live through the call.
        let ret = unsafe { rdma_getaddrinfo(as_ptr(&node), as_ptr(&service), hints, &mut first) };
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
