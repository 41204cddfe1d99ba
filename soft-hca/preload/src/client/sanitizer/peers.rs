//! Operations of peers at this process's memory, reported to its sanitizer by the next call of this process.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs;

use soft_hca_core::arena::{Arena, Operation, OperationKind, Operations};

use super::found::Sanitizers;
use super::order::Order;
use super::queue::Stretch;
use super::shared::Shared;
use super::thread::{Access, Fiber, ThreadSanitizer};

/// Fibers that make operations of one queue pair in turn, so that the last ones have each their name in a report.
const IN_TURN: usize = 4;

/// Queue pairs whose operations have fibers of their own. Those of others are taken to be one behind the other.
const QUEUE_PAIRS: usize = 64;

/// Operations of peers, in their order.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// As many were taken.
    taken: u64,
    /// With ThreadSanitizer.
    fibers: Option<Fibers>,
    pub order: Option<Order>,
    /// Names of peers' programs by their process ids.
    programs: HashMap<u32, String>,
    shared: Shared,
    /// Registered memory, from the first address to the one behind the last.
    registered: Vec<(u64, u64)>,
}

/// The fibers that make operations.
#[derive(Debug)]
struct Fibers {
    sanitizer: ThreadSanitizer,
    /// A new fiber knows all that its creator knows. This one does nothing else.
    creator: Fiber,
    by_queue_pair: HashMap<u32, InTurn>,
}

#[derive(Debug, Default)]
struct InTurn {
    count: usize,
    fibers: Vec<Fiber>,
}

impl Fibers {
    fn new(sanitizer: ThreadSanitizer) -> Self {
        let creator = sanitizer.fiber(c"device");
        Self { sanitizer, creator, by_queue_pair: HashMap::new() }
    }

    /// The one for the next operation of a peer's queue pair.
    fn next(&mut self, qpn: u32) -> &Fiber {
        let known = &mut self.by_queue_pair;
        let own = known.len() < QUEUE_PAIRS || known.contains_key(&qpn);
        let InTurn { count, fibers } = known.entry(if own { qpn } else { 0 }).or_default();
        let at = *count % IN_TURN;
        *count += 1;
        if at == fibers.len() {
            self.creator.run(&[], || fibers.push(self.sanitizer.fiber(c"device")));
        }
        &fibers[at]
    }
}

/// Functions that a report names in the place of the peer's, of which this process has no stack.
mod place {
    #![allow(unsafe_code, reason = "names that a report shows")]

    use super::OperationKind;

    // Each returns something else, or the linker would make one of them.
    #[unsafe(no_mangle)]
    extern "C" fn rdma_read_of_a_peer() -> u32 {
        OperationKind::Read as u32
    }
    #[unsafe(no_mangle)]
    extern "C" fn rdma_write_of_a_peer() -> u32 {
        OperationKind::Write as u32
    }
    #[unsafe(no_mangle)]
    extern "C" fn atomic_operation_of_a_peer() -> u32 {
        OperationKind::Atomic as u32
    }

    /// An address in the function of a kind; reports take it to be behind a call.
    pub(super) fn of(kind: OperationKind) -> usize {
        let function: extern "C" fn() -> u32 = match kind {
            OperationKind::Read => rdma_read_of_a_peer,
            OperationKind::Write => rdma_write_of_a_peer,
            OperationKind::Atomic | OperationKind::Message => atomic_operation_of_a_peer,
        };
        function as usize + 1
    }
}

impl Peers {
    /// The process wants to know of operations behind as many as there were so far.
    pub(super) fn begin(&mut self, thread: Option<ThreadSanitizer>, arena: &Arena, index: usize) {
        self.taken = arena.operations[index].count();
        self.fibers = thread.map(Fibers::new);
        self.order = thread.map(|thread| Order::new(thread, arena, index));
    }

    /// Peers may access memory from now on.
    pub(super) fn register(&mut self, address: u64, length: u64) {
        let range = (address, address.saturating_add(length));
        if !self.registered.contains(&range) {
            self.registered.push(range);
        }
    }

