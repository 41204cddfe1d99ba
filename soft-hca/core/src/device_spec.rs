//! Which devices a fabric has, as a command line says it: `rxe0`, `rxe0:infiniband,ports=2`, and
//! which of them a program finds.

mod pci;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use soft_hca_fault::DeviceFault;
use soft_hca_roce::wire::bth::{DEFAULT_PKEY, FULL_MEMBER};
use soft_hca_verbs::number;

pub use pci::PciAddress;

/// The device that there is if nobody asks for another one.
pub const DEFAULT_DEVICE: &str = "rxe0";

/// Devices that a fabric may have.
const MAX_DEVICES: usize = 8;
/// The last node that a machine may have (`MAX_NUMNODES` of the distributions' kernels).
const MAX_NODE: u32 = 1023;
/// Ports that an InfiniBand device may have.
const MAX_PORTS: u8 = 8;
/// The LMC has three bits (IBTA 14.2.5.6, PortInfo).
const MAX_LMC: u8 = 7;
/// Places of an InfiniBand port's P_Key table.
pub const MAX_PKEYS: usize = 16;

/// A device's name, such as `rxe0`. The rxe provider goes by the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName(String);

impl Default for DeviceName {
    fn default() -> Self {
        Self(DEFAULT_DEVICE.to_string())
    }
}

impl FromStr for DeviceName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.len() <= 32 && name.starts_with("rxe") && name.chars().all(fits) {
            Ok(Self(name.to_string()))
        } else {
            Err(Error::Name)
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A device that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Its name.
    pub name: DeviceName,
    /// Its link layer is InfiniBand's, and not Ethernet.
    pub is_infiniband: bool,
    /// How many ports it has; 1 on Ethernet.
    pub ports: u8,
    /// P_Keys of its ports, one for each partition, beside that of the default one or with it.
    pub pkeys: Vec<u16>,
    /// Low bits of its ports' LIDs that stand for paths, 0 to 7.
    pub lmc: u8,
    /// The addresses of its first port, if any are given.
    pub addresses: Vec<IpAddr>,
    /// The node of the machine that it is near.
    pub numa_node: Option<u32>,
    /// Where it is on the PCI bus.
    pub pci: Option<PciAddress>,
    /// The adapter whose limits it has, a profile's name; the daemon knows which there are.
    pub like: Option<String>,
}

/// A port of a device: `rxe0/2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortName {
    /// The device.
    pub device: DeviceName,
    /// The port's number, from 1.
    pub number: u8,
}

impl FromStr for PortName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (device, number) = text.split_once('/').unwrap_or((text, "1"));
        let number = number.parse().ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| Error::Port(text.to_owned()))?;
        Ok(Self { device: device.parse()?, number })
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.device, self.number)
    }
}

/// The devices of a fabric and of a program, as a command line specifies them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// The name that the program's first device has, if it is to have another one than the
    /// fabric's.
    pub name: Option<DeviceName>,
    /// The fabric's, if anything is said of them.
    pub specs: Vec<DeviceSpec>,
    /// Those that the program finds; all if none is named.
    pub used: Vec<DeviceName>,
    /// Faults of them.
    pub faults: Vec<DeviceFault>,
}

impl Devices {
    /// The devices of a fabric that has these, as the program sees them.
    pub fn named(&self, specs: Vec<DeviceSpec>) -> Vec<DeviceSpec> {
        let mut specs = if specs.is_empty() { vec![DeviceSpec::default()] } else { specs };
        if let Some(name) = &self.name {
            specs[0].name = name.clone();
        }
        specs
    }

    /// The places in the fabric of the devices that the program finds. `None`: a name is no
    /// device's.
    pub fn found(&self, specs: &[DeviceSpec]) -> Option<DeviceSet> {
        let place = |name: &DeviceName| specs.iter().position(|spec| spec.name == *name);
        let places: Option<Vec<usize>> = self.used.iter().map(place).collect();
        let bits = places?.iter().fold(0, |set, place| set | 1 << place);
        Some(if bits == 0 { DeviceSet::ALL } else { DeviceSet(bits) })
    }
}

