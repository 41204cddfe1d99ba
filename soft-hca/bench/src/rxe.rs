//! The same programs of perftest on the kernel's Soft-RoCE and on soft-hca, alternately.
//!
//! Both devices are there at the same time; they have different names, and each program is told
//! the name of its own, which does not exist for the others.

use std::path::Path;

use crate::error::{Error, Result};
use crate::goals::{Item, items};
use crate::pair::{Place, Stack};
use crate::perftest::{self, AVERAGE, TYPICAL};
use crate::stats::summary;
use crate::{load, print_circumstances, spread, yes};

/// The kernel's device.
const DEVICE: &str = "rxe0";

/// How often a latency is measured if runs are starved ([`is_starved`]).
const TRIES: usize = 3;
/// A median of more microseconds is no property of a device, but of a scheduler.
const STARVED_US: f64 = 1000.0;

/// The kind of a program's figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Microseconds: at most 0.6 of the kernel's.
    Latency,
    /// The same with a receiver that sleeps: no goal, as most of it is the scheduler's.
    Blocked,
    /// MiB in a second: at least 5 times the kernel's.
    Stream,
}

impl Kind {
    fn column(self) -> &'static str {
        match self {
            Self::Latency | Self::Blocked => TYPICAL,
            Self::Stream => AVERAGE,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Latency | Self::Blocked => "us",
            Self::Stream => "MiB/s",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Latency => "<= 0.6 rxe",
            Self::Blocked => "-",
            Self::Stream => ">= 5 rxe",
        }
    }

    /// Whether soft-hca's figure, divided by the kernel's, reaches the goal, if there is one.
    fn is_reached(self, ratio: f64) -> Option<bool> {
        match self {
            Self::Latency => Some(ratio <= 0.6),
            Self::Blocked => None,
            Self::Stream => Some(ratio >= 5.0),
        }
    }
}

/// Few iterations: the kernel's device needs milliseconds for one when it is kept from its work.
const ITEMS: &[Item<Kind>] = items! {
    "send 8 B": "ib_send_lat" "-s" "8" "-n" "1000" => Kind::Latency;
    "send 64 B": "ib_send_lat" "-s" "64" "-n" "1000" => Kind::Latency;
    "send 4 KiB": "ib_send_lat" "-s" "4096" "-n" "1000" => Kind::Latency;
    "RDMA write 8 B": "ib_write_lat" "-s" "8" "-n" "1000" => Kind::Latency;
    "RDMA write 64 B": "ib_write_lat" "-s" "64" "-n" "1000" => Kind::Latency;
    "RDMA write 4 KiB": "ib_write_lat" "-s" "4096" "-n" "1000" => Kind::Latency;
    "RDMA read 8 B": "ib_read_lat" "-s" "8" "-n" "1000" => Kind::Latency;
    "RDMA read 64 B": "ib_read_lat" "-s" "64" "-n" "1000" => Kind::Latency;
    "RDMA read 4 KiB": "ib_read_lat" "-s" "4096" "-n" "1000" => Kind::Latency;
    "send 8 B, blocked receiver": "ib_send_lat" "-s" "8" "-n" "1000" "-e" => Kind::Blocked;
    "send stream 64 KiB": "ib_send_bw" "-s" "65536" "-n" "500" "-N" => Kind::Stream;
    "write stream 64 KiB": "ib_write_bw" "-s" "65536" "-n" "500" "-N" => Kind::Stream;
};

