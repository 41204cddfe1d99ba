//! The command line's definition. Manual pages and completions are made from it as well.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use soft_hca_core::config::{self, FabricName, LinkOptions, Strict};
use soft_hca_core::device_spec::{self, DeviceName, DeviceSpec, Devices, PortName};
use soft_hca_daemon::device::like;
use soft_hca_fault::{self, Plan};
use soft_hca_record::check::Rule;
use soft_hca_verbs::Choices;

use super::check::Format;
use super::{doctor, fabric};

/// Runs RDMA programs on any Linux machine: no network card, no kernel module, no root.
///
/// soft-hca takes the place of the kernel's RDMA stack. Programs stay as they are, and so do
/// libibverbs and librdmacm beneath them; in a fabric they find a Soft-RoCE device named rxe0,
/// whose data moves between the processes' memories. GID index 1 is this machine's IPv4 address;
/// 127.0.0.1 works as well.
#[derive(Parser)]
#[command(name = "soft-hca", version, verbatim_doc_comment, after_help = EXAMPLES)]
pub struct Line {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Subcommands,
}

/// The text of the help beneath the options.
pub const EXAMPLES: &str = "\
Examples:
  Look at the device:
    soft-hca run -- ibv_devinfo -v
  Let two programs meet, one terminal each:
    soft-hca run -- ibv_rc_pingpong -g 1
    soft-hca run -- ibv_rc_pingpong -g 1 127.0.0.1
  Work in a shell where every program is in the fabric, then see what goes on:
    soft-hca run -- bash
    soft-hca ls";

const RUN_USAGE: &str = "soft-hca run [--explain] [--strict[=SEED] [--seeds N]] [--like PROFILE] [--fabric FABRIC] [--name DEVICE] \
     [--roce[=ADDRESS|INTERFACE]...] -- CMD [ARG]...";
const RECORD_USAGE: &str = "soft-hca record [--strict[=SEED]] [--like PROFILE] [-o FILE] [--limit BYTES] [--buffers] [--fabric FABRIC] [--name DEVICE] \
     [--roce[=ADDRESS|INTERFACE]...] [-- CMD [ARG]...]";
const SHOW_USAGE: &str = "soft-hca show [--commands] [--follow | --stable | --sequence[=N] | \
     --html OUT [--title TITLE] [--references JSON] | --perfetto OUT] FILE";
const EXPLAIN_USAGE: &str = "soft-hca explain FILE
       soft-hca explain --vendor-err PROFILE NUMBER
       soft-hca explain --timers timeout=14 retry_cnt=7 [--like PROFILE]";
const CHECK_USAGE: &str = "soft-hca check [--strict[=SEED]] [--like PROFILE] [--format FORMAT] [-o FILE] [--suppress RULE[:TEXT]]... \
     [--fabric FABRIC] (--record FILE | -- CMD [ARG]...)";
const DOCTOR_USAGE: &str =
    "soft-hca doctor [[--fabric FABRIC] [--name DEVICE] [--device SPEC]... -- CMD [ARG]...]";
const LS_USAGE: &str = "soft-hca ls [--why] [--fabric FABRIC]";

/// The ways to show a record, of which there is one at a time.
const VIEW: &str = "view";

