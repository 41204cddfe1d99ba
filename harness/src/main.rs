//! The command line of the runner.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use harness::Error;
use harness::compare::get_c::{self, Recipe};
use harness::compare::{self, options::CompareArgs, originals::Originals};
use harness::demo::{self, Demo};
use harness::faults::data::Data;
use harness::faults::{self, Faults, Selection};
use harness::golden::case::Device;
use harness::golden::share::{self, Share};
use harness::golden::suite::{self, Suite};
use harness::hosts::{ClientHost, Hosts};
use harness::listen::Ready;
use harness::map;
use harness::migration::Migration;
use harness::pair::Pair;
use harness::private::{self, Network};
use harness::problem;
use harness::references::{self, Pages};
use harness::seeds;
use harness::site;
use harness::soft_hca;

/// Nobody waits longer than a day, and sums of times must not overflow.
const MAX_SECONDS: u64 = 24 * 60 * 60;

/// A RoCE device, and InfiniBand devices on which a path can migrate, as [`MIGRATE_ON`] has them.
const DEVICES: [&str; 3] = ["rxe0", "rxe1:infiniband,ports=2", "rxe2:infiniband"];
/// See [`Migration`].
const MIGRATE_ON: &str = "rxe2,rxe1,198.18.2.1";

/// The exit status if the reader of standard output has closed it: a shell's for a program that
/// SIGPIPE has ended.
const UNREAD: u8 = 128 + 13;

/// Where the data of the harness is.
static SOURCE: LazyLock<&Path> = LazyLock::new(|| Path::new(env!("CARGO_MANIFEST_DIR")));

/// Runs the example programs as pairs and compares them with the C originals.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run recorded cases and compare with what the C originals printed
    Golden(CaseArgs),
    /// Run the cases that show what happens when things go wrong, and those
    /// against programs from elsewhere
    Lessons(CaseArgs),
    /// Run cases and write what they print as their recordings
    Record(RecordArgs),
    /// Run every example with each of its calls failing once, and compare with what has to happen
    Faults(FaultsArgs),
    /// Run every example strictly, with one seed after the other
    Seeds(SeedsArgs),
    /// Run every example as a pair, or one of them with its output
    Demo(DemoArgs),
    /// Run the C originals and the Rust programs side by side
    Compare(Box<CompareArgs>),
    /// Fetch the C originals and build them, for compare --c
    GetC(GetCArgs),
    /// Run any two commands as a pair, with labelled output
    Pair(PairArgs),
    /// Write the table of the examples into the pages that have it
    Map,
    /// Write the repository's pages as a book for mdBook
    Site(SiteArgs),
    /// Write what there is to read about the examples' functions, for `soft-hca show --references`
    References(ReferencesArgs),
}

#[derive(Args)]
struct GetCArgs {
    /// The folder to make
    dir: PathBuf,
    /// The address below which each repository is OWNER/NAME, such as a mirror's, or file:///srv/mirror
    #[arg(long, value_name = "URL", default_value = get_c::FROM)]
    from: String,
}

#[derive(Args)]
struct ReferencesArgs {
    /// PAGE is in the site, and its links lead to the site's pages
    #[arg(long)]
    site: bool,
    /// The timeline that will have the links
    #[arg(value_name = "PAGE")]
    page: PathBuf,
}

#[derive(Args)]
struct SiteArgs {
    /// Folder of recorded runs: for each NAME.txt, NAME.calls, NAME.html and maybe NAME.why
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Folder of the C originals, as for compare: their sources stand beside ours
    #[arg(long, value_name = "DIR")]
    c: Option<PathBuf>,
    /// DIR has the pages that mdBook has made of the book: finish them
    #[arg(long, conflicts_with_all = ["runs", "c"])]
    finish: bool,
    /// Folder for the book
    #[arg(value_name = "DIR")]
    out: PathBuf,
}

