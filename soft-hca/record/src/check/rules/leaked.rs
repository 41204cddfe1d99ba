//! Objects that a process has created and not destroyed.

use std::collections::HashMap;
use std::sync::Arc;

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Call, Entry, What};
use crate::place::Place;
use crate::value::{Name, Named, Value};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "in a program that goes on, what is not destroyed keeps memory pinned and uses up the adapter's \
         limits",
    cure: "destroy in the opposite order: queue pair, completion queue, regions, protection domain",
};

/// Objects that are there.
#[derive(Debug, Default)]
pub(in crate::check) struct Leaked {
    /// By process and name.
    objects: HashMap<u32, HashMap<Name, Objects>>,
    /// The place where a program has last made a device's context, or a completion channel, by process and
    /// name. Their closing is not on record.
    files: HashMap<(u32, Name), Arc<Place>>,
}

/// Objects of one name.
#[derive(Debug, Default)]
struct Objects {
    /// How many there are, as handles are a device file's.
    count: u32,
    /// Where the last of them was created.
    source: Option<Arc<Place>>,
}

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

impl Lookout for Leaked {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let entry = scene.entry;
        match &entry.what {
            What::Call(call) => self.call(scene, call),
            What::ConnectionEvent(event) if event.listen_id.is_some() => {
                self.add(entry, Name::CmId(event.id));
            }
            What::ProcessEnded { exit_by, status, unacknowledged, open } => {
                let left = self.objects.remove(&entry.process).unwrap_or_default();
                let files = open.iter().filter_map(|name| {
                    let source = self.files.remove(&(entry.process, *name))?;
                    Some((*name, Objects { count: 1, source: Some(source) }))
                });
                // An object with unacknowledged events cannot be destroyed, and its channel cannot, either.
                let is_in_the_way = |name: &Name, of: &Name| match name {
                    Name::Channel(_) => matches!(of, Name::Cq(_)),
                    name => name == of,
                };
                let can_go = |name: &Name| {
                    !unacknowledged.iter().any(|other| is_in_the_way(name, &other.of))
                };
                let is_left = |(name, known): &(Name, Objects)| known.count > 0 && can_go(name);
                let left = left.into_iter().chain(files).filter(is_left);
                let mut left: Vec<(Name, Objects)> = left.collect();
                self.files.retain(|(process, _), _| *process != entry.process);
                // A program that gives up because of an error need not tidy up, and one that is killed cannot.
                if exit_by.is_none() || status.is_some_and(|status| status != 0) {
                    return;
                }
                left.sort_unstable_by_key(|(name, _)| *name);
                for of_kind in left.chunk_by(|a, b| a.0.kind() == b.0.kind()) {
                    let kind = of_kind[0].0.kind();
                    let numbers = of_kind.iter().map(|(name, _)| name.to_string());
                    let numbers = numbers.collect::<Vec<_>>().join(", ");
                    let what = format!("the program ended with {kind} {numbers} not destroyed");
                    let finding = scene.finds(Rule::Leaked, kind.into(), what);
                    found.push(Found { source: of_kind[0].1.source.clone(), ..finding });
                }
            }
            _ => {}
        }
    }

    fn needs_all(&self) -> bool {
        true
    }
}

impl Leaked {
    fn call(&mut self, scene: Scene<'_>, call: &Call) {
        let entry = scene.entry;
        let Some((_, requested, given)) = scene.call() else { return };
        if begins(call, &["ibv_destroy_", "ibv_dealloc_", "ibv_dereg_", "rdma_destroy_id"]) {
            if let Some(name) = first(requested) {
                let known = self.objects.entry(entry.process).or_default().entry(name).or_default();
                known.count = known.count.saturating_sub(1);
            }
        } else if begins(call, &["ibv_create_", "ibv_alloc_", "ibv_reg_", "rdma_create_id"]) {
            if let Some(name) = first(given) {
                self.add(entry, name);
            }
        }
        // A program knows nothing of those that librdmacm has made.
        let is_own = |place: &Arc<Place>| place.call.as_deref() == Some(call.name.as_str());
        if let Some(source) = entry.source().filter(is_own) {
            let files = given.iter().filter_map(|Named(_, value)| match value {
                Value::Name(name @ (Name::Context(_) | Name::Channel(_))) => Some(*name),
                _ => None,
            });
            self.files.extend(files.map(|name| ((entry.process, name), Arc::clone(&source))));
        }
    }

    fn add(&mut self, entry: &Entry, name: Name) {
        let known = self.objects.entry(entry.process).or_default().entry(name).or_default();
        known.count += 1;
        known.source = entry.source();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check::tests::findings;
    use crate::testing::{CLIENT, Run};

    /// Devices and completion channels are left, too, but not those that librdmacm has opened.
    #[test]
    fn contexts_and_channels_are_left() {
        let opens = |run: &mut Run, name: &str, call: &str, done: serde_json::Value| {
            let site = json!({"call": 1, "number": 1, "place": {"call": call, "module": "a", "offset": 1}});
            let members = json!({
                "name": name, "args": [], "duration": 1, "result": {"done": [done]}, "site": site,
            });
            run.put(10, CLIENT, "call", members);
        };
        let left = |status: i32| {
            let mut run = Run::new();
            opens(
                &mut run,
                "ibv_open_device",
                "ibv_open_device",
                json!(["context", {"context": 4}]),
            );
            opens(
                &mut run,
                "ibv_open_device",
                "rdma_resolve_addr",
                json!(["context", {"context": 5}]),
            );
            let made = "ibv_create_comp_channel";
            opens(&mut run, made, made, json!(["channel", {"channel": 7}]));
            opens(&mut run, made, made, json!(["channel", {"channel": 8}]));
            let open = json!([{"context": 4}, {"context": 5}, {"channel": 8}]);
            let members = json!({"exit_by": 4721, "status": status, "open": open});
            run.put(10, CLIENT, "process_ended", members);
            findings(&run).into_iter().map(|found| found.what).collect::<Vec<_>>()
        };
        let expected = [
            "the program ended with channel 8 not destroyed",
            "the program ended with context 4 not destroyed",
        ];
        assert_eq!(left(0), expected);
        assert_eq!(left(1), [""; 0], "who ends with an error need not tidy up");
    }

    /// The channel of a queue that cannot be destroyed cannot be, either.
    #[test]
    fn a_channel_in_use_is_not_left() {
        let mut run = Run::new();
        let site = json!({
            "call": 1, "number": 1, "place": {"call": "ibv_create_comp_channel", "module": "a", "offset": 1},
        });
        let members = json!({
            "name": "ibv_create_comp_channel", "args": [], "duration": 1,
            "result": {"done": [["channel", {"channel": 7}]]}, "site": site,
        });
        run.put(10, CLIENT, "call", members);
        let members = json!({
            "exit_by": 4721, "status": 0, "open": [{"channel": 7}],
            "unacknowledged": [{"of": {"cq": 2}, "events": 1}],
        });
        run.put(10, CLIENT, "process_ended", members);
        let rules = findings(&run).into_iter().map(|found| found.rule);
        assert_eq!(rules.collect::<Vec<_>>(), [crate::check::Rule::Unacked]);
    }
}
