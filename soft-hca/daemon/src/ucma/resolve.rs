//! Finding addresses and routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::{ResolveAddr, ResolveRoute, Sockaddr, event_type};
use soft_hca_roce::wire::bth::pkeys_match;

use super::bind::{NO_IP, UNBOUND};
use super::cm::Cm;
use super::host::{Call, Cx, FileId, Host, NOTHING};
use super::id::{Key, Space, State};
use super::peer::Peer;
use super::timer::{NeighbourQuery, Timer};

const MS: u64 = 1_000_000;
/// The time before the second look whether the system knows a neighbour: most answer at once. It
/// doubles with each look.
const FIRST_LOOK_NS: u64 = MS / 2;
/// The longest time between two looks.
const LAST_LOOK_NS: u64 = 64 * MS;

/// The address in the family of `like`, which may be an IPv4 address in IPv6 clothes.
fn in_family_of(like: SocketAddr, ip: IpAddr) -> IpAddr {
    match (like, ip) {
        (SocketAddr::V6(_), IpAddr::V4(v4)) => v4.to_ipv6_mapped().into(),
        _ => ip,
    }
}

/// Whether one own address can be asked for from another. On InfiniBand their ports have to be in
/// one partition, which for interfaces of IPoIB is the default one.
fn is_heard(host: &dyn Host, from: IpAddr, to: IpAddr) -> bool {
    let pkey = |ip| host.find_source(ip)?.port()?.pkey(0);
    pkey(from).zip(pkey(to)).is_none_or(|(from, to)| pkeys_match(from, to))
}

impl Cm {
    pub(super) fn resolve_addr(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        self.resolve(cx, call, &ResolveAddr::decode(call.payload)?)
    }

    pub(super) fn resolve_ip(&mut self, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        self.resolve(cx, call, &ResolveAddr::decode_ip(call.payload)?)
    }

