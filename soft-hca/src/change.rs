//! `soft-hca port`, `soft-hca device` and faults of devices: cables that are pulled, devices that
//! are removed, and all as before again.

use std::path::Path;

use soft_hca_core::config::{self, FabricName};
use soft_hca_core::device_spec::{DeviceName, DeviceSpec, PortName};
use soft_hca_core::rpc::{Connection, FileKind, Request};
use soft_hca_fault::DeviceFault;

use super::{Error, fabric};

/// Has a port of a fabric that runs go down or come up.
pub fn port(fabric: &FabricName, port: &PortName, is_up: bool) -> Result<(), Error> {
    change(fabric, &port.device.to_string(), Some(port.number), is_up)
}

/// Removes a device of a fabric that runs, or has it come back.
pub fn device(fabric: &FabricName, device: &DeviceName, is_there: bool) -> Result<(), Error> {
    change(fabric, &device.to_string(), None, is_there)
}

fn change(fabric: &FabricName, device: &str, port: Option<u8>, is_well: bool) -> Result<(), Error> {
    let dir = config::fabric_dir(fabric)?;
    let connection = fabric::connect(&dir, FileKind::Observer)?;
    let connection = connection.ok_or_else(|| Error::NoFabric(fabric.clone()))?;
    fabric::ask(&connection, &request(&dir, device, port, (is_well, 0))?)?;
    Ok(())
}

/// Has devices of a fabric that `lifeline` keeps, and their ports, fail, and be well again, when
/// they are to.
pub(super) fn plan(dir: &Path, lifeline: &Connection, faults: &[DeviceFault]) -> Result<(), Error> {
    for fault in faults {
        let begin_ns = fault.after.least().ns;
        let end_ns = fault.lasts.map(|lasts| begin_ns + lasts.ns);
        for (is_well, at_ns) in [(false, Some(begin_ns)), (true, end_ns)] {
            let Some(after_ns) = at_ns else { continue };
            let request = request(dir, &fault.device, fault.port, (is_well, after_ns))?;
            fabric::ask(lifeline, &request)?;
        }
    }
    Ok(())
}

/// Whether a fabric has the devices and ports of these faults.
pub(super) fn check(dir: &Path, faults: &[DeviceFault]) -> Result<(), Error> {
    let has = |fault: &DeviceFault| request(dir, &fault.device, fault.port, (false, 0)).map(drop);
    faults.iter().try_for_each(has)
}

/// Asks for a change of a port, or of a device: whether all is well then, and after how many
/// nanoseconds.
fn request(
    dir: &Path,
    name: &str,
    port: Option<u8>,
    (is_well, after_ns): (bool, u64),
) -> Result<Request, Error> {
    let devices = fabric::devices(dir);
    let has = |spec: &DeviceSpec| {
        spec.name.to_string() == name && port.is_none_or(|number| number <= spec.ports)
    };
    let found = (0..).zip(&devices).find(|(_, spec)| has(spec)).map(|(device, _)| device);
    Ok(match port {
        Some(port) => {
            let device = found.ok_or_else(|| Error::NoPort(format!("{name}/{port}")))?;
            Request::Port { device, port, is_up: is_well, after_ns }
        }
        None => {
            let device = found.ok_or_else(|| Error::UnknownDevice(name.to_owned()))?;
            Request::Device { device, is_there: is_well, after_ns }
        }
    })
}
