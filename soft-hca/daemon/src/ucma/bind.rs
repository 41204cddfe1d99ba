//! Ports and listening.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{Bind, IbAddress, Listen, Sockaddr};

use super::id::{Id, Key, Space, State};
use super::wire::Ends;
use super::{Call, Cm, Cx, Host, NOTHING};
use crate::device::Source;

/// Ports that are given to whom it does not matter, as in `ip_local_port_range`.
const EPHEMERAL: std::ops::Range<u16> = 32768..61000;
/// Requests that wait at most, whatever a program asks for (`max_backlog`).
const MAX_BACKLOG: u32 = 1024;

pub(super) const NO_IP: Errno = Errno::ENODEV.because(Refusal::InfinibandAddress);
pub(super) const UNBOUND: Errno = Errno::EINVAL.because(Refusal::IdUnbound);

/// Who holds which port (the kernel's `rdma_bind_list`).
#[derive(Debug, Default)]
pub(super) struct Ports(HashMap<(Space, u16), Vec<Key>>);

impl Ports {
    #[cfg(any(test, fuzzing))]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn holders(&self, space: Space, port: u16) -> &[Key] {
        self.0.get(&(space, port)).map_or(&[], Vec::as_slice)
    }

    /// An unused port, searched from a random one on.
    fn unused(&self, space: Space, random: u32) -> Result<u16> {
        let count = u32::from(EPHEMERAL.end - EPHEMERAL.start);
        let port = |i: u32| EPHEMERAL.start + ((random + i) % count) as u16;
        let mut candidates = (0..count).map(port);
        let unused = candidates.find(|port| !self.0.contains_key(&(space, *port)));
        unused.ok_or(Errno::EADDRNOTAVAIL.because(Refusal::PortsExhausted))
    }

    /// Gives back the port of an id.
    pub(super) fn release(&mut self, id: &Id, key: Key) {
        let Some(port) = id.port else { return };
        let Some(holders) = self.0.get_mut(&port) else { return };
        holders.retain(|other| *other != key);
        if holders.is_empty() {
            self.0.remove(&port);
        }
    }
}

/// Whether two ids of different families stay out of each other's way at one port.
fn family_only(id: &Id) -> bool {
    let is_v4 = matches!(id.src, Some(Sockaddr::Ip(SocketAddr::V4(_))));
    id.family_only.unwrap_or(is_v4)
}

/// The GID of an address to bind to: `None` for a wildcard and other addresses that lead to no device.
fn source_of(
    find_source: impl Fn(IpAddr) -> Option<Source>,
    space: Space,
    address: &Sockaddr,
) -> Result<Option<Source>> {
    const NO_LINK: Errno = Errno::EINVAL.because(Refusal::LinkLocalScope);
    const STRANGE: Errno = Errno::EADDRNOTAVAIL.because(Refusal::ForeignAddress);
    if address.is_unspecified() {
        return Ok(None);
    }
    // No port is found by an InfiniBand address.
    let ip = address.ip().ok_or(NO_IP)?;
    if let SocketAddr::V6(v6) = ip {
        if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 {
            return Err(NO_LINK);
        }
    }
    let source = find_source(ip.ip()).ok_or(STRANGE)?;
    ensure(space != Space::Ipoib, Errno::EINVAL.because(Refusal::NoIpoib))?;
    let is_own = |source: &Source| source.port().is_some_and(|port| port.gids.has_own(ip.ip()));
    Ok(Some(source).filter(is_own))
}

/// The pool of ports that an address takes its port from. An InfiniBand address says so itself,
/// in its service id (`cma_select_ib_ps`).
fn pool(space: Space, address: &Sockaddr) -> Result<Space> {
    let Sockaddr::Ib(ib) = address else { return Ok(space) };
    let allowed: &[Space] = match space {
        Space::Ib => &[Space::Ib, Space::Tcp, Space::Udp],
        Space::Tcp => &[Space::Tcp],
        Space::Udp => &[Space::Udp],
        Space::Ipoib => &[],
    };
    let is_it =
        |space: &&Space| ib.sid & ib.sid_mask & !0xffff == space.service_id(0) & ib.sid_mask;
    let found = allowed.iter().find(is_it).copied();
    found.ok_or(Errno::EPROTONOSUPPORT.because(Refusal::ServiceId))
}

impl Cm {
    pub(super) fn bind(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = Bind::decode(call.payload)?;
        let key = self.find(call.file, request.id)?;
        self.bind_to(cx, key, request.address)?;
        NOTHING
    }

