//! Events that the program has taken and acknowledged. What destroys their object waits, in the library,
//! until that is so of all; nobody tells the kernel of an acknowledgement.

use std::collections::HashMap;
use std::mem::offset_of;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use soft_hca_core::trace;
use soft_hca_core::trace::event::{Source, Unacknowledged};
use soft_hca_core::uapi;
use soft_hca_core::uapi::ucma::abi::EventResp;
use soft_hca_core::uapi::ucma::{self, Command, command, event_type};
use soft_hca_core::uapi::uverbs::answer::AsyncEventDesc;
use soft_hca_core::uapi::verbs::event as asynchronous;
use zerocopy::FromBytes;

use crate::client::cq::CqInfo;
use crate::client::layout::{ExtendedCq, Qp, Srq};
use crate::client::memory;
use crate::client::of_process::OfProcess;

/// Events of an id of the connection manager.
#[derive(Clone, Copy, Default)]
struct Events {
    taken: u32,
    acknowledged: u32,
}

/// The source of an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    /// An id, by the library's name for it.
    Id(u64),
    /// A completion queue, by its index in the arena.
    Cq(u32),
    /// A queue pair or a shared receive queue.
    Element(Key),
}

/// A queue pair by its number, or a shared receive queue by its index in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Qp(u32),
    Srq(u32),
}

/// Asynchronous events of an object.
#[derive(Clone, Copy)]
struct Element {
    /// Where the library counts those that were acknowledged.
    counts: u64,
    taken: u32,
}

impl Element {
    fn missing(self) -> u32 {
        let acknowledged = memory::read(self.counts, size_of::<u32>()).ok();
        let acknowledged = acknowledged.as_deref().and_then(<[u8]>::first_chunk).copied();
        self.taken.saturating_sub(acknowledged.map_or(self.taken, u32::from_ne_bytes))
    }
}

/// The objects of this process, and their events.
#[derive(Default)]
struct Objects {
    /// The library's name for each id, its address, by number.
    names: HashMap<u32, u64>,
    /// Events of ids, by the library's name.
    ids: HashMap<u64, Events>,
    /// Ids that are being destroyed, by the library's name: the number of each, and of its events that are to be
    /// acknowledged before the call returns.
    destroyed: HashMap<u64, (u32, u32)>,
    /// Completion queues that an event was taken of, by their index in the arena.
    queues: HashMap<u32, Arc<CqInfo>>,
    /// Queue pairs and shared receive queues that an event was taken of.
    elements: HashMap<Key, Element>,
    /// The source of the last event that a thread has taken: the thread may be at it still.
    last: HashMap<u32, Of>,
}

static KNOWN: OfProcess<Objects> = OfProcess::new();

fn with<T>(what: impl FnOnce(&mut Objects) -> T) -> T {
    what(&mut KNOWN.lock())
}

/// The program acknowledges an event of an id, by the library's name for that. Gives the id's number if a thread
/// destroys it, and waits for this.
pub(super) fn acknowledge(id: u64) -> Option<u32> {
    with(|known| {
        let Some((number, missing)) = known.destroyed.get_mut(&id) else {
            known.ids.entry(id).or_default().acknowledged += 1;
            return None;
        };
        let number = *number;
        *missing -= 1;
        if *missing == 0 {
            known.destroyed.remove(&id);
        }
        Some(number)
    })
}

/// The calling thread asks for an event: it is done with the one before.
pub(super) fn asks() {
    with(|known| _ = known.last.remove(&trace::thread()));
}

/// The calling thread has taken an event of the connection manager.
pub(super) fn taken(event: &[u8]) {
    let Ok(event) = EventResp::read_from_bytes(event) else { return };
    with(|known| {
        // A request counts for the id that it has come to. A group's event has the name of the membership.
        let own = known.names.get(&event.id).filter(|_| event.event != event_type::CONNECT_REQUEST);
        let name = own.copied().unwrap_or(event.uid);
        known.ids.entry(name).or_default().taken += 1;
        known.last.insert(trace::thread(), Of::Id(name));
    });
}

/// The calling thread has taken an event of a completion queue.
pub(super) fn taken_of(cq: &Arc<CqInfo>) {
    with(|known| {
        known.queues.entry(cq.index()).or_insert_with(|| Arc::clone(cq));
        known.last.insert(trace::thread(), Of::Cq(cq.index()));
    });
}

