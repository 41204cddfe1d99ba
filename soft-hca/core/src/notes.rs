//! Notes of a program's process on its way to a device, for `soft-hca doctor -- CMD`.
//!
//! The reader makes the folder [`FOLDER`] in the fabric's; without it nothing is noted. Each process
//! has a file there, called by its process ID, with a line for each note.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use crate::device_file::DeviceFile;
use crate::errno::Errno;

/// The folder, in that of the fabric.
pub const FOLDER: &str = "notes";

/// Something that has happened in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A libibverbs is about to look for devices (`ibv_get_device_list`).
    Requested,
    /// A device file was opened.
    Opened(DeviceFile),
    /// A device file could not be opened.
    Refused(DeviceFile, Errno),
    /// Whether all polls of a completion queue pass through the preloaded library.
    Hooked(bool),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => f.write_str("asked"),
            Self::Opened(file) => write!(f, "opened {file}"),
            Self::Refused(file, error) => write!(f, "refused {file} {}", error.number()),
            Self::Hooked(true) => f.write_str("hooked"),
            Self::Hooked(false) => f.write_str("unhooked"),
        }
    }
}

impl FromStr for Note {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let file = |path: &str| DeviceFile::of_path(path.as_bytes()).ok_or(());
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["asked"] => Ok(Self::Requested),
            ["opened", path] => Ok(Self::Opened(file(path)?)),
            ["refused", path, number] => {
                let number = number.parse().map_err(|_| ())?;
                Ok(Self::Refused(file(path)?, Errno::new(number)))
            }
            ["hooked"] => Ok(Self::Hooked(true)),
            ["unhooked"] => Ok(Self::Hooked(false)),
            _ => Err(()),
        }
    }
}

/// Notes something of this process, if somebody in the fabric with this folder wants to know.
pub fn note(fabric: &Path, note: Note) {
    let file = fabric.join(FOLDER).join(std::process::id().to_string());
    if let Ok(mut file) = File::options().append(true).create(true).open(file) {
        // A note that does not get there is one less.
        let _ = file.write_all(format!("{note}\n").as_bytes());
    }
}

/// The notes of a process.
pub fn of_process(fabric: &Path, pid: u32) -> Vec<Note> {
    let file = fabric.join(FOLDER).join(pid.to_string());
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_lines() {
        let dir = std::env::temp_dir().join(format!("soft-hca-notes-{}", std::process::id()));
        let noted = [
            Note::Requested,
            Note::Opened(DeviceFile::Uverbs(1)),
            Note::Opened(DeviceFile::Cm),
            Note::Refused(DeviceFile::Uverbs(0), Errno::EIO),
            Note::Hooked(true),
            Note::Hooked(false),
        ];
        note(&dir, Note::Requested);
        assert!(!dir.exists());
        fs::create_dir_all(dir.join(FOLDER)).unwrap();
        noted.into_iter().for_each(|noted| note(&dir, noted));
        assert_eq!(of_process(&dir, std::process::id()), noted);
        assert_eq!(of_process(&dir, 1), []);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_no_note() {
        for line in ["", "asked twice", "opened /dev/null", "refused /dev/infiniband/uverbs0 x"] {
            assert_eq!(line.parse::<Note>(), Err(()), "{line}");
        }
    }
}
