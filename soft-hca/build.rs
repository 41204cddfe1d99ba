//! Links the programs `libsoft-hca-preload` and `libsoft-hca-faulty` as shared libraries: `cargo install`
//! installs a package's programs and nothing else.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The programs, each with the functions that it exports.
const LIBRARIES: [(&str, &str); 2] = [
    ("libsoft-hca-preload", include_str!("exports/preload.txt")),
    ("libsoft-hca-faulty", include_str!("exports/faulty.txt")),
];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=exports");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (library, functions) in LIBRARIES {
        let names: Vec<&str> = functions.lines().collect();
        let script = out.join(format!("{library}.map"));
        fs::write(&script, format!("{{ global: {}; local: *; }};\n", names.join("; ")))?;
        // The linker takes from a static library only what is asked for.
        let asked = names.iter().map(|name| format!("--undefined={name}"));
        let script = format!("--version-script={}", script.display());
        for argument in asked.chain([script]) {
            println!("cargo::rustc-link-arg-bin={library}=-Wl,{argument}");
        }
        // `cargo test --bins` runs it, and so may somebody else.
        println!("cargo::rustc-link-arg-bin={library}=-Wl,--entry=soft_hca_entry");
        println!("cargo::rustc-link-arg-bin={library}=-shared");
    }
    Ok(())
}
