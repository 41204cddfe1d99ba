//! What a process has created and not destroyed.

use std::collections::HashMap;

use super::{Found, Rule, done};
use crate::entry::{Call, Entry, What};
use crate::value::{Name, Named, Value};

/// Objects that are there, by process: how many of a name, as handles are a device file's.
#[derive(Debug, Default)]
pub(super) struct Objects(HashMap<u32, HashMap<Name, u32>>);

/// The object that is named first, of those that a program has to destroy.
fn first(values: &[Named]) -> Option<Name> {
    values.iter().find_map(|Named(_, value)| match value {
        Value::Name(
            name @ (Name::Pd(_)
            | Name::Mr(_)
            | Name::Mw(_)
            | Name::Cq(_)
            | Name::Qp(_)
            | Name::Srq(_)
            | Name::Ah(_)
            | Name::CmId(_)),
        ) => Some(*name),
        _ => None,
    })
}

fn begins(call: &Call, words: &[&str]) -> bool {
    words.iter().any(|word| call.name.starts_with(word))
}

impl Objects {
    pub(super) fn entry(&mut self, entry: &Entry, found: &mut Vec<Found>) {
        match &entry.what {
            What::Call(call) => self.call(entry.process, call),
            What::ConnectionEvent(event) if event.listen_id.is_some() => {
                self.add(entry.process, Name::CmId(event.id));
            }
            What::ProcessEnded { exit_by: Some(_) } => {
                let left = self.0.remove(&entry.process).unwrap_or_default();
                let mut left: Vec<(Name, u32)> = left.into_iter().filter(|(_, n)| *n > 0).collect();
                left.sort_unstable();
                for of_kind in left.chunk_by(|a, b| a.0.kind() == b.0.kind()) {
                    let kind = of_kind[0].0.kind();
                    let numbers = of_kind.iter().map(|(name, _)| name.to_string());
                    let numbers = numbers.collect::<Vec<_>>().join(", ");
                    found.push(Found {
                        rule: Rule::Leaked,
                        process: entry.process,
                        place: kind.into(),
                        what: format!("the program ended with {kind} {numbers} not destroyed"),
                        t: entry.t,
                    });
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, process: u32, call: &Call) {
        let Some((asked, given)) = done(call) else { return };
        if begins(call, &["ibv_destroy_", "ibv_dealloc_", "ibv_dereg_", "rdma_destroy_id"]) {
            if let Some(name) = first(asked) {
                let count = self.0.entry(process).or_default().entry(name).or_default();
                *count = count.saturating_sub(1);
            }
        } else if begins(call, &["ibv_create_", "ibv_alloc_", "ibv_reg_", "rdma_create_id"]) {
            if let Some(name) = first(given) {
                self.add(process, name);
            }
        }
    }

    fn add(&mut self, process: u32, name: Name) {
        *self.0.entry(process).or_default().entry(name).or_default() += 1;
    }
}
