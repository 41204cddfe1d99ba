//! Measures soft-hca against what the machine itself can do.
//!
//! In every repeat the machine's own figures are measured first ([`baseline`]), then programs of
//! the distribution's perftest under `soft-hca run` ([`pair`], [`perftest`]), and each figure is
//! compared with the baselines of the same repeat ([`goals`]). The table has medians. On a kernel
//! with Soft-RoCE, soft-hca can be compared with that instead ([`rxe`]). The link to other hosts is
//! measured between two network namespaces ([`hosts`]), beside raw UDP ([`udp`]) and with the time that
//! its threads need ([`busy`]): [`roce`].
#![deny(unsafe_code)]

mod baseline;
mod busy;
mod child;
mod error;
mod goals;
mod hosts;
mod pair;
mod perftest;
mod roce;
mod rxe;
mod stats;
mod udp;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;

use crate::baseline::Baselines;
use crate::error::{Error, Result, cannot};
use crate::goals::{Goal, ITEMS};
use crate::pair::{Place, Stack};
use crate::stats::{Summary, summary};

/// Measures soft-hca with perftest and compares it with what the machine itself can do.
///
/// Prints a table with a line for each goal. The machine should have nothing else to do: its
/// load is printed, too. Needs perftest; with strace, system calls are counted as well.
#[derive(Parser)]
#[command(name = "soft-hca-bench", version)]
struct Cli {
    /// How often everything is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// The soft-hca command; the one beside this program if not given
    #[arg(long, value_name = "PATH")]
    soft_hca: Option<PathBuf>,
    /// Compares with the kernel's Soft-RoCE device rxe0, which has to be there, as in lab/run;
    /// with nothing else
    #[arg(long)]
    against_rxe: bool,
    /// Measures the link to other hosts instead, between two network namespaces of this machine and
    /// beside raw UDP; needs root, or a system where users may have namespaces
    #[arg(long, conflicts_with = "against_rxe")]
    roce: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soft-hca-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn beside_us() -> Result<PathBuf> {
    let exe = std::env::current_exe().map_err(cannot("find this program's file"))?;
    Ok(exe.with_file_name("soft-hca"))
}

/// The average number of processes that ran in the last minute.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}

/// Start-up times in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Starts {
    plain: f64,
    first: f64,
    later: f64,
}

/// Median of starting `true` plainly, as a fabric's first program, and in a fabric that runs.
fn starts(place: &Place) -> Result<Starts> {
    const TIMES: u32 = 15;
    let median = |times: Vec<f64>| summary(&times).map_or(f64::NAN, |summary| summary.median);
    let (mut plain, mut first, mut later) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..TIMES {
        plain.push(pair::duration(Command::new("true"))?);
        first.push(pair::duration(place.fresh(number).command("true", &[]))?);
    }
    // It waits for the end of its input, which comes when we drop it or end.
    let mut keeper = place
        .command("cat", &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| Error::Start("cat".to_owned(), error))?;
    // The first of these may still wait for the keeper's daemon.
    let times = (0..=TIMES).map(|_| pair::duration(place.command("true", &[]))).skip(1);
    let outcome = times.collect::<Result<Vec<f64>>>();
    drop(keeper.stdin.take());
    keeper.wait().map_err(cannot("wait for a program"))?;
    later.extend(outcome?);
    Ok(Starts { plain: median(plain), first: median(first), later: median(later) })
}

fn spread(summary: Option<Summary>, decimals: usize) -> String {
    summary.map_or("?".to_owned(), |Summary { median, min, max }| {
        format!("{median:.decimals$} ({min:.decimals$}-{max:.decimals$})")
    })
}

fn yes(is_reached: bool) -> &'static str {
    if is_reached { "yes" } else { "**no**" }
}

fn run(cli: &Cli) -> Result<()> {
    let soft_hca = match &cli.soft_hca {
        Some(path) => path.clone(),
        None => beside_us()?,
    };
    let cores = child::cores();
    let place = Place {
        stack: Stack::SoftHca(soft_hca, format!("bench-{}", std::process::id())),
        device: "rxe_soft",
        cores: cores.map_or([None; 2], |cores| cores.map(Some)),
        host: None,
    };
    if cli.roce {
        roce::run(&place, cli.repeats)
    } else if cli.against_rxe {
        rxe::run(&place, cli.repeats)
    } else {
        against_machine(&place, cli.repeats)
    }
}

fn against_machine(place: &Place, repeats: u32) -> Result<()> {
    eprintln!("load {}; {repeats} repeats", load());
    let load_before = load();

    let mut bases: Vec<Baselines> = Vec::new();
    let mut figures = vec![Vec::new(); ITEMS.len()];
    let mut starting = Vec::new();
    for repeat in 1..=repeats {
        eprintln!("[{repeat}/{repeats}] baselines");
        bases.push(apart(place.cores, baseline::measure)?);
        for (item, figures) in ITEMS.iter().zip(&mut figures) {
            eprint!("[{repeat}/{repeats}] {}: ", item.what);
            let base = renewed(bases[bases.len() - 1], item.goal, place.cores)?;
            let figure = place.figure(item.program, item.arguments, item.goal.column())?;
            eprintln!("{figure} {}", item.goal.unit());
            figures.push((figure, base));
        }
        eprintln!("[{repeat}/{repeats}] starting programs");
        starting.push(starts(place)?);
    }
    eprintln!("counting system calls");
    let polled = place.calls("ib_send_lat", &["-s", "8"])?;
    let blocked = place.calls("ib_send_lat", &["-s", "8", "-e"])?;

    print_circumstances(place, repeats, &load_before);
    print_baselines(&bases);
    print_items(&figures);
    print_starts(&starting);
    println!();
    print_calls("polling receiver", polled.as_deref());
    print_calls("receiver that arms its queue", blocked.as_deref());
    Ok(())
}

