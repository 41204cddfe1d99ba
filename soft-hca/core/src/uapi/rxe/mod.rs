//! Content of the rings' slots: `include/uapi/rdma/rdma_user_rxe.h` and the provider's
//! `rxe_queue.h`.
//!
//! A program may change a slot at any time. Every value is read from it once and checked as a
//! copy; two reads of one field need not agree.

pub mod abi;
mod wr;

pub use wr::{Wr, write_sges};

use crate::ring::Slot;
use serde::{Deserialize, Serialize};

/// Bytes of a send work request before its SGEs or inline data.
pub const SEND_WQE_BYTES: usize = size_of::<abi::SendWqe>();
/// Bytes of a receive work request before its SGEs.
pub const RECV_WQE_BYTES: usize = size_of::<abi::RecvWqe>();
/// Bytes of an SGE.
pub const SGE_BYTES: usize = size_of::<abi::Sge>();
/// The smallest slot of a send queue: a work request with one SGE, rounded up.
pub const MIN_SEND_SLOT: usize = 256;
/// More SGEs than any request has.
pub const MAX_SGE: usize = 32;

/// A completion queue's slot, of which libibverbs reads the first 48 bytes.
pub const CQE_SLOT: usize = 64;

/// Offsets in a send work request.
mod send {
    use super::abi::{
        AtomicWr, Av, DmaInfo, FlushWr, GlobalRoute, MwWr, RdmaWr, SendWqe, SendWr, UdWr,
    };
    use std::mem::offset_of;

    pub(super) const WR_ID: usize = offset_of!(SendWr, wr_id);
    pub(super) const OPCODE: usize = offset_of!(SendWr, opcode);
    pub(super) const FLAGS: usize = offset_of!(SendWr, send_flags);
    pub(super) const IMM: usize = offset_of!(SendWr, ex);
    pub(super) const LENGTH: usize = offset_of!(SendWqe, dma) + offset_of!(DmaInfo, length);
    pub(super) const NUM_SGE: usize = offset_of!(SendWqe, dma) + offset_of!(DmaInfo, num_sge);
    /// The kernel's own, as is the next one: the provider neither reads nor writes them.
    pub(super) const FIRST_PSN: usize = offset_of!(SendWqe, first_psn);
    pub(super) const LAST_PSN: usize = offset_of!(SendWqe, last_psn);
    pub(super) const ACK_LENGTH: usize = offset_of!(SendWqe, ack_length);
    /// The number that the provider gives to the request.
    pub(super) const SSN: usize = offset_of!(SendWqe, ssn);
    /// The union.
    const WR: usize = offset_of!(SendWr, wr);
    pub(super) const REMOTE_ADDR: usize = WR + offset_of!(RdmaWr, remote_addr);
    pub(super) const RDMA_RKEY: usize = WR + offset_of!(RdmaWr, rkey);
    pub(super) const ATOMIC_ADDR: usize = WR + offset_of!(AtomicWr, remote_addr);
    pub(super) const COMPARE_ADD: usize = WR + offset_of!(AtomicWr, compare_add);
    pub(super) const SWAP: usize = WR + offset_of!(AtomicWr, swap);
    pub(super) const ATOMIC_RKEY: usize = WR + offset_of!(AtomicWr, rkey);
    pub(super) const FLUSH_ADDR: usize = WR + offset_of!(FlushWr, remote_addr);
    pub(super) const FLUSH_RKEY: usize = WR + offset_of!(FlushWr, rkey);
    pub(super) const FLUSH_TYPE: usize = WR + offset_of!(FlushWr, r#type);
    pub(super) const UD_QPN: usize = WR + offset_of!(UdWr, remote_qpn);
    pub(super) const UD_QKEY: usize = WR + offset_of!(UdWr, remote_qkey);
    pub(super) const AH_NUM: usize = WR + offset_of!(UdWr, ah_num);
    const AV: usize = WR + offset_of!(UdWr, av);
    const GRH: usize = AV + offset_of!(Av, grh);
    pub(super) const AV_PORT: usize = AV + offset_of!(Av, port_num);
    pub(super) const AV_DGID: usize = GRH + offset_of!(GlobalRoute, dgid);
    pub(super) const AV_FLOW_LABEL: usize = GRH + offset_of!(GlobalRoute, flow_label);
    pub(super) const AV_SGID_INDEX: usize = GRH + offset_of!(GlobalRoute, sgid_index);
    pub(super) const AV_HOP_LIMIT: usize = GRH + offset_of!(GlobalRoute, hop_limit);
    pub(super) const AV_TRAFFIC_CLASS: usize = GRH + offset_of!(GlobalRoute, traffic_class);
    pub(super) const MW_ADDR: usize = WR + offset_of!(MwWr, addr);
    pub(super) const MW_LENGTH: usize = WR + offset_of!(MwWr, length);
    pub(super) const MW_MR_LKEY: usize = WR + offset_of!(MwWr, mr_lkey);
    pub(super) const MW_RKEY: usize = WR + offset_of!(MwWr, mw_rkey);
    pub(super) const MW_NEW_RKEY: usize = WR + offset_of!(MwWr, rkey);
    pub(super) const MW_ACCESS: usize = WR + offset_of!(MwWr, access);
}

/// Offsets in a receive work request.
mod receive {
    use super::abi::{DmaInfo, RecvWqe};
    use std::mem::offset_of;

