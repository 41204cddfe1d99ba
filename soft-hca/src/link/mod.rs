//! The link to other hosts: RoCE v2 over UDP sockets of an ordinary user.
//!
//! ```text
//!   program                          daemon                             another host
//!
//!  doorbell ── a bit in the arena ─> link's thread
//!              (its bell, if it      `queue_pair`: transport's machines
//!              sleeps)               engine::remote: requests, memory, completions
//!                                    `port`: builds, seals ─── UDP ───> its link, rxe or adapter
//!                                            checks       <── UDP ────
//!  main loop ── `handle`: states of queue pairs, management datagrams
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `handle` | what the rest of the daemon sees of it |
//! | `addresses` | which addresses it is to have |
//! | `thread` | the thread: packets, doorbells, time; which queue pair a packet is for |
//! | `queue_pair` | a connected queue pair and its protocol |
//! | `port`, `socket` | packets out and in, checked |
//! | `outbox` | packets that go out together |
//! | `counters` | what was sent, received and dropped |

mod addresses;
mod counters;
mod handle;
mod outbox;
mod port;
mod queue_pair;
mod socket;
mod thread;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use crate::arena::Mapping;
use crate::daemon::env::DaemonEnv;
use crate::device::Device;

pub(crate) use addresses::addresses;
pub(crate) use handle::{Handle, ReceivedMad};
pub(crate) use thread::Thread;

/// Why there is no link. The fabric goes on without other hosts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0} is no address and no interface of this machine")]
    Unknown(String),
    #[error("this machine has no address that other hosts could reach")]
    NoAddress,
    #[error(
        "UDP port 4791 of {0} is taken: by another fabric with a link, or by the kernel's Soft-RoCE \
         (module rdma_rxe)"
    )]
    Taken(IpAddr),
    #[error("cannot use UDP port 4791 of {0}: {1}")]
    Socket(IpAddr, #[source] io::Error),
    #[error("cannot start the link's thread: {0}")]
    Thread(#[source] io::Error),
}

/// Starts the link with sockets of all addresses that `wanted` names.
pub(crate) fn start(
    wanted: &str,
    device: &Device,
    arena: Arc<Mapping>,
    env: Arc<DaemonEnv>,
) -> Result<(Handle, Thread), Error> {
    let addresses = addresses(wanted, device)?;
    let bind = |&address: &IpAddr| {
        socket::Socket::bind(address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Error::Taken(address),
            _ => Error::Socket(address, error),
        })
    };
    let sockets: Result<Vec<_>, Error> = addresses.iter().map(bind).collect();
    let shared = Arc::new(handle::Shared::new(addresses, arena).map_err(Error::Thread)?);
    let port = port::Port::new(sockets?, Arc::clone(&shared.counters));
    let thread = Thread::start(Arc::clone(&shared), env, port).map_err(Error::Thread)?;
    Ok((Handle::on(shared), thread))
}