/// The subcommands.
#[derive(Subcommand)]
pub enum Subcommands {
    /// Run a program in a fabric
    ///
    /// Starts the fabric if it does not run yet, then becomes the program, whose exit status is
    /// the command's; 127 if the program is not there, 126 if it cannot be run. Programs in one
    /// fabric reach each other; fabrics, and those of other users, are apart. A fabric ends with
    /// the last program in it and leaves nothing behind.
    ///
    /// Static programs and those with setuid or capabilities ignore the preloaded library and
    /// stay outside, which is said of the program that is run.
    #[command(verbatim_doc_comment, override_usage = RUN_USAGE)]
    Run(RunArgs),
    /// Record what programs do and what becomes of it, for `soft-hca show`
    ///
    /// Runs a program in a fabric of its own, or the named one, and records until it ends; the
    /// exit status is the program's. Without a program the named fabric is recorded, which has to
    /// run, until Ctrl-C.
    #[command(verbatim_doc_comment, override_usage = RECORD_USAGE)]
    Record(RecordArgs),
    /// Show a record as text: calls as the programs made them, and what became of them
    #[command(override_usage = SHOW_USAGE)]
    Show(ShowArgs),
    /// Say what went wrong in a record, and what usually causes it
    ///
    /// For each call that was refused and each work request that has failed: which check, on
    /// which side, with the values that were compared; what waits still; and of each thread that
    /// was blocked when its process was killed, what it has waited for and why that did not come.
    ///
    /// With --vendor-err: what a number in a log means. With --timers: how long it takes until a request fails.
    #[command(verbatim_doc_comment, override_usage = EXPLAIN_USAGE)]
    Explain {
        /// The record
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present_any = ["vendor_err", "timers"])]
        file: Option<PathBuf>,
        /// The vendor_err of a completion of an adapter: its status, and what has happened
        #[arg(long, num_args = 2, value_names = ["PROFILE", "NUMBER"], conflicts_with_all = ["file", "timers"])]
        vendor_err: Option<Vec<String>>,
        /// timeout, retry_cnt, rnr_retry and the peer's min_rnr_timer of a queue pair: how long it tries, as
        /// specified, here, and by adapters that were measured
        #[arg(long, num_args = 1.., value_name = "NAME=NUMBER", conflicts_with = "file")]
        timers: Option<Vec<String>>,
        /// With --timers: this adapter only
        #[arg(long, value_name = "PROFILE", requires = "timers")]
        like: Option<String>,
    },
    /// Say what a program got away with: mistakes that fail on another adapter, or another day
    ///
    /// Runs a program in a fabric of its own, or the named one, or looks at a record. Each finding has
    /// its rule, what was seen, why it matters and what to do. The exit status is the program's; 66 if
    /// that is 0 and something was found.
    #[command(verbatim_doc_comment, override_usage = CHECK_USAGE)]
    Check(CheckArgs),
    /// Show the fabrics: their ports with counters, processes, queue pairs and connections
    ///
    /// With --why: who waits there, for what, and why that does not come.
    #[command(verbatim_doc_comment, override_usage = LS_USAGE)]
    Ls {
        /// Say why programs do not go on: queues that are not armed, events that nobody fetches,
        /// requests that wait for the peer, programs that are stopped
        #[arg(long)]
        why: bool,
        /// Only this one
        #[arg(long, value_name = "FABRIC")]
        fabric: Option<FabricName>,
    },
    /// Pull a port's cable, or plug it in again
    ///
    /// The consequences are those of an adapter's: programs get PORT_ERR and PORT_ACTIVE, queue
    /// pairs with an alternate path migrate to it, and what the others send ends with RETRY_EXC_ERR
    /// when their retries are exhausted. `soft-hca ls` shows ports.
    #[command(verbatim_doc_comment)]
    Port {
        /// The change
        action: PortAction,
        /// The port, as rxe0/1
        #[arg(value_name = "DEVICE/NUMBER")]
        port: PortName,
        /// The fabric [default: SOFT_HCA_FABRIC, else `default`]
        #[arg(long, value_name = "FABRIC")]
        fabric: Option<FabricName>,
    },
    /// Remove a device, or have it come back
    ///
    /// The consequences are those of an adapter that is taken out of its slot, or whose driver is
    /// unbound: programs get DEVICE_FATAL and DEVICE_REMOVAL, every call but those that destroy
    /// something fails with EIO, work requests do not complete any more, and what others send to it
    /// ends with RETRY_EXC_ERR. A program that opens the device after it has come back finds it as it was.
    /// `soft-hca ls` shows devices that are removed.
    #[command(verbatim_doc_comment)]
    Device {
        /// The change
        action: DeviceAction,
        /// The device, as rxe1
        #[arg(value_name = "DEVICE")]
        device: DeviceName,
        /// The fabric [default: SOFT_HCA_FABRIC, else `default`]
        #[arg(long, value_name = "FABRIC")]
        fabric: Option<FabricName>,
    },
    /// Say what works on this machine, and how to mend what does not
    ///
    /// A line each: ok, warning (some programs will not work) or problem (none will). The exit
    /// status is 1 if there is a problem.
    ///
    /// With a program: runs it in a fabric of its own, or the named one, and says of each process
    /// with a libibverbs, on standard error, whose that is, whether the device was found, and if not,
    /// why. The exit status is the program's; 67 if that is 0 and no process has found the device.
    #[command(verbatim_doc_comment, override_usage = DOCTOR_USAGE)]
    Doctor(DoctorArgs),
    /// The daemon of a fabric, which `run` starts
    #[command(name = fabric::SUBCOMMAND, hide = true)]
    Fabric {
        /// The fabric's folder
        dir: PathBuf,
    },
    /// Starts a program for `doctor`
    #[command(name = doctor::START_SUBCOMMAND, hide = true)]
    DoctorStart {
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// The other process of `doctor`
    #[command(name = doctor::PEER_SUBCOMMAND, hide = true)]
    DoctorPeer {
        /// Whose memory is to be reached
        pid: u32,
        /// Where in it
        address: u64,
    },
}

