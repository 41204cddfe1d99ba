//! The daemon's file descriptors. Each program takes some: for the connection that keeps the fabric
//! alive, for each file that it opens, for that file's events, and for news of the program's end.
//!
//! When all are taken, the daemon needs one more to tell a client so. It keeps that one in reserve.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, getrlimit};
use soft_hca_core::errno::Errno;
use soft_hca_core::rpc::{FULL, Listener, Reply};

/// Time before the next try if a client could not even be turned away.
const PAUSE: Duration = Duration::from_millis(10);

/// How many descriptors this process may have, for the log.
pub(crate) fn limit() -> String {
    getrlimit(Resource::Nofile).current.map_or("none".into(), |limit| limit.to_string())
}

/// The error for a request that fails because there is no descriptor for it.
pub(crate) fn refusal(error: io::Error) -> Errno {
    if is_full(&error) { FULL } else { Errno::ENOMEM }
}

/// Whether a call has failed because all descriptors are taken, the daemon's or the system's.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// A descriptor that is given up for a moment.
#[derive(Debug)]
pub(crate) struct Reserve(Option<OwnedFd>);

impl Reserve {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Some(eventfd(0, EventfdFlags::CLOEXEC)?)))
    }

    /// Tells the listener's next client that there is no descriptor for it.
    pub(crate) fn turn_away(&mut self, listener: &Listener) {
        self.0 = None;
        match listener.accept() {
            Ok(connection) => {
                let _ = connection.send(&Reply(Err(FULL)).encode(), &[]);
            }
            // Another process has the system's last one. The listener stays readable.
            Err(error) if is_full(&error) => thread::sleep(PAUSE),
            Err(_) => {}
        }
        *self = Self::new().unwrap_or(Self(None));
    }
}

#[cfg(test)]
mod tests {
    use soft_hca_core::rpc::{Connection, Request};

    use super::*;

    #[test]
    fn who_comes_next_is_told() {
        let dir = std::env::temp_dir().join(format!("soft-hca-reserve-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let listener = Listener::bind(&dir.join("socket")).unwrap();
        let client = Connection::connect(&dir.join("socket")).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        // The daemon does not read the request.
        client.send(&Request::List.encode(), &[]).unwrap();
        let mut reserve = Reserve::new().unwrap();
        reserve.turn_away(&listener);
        let (message, _) = client.receive().unwrap();
        let refused = Reply::decode(&message).unwrap().0.unwrap_err();
        assert_eq!((refused, refused.reason()), (Errno::EMFILE, FULL.reason()));
        assert!(client.receive().unwrap().0.is_empty());
        assert!(reserve.0.is_some());
    }

    #[test]
    fn what_there_is_too_little_of() {
        let of = |number| refusal(io::Error::from_raw_os_error(number));
        assert_eq!([of(libc::EMFILE), of(libc::ENFILE)], [FULL; 2]);
        assert_eq!(of(libc::EACCES), Errno::ENOMEM);
    }
}
