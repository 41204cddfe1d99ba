//! What a record tells of keys: whose they are, and since when they are no more.

use std::collections::HashMap;

use crate::entry::{Call, Entry, Outcome, What};
use crate::text::duration;
use crate::value::{Name, Named, Value};

/// A region or window.
#[derive(Clone, Copy, Debug)]
struct Region {
    process: u32,
    name: Name,
    /// When it was deregistered.
    gone: Option<u64>,
}

/// Keys of the regions and windows that were seen.
#[derive(Debug, Default)]
pub(super) struct Keys {
    regions: HashMap<u32, Region>,
    /// Those that are registered, by process and object.
    registered: HashMap<(u32, Name), Vec<u32>>,
}

fn names(values: &[Named]) -> impl Iterator<Item = Name> + '_ {
    values.iter().filter_map(|Named(_, value)| match value {
        Value::Name(name) => Some(*name),
        _ => None,
    })
}

impl Keys {
    /// Another entry.
    pub(super) fn entry(&mut self, entry: &Entry) {
        let What::Call(call) = &entry.what else { return };
        let Call { name, args, result: Outcome::Done(done), .. } = call else { return };
        let is_object = |name: &Name| matches!(name, Name::Mr(_) | Name::Mw(_));
        match name.as_str() {
            "ibv_reg_mr" | "ibv_alloc_mw" => {
                let Some(object) = names(done).find(is_object) else { return };
                let keys = names(done).filter_map(|name| match name {
                    Name::Key(key @ 1..) => Some(key),
                    _ => None,
                });
                let keys: Vec<u32> = keys.collect();
                let region = Region { process: entry.process, name: object, gone: None };
                self.regions.extend(keys.iter().map(|&key| (key, region)));
                self.registered.insert((entry.process, object), keys);
            }
            "ibv_dereg_mr" | "ibv_dealloc_mw" => {
                let Some(object) = names(args).find(is_object) else { return };
                let keys = self.registered.remove(&(entry.process, object)).unwrap_or_default();
                for key in keys {
                    if let Some(region) = self.regions.get_mut(&key) {
                        region.gone = Some(entry.t);
                    }
                }
            }
            _ => {}
        }
    }

    /// What is known of a key that was refused at a time because no region has it, and what that
    /// is usually caused by.
    pub(super) fn evidence(
        &self,
        (key, t): (u32, u64),
        who: impl Fn(u32) -> String,
    ) -> (String, Option<&'static str>) {
        let of = |region: &Region| {
            let Region { process, name, .. } = region;
            format!("{} {name} of {}", name.kind(), who(*process))
        };
        match self.regions.get(&key) {
            Some(region @ Region { gone: Some(gone), .. }) => {
                let before = duration(t.saturating_sub(*gone));
                let why = format!("; it was that of {}, deregistered {before} before", of(region));
                (why, Some("the region was deregistered before the work request was done"))
            }
            // Another process's, or a window that was invalidated.
            Some(region) => (format!("; it is that of {}", of(region)), None),
            None => match self.regions.get(&key.swap_bytes()) {
                Some(region) => {
                    let swapped = key.swap_bytes();
                    let why =
                        format!("; {swapped:#x}, the same bytes in another order, is that of ");
                    (
                        why + &of(region),
                        Some("byte order: the rkey was sent without htonl and ntohl"),
                    )
                }
                None => Default::default(),
            },
        }
    }
}
