//! Communication ids.

use std::collections::HashMap;

use soft_hca_roce::wire::cm::CommId;

use super::host::Host;
use super::id::Key;

/// The connections by the communication ids that this side has given them.
///
/// The numbers begin anywhere and go on upwards, so that a message for a connection of the past,
/// or of a fabric that has ended, meets nobody.
#[derive(Debug, Default)]
pub(super) struct CommIds {
    last: Option<u32>,
    keys: HashMap<CommId, Key>,
}

impl CommIds {
    pub(super) fn take(&mut self, host: &mut dyn Host, key: Key) -> CommId {
        let mut last = self.last.unwrap_or_else(|| host.random24() << 8 ^ host.random24());
        loop {
            last = last.wrapping_add(1);
            let comm_id = CommId(last);
            if comm_id != CommId::NONE && !self.keys.contains_key(&comm_id) {
                self.last = Some(last);
                self.keys.insert(comm_id, key);
                return comm_id;
            }
        }
    }

    pub(super) fn find(&self, comm_id: CommId) -> Option<Key> {
        self.keys.get(&comm_id).copied()
    }

    pub(super) fn give_back(&mut self, comm_id: CommId) {
        self.keys.remove(&comm_id);
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ucma::tests::World;

    #[test]
    fn communication_ids_begin_anywhere_and_do_not_come_back_soon() {
        let mut world = World::new();
        let mut first = Vec::new();
        for _ in 0..8 {
            let mut ids = CommIds::default();
            let taken = ids.take(&mut world.machine, Key::default());
            first.push(taken);
            ids.give_back(taken);
            let next: Vec<_> =
                (0..100).map(|_| ids.take(&mut world.machine, Key::default())).collect();
            assert!(!next.contains(&taken));
            assert_eq!(ids.len(), 100);
        }
        assert!(first.iter().any(|id| id.0 > 1 << 24));
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 8);
    }

    #[test]
    fn none_is_no_communication_id() {
        let mut world = World::new();
        let mut ids = CommIds { last: Some(u32::MAX - 1), ..CommIds::default() };
        let mut take = || ids.take(&mut world.machine, Key::default()).0;
        assert_eq!([take(), take(), take()], [u32::MAX, 1, 2]);
        ids.last = Some(u32::MAX);
        assert_eq!(ids.take(&mut world.machine, Key::default()), CommId(3));
    }
}
