//! The link, as the rest of the daemon sees it.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use soft_hca_core::arena::Mapping;
use soft_hca_core::arena::port_counters::LinkCounts;
use soft_hca_core::port::Path;
use soft_hca_core::port::socket::Socket;
use soft_hca_roce::wire::bth::Qpn;
use soft_hca_roce::wire::ip;
use soft_hca_roce::wire::mad::MAD_BYTES;

use crate::device::{self, Neighbour, is_link_local};
use crate::event_fd::EventFd;
use crate::link::fault::FaultCounters;
use crate::link::multicast::Groups;

/// Management datagrams that may wait for the main loop. More are lost, as on any way.
const MAX_MADS: usize = 1024;

/// A management datagram that has come for queue pair 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedMad {
    /// Whose address the packet has.
    pub from: IpAddr,
    /// The own address to which it was sent.
    pub to: IpAddr,
    /// The datagram.
    pub mad: [u8; MAD_BYTES],
}

/// A socket of a lease, for the process that has it.
#[derive(Debug)]
pub(crate) struct LeasedSocket {
    /// Its address.
    pub gid: [u8; 16],
    /// The socket.
    pub fd: OwnedFd,
}

impl LeasedSocket {
    /// The socket as whoever has got it uses it.
    pub(crate) fn bound(self) -> Option<Socket> {
        Socket::lent(&self.gid, self.fd)
    }
}

/// The link of a fabric, which may be off. All who have a clone have the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handle(Option<Arc<Shared>>);

/// The state that both sides of the handle use.
#[derive(Debug)]
pub(super) struct Shared {
    /// Own addresses, each with a socket.
    pub addresses: Vec<IpAddr>,
    /// The network interface of those that are good for one link only.
    pub interface: Option<u32>,
    /// Whether it leads to the own addresses, too.
    pub is_always: bool,
    pub groups: Groups,
    /// Of each lease of the port but the first, a socket for each address; none if there are no leases.
    pub leases: Vec<Vec<Socket>>,
    /// To the link's thread.
    pub orders: Mailbox<Order>,
    /// To the main loop.
    pub mads: Mailbox<ReceivedMad>,
    /// Where doorbells are.
    pub arena: Arc<Mapping>,
    pub faults: Option<Arc<FaultCounters>>,
}

/// An order of the daemon to the link.
#[derive(Debug)]
pub(super) enum Order {
    /// Sends a management datagram.
    SendMad { from: IpAddr, to: IpAddr, mad: Box<[u8; MAD_BYTES]> },
    /// Has the system resolve the hardware address of the next host on a way.
    Ask { from: IpAddr, to: IpAddr },
    /// A queue pair with a peer on another host has come to a state (`ibv_qp_state`; RESET also if
    /// it is destroyed).
    State { qpn: Qpn, state: u32, path: Path },
    /// These sockets are for a group.
    JoinGroup(Vec<Socket>),
    /// No socket is for this group any more.
    LeaveGroup(IpAddr),
    /// The link's thread ends.
    End,
}

impl Shared {
    pub(super) fn new(
        (addresses, interface): (Vec<IpAddr>, Option<u32>),
        is_always: bool,
        faults: Option<Arc<FaultCounters>>,
        (groups, leases): (Groups, Vec<Vec<Socket>>),
        arena: Arc<Mapping>,
    ) -> std::io::Result<Self> {
        Ok(Self {
            addresses,
            interface,
            is_always,
            groups,
            leases,
            orders: Mailbox::new(usize::MAX)?,
            mads: Mailbox::new(MAX_MADS)?,
            arena,
            faults,
        })
    }
}

impl Handle {
    /// Of a link that is on.
    pub(super) fn on(shared: Arc<Shared>) -> Self {
        Self(Some(shared))
    }

    /// Own addresses; none if the link is off.
    pub(crate) fn addresses(&self) -> &[IpAddr] {
        self.0.as_ref().map_or(&[], |shared| &shared.addresses)
    }

