//! Addresses: each process is a host of its own, with an address that is made up (RFC 5737,
//! RFC 3849) unless the record has another host's.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use soft_hca_roce::wire::ip::Flow;
use soft_hca_roce::wire::packet::PORT;

use crate::entry::{Entry, What};
use crate::value::Name;

/// Who a packet goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Host {
    Process(u32),
    /// Nobody in the record.
    Unknown,
    /// A multicast group.
    Group(IpAddr),
}

#[derive(Debug)]
struct Process {
    program: String,
    /// If the record has it.
    address: Option<IpAddr>,
}

/// The record's processes.
#[derive(Debug)]
pub(super) struct Hosts(HashMap<u32, Process>);

impl Hosts {
    pub(super) fn new(entries: &[Entry]) -> Self {
        let processes = entries.iter().filter_map(|entry| match &entry.what {
            What::ProcessBegan { command, host, .. } => {
                let program = command.first().map_or("", |program| program);
                let program = program.rsplit('/').next().unwrap_or(program).into();
                let address = host.as_ref().and_then(|host| host.parse().ok());
                Some((entry.process, Process { program, address }))
            }
            _ => None,
        });
        Self(processes.collect())
    }

    /// A process as comments name it.
    pub(super) fn name(&self, process: u32) -> String {
        match self.0.get(&process) {
            Some(Process { program, .. }) if !program.is_empty() => {
                format!("process {process} ({program})")
            }
            _ => format!("process {process}"),
        }
    }

    /// A work request as comments name it.
    pub(super) fn request(&self, process: u32, qp: u32, wr_id: u64, opcode: &str) -> String {
        let wr_id = Name::WrId(wr_id);
        format!("{}, qp {qp}, wr_id {wr_id}, {opcode}", self.name(process))
    }

    fn v4(&self, host: Host) -> Ipv4Addr {
        match host {
            Host::Process(process) => match self.0.get(&process).and_then(|host| host.address) {
                Some(IpAddr::V4(address)) => address,
                // Two networks of 254.
                _ => match (process / 254 % 2, (process % 254 + 1) as u8) {
                    (0, number) => Ipv4Addr::new(192, 0, 2, number),
                    (_, number) => Ipv4Addr::new(198, 51, 100, number),
                },
            },
            Host::Group(IpAddr::V4(address)) => address,
            Host::Unknown | Host::Group(_) => Ipv4Addr::new(203, 0, 113, 1),
        }
    }

    fn v6(&self, host: Host) -> Ipv6Addr {
        let made_up = |net, number: u32| {
            let [high, low] = [(number >> 16) as u16, number as u16];
            Ipv6Addr::new(0x2001, 0xdb8, 0, net, 0, 0, high, low)
        };
        match host {
            Host::Process(process) => match self.0.get(&process).and_then(|host| host.address) {
                Some(IpAddr::V6(address)) => address,
                _ => made_up(0, process.saturating_add(1)),
            },
            Host::Group(IpAddr::V6(address)) => address,
            Host::Unknown | Host::Group(_) => made_up(0xffff, 1),
        }
    }

    /// From a process's queue pair to a host. Both are of IPv4, but for groups and other hosts of
    /// IPv6.
    pub(super) fn flow(&self, from: Host, to: Host, qp: u32) -> Option<Flow> {
        let is_v6 = [from, to].into_iter().any(|host| match host {
            Host::Process(process) => {
                self.0.get(&process).and_then(|host| host.address).is_some_and(|ip| ip.is_ipv6())
            }
            Host::Group(address) => address.is_ipv6(),
            Host::Unknown => false,
        });
        let address =
            |host| -> IpAddr { if is_v6 { self.v6(host).into() } else { self.v4(host).into() } };
        // Ports that nobody is given, one for each queue pair, as adapters choose them.
        let port = 0xc000 | (qp & 0x3fff) as u16;
        Flow::new((address(from), port).into(), (address(to), PORT).into())
    }
}