    pub(super) const WR_ID: usize = offset_of!(RecvWqe, wr_id);
    pub(super) const NUM_SGE: usize = offset_of!(RecvWqe, dma) + offset_of!(DmaInfo, num_sge);
}

/// An SGE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sge {
    /// Address, as the region names it.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// Key of the region.
    pub lkey: u32,
}

/// A send work request: what all kinds have, copied, and the slot for the rest.
#[derive(Clone, Copy, Debug)]
pub struct SendWqe<'a> {
    /// The program's name for it.
    pub wr_id: u64,
    /// One of [`opcode`](crate::uapi::verbs::opcode), if the program is sane.
    pub opcode: u32,
    /// Bits of [`send_flag`](crate::uapi::verbs::send_flag).
    pub flags: u32,
    /// Immediate data as the program gave it (big-endian), or the key to be invalidated.
    pub imm: u32,
    /// SGEs, not checked.
    pub num_sge: u32,
    slot: Slot<'a>,
}

/// Where an RDMA read or write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteWr {
    /// Address as the peer's region names it.
    pub addr: u64,
    /// The peer's key.
    pub rkey: u32,
}

/// An atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicWr {
    /// The peer's memory that it works on.
    pub remote: RemoteWr,
    /// The value to compare with, or to add.
    pub compare_add: u64,
    /// The new value.
    pub swap: u64,
}

/// An RDMA FLUSH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushWr {
    /// The memory.
    pub remote: RemoteWr,
    /// Its bytes.
    pub length: u32,
    /// Bits of [`placement`](crate::uapi::verbs::placement), if the program is sane.
    pub placement: u8,
    /// One of [`selectivity`](crate::uapi::verbs::selectivity), if the program is sane.
    pub selectivity: u8,
}

/// Where and when its process has posted a request, for a peer that wants to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The number of the place, 0 if that is not known.
    pub place: u32,
    /// The low half of the process's [moment](crate::arena::Clocks), 0 if it counts none.
    pub moment: u32,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramWr {
    /// Number of the queue pair.
    pub qpn: u32,
    /// Key of the queue; with the top bit set the sender's own is used.
    pub qkey: u32,
    /// Number of the address handle; 0 from providers of rdma-core before 39, which write an
    /// [`AddressVector`].
    pub ah: u32,
}

/// The attributes that an address handle was created with, in a datagram's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressVector {
    /// Number of the port.
    pub port: u8,
    /// Destination GID.
    pub dgid: [u8; 16],
    /// Flow label.
    pub flow_label: u32,
    /// Index of the source GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

/// A memory window to be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindWr {
    /// First address, as the region names it.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Key of the region.
    pub lkey: u32,
    /// Key of the window up to now.
    pub rkey: u32,
    /// Key that the window gets.
    pub new_rkey: u32,
    /// Access that the window allows.
    pub access: u32,
}

impl<'a> SendWqe<'a> {
    /// Reads what all kinds have.
    pub fn read(slot: Slot<'a>) -> Self {
        Self {
            wr_id: slot.u64(send::WR_ID),
            opcode: slot.u32(send::OPCODE),
            flags: slot.u32(send::FLAGS),
            imm: slot.u32(send::IMM),
            num_sge: slot.u32(send::NUM_SGE),
            slot,
        }
    }

    /// Bytes in all, as the program says; counts for inline data and flushes only.
    pub fn length(&self) -> u32 {
        self.slot.u32(send::LENGTH)
    }

