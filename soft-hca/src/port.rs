//! `soft-hca port` and the fault `port-down`: cables that are pulled, and plugged in again.

use std::path::Path;

use soft_hca_core::config::{self, FabricName};
use soft_hca_core::device_spec::{DeviceSpec, PortName};
use soft_hca_core::rpc::{Connection, FileKind, Request};
use soft_hca_fault::PortFault;

use super::{Error, fabric};

/// Has a port of a fabric that runs go down or come up.
pub fn set(fabric: &FabricName, port: &PortName, is_up: bool) -> Result<(), Error> {
    let dir = config::fabric_dir(fabric)?;
    let connection = fabric::connect(&dir, FileKind::Observer)?;
    let connection = connection.ok_or_else(|| Error::NoFabric(fabric.clone()))?;
    let device = device_of(&dir, &port.device.to_string(), port.number)
        .ok_or_else(|| Error::NoPort(port.to_string()))?;
    fabric::ask(&connection, &Request::Port { device, port: port.number, is_up, after_ns: 0 })?;
    Ok(())
}

/// Has ports of a fabric that `lifeline` keeps go down, and come up, when they are to.
pub(super) fn plan(dir: &Path, lifeline: &Connection, faults: &[PortFault]) -> Result<(), Error> {
    for fault in faults {
        let port = fault.number;
        let device = device_of(dir, &fault.device, port);
        let device = device.ok_or_else(|| Error::NoPort(format!("{}/{port}", fault.device)))?;
        let down_ns = fault.after.ns;
        let up_ns = fault.lasts.map(|lasts| down_ns + lasts.ns);
        for (is_up, at_ns) in [(false, Some(down_ns)), (true, up_ns)] {
            let Some(after_ns) = at_ns else { continue };
            fabric::ask(lifeline, &Request::Port { device, port, is_up, after_ns })?;
        }
    }
    Ok(())
}

/// Which of a fabric's devices has this name and a port with this number.
fn device_of(dir: &Path, name: &str, number: u8) -> Option<u32> {
    let devices = fabric::devices(dir);
    let has = |spec: &DeviceSpec| spec.name.to_string() == name && number <= spec.ports;
    (0..).zip(&devices).find(|(_, spec)| has(spec)).map(|(device, _)| device)
}
