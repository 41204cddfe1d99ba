//! Entries of the arena's tables: taken and given back.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use soft_hca_core::arena::{self, Entry};
use soft_hca_core::engine::Retired;
use soft_hca_core::errno::{Errno, Refusal, Result, ensure};
use soft_hca_core::uapi::verbs::state;
use soft_hca_roce::wire::ip;

use super::{FULL, Fabric, GONE, Membership, RingOf, store_gid};
use crate::event_fd::EventFd;
use crate::objects::{AhObject, CqObject, MrObject, QpObject, SrqObject};

const NO_DESCRIPTOR: Errno = Errno::ENOMEM.because(Refusal::NoDescriptor);

/// Makes an entry that was taken, if there was one, as if it had never been used, and moves the
/// mark of how far the table is in use. `ENOMEM` when the table is full.
fn begin(taken: Option<usize>, entries: &[impl Entry], used: Option<&AtomicU32>) -> Result<usize> {
    let index = taken.ok_or(FULL)?;
    entries[index].reset();
    if let Some(used) = used {
        used.fetch_max(index as u32 + 1, AcqRel);
    }
    Ok(index)
}

impl Fabric {
    // Taking an entry, which is then as if it had never been used: `ENOMEM` when the table is full.

    fn take_channel(&mut self) -> Result<usize> {
        begin(self.channels.take(()), &self.arena.channels, None)
    }

    pub(crate) fn take_cq(&mut self, object: CqObject) -> Result<usize> {
        begin(self.cqs.take(object), &self.arena.cqs, Some(&self.arena.cqs_used))
    }

    pub(crate) fn take_srq(&mut self, object: SrqObject) -> Result<usize> {
        begin(self.srqs.take(object), &self.arena.srqs, Some(&self.arena.srqs_used))
    }

    /// The entry has its number from now on; see [`Fabric::qpn`].
    pub(crate) fn take_qp(&mut self, object: QpObject, proc: usize) -> Result<usize> {
        let taken = self.take_qp_index(object, proc);
        let index = begin(taken, &self.arena.qps, Some(&self.arena.qps_used))?;
        let qpn = self.qp_numbers.take(index);
        if let Some(object) = self.qps.get_mut(index) {
            object.qpn = qpn;
        }
        Ok(index)
    }

    /// Regions and windows have a limit each.
    pub(crate) fn take_mr(&mut self, object: MrObject) -> Result<usize> {
        let has_room = if object.is_window {
            self.windows < arena::MAX_WINDOWS
        } else {
            self.mrs.len() - self.windows < arena::MAX_REGIONS
        };
        ensure(has_room, FULL)?;
        let index =
            begin(self.mrs.take_lowest(object), &self.arena.mrs, Some(&self.arena.mrs_used))?;
        self.windows += usize::from(object.is_window);
        Ok(index)
    }

    pub(crate) fn take_ah(&mut self, object: AhObject) -> Result<usize> {
        begin(self.ahs.take(object), &self.arena.ahs, Some(&self.arena.ahs_used))
    }

    /// A queue pair becomes member of a group; `ENOMEM` if the group has `max` of them.
    pub(crate) fn add_member(&mut self, membership: Membership, max: u32) -> Result<()> {
        const GROUP_FULL: Errno = Errno::ENOMEM.because(Refusal::FullGroup);
        let of_group = self.members.iter().filter(|(_, of)| of.gid == membership.gid);
        ensure(of_group.count() < max as usize, GROUP_FULL)?;
        let qpn = self.qpn(membership.qp)?;
        let taken = self.members.take_lowest(membership);
        let index = begin(taken, &self.arena.members, Some(&self.arena.members_used))?;
        let member = &self.arena.members[index];
        store_gid(&member.gid, membership.gid);
        member.live.store(qpn, Release);
        self.roce.join(ip::address(&membership.gid));
        Ok(())
    }

