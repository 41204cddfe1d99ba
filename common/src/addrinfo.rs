//! `getaddrinfo(3)` with its own error texts, which the standard library does not give.

use std::ffi::{CStr, CString, c_char, c_int};
use std::{fmt, ptr};

/// An error code of `getaddrinfo`, shown as `gai_strerror(3)` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaiError(pub i32);

impl fmt::Display for GaiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: gai_strerror returns a static string for every number.
        let text = unsafe { CStr::from_ptr(libc::gai_strerror(self.0)) };
        f.write_str(&text.to_string_lossy())
    }
}

impl std::error::Error for GaiError {}

/// The list that `getaddrinfo` gives; freed (`freeaddrinfo`) on drop.
#[derive(Debug)]
pub struct AddrInfo {
    first: *mut libc::addrinfo,
}

impl AddrInfo {
    /// `getaddrinfo(node, service, hints)`. A name with a NUL in it does not resolve.
    pub fn get(
        node: Option<&str>,
        service: Option<&str>,
        hints: &libc::addrinfo,
    ) -> Result<Self, GaiError> {
        let mut first = ptr::null_mut();
        let ret = with_c_names(node, service, |node, service| {
            // SAFETY: `with_c_names` passes C strings or null; the library writes the list.
            unsafe { libc::getaddrinfo(node, service, hints, &mut first) }
        });
        if ret != 0 { Err(GaiError(ret)) } else { Ok(Self { first }) }
    }

    /// The first entry's socket address (C: `aptr->ai_addr`); valid as long as the list.
    pub fn ai_addr(&self) -> *mut libc::sockaddr {
        // SAFETY: a successful getaddrinfo gives at least one entry.
        unsafe { (*self.first).ai_addr }
    }

    /// The entries, in the order in which they are to be tried.
    pub fn iter(&self) -> impl Iterator<Item = &libc::addrinfo> {
        // SAFETY: the list and what it points to live until drop.
        let first = unsafe { self.first.as_ref() };
        // SAFETY: as above; the list ends with a null pointer.
        std::iter::successors(first, |entry| unsafe { entry.ai_next.as_ref() })
    }
}

impl Drop for AddrInfo {
    fn drop(&mut self) {
        // SAFETY: came from getaddrinfo and is freed once.
        unsafe { libc::freeaddrinfo(self.first) }
    }
}

/// The return value of `call` for both names as C has them: NUL-terminated, or null. A name with a NUL in
/// it does not resolve, without a call.
pub(crate) fn with_c_names(
    node: Option<&str>,
    service: Option<&str>,
    call: impl FnOnce(*const c_char, *const c_char) -> c_int,
) -> c_int {
    let c_string = |text: Option<&str>| text.map(CString::new).transpose();
    let (Ok(node), Ok(service)) = (c_string(node), c_string(service)) else {
        return libc::EAI_NONAME;
    };
    let as_ptr = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |t| t.as_ptr());
    call(as_ptr(&node), as_ptr(&service))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::zeroed;

    fn stream_hints() -> libc::addrinfo {
        let mut hints: libc::addrinfo = zeroed();
        hints.ai_family = libc::AF_INET;
        hints.ai_socktype = libc::SOCK_STREAM;
        hints
    }

    #[test]
    fn numeric_address() {
        let list = AddrInfo::get(Some("127.0.0.1"), Some("80"), &stream_hints()).unwrap();
        assert_eq!(list.iter().count(), 1);
        // SAFETY: an AF_INET address, alive with the list.
        let address = unsafe { *list.ai_addr().cast::<libc::sockaddr_in>() };
        assert_eq!(u16::from_be(address.sin_port), 80);
        assert_eq!(u32::from_be(address.sin_addr.s_addr), 0x7f00_0001);
    }

    #[test]
    fn errors_have_their_own_texts() {
        let error = AddrInfo::get(Some("127.0.0.1"), Some("no such service"), &stream_hints());
        assert_eq!(error.unwrap_err().to_string(), "Servname not supported for ai_socktype");
        let error = AddrInfo::get(Some("a\0b"), None, &stream_hints());
        assert_eq!(error.unwrap_err().to_string(), "Name or service not known");
    }
}
