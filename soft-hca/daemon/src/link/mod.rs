//! The link to other hosts: RoCE v2 over UDP sockets of an ordinary user.
//!
//! ```text
//!   program                          daemon                             another host
//!
//!  doorbell ── a bit in the arena ─> link's thread
//!              (its doorbell, if it  `queue_pair`: the transport's queue pair
//!              sleeps)               engine::remote: requests, memory, completions
//!                                    `port`: builds, seals ─ `tap` ── UDP ──> its link, rxe or
//!                                            checks       <─ `tap` ── UDP ─── adapter
//!  main loop ── `handle`: states of queue pairs, management datagrams
//! ```
//!
//! A send from one host's doorbell to the other's completion, and back to its own:
//!
//! ```text
//!  host A                                                host B
//!
//!  program: ibv_post_send: the request in its ring       program: ibv_post_recv: a receive in its ring
//!   │ doorbell: a write() that the preload answers
//!   v
//!  engine: a queue pair with a remote peer:
//!   │ its bit in the arena, and the doorbell if the
//!   │ link's thread sleeps
//!   v
//!  link's thread                                         link's thread
//!   takes the request from the ring
//!   requester: packets, PSNs, the last one asks
//!   reads the program's memory into each packet
//!   ICRC, sendto ──── UDP 4791 ────────────────────────> recv, ICRC, addresses, which queue pair
//!                                                        responder: is it the expected PSN?
//!                                                        takes the receive from the program's ring
//!                                                        writes the payload into its memory
//!                                                        the last one: the receive's completion,
//!                                                        and a wake-up if the queue is armed
//!                                                                      │
//!   requester: all up to this PSN is done <─── ACK ──── one for all     └> program: ibv_poll_cq
//!   the send's completion, a wake-up
//!   │
//!   └> program: ibv_poll_cq
//! ```
//!
//! The requester keeps what is not acknowledged, with a deadline: the thread sleeps until a packet,
//! the doorbell or the first deadline comes, and then sends it again.
//!
//! | file | what |
//! | --- | --- |
//! | `handle` | what the rest of the daemon sees of it |
//! | `addresses` | which addresses it is to have |
//! | `thread` | the thread: packets, doorbells, time; which queue pair a packet is for |
//! | `watch` | which leases of the port it runs, and which their processes do |
//! | `mads` | management datagrams that wait for packets before them |
//! | `env` | what the engine asks of it |
//! | `spin` | when it looks for more before it sleeps |
//! | `soft_hca_core::port` | packets out and in, checked; connected queue pairs |
//! | `tap` | what is between the port and its sockets if it is asked for: |
//! | `fault` | packets that get lost, come twice, are late or damaged, on purpose |
//! | `pcap` | a recording |
//! | `multicast` | groups, and the sockets that receive from them |

mod addresses;
mod env;
mod fault;
mod handle;
mod mads;
mod multicast;
mod pcap;
mod spin;
mod tap;
mod thread;
mod watch;

use soft_hca_core::arena::{Mapping, PORT_LEASES};
use soft_hca_core::config::LinkOptions;
use soft_hca_core::engine::LocalCopier;
use soft_hca_core::port::LinkPort;
use soft_hca_core::port::socket::Socket;
use soft_hca_core::rpc::MAX_FDS;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::device::{self, Device};
use crate::env::DaemonEnv;
pub use crate::link::multicast::Groups;
pub(crate) use soft_hca_core::port::Path;

pub use addresses::{addresses, link_addresses};
pub(crate) use handle::{Handle, LeasedSocket, ReceivedMad};
pub(crate) use thread::Thread;

/// How long a port that is taken is tried again, and after which time each.
const PATIENCE: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(10);

