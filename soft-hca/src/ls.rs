//! `soft-hca ls`: the fabrics of this user and what is in them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;

use soft_hca_core::config::{self, FabricName};
use soft_hca_core::rpc::Request;

use super::{Error, cannot, fabric, print};

/// Prints all fabrics that run, or one; with `why` what waits in them, and for what, instead of all that there
/// is.
pub fn ls(only: Option<&FabricName>, why: bool) -> Result<(), Error> {
    let mut text = String::new();
    let mut silent = Vec::new();
    let name = |dir: &Path| dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut dirs = fabrics()?;
    dirs.retain(|dir| only.is_none_or(|only| only.to_string() == name(dir)));
    let request = if why { Request::Why { is_asked: true } } else { Request::List };
    for (dir, listing) in dirs.iter().zip(listings(&dirs, &request)) {
        let listing = match listing {
            Ok(None) => continue,
            Ok(Some(listing)) if why && listing.is_empty() => {
                "nothing waits for what does not come, as far as the device knows\n".into()
            }
            Ok(Some(listing)) => listing,
            Err(Error::Silent(why)) => {
                silent.push(name(dir));
                why
            }
            Err(error) => return Err(error),
        };
        text += &format!("fabric {} dir {}\n", name(dir), dir.display());
        text.extend(listing.lines().map(|line| format!("  {line}\n")));
    }
    if text.is_empty() {
        text = match only {
            Some(only) => format!("fabric {only} does not run\n"),
            None => "no fabric runs: `soft-hca run -- CMD` starts one\n".to_string(),
        };
    }
    print(&text)?;
    if silent.is_empty() { Ok(()) } else { Err(Error::AllSilent(silent)) }
}

/// The listings of fabrics with these folders, which are asked side by side: one that does not answer holds up no other.
fn listings(dirs: &[PathBuf], request: &Request) -> Vec<Result<Option<String>, Error>> {
    thread::scope(|scope| {
        let asked: Vec<_> =
            dirs.iter().map(|dir| scope.spawn(move || listing(dir, request))).collect();
        asked.into_iter().map(|asked| asked.join().expect("it does not panic")).collect()
    })
}

/// The daemon's listing of its fabric; `None` if there is none, or it has just ended.
fn listing(dir: &Path, request: &Request) -> Result<Option<String>, Error> {
    let Some(connection) = fabric::look(dir)? else { return Ok(None) };
    let fds = match fabric::ask_or(&fabric::give_up, &connection, request) {
        Ok((_, fds)) => fds,
        Err(Error::System { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    text_of(fds).map(Some)
}

/// The text that the daemon has written to a file.
pub(super) fn text_of(fds: Vec<OwnedFd>) -> Result<String, Error> {
    let mut text = Vec::new();
    for fd in fds {
        File::from(fd).read_to_end(&mut text).map_err(cannot("read the fabric's listing"))?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The folders of fabrics, sorted.
fn fabrics() -> Result<Vec<PathBuf>, Error> {
    let mut dirs = Vec::new();
    for base in config::base_dirs()? {
        match config::check_private(&base) {
            // The folder goes with the last fabric, also between these steps.
            Err(config::Error::Io(_, error)) if error.kind() == io::ErrorKind::NotFound => continue,
            // Fabrics start in the first place. One of that name elsewhere may be another user's,
            // as in a user namespace.
            Err(_) if base != config::base_dir() => continue,
            outcome => outcome?,
        }
        let entries = match fs::read_dir(&base) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(cannot(format!("list {}", base.display())))?,
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let named = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            path.is_dir() && name.is_some_and(|name| name.parse::<FabricName>().is_ok())
        };
        dirs.extend(paths.filter(named));
    }
    dirs.sort();
    Ok(dirs)
}
