//! Automatic path migration as a state machine: IBTA 17.2.8, `enum ib_mig_state`.
//!
//! ```text
//!               program: REARM, with an alternate path
//!      .------------------------------------------------.
//!      |                                                v
//!  MIGRATED                                           REARM <----------------.
//!      ^                                                |                    |
//!      |  program: MIGRATED;                            |  the peer has an   | program: REARM,
//!      |  the primary path is lost;                     v  alternate, too    | with another path
//!      '---------- the peer has migrated ------------ ARMED -----------------'
//! ```
//!
//! A queue pair that migrates has the alternate path as its primary one, and no alternate. Adapters tell each
//! other by a bit of each packet, the migration request; here the daemon knows both ends.

use soft_hca_core::errno::{Errno, Refusal, Result};

/// Where a queue pair is in its migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// It uses its primary path, and has no other. The migration request bit is set.
    #[default]
    Migrated = 0,
    /// It has an alternate path, and waits until its peer has one.
    Rearm = 1,
    /// Both ends have an alternate path.
    Armed = 2,
}

/// An event of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The program asks for this state. `has_path`: it has an alternate path now.
    Requested { number: u8, has_path: bool },
    /// The peer has an alternate path: its packets come without the bit.
    PeerIsReady,
    /// The peer has migrated: its packets come with the bit. `is_alternate`: by the path that is
    /// the alternate one here.
    PeerMigrated { is_alternate: bool },
    /// Nothing gets through by the primary path.
    PathLost,
}

/// The outcome of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The queue pair is in this state, by the path that it had.
    Stays(State),
    /// The alternate path becomes the primary one: `IBV_EVENT_PATH_MIG`.
    Migrates,
    /// The peer has migrated to another path than the alternate one: `IBV_EVENT_PATH_MIG_ERR`.
    Mismatch,
}

impl State {
    /// The outcome of an event in this state; `EINVAL` for what a program may not ask for.
    pub(crate) fn after(self, event: Event) -> Result<Outcome> {
        let refuse = |reason| Err(Errno::EINVAL.because(reason));
        let (migrated, rearm, armed) = (Self::Migrated as u8, Self::Rearm as u8, Self::Armed as u8);
        match (self, event) {
            (_, Event::Requested { number, has_path: true }) if number == rearm => {
                Ok(Outcome::Stays(Self::Rearm))
            }
            (_, Event::Requested { number, .. }) if number == rearm => {
                refuse(Refusal::RearmWithoutPath)
            }
            (_, Event::Requested { number, .. }) if number == armed => {
                refuse(Refusal::ArmedByProgram)
            }
            (Self::Armed, Event::Requested { number, .. }) if number == migrated => {
                Ok(Outcome::Migrates)
            }
            (Self::Rearm, Event::Requested { number, .. }) if number == migrated => {
                refuse(Refusal::MigrationNotArmed)
            }
            (Self::Migrated, Event::Requested { number, .. }) if number == migrated => {
                Ok(Outcome::Stays(self))
            }
            (_, Event::Requested { .. }) => refuse(Refusal::NoSuchMigrationState),
            (Self::Rearm, Event::PeerIsReady) => Ok(Outcome::Stays(Self::Armed)),
            (Self::Armed, Event::PathLost | Event::PeerMigrated { is_alternate: true }) => {
                Ok(Outcome::Migrates)
            }
            (Self::Armed, Event::PeerMigrated { is_alternate: false }) => Ok(Outcome::Mismatch),
            (_, Event::PeerIsReady | Event::PathLost | Event::PeerMigrated { .. }) => {
                Ok(Outcome::Stays(self))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table() {
        use Outcome::{Migrates, Mismatch, Stays};
        use State::{Armed, Migrated, Rearm};
        let requested = |number, has_path| Event::Requested { number, has_path };
        let peer = |is_alternate| Event::PeerMigrated { is_alternate };
        for (event, expected) in [
            (requested(0, false), [Some(Stays(Migrated)), None, Some(Migrates)]),
            (requested(0, true), [Some(Stays(Migrated)), None, Some(Migrates)]),
            (requested(1, true), [Some(Stays(Rearm)), Some(Stays(Rearm)), Some(Stays(Rearm))]),
            (requested(1, false), [None, None, None]),
            (requested(2, true), [None, None, None]),
            (requested(3, true), [None, None, None]),
            (Event::PeerIsReady, [Some(Stays(Migrated)), Some(Stays(Armed)), Some(Stays(Armed))]),
            (peer(true), [Some(Stays(Migrated)), Some(Stays(Rearm)), Some(Migrates)]),
            (peer(false), [Some(Stays(Migrated)), Some(Stays(Rearm)), Some(Mismatch)]),
            (Event::PathLost, [Some(Stays(Migrated)), Some(Stays(Rearm)), Some(Migrates)]),
        ] {
            let outcomes = [Migrated, Rearm, Armed].map(|state| state.after(event).ok());
            assert_eq!(outcomes, expected, "{event:?}");
        }
    }
}
