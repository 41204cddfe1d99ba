//! The connection manager's ids, as `soft-hca ls` shows them.

use std::fmt;
use std::net::SocketAddr;

use super::cm::Cm;
use super::id::{Space, State};
use super::ids::Id;

/// An id, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CmIdInfo {
    /// Its number.
    pub id: u32,
    /// Index of the process that it belongs to.
    pub owner: usize,
    /// How far it has come, as the kernel's tools call it.
    pub state: &'static str,
    /// Port space, as the kernel's tools call it.
    pub port_space: &'static str,
    /// Its own address, if it has an IP address.
    pub src: Option<SocketAddr>,
    /// Its peer's.
    pub dst: Option<SocketAddr>,
    /// Its queue pair's number, 0 if it has told none.
    pub qpn: u32,
}

impl fmt::Display for CmIdInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} state {} ps {}", self.id, self.state, self.port_space)?;
        if self.qpn != 0 {
            write!(f, " lqpn {}", self.qpn)?;
        }
        if let Some(src) = self.src {
            write!(f, " src-addr {src}")?;
        }
        match self.dst {
            Some(dst) if !dst.ip().is_unspecified() => write!(f, " dst-addr {dst}"),
            _ => Ok(()),
        }
    }
}

fn state_name(id: &Id) -> &'static str {
    match id.state {
        State::Idle => "IDLE",
        State::Bound => "ADDR_BOUND",
        State::AddrQuery => "ADDR_QUERY",
        State::AddrResolved => "ADDR_RESOLVED",
        State::RouteResolved => "ROUTE_RESOLVED",
        State::Listen => "LISTEN",
        State::Connect => "CONNECT",
        State::Disconnect => "DISCONNECT",
        State::Removed => "DEVICE_REMOVAL",
    }
}

fn space_name(space: Space) -> &'static str {
    match space {
        Space::Ipoib => "IPoIB",
        Space::Tcp => "TCP",
        Space::Udp => "UDP",
        Space::Ib => "IB",
    }
}

impl Cm {
    /// All ids, by number.
    pub(crate) fn listing(&self) -> Vec<CmIdInfo> {
        let info = |id: &Id| CmIdInfo {
            id: id.number,
            owner: self.files.get(id.file).map_or(0, |file| file.owner),
            state: state_name(id),
            port_space: space_name(id.space),
            src: id.src.and_then(|src| src.ip()),
            dst: id.dst.and_then(|dst| dst.ip()),
            qpn: id.connection.as_ref().map_or(0, |connection| connection.qpn.get()),
        };
        let mut listing: Vec<CmIdInfo> = self.ids.iter().map(|(_, id)| id).map(info).collect();
        listing.sort_unstable_by_key(|info| info.id);
        listing
    }
}
