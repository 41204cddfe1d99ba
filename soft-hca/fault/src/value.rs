//! Probabilities and durations.

use std::fmt;
use std::str::FromStr;

use super::random::Random;

/// How likely something is, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Probability(u32);

impl Probability {
    const ALWAYS: u32 = 1_000_000;
    /// Digits behind a percentage's point.
    const DIGITS: usize = 4;
    pub(super) const WANTED: &str = "a probability is 1% or 0.05%, to 0.0001%";

    /// One of a million numbers from 0 on decides.
    pub(super) fn takes(self, of_a_million: u64) -> bool {
        of_a_million < u64::from(self.0)
    }

    /// From millionths.
    #[cfg(test)]
    pub(super) fn new(millionths: u32) -> Self {
        Self(millionths.min(Self::ALWAYS))
    }
}

impl FromStr for Probability {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let percent = text.strip_suffix('%').ok_or(())?;
        let (whole, fraction) = percent.split_once('.').unwrap_or((percent, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > Self::DIGITS {
            return Err(());
        }
        let number: u32 =
            format!("{whole}{fraction:0<width$}", width = Self::DIGITS).parse().map_err(drop)?;
        if number <= Self::ALWAYS { Ok(Self(number)) } else { Err(()) }
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:04}", self.0 / 10_000, self.0 % 10_000);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A duration, at most an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration {
    /// Nanoseconds.
    pub ns: u64,
}

/// A duration, or any between two, one of which is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    least: Duration,
    most: Duration,
}

impl Delay {
    pub(super) const WANTED: &str =
        "it is a duration, as 200us, 5ms or 1s, up to 3600s, or two, as 10ms..1s";

    /// The shortest; of one that is drawn, the one.
    pub fn least(self) -> Duration {
        self.least
    }

    /// One of those that it may be.
    #[must_use]
    pub fn drawn(self, random: &mut Random) -> Self {
        let ns = self.least.ns + random.below(self.most.ns - self.least.ns + 1);
        Self::from(Duration { ns })
    }
}

impl From<Duration> for Delay {
    fn from(duration: Duration) -> Self {
        Self { least: duration, most: duration }
    }
}

impl FromStr for Delay {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let Some((least, most)) = text.split_once("..") else {
            return text.parse().map(Duration::into);
        };
        let (least, most) = (least.parse()?, most.parse()?);
        if least <= most { Ok(Self { least, most }) } else { Err(()) }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.least)?;
        if self.most == self.least { Ok(()) } else { write!(f, "..{}", self.most) }
    }
}

const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

impl Duration {
    const MAX_NS: u64 = 3_600_000_000_000;
    pub(super) const WANTED: &str = "a duration is 200us, 5ms or 1s, up to 3600s";
}

impl FromStr for Duration {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let end = text.find(|c: char| !c.is_ascii_digit()).ok_or(())?;
        let (number, unit) = text.split_at(end);
        let (_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(())?;
        let ns = number.parse::<u64>().map_err(drop)?.checked_mul(*unit_ns).ok_or(())?;
        if ns <= Self::MAX_NS { Ok(Self { ns }) } else { Err(()) }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, unit_ns): &&(&str, u64)| self.ns % *unit_ns == 0;
        let (unit, unit_ns) = UNITS.iter().rev().find(fits).unwrap_or(&UNITS[0]);
        write!(f, "{}{unit}", self.ns / unit_ns)
    }
}
