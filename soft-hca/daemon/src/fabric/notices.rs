//! Asynchronous events that are of ports, paths and devices, for who records.

use std::sync::atomic::Ordering::Acquire;

use soft_hca_core::engine::Env;
use soft_hca_core::trace::event::Notice;

use crate::device::{Device, LinkLayer};
use crate::objects::Path;

use super::Fabric;

impl Fabric {
    /// Traces the event (`enum ib_event_type`) that a process is to get of a device, or of a port of it.
    pub(crate) fn trace_port_event(
        &self,
        proc: usize,
        event_type: u32,
        device: &Device,
        port: Option<u8>,
    ) {
        if self.arena.is_traced() {
            let place = match port {
                Some(port) => format!("port {port} of {}", device.name),
                None => device.name.to_string(),
            };
            let event = Notice { event_type, qpn: 0 };
            self.env.trace(proc as u32, &event.into(), place.as_bytes());
        }
    }

    /// Traces the event of a queue pair that has left its path, or was to; with the path that it has now.
    pub(crate) fn trace_path_event(&self, index: usize, event_type: u32) {
        let object = self.qps.get(index).filter(|_| self.arena.is_traced());
        let Some(object) = object else { return };
        let Some(device) = self.devices.get(object.device) else { return };
        let place = path_of(device, &object.path);
        let proc = self.arena.qps[index].proc.load(Acquire);
        let event = Notice { event_type, qpn: object.qpn };
        self.env.trace(proc, &event.into(), place.as_bytes());
    }
}

/// A path in words.
fn path_of(device: &Device, path: &Path) -> String {
    let begin = format!("port {} of {}", path.port_num, device.name);
    let layer = device.port(path.port_num).map(|port| port.link_layer);
    match layer {
        Ok(LinkLayer::InfiniBand) => format!("{begin} to LID {}", path.dest.dlid),
        _ => begin,
    }
}
