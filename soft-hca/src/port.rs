//! `soft-hca port`: cables that are pulled, and plugged in again.

use soft_hca_core::config::{self, FabricName};
use soft_hca_core::device_spec::{Devices, PortName};
use soft_hca_core::rpc::{FileKind, Request};

use super::{Error, fabric};

/// Has a port of a fabric that runs go down or come up.
pub fn set(fabric: &FabricName, port: &PortName, is_up: bool) -> Result<(), Error> {
    let dir = config::fabric_dir(fabric)?;
    let connection = fabric::connect(&dir, FileKind::Observer)?;
    let connection = connection.ok_or_else(|| Error::NoFabric(fabric.clone()))?;
    let devices = Devices::default().named(fabric::devices(&dir));
    let found = (0..).zip(&devices).find(|(_, spec)| spec.name == port.device);
    let Some((device, _)) = found.filter(|(_, spec)| port.number <= spec.ports) else {
        return Err(Error::NoPort(port.clone()));
    };
    fabric::ask(&connection, &Request::Port { device, port: port.number, is_up })?;
    Ok(())
}
