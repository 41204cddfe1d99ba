//! Accesses of peers to this process's memory by RDMA operations, reported to ThreadSanitizer by the next call of this
//! process.
//!
//! Nothing tells which peer knows of what this process has done, so a peer is taken to know all that threads had done
//! before they last told anybody anything: before a post, a command, or a write to a socket or a pipe. As much is taken
//! to be known of peers' operations when a thread has heard of something: by a completion, an event, or a read from a
//! socket or a pipe. So a race may be missed; none is reported where processes tell each other by one of these.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs;

use soft_hca_core::arena::{Operation, OperationKind, Operations};

use super::thread::{Access, Fiber, Sync, ThreadSanitizer};

/// Fibers that make operations in turn, so that the last ones have each their name in a report.
const FIBERS: usize = 16;

/// Operations of peers, in their order.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// As many were taken.
    taken: u64,
    count: usize,
    fibers: Vec<Fiber>,
    /// Names of peers' programs by their process ids.
    programs: HashMap<u32, String>,
    /// Registered memory, from the first address to the one behind the last.
    registered: Vec<(u64, u64)>,
    /// Accesses of this process's threads before they told anybody anything.
    told: Box<Sync>,
    /// Accesses of peers so far.
    done: Box<Sync>,
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
            OperationKind::Atomic => atomic_operation_of_a_peer,
        };
        function as usize + 1
    }
}

impl Peers {
    /// The process wants to know of operations behind as many as there were so far. A new fiber knows all that the
    /// thread has done which creates it, so they are created before there is anything to know.
    pub(super) fn begin(&mut self, sanitizer: ThreadSanitizer, taken: u64) {
        self.taken = taken;
        self.fibers = std::iter::repeat_with(|| sanitizer.fiber(c"device")).take(FIBERS).collect();
    }

    /// Peers may access memory from now on.
    pub(super) fn register(&mut self, address: u64, length: u64) {
        let range = (address, address.saturating_add(length));
        if !self.registered.contains(&range) {
            self.registered.push(range);
        }
    }

    /// The calling thread is about to tell somebody something.
    pub(super) fn tells(&self, sanitizer: &ThreadSanitizer) {
        sanitizer.release(&self.told);
    }

    /// The calling thread has heard something.
    pub(super) fn hears(&self, sanitizer: &ThreadSanitizer) {
        sanitizer.acquire(&self.done);
    }

    /// Tells of what peers have done meanwhile.
    pub(super) fn take(&mut self, sanitizer: ThreadSanitizer, operations: &Operations) {
        while let Some(operation) = operations.next(&mut self.taken) {
            if self.is_registered(&operation) {
                self.make(sanitizer, &operation);
            }
        }
    }

    /// Any process of the fabric can write there, so not every address is memory of which the runtime knows anything.
    fn is_registered(&self, &Operation { address, length, .. }: &Operation) -> bool {
        let end = address.saturating_add(length.into());
        length > 0 && self.registered.iter().any(|&(first, last)| first <= address && end <= last)
    }

    fn make(&mut self, sanitizer: ThreadSanitizer, operation: &Operation) {
        let &Operation { kind, address, length, .. } = operation;
        let name = self.name(operation);
        let Some(fiber) = self.fibers.get(self.count % FIBERS) else { return };
        self.count += 1;
        fiber.rename(&name);
        let access = match kind {
            OperationKind::Read => Access::Read,
            OperationKind::Write | OperationKind::Atomic => Access::Write,
        };
        fiber.run(&[], || {
            sanitizer.acquire(&self.told);
            sanitizer.acquire(&self.done);
            sanitizer.access(access, address, length, place::of(kind));
            sanitizer.release(&self.done);
        });
    }

    /// The name of a fiber that makes an operation.
    fn name(&mut self, operation: &Operation) -> CString {
        let program = self.programs.entry(operation.pid).or_insert_with(|| {
            let name =
                fs::read_to_string(format!("/proc/{}/comm", operation.pid)).unwrap_or_default();
            name.chars().filter(|letter| !letter.is_control()).collect()
        });
        CString::new(name(program, operation)).expect("control characters are left out")
    }
}

/// Letters of a thread's name that the runtime keeps.
const LONGEST: usize = 63;

/// An operation of a program in words, as many as a report has room for.
fn name(program: &str, operation: &Operation) -> String {
    let &Operation { kind, qpn, wr_id, pid, .. } = operation;
    let words = match kind {
        OperationKind::Read => "device: RDMA read",
        OperationKind::Write => "device: RDMA write",
        OperationKind::Atomic => "device: atomic",
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
    known.iter().find(|name| name.len() <= LONGEST).unwrap_or(shortest).clone()
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
            wr_id,
            pid: 4711,
            place: Place::new(place),
        };
        for (operation, expected) in [
            (operation(17, 7, ""), "device: RDMA write wr_id 0x7 of qp 17 by client[4711]"),
            (
                operation(17, 7, "a:8"),
                "device: RDMA write wr_id 0x7 of qp 17 by client[4711] at a:8",
            ),
            (
                operation(1_354_279, 7, "client.c:88"),
                "device: RDMA write wr_id 0x7 by client[4711] at client.c:88",
            ),
            (
                operation(17, 1 << 45, "client.c:88"),
                "device: RDMA write by client[4711] at client.c:88",
            ),
            (
                operation(17, 7, "resources_of_a_test.c:4235"),
                "device: RDMA write by 4711 at resources_of_a_test.c:4235",
            ),
        ] {
            assert_eq!(name("client", &operation), expected);
        }
    }
}