#[derive(Args)]
struct CaseArgs {
    /// Folder of the programs [default: the one this program is in]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// Folder of the clients, if not the same: runs the server of one build
    /// against the client of another
    #[arg(long, value_name = "DIR")]
    client_bin_dir: Option<PathBuf>,
    /// Folder with cases.json, normalise.json and the transcripts [default: the
    /// one of this command, in the source of the harness]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Only cases for these kinds of machine, separated by commas [default: any for
    /// golden, any,one for lessons and record]
    #[arg(long, value_delimiter = ',')]
    device: Vec<Device>,
    /// Only this example (may be repeated)
    #[arg(long, value_name = "NAME")]
    example: Vec<String>,
    /// Only this case, CASE or EXAMPLE/CASE (may be repeated)
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Name the cases instead of running them
    #[arg(long)]
    list: bool,
    /// Skip cases whose program does not exist instead of failing them
    #[arg(long)]
    skip_missing: bool,
    /// Expect what the C prints even where a difference is listed: for running the C
    /// programs themselves
    #[arg(long)]
    no_differences: bool,
    /// Multiply the recorded time limits: a slow machine needs patience, and a program
    /// that is expected to hang is not waited for that long
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    patience: u32,
    /// Write what each case printed to DIR/EXAMPLE/CASE
    #[arg(long, value_name = "DIR")]
    keep_output: Option<PathBuf>,
    /// Run in a network of its own that has only 10.9.0.1 (for cases that need no
    /// device)
    #[arg(long)]
    private_network: bool,
    /// Run on soft-hca instead of a device: in a fabric and a network of its own that
    /// are like the recorded machine. PROGRAM is its command, if not beside this one
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, require_equals = true,
        conflicts_with = "private_network")]
    soft_hca: Option<Option<PathBuf>>,
    /// With --soft-hca: run the clients on another host, and only cases with both sides. The hosts are
    /// network namespaces, each with a fabric of its own, and RoCE packets between them
    #[arg(long, requires = "soft_hca")]
    two_hosts: bool,
    /// Run so many cases at the same time, each in a fabric of its own
    #[arg(long, value_name = "N", default_value_t = 1, requires = "soft_hca",
        overrides_with = "at_once", value_parser = clap::value_parser!(u32).range(1..=16))]
    at_once: u32,
    /// Run only this share of the cases, such as 1/2: the others can run somewhere else meanwhile
    #[arg(long, value_name = "NUMBER/OF")]
    share: Option<Share>,
    /// End with the counts for who adds them up
    #[arg(long, hide = true)]
    json_counts: bool,
}

/// In which fabrics something is run.
#[derive(Args)]
struct Fabrics {
    /// soft-hca, if it is not beside this program
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, require_equals = true)]
    soft_hca: Option<Option<PathBuf>>,
    /// Run so many of them at the same time, each in a fabric of its own
    #[arg(long, value_name = "N", default_value_t = 1, overrides_with = "at_once",
        value_parser = clap::value_parser!(u32).range(1..=16))]
    at_once: u32,
    /// Run only this share of them, such as 1/2
    #[arg(long, value_name = "NUMBER/OF")]
    share: Option<Share>,
    /// End with the counts for who adds them up
    #[arg(long, hide = true)]
    json_counts: bool,
}

#[derive(Args)]
struct FaultsArgs {
    /// Folder of the programs [default: the one this program is in]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// Folder with a file for each example and reasons.json [default: the one in the source of the
    /// harness]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Only this example (may be repeated)
    #[arg(long, value_name = "NAME")]
    example: Vec<String>,
    /// Run one case of so many
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    sample: u32,
    #[command(flatten)]
    fabrics: Fabrics,
    /// Write what happens as what has to happen
    #[arg(long)]
    record: bool,
    /// Print the page of the documentation
    #[arg(long)]
    page: bool,
}

#[derive(Args)]
struct SeedsArgs {
    /// Folder of the programs [default: the one this program is in]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// Only this example (may be repeated)
    #[arg(long, value_name = "NAME")]
    example: Vec<String>,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(..=1 << 32))]
    first: u64,
    /// So many seeds
    #[arg(long, value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=10000))]
    seeds: u32,
    /// A pair has failed that has not ended after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
    time_limit: u64,
    /// Have the programs' sleeps go by the fabric's clock
    #[arg(long)]
    skip_sleeps: bool,
    #[command(flatten)]
    fabrics: Fabrics,
}