    /// Tells of what peers have done meanwhile.
    pub(super) fn take(&mut self, own: &Sanitizers, arena: &Arena, operations: &Operations) {
        loop {
            let before = self.taken;
            let next = operations.next(&mut self.taken);
            let has_missed = self.taken - before > u64::from(next.is_some());
            if let Some(order) = self.order.as_mut().filter(|_| has_missed) {
                order.has_missed();
            }
            match next {
                None => return,
                Some(message) if message.kind == OperationKind::Message => {
                    self.order.iter_mut().for_each(|order| order.comes(arena, &message));
                }
                Some(operation) => self.make(own, arena, &operation),
            }
        }
    }

    /// Any process of the fabric can write there, so not every address is memory of which the runtime knows anything.
    fn is_registered(&self, &Operation { address, length, .. }: &Operation) -> bool {
        let end = address.saturating_add(length.into());
        length > 0 && self.registered.iter().any(|&(first, last)| first <= address && end <= last)
    }

    fn make(&mut self, own: &Sanitizers, arena: &Arena, operation: &Operation) {
        if !self.is_registered(operation) || self.shared.is_with(operation.pid) {
            return;
        }
        let &Operation { kind, address, length, .. } = operation;
        let access = match kind {
            OperationKind::Read => Access::Read,
            _ => Access::Write,
        };
        let program = program(&mut self.programs, operation.pid);
        let place = place::of(kind);
        let stretch = [Stretch { access, address, length }];
        own.check(&stretch, place, || words(program, operation, usize::MAX));
        own.are_written(&stretch);
        let (Some(fibers), Some(order)) = (&mut self.fibers, &mut self.order) else { return };
        let sanitizer = fibers.sanitizer;
        let fiber = fibers.next(operation.qpn);
        let name = format!("{DEVICE}{}", words(program, operation, LONGEST - DEVICE.len()));
        fiber.rename(&CString::new(name).expect("control characters are left out"));
        order.operates(arena, operation, fiber, || {
            sanitizer.access(access, address, length, place);
        });
    }
}

/// The name of the program of a peer.
fn program(known: &mut HashMap<u32, String>, pid: u32) -> &str {
    known.entry(pid).or_insert_with(|| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.chars().filter(|letter| !letter.is_control()).collect()
    })
}

/// Letters of a thread's name that the runtime keeps.
const LONGEST: usize = 63;

/// The beginning of names of the device's threads.
const DEVICE: &str = "device: ";

/// An operation of a program in words, as many as there is room for.
fn words(program: &str, operation: &Operation, longest: usize) -> String {
    let &Operation { kind, qpn, wr_id, pid, .. } = operation;
    let words = match kind {
        OperationKind::Read => "RDMA read",
        OperationKind::Write => "RDMA write",
        OperationKind::Atomic => "atomic",
        OperationKind::Message => "message",
    };
    let by = format!("by {program}[{pid}]");
    let request = format!("wr_id {wr_id:#x}");
    let Some(place) = operation.place.text() else {
        return format!("{words} {request} of qp {qpn} {by}");
    };
    let known = [
        format!("{words} {request} of qp {qpn} {by} at {place}"),
        format!("{words} {request} {by} at {place}"),
        format!("{words} {by} at {place}"),
        format!("{words} by {pid} at {place}"),
        format!("{words} at {place}"),
    ];
    let [.., shortest] = &known;
    known.iter().find(|name| name.len() <= longest).unwrap_or(shortest).clone()
}

#[cfg(test)]
mod tests {
    use soft_hca_core::arena::Place;

    use super::*;

    #[test]
    fn the_place_is_named_before_all_else() {
        let operation = |qpn, wr_id, place| Operation {
            kind: OperationKind::Write,
            address: 0,
            length: 8,
            qpn,
            to: 18,
            wr_id,
            peer: 1,
            pid: 4711,
            moment: 1,
            place: Place::new(place),
        };
        for (operation, expected) in [
            (operation(17, 7, ""), "RDMA write wr_id 0x7 of qp 17 by client[4711]"),
            (operation(17, 7, "a:8"), "RDMA write wr_id 0x7 of qp 17 by client[4711] at a:8"),
            (
                operation(1_354_279, 7, "client.c:88"),
                "RDMA write wr_id 0x7 by client[4711] at client.c:88",
            ),
            (operation(17, 1 << 45, "client.c:88"), "RDMA write by client[4711] at client.c:88"),
            (
                operation(17, 7, "resources_of_a_test.c:4235"),
                "RDMA write by 4711 at resources_of_a_test.c:4235",
            ),
        ] {
            assert_eq!(words("client", &operation, LONGEST - DEVICE.len()), expected);
        }
    }
}
