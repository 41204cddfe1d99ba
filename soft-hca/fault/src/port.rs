//! Faults of ports: cables that are pulled.

use std::fmt;

use super::Error;
use super::spec::Spec;
use super::value::Duration;

/// What its fault is called.
pub(super) const PORT_DOWN: &str = "port-down";

const KEYS: &str = "device=NAME or device=NAME/PORT, after=DURATION and for=DURATION";
const DEVICE: &str = "it is a device, as rxe0, or a port of it, as rxe0/2";

/// A cable that is pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFault {
    /// The device's name.
    pub device: String,
    /// The port's number, from 1.
    pub number: u8,
    /// How long after the program's start.
    pub after: Duration,
    /// How long it takes until it is plugged in again; for good if nothing is said.
    pub lasts: Option<Duration>,
}

impl PortFault {
    pub(super) fn of(mut spec: Spec<'_>) -> Result<Self, Error> {
        let missing = Error::Missing { what: PORT_DOWN, key: "device", wanted: DEVICE };
        let port = spec.take("device")?.ok_or(missing)?;
        let (device, number) = port.split_once('/').unwrap_or((port, "1"));
        let number = number.parse().ok().filter(|number| *number > 0 && !device.is_empty());
        let wrong = || Error::Value { key: "device", value: port.into(), wanted: DEVICE };
        let (device, number) = (device.to_owned(), number.ok_or_else(wrong)?);
        let mut duration = |key: &'static str| {
            let wrong =
                |value: &str| Error::Value { key, value: value.into(), wanted: Duration::WANTED };
            spec.take(key)?.map(|value| value.parse().map_err(|()| wrong(value))).transpose()
        };
        let (after, lasts) = (duration("after")?.unwrap_or_default(), duration("for")?);
        spec.end(PORT_DOWN, KEYS)?;
        Ok(Self { device, number, after, lasts })
    }
}

/// As it can be parsed.
impl fmt::Display for PortFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, number, after, lasts } = self;
        write!(f, "{PORT_DOWN}:device={device}/{number}")?;
        if *after != Duration::default() {
            write!(f, ",after={after}")?;
        }
        lasts.map_or(Ok(()), |lasts| write!(f, ",for={lasts}"))
    }
}
