//! Keys, numbers, port spaces and states of ids.

use std::collections::BTreeSet;

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::ucma::port_space;
use soft_hca_roce::wire::cm;

/// Names one id for ever, unlike its number, which is used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(u64);

impl Key {
    /// The one for the id that is made next.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

pub(super) const NO_ID: Errno = Errno::ENOENT.because(Refusal::NoId);

/// Ids that there may be at a time; the library's own table holds as many.
const MAX_NUMBERS: u32 = 0x1_0000;

/// Numbers, of which the lowest free one is taken.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    free: BTreeSet<u32>,
    end: u32,
}

impl Numbers {
    pub(super) fn take(&mut self) -> Result<u32> {
        if let Some(number) = self.free.pop_first() {
            return Ok(number);
        }
        let is_left = self.end < MAX_NUMBERS;
        ensure(is_left, Errno::ENOMEM.because(Refusal::IdsExhausted))?;
        self.end += 1;
        Ok(self.end - 1)
    }

    pub(super) fn give_back(&mut self, number: u32) {
        self.free.insert(number);
    }
}

/// Port space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Space {
    Ipoib,
    Tcp,
    Udp,
    Ib,
}

impl Space {
    pub(super) fn from_number(number: u16) -> Result<Self> {
        match number {
            port_space::IPOIB => Ok(Self::Ipoib),
            port_space::TCP => Ok(Self::Tcp),
            port_space::UDP => Ok(Self::Udp),
            port_space::IB => Ok(Self::Ib),
            _ => Err(Errno::EINVAL.because(Refusal::NoSuchPortSpace)),
        }
    }

    /// The service id of a port.
    pub(super) fn service_id(self, port: u16) -> u64 {
        let number = match self {
            Self::Ipoib => port_space::IPOIB,
            Self::Tcp => port_space::TCP,
            Self::Udp => port_space::UDP,
            Self::Ib => port_space::IB,
        };
        cm::service_id(number, port)
    }
}

/// How far an id has come (`enum rdma_cm_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    Bound,
    AddrQuery,
    AddrResolved,
    RouteResolved,
    Listen,
    Connect,
    Disconnect,
    /// Its device has been removed: it can only be destroyed.
    Removed,
}

impl State {
    /// The error of a command that an id in this state cannot execute.
    pub(super) const fn refusal(self) -> Errno {
        Errno::EINVAL.because(match self {
            Self::Idle => Refusal::IdUnbound,
            Self::Bound => Refusal::IdBound,
            Self::AddrQuery => Refusal::IdResolvesAddress,
            Self::AddrResolved => Refusal::IdHasAddress,
            Self::RouteResolved => Refusal::IdHasRoute,
            Self::Listen => Refusal::IdListens,
            Self::Connect => Refusal::IdConnects,
            Self::Disconnect => Refusal::IdDisconnected,
            Self::Removed => Refusal::IdRemoved,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_comes_first() {
        let mut numbers = Numbers::default();
        let taken: Vec<u32> = (0..4).map(|_| numbers.take().unwrap()).collect();
        assert_eq!(taken, [0, 1, 2, 3]);
        numbers.give_back(2);
        numbers.give_back(1);
        assert_eq!(numbers.take(), Ok(1));
        assert_eq!(numbers.take(), Ok(2));
        assert_eq!(numbers.take(), Ok(4));
        numbers.end = MAX_NUMBERS;
        assert_eq!(numbers.take(), Err(Errno::ENOMEM));
    }

    #[test]
    fn service_ids_are_made_of_space_and_port() {
        assert_eq!(Space::Tcp.service_id(7471), 0x0106_1d2f);
        assert_eq!(Space::from_number(0x111), Ok(Space::Udp));
        assert_eq!(Space::from_number(0x112), Err(Errno::EINVAL));
    }
}
