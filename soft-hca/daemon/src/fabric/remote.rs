//! The fabric's part of the link to other hosts.

use std::sync::Arc;

use soft_hca_core::config::LinkOptions;
use soft_hca_core::engine::{LINK, LocalCopier};
use soft_hca_core::errno::{Errno, Result, ensure};
use soft_hca_core::system;
use soft_hca_core::uapi::verbs::{Qpn, qp_type, state};
use soft_hca_roce::wire::ip;

use super::Fabric;
use crate::link;
use crate::objects::QpObject;

/// How long the end of a datagram queue pair or address handle waits for the link, at most.
const LINK_NS: u64 = 100_000_000;

impl Fabric {
    /// Starts the link to other hosts.
    pub(crate) fn start_link(
        &mut self,
        wanted: &LinkOptions,
    ) -> std::result::Result<link::Thread, link::Error> {
        let nonce_addr = std::ptr::from_ref(&*self.nonce).expose_provenance() as u64;
        self.announce(LINK, std::process::id(), nonce_addr, *self.nonce);
        self.env.remember_process(LINK, None);
        let (arena, env) = (Arc::clone(&self.arena), Arc::clone(&self.env));
        let copier = LocalCopier::guarded(Arc::clone(&self.registry));
        let (handle, thread) = link::start(wanted, &self.devices[0], arena, copier, env)?;
        self.env.set_link(handle.clone());
        for port in &mut Arc::make_mut(&mut self.devices[0]).ports {
            let of_link = handle.addresses().iter().filter_map(|ip| port.gids.netdev_of(*ip));
            port.followed = of_link.map(str::to_owned).collect();
        }
        self.roce = handle;
        Ok(thread)
    }

    /// Tells the link that a queue pair with a peer on another host has come to a state.
    pub(crate) fn tell_link(&self, index: usize, to: u32) {
        let Some(object) = self.qps.get(index).filter(|object| object.is_remote) else { return };
        let dest = &object.path.dest;
        let ports = self.devices.get(object.device).map(|device| &device.ports);
        let ports = ports.into_iter().chain(self.ports_of_removed(object.device)).flatten();
        if let Some(port) = ports.into_iter().find(|port| port.number == dest.port_num) {
            let sgid = port.gids.gid(dest.sgid_index);
            let path = link::Path {
                traffic_class: dest.traffic_class,
                ..link::Path::new(ip::address(&sgid), ip::address(&dest.dgid))
            };
            if to == state::RTR {
                self.use_lease(index);
            }
            self.roce.set_state(Qpn::new(object.qpn), to, path);
        }
    }

    /// `ERESTART` while the link is still to send datagrams of a queue pair that is to end. The
    /// kernel's rxe has sent them when the doorbell returns, so programs do not wait for them.
    pub(crate) fn await_link(&mut self, qp: usize) -> Result<()> {
        let is_on = !self.roce.addresses().is_empty();
        let is_datagram = |object: &&QpObject| is_on && object.qp_type == qp_type::UD;
        let Some(object) = self.qps.get(qp).filter(is_datagram) else { return Ok(()) };
        let has_unsent = self.actor().has_unsent(object.qpn);
        let now = system::now_ns();
        let ends_at = object.ends_at_ns.unwrap_or(now.saturating_add(LINK_NS));
        if let Some(object) = self.qps.get_mut(qp) {
            object.ends_at_ns = has_unsent.then_some(ends_at);
        }
        ensure(!has_unsent || now >= ends_at, Errno::ERESTART)
    }

    /// The same for all queue pairs of a protection domain, one of whose address handles is to end.
    pub(crate) fn await_link_of(&mut self, pd: u32) -> Result<()> {
        let of_pd = self.qps.iter().filter(|(_, object)| object.pd == pd);
        let of_pd: Vec<usize> = of_pd.map(|(index, _)| index).collect();
        of_pd.into_iter().try_for_each(|index| self.await_link(index))
    }
}