/// A set of a fabric's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSet(u32);

impl DeviceSet {
    /// All of them.
    pub const ALL: Self = Self(u32::MAX);

    /// Whether the device at a place is one of them.
    pub fn has(self, place: usize) -> bool {
        place < MAX_DEVICES && self.0 & 1 << place != 0
    }
}

impl fmt::Display for DeviceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl FromStr for DeviceSet {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u32::from_str_radix(text.trim_start_matches("0x"), 16).map(Self)
    }
}

/// Errors in a specification.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name that the libraries would not take.
    #[error(
        "a device's name starts with rxe and goes on with up to 29 letters, digits, '-' or '_'"
    )]
    Name,
    /// A word that is none.
    #[error(
        "{0:?} says nothing of a device, which is NAME[:WORD,...] with ethernet, infiniband, \
         ports=N, pkey=KEY, lmc=N, address=IP, numa=N, pci=ADDRESS and like=PROFILE, as rxe0:infiniband,ports=2"
    )]
    Word(String),
    /// A text that is no address.
    #[error("address={0}: that is no IP address")]
    Address(String),
    /// A text that is no node's number.
    #[error("numa={0}: a node has a number from 0 to {MAX_NODE}")]
    Node(String),
    /// A text that is no location on the PCI bus.
    #[error("pci={0}: a place on the bus is DOMAIN:BUS:SLOT.FUNCTION, as 0000:3b:00.0")]
    Pci(String),
    /// Two devices at a place.
    #[error("there are two devices at pci={0}")]
    SamePlace(PciAddress),
    /// More than there may be.
    #[error("a fabric has at most {MAX_DEVICES} devices")]
    TooMany,
    /// No ports, or more than there may be.
    #[error("ports={0}: an InfiniBand device has 1 to {MAX_PORTS} ports")]
    Ports(String),
    /// A text that is no port's name.
    #[error("{0}: a port is DEVICE/NUMBER, as rxe0/2")]
    Port(String),
    /// Several ports on Ethernet.
    #[error("{0}: an Ethernet device has one port; give it a second device")]
    EthernetPorts(DeviceName),
    /// A text that is no P_Key.
    #[error(
        "pkey={0}: a P_Key is a number of 16 bits, as 0x8001, and not 0 without the highest bit"
    )]
    Pkey(String),
    /// Two P_Keys of a partition.
    #[error("pkey={0:#06x}: the device's ports have another P_Key of this partition")]
    SamePartition(u16),
    /// More than the table has room for.
    #[error("a port has at most {MAX_PKEYS} P_Keys, with that of the default partition")]
    TooManyPkeys,
    /// A text that is no LMC.
    #[error("lmc={0}: a port's LMC is 0 to {MAX_LMC}")]
    Lmc(String),
    /// A word of a port with LIDs on Ethernet.
    #[error(
        "{0}: pkey and lmc are for InfiniBand devices; an Ethernet device has no LIDs, and the \
         default P_Key only"
    )]
    InfinibandOnly(DeviceName),
    /// A profile that there is not.
    #[error("like={name}: there is no such profile; there are {profiles}")]
    Profile {
        /// Its name.
        name: String,
        /// Those that there are.
        profiles: String,
    },
    /// Two devices of a name.
    #[error("there are two devices called {0}")]
    SameName(DeviceName),
}

impl Default for DeviceSpec {
    fn default() -> Self {
        Self {
            name: DeviceName::default(),
            is_infiniband: false,
            ports: 1,
            pkeys: Vec::new(),
            lmc: 0,
            addresses: Vec::new(),
            numa_node: None,
            pci: None,
            like: None,
        }
    }
}

