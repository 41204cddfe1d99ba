//! The command line of `harness compare`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::compare::calls::Known;
use crate::compare::diff::Diff;
use crate::compare::failing::Failing;
use crate::compare::originals::Originals;
use crate::compare::ports::Ports;
use crate::compare::speed::Effort;
use crate::compare::stage::Stage;
use crate::compare::{Compare, Part};
use crate::error::Error;
use crate::examples::{EXAMPLES, Example, sound};
use crate::hosts::Hosts;

/// Options and arguments.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// Folder of your build of the C originals; without it, what to do is said
    #[arg(long, value_name = "DIR")]
    c: Option<PathBuf>,
    /// Folder of the Rust programs [default: the one this program is in]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// Name of the place where the programs run, for the first line [default: soft-hca, or this
    /// host's device]
    #[arg(long, value_name = "TEXT")]
    fabric_name: Option<String>,
    /// Address of the RDMA device of the server
    #[arg(long, value_name = "ADDRESS", default_value = "10.9.0.1")]
    address: String,
    /// Address of the client's device, which it needs for multicast on another host
    #[arg(long, value_name = "ADDRESS")]
    client_address: Option<String>,
    /// Run the servers on this host, over ssh
    #[arg(long, value_name = "HOST")]
    server_host: Option<String>,
    /// Run the clients on this host, over ssh
    #[arg(long, value_name = "HOST")]
    client_host: Option<String>,
    /// The command that runs programs there, with its options, separated by blanks
    #[arg(long, value_name = "COMMAND", default_value = "ssh -o BatchMode=yes")]
    ssh: String,
    /// Folder on those hosts in which the relative paths of --c and --bin-dir are looked for
    /// [default: the current one]
    #[arg(long, value_name = "DIR")]
    remote_dir: Option<PathBuf>,
    /// Run on soft-hca, in a fabric and a network of its own that are like the recorded
    /// machine. PROGRAM is its command, if not beside this one
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, require_equals = true,
        conflicts_with_all = ["server_host", "client_host"])]
    pub soft_hca: Option<Option<PathBuf>>,
    /// The hosts' devices are soft-hca's
    #[arg(long)]
    pub on_soft_hca: bool,
    /// Compare so much at the same time, each in a fabric of its own; what is measured is measured alone
    #[arg(long, value_name = "N", default_value_t = 1, requires = "soft_hca",
        overrides_with = "at_once", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub at_once: u32,
    /// Look at what standard input names, for a harness that has several do so
    #[arg(long, hide = true, id = "units_from_input")]
    pub units_from_input: bool,
    /// Look only at these, separated by commas [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
    /// Only this recorded command line, CASE or EXAMPLE/CASE (may be repeated)
    #[arg(long, value_name = "NAME", conflicts_with = "flags")]
    case: Vec<String>,
    /// How many runs of each for speed and cost; up to four times as many where chance decides
    /// whether a limit holds. Of those that do their work once there are more, as many as the
    /// time allows that the others take
    #[arg(long, value_name = "N", default_value_t = 15,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// How long each of those is to take; longer, if the start alone takes a good part of it
    #[arg(long, value_name = "SECONDS", default_value_t = 0.15, value_parser = seconds)]
    seconds: f64,
    /// Multiply the recorded time limits: a slow machine needs patience
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    patience: u32,
    /// Kill a pair that still runs after this many seconds and is no recorded command line
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
        value_parser = clap::value_parser!(u64).range(1..=86400))]
    time_limit: u64,
    /// Write everything that is found to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report of faithfulness to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The examples to look at [default: all]
    #[arg(value_name = "EXAMPLE")]
    example: Vec<String>,
    /// Flags for both sides of every pair: the command line to compare instead of the recorded
    /// ones, and those with which the pairings are run and measured
    #[arg(last = true, value_name = "FLAGS", allow_hyphen_values = true)]
    flags: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.001 to 3600 is needed".to_owned()),
    }
}

impl CompareArgs {
    /// Checks what can be checked before anything runs.
    pub fn check(&self) -> Result<Originals, Error> {
        let originals = Originals::in_folder(self.c.clone())?;
        if let Some(name) = self.example.iter().find(|name| Example::named(name).is_none()) {
            let names: Vec<_> = EXAMPLES.iter().map(|example| example.name).collect();
            let names = names.join(", ");
            return Err(Error::Usage(format!("no example is called {name:?}; there are {names}")));
        }
        Ok(originals)
    }

    /// The comparison that the options ask for. `bin_dir` is where our programs are if nothing is said, and
    /// `source` the folder of the harness.
    pub fn comparison(
        self,
        bin_dir: impl FnOnce(Option<PathBuf>) -> Result<PathBuf, Error>,
        source: &Path,
        on_soft_hca: bool,
    ) -> Result<Compare, Error> {
        let originals = self.check()?;
        let remote_dir = match self.remote_dir {
            Some(dir) => dir,
            None => std::env::current_dir().map_err(Error::read(Path::new(".")))?,
        };
        let mut examples: Vec<_> = match self.example.as_slice() {
            [] => sound().collect(),
            names => names.iter().filter_map(|name| Example::named(name)).collect(),
        };
        let data = source.join("golden");
        let diff = Diff::read(&data, &examples, &self.case, self.patience, on_soft_hca)?;
        if self.example.is_empty() && !self.case.is_empty() {
            examples.retain(|example| diff.cases(example).next().is_some());
        }
        let is_recorded = on_soft_hca && self.server_host.is_none() && self.client_host.is_none();
        let parts = match self.only.as_slice() {
            [] if is_recorded => Part::value_variants().to_vec(),
            [] => vec![Part::Diff, Part::Interop, Part::Speed],
            parts if !is_recorded && parts.iter().any(|part| part.needs_soft_hca()) => {
                return Err(Error::Usage(
                    "calls are recorded, and fail, on soft-hca of this host alone".to_owned(),
                ));
            }
            parts => parts.to_vec(),
        };
        let usual = if on_soft_hca { "soft-hca" } else { "this host's device" };
        let workspace = source.parent().unwrap_or(source).to_owned();
        let bin_dir = bin_dir(self.bin_dir)?;
        Ok(Compare {
            stage: Stage {
                originals,
                hosts: Hosts {
                    server: self.server_host,
                    client: self.client_host,
                    ssh: self.ssh.split_whitespace().map(OsString::from).collect(),
                    dir: remote_dir,
                    bin_dir: bin_dir.clone(),
                },
                bin_dir,
                address: self.address,
                client_address: self.client_address,
                limit: Duration::from_secs(self.time_limit),
                ports: Ports::default(),
            },
            fabric: self.fabric_name.unwrap_or_else(|| usual.to_owned()),
            examples,
            parts,
            diff,
            known_calls: Known::read(&data)?,
            failing: Failing::read(&data, &source.join("faults"))?,
            effort: Effort {
                runs: usize::from(self.runs),
                seconds: self.seconds,
                flags: self.flags,
            },
            json: self.json,
            report: self.report.map(|path| (path, workspace)),
        })
    }
}
