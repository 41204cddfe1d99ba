//! The choices that `--strict` makes by its seed.
//!
//! A choice of each kind has a kindest answer. A set says which are made by the seed, by their kinds and by the numbers of what
//! they are about; others get that answer.

use std::fmt;
use std::str::FromStr;

use crate::{NoNumbers, NumberSpan};

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
    /// Which datagrams are overtaken by those behind them.
    Reordered,
}

impl Choice {
    /// All kinds, in the order in which it is tried whether one is needed.
    pub const ALL: [Self; 12] = [
        Self::Rubbish,
        Self::Together,
        Self::Pause,
        Self::Poll,
        Self::Event,
        Self::Delay,
        Self::Interrupted,
        Self::Overtaken,
        Self::Reordered,
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
            Self::Reordered => "reordered",
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
            Self::Reordered => "datagrams come in another order",
        }
    }

    /// The things that it is about, each kind counted from 1 on for each object.
    pub const fn subject(self) -> Subject {
        match self {
            Self::Delay
            | Self::Early
            | Self::Together
            | Self::Lost
            | Self::Reordered
            | Self::Overtaken
            | Self::Landing
            | Self::Interrupted => Subject::Send,
            Self::Rubbish => Subject::Failure,
            Self::Poll => Subject::Completion,
            Self::Pause => Subject::ArmingOrReceive,
            Self::Event => Subject::Event,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Things that a choice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Send work requests of a queue pair.
    Send,
    /// Completions of a queue pair that have failed.
    Failure,
    /// Completions of a completion queue.
    Completion,
    /// Calls of `ibv_req_notify_cq` for a completion queue, and receives that are posted to a queue pair.
    ArmingOrReceive,
    /// Events of an id of the connection manager.
    Event,
}

impl Subject {
    /// Its name behind a number, with the object that has so many.
    pub const fn of_each(self) -> &'static str {
        match self {
            Self::Send => "send work request of each queue pair",
            Self::Failure => "failed completion of each queue pair",
            Self::Completion => "completion of each completion queue",
            Self::ArmingOrReceive => "arming of each completion queue, receive of each queue pair",
            Self::Event => "event of each id",
        }
    }
}

/// A set of choices: of each kind those about things with some numbers. Written as the kinds' names, separated by commas, each
/// with a colon and the numbers if these are not all; `none` for the empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices([Option<NumberSpan>; Choice::ALL.len()]);

/// The name of the empty set.
const NONE: &str = "none";

impl Choices {
    /// No choice.
    pub const NONE: Self = Self([None; Choice::ALL.len()]);
    /// Each.
    pub const ALL: Self = Self([Some(NumberSpan::ALL); Choice::ALL.len()]);

    /// The numbers of those things about which choices of a kind are made; none if none is.
    pub const fn of(&self, choice: Choice) -> Option<NumberSpan> {
        self.0[choice as usize]
    }

    /// Whether a choice of a kind is made about the thing before which its object had so many.
    pub fn has(&self, choice: Choice, before: u32) -> bool {
        self.of(choice).is_some_and(|numbers| numbers.has(before))
    }

    /// The set with these choices of a kind.
    #[must_use]
    pub const fn with(mut self, choice: Choice, numbers: Option<NumberSpan>) -> Self {
        self.0[choice as usize] = numbers;
        self
    }

    /// The set without a kind.
    #[must_use]
    pub const fn without(self, choice: Choice) -> Self {
        self.with(choice, None)
    }

    /// Its kinds, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Choice, NumberSpan)> {
        Choice::ALL.into_iter().filter_map(|choice| Some((choice, self.of(choice)?)))
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
        for (place, (choice, numbers)) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{choice}")?;
            if numbers != NumberSpan::ALL {
                write!(f, ":{numbers}")?;
            }
        }
        Ok(())
    }
}

/// Text that is no set of choices.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoChoices {
    /// A kind that there is not.
    #[error("'{0}' is no kind of choices: there are {names}, and none", names = Choices::ALL)]
    Kind(String),
    /// Numbers behind a kind that are none.
    #[error("{0}")]
    Numbers(#[from] NoNumbers),
}

impl FromStr for Choices {
    type Err = NoChoices;

    fn from_str(text: &str) -> Result<Self, NoChoices> {
        if text == NONE {
            return Ok(Self::NONE);
        }
        let mut choices = Self::NONE;
        for one in text.split(',') {
            let (name, numbers) = match one.split_once(':') {
                Some((name, numbers)) => (name, numbers.parse()?),
                None => (one, NumberSpan::ALL),
            };
            let found = Choice::ALL.into_iter().find(|choice| choice.name() == name);
            let found = found.ok_or_else(|| NoChoices::Kind(name.into()))?;
            choices = choices.with(found, Some(numbers));
        }
        Ok(choices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_as_they_are_written() {
        let numbers = NumberSpan::new(3, 7);
        for choice in Choice::ALL {
            let one: Choices = choice.name().parse().unwrap();
            assert!(one.iter().eq([(choice, NumberSpan::ALL)]));
            let others = Choices::ALL.without(choice);
            assert!(!others.has(choice, 0));
            assert_eq!(others.to_string().parse(), Ok(others));
            let some = Choices::ALL.with(choice, numbers);
            assert!(some.to_string().contains(&format!("{choice}:3-7")));
            assert_eq!(some.to_string().parse(), Ok(some));
            assert_eq!((some.has(choice, 1), some.has(choice, 2)), (false, true));
        }
        assert_eq!(Choices::ALL.iter().count(), Choice::ALL.len());
        assert_eq!(Choices::default(), Choices::ALL);
        assert_eq!("none".parse(), Ok(Choices::NONE));
        assert_eq!(Choices::NONE.to_string(), "none");
        assert_eq!("early:1,poll:2-".parse::<Choices>().unwrap().to_string(), "poll:2-,early:1");
        for (text, refused) in [
            ("late", NoChoices::Kind("late".into())),
            ("lost,", NoChoices::Kind(String::new())),
            ("lost:0", NoChoices::Numbers(NoNumbers)),
            ("lost:", NoChoices::Numbers(NoNumbers)),
        ] {
            assert_eq!(text.parse::<Choices>(), Err(refused));
        }
    }
}
