//! The `soft-hca` command line.
#![deny(unsafe_code)]

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches;
use soft_hca::check::{self, Findings};
use soft_hca::line::{
    self, CheckArgs, DeviceAction, DeviceArgs, DoctorArgs, Line, PortAction, RecordArgs, RunArgs,
    RunOptions, ShowArgs, Subcommands,
};
use soft_hca::record::{self, RecordOptions};
use soft_hca::seeds::{self, Seeds};
use soft_hca::show::Lines;
use soft_hca::{Error, change, doctor, export, fabric, ls, run, show, timers, vendor_err};
use soft_hca_core::config::{self, FabricName};

fn execute(command: Subcommands) -> Result<ExitCode, Error> {
    match command {
        Subcommands::Run(RunArgs {
            explain,
            seeds,
            timeout,
            search,
            at_once,
            one,
            record,
            fabric,
            device,
            command,
        }) => {
            if let Some(count) = seeds {
                let first = device.strict_with(device.strict.flatten().unwrap_or(1))?;
                let time = Duration::from_secs(timeout);
                let search = Duration::from_secs(search);
                let seeds = Seeds { first, count, time, search, at_once: at_once.into() };
                let wanted = DeviceArgs { strict: None, ..device }.run_options()?;
                let status = match one.zip(record) {
                    Some((seed, file)) => seeds::one(seeds, seed, &file, &wanted, &command),
                    None => seeds::run(seeds, &wanted, &command),
                };
                return status.map(ExitCode::from);
            }
            let fabric = fabric.map_or_else(FabricName::of_environment, Ok)?;
            let RunOptions { devices, link, faults, strict } = device.run_options()?;
            let options = run::Options { fabric, devices, link, faults, strict, command };
            if explain || config::explains() {
                return record::explained(&options).map(ExitCode::from);
            }
            let never: Infallible = run::run(&options)?;
            match never {}
        }
        Subcommands::Record(RecordArgs {
            output: file,
            limit,
            buffers,
            fabric,
            device,
            command,
        }) => {
            let RunOptions { devices, link, faults, strict } = device.run_options()?;
            let options = RecordOptions {
                file,
                limit,
                fabric,
                devices,
                link,
                faults,
                strict,
                time: None,
                is_silent: false,
                compares_buffers: buffers,
                command,
            };
            return record::record(&options).map(ExitCode::from);
        }
        Subcommands::Show(arguments) => show(&arguments)?,
        Subcommands::Explain { file, vendor_err, timers, like } => {
            if let Some(timers) = timers {
                timers::explain(&timers, like.as_deref())?;
            } else if let Some([profile, number]) = vendor_err.as_deref() {
                vendor_err::explain(profile, number)?;
            } else {
                show::explain(&file.expect("clap wants one of the three"))?;
            }
        }
        Subcommands::Check(arguments) => return check(arguments).map(ExitCode::from),
        Subcommands::Ls { fabric, why } => ls::ls(fabric.as_ref(), why)?,
        Subcommands::Port { action, port, fabric } => {
            let fabric = fabric.map_or_else(FabricName::of_environment, Ok)?;
            change::port(&fabric, &port, action == PortAction::Up)?;
        }
        Subcommands::Device { action, device, fabric } => {
            let fabric = fabric.map_or_else(FabricName::of_environment, Ok)?;
            change::device(&fabric, &device, action == DeviceAction::Add)?;
        }
        Subcommands::Doctor(arguments) => return doctor(arguments),
        Subcommands::DoctorStart { command } => return Err(doctor::start(&command)),
        Subcommands::Fabric { dir } => fabric::serve(dir)?,
        Subcommands::DoctorPeer { pid, address } => doctor::peer(pid, address)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn doctor(arguments: DoctorArgs) -> Result<ExitCode, Error> {
    let DoctorArgs { fabric, device, command } = arguments;
    if command.is_empty() {
        return Ok(if doctor::doctor()? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let fabric = fabric.map_or_else(doctor::own_fabric, Ok)?;
    let RunOptions { devices, link, faults, strict } = device.run_options()?;
    let options = run::Options { fabric, devices, link, faults, strict, command };
    doctor::program(&options).map(ExitCode::from)
}

fn check(arguments: CheckArgs) -> Result<u8, Error> {
    let CheckArgs { format, output, suppress: suppressed, record, limit, fabric, device, command } =
        arguments;
    let findings = Findings { format, output, suppressed };
    if let Some(file) = record {
        return check::file(&file, &findings);
    }
    let fabric = fabric.map_or_else(record::own_fabric, Ok)?;
    let RunOptions { devices, link, faults, strict } = device.run_options()?;
    let options = run::Options { fabric, devices, link, faults, strict, command };
    check::run(&options, limit, &findings)
}

fn show(arguments: &ShowArgs) -> Result<(), Error> {
    let ShowArgs { follow, stable, commands, sequence, html, title, references, perfetto, file } =
        arguments;
    if let Some(out) = html {
        export::html(file, out, title.as_deref(), references.as_deref(), *commands)
    } else if let Some(out) = perfetto {
        export::perfetto(file, out)
    } else if let Some(entries) = sequence {
        show::sequence(file, *entries)
    } else {
        let lines = match (*stable, *follow, *commands) {
            (true, ..) => Lines::Stable,
            (_, false, false) => Lines::Calls,
            (_, follows, _) => Lines::Entries { follows },
        };
        show::show(file, lines)
    }
}

fn main() -> ExitCode {
    let matches = line::definition().get_matches();
    let line = Line::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    execute(line.command).unwrap_or_else(|error| {
        eprintln!("soft-hca: {error}");
        ExitCode::from(error.status())
    })
}
