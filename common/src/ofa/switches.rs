//! Values of command-line switches, and `our_calloc`.

use crate::memory::{CArray, OutOfMemory, Zeroable};
use crate::number::{Number, strtol};
use crate::ofa::{OurResult, Reported};
use crate::{errln, errno};

/// What may stand around a value, and may not be all of it.
pub const WHITE_SPACE: [char; 6] = [' ', '\n', '\r', '\t', '\x0b', '\x0c'];

/// `len` zeroed elements; on failure one line, `message: Cannot allocate memory`.
pub fn our_calloc<T: Zeroable>(len: usize, message: &str) -> OurResult<CArray<T>> {
    CArray::calloc(len).map_err(|OutOfMemory| {
        errno::set(libc::ENOMEM);
        errno::perror(message);
        Reported
    })
}

/// Reads the positive decimal number given to `-switch_char`. White space around it is fine.
pub fn our_scan_switch_ulong(switch_char: char, value: &str, message: &str) -> OurResult<u64> {
    let number @ Number { value: temp, rest, errno } = strtol(value, 10);
    let more = !rest.trim_start_matches(WHITE_SPACE).is_empty();
    if errno != 0 || number.is_missing(value) || more || temp <= 0 {
        return Err(illegal(switch_char, value, message));
    }
    Ok(temp.unsigned_abs())
}

fn illegal(switch_char: char, value: &str, message: &str) -> Reported {
    errln!("{message}: illegal numeric value \"{value}\" for option -{switch_char}");
    Reported
}

/// [`our_scan_switch_ulong`] for a port number, which ends at 65535. In C a larger one stands
/// for another port, modulo 65536.
pub fn our_scan_switch_port(switch_char: char, value: &str, message: &str) -> OurResult<u64> {
    let port = our_scan_switch_ulong(switch_char, value, message)?;
    if port > u64::from(u16::MAX) {
        return Err(illegal(switch_char, value, message));
    }
    Ok(port)
}

/// The same as [`our_scan_switch_ulong`]. In C this one lets negative numbers through, which
/// then count as enormous ones.
pub fn our_scan_switch_uint64(switch_char: char, value: &str, message: &str) -> OurResult<u64> {
    our_scan_switch_ulong(switch_char, value, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positive_numbers_only() {
        let scan = |value| our_scan_switch_ulong('c', value, "test");
        assert_eq!(scan("12"), Ok(12));
        assert_eq!(scan(" +7 \t\n"), Ok(7));
        for bad in ["", "0", "-5", "12x", "1 2", "0x10", "99999999999999999999"] {
            assert_eq!(scan(bad), Err(Reported), "{bad:?}");
            assert_eq!(our_scan_switch_uint64('c', bad, "test"), Err(Reported), "{bad:?}");
        }
    }

    #[test]
    fn ports_end_at_65535() {
        assert_eq!(our_scan_switch_port('p', "65535", "test"), Ok(65535));
        assert_eq!(our_scan_switch_port('p', "65536", "test"), Err(Reported));
    }
}
