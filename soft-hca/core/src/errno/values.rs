//! Values that a check has compared, and objects that are in the way: part of the reason why a command was refused.

use std::fmt;

use serde::{Deserialize, Serialize};
use soft_hca_verbs::QpState;

/// The meaning of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Label {
    /// The value that the program has requested.
    Requested,
    /// The most that it could have asked for.
    Limit,
    /// How many entries a table has.
    Entries,
    /// A handle that the program has given.
    Handle,
    /// `enum ibv_qp_state`: that of the queue pair.
    State,
    /// `enum ibv_access_flags` that are too much.
    Access,
    /// The number of a queue pair that has the object.
    Qp,
    /// The handle of a memory region that has it.
    Mr,
    /// Of a memory window.
    Mw,
    /// Of an address handle.
    Ah,
    /// The number of a shared receive queue.
    Srq,
    /// How many more objects have it.
    More,
}

impl Label {
    /// The name that stands before its value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    fn values_are_said() {
        let limit = Values::of([(Label::Requested, 40000), (Label::Limit, 32767)]);
        assert_eq!(limit.to_string(), ": requested 40000, limit 32767");
        let users =
            [(Label::Qp, 17), (Label::Mr, 3), (Label::Mr, 4), (Label::Ah, 5), (Label::Ah, 6)];
        let users = Values::users(users.into_iter());
        assert_eq!(users.to_string(), ": qp 17, mr 3, mr 4, 2 more");
        assert_eq!(Values::users([(Label::Qp, 17)].into_iter()).to_string(), ": qp 17");
        assert_eq!(Values::of([(Label::State, 1)]).to_string(), ": state INIT");
        assert_eq!(Values::default().to_string(), "");
    }
}
