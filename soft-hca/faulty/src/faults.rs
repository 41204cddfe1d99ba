//! Whether something happens to a call, and what a program is told of it.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use soft_hca_core::config;
use soft_hca_fault::{Change, FaultReport, Injector, Plan, Verb};

use crate::layout::{WC_RDMA_READ, WC_RECV, Wc, Wr};

/// Addresses of the first data of work requests, by whether it is a receive and its number.
type Buffers = HashMap<(bool, u64), u64>;

struct Faults {
    injector: Mutex<Injector>,
    /// By the verb's index: something can happen to it.
    is_about: Vec<bool>,
    is_about_completions: bool,
    /// Data are to be damaged.
    damages: bool,
    buffers: Mutex<Buffers>,
    /// By the verb's index, if the program is to say what it calls: it has said so.
    listed: Option<Vec<AtomicBool>>,
}

thread_local! {
    /// How many functions of the libraries this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A function of the libraries is called.
pub(crate) fn enter() {
    // Not in a thread that is ending.
    let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
}

/// It has returned.
pub(crate) fn leave() {
    let _ = DEPTH.try_with(|depth| depth.set(depth.get().saturating_sub(1)));
}

/// Whether a call is made by a function of the libraries, not by the program.
fn is_nested() -> bool {
    DEPTH.try_with(Cell::get).unwrap_or(0) > 0
}

fn faults() -> &'static Faults {
    static FAULTS: OnceLock<Faults> = OnceLock::new();
    FAULTS.get_or_init(|| {
        let text = std::env::var_os(config::FAULT).unwrap_or_default();
        let plan = text.to_string_lossy().parse::<Plan>().unwrap_or_else(|error| {
            say(&format!("{}: {error}", config::FAULT));
            Plan::default()
        });
        let own = std::env::current_exe().unwrap_or_default();
        let program = own.file_name().map(|name| name.to_string_lossy().into_owned());
        let injector = Injector::new(&plan, &program.unwrap_or_default());
        Faults {
            is_about: (0..Verb::ALL.len()).map(|verb| injector.is_about(verb)).collect(),
            is_about_completions: injector.is_about_completions(),
            damages: plan.damages(),
            buffers: Mutex::default(),
            listed: injector
                .lists()
                .then(|| Verb::ALL.iter().map(|_| AtomicBool::new(false)).collect()),
            injector: Mutex::new(injector),
        }
    })
}

impl Faults {
    /// Where the data of the last receive, or send, with a number come to, or from.
    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn injector(&self) -> MutexGuard<'_, Injector> {
        self.injector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program says what it calls, once for each verb.
    fn list(&self, verb: usize) {
        if let Some(listed) = &self.listed {
            if !listed[verb].swap(true, Relaxed) {
                say(&format!("calls {}", Verb::ALL[verb].name));
            }
        }
    }
}

/// A line to standard error, at once. The program may have closed that.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("soft-hca: {text}\n").as_bytes());
}

/// Has a recording and the log say what happened to a call, and which specification asked for it. The
/// library that soft-hca preloads as well can do that.
fn note(call: &str, specs: String, outcome: String) {
    type Function = unsafe extern "C" fn(*const u8, usize);
    // SAFETY: a name that ends with NUL.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"soft_hca_fault_happened".as_ptr()) };
    if !address.is_null() {
        let text = FaultReport { call: call.to_owned(), specs, outcome }.encode();
        // SAFETY: the symbol is the preloaded library's function, which is declared so.
        let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(address) };
        // SAFETY: the text has as many bytes as the call is told, and outlives it.
        unsafe { function(text.as_ptr(), text.len()) };
    }
}

fn errno() -> *mut c_int {
    // SAFETY: the call takes no arguments and gives the address of this thread's own number.
    unsafe { libc::__errno_location() }
}

/// Sets `errno`.
pub(crate) fn set_errno(number: c_int) {
    // SAFETY: `errno` is this thread's own, and lives as long as the thread.
    unsafe { *errno() = number };
}

/// Our part of a call, which leaves `errno` alone.
fn aside<T>(ours: impl FnOnce() -> T) -> T {
    // SAFETY: `errno` is this thread's own, and lives as long as the thread.
    let before = unsafe { *errno() };
    let value = ours();
    set_errno(before);
    value
}

/// A verb is called: does what is to happen before, and gives the error number if it fails, which is
/// in `errno` then, or 0 if it is skipped.
pub(crate) fn meet(verb: usize, qpn: impl FnOnce() -> Option<u32>) -> Option<c_int> {
    if is_nested() {
        return None;
    }
    let faults = aside(faults);
    if faults.listed.is_some() {
        aside(|| faults.list(verb));
    }
    if !faults.is_about[verb] {
        return None;
    }
    let (delay, kill, failure, skip) = aside(|| {
        let action = faults.injector().call(verb, qpn());
        if !action.specs.is_empty() {
            let outcome = action.outcome();
            note(Verb::ALL[verb].name, action.specs, outcome);
        }
        (action.delay, action.kill, action.failure, action.skip)
    });
    if let Some(delay) = delay {
        thread::sleep(delay);
    }
    if kill {
        // SAFETY: the call ends this process and takes no memory of it.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    if skip {
        return Some(0);
    }
    let errno = failure?.0;
    set_errno(errno);
    Some(errno)
}

/// Work requests were posted, receives or sends: where their data come to is kept, if data are to be damaged.
///
/// # Safety
///
/// Such a list is there.
pub(crate) unsafe fn posted(are_receives: bool, first: *const Wr) {
    if first.is_null() || is_nested() {
        return;
    }
    let faults = aside(faults);
    if !faults.damages {
        return;
    }
    let mut next = first;
    // SAFETY: the list is null or the program's, as the caller promises, and each request links to the next.
    while let Some(wr) = unsafe { next.as_ref() } {
        if wr.num_sge > 0 {
            // SAFETY: so many elements are there, and each begins with its address.
            let address = unsafe { *wr.sg_list };
            aside(|| faults.buffers().insert((are_receives, wr.wr_id), address));
        }
        next = wr.next;
    }
}

/// Completions were polled.
///
/// # Safety
///
/// So many are there.
pub(crate) unsafe fn polled(wc: *mut Wc, count: c_int) {
    if count <= 0 || is_nested() {
        return;
    }
    let faults = aside(faults);
    if !faults.is_about_completions {
        return;
    }
    // SAFETY: the caller promises that the poll has written so many completions there.
    let completions = unsafe { std::slice::from_raw_parts_mut(wc, count as usize) };
    for wc in completions {
        let is_receive = wc.opcode & WC_RECV != 0;
        aside(|| {
            let brings_data = (is_receive || wc.opcode == WC_RDMA_READ) && wc.status == 0;
            let fault = faults.injector().completion(wc.qp_num, is_receive, brings_data);
            let Some((change, specs)) = fault else { return };
            note("ibv_poll_cq", specs, change.to_string());
            match change {
                Change::Status(status) => wc.status = status.0,
                Change::Bytes(bytes) => wc.byte_len = bytes,
                Change::Damaged => {
                    if let Some(data) = faults.buffers().get(&(is_receive, wc.wr_id)) {
                        // SAFETY: a completed request's buffer is the program's again, which polls here.
                        unsafe { *(*data as *mut u8) ^= 1 };
                    }
                }
            }
        });
    }
}