impl DeviceSpec {
    /// The P_Keys of its ports' tables: that of the default partition has the first place, where
    /// subnet managers put it. Its ports are full members of it unless the specification names
    /// their P_Key of it.
    pub fn pkey_table(&self) -> Vec<u16> {
        let is_default = |pkey: &u16| partition(*pkey) == partition(DEFAULT_PKEY);
        let (of_default, others): (Vec<u16>, Vec<u16>) =
            self.pkeys.iter().copied().partition(is_default);
        let first = of_default.first().copied().unwrap_or(DEFAULT_PKEY);
        [first].into_iter().chain(others).collect()
    }

    /// Adds a P_Key to those of its ports.
    fn add_pkey(&mut self, text: &str) -> Result<(), Error> {
        let number = number(text).and_then(|number| u16::try_from(number).ok());
        let number = number.filter(|pkey| partition(*pkey) != 0);
        let pkey = number.ok_or_else(|| Error::Pkey(text.to_owned()))?;
        if self.pkeys.iter().any(|other| partition(*other) == partition(pkey)) {
            return Err(Error::SamePartition(pkey));
        }
        self.pkeys.push(pkey);
        if self.pkey_table().len() > MAX_PKEYS { Err(Error::TooManyPkeys) } else { Ok(()) }
    }
}

/// Whether a profile may have this name.
fn is_profile(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !name.is_empty() && name.chars().all(fits)
}

/// The partition of a P_Key.
fn partition(pkey: u16) -> u16 {
    pkey & !FULL_MEMBER
}

impl FromStr for DeviceSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, words) = text.split_once(':').unwrap_or((text, ""));
        let mut spec = Self { name: name.parse()?, ..Self::default() };
        for word in words.split(',').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                None if word == "infiniband" => spec.is_infiniband = true,
                None if word == "ethernet" => spec.is_infiniband = false,
                Some(("ports", number)) => {
                    let ports = number.parse().ok().filter(|ports| (1..=MAX_PORTS).contains(ports));
                    spec.ports = ports.ok_or_else(|| Error::Ports(number.to_owned()))?;
                }
                Some(("pkey", text)) => spec.add_pkey(text)?,
                Some(("lmc", number)) => {
                    let lmc = number.parse().ok().filter(|lmc| *lmc <= MAX_LMC);
                    spec.lmc = lmc.ok_or_else(|| Error::Lmc(number.to_owned()))?;
                }
                Some(("address", text)) => {
                    let address = text.parse().map_err(|_| Error::Address(text.to_owned()))?;
                    spec.addresses.push(address);
                }
                Some(("numa", number)) => {
                    let node = number.parse().ok().filter(|node| *node <= MAX_NODE);
                    spec.numa_node = Some(node.ok_or_else(|| Error::Node(number.to_owned()))?);
                }
                Some(("pci", place)) => {
                    spec.pci = Some(place.parse().map_err(|()| Error::Pci(place.to_owned()))?);
                }
                Some(("like", name)) if is_profile(name) => spec.like = Some(name.to_owned()),
                _ => return Err(Error::Word(word.to_owned())),
            }
        }
        if spec.ports > 1 && !spec.is_infiniband {
            return Err(Error::EthernetPorts(spec.name));
        }
        if (spec.lmc > 0 || !spec.pkeys.is_empty()) && !spec.is_infiniband {
            return Err(Error::InfinibandOnly(spec.name));
        }
        Ok(spec)
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        let mut words = Vec::new();
        if self.is_infiniband {
            words.push(format!("infiniband,ports={}", self.ports));
        }
        words.extend(self.pkeys.iter().map(|pkey| format!("pkey={pkey:#06x}")));
        if self.lmc > 0 {
            words.push(format!("lmc={}", self.lmc));
        }
        words.extend(self.addresses.iter().map(|address| format!("address={address}")));
        words.extend(self.numa_node.map(|node| format!("numa={node}")));
        words.extend(self.pci.map(|place| format!("pci={place}")));
        words.extend(self.like.as_ref().map(|name| format!("like={name}")));
        if words.is_empty() { Ok(()) } else { write!(f, ":{}", words.join(",")) }
    }
}

