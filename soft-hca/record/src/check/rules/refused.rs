//! Calls that an adapter refuses whose limits the device has.

use soft_hca_verbs::Refusal;

use crate::arguments::number;
use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Call, Outcome, SendPosted, What};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "it is more than the adapter announces, or something that it does not have, as its driver's source \
         says",
    cure: "ask the device for its limits (ibv_query_device), keep to them, and do without what it does not have",
};

#[derive(Debug)]
pub(in crate::check) struct Refused {
    /// The adapter.
    pub(in crate::check) adapter: String,
    /// It has no atomic operations.
    pub(in crate::check) lacks_atomics: bool,
}

impl Lookout for Refused {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        match &scene.entry.what {
            What::Call(call) => found.extend(self.call(scene, call)),
            What::SendPosted(posted) if self.lacks_atomics => {
                found.extend(self.atomic(scene, posted));
            }
            _ => {}
        }
    }
}

impl Refused {
    /// A call that was refused because the device has less than it asks for, or none of it.
    fn call(&self, scene: Scene<'_>, call: &Call) -> Option<Found> {
        // Others of a call's limits are the specification's, or a port's.
        let Outcome::Refused { error, reason: Some(Refusal::DeviceLimit(limit)), values } =
            &call.result
        else {
            return None;
        };
        let numbers = number(values, "asked for").zip(number(values, "limit"));
        let numbers = numbers.map(|(requested, most)| format!(": {requested} of {most}"));
        let (adapter, numbers) = (&self.adapter, numbers.unwrap_or_default());
        let what = format!("like {adapter}, {error}: {limit}{numbers}");
        Some(scene.finds(Rule::Refused, call.name.clone(), what))
    }

    /// An atomic operation that is posted to a device that has none.
    fn atomic(&self, scene: Scene<'_>, posted: &SendPosted) -> Option<Found> {
        let (adapter, opcode) = (&self.adapter, posted.opcode);
        let what = format!("like {adapter}, the device has no atomic operations: {opcode}");
        let finds = || scene.finds(Rule::Refused, format!("qp {}", posted.qp), what);
        opcode.is_atomic().then(finds)
    }
}