    /// A queue pair's memberships: index and group.
    pub(crate) fn members_of(&self, qp: usize) -> impl Iterator<Item = (usize, [u8; 16])> + '_ {
        self.members.iter().filter(move |(_, of)| of.qp == qp).map(|(index, of)| (index, of.gid))
    }

    /// The queue pair with a number.
    pub(crate) fn qp_of(&self, qpn: u32) -> Option<(usize, &QpObject)> {
        let index = self.qp_numbers.index(qpn)?;
        self.qps.get(index).filter(|qp| qp.qpn == qpn).map(|qp| (index, qp))
    }

    /// The number of a queue pair.
    pub(crate) fn qpn(&self, index: usize) -> Result<u32> {
        self.qps.get(index).map(|qp| qp.qpn).ok_or(GONE)
    }

    // Giving an entry back

    pub(crate) fn release_channel(&mut self, index: usize) {
        self.arena.channels[index].live.store(0, Release);
        self.env.forget_channel(index);
        self.channels.release(index);
    }

    /// Releases a region or window; returns a region, which copies may still be using.
    pub(crate) fn release_mr(&mut self, index: usize) -> Option<Retired> {
        self.actor().land_writes(None);
        let mr = &self.arena.mrs[index];
        mr.live.store(0, Release);
        // A window that goes no longer counts at its region.
        if mr.kind.load(Acquire) != 0 {
            let region = (mr.bound.swap(0, AcqRel) as usize).checked_sub(1);
            if let Some(region) = region.and_then(|region| self.arena.mrs.get(region)) {
                let _ = region.bound.fetch_update(AcqRel, Acquire, |bound| bound.checked_sub(1));
            }
        }
        let object = self.mrs.release(index)?;
        self.windows -= usize::from(object.is_window);
        self.registry.deregister(object.key)
    }

    pub(crate) fn release_ah(&mut self, index: usize) {
        self.arena.ahs[index].live.store(0, Release);
        self.ahs.release(index);
    }

    pub(crate) fn release_member(&mut self, index: usize) {
        self.arena.members[index].live.store(0, Release);
        if let Some(membership) = self.members.release(index) {
            self.roce.leave(ip::address(&membership.gid));
        }
    }

    // Entries in use by the data path: `ERESTART` as `Fabric::lock`.

    pub(crate) fn release_cq(&mut self, index: usize) -> Result<()> {
        let arena = Arc::clone(&self.arena);
        let cq = &arena.cqs[index];
        let guard = self.lock(&cq.lock)?;
        cq.live.store(0, Release);
        cq.ring.offset.store(0, Release);
        cq.eager.offset.store(0, Release);
        let unread = cq.pending_events.swap(0, AcqRel);
        drop(guard);
        self.release_ring_of(RingOf::Completions(index));
        self.release_ring_of(RingOf::Eager(index));
        if let Some(channel) = self.cqs.release(index).and_then(|object| object.channel) {
            self.env.take_tokens(channel, unread);
        }
        Ok(())
    }

    pub(crate) fn release_srq(&mut self, index: usize) -> Result<()> {
        let arena = Arc::clone(&self.arena);
        let srq = &arena.srqs[index];
        let guard = self.lock(&srq.lock)?;
        srq.live.store(0, Release);
        srq.ring.offset.store(0, Release);
        drop(guard);
        self.release_ring_of(RingOf::Shared(index));
        self.srqs.release(index);
        Ok(())
    }

    pub(crate) fn release_qp(&mut self, index: usize) -> Result<()> {
        self.await_link(index)?;
        self.answer(index)?;
        let arena = Arc::clone(&self.arena);
        let qp = &arena.qps[index];
        self.actor().land_writes(Some(qp.live.load(Acquire)));
        // From now on no operation begins with it, however long this takes.
        qp.state.store(state::RESET, Release);
        self.tell_link(index, state::RESET);
        {
            let _guards = (self.lock(&qp.send_lock)?, self.lock(&qp.recv_lock)?);
            // Messages that have arrived are in the program's memory, which is then its own again.
            ensure(self.actor().drain_staged(qp.recv_cq.load(Acquire)), Errno::ERESTART)?;
            qp.live.store(0, Release);
            qp.sq.offset.store(0, Release);
            qp.rq.offset.store(0, Release);
            qp.snapshot.offset.store(0, Release);
        }
        self.keep_counts(index);
        let memberships: Vec<usize> = self.members_of(index).map(|(member, _)| member).collect();
        memberships.into_iter().for_each(|i| self.release_member(i));
        self.release_ring_of(RingOf::Send(index));
        self.release_ring_of(RingOf::Receive(index));
        self.release_ring_of(RingOf::Snapshot(index));
        self.qps.release(index);
        Ok(())
    }

    /// Creates the event descriptor of a completion channel.
    pub(crate) fn new_channel(&mut self, proc: usize) -> Result<(usize, u32, OwnedFd)> {
        let fd = EventFd::new().map_err(|_| NO_DESCRIPTOR)?;
        let for_client = fd.try_clone().map_err(|_| NO_DESCRIPTOR)?;
        let index = self.take_channel()?;
        let generation = self.new_generation();
        self.env.remember_channel(index, generation, fd);
        let channel = &self.arena.channels[index];
        channel.proc.store(proc as u32, Release);
        channel.live.store(generation, Release);
        Ok((index, generation, for_client))
    }
}
