//! Big-endian numbers of 3 bytes; the other widths the standard library has.

/// The number in three bytes.
pub(super) const fn u24(bytes: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])
}

/// The low 24 bits.
pub(super) const fn u24_bytes(number: u32) -> [u8; 3] {
    let [_, bytes @ ..] = number.to_be_bytes();
    bytes
}

/// The `N` bytes at `at`. The caller's constants see to it that they are there.
pub(super) const fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    let mut i = 0;
    while i < N {
        array[i] = bytes[at + i];
        i += 1;
    }
    array
}
