//! `harness/install`, which `./demo` starts with, says in a line which Rust is missing, and on other systems than
//! Debian's which packages are. Where everything is there it says nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::scripts::Folder;

/// A folder with the script, and with a `cargo` that prints this of its version.
fn folder(name: &str, cargo: &str) -> Folder {
    let name = format!("harness install's {name} {}", std::process::id());
    let folder = Folder::with_demo(&name, &[]);
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for file in ["harness/install", "Cargo.toml"] {
        folder.script(file, &fs::read_to_string(top.join(file)).unwrap());
    }
    folder.script("path/cargo", &format!("#!/bin/sh\n{cargo}\n"));
    folder
}

/// With all packages installed and no way to install more.
fn install(name: &str, cargo: &str) -> Output {
    let folder = folder(name, cargo);
    folder.script("path/dpkg-query", "#!/bin/sh\necho installed\n");
    let path = format!("{}:{}", folder.0.join("path").display(), std::env::var("PATH").unwrap());
    Command::new(folder.0.join("harness/install")).env("PATH", path).output().unwrap()
}

#[test]
fn an_old_cargo_is_refused_in_a_line() {
    // As Debian 12 has it; one whose number is smaller only as a number; none that answers.
    for (name, cargo, found) in [
        ("old", "echo 'cargo 1.63.0 (fd9c4297c 2022-07-01)'", "1.63.0"),
        ("very old", "echo 'cargo 1.9.0'", "1.9.0"),
        ("broken", "exit 1", "none"),
    ] {
        let output = install(name, cargo);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(&format!("or later ({found} is installed)")), "{name}: {said}");
        assert!(said.contains("https://rustup.rs") && said.lines().count() == 1, "{name}: {said}");
    }
}

#[test]
fn the_oldest_cargo_that_is_taken_is_taken() {
    let wanted = env!("CARGO_PKG_RUST_VERSION");
    for (name, version) in [("oldest", format!("{wanted}.0")), ("newer", "1.100.0".to_owned())] {
        let output = install(name, &format!("echo 'cargo {version} (0 2026-01-01)'"));
        assert!(output.status.success() && output.stderr.is_empty(), "{name}: {output:?}");
    }
}

/// On a system with these programs instead of Debian's: status and what is said.
fn elsewhere(name: &str, programs: &[(&str, &str)], options: &[&str]) -> (Option<i32>, String) {
    let folder = folder(name, &format!("echo 'cargo {}.0'", env!("CARGO_PKG_RUST_VERSION")));
    for (program, script) in programs {
        folder.script(&format!("path/{program}"), &format!("#!/bin/sh\n{script}\n"));
    }
    let path = folder.0.join("path");
    for tool in ["bash", "sed", "awk", "sort", "head", "dirname", "readlink"] {
        let places = std::env::var("PATH").unwrap();
        let found = places.split(':').map(|place| Path::new(place).join(tool));
        let found = found.into_iter().find(|file| file.exists()).unwrap();
        std::os::unix::fs::symlink(found, path.join(tool)).unwrap();
    }
    let mut command = Command::new("bash");
    let output = command.arg(folder.0.join("harness/install")).args(options).env("PATH", &path);
    let output = output.output().unwrap();
    assert!(output.stdout.is_empty(), "{name}: {output:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn other_systems_are_told_their_own_names() {
    let fedora = [("dnf", "exit 1"), ("rpm", "[ $3 = gcc ]")];
    let (status, said) = elsewhere("fedora", &fedora, &[]);
    assert_eq!(status, Some(1));
    assert!(
        said.starts_with("missing: libibverbs librdmacm rdma-core-devel clang-devel "),
        "{said}"
    );
    assert!(said.contains("as root: dnf install libibverbs "), "{said}");
    let arch = [("pacman", "[ $2 != rdma-core ]")];
    let (status, said) = elsewhere("arch", &arch, &[]);
    assert_eq!(status, Some(1));
    assert_eq!(said, "missing: rdma-core; install with, as root: pacman -S rdma-core\n");
    let (status, said) = elsewhere("alpine", &[("apk", "exit 0")], &[]);
    assert_eq!(status, Some(1));
    assert!(said.contains("musl") && said.contains(".devcontainer/Dockerfile"), "{said}");
    let (status, said) = elsewhere("unknown", &[], &[]);
    assert_eq!(status, Some(1));
    assert!(said.starts_with("missing: gcc ") && said.contains("Debian's names"), "{said}");
}

#[test]
fn other_systems_that_have_all_of_it_can_build_and_no_more() {
    let all = [("pacman", "exit 0")];
    assert_eq!(elsewhere("all", &all, &[]), (Some(0), String::new()));
    let (status, said) = elsewhere("tests", &all, &["--tests"]);
    assert_eq!((status, &said[..]), (Some(1), "'--tests' is for what needs Debian or Ubuntu\n"));
}
