//! Faults of the link's packets.

use std::fmt;

use super::Error;
use super::occasion::Occasion;
use super::spec::{Number, Spec};
use super::value::Duration;

/// What goes wrong with packets, with which of them, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketFault {
    pub kind: Kind,
    pub occasion: Occasion,
    /// Only with those of one direction.
    pub direction: Option<Direction>,
    /// Only with those whose destination is this queue pair.
    pub qpn: Option<u32>,
}

/// What goes wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Drop,
    Duplicate,
    Corrupt,
    /// It is late by this.
    Delay(Duration),
    /// So many later packets to the same queue pair overtake it.
    Reorder(u32),
}

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    Send,
    Receive,
}

const KEYS: &str = "P%, nth=N, times=N, dir=send, dir=receive, qp=N";
const DELAY_KEYS: &str = "a duration, P%, nth=N, times=N, dir=send, dir=receive, qp=N";
const REORDER_KEYS: &str = "by=N, P%, nth=N, times=N, dir=send, dir=receive, qp=N";

impl Direction {
    pub(super) fn take(spec: &mut Spec<'_>) -> Result<Option<Self>, Error> {
        match spec.take("dir")? {
            None => Ok(None),
            Some("send") => Ok(Some(Self::Send)),
            Some("receive" | "recv") => Ok(Some(Self::Receive)),
            Some(other) => {
                let wanted = "a direction is send or receive";
                Err(Error::Value { key: "dir", value: other.into(), wanted })
            }
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "dir=send",
            Self::Receive => "dir=receive",
        })
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Duplicate => "duplicate",
            Self::Corrupt => "corrupt",
            Self::Delay(_) => "delay",
            Self::Reorder(_) => "reorder",
        }
    }

    fn keys(self) -> &'static str {
        match self {
            Self::Delay(_) => DELAY_KEYS,
            Self::Reorder(_) => REORDER_KEYS,
            _ => KEYS,
        }
    }
}

impl PacketFault {
    pub(super) fn of(mut spec: Spec<'_>) -> Result<Self, Error> {
        let kind = match spec.what {
            "drop" => Kind::Drop,
            "duplicate" => Kind::Duplicate,
            "corrupt" => Kind::Corrupt,
            "delay" => {
                let wanted = Duration::WANTED;
                let missing = Error::Missing { what: "delay", key: "for", wanted };
                Kind::Delay(spec.value("for", wanted)?.ok_or(missing)?)
            }
            "reorder" => Kind::Reorder(spec.number("by", &Number::COUNT)?.unwrap_or(1) as u32),
            other => return Err(Error::Fault(other.into())),
        };
        let direction = Direction::take(&mut spec)?;
        let qpn = spec.number("qp", &Number::QPN)?.map(|qpn| qpn as u32);
        let occasion = Occasion::take(&mut spec)?;
        spec.end(kind.name(), kind.keys())?;
        Ok(Self { kind, occasion, direction, qpn })
    }

    /// Whether it is about packets of this direction to this queue pair.
    pub(crate) fn is_about(&self, direction: Direction, qpn: Option<u32>) -> bool {
        self.direction.is_none_or(|wanted| wanted == direction)
            && self.qpn.is_none_or(|wanted| Some(wanted) == qpn)
    }
}

impl fmt::Display for PacketFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = match self.kind {
            Kind::Drop | Kind::Duplicate | Kind::Corrupt | Kind::Reorder(1) => None,
            Kind::Delay(duration) => Some(duration.to_string()),
            Kind::Reorder(by) => Some(format!("by={by}")),
        };
        let direction = self.direction.map(|direction| direction.to_string());
        let qp = self.qpn.map(|qpn| format!("qp={qpn}"));
        let parts: Vec<String> =
            own.into_iter().chain(self.occasion.parts()).chain(direction).chain(qp).collect();
        f.write_str(self.kind.name())?;
        if !parts.is_empty() {
            write!(f, ":{}", parts.join(","))?;
        }
        Ok(())
    }
}
