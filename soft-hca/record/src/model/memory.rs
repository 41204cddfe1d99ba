//! Memory that posted receives may write to.

use std::collections::BTreeMap;

use super::send_queue::Range;
use crate::entry::Sge;

/// The bytes of an SGE.
pub fn range(sge: &Sge) -> Range {
    (sge.address, sge.address.saturating_add(sge.length.into()))
}

/// Bytes that the receives of a process may be written to, by their first: the end, and how many
/// receives have exactly these.
#[derive(Clone, Debug, Default)]
pub struct Written(BTreeMap<u64, (u64, u32)>);

fn bytes(sge: &Sge) -> Option<Range> {
    (sge.length > 0).then(|| range(sge))
}

impl Written {
    /// Which of these bytes are a receive's, if any are: the first that is found.
    pub fn overlap(&self, sges: &[Sge]) -> Option<Range> {
        sges.iter().filter_map(bytes).find_map(|bytes| self.shared(bytes))
    }

    /// Which of these bytes are a receive's.
    pub fn shared(&self, (from, to): Range) -> Option<Range> {
        let (other, (end, _)) = self.0.range(..to).next_back()?;
        (*end > from).then(|| (from.max(*other), to.min(*end)))
    }

    pub(super) fn add(&mut self, sges: &[Sge]) {
        for (from, to) in sges.iter().filter_map(bytes) {
            let (end, count) = self.0.entry(from).or_insert((to, 0));
            *end = to.max(*end);
            *count += 1;
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn remove(&mut self, sges: &[Sge]) {
        for (from, _) in sges.iter().filter_map(bytes) {
            if let Some((_, count)) = self.0.get_mut(&from) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(&from);
                }
            }
        }
    }
}
