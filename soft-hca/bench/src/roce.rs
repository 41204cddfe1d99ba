//! The link to other hosts, between two network namespaces, beside raw UDP.

use crate::baseline::{self, Baselines};
use crate::busy::Busy;
use crate::error::{Error, Result};
use crate::goals::{Item, items};
use crate::hosts::Hosts;
use crate::pair::{Place, Stack};
use crate::perftest::{self, AVERAGE, RATE, TYPICAL};
use crate::stats::{Summary, summary};
use crate::udp::{self, Udp};
use crate::{load, print_circumstances, spread, yes};

/// The value that a figure is compared with, and how it is to compare.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goal {
    /// Microseconds: at most so many times raw UDP, both sides polling.
    Polled(f64),
    /// Microseconds: at most so many times raw UDP, both sides sleeping.
    Blocked(f64),
    /// MiB in a second: at least this part of raw UDP.
    Stream(f64),
}

impl Goal {
    fn is_stream(self) -> bool {
        matches!(self, Self::Stream(_))
    }

    fn column(self) -> &'static str {
        if self.is_stream() { AVERAGE } else { TYPICAL }
    }

    fn unit(self) -> &'static str {
        if self.is_stream() { "MiB/s" } else { "us" }
    }

    fn words(self) -> String {
        match self {
            Self::Polled(times) | Self::Blocked(times) => format!("<= {times} UDP"),
            Self::Stream(part) => format!(">= {part} UDP"),
        }
    }

    fn raw(self, base: &Base) -> f64 {
        match self {
            Self::Polled(_) => base.udp.polled,
            Self::Blocked(_) => base.udp.blocked,
            Self::Stream(_) => base.udp.stream,
        }
    }

    fn limit(self, base: &Base) -> f64 {
        let (Self::Polled(factor) | Self::Blocked(factor) | Self::Stream(factor)) = self;
        factor * self.raw(base)
    }

    fn is_reached(self, share: f64) -> bool {
        if self.is_stream() { share >= 1.0 } else { share <= 1.0 }
    }
}

const ITEMS: &[Item<Goal>] = items! {
    "send 8 B": "ib_send_lat" "-s" "8" "-n" "3000" => Goal::Polled(2.0);
    "RDMA write 8 B": "ib_write_lat" "-s" "8" "-n" "3000" => Goal::Polled(5.0);
    "send 8 B, blocked receiver": "ib_send_lat" "-s" "8" "-n" "3000" "-e" => Goal::Blocked(1.3);
    "send stream 64 KiB": "ib_send_bw" "-s" "65536" "-n" "4000" "-N" => Goal::Stream(0.6);
    "send stream 64 KiB, blocked": "ib_send_bw" "-s" "65536" "-n" "4000" "-N" "-e" => Goal::Stream(0.5);
    "send stream 1 MiB": "ib_send_bw" "-s" "1048576" "-n" "250" "-N" => Goal::Stream(0.6);
    "write stream 64 KiB": "ib_write_bw" "-s" "65536" "-n" "4000" "-N" => Goal::Stream(0.6);
};

/// The same number of messages over so many queue pairs.
const QUEUE_PAIRS: [(&str, &[&str]); 3] = [
    ("1", &["-s", "8", "-N", "-q", "1", "-n", "20000"]),
    ("100", &["-s", "8", "-N", "-q", "100", "-n", "200", "-t", "5"]),
    ("1000", &["-s", "8", "-N", "-q", "1000", "-n", "20", "-t", "5"]),
];

/// The baselines of a repeat's figures.
#[derive(Clone, Copy, Debug)]
struct Base {
    machine: Baselines,
    udp: Udp,
}

/// The figures of all repeats.
#[derive(Debug, Default)]
struct Figures {
    bases: Vec<Base>,
    items: Vec<Vec<(f64, Base)>>,
    /// Microseconds of the sender's and the receiver's link for 64 KiB, of streams.
    busy: Vec<[Vec<f64>; 2]>,
    /// Microseconds for a message, by the number of queue pairs.
    costs: [Vec<f64>; QUEUE_PAIRS.len()],
    /// Microseconds of a local send, with the link off and on.
    local: [Vec<f64>; 2],
}