#[derive(Args)]
struct RecordArgs {
    #[command(flatten)]
    cases: CaseArgs,
    /// Folder for the recordings, as EXAMPLE/CASE/...
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Run each case so often, write what is unlike the runs before as variants, and say
    /// what cases.json has to say of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
}

#[derive(Args)]
#[command(override_usage = "harness demo [OPTIONS] [EXAMPLE [FLAGS]...]")]
struct DemoArgs {
    /// Name the examples and what each shows
    #[arg(long)]
    list: bool,
    /// Show one of the course's three problems: the run of an example that has it beside that of
    /// the one that has solved it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=3),
        conflicts_with_all = ["example", "client_by", "server_host", "client_host"])]
    problem: Option<u8>,
    /// Folder of the programs [default: the one this program is in]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// What the first line calls the fabric [default: soft-hca, or the host's RDMA devices]
    #[arg(long, value_name = "TEXT")]
    fabric_name: Option<String>,
    /// Address of the RDMA device [default: 10.9.0.1, on soft-hca 127.0.0.1]; on soft-hca `link` is
    /// that of the link, on which there are packets
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Run the clients elsewhere on this machine: PROGRAM becomes its arguments there, a command
    /// line
    #[arg(long, value_name = "PROGRAM", requires = "client_address")]
    client_by: Option<PathBuf>,
    /// Run the servers on this host, over ssh
    #[arg(long, value_name = "HOST")]
    server_host: Option<String>,
    /// Run the clients on this host, over ssh
    #[arg(long, value_name = "HOST", conflicts_with = "client_by")]
    client_host: Option<String>,
    /// The command that runs programs there, with its options, separated by blanks
    #[arg(long, value_name = "COMMAND", default_value = "ssh -o BatchMode=yes")]
    ssh: String,
    /// Folder on those hosts in which a relative --bin-dir is looked for [default: the current
    /// one]
    #[arg(long, value_name = "DIR")]
    remote_dir: Option<PathBuf>,
    /// The address of the client's RDMA device
    #[arg(long, value_name = "ADDRESS")]
    client_address: Option<String>,
    /// Index of the server's address in the table of GIDs of its device
    #[arg(long, value_name = "INDEX", default_value_t = 1)]
    gid_index: u16,
    /// Index of the client's address in the table of GIDs of its device
    #[arg(long, value_name = "INDEX", default_value_t = 1)]
    client_gid_index: u16,
    /// The hosts' devices are soft-hca's
    #[arg(long)]
    on_soft_hca: bool,
    /// The device is an InfiniBand one: no index of a GID is given
    #[arg(long)]
    by_lid: bool,
    /// Devices of server and client on which apm's path can migrate, and the server's address there
    #[arg(long, value_name = "SERVER,CLIENT,ADDRESS")]
    migrate_on: Option<Migration>,
    /// apm: pull the cable of the client's first port in the middle, and plug it in again
    #[arg(long, requires = "migrate_on")]
    pull_cable: bool,
    /// Kill what still runs after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
        value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
    time_limit: u64,
    /// The only example to run, with flags for both sides. `--server ARGS` and
    /// `--client ARGS` replace all arguments of one side
    #[arg(value_name = "EXAMPLE [FLAGS...]", trailing_var_arg = true, allow_hyphen_values = true)]
    example: Vec<OsString>,
}

#[derive(Args)]
struct PairArgs {
    /// Shell command of the side that is started first
    #[arg(long, value_name = "CMD")]
    server: String,
    /// Shell command of the side that is started once the server listens
    #[arg(long, value_name = "CMD")]
    client: String,
    /// When the server listens: rdma (connection manager), tcp, or line:REGEX
    #[arg(long, value_name = "HOW", default_value = "rdma")]
    ready: Ready,
    /// Kill what still runs after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
        value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
    time_limit: u64,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if error.is_unread() => ExitCode::from(UNREAD),
        Err(error) => {
            // Without standard error there is nobody left to tell.
            let _ = writeln!(io::stderr(), "harness: {error}");
            ExitCode::from(2)
        }
    }
}

