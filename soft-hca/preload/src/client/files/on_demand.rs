//! Regions on demand (`IBV_ACCESS_ON_DEMAND`): their memory need not be mapped when it is registered, only when a
//! request uses it, or when `ibv_advise_mr` asks for it (the kernel's `rxe_odp.c`).

use std::collections::HashMap;

use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::system::page_bytes;
use soft_hca_core::uapi::ioctl::{Advice, AdviseMr, Range};
use soft_hca_core::uapi::uverbs::{answer, request};
use soft_hca_core::uapi::verbs::access;

use crate::client::memory;

/// Whether a region is on demand.
pub(crate) fn is_on_demand(region: &request::RegMr) -> bool {
    region.access_flags & access::ON_DEMAND != 0
}

/// A region on demand.
#[derive(Clone, Copy, Debug)]
struct Region {
    handle: u32,
    pd_handle: u32,
    start: u64,
    length: u64,
    is_writable: bool,
}

/// The regions of a device file, by their keys.
#[derive(Debug, Default)]
pub(crate) struct OnDemand(HashMap<u32, Region>);

impl OnDemand {
    /// Enters a region that was registered.
    pub(crate) fn insert(&mut self, requested: &request::RegMr, given: &answer::RegMr) {
        let request::RegMr { start, length, pd_handle, access_flags, .. } = *requested;
        let is_writable = access_flags & access::LOCAL_WRITE != 0;
        let region = Region { handle: given.mr_handle, pd_handle, start, length, is_writable };
        self.0.insert(given.lkey, region);
    }

    /// Removes a region that was deregistered.
    pub(crate) fn remove(&mut self, handle: u32) {
        self.0.retain(|_, region| region.handle != handle);
    }

    /// `ibv_advise_mr`: faults the memory in. Without `IBV_ADVISE_MR_FLAG_FLUSH` the first use may do that.
    pub(crate) fn advise(&self, requested: &AdviseMr, ranges: &[Range]) -> Result<()> {
        const NONE: Errno = Errno::EINVAL.because(Refusal::NoOnDemandRegion);
        for Range { addr, length, lkey } in ranges.iter().copied() {
            let region = self.0.get(&lkey).filter(|region| region.pd_handle == requested.pd_handle);
            let region = region.filter(|region| region.is_writable).ok_or(NONE)?;
            if length == 0 || !requested.is_synchronous {
                continue;
            }
            ensure(region.has(addr, length.into()), Errno::EFAULT.because(Refusal::BeyondRegion))?;
            match requested.advice {
                Advice::Prefetch => memory::populate(addr, length.into(), false)?,
                Advice::PrefetchWrite => memory::populate(addr, length.into(), true)?,
                Advice::PrefetchNoFault => {}
            }
        }
        Ok(())
    }
}

impl Region {
    /// Whether a range is on the region's pages.
    fn has(&self, addr: u64, length: u64) -> bool {
        let page = page_bytes() as u64;
        let start = self.start / page * page;
        let end =
            self.start.checked_add(self.length).and_then(|end| end.checked_next_multiple_of(page));
        let last = addr.checked_add(length);
        addr >= start && end.zip(last).is_some_and(|(end, last)| last <= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: usize = 2;

    fn requested(advice: Advice, is_synchronous: bool) -> AdviseMr {
        AdviseMr { pd_handle: 3, advice, is_synchronous, elements: 0, count: 1 }
    }

    /// A region with key 7 of two pages, the first of which is mapped.
    fn region(access_flags: u32, start: u64) -> OnDemand {
        let length = (PAGES * page_bytes()) as u64;
        let requested =
            request::RegMr { start, length, pd_handle: 3, access_flags, ..Default::default() };
        let mut known = OnDemand::default();
        known.insert(&requested, &answer::RegMr { mr_handle: 5, lkey: 7, rkey: 0 });
        known
    }

    #[test]
    fn advice_is_about_regions_and_the_memory_that_is_there() {
        let here = vec![0u8; 4 * page_bytes()];
        let page = page_bytes() as u64;
        let start = (here.as_ptr() as u64).next_multiple_of(page);
        let mut known = region(access::LOCAL_WRITE, start);
        let advise = |known: &OnDemand, advice, addr, length, lkey| {
            known.advise(&requested(advice, true), &[Range { addr, length, lkey }])
        };
        for advice in [Advice::Prefetch, Advice::PrefetchWrite, Advice::PrefetchNoFault] {
            assert_eq!(advise(&known, advice, start, 2 * page as u32, 7), Ok(()));
            assert_eq!(advise(&known, advice, start + 1, 2 * page as u32, 7), Err(Errno::EFAULT));
            assert_eq!(advise(&known, advice, start - page, 1, 7), Err(Errno::EFAULT));
            assert_eq!(advise(&known, advice, 0, 0, 7), Ok(()));
            assert_eq!(advise(&known, advice, start, 1, 8), Err(Errno::EINVAL));
        }
        let other_domain = AdviseMr { pd_handle: 4, ..requested(Advice::Prefetch, true) };
        let first = Range { addr: start, length: 1, lkey: 7 };
        assert_eq!(known.advise(&other_domain, &[first]), Err(Errno::EINVAL));
        let reads = region(access::REMOTE_READ, start);
        assert_eq!(reads.advise(&requested(Advice::Prefetch, true), &[first]), Err(Errno::EINVAL));
        known.remove(5);
        assert_eq!(known.advise(&requested(Advice::Prefetch, false), &[first]), Err(Errno::EINVAL));
    }

    #[test]
    fn memory_that_is_not_there_is_told_to_who_waits_for_it() {
        // The first page of the address space is never mapped.
        let known = region(access::LOCAL_WRITE, 0);
        let first = [Range { addr: 8, length: 8, lkey: 7 }];
        assert_eq!(known.advise(&requested(Advice::Prefetch, true), &first), Err(Errno::EFAULT));
        assert_eq!(known.advise(&requested(Advice::PrefetchNoFault, true), &first), Ok(()));
        assert_eq!(known.advise(&requested(Advice::PrefetchWrite, false), &first), Ok(()));
    }
}
