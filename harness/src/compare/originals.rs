//! Finds the C originals in a folder that the user has built.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::examples::{EXAMPLES, Example, Sides};
use crate::transcript::Side;

/// Instructions for somebody who has no build of the C.
pub const WHAT_TO_DO: &str = "\
compare needs a build of the C originals; this repository has none of their source.

    ./compare --get-c                     fetches them, and builds them in target/c
    ./compare --get-c --from URL          from a mirror, below which each repository is OWNER/NAME

Where it comes from
  ping-sr-0 ... ping-sr-4, blast-sr-2, ping-rdma-1 ... ping-rdma-3, blast-rdma-1,
  pubsub-rdma-1, pubsub-rdma-2, devices:
      the \"OpenFabrics suite of examples\" (2011) of the OpenFabrics Alliance's training
      course \"Programming with OpenFabrics Software\". The copy that was recorded is the
      repository raygift/OpenFabrics-suite-of-examples at 6849b0e
  rc-example (RDMA_RC_example.c), mckey, mc, srq, apm:
      the chapter \"Programming Examples\" of the \"RDMA Aware Networks Programming User
      Manual\" (Mellanox, now NVIDIA). Copies of it differ. Those that are fetched are of
      herewego8/rdma_tutorial at 6de8fa3, and apm of changchengx/irdma at bca838c
  read-write (rdma-common.c, rdma-server.c, rdma-client.c):
      02_read-write of the repository tarickb/the-geek-in-the-corner at fb2358c; many copies

What it needs (Debian, Ubuntu)
  apt-get install git gcc make libibverbs-dev librdmacm-dev

Changes that --get-c makes
  Since 2011 ibv_qp_init_attr has lost a member: the line of xrc_domain goes. htobe64 is in
      endian.h: -include endian.h. Do not define _GNU_SOURCE: it selects another strerror_r,
      and every error text becomes \"Unknown errno N\".
  read-write is compiled without -O2: its wait for the connection would never end.
  ping-sr-1: in that repository the conversions to network byte order are commented out, and
      it understands nobody but itself. ping-sr-1e of the same repository is ping-sr-1 with
      them, and is taken if it is there.
  ping-rdma-3: the same, and it ends with a remote access error as it stands: the conversions
      of the connect data, of the address and of the key are restored. It alone reports a poll
      that fails once more, with a text where options belong: the line goes.
  rc-example: its texts have 20 characters, padded with blanks, as \"SEND operation      \".
      In the copies the blanks are lost; they read and write fewer bytes, and cut the texts off.
  mckey: its line of the join ends with the GID: in a later version \"mlid\" and \"sl\" follow. Of
      other copies some have free(test.nodes) inside the loop of destroy_nodes: put it behind.
      librdmacm's program of the same name has other options and messages.
  srq: the rdma_post_send to conn_id[0] in run_server is there twice, and the second finds no
      place in the queue: one goes.
  apm: the loop over the ports leaves out the last one: <= instead of <.

Where it has to be
  DIR/ping-sr-1/client    DIR/ping-sr-1/server    (so for each example of the suite)
  DIR/devices/devices
  DIR/RDMA_RC_example     (or DIR/rc-example)
  DIR/mckey  DIR/apm  DIR/mc  DIR/srq
  DIR/read-write/rdma-server  DIR/read-write/rdma-client
  What is missing is said and skipped.

Then
  ./compare --c DIR
  ./site --c DIR            (the sources, beside the programs, and the Rust side by side)";

/// A folder with C programs.
#[derive(Clone, Debug)]
pub struct Originals {
    dir: PathBuf,
}

impl Originals {
    /// Looks whether there is anything to compare with.
    pub fn in_folder(dir: Option<PathBuf>) -> Result<Originals, Error> {
        let Some(dir) = dir else { return Err(Error::Usage(WHAT_TO_DO.to_owned())) };
        let found = Originals { dir };
        if EXAMPLES.iter().any(|example| found.missing(example).is_none()) {
            return Ok(found);
        }
        let dir = found.dir.display();
        Err(Error::Usage(format!("{dir}: no program of the C originals is there\n\n{WHAT_TO_DO}")))
    }

    /// Looks whether there is any source of the C.
    ///
    /// # Errors
    /// There is none, or a folder cannot be read.
    pub fn with_sources(dir: PathBuf) -> Result<Originals, Error> {
        let found = Originals { dir };
        for example in EXAMPLES {
            if !found.sources(example)?.is_empty() {
                return Ok(found);
            }
        }
        let dir = found.dir.display();
        Err(Error::Usage(format!("{dir}: no source of the C originals is there\n\n{WHAT_TO_DO}")))
    }