    /// The target of an RDMA read or write.
    pub fn remote(&self) -> RemoteWr {
        RemoteWr { addr: self.slot.u64(send::REMOTE_ADDR), rkey: self.slot.u32(send::RDMA_RKEY) }
    }

    /// The atomic operation.
    pub fn atomic(&self) -> AtomicWr {
        let rkey = self.slot.u32(send::ATOMIC_RKEY);
        AtomicWr {
            remote: RemoteWr { addr: self.slot.u64(send::ATOMIC_ADDR), rkey },
            compare_add: self.slot.u64(send::COMPARE_ADD),
            swap: self.slot.u64(send::SWAP),
        }
    }

    /// The flush. The provider writes its length where those of all requests are.
    pub fn flush(&self) -> FlushWr {
        let rkey = self.slot.u32(send::FLUSH_RKEY);
        let [placement, selectivity, ..] = self.slot.u32(send::FLUSH_TYPE).to_le_bytes();
        FlushWr {
            remote: RemoteWr { addr: self.slot.u64(send::FLUSH_ADDR), rkey },
            length: self.length(),
            placement,
            selectivity,
        }
    }

    /// The datagram's target.
    pub fn datagram(&self) -> DatagramWr {
        DatagramWr {
            qpn: self.slot.u32(send::UD_QPN),
            qkey: self.slot.u32(send::UD_QKEY),
            ah: self.slot.u32(send::AH_NUM),
        }
    }

    /// The destination of a datagram whose request names no address handle.
    pub fn address_vector(&self) -> AddressVector {
        AddressVector {
            port: self.byte(send::AV_PORT),
            dgid: self.bytes(send::AV_DGID),
            flow_label: self.slot.u32(send::AV_FLOW_LABEL),
            sgid_index: self.byte(send::AV_SGID_INDEX),
            hop_limit: self.byte(send::AV_HOP_LIMIT),
            traffic_class: self.byte(send::AV_TRAFFIC_CLASS),
        }
    }

    /// Where and when it was posted, if that was [set](Self::set_origin).
    pub fn origin(&self) -> Option<Origin> {
        let is_of_this = self.slot.u32(send::LAST_PSN) == !self.slot.u32(send::SSN);
        let [place, moment] = [send::FIRST_PSN, send::ACK_LENGTH].map(|at| self.slot.u32(at));
        is_of_this.then_some(Origin { place, moment })
    }

    /// Sets that, in words of the slot that are the kernel's and in which a request that stood there before may have left
    /// its own.
    pub fn set_origin(&self, origin: Origin) {
        self.slot.set_u32(send::FIRST_PSN, origin.place);
        self.slot.set_u32(send::ACK_LENGTH, origin.moment);
        self.slot.set_u32(send::LAST_PSN, !self.slot.u32(send::SSN));
    }

    fn byte(&self, offset: usize) -> u8 {
        let [byte] = self.bytes(offset);
        byte
    }

    fn bytes<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [0; N];
        self.slot.read_bytes(offset, &mut bytes);
        bytes
    }

    /// The window to be bound.
    pub fn bind(&self) -> BindWr {
        BindWr {
            addr: self.slot.u64(send::MW_ADDR),
            length: self.slot.u64(send::MW_LENGTH),
            lkey: self.slot.u32(send::MW_MR_LKEY),
            rkey: self.slot.u32(send::MW_RKEY),
            new_rkey: self.slot.u32(send::MW_NEW_RKEY),
            access: self.slot.u32(send::MW_ACCESS),
        }
    }

    /// SGE `index`; zeros if it does not lie in the slot.
    pub fn sge(&self, index: usize) -> Sge {
        read_sge(&self.slot, SEND_WQE_BYTES, index)
    }

    /// The address in this process of inline data of this length, if it lies in the slot.
    pub fn inline_address(&self, length: usize) -> Option<u64> {
        self.slot.address(SEND_WQE_BYTES, length)
    }

    /// The eight bytes of an atomic write.
    pub fn atomic_write_data(&self) -> u64 {
        self.slot.u64(SEND_WQE_BYTES)
    }

    /// SGEs that fit into the slot.
    pub fn max_sges(&self) -> usize {
        self.slot.bytes().saturating_sub(SEND_WQE_BYTES) / SGE_BYTES
    }
}

/// A receive work request.
#[derive(Clone, Copy, Debug)]
pub struct RecvWqe<'a> {
    /// The program's name for it.
    pub wr_id: u64,
    /// SGEs, not checked.
    pub num_sge: u32,
    slot: Slot<'a>,
}

