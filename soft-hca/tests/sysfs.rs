//! Programs that look for the device in sysfs by themselves.
//!
//! See `stock.rs` about programs that are not installed; the packages are hwloc and python3.

use programs::installed;
use programs::place::Place;

/// As on a kernel with Soft-RoCE, whose device has no bus. `ls` prints nothing on standard error.
#[test]
fn the_device_is_a_link() {
    const CLASS: &str = "/sys/class/infiniband";
    const TARGET: &str = "../../devices/virtual/infiniband/rxe0";
    const PLACE: &str = "/sys/devices/virtual/infiniband/rxe0";
    let place = Place::new("link");
    let run = |line: String| place.start(&line).succeed();
    assert_eq!(run(format!("readlink {CLASS}/rxe0")), format!("{TARGET}\n"));
    let verbs = TARGET.replace("infiniband/rxe0", "infiniband_verbs/uverbs0");
    assert_eq!(run(format!("readlink {CLASS}_verbs/uverbs0")), format!("{verbs}\n"));
    assert_eq!(run(format!("readlink -f {CLASS}/rxe0/ports")), format!("{PLACE}/ports\n"));
    assert_eq!(run(format!("realpath {CLASS}/rxe0")), format!("{PLACE}\n"));
    let text = run(format!("ls -l {CLASS}"));
    let lines: Vec<&str> = text.lines().collect();
    let is_right = lines[0].starts_with("total ")
        && lines[1].starts_with("lrwx")
        && lines[1].ends_with(&format!(" rxe0 -> {TARGET}"));
    assert!(is_right && lines.len() == 2, "{text}");
    let text = run(format!("ls -l {CLASS}/rxe0/ {PLACE}/ports"));
    for part in [" node_guid\n", " subsystem -> ../../../../class/infiniband\n", " 1\n"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    assert!(!text.contains("No such file"), "{text}");
    place.assert_gone();
}

/// Programs in other languages ask the C library for the whole path.
#[test]
fn python_resolves_the_link() {
    if !installed(&["python3"]) {
        return;
    }
    let script = "
import ctypes, os
libc = ctypes.CDLL(None)
libc.realpath.restype = ctypes.c_char_p
path = '/sys/class/infiniband/rxe0'
print(os.path.realpath(path), libc.realpath(path.encode(), None).decode())
print(os.listdir(os.path.realpath(path) + '/ports'), os.path.samefile(path, os.path.realpath(path)))
";
    let place = Place::new("python-link");
    let device = "/sys/devices/virtual/infiniband/rxe0";
    assert_eq!(
        place.python("python3".as_ref(), script),
        format!("{device} {device}\n['1'] True\n")
    );
    place.assert_gone();
}

/// As that of an adapter in a slot: NCCL, Mooncake and hwloc begin at its link. What the machine
/// has there itself is still found.
#[test]
fn a_device_has_a_place_on_the_bus() {
    let options = ["--device", "rxe0:numa=0", "--device", "rxe1:pci=0f1e:3b:00.0,numa=0"];
    let place = Place::with("bus", Vec::new(), options.map(String::from).to_vec());
    let run = |line: &str| place.start(line).succeed();
    const DEVICE: &str = "/sys/class/infiniband/rxe1";
    const FUNCTION: &str = "/sys/devices/pci0f1e:3b/0f1e:3b:00.0";
    assert_eq!(run(&format!("readlink {DEVICE}/device")), "../../../0f1e:3b:00.0\n");
    let verbs = "/sys/class/infiniband_verbs/uverbs1/device/";
    for path in [&format!("{DEVICE}/device"), &format!("{DEVICE}/../.."), verbs] {
        assert_eq!(run(&format!("realpath {path}")), format!("{FUNCTION}\n"), "{path}");
    }
    let bus = "/sys/bus/pci/devices/0f1e:3b:00.0";
    for folder in [FUNCTION, &format!("{DEVICE}/device"), bus] {
        let text = run(&format!("cat {folder}/numa_node {folder}/class {folder}/uevent"));
        let expected = "0\n0x020000\nPCI_CLASS=20000\nPCI_SLOT_NAME=0f1e:3b:00.0\n";
        assert_eq!(text, expected, "{folder}");
    }
    assert_eq!(run(&format!("ls {FUNCTION}/infiniband")), "rxe1\n");
    assert_eq!(
        run(&format!("realpath {bus}/infiniband/rxe1")),
        format!("{FUNCTION}/infiniband/rxe1\n")
    );
    assert_eq!(run("cat /sys/class/infiniband/rxe0/device/numa_node"), "0\n");
    for folder in std::fs::read_dir("/sys/devices").into_iter().flatten().flatten() {
        let folder = folder.path();
        let own = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        let seen = run(&format!("ls -A {}", folder.display())).lines().count();
        assert_eq!(own, seen, "{}", folder.display());
    }
    place.assert_gone();
}

/// hwloc reads the link and, seeing a device without a bus, has no place for it.
#[test]
fn lstopo_finds_its_way() {
    if !installed(&["lstopo-no-graphics"]) {
        return;
    }
    let place = Place::new("lstopo");
    let text = place.start("lstopo-no-graphics --whole-io --of console").succeed();
    assert!(text.contains("PU L#0") && !text.contains("rxe0"), "{text}");
    place.assert_gone();
}
