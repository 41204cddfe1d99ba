//! An index beyond the table of P_Keys.

use crate::arguments::{number, qp};
use crate::check::found::{Found, Lookout, Scene};
use crate::check::rule::{Advice, Rule};

pub(in crate::check) const ADVICE: Advice = Advice {
    why: "a RoCE port has one P_Key, at index 0; adapters refuse another index with EINVAL",
    cure: "use pkey_index 0, or look the key up with ibv_query_pkey",
};

#[derive(Debug, Default)]
pub(in crate::check) struct PkeyIndex;

impl Lookout for PkeyIndex {
    fn entry(&mut self, scene: Scene<'_>, found: &mut Vec<Found>) {
        let Some(("ibv_modify_qp", args, _)) = scene.call() else { return };
        let (Some(qp), Some(index)) = (qp(args, "qp"), number(args, "pkey_index")) else { return };
        let entries = scene.device.pkeys;
        if index >= entries.into() {
            let has = match entries {
                1 => "one P_Key".into(),
                entries => format!("{entries} P_Keys"),
            };
            let what = format!("pkey_index {index} was set, and a port has {has}");
            found.push(scene.finds(Rule::PkeyIndex, format!("qp {qp}"), what));
        }
    }
}