/// True if all went as expected.
fn run(cli: Cli) -> Result<bool, Error> {
    let any = [Device::Any];
    let any_or_one = [Device::Any, Device::One];
    match cli.command {
        Command::Golden(args) => cases(args, "golden", &any, None),
        Command::Lessons(args) => cases(args, "cases", &any_or_one, None),
        Command::Record(args) => {
            cases(args.cases, "cases", &any_or_one, Some((args.into, args.runs)))
        }
        Command::Faults(args) => faults(args),
        Command::Seeds(args) => seeds(args),
        Command::Demo(args) => demo(args),
        Command::Compare(args) => compare(*args),
        Command::Pair(args) => Pair {
            server: args.server,
            client: args.client,
            ready: args.ready,
            limit: Duration::from_secs(args.time_limit),
        }
        .run(),
        Command::References(args) => references(&args),
        Command::GetC(args) => {
            let mut out = io::stdout();
            get_c::get_c(&Recipe::published(), &args.from, &args.dir, &mut out)
        }
        Command::Map => {
            let written = map::write(SOURCE.parent().unwrap_or(&SOURCE))?;
            let mut out = io::stdout();
            let mut say = |file: &PathBuf| writeln!(out, "{}", file.display());
            let said = written.iter().try_for_each(&mut say);
            said.map_err(Error::write(Path::new("standard output"))).map(|()| true)
        }
        Command::Site(args) => {
            let out = |line: String| {
                let out = writeln!(io::stdout(), "{line}");
                out.map_err(Error::write(Path::new("standard output"))).map(|()| true)
            };
            if args.finish {
                let bytes = site::finish::finish(&args.out)?;
                return out(format!("a search index of {} kB", bytes.div_ceil(1000)));
            }
            let top = SOURCE.parent().unwrap_or(&SOURCE);
            let originals = args.c.map(Originals::with_sources).transpose()?;
            let counts = site::write(top, args.runs.as_deref(), originals.as_ref(), &args.out)?;
            let site::Counts { pages, sources, runs, beside } = counts;
            out(format!(
                "{pages} pages, {sources} sources, {runs} runs, {beside} pages of C and Rust"
            ))
        }
    }
}

/// Writes what there is to read about the examples' functions.
fn references(args: &ReferencesArgs) -> Result<bool, Error> {
    let top = SOURCE.parent().unwrap_or(&SOURCE);
    let page = std::path::absolute(&args.page).map_err(Error::read(&args.page))?;
    let pages = if args.site { Pages::Site(&args.page) } else { Pages::Repository(&page) };
    let stdout = Path::new("standard output");
    let json = serde_json::to_string(&references::all(top, pages)?).map_err(Error::json(stdout))?;
    writeln!(io::stdout(), "{json}").map(|()| true).map_err(Error::write(stdout))
}

/// Runs the C originals and ours side by side.
fn compare(args: CompareArgs) -> Result<bool, Error> {
    args.check()?;
    if let Some(error) = compare::line_buffered(std::env::args_os().skip(1)) {
        return Err(error);
    }
    let is_inside = args.on_soft_hca || soft_hca::is_inside();
    let again: Vec<_> = std::env::args_os().skip(1).collect();
    let units_from_input = args.units_from_input;
    let is_several = args.at_once > 1 && !is_inside && !units_from_input;
    let at_once = is_several.then_some(args.at_once);
    if let Some(program) = args.soft_hca.as_ref().filter(|_| !is_inside && at_once.is_none()) {
        let names = SOURCE.join("private-network.nsswitch");
        let network = Network::WithInterface;
        return Err(soft_hca::enter(network, program.as_deref(), &[], &names, again));
    }
    let comparison = args.comparison(bin_dir, &SOURCE, is_inside || at_once.is_some())?;
    if units_from_input { comparison.run_units() } else { comparison.run(at_once, &again) }
}