/// A change to a port's cable.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PortAction {
    /// Pull it
    Down,
    /// Plug it in
    Up,
}

/// A change to a device.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceAction {
    /// Take it out
    Remove,
    /// Put it back
    Add,
}

/// Arguments for the devices of a program.
#[derive(Args)]
pub struct DeviceArgs {
    /// A device of the fabric [default: rxe0]
    ///
    /// rxe0 is a RoCE device with one port. With `rxe0:infiniband` its link layer is InfiniBand's:
    /// ports have LIDs and a subnet manager, and no network interface; with
    /// `rxe0:infiniband,ports=2` there are two of them, so that paths can migrate. The first device
    /// has the machine's addresses, others and further ports 198.18.DEVICE.PORT, counted from
    /// 198.18.0.1, unless rxe1:address=IP says otherwise. InfiniBand ports have the default P_Key
    /// and those that pkey=0x8001 adds (more than once; 0x7fff makes them limited members of the
    /// default partition), and with lmc=N two to the power of N LIDs. rxe1:numa=N,pci=0000:3b:00.0
    /// says where it is in the machine, in sysfs. May be given more than once; the fabric's first
    /// program decides.
    #[arg(long, value_name = "SPEC", verbatim_doc_comment)]
    pub device: Vec<DeviceSpec>,
    /// Only this device, and its addresses, are to be found by the program, as if it was on a host
    /// of its own. May be given more than once
    #[arg(long = "use", value_name = "DEVICE", verbatim_doc_comment)]
    pub used: Vec<DeviceName>,
    /// The name of the device that the program finds [default: the fabric's]
    #[arg(long, value_name = "DEVICE")]
    pub name: Option<DeviceName>,
    /// Reach other hosts, by RoCE v2 over UDP port 4791 of these addresses or interfaces
    ///
    /// A list with commas; without one, the address of the default route. With `always` in it, what
    /// stays in the fabric goes by these addresses, too, and can be looked at. Anybody who can send
    /// to that port may guess keys: use it in networks that you trust.
    #[arg(
        long,
        value_name = "ADDRESS|INTERFACE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    pub roce: Option<String>,
    /// Have calls, completions, packets or devices go wrong on purpose; `--fault help` says how
    ///
    /// Calls as ibv_reg_mr:nth=2,errno=ENOMEM, rdma_accept:delay=2s, ibv_post_send:kill,nth=10;
    /// completions as completion:nth=3,status=IBV_WC_RETRY_EXC_ERR; packets of the link as drop:1%,
    /// corrupt:nth=100, reorder:2%,by=3, delay:5ms,p=10%,dir=receive, drop:nth=3,qp=17; a port's
    /// cable as port-down:device=rxe1,after=200ms,for=1s, a device as
    /// device-removed:device=rxe1,after=1s. With seed=N the same happens again. May be given more
    /// than once.
    #[arg(long, value_name = "SPEC", value_parser = Faults, verbatim_doc_comment)]
    pub fault: Vec<Plan>,
    /// Be as unkind as the specification allows, so that what relies on more than it promises fails here
    ///
    /// Buffers are read, and written, right before the completion; bytes of a message come in any
    /// order; completions and connection events come late; queues hold exactly what was asked for;
    /// some datagrams are lost. With a number the same choices are made again; without one it is said
    /// which it was.
    #[arg(
        long,
        value_name = "SEED",
        num_args = 0..=1,
        require_equals = true,
        verbatim_doc_comment
    )]
    pub strict: Option<Option<u64>>,
    /// Make these choices alone, and be as kind as possible otherwise
    ///
    /// CHOICES are names of kinds, separated by commas, or `none`: `soft-hca run --seeds` says which ones matter.
    /// Behind a name there may be a colon and the numbers of those things that it is about, such as each queue
    /// pair's requests, from 1 on: `early:3`, `early:3-7`, or `early:3-` for all from there on.
    #[arg(long, value_name = "CHOICES", verbatim_doc_comment)]
    pub only_choices: Option<Choices>,
    /// With --strict: have sleeps of the program's own end as soon as nothing else goes on
    ///
    /// sleep, usleep, nanosleep and the like go by the fabric's clock, which stands still while programs run, and skips to what is
    /// due next when all wait. For programs that sleep to wait for each other: somebody from outside, such as a terminal,
    /// is not waited for.
    #[arg(long, verbatim_doc_comment)]
    pub skip_sleeps: bool,
    /// Have the limits of an adapter, and refuse what it refuses, as far as its driver's source says
    ///
    /// Everything that is not known of it is as ever. Completions that have failed have its vendor_err, where that
    /// was measured; there is no timing and no firmware. It is the fabric's devices that have all this, so
    /// the fabric's first program decides; `like=PROFILE` in --device is for one of several.
    #[arg(
        long,
        value_name = "PROFILE",
        value_parser = PossibleValuesParser::new(like::names()),
        verbatim_doc_comment
    )]
    pub like: Option<String>,
    /// Record the link's packets in a file, as pcapng, which Wireshark reads
    ///
    /// Without --roce the link is on as with --roce=always: what programs of the fabric send each
    /// other goes over it, but for connections to 127.0.0.1.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub pcap: Option<PathBuf>,
}

