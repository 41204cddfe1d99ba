//! How commands look to a fuzzer: which fields a payload has, and values that lead somewhere.

use arbitrary::{Result, Unstructured};
use soft_hca_core::arena::FIRST_QPN;
use soft_hca_core::uapi::uverbs::{EXTENDED, command};
use soft_hca_core::uapi::verbs::QpAttrMask;

use crate::device::GidTable;

/// A field of a payload.
#[derive(Clone, Copy)]
enum Field {
    /// A handle: handles are small.
    Handle,
    /// A number of entries or elements.
    Count,
    /// A length or an address.
    Long,
    /// A byte that mostly is this.
    Byte(u8),
    /// A byte up to this.
    Upto(u8),
    /// A word of 16 or 32 bits that mostly is 0.
    Word,
    /// Access rights.
    Access,
    /// A GID of the device, of a group, of nobody.
    Gid,
    /// Attributes of a change of state.
    Attributes,
    /// A queue pair's number.
    Qpn,
    /// A completion channel's index, or none.
    Channel,
}

use Field::{Access, Attributes, Byte, Channel, Count, Gid, Handle, Long, Qpn, Upto, Word};

/// A command: its number, bytes of its payload, the payload's fields.
type Shape = (u32, usize, &'static [(usize, Field)]);

/// The fields that both commands to create a queue pair have.
macro_rules! queue_pair {
    ($base:expr, $($more:tt)*) => {
        &[
            ($base + 8, Handle), ($base + 12, Handle), ($base + 16, Handle), ($base + 20, Handle),
            ($base + 24, Count), ($base + 28, Count), ($base + 32, Count), ($base + 36, Count),
            ($base + 40, Count), ($base + 44, Upto(1)), ($base + 45, Upto(10)),
            ($base + 46, Upto(1)), $($more)*
        ]
    };
}

/// Every command of `ib_user_verbs.h` that has a handler, and two that have none.
const SHAPES: [Shape; 30] = [
    (command::GET_CONTEXT, 8, &[]),
    (command::QUERY_DEVICE, 8, &[]),
    (command::EX_QUERY_DEVICE, 8, &[]),
    (command::QUERY_PORT, 16, &[(8, Byte(1))]),
    (command::ALLOC_PD, 8, &[]),
    (command::DEALLOC_PD, 4, &[(0, Handle)]),
    (command::REG_MR, 40, &[(8, Long), (16, Long), (24, Long), (32, Handle), (36, Access)]),
    (command::DEREG_MR, 4, &[(0, Handle)]),
    (command::ALLOC_MW, 16, &[(8, Handle), (12, Upto(3))]),
    (command::DEALLOC_MW, 4, &[(0, Handle)]),
    (
        command::CREATE_AH,
        56,
        &[(16, Handle), (24, Gid), (40, Word), (44, Upto(3)), (53, Byte(1)), (54, Byte(1))],
    ),
    (command::DESTROY_AH, 4, &[(0, Handle)]),
    (command::CREATE_COMP_CHANNEL, 8, &[]),
    (command::CREATE_CQ, 32, &[(8, Long), (16, Count), (20, Word), (24, Channel)]),
    (command::EX_CREATE_CQ, 32, &[(0, Long), (8, Count), (12, Word), (16, Channel), (24, Word)]),
    (command::RESIZE_CQ, 16, &[(8, Handle), (12, Count)]),
    (command::DESTROY_CQ, 16, &[(8, Handle)]),
    (command::CREATE_QP, 56, queue_pair!(8,)),
    (command::EX_CREATE_QP, 64, queue_pair!(0, (52, Word))),
    (command::QUERY_QP, 16, &[(8, Handle)]),
    (
        command::MODIFY_QP,
        112,
        &[
            (0, Gid),
            (24, Upto(3)),
            (30, Byte(1)),
            (31, Byte(1)),
            (64, Handle),
            (68, Attributes),
            (72, Word),
            (76, Word),
            (80, Word),
            (84, Qpn),
            (88, Access),
            (92, Upto(1)),
            (96, Upto(7)),
            (97, Upto(7)),
            (98, Upto(6)),
            (100, Upto(1)),
            (101, Upto(4)),
            (102, Upto(4)),
            (103, Upto(32)),
            (104, Byte(1)),
            (105, Upto(32)),
            (106, Upto(8)),
            (107, Upto(8)),
        ],
    ),
    (command::DESTROY_QP, 16, &[(8, Handle)]),
    (command::ATTACH_MCAST, 24, &[(0, Gid), (16, Handle)]),
    (command::DETACH_MCAST, 24, &[(0, Gid), (16, Handle)]),
    (command::CREATE_SRQ, 32, &[(16, Handle), (20, Count), (24, Count), (28, Count)]),
    (command::MODIFY_SRQ, 24, &[(0, Handle), (4, Upto(4)), (8, Count), (12, Count)]),
    (command::QUERY_SRQ, 16, &[(8, Handle)]),
    (command::DESTROY_SRQ, 16, &[(8, Handle)]),
    (command::POST_SEND, 24, &[(8, Handle)]),
    (command::REQ_NOTIFY_CQ, 8, &[(0, Handle)]),
];

/// The attributes of the usual changes of state, and others.
const ATTRIBUTES: [QpAttrMask; 12] = [
    QpAttrMask::STATE,
    QpAttrMask::STATE,
    QpAttrMask::INIT,
    QpAttrMask::INIT_UD,
    QpAttrMask::RTR_UC,
    QpAttrMask::RTR_RC,
    QpAttrMask::RTS,
    QpAttrMask::RTS_RC,
    QpAttrMask::STATE.union(QpAttrMask::EN_SQD_ASYNC_NOTIFY),
    QpAttrMask::STATE.union(QpAttrMask::CUR_STATE),
    QpAttrMask::AV,
    QpAttrMask::ALT_PATH,
];

/// Some command: well-formed, its fields likely to make sense.
pub(crate) fn command(u: &mut Unstructured<'_>, gids: &GidTable) -> Result<Vec<u8>> {
    let &(number, length, fields) = u.choose(&SHAPES)?;
    let mut payload = vec![0; length];
    for &(at, field) in fields {
        fill(u, gids, field, &mut payload[at..])?;
    }
    // Mostly enough room for the answer.
    let room = if u.ratio(1, 16)? { u.int_in_range(0..=20)? } else { 100 };
    Ok(encode(number, &payload, room))
}

/// A command as it is written; `room` for its answer in words.
pub(crate) fn encode(number: u32, payload: &[u8], room: u16) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    let header: usize = if number & EXTENDED != 0 { 0 } else { 8 };
    let word = if number & EXTENDED != 0 { 8 } else { 4 };
    bytes.extend((((header + payload.len()) / word) as u16).to_le_bytes());
    bytes.extend(room.to_le_bytes());
    if number & EXTENDED != 0 {
        bytes.extend([0; 16]);
    }
    bytes.extend(payload);
    bytes
}

