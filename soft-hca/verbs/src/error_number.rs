//! Error numbers of refused calls.

use std::fmt;
use std::str::FromStr;

use crate::Unknown;

/// An error number of errno(3), as all architectures have it that take the generic ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorNumber(pub i32);

macro_rules! error_numbers {
    ($($name:ident = $number:literal)*) => {
        impl ErrorNumber {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub const $name: Self = Self($number);
            )*

            /// All that have a name: those that verbs have to do with, none of file systems or other
            /// parts of the system.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name, if it has one.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $( Self::$name => Some(stringify!($name)), )*
                    _ => None,
                }
            }
        }

        #[cfg(test)]
        const OF_LIBC: &[(&str, i32)] = &[$( (stringify!($name), libc::$name) ),*];
    };
}

error_numbers! {
    EPERM = 1 ENOENT = 2 ESRCH = 3 EINTR = 4 EIO = 5 ENXIO = 6 E2BIG = 7 EBADF = 9 EAGAIN = 11 ENOMEM = 12
    EACCES = 13 EFAULT = 14 EBUSY = 16 EEXIST = 17 ENODEV = 19 EINVAL = 22 ENFILE = 23 EMFILE = 24
    ENOTTY = 25 ENOSPC = 28 EPIPE = 32 EDOM = 33 ERANGE = 34 ENOSYS = 38 ENODATA = 61 ETIME = 62
    ENOLINK = 67 ECOMM = 70 EPROTO = 71 EBADMSG = 74 EOVERFLOW = 75 ERESTART = 85 EMSGSIZE = 90
    EPROTONOSUPPORT = 93 EOPNOTSUPP = 95 EAFNOSUPPORT = 97 EADDRINUSE = 98 EADDRNOTAVAIL = 99
    ENETDOWN = 100 ENETUNREACH = 101 ENETRESET = 102 ECONNABORTED = 103 ECONNRESET = 104 ENOBUFS = 105
    EISCONN = 106 ENOTCONN = 107 ESHUTDOWN = 108 ETIMEDOUT = 110 ECONNREFUSED = 111 EHOSTDOWN = 112
    EHOSTUNREACH = 113 EALREADY = 114 EINPROGRESS = 115 EREMOTEIO = 121 ECANCELED = 125
}

impl ErrorNumber {
    /// The one with a name; a number that has two is found by either.
    pub fn named(text: &str) -> Option<Self> {
        let name = if text == "ENOTSUP" { "EOPNOTSUPP" } else { text };
        Self::ALL.iter().copied().find(|error| error.name() == Some(name))
    }
}

/// The name, or `errno` and the number where there is none.
impl fmt::Display for ErrorNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for ErrorNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A name, or a number with or without `errno` before it.
impl FromStr for ErrorNumber {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let number = || text.strip_prefix("errno ").unwrap_or(text).parse().map(Self).ok();
        let error = Self::named(text).or_else(number);
        error.ok_or_else(|| Unknown { text: text.into(), kind: "errno(3)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_systems() {
        assert_eq!(OF_LIBC.len(), ErrorNumber::ALL.len());
        for ((name, number), error) in OF_LIBC.iter().zip(ErrorNumber::ALL) {
            assert_eq!((Some(*name), *number), (error.name(), error.0));
            assert_eq!(name.parse(), Ok(*error));
        }
    }

    #[test]
    fn a_number_without_a_name_is_one_all_the_same() {
        assert_eq!(ErrorNumber(200).to_string(), "errno 200");
        assert_eq!(
            ["errno 200", "200"].map(str::parse),
            [Ok(ErrorNumber(200)), Ok(ErrorNumber(200))]
        );
        assert_eq!("ENOTSUP".parse(), Ok(ErrorNumber::EOPNOTSUPP));
        assert!("ENOTHING".parse::<ErrorNumber>().is_err());
    }
}