    /// The sources of an example, which are looked for beside its programs, in the order of their names: of one
    /// program `PLACE.c`, of two all sources and headers of their folder.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn sources(&self, example: &Example) -> Result<Vec<PathBuf>, Error> {
        if !example.original {
            return Ok(Vec::new());
        }
        let sides = example.program_sides().iter();
        let places = sides.flat_map(|&side| example.places(side));
        let mut files = places.map(|place| self.dir.join(place + ".c"));
        if example.sides != Sides::TwoPrograms {
            return Ok(files.find(|file| file.is_file()).into_iter().collect());
        }
        // Files in the folder of all examples may be another example's.
        let is_apart = |file: &PathBuf| file.parent() != Some(&self.dir) && file.is_file();
        let Some(program) = files.find(is_apart) else { return Ok(Vec::new()) };
        let folder = program.parent().unwrap_or(&self.dir);
        let entries = fs::read_dir(folder).map_err(Error::read(folder))?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut paths: Vec<PathBuf> =
            paths.collect::<Result<_, _>>().map_err(Error::read(folder))?;
        let is_source = |path: &PathBuf| {
            path.extension().is_some_and(|extension| extension == "c" || extension == "h")
        };
        paths.retain(is_source);
        paths.sort();
        Ok(paths)
    }

    /// The program that plays `side`, if it is there.
    pub fn program(&self, example: &Example, side: Side) -> Option<PathBuf> {
        example.places(side).map(|place| self.dir.join(place)).find(|path| is_program(path))
    }

    /// The part of an example that is missing.
    pub fn missing(&self, example: &Example) -> Option<String> {
        if !example.original {
            return Some("an exercise, which has no C original".to_owned());
        }
        let sides = example.program_sides();
        let side = sides.iter().find(|&&side| self.program(example, side).is_none())?;
        let looked_for = example.places(*side).collect::<Vec<_>>().join(" or ");
        Some(format!("no C program {looked_for} in {}", self.dir.display()))
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for_in_both_layouts() {
        let places = |name| Example::named(name).unwrap().places(Side::Server).collect::<Vec<_>>();
        assert_eq!(places("ping-sr-2"), ["ping-sr-2/server", "ping-sr-2-server"]);
        assert!(places("read-write").contains(&"read-write/rdma-server".to_owned()));
        assert_eq!(places("ping-sr-1")[..2], ["ping-sr-1e/server", "ping-sr-1/server"]);
        assert!(places("device-list").contains(&"devices/devices".to_owned()));
        let rc = places("rc-example");
        for name in ["rc-example", "RDMA_RC_example", "rc_example"] {
            assert!(rc.contains(&name.to_owned()), "{rc:?}");
        }
        assert_eq!(places("mc"), ["mc", "mc/mc"]);
    }

    #[test]
    fn sources_lie_beside_the_programs() {
        let dir = std::env::temp_dir().join(format!("originals-{}", std::process::id()));
        let sources = |name: &str| {
            let originals = Originals { dir: dir.clone() };
            let found = originals.sources(Example::named(name).unwrap()).unwrap();
            let below = |path: PathBuf| path.strip_prefix(&dir).unwrap().display().to_string();
            found.into_iter().map(below).collect::<Vec<_>>()
        };
        fs::create_dir_all(dir.join("ping-sr-1")).unwrap();
        let is_usage = |found| matches!(found, Err(Error::Usage(_)));
        assert!(is_usage(Originals::with_sources(dir.clone())));
        for file in ["server.c", "prototypes.h", "agent.c", "agent.o"] {
            fs::write(dir.join("ping-sr-1").join(file), "").unwrap();
        }
        fs::write(dir.join("mc.c"), "").unwrap();
        fs::write(dir.join("rdma-server.c"), "").unwrap();
        let of_pair = ["ping-sr-1/agent.c", "ping-sr-1/prototypes.h", "ping-sr-1/server.c"];
        assert_eq!(sources("ping-sr-1"), of_pair);
        assert_eq!(sources("mc"), ["mc.c"]);
        for none in ["read-write", "ping-sr-0", "srq", "atomic"] {
            assert_eq!(sources(none), [""; 0], "{none}");
        }
        assert!(Originals::with_sources(dir.clone()).is_ok());
        fs::remove_dir_all(&dir).unwrap();
    }
}
