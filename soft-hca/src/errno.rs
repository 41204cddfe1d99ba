//! Error numbers as the kernel answers them.

use std::fmt;

/// An error number, positive. What a refused command gives back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident),* $(,)?) => {
        impl Errno { $( #[doc = concat!("`", stringify!($name), "`")] pub const $name: Errno = Errno(libc::$name); )* }

        impl fmt::Debug for Errno {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $( Errno::$name => f.write_str(stringify!($name)), )*
                    Errno(other) => write!(f, "errno {other}"),
                }
            }
        }
    };
}

errnos!(
    EACCES,
    EADDRINUSE,
    EADDRNOTAVAIL,
    EAGAIN,
    EBADF,
    EBUSY,
    ECONNREFUSED,
    EFAULT,
    EINTR,
    EINVAL,
    EIO,
    ENETUNREACH,
    ENODATA,
    ENODEV,
    ENOENT,
    ENOMEM,
    ENOSPC,
    ENOSYS,
    ENOTTY,
    EOPNOTSUPP,
    EPERM,
    EPROTONOSUPPORT,
    ERESTART,
    ESRCH,
    ETIMEDOUT,
);

/// What a command gives: a value or an error number.
pub type Result<T, E = Errno> = std::result::Result<T, E>;