/// How it was measured.
fn print_circumstances(place: &Place, repeats: u32, load_before: &str) {
    let placed = match place.cores {
        [Some(a), Some(b)] => format!("pinned to cores {a} and {b}"),
        _ => "not pinned".to_owned(),
    };
    println!("{repeats} repeats, {placed}, load {load_before} before and {} after\n", load());
}

/// Measures in a thread of its own, which is pinned while this one is not.
fn apart<T: Send + 'static>(
    cores: [Option<usize>; 2],
    measure: impl FnOnce([Option<usize>; 2]) -> Result<T> + Send + 'static,
) -> Result<T> {
    let measuring = std::thread::spawn(move || {
        child::pin(cores[0]);
        measure(cores)
    });
    measuring.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Baselines for one figure: throughput changes with what else the machine does, so it is
/// measured anew right before.
fn renewed(mut base: Baselines, goal: Goal, cores: [Option<usize>; 2]) -> Result<Baselines> {
    if let Goal::Stream(index) = goal {
        let size = baseline::SIZES[index];
        base.raw[index] = apart(cores, move |cores| baseline::throughput(cores[1], size))?;
    }
    Ok(base)
}

fn print_baselines(bases: &[Baselines]) {
    println!("| baseline | median (spread) |");
    println!("| --- | --- |");
    let row = |what: &str, decimals, unit: &str, of: &dyn Fn(&Baselines) -> f64| {
        let values: Vec<f64> = bases.iter().map(of).collect();
        println!("| {what} | {} {unit} |", spread(summary(&values), decimals));
    };
    row("F: flag in shared memory, one way", 3, "us", &|base| base.flag);
    row("P: `process_vm_writev` of 8 B", 2, "us", &|base| base.write);
    row("W: blocking eventfd, one way", 1, "us", &|base| base.wake);
    for (index, size) in baseline::SIZES.iter().enumerate() {
        let what = format!("raw `process_vm_writev`, {} KiB", size >> 10);
        row(&what, 0, "MiB/s", &|base| base.raw[index]);
    }
    println!();
}

fn print_items(figures: &[Vec<(f64, Baselines)>]) {
    println!("| what | program | median (spread) | ratio | must | share of the limit | reached |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (item, figures) in ITEMS.iter().zip(figures) {
        let goal = item.goal;
        // Each figure is compared with the baselines of its own repeat.
        let against = |of: &dyn Fn(&Baselines) -> f64| {
            summary(&figures.iter().map(|(figure, base)| figure / of(base)).collect::<Vec<_>>())
        };
        let ratio = against(&|base| goal.baseline(base));
        let share = against(&|base| goal.limit(base));
        let is_reached = share.is_some_and(|share| goal.is_reached(share.median));
        let decimals = if goal.unit() == "MiB/s" { 0 } else { 2 };
        println!(
            "| {} | `{}` | {} {} | {:.2} {} | {} | {} | {} |",
            item.what,
            item.program,
            spread(against(&|_| 1.0), decimals),
            goal.unit(),
            ratio.map_or(f64::NAN, |ratio| ratio.median),
            goal.baseline_name(),
            goal.words(),
            spread(share, 2),
            yes(is_reached),
        );
    }
}

fn print_starts(starting: &[Starts]) {
    type Kind = (&'static str, f64, fn(&Starts) -> f64);
    let kinds: [Kind; 2] = [
        ("start of a fabric's first program", 50.0, |starts| starts.first - starts.plain),
        ("start of a later program", 15.0, |starts| starts.later - starts.plain),
    ];
    for (what, limit, of) in kinds {
        let values: Vec<f64> = starting.iter().map(of).collect();
        let shares: Vec<f64> = values.iter().map(|value| value / limit).collect();
        let share = summary(&shares);
        println!(
            "| {what} | `true` | {} ms | + | <= {limit:.0} ms | {} | {} |",
            spread(summary(&values), 1),
            spread(share, 2),
            yes(share.is_some_and(|share| share.median <= 1.0)),
        );
    }
}

fn print_calls(what: &str, calls: Option<&[(String, f64)]>) {
    match calls {
        None => println!("System calls were not counted: there is no strace."),
        Some(calls) => {
            let list: Vec<String> =
                calls.iter().map(|(name, count)| format!("{name} {count:.3}")).collect();
            let list = if list.is_empty() { "none".to_string() } else { list.join(", ") };
            println!("System calls for each message sent, {what}: {list}.");
        }
    }
}
