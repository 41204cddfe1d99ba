//! Inline data that is longer than was requested.

use soft_hca_verbs::SendFlags;

use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};
use crate::entry::What;

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "inline data that is longer than max_inline_data says gives ENOMEM or EINVAL where the provider has \
         not rounded up",
    cure: "ask for as much inline data as is sent",
};

#[derive(Debug, Default)]
pub(in crate::check) struct InlineSize;

impl Lookout for InlineSize {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let What::SendPosted(posted) = &scene.entry.what else { return };
        let Some(qp) = scene.run.live_qp(posted.qp) else { return };
        let inline = qp.requested.inline;
        if posted.flags.contains(SendFlags::INLINE) && posted.length > inline {
            let what = format!("{} bytes of inline data, max_inline_data {inline}", posted.length);
            found.push(scene.finds(Rule::InlineSize, format!("qp {}", posted.qp), what));
        }
    }
}
