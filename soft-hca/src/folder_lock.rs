//! The lock of a fabric's folder.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A lock on a folder. Whoever holds it may start the fabric in it or remove it; it ends with
/// the process.
#[derive(Debug)]
pub(super) struct FolderLock {
    _folder: File,
}

impl FolderLock {
    /// Waits for the lock. `None` if the folder is gone, or went while we waited and may have
    /// been created anew.
    pub(super) fn wait(folder: &Path) -> io::Result<Option<Self>> {
        Self::take(folder, FlockOperation::LockExclusive)
    }

    /// Takes the lock if it is free at once.
    pub(super) fn try_now(folder: &Path) -> io::Result<Option<Self>> {
        Self::take(folder, FlockOperation::NonBlockingLockExclusive)
    }

    fn take(folder: &Path, how: FlockOperation) -> io::Result<Option<Self>> {
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let opened = match File::open(folder) {
            Err(error) if gone(&error) => return Ok(None),
            opened => opened?,
        };
        loop {
            match flock(&opened, how) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        let locked = opened.metadata()?;
        match fs::symlink_metadata(folder) {
            Ok(now) if (now.dev(), now.ino()) == (locked.dev(), locked.ino()) => {
                Ok(Some(Self { _folder: opened }))
            }
            Err(error) if !gone(&error) => Err(error),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("soft-hca-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn a_lock_keeps_others_out() {
        let folder = folder("lock");
        let first = FolderLock::try_now(&folder).unwrap();
        assert!(first.is_some());
        assert!(FolderLock::try_now(&folder).unwrap().is_none());
        drop(first);
        assert!(FolderLock::wait(&folder).unwrap().is_some());
        fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_went_is_not_locked() {
        let folder = folder("gone");
        let first = FolderLock::wait(&folder).unwrap().unwrap();
        let waiting = std::thread::spawn({
            let folder = folder.clone();
            move || FolderLock::wait(&folder).unwrap().is_some()
        });
        fs::remove_dir(&folder).unwrap();
        drop(first);
        assert!(!waiting.join().unwrap());
    }
}