    /// The own address from which the link reaches another one; `None` if it does not, for one
    /// because it is off.
    pub(crate) fn can_reach(&self, to: IpAddr) -> Option<IpAddr> {
        let shared = self.0.as_ref()?;
        if to.is_loopback() || to.is_unspecified() || to.is_multicast() {
            return None;
        }
        if is_link_local(&to) {
            return shared.addresses.iter().copied().find(is_link_local);
        }
        device::route(to).ok().filter(|from| shared.addresses.contains(from))
    }

    /// Whether what goes from an own address to another own one goes by the link as well.
    pub(crate) fn is_taken_to_self(&self, from: IpAddr, to: IpAddr) -> bool {
        self.0.as_ref().is_some_and(|shared| {
            shared.is_always && [from, to].iter().all(|ip| shared.addresses.contains(ip))
        })
    }

    /// Sends a management datagram from queue pair 1 to another host's queue pair 1 (UD SEND_ONLY,
    /// Q_Key 0x80010000). It may get lost.
    pub(crate) fn send_mad(&self, from: IpAddr, to: IpAddr, mad: &[u8; MAD_BYTES]) {
        if let Some(shared) = &self.0 {
            shared.orders.put(Order::SendMad { from, to, mad: Box::new(*mad) });
        }
    }

    /// Whether processes may have leases of the port.
    pub(crate) fn has_leases(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| !shared.leases.is_empty())
    }

    /// The sockets of a lease that is a process's, each with its address as a GID.
    pub(crate) fn lease(&self, number: usize) -> Option<Vec<LeasedSocket>> {
        let sockets = self.0.as_ref()?.leases.get(number.checked_sub(1)?)?.iter();
        let lent = sockets.map(|socket| {
            let fd = socket.as_fd().try_clone_to_owned().ok()?;
            Some(LeasedSocket { gid: ip::gid(socket.address), fd })
        });
        lent.collect()
    }

    /// Whether the system knows the next host on the way from an own address to another host's. If
    /// not, an empty packet has the system resolve it.
    pub(crate) fn knows_neighbour(&self, from: IpAddr, to: IpAddr) -> bool {
        let Some(shared) = &self.0 else { return true };
        let interface = shared.interface.filter(|_| is_link_local(&to));
        let neighbour = device::neighbour(to, interface);
        if neighbour == Neighbour::Unknown {
            shared.orders.put(Order::Ask { from, to });
        }
        neighbour == Neighbour::Known
    }

    /// Whether packets can go from an own address to another host's.
    pub(crate) fn has_way(&self, from: IpAddr, to: IpAddr) -> bool {
        let has_socket = self.0.as_ref().is_some_and(|shared| shared.addresses.contains(&from));
        has_socket && is_link_local(&from) == is_link_local(&to) && self.can_reach(to).is_some()
    }

    /// Whether what is for a group comes to its members of this fabric by the link.
    pub(crate) fn brings_back(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.is_always)
    }

    /// Whether what is for a group leaves this host from an own address.
    pub(crate) fn has_way_to_group(&self, from: IpAddr, group: IpAddr) -> bool {
        let has_socket = self.0.as_ref().is_some_and(|shared| shared.addresses.contains(&from));
        has_socket && from.is_ipv4() == group.is_ipv4()
    }

    /// A group has one more member. What other hosts send to it is heard from now on. Where the
    /// system does not allow that, the group stays in the fabric.
    pub(crate) fn join(&self, group: IpAddr) {
        let Some(shared) = &self.0 else { return };
        let joined = shared.groups.join(group).into_iter().filter_map(|socket| {
            let refused = |error| tracing::warn!(%group, "other hosts are not heard: {error}");
            socket.map_err(refused).ok()
        });
        let joined: Vec<Socket> = joined.collect();
        if !joined.is_empty() {
            shared.orders.put(Order::JoinGroup(joined));
        }
    }

    /// A group has one member less.
    pub(crate) fn leave(&self, group: IpAddr) {
        if let Some(shared) = &self.0 {
            if shared.groups.leave(group) {
                shared.orders.put(Order::LeaveGroup(group));
            }
        }
    }

    /// A queue pair with a peer on another host has come to a state; RESET also if it is destroyed.
    pub(crate) fn set_state(&self, qpn: Qpn, state: u32, path: Path) {
        if let Some(shared) = &self.0 {
            shared.orders.put(Order::State { qpn, state, path });
        }
    }

    /// Has the link look at a queue pair's send queue.
    pub(crate) fn doorbell_of(&self, qpn: u32) {
        if let Some(shared) = &self.0 {
            if shared.arena.link_doorbell(qpn) {
                shared.orders.wake();
            }
        }
    }

    /// A descriptor to which a program writes to wake the link.
    pub(crate) fn doorbell(&self) -> Option<std::io::Result<OwnedFd>> {
        self.0.as_ref().map(|shared| shared.orders.doorbell.try_clone())
    }

    /// A description of the link, if it is on: addresses and counters, and a line about what goes
    /// wrong on purpose.
    pub(crate) fn describe(&self) -> Vec<String> {
        let Some(shared) = &self.0 else { return Vec::new() };
        let addresses: Vec<String> = shared.addresses.iter().map(IpAddr::to_string).collect();
        let always = if shared.is_always { "always, " } else { "" };
        let counters = &shared.arena.port_counters;
        // Programs do not run it.
        let alone = if shared.leases.is_empty() { ", one socket" } else { "" };
        let link = format!("roce {always}{}: {counters}{alone}", addresses.join(", "));
        let faults = shared.faults.as_ref().map(|faults| faults.describe());
        std::iter::once(link).chain(faults).collect()
    }

    /// The values of its counters; all 0 if it is off.
    pub(crate) fn counts(&self) -> LinkCounts {
        self.0.as_ref().map(|shared| shared.arena.port_counters.load()).unwrap_or_default()
    }

    /// Becomes readable when there is something for the main loop, which then calls
    /// [`Handle::take_notice`].
    pub(crate) fn notice(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|shared| shared.mads.doorbell.as_fd())
    }

    /// Takes what the notice was about. The queues of the daemon's data path may have something,
    /// too.
    pub(crate) fn take_notice(&self) -> VecDeque<ReceivedMad> {
        self.0.as_ref().map(|shared| shared.mads.take()).unwrap_or_default()
    }
}