/// Runs the cases of a folder of the harness, or records them.
fn cases(
    args: CaseArgs,
    folder: &str,
    devices: &[Device],
    into: Option<(PathBuf, u32)>,
) -> Result<bool, Error> {
    let names = SOURCE.join("private-network.nsswitch");
    let on_soft_hca = soft_hca::is_inside();
    if args.at_once > 1 && into.is_some() {
        return Err(Error::Usage(
            "recordings are made one at a time: without --at-once".to_owned(),
        ));
    }
    if args.at_once > 1 && !args.list && !on_soft_hca {
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        let mut out = io::stdout().lock();
        let counts = share::run_all(args.at_once, &arguments, &mut out)?;
        counts.write(true, &mut out)?;
        return Ok(counts.failed == 0);
    }
    if let Some(program) = args.soft_hca.filter(|_| !on_soft_hca) {
        // The same command again; inside it finds that it is in a fabric.
        let network = if args.two_hosts { Network::TwoHosts } else { Network::WithInterface };
        let again = std::env::args_os().skip(1);
        return Err(soft_hca::enter(network, program.as_deref(), &[], &names, again));
    }
    if args.private_network {
        // The same command again, inside, without asking for it once more.
        let again = std::env::args_os().skip(1).filter(|arg| arg != "--private-network");
        let own = std::env::current_exe()
            .map_err(|error| Error::Usage(format!("cannot find this program: {error}")))?;
        let program = [own.into_os_string()].into_iter().chain(again);
        return Err(private::enter(Network::Loopback, &names, program));
    }
    let suite = Suite::read(suite::Selection {
        bin_dir: bin_dir(args.bin_dir)?,
        client_bin_dir: args.client_bin_dir,
        data: args.data.unwrap_or_else(|| SOURCE.join(folder)),
        devices: if args.device.is_empty() { devices.to_vec() } else { args.device },
        examples: args.example,
        cases: args.case,
        share: args.share,
        skip_missing: args.skip_missing,
        no_differences: args.no_differences,
        on_soft_hca,
        client_host: args.two_hosts.then(|| ClientHost { by: private::ON_CLIENT.into() }),
        patience: args.patience,
        keep_output: args.keep_output,
    })?;
    let mut out = io::stdout().lock();
    if args.list {
        suite.list(&mut out).map_err(Error::write(Path::new("standard output")))?;
        return Ok(true);
    }
    match into {
        Some((folder, runs)) => suite.record(&folder, runs, &mut out).map(|()| true),
        None => {
            let counts = suite.run(&mut out)?;
            if args.json_counts {
                write_json(&counts, &mut out)?;
            } else {
                counts.write(on_soft_hca, &mut out)?;
            }
            Ok(counts.failed == 0)
        }
    }
}

/// Writes the counts for who adds them up.
fn write_json(counts: &suite::Counts, out: &mut dyn Write) -> Result<(), Error> {
    let stdout = Path::new("standard output");
    let line = serde_json::to_string(counts).map_err(Error::json(stdout))?;
    writeln!(out, "{line}").map_err(Error::write(stdout))
}

/// Runs the examples with calls that fail.
fn faults(args: FaultsArgs) -> Result<bool, Error> {
    let stdout = Path::new("standard output");
    let mut out = io::stdout().lock();
    let data = args.data.unwrap_or_else(|| SOURCE.join("faults"));
    if args.page {
        let page = faults::page::page(&Data::read(&data)?);
        return write!(out, "{page}").map(|()| true).map_err(Error::write(stdout));
    }
    if !soft_hca::is_inside() {
        return args.fabrics.enter(&[], &mut out);
    }
    let faults = Faults::new(Selection {
        demo: Demo::on_soft_hca(bin_dir(args.bin_dir)?, private::ADDRESS),
        data,
        rules: SOURCE.join("golden"),
        examples: args.example,
        sample: args.sample as usize,
        share: args.fabrics.share,
    })?;
    if args.record {
        return faults.record(&mut out).map(|()| true);
    }
    let counts = faults.run(&mut out)?;
    if args.fabrics.json_counts {
        write_json(&counts, &mut out)?;
    } else {
        counts.write_passed(&mut out)?;
    }
    Ok(counts.failed == 0)
}

