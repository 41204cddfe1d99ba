//! Calls that an adapter refuses whose limits the device has.

use soft_hca_verbs::Refusal;

use crate::arguments::number;
use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Call, Outcome, What};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "it is more than the adapter announces, or something that it does not have, as its driver's source \
         says",
    cure: "ask the device for its limits (ibv_query_device), keep to them, and do without what it does not have",
};

#[derive(Debug, Default)]
pub(in crate::check) struct Refused;

impl Lookout for Refused {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let Some(adapter) = &scene.device.adapter else { return };
        let finding = match &scene.entry.what {
            What::Call(call) => limit(call).map(|what| (call.name.clone(), what)),
            What::SendPosted(posted) => {
                let what = || format!("the device has no atomic operations: {}", posted.opcode);
                let is_meant = scene.device.lacks_atomics && posted.opcode.is_atomic();
                is_meant.then(|| (format!("qp {}", posted.qp), what()))
            }
            _ => None,
        };
        found.extend(finding.map(|(place, what)| {
            scene.finds(Rule::Refused, place, format!("like {adapter}, {what}"))
        }));
    }
}

/// The limit of the device that a call exceeds, for which it was refused. Others of a call's limits are the
/// specification's, or a port's.
fn limit(call: &Call) -> Option<String> {
    let Outcome::Refused { error, reason: Some(Refusal::DeviceLimit(limit)), values } =
        &call.result
    else {
        return None;
    };
    let numbers = number(values, "requested").zip(number(values, "limit"));
    let numbers = numbers.map(|(requested, most)| format!(": {requested} of {most}"));
    Some(format!("{error}: {limit}{}", numbers.unwrap_or_default()))
}