/// A queue with a descriptor that tells that there is something in it.
#[derive(Debug)]
pub(super) struct Mailbox<T> {
    queue: Mutex<VecDeque<T>>,
    /// More than so many are lost.
    room: usize,
    pub doorbell: EventFd,
}

impl<T> Mailbox<T> {
    fn new(room: usize) -> std::io::Result<Self> {
        Ok(Self { queue: Mutex::new(VecDeque::new()), room, doorbell: EventFd::new()? })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, item: T) {
        let mut queue = self.lock();
        if queue.is_empty() && !self.doorbell.is_set() {
            self.doorbell.add(1);
        }
        if queue.len() < self.room {
            queue.push_back(item);
        }
    }

    /// Rings, and nothing is in it.
    pub(super) fn wake(&self) {
        let _queue = self.lock();
        if !self.doorbell.is_set() {
            self.doorbell.add(1);
        }
    }

    pub(super) fn take(&self) -> VecDeque<T> {
        self.doorbell.take();
        std::mem::take(&mut *self.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_link_that_is_off_reaches_nobody() {
        let handle = Handle::default();
        assert_eq!(handle.can_reach(Ipv4Addr::new(192, 0, 2, 1).into()), None);
        assert!(handle.notice().is_none() && handle.take_notice().is_empty());
    }

    #[test]
    fn a_mailbox_tells_that_it_has_something() {
        let mailbox = Mailbox::new(2).unwrap();
        mailbox.put(1);
        mailbox.put(2);
        mailbox.put(3);
        assert!(mailbox.doorbell.is_set());
        assert_eq!(mailbox.take(), [1, 2]);
        assert!(!mailbox.doorbell.is_set());
        mailbox.wake();
        mailbox.wake();
        assert!(mailbox.take().is_empty());
        assert!(!mailbox.doorbell.is_set());
    }
}