impl Fabrics {
    /// Runs the same command inside a fabric with these devices, or so many shares of it at once, each in one of
    /// its own. Returns only if that fails or there are several.
    fn enter(self, devices: &[&str], out: &mut dyn Write) -> Result<bool, Error> {
        let again = std::env::args_os().skip(1);
        if self.at_once > 1 {
            let counts = share::run_all(self.at_once, &again.collect::<Vec<_>>(), out)?;
            counts.write_passed(out)?;
            return Ok(counts.failed == 0);
        }
        let (network, program) = (Network::WithInterface, self.soft_hca.flatten());
        let names = SOURCE.join("private-network.nsswitch");
        Err(soft_hca::enter(network, program.as_deref(), devices, &names, again))
    }
}

/// Runs the examples strictly.
fn seeds(args: SeedsArgs) -> Result<bool, Error> {
    let mut out = io::stdout().lock();
    if !soft_hca::is_inside() {
        return args.fabrics.enter(&DEVICES, &mut out);
    }
    let migration = MIGRATE_ON.parse().map_err(Error::Usage)?;
    let demo = Demo {
        migration: Some(migration),
        limit: Duration::from_secs(args.time_limit),
        ..Demo::on_soft_hca(bin_dir(args.bin_dir)?, private::ADDRESS)
    };
    let seeds = args.first..args.first + u64::from(args.seeds);
    let SeedsArgs { example: examples, skip_sleeps, fabrics: Fabrics { share, .. }, .. } = args;
    let selection = seeds::Selection { demo, examples, seeds, skip_sleeps, share };
    let counts = seeds::run(&selection, &mut out)?;
    if args.fabrics.json_counts {
        write_json(&counts, &mut out)?;
    } else {
        counts.write_passed(&mut out)?;
    }
    Ok(counts.failed == 0)
}

fn demo(args: DemoArgs) -> Result<bool, Error> {
    if args.list {
        let listed = demo::list(&mut io::stdout().lock());
        return listed.map(|()| true).map_err(Error::write(Path::new("standard output")));
    }
    let usual = if soft_hca::is_inside() { "127.0.0.1" } else { "10.9.0.1" };
    let address = match args.address {
        Some(word) if word == "link" => soft_hca::link_address()?.to_string(),
        address => address.unwrap_or_else(|| usual.to_owned()),
    };
    let bin_dir = bin_dir(args.bin_dir)?;
    let here = std::env::current_dir().map_err(Error::read(Path::new(".")))?;
    let demo = Demo {
        hosts: Hosts {
            server: args.server_host,
            client: args.client_host,
            ssh: args.ssh.split_whitespace().map(OsString::from).collect(),
            dir: args.remote_dir.unwrap_or(here),
            bin_dir: bin_dir.clone(),
        },
        bin_dir,
        fabric_name: args.fabric_name,
        address,
        client_host: args.client_by.map(|by| ClientHost { by }),
        client_address: args.client_address,
        gid_indices: [args.gid_index, args.client_gid_index],
        on_soft_hca: args.on_soft_hca || soft_hca::is_inside(),
        by_lid: args.by_lid,
        migration: args.migrate_on,
        pulls_cable: args.pull_cable,
        limit: Duration::from_secs(args.time_limit),
    };
    if let Some(number) = args.problem {
        return problem::show(&demo, number);
    }
    match args.example.split_first() {
        None => demo.tour(),
        Some((example, flags)) => demo.example(&example.to_string_lossy(), flags),
    }
}

/// The examples are built into the same folder as the harness.
fn bin_dir(given: Option<PathBuf>) -> Result<PathBuf, Error> {
    if let Some(dir) = given {
        return Ok(dir);
    }
    let own = std::env::current_exe().map_err(|error| {
        Error::Usage(format!("cannot find the programs, name them with --bin-dir: {error}"))
    })?;
    Ok(own.parent().unwrap_or(Path::new("/")).to_owned())
}
