//! The libraries that stand between a program and the system or, if calls are to fail, its libraries,
//! and the names by which the loader gets them: a path or, where `LD_PRELOAD` cannot have that, a link
//! in the fabric's folder.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use soft_hca_core::{config, provider};

use super::{Error, cannot, sanitizer};

/// The library's file name.
const FILE: &str = "libsoft_hca_preload.so";
/// File name of the one that has calls fail.
const FAULTY: &str = "libsoft_hca_faulty.so";

/// File names of the same where `cargo install` has put them, which installs programs only.
const INSTALLED: [&str; 2] = ["libsoft-hca-preload", "libsoft-hca-faulty"];
/// All that the library is called.
pub(super) const NAMES: [&str; 2] = [FILE, INSTALLED[0]];

/// How the names of links to libraries begin, and how they end.
const LINK: [&str; 2] = ["preload-", ".so"];

/// Where the library is, unless the environment says otherwise: beside this command, in
/// `../lib/soft-hca`, in the same below Debian's folder for the architecture, or in `../lib`; last, beside
/// this command as `cargo install` has put it there.
pub(super) fn library() -> Result<PathBuf, Error> {
    let found = match std::env::var_os(config::PRELOAD) {
        Some(path) => std::path::absolute(path).map_err(cannot("find the current folder"))?,
        None => {
            let exe = std::env::current_exe().map_err(cannot("find the command's own file"))?;
            let bin = exe.parent().unwrap_or(Path::new("/"));
            let lib = bin.parent().unwrap_or(bin).join("lib");
            let for_architecture = lib.join(provider::MULTIARCH).join("soft-hca");
            let places = [bin.to_path_buf(), lib.join("soft-hca"), for_architecture, lib];
            let there = places.into_iter().map(|dir| dir.join(FILE));
            let mut there = there.into_iter().chain([bin.join(INSTALLED[0])]);
            there.find(|file| file.is_file()).unwrap_or(bin.join(FILE))
        }
    };
    if found.is_file() { Ok(found) } else { Err(Error::NoPreload(found)) }
}

/// Where the library is that has calls fail: beside the other.
pub(super) fn faulty(library: &Path) -> Result<PathBuf, Error> {
    let [found, installed] = [FAULTY, INSTALLED[1]].map(|name| library.with_file_name(name));
    let found = if installed.is_file() && !found.is_file() { installed } else { found };
    if found.is_file() { Ok(found) } else { Err(Error::NoPreload(found)) }
}

/// Whether `LD_PRELOAD` can have a path: spaces and colons separate, a dollar sign stands for
/// something else.
fn fits(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':' | b'$'))
}

/// Whether the library can be preloaded in a fabric with this folder.
pub(super) fn check(library: &Path, dir: &Path) -> Result<(), Error> {
    if fits(library) || fits(dir) {
        return Ok(());
    }
    Err(Error::BadPreload { library: library.into(), dir: dir.into() })
}

/// The name for the loader of a library that [`check`] has passed. A link, if one is needed, is there
/// as long as the fabric is.
pub(super) fn loadable(library: &Path, dir: &Path) -> Result<PathBuf, Error> {
    if fits(library) {
        return Ok(library.into());
    }
    link(library, dir).map_err(cannot(format!("make a link in {}", dir.display())))
}

/// The link to a library, made unless it is there. Programs of a fabric may have different libraries.
fn link(library: &Path, dir: &Path) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let link = dir.join(format!("{}{number}{}", LINK[0], LINK[1]));
        match symlink(library, &link) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) if fs::read_link(&link)? != library => number += 1,
            _ => return Ok(link),
        }
    }
}

/// Whether a name in a fabric's folder is that of a link to a library.
pub(super) fn is_link(name: &str) -> bool {
    name.starts_with(LINK[0]) && name.ends_with(LINK[1])
}

