//! The daemon's log: a line each for what goes wrong, for commands that are refused and, if wanted,
//! for events of connections. Lines of all fabrics of a user go to one file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use soft_hca_core::system;
use tracing::Level;

/// Bytes after which a file is put aside, as `NAME.old`, when a daemon begins to write.
const MAX_BYTES: u64 = 1 << 20;

/// A file that is not created before there is something to say.
#[derive(Debug)]
struct Lazy {
    path: PathBuf,
    file: Option<File>,
}

impl Lazy {
    fn open(&self) -> io::Result<File> {
        let is_full = fs::symlink_metadata(&self.path).is_ok_and(|found| found.len() > MAX_BYTES);
        if is_full {
            let mut old = self.path.clone().into_os_string();
            old.push(".old");
            fs::rename(&self.path, old)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&self.path)?;
        let found = file.metadata()?;
        // In a folder that is everybody's, somebody else may have been first.
        if found.is_file() && found.uid() != system::user() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(file)
    }
}

impl Write for Lazy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        self.file.insert(file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Begins the log of this process in a file, with lines up to a level. Whether a line can be written
/// changes nothing else.
pub fn begin(path: &Path, level: Level, fabric: &str) {
    let file = Lazy { path: path.into(), file: None };
    tracing_subscriber::fmt()
        .with_writer(Mutex::new(file))
        .with_max_level(level)
        .with_ansi(false)
        .with_target(false)
        .log_internal_errors(false)
        .init();
    let fabric = fabric.to_string();
    std::panic::set_hook(Box::new(move |panic| tracing::error!(fabric, "{panic}")));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("soft-hca-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        folder
    }

    fn lazy(path: &Path) -> Lazy {
        Lazy { path: path.into(), file: None }
    }

    #[test]
    fn a_file_comes_with_the_first_line_and_is_put_aside_when_it_is_long() {
        let folder = folder("log");
        let path = folder.join("log");
        let mut log = lazy(&path);
        assert!(!path.exists());
        log.write_all(b"one\n").unwrap();
        log.write_all(b"two\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, vec![b'.'; MAX_BYTES as usize + 1]).unwrap();
        lazy(&path).write_all(b"three\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three\n");
        assert_eq!(fs::metadata(folder.join("log.old")).unwrap().len(), MAX_BYTES + 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = folder("log-link");
        fs::write(folder.join("precious"), "").unwrap();
        symlink("precious", folder.join("log")).unwrap();
        assert!(lazy(&folder.join("log")).write_all(b"text\n").is_err());
        assert_eq!(fs::read(folder.join("precious")).unwrap(), b"");
        fs::remove_dir_all(&folder).unwrap();
    }
}
