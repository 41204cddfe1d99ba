//! Error numbers and statuses by the names that programs have for them.

use std::fmt;
use std::str::FromStr;

macro_rules! errnos {
    ($($name:ident)*) => {
        /// Error numbers that calls may fail with: all of errno(3) but those of file systems and
        /// other parts of the system that no verb has to do with.
        const ERRNOS: &[(&str, i32)] = &[$((stringify!($name), libc::$name),)*];
    };
}

errnos!(
    E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EAGAIN EALREADY EBADF EBADMSG EBUSY ECANCELED
    ECOMM ECONNABORTED ECONNREFUSED ECONNRESET EDOM EEXIST EFAULT EHOSTDOWN EHOSTUNREACH EINPROGRESS
    EINTR EINVAL EIO EISCONN EMFILE EMSGSIZE ENETDOWN ENETRESET ENETUNREACH ENFILE ENOBUFS ENODATA
    ENODEV ENOENT ENOLINK ENOMEM ENOSPC ENOSYS ENOTCONN ENOTSUP ENOTTY ENXIO EOVERFLOW EPERM EPIPE
    EPROTO EPROTONOSUPPORT ERANGE EREMOTEIO ESHUTDOWN ESRCH ETIME ETIMEDOUT
);

/// An error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorNumber(pub i32);

impl ErrorNumber {
    pub(super) const WANTED: &str = "an error number is a name of errno(3) or from 1 to 4095";

    /// All names.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        ERRNOS.iter().map(|(name, _)| *name)
    }
}

impl FromStr for ErrorNumber {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some((_, number)) = ERRNOS.iter().find(|(name, _)| *name == text) {
            return Ok(Self(*number));
        }
        let is_number = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_number).filter(|n| (1..=4095).contains(n));
        number.map(Self).ok_or(())
    }
}

impl fmt::Display for ErrorNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ERRNOS.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

/// `enum ibv_wc_status` of `infiniband/verbs.h`, by its numbers, without `IBV_WC_`.
const STATUSES: [&str; 22] = [
    "SUCCESS",
    "LOC_LEN_ERR",
    "LOC_QP_OP_ERR",
    "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",
    "WR_FLUSH_ERR",
    "MW_BIND_ERR",
    "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",
    "REM_INV_REQ_ERR",
    "REM_ACCESS_ERR",
    "REM_OP_ERR",
    "RETRY_EXC_ERR",
    "RNR_RETRY_EXC_ERR",
    "LOC_RDD_VIOL_ERR",
    "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",
    "INV_EECN_ERR",
    "INV_EEC_STATE_ERR",
    "FATAL_ERR",
    "RESP_TIMEOUT_ERR",
    "GENERAL_ERR",
];

/// A completion's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    const PREFIX: &str = "IBV_WC_";
    pub(super) const WANTED: &str = "a status is a name of ibv_wc_status, as IBV_WC_WR_FLUSH_ERR";

    /// All names.
    pub(super) fn names() -> impl Iterator<Item = String> {
        STATUSES.iter().map(|name| format!("{}{name}", Self::PREFIX))
    }
}

impl FromStr for Status {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let name = text.strip_prefix(Self::PREFIX).unwrap_or(text);
        let number = STATUSES.iter().position(|status| *status == name);
        number.map(|number| Self(number as u32)).ok_or(())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match STATUSES.get(self.0 as usize) {
            Some(name) => write!(f, "{}{name}", Self::PREFIX),
            None => self.0.fmt(f),
        }
    }
}

/// The names that are most like what was written, at most three.
pub(super) fn like(text: &str, names: impl Iterator<Item = impl AsRef<str>>) -> Vec<String> {
    let mut near: Vec<(usize, String)> = names
        .map(|name| (strsim::levenshtein(text, name.as_ref()), name.as_ref().to_string()))
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(2))
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

/// A question whether one of these was meant, or nothing.
pub(super) fn question(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" ({}?)", names.join(" or ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        assert_eq!(like("ENOMEN", ErrorNumber::names())[0], "ENOMEM");
        assert!(like("NO_SUCH_THING", ErrorNumber::names()).is_empty());
    }
}