/// Measures and prints the table.
pub fn run(place: &Place, repeats: u32) -> Result<()> {
    let hosts = Hosts::new()?;
    let on = |index: usize, has_link: bool| {
        let link = if has_link { "" } else { "-off" };
        let stack = match &place.stack {
            Stack::Kernel => Stack::Kernel,
            Stack::SoftHca(soft_hca, fabric) => {
                Stack::SoftHca(soft_hca.clone(), format!("{fabric}-{index}{link}"))
            }
        };
        // A host's programs and its daemon are where the scheduler wants them.
        let host = Some(hosts.host(index, has_link));
        Place { stack, device: place.device, cores: [None; 2], host }
    };
    let (client, server) = (on(0, true), on(1, true));
    let _kept = [client.keep()?, server.keep()?];
    let load_before = load();
    let mut figures = Figures {
        items: vec![Vec::new(); ITEMS.len()],
        busy: vec![[const { Vec::new() }; 2]; ITEMS.len()],
        ..Figures::default()
    };
    for repeat in 1..=repeats {
        eprintln!("[{repeat}/{repeats}] baselines");
        let machine = crate::apart(place.cores, baseline::measure)?;
        let mut base = Base { machine, udp: udp::measure(&hosts)? };
        figures.bases.push(base);
        let Figures { items, busy, .. } = &mut figures;
        for ((item, figures), busy) in ITEMS.iter().zip(items).zip(busy) {
            eprint!("[{repeat}/{repeats}] {}: ", item.what);
            // The load of the machine changes all the time.
            base.udp = udp::measure(&hosts)?;
            let wanted = (item.program, item.arguments, item.goal.column());
            let before = [&client, &server].map(Busy::of_link);
            let figure = figure(&client, &server, wanted)?;
            for ((place, before), busy) in [&client, &server].into_iter().zip(&before).zip(busy) {
                let spent = Busy::of_link(place).since(before);
                busy.extend(spent.zip(blocks(item)).map(|(time, blocks)| time / blocks));
            }
            eprintln!("{figure} {}, UDP {:.2}", item.goal.unit(), item.goal.raw(&base));
            figures.push((figure, base));
        }
        for ((count, arguments), costs) in QUEUE_PAIRS.iter().zip(&mut figures.costs) {
            eprint!("[{repeat}/{repeats}] queue pairs, {count}: ");
            let rate = figure(&client, &server, ("ib_write_bw", arguments, RATE))?;
            eprintln!("{:.2} us a message", 1.0 / rate);
            costs.push(1.0 / rate);
        }
        for (has_link, times) in [false, true].into_iter().zip(&mut figures.local) {
            eprint!("[{repeat}/{repeats}] local send, link on: {has_link}: ");
            let place = on(0, has_link);
            let wanted: (_, &[&str], _) = ("ib_send_lat", &["-s", "8", "-n", "20000"], TYPICAL);
            let time = figure(&place, &place, wanted)?;
            eprintln!("{time} us");
            times.push(time);
        }
    }
    print_circumstances(&client, repeats, &load_before);
    print(&figures);
    print_busy(&figures.busy);
    Ok(())
}

