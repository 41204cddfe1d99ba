//! A send work request as rdma-core's rxe provider writes it: for tests, which stand in its place.

use crate::ring::Slot;
use crate::uapi::rxe::Sge;
use crate::uapi::verbs::{opcode, send_flag};

/// A send work request as the provider writes it.
#[derive(Clone, Debug, Default)]
pub struct Wr {
    /// The program's.
    pub wr_id: u64,
    /// `enum ibv_wr_opcode`
    pub opcode: u32,
    /// `enum ibv_send_flags`
    pub flags: u32,
    /// Immediate data, or the rkey to be invalidated.
    pub imm: u32,
    /// Its list of memory, unless it has inline data.
    pub sges: Vec<Sge>,
    /// Inline data.
    pub inline: Option<Vec<u8>>,
    /// Bytes of a flush.
    pub flushed: u32,
    /// The union: 32-bit words at offsets.
    pub words: Vec<(usize, u32)>,
}

impl Wr {
    /// A signalled request.
    pub fn new(wr_id: u64, opcode: u32) -> Self {
        Self { wr_id, opcode, flags: send_flag::SIGNALED, ..Self::default() }
    }

    /// With these flags instead.
    pub fn flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    /// With immediate data.
    pub fn imm(mut self, imm: u32) -> Self {
        self.imm = imm;
        self
    }

    /// With one more SGE.
    pub fn sge(mut self, sge: Sge) -> Self {
        self.sges.push(sge);
        self
    }

    /// With inline data.
    pub fn inline(mut self, bytes: &[u8]) -> Self {
        self.inline = Some(bytes.to_vec());
        self.flags |= send_flag::INLINE;
        self
    }

    /// With a word of the union, at its offset there.
    pub fn word(mut self, offset: usize, value: u32) -> Self {
        self.words.push((offset, value));
        self
    }

    /// With two words of the union.
    pub fn long(self, offset: usize, value: u64) -> Self {
        self.word(offset, value as u32).word(offset + 4, (value >> 32) as u32)
    }

    /// An RDMA operation's memory of the peer.
    pub fn remote(self, addr: u64, rkey: u32) -> Self {
        self.long(24, addr).word(32, rkey)
    }

    /// An atomic operation's memory of the peer, and its operands.
    pub fn atomic(self, addr: u64, rkey: u32, compare_add: u64, swap: u64) -> Self {
        self.long(24, addr).long(32, compare_add).long(40, swap).word(48, rkey)
    }

    /// A flush: of so many bytes, placement type in the low byte of `what` and selectivity level in the
    /// next.
    pub fn flush(mut self, addr: u64, rkey: u32, length: u32, what: u32) -> Self {
        self.flushed = length;
        self.long(24, addr).word(36, rkey).word(40, what)
    }

    /// Writes it into a slot of the send queue.
    pub fn write(&self, slot: &Slot<'_>) {
        for offset in (0..slot.bytes()).step_by(8) {
            slot.set_u64(offset, 0);
        }
        slot.set_u64(0, self.wr_id);
        slot.set_u32(12, self.opcode);
        slot.set_u32(16, self.flags);
        slot.set_u32(20, self.imm);
        self.words.iter().for_each(|&(offset, value)| slot.set_u32(offset, value));
        let length: u32 = match &self.inline {
            _ if self.opcode == opcode::FLUSH => self.flushed,
            Some(bytes) => bytes.len() as u32,
            None => self.sges.iter().fold(0, |sum, sge| sge.length.wrapping_add(sum)),
        };
        slot.set_u32(184, length);
        slot.set_u32(188, length);
        slot.set_u32(196, self.sges.len() as u32);
        if let Some(bytes) = &self.inline {
            for (i, word) in bytes.chunks(4).enumerate() {
                let mut padded = [0; 4];
                padded[..word.len()].copy_from_slice(word);
                slot.set_u32(208 + 4 * i, u32::from_le_bytes(padded));
            }
        } else {
            write_sges(slot, 208, &self.sges);
        }
    }
}

/// Writes a list of memory as it lies in a work queue, from an offset in the slot on.
pub fn write_sges(slot: &Slot<'_>, base: usize, sges: &[Sge]) {
    for (i, sge) in sges.iter().enumerate() {
        slot.set_u64(base + 16 * i, sge.addr);
        slot.set_u32(base + 16 * i + 8, sge.length);
        slot.set_u32(base + 16 * i + 12, sge.lkey);
    }
}
