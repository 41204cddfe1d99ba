//! A folder with `demo` and what it sources, for tests that put stand-ins beside them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Goes with all that is in it when it is dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    /// A folder of this name, with scripts that do nothing for `idle`, and the table that `demo` knows the examples
    /// by.
    pub fn with_demo(name: &str, idle: &[&str]) -> Self {
        let folder = Self(std::env::temp_dir().join(name));
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let scripts = ["demo", "harness/shell.sh", "harness/devices.sh", "harness/hosts.sh"];
        for file in scripts.into_iter().chain(["harness/src/examples/table.rs"]) {
            folder.script(file, &fs::read_to_string(top.join(file)).unwrap());
        }
        for file in idle {
            folder.script(file, "#!/bin/sh\n");
        }
        folder
    }

    /// Writes an executable script.
    pub fn script(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
