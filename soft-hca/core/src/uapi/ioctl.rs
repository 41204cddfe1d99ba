//! The ioctl ABI of uverbs, `include/uapi/rdma/ib_user_ioctl_cmds.h`: the errors that refuse its
//! methods, and the one method that is answered.
//!
//! rdma-core's libraries try most methods by `ioctl` first and, told by ENOTTY that the kernel has no
//! such thing, send the command of [`uverbs`](super::uverbs) that does the same. The methods that
//! have no such command hand the error to the program.

use crate::errno::{Errno, Refusal, Result, ensure};

/// `RDMA_VERBS_IOCTL`
pub const RDMA_VERBS_IOCTL: u64 = 0xc018_1b01;

/// `UVERBS_OBJECT_MR`
const MR: u16 = 7;
/// `UVERBS_METHOD_ADVISE_MR`
const ADVISE_MR: u16 = 2;

/// Objects, and those of their methods for which the libraries have another way. For the two that
/// read the table of GIDs that is sysfs.
const HAVE_ANOTHER_WAY: [(u16, &[u16]); 12] = [
    (0, &[0, 2, 3, 5, 6]), // DEVICE: INVOKE_WRITE, QUERY_PORT, GET_CONTEXT, QUERY_GID_TABLE, _ENTRY
    (1, &[0]),             // PD: DESTROY
    (3, &[0, 1]),          // CQ: CREATE, DESTROY
    (4, &[0, 1]),          // QP: CREATE, DESTROY
    (5, &[0, 1]),          // SRQ: CREATE, DESTROY
    (6, &[0]),             // AH: DESTROY
    (7, &[1, 5]),          // MR: DESTROY, REG
    (8, &[0]),             // MW: DESTROY
    (9, &[0]),             // FLOW: DESTROY
    (10, &[0]),            // XRCD: DESTROY
    (11, &[0]),            // RWQ_IND_TBL: DESTROY
    (12, &[0, 1]),         // WQ: CREATE, DESTROY
];

/// Bytes of a request's header, `ib_uverbs_ioctl_hdr`, that say what is asked for: length, object,
/// method, number of attributes.
pub const HEADER: usize = 8;
/// Bytes of the whole header, before the attributes.
const WHOLE_HEADER: usize = 24;
/// Bytes of an attribute, `ib_uverbs_attr`: id, length, flags, a reserved word, and 8 bytes of data or its address.
const ATTRIBUTE: usize = 16;

/// The method that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `ibv_advise_mr`: [`AdviseMr`], in so many bytes.
    AdviseMr(usize),
    /// A method that is refused with this error.
    Refused(Errno),
}

/// The method in the header of a request.
pub fn method(header: [u8; HEADER]) -> Method {
    let [length, object, method] =
        [0, 2, 4].map(|at| u16::from_le_bytes([header[at], header[at + 1]]));
    if (object, method) == (MR, ADVISE_MR) {
        return Method::AdviseMr(length.into());
    }
    let has_another_way = HAVE_ANOTHER_WAY
        .iter()
        .any(|(known, methods)| *known == object && methods.contains(&method));
    Method::Refused(if has_another_way { Errno::ENOTTY } else { Errno::EOPNOTSUPP })
}

/// `enum ib_uverbs_advise_mr_advice`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Memory is about to be read.
    Prefetch,
    /// Memory is about to be written.
    PrefetchWrite,
    /// Memory is about to be read, and only pages that are present are to be mapped.
    PrefetchNoFault,
}

/// A request of `UVERBS_METHOD_ADVISE_MR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdviseMr {
    /// Handle of the protection domain.
    pub pd_handle: u32,
    /// The advice.
    pub advice: Advice,
    /// Whether it has to take effect before the call returns (`IB_UVERBS_ADVISE_MR_FLAG_FLUSH`).
    pub is_synchronous: bool,
    /// Address of the elements, each a [`Range`].
    pub elements: u64,
    /// How many there are.
    pub count: usize,
}