impl<'a> RecvWqe<'a> {
    /// Reads a slot.
    pub fn read(slot: Slot<'a>) -> Self {
        Self { wr_id: slot.u64(receive::WR_ID), num_sge: slot.u32(receive::NUM_SGE), slot }
    }

    /// SGE `index`; zeros if it does not lie in the slot.
    pub fn sge(&self, index: usize) -> Sge {
        read_sge(&self.slot, RECV_WQE_BYTES, index)
    }

    /// SGEs that fit into the slot.
    pub fn max_sges(&self) -> usize {
        (self.slot.bytes() - RECV_WQE_BYTES) / SGE_BYTES
    }
}

fn read_sge(slot: &Slot<'_>, base: usize, index: usize) -> Sge {
    let at = base + index * SGE_BYTES;
    let length_and_key = slot.u64(at + 8);
    Sge { addr: slot.u64(at), length: length_and_key as u32, lkey: (length_and_key >> 32) as u32 }
}

/// A completion, `struct ib_uverbs_wc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cqe {
    /// The program's name for the work request.
    pub wr_id: u64,
    /// One of [`status`](crate::uapi::verbs::status).
    pub status: u32,
    /// One of [`wc_opcode`](crate::uapi::verbs::wc_opcode); 0 with an error.
    pub opcode: u32,
    /// The adapter's number for an error; 0 where it has none.
    pub vendor_err: u32,
    /// Bytes of the message; 0 with an error.
    pub byte_len: u32,
    /// Immediate data, or the key that was invalidated.
    pub imm: u32,
    /// Number of the queue pair.
    pub qp_num: u32,
    /// Number of the sender's queue pair (UD).
    pub src_qp: u32,
    /// Bits of [`wc_flag`](crate::uapi::verbs::wc_flag).
    pub wc_flags: u32,
    /// LID of a datagram's sender; 0 on Ethernet.
    pub slid: u16,
    /// One of [`network_type`](crate::uapi::verbs::network_type) for a datagram's receive on
    /// Ethernet, else 0.
    pub sl: u8,
    /// The bits of its own LID by which a datagram has come (LMC).
    pub dlid_path_bits: u8,
    /// Port; 0 for sends.
    pub port_num: u8,
}

impl Cqe {
    /// A completion that carries nothing but an error.
    pub fn error(wr_id: u64, status: u32, qp_num: u32) -> Self {
        Self { wr_id, status, qp_num, ..Self::default() }
    }

    /// Writes the record of 48 bytes.
    #[inline]
    pub fn write(&self, slot: &Slot<'_>) {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        slot.set_u64(0, self.wr_id);
        slot.set_u64(8, pair(self.status, self.opcode));
        slot.set_u64(16, pair(self.vendor_err, self.byte_len));
        slot.set_u64(24, pair(self.imm, self.qp_num));
        slot.set_u64(32, pair(self.src_qp, self.wc_flags));
        let path = u64::from(self.slid) << 16 | u64::from(self.sl) << 32;
        let own = u64::from(self.dlid_path_bits) << 40 | u64::from(self.port_num) << 48;
        slot.set_u64(40, path | own);
    }

