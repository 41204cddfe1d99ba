//! Where a device is on the PCI bus.

use std::fmt;
use std::str::FromStr;

/// A function of a PCI device, as `0000:3b:00.0` (`dev_name` of a `struct pci_dev`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciAddress {
    domain: u16,
    bus: u8,
    slot: u8,
    function: u8,
}

/// Slots of a bus, and functions of a slot (`PCI_SLOT`, `PCI_FUNC`).
const SLOTS: u8 = 32;
const FUNCTIONS: u8 = 8;

impl PciAddress {
    /// The folder of its root bus, as in `/sys/devices`: `pci0000:3b`.
    pub fn root_bus(self) -> String {
        format!("pci{:04x}:{:02x}", self.domain, self.bus)
    }
}

/// The domain may be left out.
impl FromStr for PciAddress {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |text: &str, digits: usize| {
            let is_hex = text.len() == digits && text.bytes().all(|c| c.is_ascii_hexdigit());
            is_hex.then(|| u16::from_str_radix(text, 16).ok()).flatten().ok_or(())
        };
        let (text, function) = text.split_once('.').ok_or(())?;
        let (bus, slot) = text.rsplit_once(':').ok_or(())?;
        let (domain, bus) = bus.split_once(':').unwrap_or(("0000", bus));
        let (slot, function) = (number(slot, 2)? as u8, number(function, 1)? as u8);
        if slot >= SLOTS || function >= FUNCTIONS {
            return Err(());
        }
        Ok(Self { domain: number(domain, 4)?, bus: number(bus, 2)? as u8, slot, function })
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, slot, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{slot:02x}.{function}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, again) in [("0000:3b:00.0", "0000:3b:00.0"), ("C1:1f.7", "0000:c1:1f.7")] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), again);
        }
        assert_eq!("10000:3b:00.0".parse::<PciAddress>(), Err(()));
        for wrong in
            ["", "3b", "3b:00", "3b:00.8", "3b:20.0", "0000:3b:0.0", "0000:3b:00.+0", "x:00.0"]
        {
            assert_eq!(wrong.parse::<PciAddress>(), Err(()), "{wrong}");
        }
        assert_eq!("0001:c1:00.0".parse::<PciAddress>().unwrap().root_bus(), "pci0001:c1");
    }
}
