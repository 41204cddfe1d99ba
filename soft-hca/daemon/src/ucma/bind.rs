//! Ports and listening.

use std::net::{IpAddr, SocketAddr};

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{Bind, IbAddress, Listen, Sockaddr};

use super::cm::Cm;
use super::host::{Call, Cx, Host, NOTHING};
use super::id::{Key, Space, State};
use super::ids::Id;
use super::peer::RemoteId;
use super::wire::{Ends, Envelope};
use crate::device::Source;

/// Requests that wait at most, whatever a program asks for (`max_backlog`).
const MAX_BACKLOG: u32 = 1024;

pub(super) const NO_IP: Errno = Errno::ENODEV.because(Refusal::InfinibandAddress);
pub(super) const UNBOUND: Errno = Errno::EINVAL.because(Refusal::IdUnbound);

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
        let key = self.ids.find(call.file, request.id)?;
        self.bind_to(cx, key, request.address)?;
        NOTHING
    }

    pub(super) fn bind_ip(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = Bind::decode_ip(call.payload)?;
        let key = self.ids.find(call.file, request.id)?;
        self.bind_to(cx, key, request.address)?;
        NOTHING
    }

    /// Binds an id (`rdma_bind_addr`).
    pub(super) fn bind_to(&mut self, cx: &mut Cx<'_>, key: Key, address: Sockaddr) -> Result<()> {
        let id = self.ids.id(key)?;
        ensure(id.state == State::Idle, id.state.refusal())?;
        let find_source = |ip| self.files.source(cx.host, id.file, ip);
        let source = source_of(find_source, id.space, &address)?;
        let pool = pool(id.space, &address)?;
        let reuse = id.reuse_address;
        self.ids.id_mut(key)?.src = Some(address);
        let port = match address.port() {
            0 => self.ports.unused(pool, cx.host.random24()),
            port => self.check_port(pool, port, key, reuse).map(|()| port),
        };
        let id = self.ids.id_mut(key)?;
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
        self.ports.hold((pool, port), key);
        Ok(())
    }

    /// Whether an id may hold a port beside those that do (`cma_check_port`).
    fn check_port(&self, space: Space, port: u16, key: Key, reuse: bool) -> Result<()> {
        let id = self.ids.id(key)?;
        let address = id.src.ok_or(UNBOUND)?;
        for other_key in self.ports.holders(space, port) {
            let other = self.ids.id(*other_key)?;
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
        let key = self.ids.find(call.file, request.id)?;
        if self.ids.id(key)?.state != State::Bound {
            let any = Sockaddr::Ip(SocketAddr::new(IpAddr::from([0; 4]), 0));
            self.bind_to(cx, key, any)?;
        }
        let id = self.ids.id(key)?;
        // A listener shares its port with nobody.
        if let (true, Some((space, port))) = (id.reuse_address, id.port) {
            self.check_port(space, port, key, false)?;
        }
        let id = self.ids.id_mut(key)?;
        id.reuse_address = false;
        id.backlog = match u32::try_from(request.backlog) {
            Ok(backlog @ 1..=MAX_BACKLOG) => backlog,
            _ => MAX_BACKLOG,
        };
        id.state = State::Listen;
        self.listener_came(cx);
        NOTHING
    }

    /// The listener for a port of an address. A listener of the very address comes before one of
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
            let Some(id) = self.ids.get(*key) else { continue };
            let Some(Sockaddr::Ip(address)) = id.src.filter(|_| id.state == State::Listen) else {
                continue;
            };
            let ip = address.ip().to_canonical();
            if device.as_ref().is_some_and(|device| !self.files.finds(id.file, device)) {
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

    /// Keeps a request without a listener until there is one; refuses it if too many wait.
    pub(super) fn wait_for_listener(&mut self, cx: &Cx<'_>, remote: RemoteId, envelope: &Envelope) {
        if !self.pending.keep(&mut self.timers, cx.now_ns, remote, envelope) {
            self.messages.refuse(cx, remote.peer, &envelope.message);
        }
    }

    /// An id listens: requests that wait for it are received.
    fn listener_came(&mut self, cx: &Cx<'_>) {
        for remote in self.pending.of(|ends| self.listener(cx.host, ends).is_some()) {
            if let Some(envelope) = self.pending.take(&mut self.timers, remote) {
                self.messages.arrive(remote.peer, envelope);
            }
        }
    }

    /// There is still no listener: refuses the request.
    pub(super) fn nobody_listens(&mut self, cx: &mut Cx<'_>, remote: RemoteId) {
        if let Some(envelope) = self.pending.take(&mut self.timers, remote) {
            let cx = &cx.answering(envelope.transaction);
            self.messages.refuse(cx, remote.peer, &envelope.message);
        }
    }
}
