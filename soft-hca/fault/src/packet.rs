//! Faults of the link's packets.

use std::fmt;

use soft_hca_roce::wire::bth::Qpn;
use soft_hca_roce::wire::opcode::Service;

use super::Error;
use super::spec::{Number, Spec};
use super::trigger::Trigger;
use super::value::Duration;

/// A fault of packets: its kind, with which of them, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketFault {
    /// Its kind.
    pub kind: Kind,
    /// With how many of them.
    pub trigger: Trigger,
    /// Only with those of one direction.
    pub direction: Option<Direction>,
    /// Only with those whose destination is this queue pair.
    pub qpn: Option<Qpn>,
    /// Only with those of this service.
    pub service: Option<Service>,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The queue pair.
    pub qpn: Qpn,
    /// How it is connected, unless the packet is of no known kind.
    pub service: Option<Service>,
}

/// The kind of a fault of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is lost.
    Drop,
    /// It comes twice.
    Duplicate,
    /// One of its bits is another.
    Corrupt,
    /// It is late by this.
    Delay(Duration),
    /// So many later packets to the same queue pair overtake it.
    Reorder(u32),
}

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From this host.
    Send,
    /// To this host.
    Receive,
}

/// The services, and what they are called here.
const SERVICES: [(Service, &str); 3] =
    [(Service::Rc, "rc"), (Service::Uc, "uc"), (Service::Ud, "ud")];

const KEYS: &str = "P%, nth=N, times=N, dir=send, dir=receive, qp=N, service=rc, uc or ud";
const DELAY_KEYS: &str =
    "a duration, P%, nth=N, times=N, dir=send, dir=receive, qp=N, service=rc, uc or ud";
const REORDER_KEYS: &str =
    "by=N, P%, nth=N, times=N, dir=send, dir=receive, qp=N, service=rc, uc or ud";

fn take_service(spec: &mut Spec<'_>) -> Result<Option<Service>, Error> {
    let Some(value) = spec.take("service")? else { return Ok(None) };
    let found = SERVICES.iter().find(|(_, name)| *name == value);
    let wanted = "a service is rc, uc or ud";
    let (service, _) =
        found.ok_or_else(|| Error::Value { key: "service", value: value.into(), wanted })?;
    Ok(Some(*service))
}

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
        let qpn = spec.number("qp", &Number::QPN)?.map(|qpn| Qpn::new(qpn as u32));
        let service = take_service(&mut spec)?;
        let trigger = Trigger::take(&mut spec)?;
        spec.end(kind.name(), kind.keys())?;
        Ok(Self { kind, trigger, direction, qpn, service })
    }

    /// Whether it is about packets of this direction to this destination, if they have one.
    pub fn is_about(&self, direction: Direction, to: Option<Destination>) -> bool {
        self.direction.is_none_or(|wanted| wanted == direction)
            && self.qpn.is_none_or(|wanted| to.is_some_and(|to| to.qpn == wanted))
            && self.service.is_none_or(|wanted| to.is_some_and(|to| to.service == Some(wanted)))
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
        let service = SERVICES.iter().find(|(service, _)| self.service == Some(*service));
        let service = service.map(|(_, name)| format!("service={name}"));
        let parts = own.into_iter().chain(self.trigger.parts());
        let parts: Vec<String> = parts.chain(direction).chain(qp).chain(service).collect();
        f.write_str(self.kind.name())?;
        if !parts.is_empty() {
            write!(f, ":{}", parts.join(","))?;
        }
        Ok(())
    }
}
