//! Path MTUs of RoCE, which leave room for headers in the frames of a network interface.

use super::interfaces::mtu_of;

/// Bytes of headers that rxe leaves room for in each frame (`RXE_MAX_HDR_LENGTH`).
const HEADERS: u32 = 80;
/// The same of the connection manager.
const CONNECTION_HEADERS: u32 = 96;

/// The MTU (`ib_mtu`) of a port on a network interface (`rxe_set_mtu`).
pub(super) fn active_mtu_of(interface: &str) -> u8 {
    path_mtu(mtu_of(interface))
}

/// The path MTU (`ib_mtu`) of connections on a network interface (`iboe_get_mtu`).
pub(super) fn path_mtu_of(interface: &str) -> u8 {
    path_mtu(mtu_of(interface).saturating_sub(CONNECTION_HEADERS - HEADERS))
}

/// The path MTU (`ib_mtu`) on an interface whose frames have so many bytes.
pub(super) fn path_mtu(mtu: u32) -> u8 {
    let room = mtu.saturating_sub(HEADERS);
    [4096, 2048, 1024, 512].iter().position(|&mtu| room >= mtu).map_or(1, |i| 5 - i as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_mtu_leaves_room_for_headers() {
        let mtus = [65536, 9000, 4175, 2127, 1500, 1000, 300].map(path_mtu);
        assert_eq!(mtus, [5, 5, 4, 3, 3, 2, 1]);
    }
}
