//! Faults of devices: cables of their ports that are pulled, and devices that are removed.

use std::fmt;
use std::str::FromStr;

use super::Error;
use super::call::Scope;
use super::random::Random;
use super::spec::Spec;
use super::value::{Delay, Duration};
use super::verbs::Verb;

/// The names of these faults.
pub(super) const PORT_DOWN: &str = "port-down";
pub(super) const DEVICE_REMOVED: &str = "device-removed";

const PORT_KEYS: &str = "device=NAME or device=NAME/PORT, after=DURATION and for=DURATION, \
     and at=CALL with P%, nth=N, times=N, per=qp, qp=N and program=NAME";
const DEVICE_KEYS: &str = "device=NAME, after=DURATION and for=DURATION, and at=CALL with \
     P%, nth=N, times=N, per=qp, qp=N and program=NAME";
const PORT: &str = "it is a device, as rxe0, or a port of it, as rxe0/2";
const DEVICE: &str = "it is a device, as rxe0";

/// A fault of a device, for a time or for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFault {
    /// The device's name.
    pub device: String,
    /// The port whose cable is pulled, from 1; the device is removed if there is none.
    pub port: Option<u8>,
    /// At which calls of a program, if not at its start.
    pub(crate) at: Option<At>,
    /// How long after that.
    pub after: Delay,
    /// How long it takes until all is as before; it stays so if nothing is said.
    pub lasts: Option<Duration>,
}

/// Calls of programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At {
    /// Index in [`Verb::ALL`].
    pub verb: usize,
    /// Whose, and which of them.
    pub scope: Scope,
}

impl DeviceFault {
    /// The same with one of the durations that `after` may be.
    #[must_use]
    pub(super) fn drawn(self, random: &mut Random) -> Self {
        Self { after: self.after.drawn(random), ..self }
    }

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
        let after = duration(&mut spec, "after", Delay::WANTED)?.unwrap_or_default();
        let lasts = duration(&mut spec, "for", Duration::WANTED)?;
        let at = spec.take("at")?.map(|call| At::of(call, &mut spec)).transpose()?;
        spec.end(what, keys)?;
        Ok(Self { device, port, at, after, lasts })
    }
}

/// The value of a key that is a duration, of one kind or the other.
fn duration<T: FromStr>(
    spec: &mut Spec<'_>,
    key: &'static str,
    wanted: &'static str,
) -> Result<Option<T>, Error> {
    let wrong = |value: &str| Error::Value { key, value: value.into(), wanted };
    spec.take(key)?.map(|value| value.parse().map_err(|_| wrong(value))).transpose()
}

impl At {
    fn of(call: &str, spec: &mut Spec<'_>) -> Result<Self, Error> {
        let verb = Verb::named(call).ok_or_else(|| Error::call(call))?;
        let scope = Scope::take(spec)?;
        scope.check(verb)?;
        Ok(Self { verb: Verb::index_of(verb.name), scope })
    }
}

/// As it can be parsed.
impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, port, at, after, lasts } = self;
        match port {
            Some(number) => write!(f, "{PORT_DOWN}:device={device}/{number}")?,
            None => write!(f, "{DEVICE_REMOVED}:device={device}")?,
        }
        if let Some(At { verb, scope }) = at {
            write!(f, ",at={}", Verb::ALL[*verb].name)?;
            scope.parts().try_for_each(|part| write!(f, ",{part}"))?;
        }
        if *after != Delay::default() {
            write!(f, ",after={after}")?;
        }
        lasts.map_or(Ok(()), |lasts| write!(f, ",for={lasts}"))
    }
}