/// Options that a program is run with.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The devices.
    pub devices: Devices,
    /// The link to other hosts, if there is to be one.
    pub link: Option<LinkOptions>,
    /// Faults in the program.
    pub faults: Option<Plan>,
    /// How the program is run strictly, if it is.
    pub strict: Option<Strict>,
}

impl DeviceArgs {
    /// How a program is run strictly with a seed.
    pub fn strict_with(&self, seed: u64) -> Result<Strict, config::Error> {
        let choices = config::strict_choices(self.only_choices)?;
        let skips_sleeps = self.skip_sleeps || config::skips_sleeps();
        Ok(Strict { seed, choices, skips_sleeps })
    }

    /// The options of these arguments, or of the environment.
    pub fn run_options(self) -> Result<RunOptions, config::Error> {
        let seed = config::strict_seed(self.strict)?;
        if let (Some(None), Some(seed)) = (self.strict, seed) {
            eprintln!("soft-hca: --strict={seed}");
        }
        let strict = seed.map(|seed| self.strict_with(seed)).transpose()?;
        let (packets, faults, programs) = config::faults(self.fault)?.split();
        let mut specs = config::devices(self.device)?;
        if self.like.is_some() && specs.is_empty() {
            specs.push(DeviceSpec::default());
        }
        for spec in &mut specs {
            spec.like = spec.like.take().or_else(|| self.like.clone());
            if let Some(name) = spec.like.as_ref().filter(|name| like::profile(name).is_none()) {
                let profiles = like::names().collect::<Vec<_>>().join(", ");
                let unknown = device_spec::Error::Profile { name: name.clone(), profiles };
                return Err(config::Error::Devices(unknown));
            }
        }
        let devices = Devices { name: self.name, specs, used: self.used, faults };
        let link = LinkOptions::wanted(self.roce, packets, self.pcap)?;
        Ok(RunOptions { devices, link, faults: programs, strict })
    }
}