/// The value of `LD_PRELOAD` with our libraries in front, once, by whatever name they were there. The [sanitizer's
/// runtime](sanitizer) is before them: one that is there already, or else the one that the program `needs`.
pub(super) fn first(
    ours: &[PathBuf],
    present: Option<&OsStr>,
    needs: impl FnOnce() -> Option<PathBuf>,
) -> OsString {
    let file = |path: &Path| fs::canonicalize(path).unwrap_or(path.into());
    let present = present.unwrap_or_default().as_bytes().split(|byte| matches!(byte, b' ' | b':'));
    let is_ours = |other: &Path| ours.iter().any(|ours| file(ours) == file(other));
    let others = present.filter(|other| !other.is_empty());
    let others = others.map(|other| PathBuf::from(OsStr::from_bytes(other)));
    let others = others.filter(|other| !is_ours(other));
    let (mut all, others): (Vec<_>, Vec<_>) =
        others.partition(|other| sanitizer::is_runtime(other));
    if all.is_empty() {
        all.extend(needs());
    }
    all.extend(ours.iter().cloned().chain(others));
    let names: Vec<&[u8]> = all.iter().map(|path| path.as_os_str().as_bytes()).collect();
    OsString::from_vec(names.join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_library_goes_first_and_once() {
        let ours = [PathBuf::from("/a/ours.so")];
        let value = |present: Option<&str>| first(&ours, present.map(OsStr::new), || None);
        assert_eq!(value(None), "/a/ours.so");
        assert_eq!(value(Some("")), "/a/ours.so");
        assert_eq!(value(Some("x.so y.so")), "/a/ours.so:x.so:y.so");
        assert_eq!(value(Some("/a/ours.so:x.so")), "/a/ours.so:x.so");
        let both = ["/a/ours.so", "/a/faulty.so"].map(PathBuf::from);
        let present = OsStr::new("/a/faulty.so x.so /a/ours.so");
        assert_eq!(first(&both, Some(present), || None), "/a/ours.so:/a/faulty.so:x.so");
    }

    #[test]
    fn a_sanitizer_goes_before_it() {
        let ours = [PathBuf::from("/a/ours.so")];
        let needs = || Some("libasan.so.8".into());
        let value = |present: &str| first(&ours, Some(OsStr::new(present)), needs);
        assert_eq!(value(""), "libasan.so.8:/a/ours.so");
        assert_eq!(value("x.so"), "libasan.so.8:/a/ours.so:x.so");
        assert_eq!(value("/b/libasan.so x.so"), "/b/libasan.so:/a/ours.so:x.so");
        assert_eq!(value("/a/ours.so:x.so:libasan.so.6"), "libasan.so.6:/a/ours.so:x.so");
    }

    #[test]
    fn a_path_that_does_not_fit_gets_a_link() {
        let dir = std::env::temp_dir().join(format!("soft-hca-preload-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        assert_eq!(loadable(Path::new("/a/b'\"c.so"), &dir).unwrap(), Path::new("/a/b'\"c.so"));
        let [space, colon, dollar] =
            ["/a b.so", "/a:b.so", "/$LIB.so"].map(|path| loadable(Path::new(path), &dir).unwrap());
        assert_eq!(fs::read_link(&space).unwrap(), Path::new("/a b.so"));
        assert_eq!(fs::read_link(&colon).unwrap(), Path::new("/a:b.so"));
        assert_eq!(fs::read_link(&dollar).unwrap(), Path::new("/$LIB.so"));
        assert_eq!(loadable(Path::new("/a b.so"), &dir).unwrap(), space);
        assert!(is_link(&space.file_name().unwrap().to_string_lossy()));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
        let other = dir.join("other.so");
        symlink(&space, &other).unwrap();
        fs::remove_file(&space).unwrap();
        fs::write(&space, "").unwrap();
        let value = first(std::slice::from_ref(&space), Some(other.as_os_str()), || None);
        assert_eq!(value, space.as_os_str());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn two_paths_that_do_not_fit_are_too_many() {
        let refused = check(Path::new("/a b.so"), Path::new("/run/c:d")).unwrap_err();
        assert!(refused.to_string().contains("set XDG_RUNTIME_DIR"), "{refused}");
    }
}