fn fill(u: &mut Unstructured<'_>, gids: &GidTable, field: Field, to: &mut [u8]) -> Result<()> {
    let word = match field {
        Handle => u32::from(u.arbitrary::<u8>()?) % 12,
        Count => *u.choose(&[1, 2, 3, 4, 5, 16, 64, 0, 27, 33, 512, 0x7fff, 1 << 20, u32::MAX])?,
        Long => {
            let long = *u.choose(&[0, 1, 64, 4096, 4097, 1 << 32, 1 << 63, u64::MAX])?;
            to[..8].copy_from_slice(&u64::to_le_bytes(long));
            return Ok(());
        }
        Byte(usual) => {
            to[0] = if u.ratio(1, 32)? { u.arbitrary()? } else { usual };
            return Ok(());
        }
        Upto(most) => {
            to[0] = u.int_in_range(0..=most)?;
            return Ok(());
        }
        Word if u.ratio(1, 16)? => u.arbitrary()?,
        Word => 0,
        Access => u32::from(u.arbitrary::<u16>()?) & 0x3ff,
        Gid => {
            let gid = match u.int_in_range(0..=7)? {
                0 => u.arbitrary()?,
                1 => [0; 16],
                2 => {
                    let mut gid = [0; 16];
                    gid[10..].copy_from_slice(&[0xff, 0xff, 239, 0, 0, u.int_in_range(0..=2)?]);
                    gid
                }
                _ => gids.gid(u.int_in_range(0..=3)?),
            };
            to[..16].copy_from_slice(&gid);
            return Ok(());
        }
        Attributes if u.ratio(1, 16)? => u.arbitrary()?,
        Attributes => u.choose(&ATTRIBUTES)?.bits(),
        Qpn => FIRST_QPN + u.int_in_range(0..=6)?,
        Channel if u.arbitrary()? => u32::MAX,
        Channel => u.int_in_range(0..=3)?,
    };
    to[..4].copy_from_slice(&word.to_le_bytes());
    Ok(())
}