/// The arguments of `run`.
#[derive(Args)]
pub struct RunArgs {
    /// Say on standard error what goes wrong in the fabric: each work request that fails, each call
    /// that is refused, and who waits for longer than a second
    ///
    /// In a line, once each, in the words of `soft-hca explain`. Where somebody records the fabric or
    /// explains it already, nothing is said here.
    #[arg(long)]
    pub explain: bool,
    /// Run it strictly, N times, with a seed after the other, until it fails
    ///
    /// The first seed is that of --strict=SEED, else 1. Each time it has a fabric of its own. Of the first
    /// run that fails the record is kept, as strict-SEED.shr, and it is said how to have it again; the
    /// exit status is that run's.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["explain", "fabric"],
        verbatim_doc_comment
    )]
    pub seeds: Option<u64>,
    /// With --seeds: a run that takes longer is ended, and has failed
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "60",
        value_parser = clap::value_parser!(u64).range(1..),
        requires = "seeds"
    )]
    pub timeout: u64,
    /// With --seeds: look so long for the choices by which it fails; 0: do not look
    ///
    /// The run that has failed is done again, silently: three times as it was, then with one kind of choices
    /// less each time, then with choices about fewer requests. It is said which kinds and which requests
    /// are left, and how to have that again.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "60",
        requires = "seeds",
        verbatim_doc_comment
    )]
    pub search: u64,
    /// With --seeds: so many runs at once
    ///
    /// They read nothing (standard input is empty), and what one has printed appears when it has ended, in the order of the
    /// seeds. Runs that have begun when one fails are waited for.
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        value_parser = clap::value_parser!(u16).range(1..),
        requires = "seeds",
        verbatim_doc_comment
    )]
    pub at_once: u16,
    /// The run of --at-once with this seed
    #[arg(long, value_name = "SEED", hide = true, requires = "record")]
    pub one: Option<u64>,
    /// Its record
    #[arg(long, value_name = "FILE", hide = true, requires = "one")]
    pub record: Option<PathBuf>,
    /// The fabric [default: SOFT_HCA_FABRIC, else `default`]
    #[arg(long, value_name = "FABRIC")]
    pub fabric: Option<FabricName>,
    /// Its devices.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}