/// The calling thread has taken an asynchronous event of a device file's.
pub(super) fn taken_asynchronously(event: &[u8], srq: impl FnOnce(u32) -> Option<u32>) {
    let Ok(AsyncEventDesc { element, event_type, .. }) = AsyncEventDesc::read_from_bytes(event)
    else {
        return;
    };
    let word = |offset: usize| {
        let bytes = memory::read(element.wrapping_add(offset as u64), size_of::<u32>()).ok()?;
        bytes.first_chunk().copied().map(u32::from_ne_bytes)
    };
    let (key, counts) = match event_type {
        asynchronous::SRQ_LIMIT_REACHED => {
            let index = word(offset_of!(Srq, handle)).and_then(srq);
            (index.map(Key::Srq), offset_of!(Srq, events_completed))
        }
        asynchronous::QP_FATAL..=asynchronous::PATH_MIG_ERR | asynchronous::QP_LAST_WQE_REACHED => {
            let number = word(offset_of!(Qp, qp_num));
            (number.map(Key::Qp), offset_of!(Qp, events_completed))
        }
        // Nobody waits for those of a port, and a completion queue that has one is lost.
        _ => return,
    };
    let Some(key) = key else { return };
    let counts = element.wrapping_add(counts as u64);
    with(|known| {
        known.elements.entry(key).or_insert(Element { counts, taken: 0 }).taken += 1;
        known.last.insert(trace::thread(), Of::Element(key));
    });
}

/// How many completion events of a queue its program has acknowledged; `cq` is the program's name for it.
pub(super) fn events_of_queue(cq: u64) -> Option<u32> {
    let place = cq.checked_add(offset_of!(ExtendedCq, comp_events_completed) as u64)?;
    let bytes = memory::read(place, size_of::<u32>()).ok()?;
    bytes.first_chunk().copied().map(u32::from_ne_bytes)
}

/// A completion queue is destroyed.
pub(super) fn forget(cq: u32) {
    with(|known| _ = known.queues.remove(&cq));
}

/// A queue pair is destroyed: how many of its events the program has not acknowledged.
pub(super) fn forget_qp(number: u32) -> u32 {
    with(|known| known.elements.remove(&Key::Qp(number))).map_or(0, Element::missing)
}

/// The same of a shared receive queue.
pub(super) fn forget_srq(index: u32) -> u32 {
    with(|known| known.elements.remove(&Key::Srq(index))).map_or(0, Element::missing)
}

/// A command of the connection manager is done. If that has destroyed an id: how many of its events
/// the program has not acknowledged.
pub(super) fn command_done(written: &[u8], answer: &[u8]) -> u32 {
    let number = uapi::command_number(written).unwrap_or_default();
    if ![command::CREATE_ID, command::ACCEPT, command::DESTROY_ID].contains(&number) {
        return 0;
    }
    let Ok(command) = Command::parse(written) else { return 0 };
    let answered = answer.first_chunk().copied().map_or(0, u32::from_le_bytes);
    match number {
        command::CREATE_ID => {
            if let Ok(requested) = ucma::CreateId::decode(command.payload) {
                with(|known| {
                    known.names.insert(answered, requested.uid);
                    known.ids.remove(&requested.uid);
                    known.destroyed.remove(&requested.uid);
                });
            }
            0
        }
        command::ACCEPT => {
            // The connecting side answers the response by it, and gives no name then.
            if let Ok(requested) = ucma::Accept::decode(command.payload) {
                with(|known| _ = known.names.entry(requested.id).or_insert(requested.uid));
            }
            0
        }
        _ => {
            let Ok(requested) = ucma::Target::decode(command.payload) else { return 0 };
            with(|known| known.destroys(requested.id, answered))
        }
    }
}

impl Objects {
    /// An id is destroyed of which so many events were taken: how many the program has not acknowledged.
    fn destroys(&mut self, number: u32, taken: u32) -> u32 {
        // Of an id without a name nothing was seen.
        let Some(name) = self.names.remove(&number) else { return 0 };
        let Events { acknowledged, .. } = self.ids.remove(&name).unwrap_or_default();
        let missing = taken.saturating_sub(acknowledged);
        let missing = missing.saturating_sub((missing > 0 && has_event(name)).into());
        if missing > 0 {
            self.destroyed.insert(name, (number, missing));
        }
        missing
    }
}

