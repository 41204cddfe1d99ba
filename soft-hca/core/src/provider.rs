//! rxe's provider, the half of the driver that libibverbs loads: the system's, and those of other releases.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{self, Path, PathBuf};

/// The variable that names providers which libibverbs loads before those of its own folder: a name, or a path
/// without the end that the library adds (rdma-core, `libibverbs/dynamic_driver.c`).
pub const DRIVERS: &str = "RDMAV_DRIVERS";

/// Debian's folder for the libraries of this architecture, below `lib`.
pub const MULTIARCH: &str = if cfg!(target_arch = "x86_64") {
    "x86_64-linux-gnu"
} else if cfg!(target_arch = "aarch64") {
    "aarch64-linux-gnu"
} else {
    "."
};

/// How the name of the system's libibverbs is written in what needs it, providers among them.
pub const VERBS: &str = "libibverbs.so.1";

/// The private ABIs that releases of rdma-core have had (`IBVERBS_PABI_VERSION` in its `CMakeLists.txt`).
const RELEASES: [(u32, &str); 7] = [
    (25, "25 to 32"),
    (33, "33"),
    (34, "34 to 56"),
    (57, "57 and 58"),
    (59, "59 to 63"),
    (64, "64"),
    (65, "65"),
];

/// The releases of rdma-core with a private ABI; `None` if they are not known.
pub fn releases(abi: u32) -> Option<&'static str> {
    RELEASES.iter().find(|(known, _)| *known == abi).map(|(_, releases)| *releases)
}

/// The file name of the provider with a private ABI.
pub fn file_name(abi: u32) -> String {
    format!("librxe-rdmav{abi}.so")
}

/// The providers that belong to the libibverbs of a folder of libraries, by their private ABIs.
pub fn below(folder: &Path) -> Vec<(u32, PathBuf)> {
    let files = fs::read_dir(folder.join("libibverbs")).into_iter().flatten().flatten();
    let abi = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("librxe-rdmav")?.strip_suffix(".so")?.parse().ok()
    };
    files.map(|file| file.path()).filter_map(|path| Some((abi(&path)?, path))).collect()
}

/// The folders in a value of `SOFT_HCA_PROVIDERS`.
pub fn folders(value: &OsStr) -> impl Iterator<Item = PathBuf> {
    env::split_paths(value).filter_map(|folder| path::absolute(folder).ok())
}

/// The system's folder of libraries, if it has a provider.
pub fn system_folder() -> Option<PathBuf> {
    let of_architecture = Path::new("/usr/lib").join(MULTIARCH);
    let folders = [of_architecture, "/usr/lib64".into(), "/usr/lib".into()];
    folders.into_iter().find(|folder| !below(folder).is_empty())
}

/// The provider below a folder of libraries as [`DRIVERS`] names it: without `-rdmavNN.so`.
pub fn named_in(folder: &Path) -> PathBuf {
    folder.join("libibverbs/librxe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_by_their_names() {
        let folder = std::env::temp_dir().join(format!("soft-hca-below-{}", std::process::id()));
        fs::create_dir_all(folder.join("libibverbs")).unwrap();
        for name in ["librxe-rdmav34.so", "librxe-rdmavx.so", "libmlx5-rdmav34.so"] {
            fs::write(folder.join("libibverbs").join(name), "").unwrap();
        }
        let found = below(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [(34, folder.join("libibverbs").join(file_name(34)))]);
        assert_eq!(below(&folder), []);
    }

    #[test]
    fn folders_of_a_value() {
        assert_eq!(folders(OsStr::new("")).next(), None);
        assert!(folders(OsStr::new("/a:/b c")).eq(["/a", "/b c"].map(PathBuf::from)));
    }

    #[test]
    fn releases_of_a_private_abi() {
        assert_eq!(releases(34), Some("34 to 56"));
        assert_eq!(releases(58), None);
    }
}
