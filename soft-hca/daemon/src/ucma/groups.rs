//! Memberships in multicast groups, and the groups' LIDs.

use std::collections::BTreeMap;

use soft_hca_core::errno::Result;

use super::id::{Key, Numbers};
use super::mgid::Mlids;

/// One id's membership in one group. Several in the same group are fine.
#[derive(Debug)]
pub(super) struct Membership {
    pub id: Key,
    pub events_reported: u32,
}

/// All memberships, by number.
#[derive(Debug, Default)]
pub(super) struct Groups {
    memberships: BTreeMap<u32, Membership>,
    numbers: Numbers,
    mlids: Mlids,
}

impl Groups {
    /// The LID of a group.
    pub(super) fn lid(&mut self, gid: [u8; 16]) -> u16 {
        self.mlids.of(gid)
    }

    /// Makes an id a member; gives the membership's number.
    pub(super) fn join(&mut self, id: Key) -> Result<u32> {
        let number = self.numbers.take()?;
        self.memberships.insert(number, Membership { id, events_reported: 0 });
        Ok(number)
    }

    pub(super) fn get(&self, number: u32) -> Option<&Membership> {
        self.memberships.get(&number)
    }

    /// Ends a membership.
    pub(super) fn leave(&mut self, number: u32) {
        if self.memberships.remove(&number).is_some() {
            self.numbers.give_back(number);
        }
    }

    /// Ends all memberships of an id that goes; its events go with it.
    pub(super) fn leave_all(&mut self, key: Key) {
        let numbers = &mut self.numbers;
        self.memberships.retain(|number, membership| {
            let stays = membership.id != key;
            if !stays {
                numbers.give_back(*number);
            }
            stays
        });
    }

    /// Counts an event of a membership that has been handed out.
    pub(super) fn count_reported(&mut self, number: u32) {
        if let Some(membership) = self.memberships.get_mut(&number) {
            membership.events_reported += 1;
        }
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn is_empty(&self) -> bool {
        self.memberships.is_empty()
    }
}
