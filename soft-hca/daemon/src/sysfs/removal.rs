//! A device that is removed leaves its tree as a whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Device, trees};

/// Where in a tree the folders and links of devices are that are removed.
const REMOVED: &str = "removed";

/// The classes in which a device is found; libibverbs looks into the first one.
const CLASSES: [&str; 2] = ["infiniband_verbs", "infiniband"];

/// Takes a device out of every tree of the fabric in which a program finds it, or puts it back,
/// under whatever name it has there.
pub(crate) fn device_changed(dir: &Path, device: &Device, is_there: bool) -> io::Result<()> {
    trees(dir).try_for_each(|tree| changed(&tree, device, is_there))
}

fn changed(tree: &Path, device: &Device, is_there: bool) -> io::Result<()> {
    let uverbs = format!("uverbs{}", device.index);
    let aside = tree.join(REMOVED).join(&uverbs);
    let found = tree.join("class").join(CLASSES[0]).join(&uverbs);
    let ibdev = match is_there {
        true if aside.exists() => aside.join(CLASSES[0]),
        false if found.exists() => found,
        // This program does not find the device, or all is so already.
        _ => return Ok(()),
    };
    let name = fs::read_to_string(ibdev.join("ibdev"))?;
    let names = [uverbs.as_str(), name.trim_end()];
    fs::create_dir_all(&aside)?;
    let way = |(class, name): (&str, &str)| {
        let link = tree.join("class").join(class).join(name);
        Way { kept: aside.join(class), kept_link: aside.join(format!("{class}-link")), link }
    };
    let mut ways = CLASSES.into_iter().zip(names).map(way);
    if is_there {
        // The reverse order of the search.
        ways.rev().try_for_each(|way| way.back())?;
        fs::remove_dir(&aside)
    } else {
        ways.try_for_each(|way| way.aside())
    }
}

/// A device's folder and the link to it in one of its classes.
struct Way {
    link: PathBuf,
    kept: PathBuf,
    kept_link: PathBuf,
}

impl Way {
    /// Where the folder is that the link leads to; the link is here or there.
    fn folder(&self, link: &Path) -> io::Result<PathBuf> {
        let target = fs::read_link(link)?;
        Ok(self.link.parent().unwrap_or(Path::new("/")).join(target))
    }

    fn aside(&self) -> io::Result<()> {
        let folder = self.folder(&self.link)?;
        fs::rename(&self.link, &self.kept_link)?;
        fs::rename(folder, &self.kept)
    }

    /// The folder has another time stamp than before, so that libibverbs finds another device.
    fn back(&self) -> io::Result<()> {
        let folder = self.folder(&self.kept_link)?;
        fs::rename(&self.kept, &folder)?;
        fs::File::open(&folder)?.set_modified(SystemTime::now())?;
        fs::rename(&self.kept_link, &self.link)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{tree, write};
    use super::*;

    #[test]
    fn a_device_leaves_the_tree_and_comes_back() {
        let dir = std::env::temp_dir().join(format!("soft-hca-removed-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let pci = "0000:3b:00.0".parse().ok();
        let device = |name: &str, index, pci| Device { index, pci, ..Device::local(name, 7, &[]) };
        write(&dir, "tree", &[device("rxe7", 0, None), device("rxe8", 1, pci)]).unwrap();
        let found = || {
            let devices = soft_hca_core::sysfs::devices(&tree(&dir, "tree"));
            devices.into_iter().map(|device| device.name).collect::<Vec<_>>()
        };
        for (index, name, other) in [(0, "rxe7", "rxe8"), (1, "rxe8", "rxe7")] {
            let link = tree(&dir, "tree").join("class/infiniband").join(name);
            let written = fs::metadata(&link).unwrap().modified().unwrap();
            // Whatever it is called elsewhere.
            for is_there in [false, false, true, true] {
                device_changed(&dir, &device("rxe0", index, None), is_there).unwrap();
                let is_as_meant = if is_there { found().len() == 2 } else { found() == [other] };
                assert!(is_as_meant && link.exists() == is_there, "{:?}", found());
            }
            assert!(fs::metadata(&link).unwrap().modified().unwrap() > written);
            assert!(link.join("ports/1/state").exists() && link.join("subsystem").exists());
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
