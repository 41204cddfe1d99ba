//! `harness/install`, which `./demo` starts with, says in a line which Rust is missing. Where everything is
//! there it says nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod scripts;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use scripts::Folder;

/// With a `cargo` that prints this of its version, all packages installed and no way to install more.
fn install(name: &str, cargo: &str) -> Output {
    let name = format!("harness install's {name} {}", std::process::id());
    let folder = Folder::with_demo(&name, &[]);
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for file in ["harness/install", "Cargo.toml"] {
        folder.script(file, &fs::read_to_string(top.join(file)).unwrap());
    }
    folder.script("path/cargo", &format!("#!/bin/sh\n{cargo}\n"));
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