/// Objects of a program that ends, with the events that it has taken and not acknowledged. The last event of another
/// thread does not count: that may be about to do it.
pub(super) fn left() -> Vec<Unacknowledged> {
    let own = trace::thread();
    let is_there = |thread: u32| Path::new(&format!("/proc/self/task/{thread}")).exists();
    with(|known| {
        let others = known.last.iter().filter(|(thread, _)| **thread != own && is_there(**thread));
        let others: Vec<Of> = others.map(|(_, of)| *of).collect();
        let at_it = |of: Of| others.iter().filter(|other| **other == of).count() as u32;
        let held: Vec<u64> = known.names.values().filter_map(|name| holds(*name)).collect();
        let ids = known.names.iter().map(|(number, name)| {
            let Events { taken, acknowledged } = known.ids.get(name).copied().unwrap_or_default();
            let of_library = held.iter().filter(|of| *of == name).count() as u32;
            let missing = taken.saturating_sub(acknowledged).saturating_sub(of_library);
            (Source::Id, *number, missing.saturating_sub(at_it(Of::Id(*name))))
        });
        let queues = known.queues.values().map(|cq| {
            let taken = cq.events_read.load(Acquire);
            let acknowledged = events_of_queue(cq.user_handle).unwrap_or(taken);
            let missing = taken.saturating_sub(acknowledged);
            (Source::Cq, cq.index(), missing.saturating_sub(at_it(Of::Cq(cq.index()))))
        });
        let elements = known.elements.iter().map(|(key, element)| {
            let (source, number) = match *key {
                Key::Qp(number) => (Source::Qp, number),
                Key::Srq(index) => (Source::Srq, index),
            };
            (source, number, element.missing().saturating_sub(at_it(Of::Element(*key))))
        });
        let left = ids.chain(queues).chain(elements).filter(|(.., events)| *events > 0);
        let left = left.map(|(source, number, events)| Unacknowledged {
            source: source as u32,
            number,
            events,
        });
        left.collect()
    })
}

/// Of `struct rdma_cm_id`: `event`.
const EVENT: u64 = 352;

/// Whether an id has the event of a call that has waited for it, which the library acknowledges at the
/// next such call, or the end. A name is the address of a `struct rdma_cm_id`.
fn has_event(name: u64) -> bool {
    memory::read(name.wrapping_add(EVENT), 8).is_ok_and(|event| event.iter().any(|byte| *byte != 0))
}

/// Which id the event counts for that an id has in this way.
fn holds(name: u64) -> Option<u64> {
    let word = |address: u64| {
        let bytes = memory::read(address, 8).ok()?;
        bytes.first_chunk().copied().map(u64::from_ne_bytes)
    };
    let event = word(name.wrapping_add(EVENT)).filter(|event| *event != 0)?;
    // The event's number is the lower half of its word. See `acknowledge.rs`.
    let is_request = word(event.wrapping_add(16))? as u32 == event_type::CONNECT_REQUEST;
    word(event.wrapping_add(if is_request { 8 } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_is_where_the_library_has_it() {
        assert_eq!(EVENT, std::mem::offset_of!(soft_hca_headers::rdma_cm_id, event) as u64);
    }

    #[test]
    fn an_id_with_an_event() {
        let mut id = [0u64; 64];
        assert!(!has_event(id.as_ptr() as u64));
        id[EVENT as usize / 8] = 1;
        assert!(has_event(id.as_ptr() as u64));
        assert!(!has_event(8));
    }

    #[test]
    fn an_id_that_is_destroyed_waits_for_the_rest_of_its_events() {
        // The library's name for it.
        let id = [0u64; 64];
        let name = id.as_ptr() as u64;
        let missing = with(|known| {
            known.names.insert(7, name);
            known.ids.insert(name, Events { taken: 3, acknowledged: 1 });
            known.destroys(7, 3)
        });
        assert_eq!(missing, 2);
        let waits = || with(|known| known.destroyed.get(&name).copied());
        assert_eq!(waits(), Some((7, 2)));
        assert_eq!(acknowledge(name), Some(7));
        assert_eq!(waits(), Some((7, 1)));
        assert_eq!(acknowledge(name), Some(7));
        assert_eq!(waits(), None);
        assert!(with(|known| known.ids.remove(&name).is_none()), "it has no events");
    }

    #[test]
    fn a_request_counts_for_the_id_that_it_has_come_to() {
        let mut event = [7u64, 5, u64::from(event_type::CONNECT_REQUEST)];
        let mut id = [0u64; 64];
        assert_eq!(holds(id.as_ptr() as u64), None);
        id[EVENT as usize / 8] = event.as_ptr() as u64;
        assert_eq!(holds(id.as_ptr() as u64), Some(5));
        event[2] = 0;
        id[EVENT as usize / 8] = event.as_ptr() as u64;
        assert_eq!(holds(id.as_ptr() as u64), Some(7));
    }
}
