//! Send work requests of a queue pair by their numbers.

use std::fmt;
use std::num::{NonZeroU32, ParseIntError};
use std::str::FromStr;

/// Successive send work requests of each queue pair, of which the first is 1. Written as `3`, `3-7`, or `3-` where
/// there is no last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSpan {
    first: NonZeroU32,
    /// Not less than the first; the highest number for no last one.
    last: NonZeroU32,
}

impl RequestSpan {
    /// All.
    pub const ALL: Self = Self { first: NonZeroU32::MIN, last: NonZeroU32::MAX };

    /// From the first number to the last one; none if that would be no request.
    #[must_use]
    pub fn new(first: u32, last: u32) -> Option<Self> {
        let first = NonZeroU32::new(first)?;
        NonZeroU32::new(last).filter(|last| *last >= first).map(|last| Self { first, last })
    }

    /// The first number.
    #[must_use]
    pub const fn first(self) -> u32 {
        self.first.get()
    }

    /// The last number.
    #[must_use]
    pub const fn last(self) -> u32 {
        self.last.get()
    }

    /// Whether the request is among them before which a queue pair had so many.
    #[must_use]
    pub const fn has(self, before: u32) -> bool {
        before >= self.first() - 1 && before < self.last()
    }

    /// Both numbers as one.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.first()) << u32::BITS | u64::from(self.last())
    }

    /// What [`to_bits`](Self::to_bits) has given; all for any other number.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self::new((bits >> u32::BITS) as u32, bits as u32).unwrap_or_default()
    }
}

impl Default for RequestSpan {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Display for RequestSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { first, last } if first == last => write!(f, "{first}"),
            Self { first, last: NonZeroU32::MAX } => write!(f, "{first}-"),
            Self { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

/// Text that names no requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("requests are numbers from 1 on: N, FROM-TO, or FROM- for all from there on")]
pub struct NoRequests;

impl From<ParseIntError> for NoRequests {
    fn from(_: ParseIntError) -> Self {
        Self
    }
}

impl FromStr for RequestSpan {
    type Err = NoRequests;

    fn from_str(text: &str) -> Result<Self, NoRequests> {
        let (first, last) = match text.split_once('-') {
            None => (text.parse()?, text.parse()?),
            Some((first, "")) => (first.parse()?, u32::MAX),
            Some((first, last)) => (first.parse()?, last.parse()?),
        };
        Self::new(first, last).ok_or(NoRequests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_they_are_written() {
        for text in ["1-", "1", "3", "3-7", "4294967295"] {
            let span: RequestSpan = text.parse().unwrap();
            assert_eq!(span.to_string(), text);
            assert_eq!(RequestSpan::from_bits(span.to_bits()), span);
        }
        assert_eq!("1-".parse(), Ok(RequestSpan::ALL));
        assert_eq!(RequestSpan::from_bits(0), RequestSpan::ALL);
        for text in ["", "-", "0", "0-3", "7-3", "-3", "3-7-9", "all", "4294967296"] {
            assert_eq!(text.parse::<RequestSpan>(), Err(NoRequests), "{text}");
        }
    }

    #[test]
    fn spans_have_their_requests() {
        let span = RequestSpan::new(3, 4).unwrap();
        let has: Vec<u32> = (0..6).filter(|before| span.has(*before)).collect();
        assert_eq!(has, [2, 3]);
        assert!(RequestSpan::ALL.has(0) && RequestSpan::ALL.has(u32::MAX - 1));
    }
}
