//! Where in its program a thread is when it calls a library, while all is recorded.
//!
//! Calls that pass through here come from a library, or from an inline function of the program's own: the
//! frames of the stack tell which function of librdmacm or libibverbs the program has called, and from
//! where. Several commands of one call have the same frame of the program behind them, and come by
//! different ways through the library.
//!
//! | file | what |
//! | --- | --- |
//! | `stack` | the frames, from here to the program's |
//! | `code` | the file that an address belongs to |
//! | `frame` | functions that have not returned |
//! | `table` | addresses and places that are known |

mod code;
mod frame;
mod stack;
mod table;

use std::cell::Cell;
use std::ffi::CStr;

use soft_hca_core::trace::{self, Site, event};

use crate::client::process::{self, Process};
pub(super) use frame::{Frame, frame_of};
use stack::{Stack, Trail};

/// A call of a library, as long as its thread makes no other one.
#[derive(Clone, Copy, Default)]
struct Call {
    site: Site,
    /// Where the program's frame is.
    frame: usize,
    /// The way through the library by which the first of its commands came.
    way: u64,
}

/// A stack that was walked for an inline function, and the place that was found.
#[derive(Clone, Copy)]
struct Walked {
    /// The function's name, by its address.
    function: usize,
    /// The process and the recording.
    recording: u64,
    trail: Trail,
    place: u32,
    frame: usize,
}

/// Inline functions whose last stack a thread remembers.
const FUNCTIONS: usize = 4;

const NOT_WALKED: Walked =
    Walked { function: 0, recording: 0, trail: Trail::NONE, place: 0, frame: 0 };

thread_local! {
    static WALKED: [Cell<Walked>; FUNCTIONS] = const { [const { Cell::new(NOT_WALKED) }; FUNCTIONS] };
    static LAST: Cell<Call> = const { Cell::new(Call { site: Site { place: 0, call: 0 }, frame: 0, way: 0 }) };
}

/// The frames of the calling thread's program.
pub(super) fn callers() -> Stack {
    Stack::walk()
}

/// The name of the file of code that a call is in, and the call's offset there, by the address behind it.
pub(super) fn file_and_offset(behind: usize) -> Option<(String, usize)> {
    let code::Module { base, path, .. } = code::module_of(behind)?;
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    Some((String::from_utf8_lossy(name).into_owned(), behind - base - 1))
}

/// The site of a command that the calling thread's program is about to give, if all is recorded.
pub(super) fn of_command() -> Site {
    let process = process::recorded().or_else(process::recorded_parent);
    process.map_or_else(Site::default, |process| of(process, None))
}

/// The same of a call that has failed, if only failures are recorded.
#[cold]
pub(super) fn of_failure(process: &Process) -> Site {
    of(process, None)
}

/// The site of a call of an inline function, if it is not within another one. Whoever asks does so from one
/// place for each function, so that a loop of the program's need not have its stack walked each time.
pub(super) fn of_inline(process: &Process, function: &'static CStr) -> Site {
    let known = trace::site();
    if known != Site::default() {
        return known;
    }
    let mark = 0u8;
    let from = std::ptr::from_ref(std::hint::black_box(&mark)) as usize;
    let name = function.as_ptr() as usize;
    let recording = recording(process);
    let find = |all: &[Cell<Walked>; FUNCTIONS]| {
        let mine = all.iter().find(|walked| [0, name].contains(&walked.get().function));
        let place = mine.unwrap_or(&all[0]);
        let walked = place.get();
        let is_known = walked.function == name && walked.recording == recording;
        if is_known && walked.trail.is_of(from) {
            return walked;
        }
        let stack = Stack::walk();
        let number = self::place(process, &stack, Some(function));
        let trail = stack.trail(from);
        let found = Walked { function: name, recording, trail, place: number, frame: stack.frame };
        place.set(found);
        found
    };
    // Not in a thread that is ending.
    let walked = WALKED.try_with(find).unwrap_or(NOT_WALKED);
    begins(walked.place, walked.frame, 0)
}

/// The same, from elsewhere.
#[cold]
pub(super) fn of_inline_from_elsewhere(process: &Process, function: &'static CStr) -> Site {
    of(process, Some(function))
}

/// The site of a `fork`, of which a handler is told that the C library calls.
#[cold]
pub(super) fn of_fork(process: &Process) -> Site {
    let stack = Stack::walk_behind(libc::fork as *const () as usize);
    begins(place(process, &stack, Some(c"fork")), stack.frame, 0)
}

#[cold]
fn of(process: &Process, function: Option<&'static CStr>) -> Site {
    let known = trace::site();
    if known != Site::default() {
        return known;
    }
    let stack = Stack::walk();
    let place = place(process, &stack, function);
    let before = LAST.try_with(Cell::get).unwrap_or_default();
    let is_same = function.is_none() && before.site.place == place && before.frame == stack.frame;
    if is_same && before.way != stack.way {
        return before.site;
    }
    begins(place, stack.frame, stack.way)
}

/// The site of a new call of the thread.
fn begins(place: u32, frame: usize, way: u64) -> Site {
    let next = |last: &Cell<Call>| {
        let site = Site { place, call: last.get().site.call.wrapping_add(1).max(1) };
        last.set(Call { site, frame, way });
        site
    };
    // Not in a thread that is ending.
    LAST.try_with(next).unwrap_or(Site { place, call: 0 })
}

/// The process and the recording that it is part of.
fn recording(process: &Process) -> u64 {
    let recorder = &process.env.recorder;
    u64::from(recorder.index()) << 32 | u64::from(recorder.recording())
}

/// The number of a place, which is traced if it has not been; 0 if nothing is known of it.
fn place(process: &Process, stack: &Stack, function: Option<&'static CStr>) -> u32 {
    let callers = stack.callers();
    if callers.is_empty() {
        return 0;
    }
    let called = function.map_or(stack.function, |function| function.as_ptr() as usize);
    let Some(place) = table::place(callers, called) else { return 0 };
    let recorder = &process.env.recorder;
    if place.begins(recording(process)) {
        let module = code::module_of(callers[0]).unwrap_or_default();
        let name = match function {
            Some(function) => function.to_bytes().to_vec(),
            None => code::symbol(stack.function).unwrap_or_default(),
        };
        let own = code::symbol(stack.own).unwrap_or_default();
        let mut addresses = [0; stack::DEPTH];
        for (address, caller) in addresses.iter_mut().zip(callers) {
            *address = caller.wrapping_sub(module.base) as u64;
        }
        let body =
            event::Place { number: place.number, depth: callers.len() as u32, callers: addresses };
        let words = [&module.path[..], &module.build_id, &name, &own];
        let tail: Vec<u8> = words.iter().flat_map(|word| [word, &[0][..]].concat()).collect();
        recorder.prepare();
        recorder.append(recorder.about(recorder.index()), &body.into(), &[&tail]);
    }
    place.number
}
