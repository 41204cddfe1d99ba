//! `soft-hca run`: becomes a program in a fabric.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Error, cannot, fabric};
use crate::config::{self, DeviceName, FabricName};

/// File name of the library that stands between a program and the system.
pub const PRELOAD_FILE: &str = "libsoft_hca_preload.so";

/// Without this file libibverbs does not look for the rxe provider unless it is told to.
const RXE_DRIVER: &str = "/etc/libibverbs.d/rxe.driver";

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The fabric.
    pub fabric: FabricName,
    /// The name that the program's device has.
    pub device: DeviceName,
    /// The program and its arguments; not empty.
    pub command: Vec<OsString>,
}

/// Runs the program in place of this process. Comes back only if that fails.
pub fn run(options: &Options) -> Result<Infallible, Error> {
    let preload = preload()?;
    let (program, arguments) =
        options.command.split_first().expect("the command line has a program");
    let membership = fabric::join(&options.fabric, &options.device)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LD_PRELOAD", with_preload(&preload, std::env::var_os("LD_PRELOAD").as_deref()))
        .env("SYSFS_PATH", &membership.sysfs)
        .env(config::DIR, &membership.dir)
        .env(config::DEVICE, options.device.to_string())
        .env(config::FABRIC, options.fabric.to_string());
    if std::env::var_os("RDMAV_DRIVERS").is_none() && !Path::new(RXE_DRIVER).exists() {
        command.env("RDMAV_DRIVERS", "rxe");
    }
    membership.keep_across_exec()?;
    let error = command.exec();
    Err(Error::Exec(program.clone(), error))
}

/// Where the library is: beside this command, in `../lib` or in `../lib/soft-hca`, unless the
/// environment says otherwise.
pub fn preload() -> Result<PathBuf, Error> {
    let found = match std::env::var_os(config::PRELOAD) {
        Some(path) => std::path::absolute(path).map_err(cannot("find the current folder"))?,
        None => {
            let exe = std::env::current_exe().map_err(cannot("find the command's own file"))?;
            let bin = exe.parent().unwrap_or(Path::new("/"));
            let lib = bin.parent().unwrap_or(bin).join("lib");
            let places = [bin.to_path_buf(), lib.join("soft-hca"), lib];
            let there = places.into_iter().map(|dir| dir.join(PRELOAD_FILE));
            there.into_iter().find(|file| file.is_file()).unwrap_or(bin.join(PRELOAD_FILE))
        }
    };
    if found.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        return Err(Error::BadPreload(found));
    }
    if found.is_file() { Ok(found) } else { Err(Error::NoPreload(found)) }
}

/// The value of `LD_PRELOAD` with our library in front, once.
fn with_preload(ours: &Path, present: Option<&OsStr>) -> OsString {
    let mut value = ours.as_os_str().as_bytes().to_vec();
    let others = present.unwrap_or_default().as_bytes().split(|byte| matches!(byte, b' ' | b':'));
    for other in others.filter(|other| !other.is_empty() && *other != ours.as_os_str().as_bytes()) {
        value.push(b':');
        value.extend(other);
    }
    OsString::from_vec(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_library_goes_first_and_once() {
        let ours = Path::new("/a/ours.so");
        let value = |present: Option<&str>| with_preload(ours, present.map(OsStr::new));
        assert_eq!(value(None), "/a/ours.so");
        assert_eq!(value(Some("")), "/a/ours.so");
        assert_eq!(value(Some("x.so y.so")), "/a/ours.so:x.so:y.so");
        assert_eq!(value(Some("/a/ours.so:x.so")), "/a/ours.so:x.so");
    }
}
