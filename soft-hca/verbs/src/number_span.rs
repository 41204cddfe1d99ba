//! Successive things of one kind by their numbers: send work requests of a queue pair, completions of a queue.

use std::fmt;
use std::num::{NonZeroU32, ParseIntError};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Successive numbers, of which the first thing of each object has 1. Written as `3`, `3-7`, or `3-` where there is no
/// last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u64", try_from = "u64")]
pub struct NumberSpan {
    first: NonZeroU32,
    /// Not less than the first; the highest number for no last one.
    last: NonZeroU32,
}

impl NumberSpan {
    /// All.
    pub const ALL: Self = Self { first: NonZeroU32::MIN, last: NonZeroU32::MAX };

    /// From the first number to the last one; none if there would be no number.
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

    /// Whether the one among them is meant before which an object had so many.
    #[must_use]
    pub const fn has(self, before: u32) -> bool {
        before >= self.first() - 1 && before < self.last()
    }
}

/// Both numbers as one, which is not 0.
impl From<NumberSpan> for u64 {
    fn from(numbers: NumberSpan) -> Self {
        Self::from(numbers.first()) << u32::BITS | Self::from(numbers.last())
    }
}

impl TryFrom<u64> for NumberSpan {
    type Error = NoNumbers;

    fn try_from(both: u64) -> Result<Self, NoNumbers> {
        Self::new((both >> u32::BITS) as u32, both as u32).ok_or(NoNumbers)
    }
}

impl fmt::Display for NumberSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { first, last } if first == last => write!(f, "{first}"),
            Self { first, last: NonZeroU32::MAX } => write!(f, "{first}-"),
            Self { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

/// Text that is no numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("numbers are from 1 on: N, FROM-TO, or FROM- for all from there on")]
pub struct NoNumbers;

impl From<ParseIntError> for NoNumbers {
    fn from(_: ParseIntError) -> Self {
        Self
    }
}

impl FromStr for NumberSpan {
    type Err = NoNumbers;

    fn from_str(text: &str) -> Result<Self, NoNumbers> {
        let (first, last) = match text.split_once('-') {
            None => (text.parse()?, text.parse()?),
            Some((first, "")) => (first.parse()?, u32::MAX),
            Some((first, last)) => (first.parse()?, last.parse()?),
        };
        Self::new(first, last).ok_or(NoNumbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for text in ["1-", "1", "3", "3-7", "4294967295"] {
            let numbers: NumberSpan = text.parse().unwrap();
            assert_eq!(numbers.to_string(), text);
            assert_eq!(NumberSpan::try_from(u64::from(numbers)), Ok(numbers));
        }
        assert_eq!("1-".parse(), Ok(NumberSpan::ALL));
        assert_eq!(NumberSpan::try_from(0), Err(NoNumbers));
        for text in ["", "-", "0", "0-3", "7-3", "-3", "3-7-9", "all", "4294967296"] {
            assert_eq!(text.parse::<NumberSpan>(), Err(NoNumbers), "{text}");
        }
    }

    #[test]
    fn they_have_what_comes_between() {
        let numbers = NumberSpan::new(3, 4).unwrap();
        let has: Vec<u32> = (0..6).filter(|before| numbers.has(*before)).collect();
        assert_eq!(has, [2, 3]);
        assert!(NumberSpan::ALL.has(0) && NumberSpan::ALL.has(u32::MAX - 1));
    }
}
