//! Faults of devices: cables of their ports that are pulled, and devices that are removed.

use std::fmt;

use super::Error;
use super::spec::Spec;
use super::value::Duration;

/// What these faults are called.
pub(super) const PORT_DOWN: &str = "port-down";
pub(super) const DEVICE_REMOVED: &str = "device-removed";

const PORT_KEYS: &str = "device=NAME or device=NAME/PORT, after=DURATION and for=DURATION";
const DEVICE_KEYS: &str = "device=NAME, after=DURATION and for=DURATION";
const PORT: &str = "it is a device, as rxe0, or a port of it, as rxe0/2";
const DEVICE: &str = "it is a device, as rxe0";

/// What happens to a device for a time, or for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFault {
    /// The device's name.
    pub device: String,
    /// The port whose cable is pulled, from 1; the device is removed if there is none.
    pub port: Option<u8>,
    /// How long after the program's start.
    pub after: Duration,
    /// How long it takes until all is as before; it stays so if nothing is said.
    pub lasts: Option<Duration>,
}

impl DeviceFault {
    /// The fault of a specification that begins with the name of one of these.
    pub(super) fn of(mut spec: Spec<'_>) -> Result<Self, Error> {
        let (what, wanted, keys) = match spec.what {
            PORT_DOWN => (PORT_DOWN, PORT, PORT_KEYS),
            _ => (DEVICE_REMOVED, DEVICE, DEVICE_KEYS),
        };
        let named = spec.take("device")?.ok_or(Error::Missing { what, key: "device", wanted })?;
        let wrong = || Error::Value { key: "device", value: named.into(), wanted };
        let (device, port) = match named.split_once('/') {
            _ if what == DEVICE_REMOVED => (named, None),
            Some((device, number)) => (device, Some(number.parse().map_err(|_| wrong())?)),
            None => (named, Some(1)),
        };
        if device.is_empty() || device.contains('/') || port == Some(0) {
            return Err(wrong());
        }
        let device = device.to_owned();
        let mut duration = |key: &'static str| {
            let wrong =
                |value: &str| Error::Value { key, value: value.into(), wanted: Duration::WANTED };
            spec.take(key)?.map(|value| value.parse().map_err(|()| wrong(value))).transpose()
        };
        let (after, lasts) = (duration("after")?.unwrap_or_default(), duration("for")?);
        spec.end(what, keys)?;
        Ok(Self { device, port, after, lasts })
    }
}

/// As it can be parsed.
impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, port, after, lasts } = self;
        match port {
            Some(number) => write!(f, "{PORT_DOWN}:device={device}/{number}")?,
            None => write!(f, "{DEVICE_REMOVED}:device={device}")?,
        }
        if *after != Duration::default() {
            write!(f, ",after={after}")?;
        }
        lasts.map_or(Ok(()), |lasts| write!(f, ",for={lasts}"))
    }
}