fn figure(
    client: &Place,
    server: &Place,
    (program, arguments, column): (&str, &[&str], &'static str),
) -> Result<f64> {
    let output = client.perftest_with(server, program, arguments)?;
    perftest::figure(&output, column)
        .ok_or_else(|| Error::NoFigure(program.to_owned(), column, output))
}

fn print(figures: &Figures) {
    print_baselines(&figures.bases);
    println!(
        "\n| what | program | median (spread) | ratio | must | share of the limit | reached |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (item, figures) in ITEMS.iter().zip(&figures.items) {
        let goal = item.goal;
        let against = |of: &dyn Fn(&Base) -> f64| {
            summary(&figures.iter().map(|(figure, base)| figure / of(base)).collect::<Vec<_>>())
        };
        let ratio = against(&|base| goal.raw(base));
        let share = against(&|base| goal.limit(base));
        let decimals = if goal.is_stream() { 0 } else { 1 };
        println!(
            "| {} | `{}` | {} {} | {:.2} UDP | {} | {} | {} |",
            item.what,
            item.program,
            spread(against(&|_| 1.0), decimals),
            goal.unit(),
            ratio.map_or(f64::NAN, |ratio| ratio.median),
            goal.words(),
            spread(share, 2),
            yes(share.is_some_and(|share| goal.is_reached(share.median))),
        );
    }
    print_queue_pairs(&figures.costs);
    let [off, on] = figures.local.each_ref().map(|times| summary(times));
    println!(
        "| local send 8 B, link on | `ib_send_lat` | {} us | off: {} us | within its spread | - | {} |",
        spread(on, 2),
        spread(off, 2),
        yes(on.zip(off).is_some_and(|(on, off)| on.median <= off.max)),
    );
}

/// How many times 64 KiB a stream has; `None` for what is none.
fn blocks(item: &Item<Goal>) -> Option<f64> {
    let of = |option: &str| {
        let at = item.arguments.iter().position(|argument| *argument == option)?;
        item.arguments.get(at + 1)?.parse::<f64>().ok()
    };
    let bytes = of("-s")? * of("-n")?;
    item.goal.is_stream().then_some(bytes / f64::from(64 << 10))
}

/// Prints the cost of 64 KiB of a stream for the links' threads, and how fast it could be if each had a core.
fn print_busy(busy: &[[Vec<f64>; 2]]) {
    println!(
        "\n| processor time of a link's thread for 64 KiB | sender | receiver | a core each |"
    );
    println!("| --- | --- | --- | --- |");
    for (item, sides) in ITEMS.iter().zip(busy).filter(|(item, _)| item.goal.is_stream()) {
        let [sender, receiver] = sides.each_ref().map(|times| summary(times));
        let slower = sender.zip(receiver).map(|(one, other)| one.median.max(other.median));
        println!(
            "| {} | {} us | {} us | {:.0} MiB/s |",
            item.what,
            spread(sender, 1),
            spread(receiver, 1),
            slower.map_or(f64::NAN, |time| 1e6 / 16.0 / time),
        );
    }
}

fn print_baselines(bases: &[Base]) {
    println!("| baseline | median (spread) |");
    println!("| --- | --- |");
    let row = |what: &str, decimals, unit: &str, of: &dyn Fn(&Base) -> f64| {
        let values: Vec<f64> = bases.iter().map(of).collect();
        println!("| {what} | {} {unit} |", spread(summary(&values), decimals));
    };
    row("F: flag in shared memory, one way", 3, "us", &|base| base.machine.flag);
    row("P: `process_vm_writev` of 8 B", 2, "us", &|base| base.machine.write);
    row("W: blocking eventfd, one way", 1, "us", &|base| base.machine.wake);
    row("UDP, one way, polling", 1, "us", &|base| base.udp.polled);
    row("UDP, one way, polling, two packets", 1, "us", &|base| base.udp.acknowledged);
    row("UDP, one way, blocking", 1, "us", &|base| base.udp.blocked);
    row("UDP, stream", 0, "MiB/s", &|base| base.udp.stream);
}

fn print_queue_pairs(costs: &[Vec<f64>; QUEUE_PAIRS.len()]) {
    for ((count, _), more) in QUEUE_PAIRS.iter().zip(costs).skip(1) {
        let ratios: Vec<f64> = more.iter().zip(&costs[0]).map(|(cost, one)| cost / one).collect();
        let ratio = summary(&ratios);
        println!(
            "| write 8 B, {count} queue pairs | `ib_write_bw` | {} us a message | {:.2} of one | \
             <= 1.5 of one | {} | {} |",
            spread(summary(more), 2),
            ratio.map_or(f64::NAN, |ratio| ratio.median),
            spread(ratio.map(|ratio| scaled(ratio, 1.0 / 1.5)), 2),
            yes(ratio.is_some_and(|ratio| ratio.median <= 1.5)),
        );
    }
}

fn scaled(summary: Summary, by: f64) -> Summary {
    let Summary { median, min, max } = summary;
    Summary { median: median * by, min: min * by, max: max * by }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_udp() {
        let machine = Baselines { flag: 0.1, write: 0.5, wake: 20.0, raw: [10_000.0; 3] };
        let udp = Udp { polled: 4.0, acknowledged: 6.0, blocked: 30.0, stream: 2000.0 };
        let base = Base { machine, udp };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(Goal::Polled(2.0).limit(&base), 8.0);
        close(Goal::Blocked(1.3).limit(&base), 39.0);
        close(Goal::Stream(0.6).limit(&base), 1200.0);
        assert!(Goal::Polled(2.0).is_reached(1.0) && !Goal::Polled(2.0).is_reached(1.01));
        assert!(Goal::Stream(0.6).is_reached(1.0) && !Goal::Stream(0.6).is_reached(0.99));
    }

    #[test]
    fn streams_have_blocks() {
        let of = |what| ITEMS.iter().find(|item| item.what == what).and_then(blocks);
        assert_eq!(of("send 8 B"), None);
        assert_eq!(
            (of("send stream 64 KiB"), of("send stream 1 MiB")),
            (Some(4000.0), Some(4000.0))
        );
    }
}