    /// Finds the way to an address (`rdma_resolve_addr`). An address of this machine is found at
    /// once, one that the link leads to when the next host on the way is known, any other never.
    fn resolve(
        &mut self,
        cx: &mut Cx<'_>,
        call: &Call<'_>,
        request: &ResolveAddr,
    ) -> Result<Vec<u8>> {
        let key = self.ids.find(call.file, request.id)?;
        self.files.room_for_event(call.file)?;
        if self.ids.id(key)?.state != State::Bound {
            let src = request.src.unwrap_or_else(|| request.dst.unset_of_family());
            self.bind_to(cx, key, src)?;
        }
        let id = self.ids.id_mut(key)?;
        let src = id.src.ok_or(UNBOUND)?;
        let is_same = src.same_family(&request.dst);
        ensure(is_same, Errno::EINVAL.because(Refusal::AddressFamilies))?;
        id.dst = Some(request.dst);
        let (mut dst, src) = (request.dst.ip().ok_or(NO_IP)?, src.ip().ok_or(NO_IP)?);
        // As a socket does: nobody in particular is this machine.
        if request.dst.is_unspecified() {
            let is_v6 = dst.is_ipv6();
            dst.set_ip(if is_v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() });
            id.dst = Some(Sockaddr::Ip(dst));
        }
        let is_ipoib = id.space == Space::Ipoib;
        let to = dst.ip().to_canonical();
        let is_bound = !src.ip().to_canonical().is_unspecified();
        let peer = cx.host.find_peer(to);
        let is_known = to.is_multicast() || peer.is_some();
        let from = if is_bound && is_known {
            src.ip()
        } else if let Some(Peer::Remote { own, .. }) = peer {
            own
        } else if to.is_multicast() || !is_known {
            cx.host.route(to)?
        } else {
            // The system's choice, unless it is an address that the GID table does not have, or of
            // a device that the program does not find.
            let is_own = |ip: &IpAddr| self.files.source(cx.host, call.file, *ip).is_some();
            let usual = cx.host.route(to).ok().filter(is_own).or(Some(to).filter(is_own));
            usual.or_else(|| self.own_address(cx.host, call.file, to)).unwrap_or(to)
        };
        if !is_known || !is_heard(cx.host, from, to) {
            self.ids.id_mut(key)?.state = State::AddrQuery;
            let timeout_ns = u64::from(request.timeout_ms) * MS;
            self.set_timer(key, cx.now_ns.saturating_add(timeout_ns), Timer::Address);
            return NOTHING;
        }
        if is_ipoib {
            // There are no interfaces of IPoIB.
            self.push(key, event_type::ADDR_ERROR, -Errno::EINVAL.number());
            return NOTHING;
        }
        if let Some(Peer::Remote { .. }) = peer {
            let id = self.ids.id_mut(key)?;
            id.path_mtu = Some(cx.host.path_mtu(from.to_canonical()));
            id.state = State::AddrQuery;
            let until_ns = cx.now_ns.saturating_add(u64::from(request.timeout_ms) * MS);
            self.look_for(cx, key, NeighbourQuery { from, until_ns, wait_ns: FIRST_LOOK_NS });
            return NOTHING;
        }
        self.resolved(cx, key, from);
        NOTHING
    }

    /// An address of the family of `like` of a device that the program of a file finds.
    fn own_address(&self, host: &dyn Host, file: FileId, like: IpAddr) -> Option<IpAddr> {
        let found = host.devices().iter().filter(|device| self.files.finds(file, device));
        let mut addresses = found.flat_map(|device| &device.ports).flat_map(|port| port.gids.ips());
        addresses.find(|ip| ip.is_ipv4() == like.is_ipv4())
    }

    /// Goes on when the next host on the way is known.
    pub(super) fn look_for(&mut self, cx: &mut Cx<'_>, key: Key, query: NeighbourQuery) {
        let dst = self.ids.get(key).and_then(|id| id.dst);
        let Some(to) = dst.and_then(|dst| dst.ip()).map(|dst| dst.ip().to_canonical()) else {
            return;
        };
        let NeighbourQuery { from, until_ns, wait_ns } = query;
        if cx.host.knows_neighbour(from.to_canonical(), to) {
            self.resolved(cx, key, from);
        } else if cx.now_ns >= until_ns {
            self.address_unknown(key);
        } else {
            let at_ns = cx.now_ns.saturating_add(wait_ns).min(until_ns);
            let wait_ns = (2 * wait_ns).min(LAST_LOOK_NS);
            self.set_timer(key, at_ns, Timer::Neighbour(NeighbourQuery { wait_ns, ..query }));
        }
    }

    /// The way is found, and begins at an own address.
    fn resolved(&mut self, cx: &Cx<'_>, key: Key, from: IpAddr) {
        let Some(id) = self.ids.get_mut(key) else { return };
        let Some(source) = cx.host.find_source(from) else {
            id.state = State::Bound;
            self.push(key, event_type::ADDR_ERROR, -Errno::ENODEV.number());
            return;
        };
        let from = match id.dst {
            Some(Sockaddr::Ip(dst)) => in_family_of(dst, from),
            _ => from,
        };
        if let Some(Sockaddr::Ip(src)) = &mut id.src {
            src.set_ip(from);
            // A link-local address says on which link.
            if let (SocketAddr::V6(src), Some(Sockaddr::Ip(SocketAddr::V6(dst)))) = (src, id.dst) {
                if src.ip().is_unicast_link_local() && src.scope_id() == 0 {
                    src.set_scope_id(dst.scope_id());
                }
            }
        }
        id.source = Some(source);
        id.state = State::AddrResolved;
        self.push(key, event_type::ADDR_RESOLVED, 0);
    }

    /// Nobody has the address. The id may try again.
    pub(super) fn address_unknown(&mut self, key: Key) {
        if let Some(id) = self.ids.get_mut(key) {
            id.state = State::Bound;
        }
        self.push(key, event_type::ADDR_ERROR, -Errno::ETIMEDOUT.number());
    }

    pub(super) fn resolve_route(&mut self, _: &mut Cx<'_>, call: &Call<'_>) -> Result<Vec<u8>> {
        let request = ResolveRoute::decode(call.payload)?;
        let key = self.ids.find_with_device(call.file, request.id)?;
        let id = self.ids.id_mut(key)?;
        ensure(id.state == State::AddrResolved, id.state.refusal())?;
        id.state = State::RouteResolved;
        id.has_path = true;
        let port = |address: Option<Sockaddr>| address.map_or(0, |address| address.port());
        // As `cma_get_roce_udp_flow_label`: connections differ in it, directions do not.
        id.flow_label = (u32::from(port(id.src)) * 31 + u32::from(port(id.dst))) & 0xf_ffff;
        self.push(key, event_type::ROUTE_RESOLVED, 0);
        NOTHING
    }
}
