//! Numbers of 64 bits in buffers, in this host's byte order, as atomic operations have them.

use std::array;

use common::memory::CArray;

/// The number at a place of a buffer, which is counted in numbers; 0 where the buffer has none.
pub fn our_number(buffer: &CArray<u8>, place: usize) -> u64 {
    let cells = buffer.get(8 * place..8 * (place + 1)).unwrap_or_default();
    u64::from_ne_bytes(array::from_fn(|at| cells.get(at).map_or(0, |cell| cell.get())))
}

/// Writes a number there.
pub fn our_set_number(buffer: &CArray<u8>, place: usize, number: u64) {
    let cells = buffer.get(8 * place..8 * (place + 1)).unwrap_or_default();
    cells.iter().zip(number.to_ne_bytes()).for_each(|(cell, byte)| cell.set(byte));
}