/// Several specifications in one text, separated by blanks.
pub fn join(specs: &[DeviceSpec]) -> String {
    specs.iter().map(DeviceSpec::to_string).collect::<Vec<_>>().join(" ")
}

/// The specifications of a text, each of another name.
pub fn split(text: &str) -> Result<Vec<DeviceSpec>, Error> {
    distinct(text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}

/// Checks that each specification has another name and PCI location.
pub(crate) fn distinct(specs: Vec<DeviceSpec>) -> Result<Vec<DeviceSpec>, Error> {
    let twice = |(index, spec): &(usize, &DeviceSpec)| {
        specs[..*index].iter().any(|other| other.name == spec.name)
    };
    if specs.len() > MAX_DEVICES {
        return Err(Error::TooMany);
    }
    let places: Vec<PciAddress> = specs.iter().filter_map(|spec| spec.pci).collect();
    if let Some(at) = (1..places.len()).find(|at| places[..*at].contains(&places[*at])) {
        return Err(Error::SamePlace(places[at]));
    }
    match specs.iter().enumerate().find(twice) {
        Some((_, spec)) => Err(Error::SameName(spec.name.clone())),
        None => Ok(specs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["rxe0", "rxe", "rxe_left"] {
            assert!(good.parse::<DeviceName>().is_ok(), "{good}");
        }
        for bad in ["mlx5_0", "", "rxe/0", "rxe.0", "rxe 0"] {
            assert!(bad.parse::<DeviceName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_said_of_a_device() {
        for (text, is_infiniband, ports, again) in [
            ("rxe0", false, 1, "rxe0"),
            ("rxe0:", false, 1, "rxe0"),
            ("rxe1:ethernet", false, 1, "rxe1"),
            ("rxe0:infiniband", true, 1, "rxe0:infiniband,ports=1"),
            ("rxe0:ports=2,infiniband", true, 2, "rxe0:infiniband,ports=2"),
            (
                "rxe1:address=10.7.0.1,address=fd00::1",
                false,
                1,
                "rxe1:address=10.7.0.1,address=fd00::1",
            ),
            ("rxe1:pci=C1:00.1,numa=1", false, 1, "rxe1:numa=1,pci=0000:c1:00.1"),
            ("rxe1:like=mlx5", false, 1, "rxe1:like=mlx5"),
        ] {
            let spec: DeviceSpec = text.parse().unwrap();
            assert_eq!((spec.is_infiniband, spec.ports), (is_infiniband, ports), "{text}");
            assert_eq!(spec.to_string(), again);
            assert_eq!(again.parse::<DeviceSpec>().unwrap(), spec);
        }
    }

    #[test]
    fn what_is_refused() {
        for (text, why) in [
            ("mlx5_0", "a device's name starts with rxe"),
            ("", "a device's name starts with rxe"),
            ("rxe0:roce", "\"roce\" says nothing of a device"),
            ("rxe0:infiniband,ports", "\"ports\" says nothing of a device"),
            ("rxe0:infiniband,ports=0", "ports=0: an InfiniBand device has 1 to 8 ports"),
            ("rxe0:infiniband,ports=9", "ports=9: an InfiniBand device has 1 to 8 ports"),
            ("rxe0:infiniband,ports=two", "ports=two: an InfiniBand device has 1 to 8 ports"),
            ("rxe0:address=here", "address=here: that is no IP address"),
            ("rxe0:numa=-1", "numa=-1: a node has a number from 0 to 1023"),
            ("rxe0:pci=3b", "pci=3b: a place on the bus is DOMAIN:BUS:SLOT.FUNCTION"),
            ("rxe0:ports=2", "rxe0: an Ethernet device has one port"),
            ("rxe0:infiniband,pkey=", "pkey=: a P_Key is a number of 16 bits"),
            ("rxe0:infiniband,pkey=0x8000", "pkey=0x8000: a P_Key is a number of 16 bits"),
            ("rxe0:infiniband,pkey=65536", "pkey=65536: a P_Key is a number of 16 bits"),
            (
                "rxe0:infiniband,pkey=1,pkey=0x8001",
                "pkey=0x8001: the device's ports have another P_Key of this partition",
            ),
            ("rxe0:infiniband,lmc=8", "lmc=8: a port's LMC is 0 to 7"),
            ("rxe0:infiniband,lmc=", "lmc=: a port's LMC is 0 to 7"),
            ("rxe0:lmc=1", "rxe0: pkey and lmc are for InfiniBand devices"),
            ("rxe1:pkey=0x8001,ethernet", "rxe1: pkey and lmc are for InfiniBand devices"),
        ] {
            let refusal = text.parse::<DeviceSpec>().unwrap_err().to_string();
            assert!(refusal.starts_with(why), "{text}: {refusal}");
        }
        let twice = split("rxe0 rxe1 rxe0:infiniband").unwrap_err().to_string();
        assert_eq!(twice, "there are two devices called rxe0");
        let twice = split("rxe0:pci=3b:00.0 rxe1:pci=0000:3b:00.0").unwrap_err().to_string();
        assert_eq!(twice, "there are two devices at pci=0000:3b:00.0");
    }

    #[test]
    fn the_default_partition_comes_first() {
        for (words, table) in [
            ("", vec![0xffff]),
            (",pkey=0x8001,pkey=0x0002", vec![0xffff, 0x8001, 2]),
            (",pkey=32769,pkey=0x7fff", vec![0x7fff, 0x8001]),
        ] {
            let spec: DeviceSpec = format!("rxe0:infiniband{words}").parse().unwrap();
            assert_eq!(spec.pkey_table(), table);
            assert_eq!(spec.to_string().parse::<DeviceSpec>().unwrap(), spec);
        }
        let with = |count: u16| {
            let words: String = (1..=count).map(|pkey| format!(",pkey={pkey}")).collect();
            format!("rxe0:infiniband{words}").parse::<DeviceSpec>()
        };
        assert_eq!(with(15).unwrap().pkey_table().len(), MAX_PKEYS);
        assert!(matches!(with(16), Err(Error::TooManyPkeys)));
        let text = "rxe0:infiniband,ports=2,pkey=0x8001,pkey=0x0002,lmc=3,address=10.7.0.1";
        assert_eq!(text.parse::<DeviceSpec>().unwrap().to_string(), text);
    }

    #[test]
    fn names_of_ports() {
        let port: PortName = "rxe1/2".parse().unwrap();
        assert_eq!((port.device.to_string(), port.number), ("rxe1".into(), 2));
        assert_eq!(port.to_string(), "rxe1/2");
        assert_eq!("rxe1".parse::<PortName>().unwrap().number, 1);
        for wrong in ["rxe1/0", "rxe1/", "rxe1/x", "rxe1/2/3", "/1", "eth0/1"] {
            assert!(wrong.parse::<PortName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_program_finds_the_devices_that_it_names() {
        let specs = split("rxe0 rxe1 rxe2").unwrap();
        let found = |used: &[&str]| {
            let used = used.iter().map(|name| name.parse().unwrap()).collect();
            Devices { used, ..Devices::default() }.found(&specs)
        };
        assert_eq!(found(&[]), Some(DeviceSet::ALL));
        assert_eq!(found(&["rxe9"]), None);
        let some = found(&["rxe2", "rxe0"]).unwrap();
        assert_eq!([0, 1, 2, 3].map(|place| some.has(place)), [true, false, true, false]);
        assert_eq!(some.to_string().parse(), Ok(some));
        assert_eq!(DeviceSet::ALL.to_string().parse(), Ok(DeviceSet::ALL));
    }

    #[test]
    fn several_go_in_one_text() {
        let specs = split(" rxe0  rxe1:infiniband,ports=2 ").unwrap();
        assert_eq!(join(&specs), "rxe0 rxe1:infiniband,ports=2");
        assert_eq!(split(&join(&specs)).unwrap(), specs);
        assert_eq!(split("").unwrap(), []);
    }
}
