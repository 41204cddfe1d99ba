//! What a check has compared, and who is in the way, for who reads why a command was refused.

use std::fmt;

use soft_hca_verbs::QpState;
use zerocopy::{TryFromBytes, try_transmute};

use super::{Errno, Result};

/// What a value is: the discriminants are what is sent and traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes)]
#[repr(u32)]
pub enum Label {
    /// What the program has asked for.
    Asked = 1,
    /// The most that it could have asked for.
    Limit = 2,
    /// How many entries a table has.
    Entries = 3,
    /// A handle that the program has given.
    Handle = 4,
    /// `enum ibv_qp_state`: that of the queue pair.
    State = 5,
    /// `enum ibv_access_flags` that are too much.
    Access = 6,
    /// The number of a queue pair that has the object.
    Qp = 7,
    /// The handle of a memory region that has it.
    Mr = 8,
    /// Of a memory window.
    Mw = 9,
    /// Of an address handle.
    Ah = 10,
    /// The number of a shared receive queue.
    Srq = 11,
    /// How many more objects have it.
    More = 12,
}

impl Label {
    /// What it is called before its value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked for",
            Self::Limit => "limit",
            Self::Entries => "entries",
            Self::Handle => "handle",
            Self::State => "state",
            Self::Access => "flags",
            Self::Qp => "qp",
            Self::Mr => "mr",
            Self::Mw => "mw",
            Self::Ah => "ah",
            Self::Srq => "srq",
            Self::More => "more",
        }
    }
}

/// A few values with what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values([Option<(Label, u64)>; Values::MOST]);

impl Values {
    /// As many as a line can say.
    const MOST: usize = 4;

    /// These and no others.
    pub const fn of<const COUNT: usize>(values: [(Label, u64); COUNT]) -> Self {
        const { assert!(COUNT <= Self::MOST) };
        let mut all = [None; Self::MOST];
        let mut i = 0;
        while i < COUNT {
            all[i] = Some(values[i]);
            i += 1;
        }
        Self(all)
    }

    /// The first of many, and how many more there are.
    pub(crate) fn users(mut users: impl Iterator<Item = (Label, u64)>) -> Self {
        let mut all = [None; Self::MOST];
        all[..Self::MOST - 1].fill_with(|| users.next());
        let more = users.count() as u64;
        all[Self::MOST - 1] = (more > 0).then_some((Label::More, more));
        Self(all)
    }

    /// Each with its label.
    pub fn iter(&self) -> impl Iterator<Item = (Label, u64)> + '_ {
        self.0.iter().flatten().copied()
    }

    /// Bytes that [`Values::take`] reads.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = (self.iter().count() as u32).to_le_bytes().to_vec();
        for (label, value) in self.iter() {
            out.extend((label as u32).to_le_bytes());
            out.extend(value.to_le_bytes());
        }
        out
    }

    /// The values that bytes begin with, and what is behind them; `EINVAL` if there are none.
    pub fn take(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let (count, mut rest) = bytes.split_first_chunk().ok_or(Errno::EINVAL)?;
        let count = u32::from_le_bytes(*count) as usize;
        let mut all = [None; Self::MOST];
        for value in all.get_mut(..count).ok_or(Errno::EINVAL)? {
            let (number, behind) = rest.split_first_chunk().ok_or(Errno::EINVAL)?;
            let (bytes, behind) = behind.split_first_chunk().ok_or(Errno::EINVAL)?;
            let label = try_transmute!(u32::from_le_bytes(*number)).map_err(|_| Errno::EINVAL)?;
            *value = Some((label, u64::from_le_bytes(*bytes)));
            rest = behind;
        }
        Ok((Self(all), rest))
    }
}

/// As they stand behind the words of a check: nothing, or a colon and each.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (label, value)) in self.iter().enumerate() {
            f.write_str(if i == 0 { ": " } else { ", " })?;
            match label {
                Label::More => write!(f, "{value} more")?,
                Label::Access => write!(f, "{} {value:#x}", label.name())?,
                Label::State => match QpState(value as u32).short_name() {
                    Some(name) => write!(f, "{} {name}", label.name())?,
                    None => write!(f, "{} {value}", label.name())?,
                },
                _ => write!(f, "{} {value}", label.name())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_said_and_sent() {
        let limit = Values::of([(Label::Asked, 40000), (Label::Limit, 32767)]);
        assert_eq!(limit.to_string(), ": asked for 40000, limit 32767");
        let users =
            [(Label::Qp, 17), (Label::Mr, 3), (Label::Mr, 4), (Label::Ah, 5), (Label::Ah, 6)];
        let users = Values::users(users.into_iter());
        assert_eq!(users.to_string(), ": qp 17, mr 3, mr 4, 2 more");
        assert_eq!(Values::users([(Label::Qp, 17)].into_iter()).to_string(), ": qp 17");
        assert_eq!(Values::of([(Label::State, 1)]).to_string(), ": state INIT");
        assert_eq!(Values::default().to_string(), "");
        for values in [limit, users, Values::default()] {
            let mut bytes = values.encode();
            bytes.push(9);
            assert_eq!(Values::take(&bytes), Ok((values, &[9][..])));
            assert!((0..bytes.len() - 1).all(|end| Values::take(&bytes[..end]).is_err()));
        }
        assert!(Values::take(&[5, 0, 0, 0]).is_err() && Values::take(&[1, 0, 0, 0, 99]).is_err());
        for number in 1..=12u32 {
            let label: Label = try_transmute!(number).unwrap();
            assert_eq!(label as u32, number);
        }
        assert!(
            [0, 13]
                .into_iter()
                .all(|other: u32| Label::try_read_from_bytes(&other.to_ne_bytes()).is_err())
        );
    }
}