/// Why there is no link. The fabric goes on without other hosts.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A wish that is neither.
    #[error("{0} is no address and no interface of this machine")]
    Unknown(String),
    /// Loopback is all there is.
    #[error("this machine has no address that other hosts could reach")]
    NoAddress,
    /// Somebody else has bound the port.
    #[error(
        "UDP port 4791 of {0} is taken: by another fabric with a link, by the programs of one that was \
         killed, or by the kernel's Soft-RoCE (module rdma_rxe)"
    )]
    Taken(IpAddr),
    /// The port cannot be bound for another reason.
    #[error("cannot use UDP port 4791 of {0}: {1}")]
    Socket(IpAddr, #[source] io::Error),
    /// The file for packets cannot be written.
    #[error("cannot record to {}: {}", .0.display(), .1)]
    Pcap(PathBuf, #[source] io::Error),
    /// The system has no thread for it.
    #[error("cannot start the link's thread: {0}")]
    Thread(#[source] io::Error),
}

/// Starts the link with sockets of all addresses that are wanted.
pub(crate) fn start(
    wanted: &LinkOptions,
    device: &Device,
    arena: Arc<Mapping>,
    copier: LocalCopier,
    env: Arc<DaemonEnv>,
) -> Result<(Handle, Thread), Error> {
    let mut addresses = addresses(&wanted.addresses, &device::interfaces())?;
    let netdev_of = |address| device.ports.iter().find_map(|port| port.gids.netdev_of(address));
    let interface_of = |address| soft_hca_core::system::interface_number(netdev_of(address)?);
    // The tap has to see all packets.
    let is_plain = wanted.pcap.is_none() && wanted.faults.is_empty();
    let base = arena.qpn_base.load(Acquire);
    // Programs whose fabric was killed give its port back when they notice.
    let until = Instant::now() + PATIENCE;
    let bind = |&address: &IpAddr| {
        let interface = interface_of(address).unwrap_or_default();
        loop {
            let bound = match is_plain {
                true => Socket::bind_leases(address, interface, wanted.is_always, base),
                false => Socket::bind(address, interface, wanted.is_always).map(|one| vec![one]),
            };
            match bound {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    return Err(Error::Socket(address, error));
                }
                Err(_) if Instant::now() < until => sleep(AGAIN),
                bound => return bound.map_err(|_| Error::Taken(address)),
            }
        }
    };
    let sockets: Result<Vec<Vec<Socket>>, Error> = addresses.iter().map(bind).collect();
    let mut sockets = sockets?;
    // Those of one network interface, for such an address does not say which.
    let interface = interface_of(addresses[0]);
    if let Some(netdev) = netdev_of(addresses[0]) {
        for address in device.ports.iter().flat_map(|port| port.gids.link_locals(netdev)) {
            match bind(&address) {
                Ok(socket) => {
                    addresses.push(address);
                    sockets.push(socket);
                }
                Err(error) => tracing::info!("not on the link: {error}"),
            }
        }
    }
    let with_interface = |ip: &IpAddr| Some((interface_of(*ip)?, ip.is_ipv6()));
    let groups = Groups::new(addresses.iter().filter_map(with_interface).collect());
    let create =
        |path: &PathBuf| pcap::Pcap::create(path).map_err(|error| Error::Pcap(path.clone(), error));
    let pcap = wanted.pcap.as_ref().map(create).transpose()?;
    let faults = (!wanted.faults.is_empty()).then(|| wanted.faults.clone().seeded());
    let counters = faults.clone().map(|plan| Arc::new(fault::FaultCounters::new(plan)));
    let tap = tap::Tap::new(faults.as_ref().zip(counters.clone()), pcap);
    let (sockets, leases) = by_lease(sockets);
    let around = (groups, leases);
    let shared =
        handle::Shared::new((addresses, interface), wanted.is_always, counters, around, arena);
    let shared = Arc::new(shared.map_err(Error::Thread)?);
    let port = LinkPort::new(sockets, Arc::clone(&shared.arena), tap);
    let thread = Thread::start(Arc::clone(&shared), env, copier, port).map_err(Error::Thread)?;
    Ok((Handle::on(shared), thread))
}

/// Of each address's sockets the first, which is the port's own, and by lease the others. Leases are for
/// all addresses or for none, as many as a message carries.
fn by_lease(mut sockets: Vec<Vec<Socket>>) -> (Vec<Socket>, Vec<Vec<Socket>>) {
    let have_all = sockets.len() <= MAX_FDS
        && sockets.iter().all(|of_address| of_address.len() == PORT_LEASES);
    let mut leases: Vec<Vec<Socket>> = Vec::new();
    if have_all {
        leases.resize_with(PORT_LEASES - 1, Vec::new);
        for of_address in &mut sockets {
            for (lease, socket) in leases.iter_mut().zip(of_address.drain(1..)) {
                lease.push(socket);
            }
        }
    }
    (sockets.into_iter().filter_map(|of_address| of_address.into_iter().next()).collect(), leases)
}
