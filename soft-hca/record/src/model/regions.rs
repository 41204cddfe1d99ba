//! Memory regions and windows by their keys: whose they are, and since when they are gone.

use std::collections::{BTreeSet, HashMap};

use soft_hca_verbs::AccessFlags;

use super::send_queue::Range;
use crate::arguments::{self, number};
use crate::entry::{Call, Entry, Outcome, Sge, What};
use crate::value::{Name, Named, Value};

/// A region or window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its process.
    pub process: u32,
    /// Its name there.
    pub object: Name,
    /// Its key for requests of its own process.
    pub lkey: Option<u32>,
    /// Its bytes.
    pub range: Range,
    /// A peer may write to it.
    pub is_remote: bool,
    /// The addresses in requests are not those of the memory.
    pub is_elsewhere: bool,
    /// When it was deregistered.
    pub gone: Option<u64>,
    /// The entry of its registration, by its number in the record.
    pub at: usize,
}

/// All that were seen.
#[derive(Debug, Default)]
pub struct Regions {
    by_key: HashMap<u32, Region>,
    /// Keys of those that are registered, by process and object; none if the handle was given twice, as handles are
    /// a device file's.
    registered: HashMap<(u32, Name), Option<Vec<u32>>>,
}

fn names(values: &[Named]) -> impl Iterator<Item = Name> + '_ {
    values.iter().filter_map(|Named(_, value)| match value {
        Value::Name(name) => Some(*name),
        _ => None,
    })
}

impl Region {
    /// One that was registered by a call.
    fn new((at, process): (usize, u32), object: Name, args: &[Named], given: &[Named]) -> Self {
        let start = arguments::name(args, "addr").map_or(0, |at| at.number());
        let end = start.saturating_add(number(args, "length").unwrap_or_default());
        let access: AccessFlags = arguments::word(args, "access").unwrap_or_default();
        Self {
            process,
            object,
            lkey: arguments::key(given, "lkey"),
            range: (start, end),
            is_remote: access.intersects(AccessFlags::REMOTE_MODIFY | AccessFlags::MW_BIND),
            is_elsewhere: arguments::name(args, "iova").is_some()
                || access.contains(AccessFlags::ZERO_BASED),
            gone: None,
            at,
        }
    }
}

impl Regions {
    /// Another entry, by its number. Gives the region that it has registered or deregistered.
    pub(super) fn entry(&mut self, at: usize, entry: &Entry) -> Option<Region> {
        let What::Call(call) = &entry.what else { return None };
        let Call { name, args, result: Outcome::Done(given), .. } = call else { return None };
        let is_object = |name: &Name| matches!(name, Name::Mr(_) | Name::Mw(_));
        if name.starts_with("ibv_reg_") || name == "ibv_alloc_mw" {
            let object = names(given).find(is_object)?;
            let keys = names(given).filter_map(|name| match name {
                Name::Key(key @ 1..) => Some(key),
                _ => None,
            });
            let keys: Vec<u32> = keys.collect();
            let region = Region::new((at, entry.process), object, args, given);
            self.by_key.extend(keys.iter().map(|&key| (key, region)));
            let known = self.registered.entry((entry.process, object));
            known.and_modify(|keys| *keys = None).or_insert(Some(keys));
            return Some(region);
        }
        if !["ibv_dereg_mr", "ibv_dealloc_mw"].contains(&name.as_str()) {
            return None;
        }
        let object = names(args).find(is_object)?;
        let keys = self.registered.remove(&(entry.process, object)).flatten()?;
        let mut gone = None;
        for key in keys {
            let region = self.by_key.get_mut(&key);
            // Its key may be another one's already.
            if let Some(region) = region.filter(|region| region.object == object) {
                region.gone = Some(entry.t);
                gone = Some(*region);
            }
        }
        gone
    }

    /// The region or window that has a key, or had it last.
    pub fn of_key(&self, key: u32) -> Option<&Region> {
        self.by_key.get(&key)
    }

    /// Registrations of the regions that a request of a process names, each once: its own, and the peer's.
    pub(super) fn registrations(
        &self,
        process: u32,
        sges: &[Sge],
        rkey: Option<u32>,
    ) -> BTreeSet<usize> {
        let own = sges.iter().filter_map(|sge| self.of_key(sge.lkey));
        let own = own.filter(|region| region.process == process);
        let all = own.chain(rkey.and_then(|rkey| self.of_key(rkey)));
        all.filter(|region| region.gone.is_none()).map(|region| region.at).collect()
    }

    /// Those of a process that are registered.
    pub fn of_process(&self, process: u32) -> impl Iterator<Item = &Region> {
        let all = self.by_key.values();
        all.filter(move |region| region.process == process && region.gone.is_none())
    }
}
