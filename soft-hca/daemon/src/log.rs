//! The daemon's log: a line each for what goes wrong, for commands that are refused and, if wanted,
//! for events of connections. Lines of all fabrics of a user go to one file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use soft_hca_core::system;
use tracing::Level;

/// Bytes after which a file is put aside, as `NAME.old`, when a daemon begins to write.
const MAX_BYTES: u64 = 1 << 20;

/// Bytes of a line that are shown at most.
const MAX_LINE: u64 = 4096;

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
        open(&self.path)
    }
}

/// Opens a log to add lines to it. The log has to be a regular file of this user, and no link: in a
/// folder that everybody can write, another user may have put a pipe there that nobody reads.
pub fn open(path: &Path) -> io::Result<File> {
    opened(path, OpenOptions::new().create(true).append(true).mode(0o600))
}

/// The last line of a log, with control characters escaped, which a terminal would obey; `None` for
/// a log without lines.
pub fn last_line(path: &Path) -> io::Result<Option<String>> {
    let mut file = opened(path, OpenOptions::new().read(true))?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_LINE)))?;
    let mut end = Vec::new();
    file.take(MAX_LINE).read_to_end(&mut end)?;
    let end = String::from_utf8_lossy(&end);
    let plain = |sign: char| match sign.is_control() {
        true => sign.escape_default().to_string(),
        false => sign.to_string(),
    };
    Ok(end.lines().last().map(|line| line.chars().map(plain).collect()))
}

fn opened(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != system::user() {
        return Err(io::Error::other("it is no regular file of this user's"));
    }
    Ok(file)
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
    fn the_last_line_is_read_from_the_end_and_obeyed_by_no_terminal() {
        let folder = folder("log-last");
        let path = folder.join("log");
        assert_eq!(last_line(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&path, "").unwrap();
        assert_eq!(last_line(&path).unwrap(), None);
        // Only the end of a file of 1 TiB is looked at.
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"\none\ntwo \x1b[31m \x9b\xff\n").unwrap();
        assert_eq!(last_line(&path).unwrap().as_deref(), Some("two \\u{1b}[31m \u{fffd}\u{fffd}"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_no_file_holds_nobody_up() {
        let folder = folder("log-odd");
        let path = folder.join("log");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(open(&path).is_err() && last_line(&path).is_err());
        fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        assert!(open(&path).is_err() && last_line(&path).is_err());
        for endless in ["/dev/zero", "/dev/tty"] {
            assert!(open(Path::new(endless)).is_err() && last_line(Path::new(endless)).is_err());
        }
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