/// Compares the two and prints the table.
pub fn run(ours: &Place, repeats: u32) -> Result<()> {
    let has = |device: &str| Path::new("/sys/class/infiniband").join(device).exists();
    if !has(DEVICE) || has(ours.device) {
        return Err(Error::NoRxe(DEVICE, ours.device));
    }
    let theirs = Place { stack: Stack::Kernel, device: DEVICE, ..ours.clone() };
    let load_before = load();
    let mut figures = vec![Vec::new(); ITEMS.len()];
    let mut starved = [0; 2];
    for repeat in 1..=repeats {
        for (item, figures) in ITEMS.iter().zip(&mut figures) {
            eprint!("[{repeat}/{repeats}] {}: ", item.what);
            let rxe = figure(&theirs, item, &mut starved[0])?;
            let soft_hca = figure(ours, item, &mut starved[1])?;
            match rxe.zip(soft_hca) {
                Some((rxe, soft_hca)) => {
                    eprintln!("{rxe} and {soft_hca} {}", item.goal.unit());
                    figures.push([rxe, soft_hca]);
                }
                None => eprintln!("starved"),
            }
        }
    }
    print_circumstances(ours, repeats, &load_before);
    print(&figures);
    let [rxe, soft_hca] = starved;
    println!("\nRuns not used, for want of a processor: {rxe} of rxe, {soft_hca} of soft-hca.");
    Ok(())
}

/// One figure; `None` if every run was starved.
fn figure(place: &Place, item: &Item<Kind>, starved: &mut u32) -> Result<Option<f64>> {
    for _ in 0..TRIES {
        let output = place.perftest(item.program, item.arguments)?;
        if is_starved(item.goal, &output) {
            *starved += 1;
            continue;
        }
        let column = item.goal.column();
        let found = perftest::figure(&output, column);
        let missing = || Error::NoFigure(item.program.to_owned(), column, output);
        return found.ok_or_else(missing).map(Some);
    }
    Ok(None)
}

/// Whether the two programs, or one and the kernel's device, had to share a processor: then most
/// messages take as long as the scheduler's slices, which are milliseconds, be they the machine's
/// or, in a virtual one, those of its host. Where it is worst, perftest says "inf".
fn is_starved(kind: Kind, output: &str) -> bool {
    kind != Kind::Stream
        && perftest::figure(output, TYPICAL).is_none_or(|typical| typical > STARVED_US)
}

/// Each figure of soft-hca is compared with the kernel's right before it.
fn print(figures: &[Vec<[f64; 2]>]) {
    println!("| what | program | rxe | soft-hca | soft-hca / rxe | must | reached |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (item, figures) in ITEMS.iter().zip(figures) {
        let of = |value: &dyn Fn(&[f64; 2]) -> f64| {
            summary(&figures.iter().map(value).collect::<Vec<_>>())
        };
        let ratio = of(&|[rxe, soft_hca]| soft_hca / rxe);
        let decimals = if item.goal == Kind::Stream { 0 } else { 1 };
        println!(
            "| {} | `{}` | {} {unit} | {} {unit} | {} | {} | {} |",
            item.what,
            item.program,
            spread(of(&|[rxe, _]| *rxe), decimals),
            spread(of(&|[_, soft_hca]| *soft_hca), decimals),
            spread(ratio, 2),
            item.goal.words(),
            match ratio {
                None => "not measured",
                Some(ratio) => item.goal.is_reached(ratio.median).map_or("-", yes),
            },
            unit = item.goal.unit(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals() {
        assert_eq!(Kind::Latency.is_reached(0.6), Some(true));
        assert_eq!(Kind::Latency.is_reached(0.61), Some(false));
        assert_eq!(Kind::Stream.is_reached(5.0), Some(true));
        assert_eq!(Kind::Stream.is_reached(4.9), Some(false));
        assert_eq!(Kind::Blocked.is_reached(0.1), None);
    }

    #[test]
    fn starved_runs() {
        let output = |typical| format!("#bytes #iterations t_typical[usec]\n8 1000 {typical}\n");
        assert!(!is_starved(Kind::Latency, &output(17.0)));
        assert!(is_starved(Kind::Latency, &output(2001.0)));
        assert!(is_starved(Kind::Blocked, &output(f64::INFINITY)));
        assert!(!is_starved(Kind::Stream, ""));
    }
}
