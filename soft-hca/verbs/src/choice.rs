//! The choices that `--strict` makes by its seed.
//!
//! A choice of each kind has a kindest answer. A set of kinds says which are made by the seed; others get that answer.

use std::fmt;
use std::str::FromStr;

/// A kind of choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// For how long a request is put off; else for 20 us.
    Delay,
    /// Which pieces of a message come early, and in which order.
    Early,
    /// How many requests are executed at once; else one.
    Together,
    /// Which datagrams are lost.
    Lost,
    /// Which requests overtake a read or an atomic operation.
    Overtaken,
    /// Which RDMA writes come to the peer's memory after their completion.
    Landing,
    /// Which atomic operations take so long that the processor may change the word.
    Interrupted,
    /// Contents of those fields of a failed completion that are not valid.
    Rubbish,
    /// Which polls find nothing yet.
    Poll,
    /// Which threads are stopped, and for how long.
    Pause,
    /// For how long connection events are put off; else not at all.
    Event,
}

impl Choice {
    /// All kinds, in the order in which it is tried whether one is needed.
    pub const ALL: [Self; 11] = [
        Self::Rubbish,
        Self::Together,
        Self::Pause,
        Self::Poll,
        Self::Event,
        Self::Delay,
        Self::Interrupted,
        Self::Overtaken,
        Self::Lost,
        Self::Landing,
        Self::Early,
    ];

    /// Its name on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Early => "early",
            Self::Together => "together",
            Self::Lost => "lost",
            Self::Overtaken => "overtaken",
            Self::Landing => "landing",
            Self::Interrupted => "interrupted",
            Self::Rubbish => "rubbish",
            Self::Poll => "poll",
            Self::Pause => "pause",
            Self::Event => "event",
        }
    }

    /// Its effect, as a sentence without its full stop.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Delay => "requests take longer, some more than others",
            Self::Early => "some bytes of a message are in memory before the others",
            Self::Together => "several requests of a send queue complete at once",
            Self::Lost => "a datagram is lost",
            Self::Overtaken => {
                "a request without IBV_SEND_FENCE overtakes the read or atomic operation before it"
            }
            Self::Landing => "an RDMA write completes before its bytes are in the peer's memory",
            Self::Interrupted => {
                "the processor changes a word between the read and the write of an atomic operation"
            }
            Self::Rubbish => "fields of a failed completion that are not valid hold anything",
            Self::Poll => "ibv_poll_cq finds a completion only when it is called again",
            Self::Pause => "a thread is stopped before ibv_req_notify_cq or ibv_post_recv",
            Self::Event => {
                "events of the connection manager come late, those of several ids in any order"
            }
        }
    }

    /// Whether it is about a send work request.
    pub const fn is_of_request(self) -> bool {
        match self {
            Self::Delay
            | Self::Early
            | Self::Together
            | Self::Lost
            | Self::Overtaken
            | Self::Landing
            | Self::Interrupted => true,
            Self::Rubbish | Self::Poll | Self::Pause | Self::Event => false,
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of kinds, written as their names, separated by commas; `none` for the empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices(u32);

/// The name of the empty set.
const NONE: &str = "none";

impl Choices {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// Each.
    pub const ALL: Self = Self((1 << Choice::ALL.len()) - 1);

    /// Whether a kind is one of them.
    pub const fn has(self, choice: Choice) -> bool {
        self.0 & choice.bit() != 0
    }

    /// The set without a kind.
    #[must_use]
    pub const fn without(self, choice: Choice) -> Self {
        Self(self.0 & !choice.bit())
    }

    /// Its kinds.
    pub fn iter(self) -> impl Iterator<Item = Choice> {
        Choice::ALL.into_iter().filter(move |choice| self.has(*choice))
    }

    /// A bit for each kind that is none of them: 0 if all are.
    pub const fn others(self) -> u32 {
        Self::ALL.0 & !self.0
    }

    /// The set with these [`others`](Self::others).
    pub const fn of_others(others: u32) -> Self {
        Self(Self::ALL.0 & !others)
    }
}

impl Default for Choices {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return f.write_str(NONE);
        }
        for (number, choice) in self.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{choice}")?;
        }
        Ok(())
    }
}

/// A kind that there is not.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no kind of choices: there are {names}, and none", names = Choices::ALL)]
pub struct UnknownChoice(String);

impl FromStr for Choices {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, UnknownChoice> {
        if text == NONE {
            return Ok(Self::NONE);
        }
        let mut choices = Self::NONE;
        for name in text.split(',') {
            let found = Choice::ALL.into_iter().find(|choice| choice.name() == name);
            choices.0 |= found.ok_or_else(|| UnknownChoice(name.into()))?.bit();
        }
        Ok(choices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_as_they_are_written() {
        for choice in Choice::ALL {
            let one: Choices = choice.name().parse().unwrap();
            assert!(one.iter().eq([choice]));
            let others = Choices::ALL.without(choice);
            assert!(!others.has(choice));
            assert_eq!(others.to_string().parse(), Ok(others));
            assert_eq!(Choices::of_others(others.others()), others);
        }
        assert_eq!(Choices::ALL.iter().count(), Choice::ALL.len());
        assert_eq!((Choices::ALL.others(), Choices::default()), (0, Choices::ALL));
        assert_eq!("none".parse(), Ok(Choices::NONE));
        assert_eq!(Choices::NONE.to_string(), "none");
        assert_eq!("late".parse::<Choices>(), Err(UnknownChoice("late".into())));
        assert!("".parse::<Choices>().is_err() && "lost,".parse::<Choices>().is_err());
    }
}
