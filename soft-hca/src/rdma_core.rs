//! Bugs of releases of rdma-core, in their rxe provider, that programs notice here.
//!
//! The releases are those whose `providers/rxe/rxe.c` has the bug; each bug was seen with Debian's 44.0
//! or 56.1, and gone with 65.0. `ibv_wr_set_sge_list`, whose sum of lengths is wrong before 64, is not
//! listed: soft-hca goes by the elements.

use std::fmt;
use std::path::Path;

/// A release, such as 56.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    /// The release that a library is of, from its file's real name: `libibverbs.so.1.14.56.1`, or
    /// `libibverbs-1a2b3c4d.so.1.14.56.1` of one that a package has brought along.
    pub(super) fn of_library(path: &Path) -> Option<Self> {
        let (name, numbers) = path.file_name()?.to_str()?.split_once(".so.")?;
        if !name.starts_with("libibverbs") {
            return None;
        }
        let numbers: Vec<u32> =
            numbers.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
        match numbers[..] {
            [_abi, _interfaces, major, minor] => Some(Self { major, minor }),
            _ => None,
        }
    }

    /// Its bugs.
    pub(super) fn bugs(self) -> impl Iterator<Item = &'static Bug> {
        BUGS.iter().filter(move |bug| bug.is_in(self))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A bug.
#[derive(Debug)]
pub(super) struct Bug {
    /// The first release with it, and the first without.
    since: u32,
    until: u32,
    /// Releases between that had it mended later: from these on they are without it.
    mended: &'static [(u32, u32)],
    /// The symptom in a program.
    pub(super) what: &'static str,
    /// The way that works.
    instead: &'static str,
}

const BUGS: [Bug; 3] = [
    Bug {
        since: 34,
        until: 55,
        mended: &[],
        what: "programs with extended polling (ibv_start_poll, ibv_next_poll) lose completions and \
               get old ones again whenever they have emptied the queue",
        instead: "ibv_poll_cq",
    },
    // Before 55 this goes under in the one above.
    Bug {
        since: 55,
        until: 59,
        mended: &[(55, 3), (56, 3), (57, 2), (58, 1)],
        what: "two threads with extended polling (ibv_start_poll, ibv_next_poll) of one completion \
               queue lose completions and get others twice",
        instead: "ibv_poll_cq or one thread",
    },
    Bug {
        since: 34,
        until: 64,
        mended: &[
            (40, 13),
            (41, 13),
            (42, 13),
            (43, 12),
            (44, 12),
            (45, 11),
            (46, 10),
            (47, 9),
            (48, 8),
            (49, 8),
            (50, 7),
            (51, 7),
            (52, 6),
            (53, 6),
            (54, 5),
            (55, 4),
            (56, 4),
            (57, 3),
            (58, 2),
            (59, 2),
            (60, 2),
            (61, 1),
            (62, 1),
            (63, 1),
        ],
        what: "what ibv_wr_set_inline_data_list is given is not sent: the message is empty",
        instead: "ibv_wr_set_inline_data or ibv_post_send",
    },
];

impl Bug {
    fn is_in(&self, version: Version) -> bool {
        let mended = self.mended_in(version.major);
        (self.since..self.until).contains(&version.major)
            && mended.is_none_or(|minor| version.minor < minor)
    }

    /// The first minor release without it.
    fn mended_in(&self, major: u32) -> Option<u32> {
        self.mended.iter().find(|(with, _)| *with == major).map(|(_, minor)| *minor)
    }

    /// The advice for it.
    pub(super) fn fix(&self, version: Version) -> String {
        let Self { until, instead, .. } = self;
        let major = version.major;
        match self.mended_in(major) {
            Some(minor) => {
                format!("use {instead}, or rdma-core from {major}.{minor} or {until} on")
            }
            None => format!("use {instead}, or rdma-core from {until} on"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::of_library(format!("/usr/lib/libibverbs.so.1.14.{text}").as_ref()).unwrap()
    }

    #[test]
    fn a_librarys_name_has_the_release() {
        assert_eq!(version("44.0"), Version { major: 44, minor: 0 });
        assert_eq!(version("56.1").to_string(), "56.1");
        let brought = Version::of_library("/libs/libibverbs-1a2b.so.1.14.48.0".as_ref());
        assert_eq!(brought, Some(Version { major: 48, minor: 0 }));
        for name in ["libibverbs.so.1", "libibverbs.so.1.14.x.0", "librdmacm.so.1.3.44.0", "/"] {
            assert_eq!(Version::of_library(name.as_ref()), None, "{name}");
        }
    }

    #[test]
    fn each_release_has_its_bugs() {
        const EXPECTED: [(&str, &[usize]); 14] = [
            ("33.3", &[]),
            ("34.0", &[0, 2]),
            ("44.0", &[0, 2]),
            ("44.12", &[0]),
            ("54.0", &[0, 2]),
            ("54.5", &[0]),
            ("55.0", &[1, 2]),
            ("56.1", &[1, 2]),
            ("56.3", &[2]),
            ("56.4", &[]),
            ("59.0", &[2]),
            ("63.1", &[]),
            ("64.0", &[]),
            ("65.0", &[]),
        ];
        for (text, expected) in EXPECTED {
            let found = (0..BUGS.len()).filter(|&index| BUGS[index].is_in(version(text)));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{text}");
            assert_eq!(version(text).bugs().count(), expected.len());
        }
    }

    #[test]
    fn the_nearest_release_without_it_is_named() {
        assert_eq!(BUGS[0].fix(version("44.0")), "use ibv_poll_cq, or rdma-core from 55 on");
        assert!(BUGS[1].fix(version("56.1")).ends_with(", or rdma-core from 56.3 or 59 on"));
        assert!(BUGS[2].fix(version("39.0")).ends_with(", or rdma-core from 64 on"));
    }
}