    /// Reads a record, as the provider does.
    pub fn read(slot: &Slot<'_>) -> Self {
        Self {
            wr_id: slot.u64(0),
            status: slot.u32(8),
            opcode: slot.u32(12),
            vendor_err: slot.u32(16),
            byte_len: slot.u32(20),
            imm: slot.u32(24),
            qp_num: slot.u32(28),
            src_qp: slot.u32(32),
            wc_flags: slot.u32(36),
            slid: (slot.u64(40) >> 16) as u16,
            sl: (slot.u64(40) >> 32) as u8,
            dlid_path_bits: (slot.u64(40) >> 40) as u8,
            port_num: (slot.u64(40) >> 48) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{HEAP_START, Mapping};
    use crate::ring::Ring;
    use crate::uapi::uverbs::answer::Wc;
    use std::sync::atomic::Ordering::Release;
    use zerocopy::FromBytes;

    /// A slot of 512 bytes in which every word of 32 bits holds its own offset.
    fn with_offsets(arena: &Mapping) -> Ring<'_> {
        let place = &arena.qps[0].sq;
        place.offset.store(HEAP_START as u64, Release);
        place.log2_slot.store(9, Release);
        let ring = arena.ring(place).unwrap();
        (0..512).step_by(4).for_each(|at| ring.slot(0).set_u32(at, at as u32));
        ring
    }

    /// The value of a word of 64 bits at an offset.
    fn long(at: u64) -> u64 {
        at | (at + 4) << 32
    }

    #[test]
    fn a_send_work_request_is_where_the_kernel_has_it() {
        let arena = Mapping::create().unwrap();
        let wqe = SendWqe::read(with_offsets(&arena).slot(0));
        assert_eq!((wqe.wr_id, wqe.opcode, wqe.flags, wqe.imm), (long(0), 12, 16, 20));
        assert_eq!((wqe.length(), wqe.num_sge), (184, 196));
        let remote = RemoteWr { addr: long(24), rkey: 32 };
        assert_eq!(wqe.remote(), remote);
        let remote = RemoteWr { addr: long(24), rkey: 48 };
        let atomic = AtomicWr { remote, compare_add: long(32), swap: long(40) };
        assert_eq!(wqe.atomic(), atomic);
        let remote = RemoteWr { addr: long(24), rkey: 36 };
        let flush = FlushWr { remote, length: 184, placement: 40, selectivity: 0 };
        assert_eq!(wqe.flush(), flush);
        assert_eq!(wqe.datagram(), DatagramWr { qpn: 24, qkey: 28, ah: 36 });
        let vector = AddressVector {
            port: 56,
            dgid: [64, 0, 0, 0, 68, 0, 0, 0, 72, 0, 0, 0, 76, 0, 0, 0],
            flow_label: 80,
            sgid_index: 84,
            hop_limit: 0,
            traffic_class: 0,
        };
        assert_eq!(wqe.address_vector(), vector);
        let bind = BindWr {
            addr: long(24),
            length: long(32),
            lkey: 40,
            rkey: 44,
            new_rkey: 48,
            access: 52,
        };
        assert_eq!(wqe.bind(), bind);
        assert_eq!(wqe.sge(0), Sge { addr: long(208), length: 216, lkey: 220 });
        assert_eq!(wqe.sge(2), Sge { addr: long(240), length: 248, lkey: 252 });
        assert_eq!(wqe.atomic_write_data(), long(208));
        assert_eq!(wqe.max_sges(), 19);
        let start = with_offsets(&arena).slot(0).address(0, 1).unwrap();
        assert_eq!(wqe.inline_address(304), Some(start + 208));
        assert_eq!(wqe.inline_address(305), None);
    }

    #[test]
    fn a_receive_is_where_the_kernel_has_it() {
        let arena = Mapping::create().unwrap();
        let wqe = RecvWqe::read(with_offsets(&arena).slot(0));
        assert_eq!((wqe.wr_id, wqe.num_sge), (long(0), 28));
        assert_eq!(wqe.sge(0), Sge { addr: long(40), length: 48, lkey: 52 });
        assert_eq!(wqe.sge(1), Sge { addr: long(56), length: 64, lkey: 68 });
        assert_eq!(wqe.max_sges(), 29);
    }

    #[test]
    fn a_completion_is_where_the_kernel_has_it() {
        let arena = Mapping::create().unwrap();
        let slot = with_offsets(&arena).slot(0);
        let cqe = Cqe {
            wr_id: 0x0102_0304_0506_0708,
            status: 1,
            opcode: 2,
            vendor_err: 12,
            byte_len: 3,
            imm: 4,
            qp_num: 5,
            src_qp: 6,
            wc_flags: 7,
            slid: 10,
            sl: 9,
            dlid_path_bits: 11,
            port_num: 8,
        };
        cqe.write(&slot);
        let mut bytes = [0xee; size_of::<Wc>()];
        slot.read_bytes(0, &mut bytes);
        let expected = Wc {
            wr_id: 0x0102_0304_0506_0708,
            status: 1,
            opcode: 2,
            vendor_err: 12,
            byte_len: 3,
            ex: 4,
            qp_num: 5,
            src_qp: 6,
            wc_flags: 7,
            slid: 10,
            sl: 9,
            dlid_path_bits: 11,
            port_num: 8,
            ..Wc::default()
        };
        assert_eq!(Wc::read_from_bytes(&bytes), Ok(expected));
        assert_eq!(slot.u32(48), 48, "48 bytes and no more");
        assert_eq!(Cqe::read(&slot), cqe);
    }
}
