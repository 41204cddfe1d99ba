//! Error numbers as the kernel answers them, with the reason that the kernel keeps to itself.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use soft_hca_verbs::ErrorNumber;

pub use soft_hca_verbs::{ObjectKind, Refusal};

mod values;

pub use values::{Label, Values};

/// The result of a refused command. Two with the same number are equal, whatever the reason.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Errno {
    #[serde(deserialize_with = "positive")]
    number: i32,
    reason: Option<Refusal>,
    values: Values,
}

impl Errno {
    /// An error number, positive.
    pub const fn new(number: i32) -> Self {
        Self { number, reason: None, values: Values::of([]) }
    }

    /// The same with the check that failed, which the log and the record name.
    pub const fn because(self, reason: Refusal) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// The same with what the check has compared. It becomes text only where somebody reads it.
    pub const fn with(self, values: Values) -> Self {
        Self { values, ..self }
    }

    /// The same of a check that a number is not beyond a limit.
    pub const fn beyond(self, requested: u64, limit: u64) -> Self {
        self.with(Values::of([(Label::Requested, requested), (Label::Limit, limit)]))
    }

    /// The same, for an object that still has users; no refusal without any.
    pub fn unless_unused(self, users: impl Iterator<Item = (Label, u64)>) -> Result<()> {
        let users = Values::users(users);
        ensure(users == Values::default(), self.with(users))
    }

    /// The values that the check has compared.
    pub const fn values(self) -> Values {
        self.values
    }

    /// The number, positive.
    pub const fn number(self) -> i32 {
        self.number
    }

    /// The check that failed and what it has compared, as bytes that [`Errno::explained`] reads.
    pub fn explanation(self) -> Vec<u8> {
        postcard::to_allocvec(&(self.reason, self.values)).expect("bytes of any length are taken")
    }

    /// The same with the check that failed and what it has compared; `EINVAL` if bytes are not those.
    pub fn explained(self, bytes: &[u8]) -> Result<Self> {
        let (reason, values) = decode(bytes)?;
        Ok(Self { reason, values, ..self })
    }

    /// The check that failed, if it is known.
    pub const fn reason(self) -> Option<Refusal> {
        self.reason
    }
}

impl PartialEq for Errno {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Errno {}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ErrorNumber(self.number).fmt(f)
    }
}

macro_rules! errnos {
    ($($name:ident),* $(,)?) => {
        impl Errno {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub const $name: Errno = Errno::new(ErrorNumber::$name.0);
            )*

            /// The names of all that commands are refused with.
            #[cfg(test)]
            const NAMES: &[&'static str] = &[$( stringify!($name) ),*];
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
    EISCONN,
    EMFILE,
    ENETUNREACH,
    ENODATA,
    ENODEV,
    ENOENT,
    ENOMEM,
    ENOSPC,
    ENOSYS,
    ENOTTY,
    ENXIO,
    EOPNOTSUPP,
    EPERM,
    EPROTONOSUPPORT,
    ERESTART,
    ESRCH,
    ETIMEDOUT,
);

/// The result of a command: a value or an error number.
pub type Result<T, E = Errno> = std::result::Result<T, E>;

/// Reads an error number: 0 would be none.
fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let number = i32::deserialize(from)?;
    if number > 0 { Ok(number) } else { Err(D::Error::custom("error numbers are positive")) }
}

/// Reads a value from [postcard](https://postcard.jamesmunns.com)'s bytes; `EINVAL` if these are not one's, or more.
pub fn decode<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(Errno::EINVAL),
    }
}

/// Refuses with `error` unless the condition holds.
pub fn ensure(condition: bool, error: Errno) -> Result<()> {
    if condition { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests;
