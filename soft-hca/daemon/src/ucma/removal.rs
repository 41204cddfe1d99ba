//! Ids whose device is removed (`cma_remove_one`, `ucma_close_id`).

use soft_hca_core::uapi::ucma::event_type;

use super::cm::Cm;
use super::host::Host;
use super::id::{Key, State};
use super::ids::Id;

impl Cm {
    /// A device is removed: each id that is bound to it is told so, and then disconnects, or
    /// rejects, its peer, as long as the device still sends. Nothing is left of it but its number,
    /// which the program gives back. A listener at all addresses is bound to no device.
    pub(crate) fn remove_device(&mut self, host: &mut dyn Host, device: usize, now_ns: u64) {
        let cx = &mut self.at(host, now_ns);
        let is_bound = |id: &Id| id.source.as_ref().is_some_and(|at| at.device.index == device);
        let bound = self.ids.iter().filter(|(_, id)| is_bound(id));
        let mut keys: Vec<Key> = bound.map(|(key, _)| key).collect();
        keys.sort_unstable();
        // Two of them may be each other's peers: no event comes after this one.
        for key in &keys {
            self.push(*key, event_type::DEVICE_REMOVAL, 0);
            if let Some(id) = self.ids.get_mut(*key) {
                id.state = State::Removed;
            }
        }
        keys.into_iter().for_each(|key| self.release(cx, key));
        self.deliver(cx);
    }
}