    pub(super) fn bind_ip(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = Bind::decode_ip(call.payload)?;
        let key = self.find(call.file, request.id)?;
        self.bind_to(cx, key, request.address)?;
        NOTHING
    }

    /// Binds an id (`rdma_bind_addr`).
    pub(super) fn bind_to(&mut self, cx: &mut Cx<'_>, key: Key, address: Sockaddr) -> Result<()> {
        let id = self.id(key)?;
        ensure(id.state == State::Idle, id.state.refusal())?;
        let find_source = |ip| self.source(cx.host, id.file, ip);
        let source = source_of(find_source, id.space, &address)?;
        let pool = pool(id.space, &address)?;
        let reuse = id.reuse_address;
        self.id_mut(key)?.src = Some(address);
        let port = match address.port() {
            0 => self.ports.unused(pool, cx.host.random24()),
            port => self.check_port(pool, port, key, reuse).map(|()| port),
        };
        let id = self.id_mut(key)?;
        let port = match port {
            Ok(port) => port,
            Err(error) => {
                id.src = None;
                return Err(error);
            }
        };
        let address = match address {
            Sockaddr::Ib(ib) => Sockaddr::Ib(IbAddress { sid: pool.service_id(0), ..ib }),
            ip => ip,
        };
        id.src = Some(address.with_port(port));
        id.dst = Some(address.unset_of_family());
        id.source = source;
        id.port = Some((pool, port));
        id.state = State::Bound;
        self.ports.0.entry((pool, port)).or_default().push(key);
        Ok(())
    }

    /// Whether an id may hold a port beside those that do (`cma_check_port`).
    fn check_port(&self, space: Space, port: u16, key: Key, reuse: bool) -> Result<()> {
        let id = self.id(key)?;
        let address = id.src.ok_or(UNBOUND)?;
        for other_key in self.ports.holders(space, port) {
            let other = self.id(*other_key)?;
            if *other_key == key || reuse && other.reuse_address {
                continue;
            }
            let Some(other_address) = other.src else { continue };
            let same_family = address.same_family(&other_address);
            if !same_family && family_only(id) && family_only(other) {
                continue;
            }
            if address.is_unspecified() || other_address.is_unspecified() {
                return Err(Errno::EADDRNOTAVAIL.because(Refusal::PortInUse));
            }
            if same_family && address.gid() == other_address.gid() {
                return Err(Errno::EADDRINUSE.because(Refusal::AddressInUse));
            }
        }
        Ok(())
    }

    pub(super) fn listen(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = Listen::decode(call.payload)?;
        let key = self.find(call.file, request.id)?;
        if self.id(key)?.state != State::Bound {
            let any = Sockaddr::Ip(SocketAddr::new(IpAddr::from([0; 4]), 0));
            self.bind_to(cx, key, any)?;
        }
        let id = self.id(key)?;
        // A listener shares its port with nobody.
        if let (true, Some((space, port))) = (id.reuse_address, id.port) {
            self.check_port(space, port, key, false)?;
        }
        let id = self.id_mut(key)?;
        id.reuse_address = false;
        id.backlog = match u32::try_from(request.backlog) {
            Ok(backlog @ 1..=MAX_BACKLOG) => backlog,
            _ => MAX_BACKLOG,
        };
        id.state = State::Listen;
        self.listener_came(cx);
        NOTHING
    }

    /// Who listens for a port of an address. A listener of the very address comes before one of
    /// all addresses.
    pub(super) fn listener(
        &self,
        host: &dyn Host,
        Ends { space, dst: to, .. }: Ends,
    ) -> Option<Key> {
        let device = host.find_source(to.ip()).map(|source| source.device);
        let wanted = to.ip().to_canonical();
        let mut wildcard = None;
        for key in self.ports.holders(space, to.port()) {
            let Some(id) = self.ids.get(key) else { continue };
            let Some(Sockaddr::Ip(address)) = id.src.filter(|_| id.state == State::Listen) else {
                continue;
            };
            let ip = address.ip().to_canonical();
            if device.as_ref().is_some_and(|device| !self.finds(id.file, device)) {
                continue;
            }
            if ip == wanted {
                return Some(*key);
            }
            if ip.is_unspecified() && (ip.is_ipv4() == to.is_ipv4() || !family_only(id)) {
                wildcard = Some(*key);
            }
        }
        wildcard
    }
}
