//! The system's routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use soft_hca_core::errno::{Errno, Refusal, Result};

/// The source address from which this machine reaches `to`, as the system's routing says.
/// Loopback and multicast need no route here, so they work where no interface is up.
pub(crate) fn route(to: IpAddr) -> Result<IpAddr> {
    if to.is_loopback() {
        return Ok(to);
    }
    let (any, loopback): (IpAddr, IpAddr) = match to {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()),
    };
    // Connecting a datagram socket looks up the route and sends nothing.
    let requested = UdpSocket::bind((any, 0))
        .and_then(|socket| socket.connect((to, 1)).and_then(|()| socket.local_addr()));
    match requested {
        Ok(from) => Ok(from.ip()),
        Err(_) if to.is_multicast() => Ok(loopback),
        Err(error) => {
            let error = Errno::new(error.raw_os_error().unwrap_or(libc::ENETUNREACH));
            Err(error.because(Refusal::NoSystemRoute))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        assert_eq!(route(Ipv4Addr::LOCALHOST.into()), Ok(Ipv4Addr::LOCALHOST.into()));
        assert!(route(Ipv4Addr::new(239, 1, 1, 1).into()).is_ok());
    }
}