/// The arguments of `record`.
#[derive(Args)]
pub struct RecordArgs {
    /// The record
    #[arg(short, long, value_name = "FILE", default_value = "run.shr", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// How much each process may write down before it is read, in bytes [default: 67108864]
    #[arg(long, value_name = "BYTES")]
    pub limit: Option<u64>,
    /// Look also whether buffers of sends are changed too early, and hold back some RDMA writes to see who watches
    /// its memory, for `soft-hca check --record`
    #[arg(long)]
    pub buffers: bool,
    /// The fabric [default: one of its own; without CMD: SOFT_HCA_FABRIC, else `default`]
    #[arg(long, value_name = "FABRIC")]
    pub fabric: Option<FabricName>,
    /// Its devices.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}

/// The arguments of `check`.
#[derive(Args)]
pub struct CheckArgs {
    /// How findings are written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: Format,
    /// Where to [default: standard error]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Leave out what is found by a rule, or only where the program, the object or the finding has TEXT
    /// in it. May be given more than once
    #[arg(long, value_name = "RULE[:TEXT]", value_parser = suppression, verbatim_doc_comment)]
    pub suppress: Vec<String>,
    /// Look at this record, and run nothing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "command")]
    pub record: Option<PathBuf>,
    /// How much each process may write down before it is read, in bytes [default: 67108864]
    #[arg(long, value_name = "BYTES")]
    pub limit: Option<u64>,
    /// The fabric [default: one of its own]
    #[arg(long, value_name = "FABRIC")]
    pub fabric: Option<FabricName>,
    /// Its devices.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// The program and its arguments
    #[arg(
        required_unless_present = "record",
        trailing_var_arg = true,
        value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}

/// The arguments of `doctor`.
#[derive(Args)]
pub struct DoctorArgs {
    /// The fabric [default: one of its own]
    #[arg(long, value_name = "FABRIC", requires = "command")]
    pub fabric: Option<FabricName>,
    /// Its devices.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}

/// A suppression names a rule.
fn suppression(text: &str) -> Result<String, String> {
    let rule = text.split_once(':').map_or(text, |(rule, _)| rule);
    let names = || Rule::ALL.iter().map(|rule| rule.name());
    if names().any(|name| name == rule) {
        return Ok(text.into());
    }
    Err(format!("there is no rule {rule}; there are {}", names().collect::<Vec<_>>().join(", ")))
}

/// The arguments of `show`.
#[derive(Args)]
pub struct ShowArgs {
    /// Go on while it is being recorded; a line for each entry, as with --commands
    #[arg(long, group = VIEW)]
    pub follow: bool,
    /// Show all entries: also each command that a library makes of a call
    #[arg(long, conflicts_with_all = ["stable", "sequence", "perfetto"])]
    pub commands: bool,
    /// Leave out what is different in every run: times, and who came first where nobody waits for
    /// another; numbers get names in the order in which they appear
    #[arg(long, group = VIEW)]
    pub stable: bool,
    /// Draw lifelines and arrows, of N entries at the beginning and at the end
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "50",
        group = VIEW
    )]
    pub sequence: Option<usize>,
    /// Write a page with a picture of the run, for any browser
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath, group = VIEW)]
    pub html: Option<PathBuf>,
    /// The page's title [default: the command that was recorded]
    #[arg(long, value_name = "TITLE", requires = "html")]
    pub title: Option<String>,
    /// References that the page shows beside calls, by function: an array of {"file", "function", "texts": [{"text",
    /// "link"}]}
    #[arg(long, value_name = "JSON", requires = "html", value_hint = ValueHint::FilePath)]
    pub references: Option<PathBuf>,
    /// Write a trace that Perfetto's viewer opens
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath, group = VIEW)]
    pub perfetto: Option<PathBuf>,
    /// The record
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// Parses faults, or explains them.
#[derive(Clone, Copy, Debug)]
struct Faults;

impl TypedValueParser for Faults {
    type Value = Plan;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Plan, clap::Error> {
        let text = value.to_string_lossy();
        if text == "help" {
            // The way to a help text of one's own.
            let help = clap::Command::new("fault").override_help(soft_hca_fault::help());
            help.try_get_matches_from(["fault", "--help"])?;
        }
        text.parse().map_err(|error| {
            let text = format!("--fault {text:?}: {error}\n");
            clap::Error::raw(ErrorKind::ValueValidation, text).with_cmd(command)
        })
    }
}

/// The command line as clap knows it. The long help ends with the environment variables.
pub fn definition() -> clap::Command {
    let mut variables = String::from("Environment:\n");
    for (name, meaning) in config::VARIABLES {
        variables += &format!("  {name:<17} {meaning}\n");
    }
    let help = format!("{EXAMPLES}\n\n{}", variables.trim_end());
    Line::command().after_long_help(help)
}
