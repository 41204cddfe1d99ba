//! A buffer of a receive that is gone when its completion is polled.

use super::buffer_early::send;
use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::{Changed, What};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "an adapter writes a message whenever it comes, and until its completion has been polled nobody knows that it \
         has: to memory that is something else's by then, another function's variables for one",
    cure: "free a receive's buffer, or return from the function whose variable it is, after its completion was polled",
};

#[derive(Debug, Default)]
pub(in crate::check) struct ReceiveGone;

impl Lookout for ReceiveGone {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let What::Polled(polled) = &scene.entry.what else { return };
        for changed in polled.changed.iter().filter(|changed| send(scene, changed).is_none()) {
            let Changed { qp, wr_id, address, length, unmapped, returned } = *changed;
            let became = match (returned, unmapped) {
                (true, _) => "of a function that has returned",
                (_, true) => "unmapped",
                _ => continue,
            };
            let what = format!(
                "the buffer of a receive (wr_id {wr_id:#x}, {length} bytes at {address:#x}) is {became}, before \
                 the poll of its completion"
            );
            found.push(scene.finds(Rule::ReceiveGone, format!("qp {qp}"), what));
        }
    }
}
