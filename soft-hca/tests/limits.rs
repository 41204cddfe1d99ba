//! As many objects as the device announces can be created, and the next one is refused.
//!
//! See `stock.rs` about programs that are not installed; the packages are python3 and libibverbs1.

use programs::place::Place;
use programs::{installed, is_long};

/// Creates objects by libibverbs' own functions until one is refused: for each kind what was announced,
/// how many there were and the error's number. Offsets are those of `struct ibv_device_attr`.
const SCRIPT: &str = r"
import ctypes, errno, os, sys
from ctypes import byref, c_char, c_int, c_size_t, c_uint32, c_void_p

verbs = ctypes.CDLL('libibverbs.so.1', use_errno=True)
for name in ('get_device_list', 'open_device', 'alloc_pd', 'reg_mr', 'create_ah', 'create_srq', 'create_cq'):
    getattr(verbs, 'ibv_' + name).restype = c_void_p
devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(c_void_p))
context = c_void_p(verbs.ibv_open_device(c_void_p(devices[0])))
pd = c_void_p(verbs.ibv_alloc_pd(context))
attributes = (c_char * 512)()
assert verbs.ibv_query_device(context, byref(attributes)) == 0

def announced(at):
    return c_uint32.from_buffer(attributes, at).value

memory = ctypes.create_string_buffer(4096)
handle = (c_char * 32)()
assert verbs.ibv_query_gid(context, 1, 1, byref(handle)) == 0
# sgid_index; is_global and port_num
handle[20], handle[29], handle[30] = 1, 1, 1
shared = (c_char * 24)()
c_uint32.from_buffer(shared, 8).value = 5
c_uint32.from_buffer(shared, 12).value = 1

kinds = {
    'ah': (200, lambda: verbs.ibv_create_ah(pd, byref(handle))),
    'srq': (212, lambda: verbs.ibv_create_srq(pd, byref(shared))),
    'cq': (128, lambda: verbs.ibv_create_cq(context, 1, None, None, 0)),
    'mr': (136, lambda: verbs.ibv_reg_mr(pd, memory, c_size_t(4096), 0)),
}
for kind in sys.argv[1:]:
    at, create = kinds[kind]
    count = 0
    while create():
        count += 1
    print(kind, announced(at), count, errno.errorcode[ctypes.get_errno()])
taken = c_uint32.from_buffer(shared, 8).value
print('max_wr', taken, flush=True)
os._exit(0)
";

/// Creates as many of each kind as there can be.
fn reach(kinds: &[&str]) {
    if !installed(&["python3"]) {
        return;
    }
    let place = Place::new(&format!("limits-{}", kinds[0]));
    let script = place.file("limits.py");
    std::fs::write(&script, SCRIPT).unwrap();
    let line = format!("python3 {} {}", script.display(), kinds.join(" "));
    let text = place.start(&line).succeed();
    for (kind, line) in kinds.iter().zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!([words[0], words[1], words[3]], [kind, words[2], "ENOMEM"], "{text}");
    }
    // Five were asked for, and the ring has room for two more.
    let taken = if kinds.contains(&"srq") { "max_wr 7" } else { "max_wr 5" };
    assert_eq!(text.lines().last(), Some(taken), "{text}");
    place.assert_gone();
}

#[test]
fn as_many_as_announced() {
    reach(&["ah", "srq"]);
}

/// The table of regions is the largest. What a region costs may not depend on how many there are: they
/// would not come to an end.
#[test]
fn as_many_regions_and_queues_as_announced() {
    if is_long() {
        reach(&["mr", "cq"]);
    }
}