impl AdviseMr {
    /// Reads a request with all its attributes.
    pub fn parse(request: &[u8]) -> Result<Self> {
        const CUT: Errno = Errno::EINVAL.because(Refusal::IoctlAttribute);
        let attributes = request.get(WHOLE_HEADER..).unwrap_or_default().chunks_exact(ATTRIBUTE);
        let found = |id: u16| -> Result<(usize, u64)> {
            let mut those =
                attributes.clone().filter(|attribute| attribute[..2] == id.to_le_bytes());
            let attribute = those.next().ok_or(CUT)?;
            let length = u16::from_le_bytes([attribute[2], attribute[3]]);
            let data = attribute[8..].try_into().expect("half of an attribute is eight bytes");
            Ok((usize::from(length), u64::from_le_bytes(data)))
        };
        let [(_, pd_handle), (_, advice), (_, flags), (bytes, elements)] =
            [found(0)?, found(1)?, found(2)?, found(3)?];
        let advice = match advice {
            0 => Advice::Prefetch,
            1 => Advice::PrefetchWrite,
            2 => Advice::PrefetchNoFault,
            _ => return Err(Errno::EOPNOTSUPP.because(Refusal::NoSuchAdvice)),
        };
        ensure(flags <= 1, Errno::EINVAL.because(Refusal::NoSuchAdviceFlag))?;
        ensure(bytes % Range::BYTES == 0, CUT)?;
        let pd_handle = u32::try_from(pd_handle).map_err(|_| CUT)?;
        let count = bytes / Range::BYTES;
        Ok(Self { pd_handle, advice, is_synchronous: flags == 1, elements, count })
    }

    /// Bytes of the elements.
    pub fn bytes(&self) -> usize {
        self.count * Range::BYTES
    }
}

/// Part of a region, `struct ib_uverbs_sge`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First address in the program's memory.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// The region's key.
    pub lkey: u32,
}

impl Range {
    const BYTES: usize = 16;

    /// The ranges in an array.
    pub fn all(array: &[u8]) -> impl Iterator<Item = Self> {
        array.chunks_exact(Self::BYTES).map(|bytes| {
            let word = |at: usize| {
                u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
            };
            let addr = u64::from(word(0)) | u64::from(word(4)) << 32;
            Self { addr, length: word(8), lkey: word(12) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(object: u16, number: u16) -> Method {
        let words = [24, object, number, 0].map(u16::to_le_bytes);
        method(words.concat().try_into().unwrap())
    }

    fn refused(object: u16, number: u16) -> Errno {
        match requested(object, number) {
            Method::Refused(error) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_has_a_command_is_sent_as_one() {
        for (object, method) in [(0, 0), (0, 3), (3, 0), (4, 1), (7, 1), (12, 1)] {
            assert_eq!(refused(object, method), Errno::ENOTTY, "{object} {method}");
        }
    }

    #[test]
    fn what_has_none_is_not_supported() {
        // QUERY_CONTEXT, QUERY_PORT_SPEED; QUERY_MR, REG_DMABUF_MR
        for (object, method) in [(0, 4), (0, 7), (7, 3), (7, 4)] {
            assert_eq!(refused(object, method), Errno::EOPNOTSUPP, "{object} {method}");
        }
        // DM_ALLOC, COUNTERS_CREATE, ASYNC_EVENT_ALLOC, what nobody knows, a driver's own
        for (object, method) in [(14, 0), (15, 0), (16, 0), (99, 0), (3, 7), (4, 1 << 12)] {
            assert_eq!(refused(object, method), Errno::EOPNOTSUPP, "{object} {method}");
        }
    }

    /// A request with these attributes: id, length, data.
    fn request(attributes: &[(u16, u16, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; WHOLE_HEADER];
        for (id, length, data) in attributes {
            bytes.extend([*id, *length, 1, 0].map(u16::to_le_bytes).concat());
            bytes.extend(data.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn an_advice_is_read() {
        assert_eq!(requested(7, 2), Method::AdviseMr(24));
        let mut attributes = [(2, 4, 1), (0, 0, 5), (3, 32, 0x1000), (1, 8, 1)];
        let advice = AdviseMr::parse(&request(&attributes)).unwrap();
        let expected = AdviseMr {
            pd_handle: 5,
            advice: Advice::PrefetchWrite,
            is_synchronous: true,
            elements: 0x1000,
            count: 2,
        };
        assert_eq!((advice, advice.bytes()), (expected, 32));
        for (index, wrong, error) in [
            (0, (2, 4, 2), Errno::EINVAL),
            (1, (9, 0, 5), Errno::EINVAL),
            (2, (3, 31, 0x1000), Errno::EINVAL),
            (3, (1, 8, 3), Errno::EOPNOTSUPP),
        ] {
            let right = std::mem::replace(&mut attributes[index], wrong);
            assert_eq!(AdviseMr::parse(&request(&attributes)), Err(error), "{wrong:?}");
            attributes[index] = right;
        }
        assert_eq!(AdviseMr::parse(&[0; 7]), Err(Errno::EINVAL));
    }

    #[test]
    fn ranges_are_read() {
        let array = [0x1_0000_2000u64.to_le_bytes(), [8, 0, 0, 0, 9, 0, 0, 0]].concat();
        let ranges: Vec<Range> = Range::all(&array).collect();
        assert_eq!(ranges, [Range { addr: 0x1_0000_2000, length: 8, lkey: 9 }]);
    }
}
