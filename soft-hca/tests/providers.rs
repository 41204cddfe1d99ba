//! Programs that bring a libibverbs of another release along, which takes no provider of the system's: they find the
//! device by a folder with that release's.
//!
//! `conformance/newer` brings a release; its C library and its Python run the programs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use programs::brought_along::renamed;
use programs::place::Place;
use programs::{assert_has, missing, other_programs, skipped};
use soft_hca_core::config::PROVIDERS;
use soft_hca_core::provider;

/// Loads a libibverbs by its path, and registers memory if that finds a device. The programs of another release are
/// started with a provider of theirs, which is not to count.
const SCRIPT: &str = "
import ctypes, os, sys
del os.environ['RDMAV_DRIVERS']
verbs = ctypes.CDLL(sys.argv[1])
def call(name, *arguments, result=ctypes.c_void_p):
    function = getattr(verbs, name)
    function.restype = result
    return function(*arguments)
count = ctypes.c_int()
devices = call('ibv_get_device_list', ctypes.byref(count), result=ctypes.POINTER(ctypes.c_void_p))
if count.value:
    context = ctypes.c_void_p(call('ibv_open_device', ctypes.c_void_p(devices[0])))
    domain = ctypes.c_void_p(call('ibv_alloc_pd', context))
    memory = ctypes.create_string_buffer(4096)
    region = ctypes.c_void_p(call('ibv_reg_mr', domain, memory, ctypes.c_size_t(4096), 1))
    assert region.value
    assert call('ibv_dereg_mr', region, result=ctypes.c_int) == 0
    assert call('ibv_dealloc_pd', domain, result=ctypes.c_int) == 0
    assert call('ibv_close_device', context, result=ctypes.c_int) == 0
print(count.value, 'devices')
";

/// The doctor's output on a program of the other release which brings a libibverbs along, given these folders.
fn doctor(place: &Place, programs: &Path, library: &Path, folders: &[&Path]) -> String {
    let script = place.file("load.py");
    fs::write(&script, SCRIPT).unwrap();
    let mut command: Command = place.command(&["doctor", "--"]);
    command.arg(programs.join("python3")).args([&script, library]);
    command.env(PROVIDERS, std::env::join_paths(folders).unwrap());
    let output = command.stdin(Stdio::null()).output().unwrap();
    place.assert_gone();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    text.concat()
}

/// Makes a library that has nothing but the name which providers need, as the page says. It has no versions either, so
/// that the loader compares none. Tells whether there is a compiler.
fn empty_library(file: &Path) -> bool {
    let name = format!("-Wl,-soname,{}", provider::VERBS);
    let options = ["-shared", "-nostdlib", &name, "-x", "c", "/dev/null", "-o"];
    match Command::new("cc").args(options).arg(file).status() {
        Ok(status) => status.success() || panic!("cc: {status}"),
        Err(error) => {
            missing(format_args!("cc (package gcc): {error}"));
            false
        }
    }
}

#[test]
#[ignore = "conformance/newer --release forky brings what it runs"]
fn of_another_release() {
    let Some(programs) = other_programs() else {
        skipped("SOFT_HCA_PROGRAMS names no other release (conformance/newer)");
        return;
    };
    let theirs = programs.join("root/usr/lib").join(provider::MULTIARCH);
    let [ours, abi] = [provider::system_folder().unwrap(), theirs.clone()]
        .map(|folder| provider::below(&folder)[0].0);
    if ours == abi {
        skipped(format_args!("its private ABI is the system's, {abi}"));
        return;
    }
    let place = Place::new("providers");
    let library = renamed(&place, &theirs.join(provider::VERBS));
    let file = provider::file_name(abi);

    let text = doctor(&place, &programs, &library, &[]);
    let said = format!(
        "problem  provider: the library's private ABI is {abi}, the system's provider has {ours}: {file}"
    );
    assert_has(&text, &["0 devices\n", &said]);

    // Folders whose provider does not fit are passed over.
    let text = doctor(&place, &programs, &library, &[&provider::system_folder().unwrap(), &theirs]);
    let found = format!("ok       provider: {}\n", theirs.join("libibverbs").join(&file).display());
    let beside = format!("ok       libibverbs: {}", theirs.display());
    assert_has(&text, &["1 devices\n", &found, &beside, ", needed by the provider\n"]);

    // The provider alone, with an empty library beside it.
    let folder = place.file("folder");
    fs::create_dir_all(folder.join("libibverbs")).unwrap();
    let copy = folder.join("libibverbs").join(&file);
    fs::copy(theirs.join("libibverbs").join(&file), &copy).unwrap();
    if empty_library(&folder.join(provider::VERBS)) {
        let text = doctor(&place, &programs, &library, &[&folder]);
        let found = format!("ok       provider: {}\n", fs::canonicalize(&copy).unwrap().display());
        assert_has(&text, &["1 devices\n", &found]);
    }
}
