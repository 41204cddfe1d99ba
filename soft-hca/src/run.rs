//! `soft-hca run`: becomes a program in a fabric.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use soft_hca_core::config::{self, FabricName, LinkOptions, Strict};
use soft_hca_core::device_spec::{DeviceSet, Devices};
use soft_hca_core::provider;
use soft_hca_fault::Plan;

use super::fabric::{self, Membership};
use super::{Error, change, outside, preload, sanitizer};

/// Without this file libibverbs does not look for the rxe provider unless it is told to.
const RXE_DRIVER: &str = "/etc/libibverbs.d/rxe.driver";

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The fabric.
    pub fabric: FabricName,
    /// The devices.
    pub devices: Devices,
    /// The link to other hosts, if there is to be one.
    pub link: Option<LinkOptions>,
    /// Faults in the program.
    pub faults: Option<Plan>,
    /// How it is run strictly, if it is.
    pub strict: Option<Strict>,
    /// The program and its arguments; not empty.
    pub command: Vec<OsString>,
}

/// Runs the program in place of this process. Comes back only if that fails.
pub fn run(options: &Options) -> Result<Infallible, Error> {
    let (mut command, membership) = prepare(options)?;
    outside::warn_of_program(command.get_program());
    command.env(config::LIFELINE, membership.keep_across_exec()?.to_string());
    let error = command.exec();
    Err(Error::Exec(command.get_program().into(), error))
}

/// The program with all that it needs to be in the fabric, which is there.
pub(super) fn prepare(options: &Options) -> Result<(Command, Membership), Error> {
    let library = preload::library()?;
    let faulty = options.faults.as_ref().map(|_| preload::faulty(&library)).transpose()?;
    let libraries: Vec<_> = [library].into_iter().chain(faulty).collect();
    let dir = config::fabric_dir(&options.fabric)?;
    libraries.iter().try_for_each(|library| preload::check(library, &dir))?;
    let (program, arguments) =
        options.command.split_first().expect("the command line has a program");
    let membership = fabric::join(&options.fabric, &options.devices, options.link.as_ref())?;
    fabric::warn_of_devices(&membership.dir, &options.devices);
    fabric::warn_of_link(&membership.dir, options.link.as_ref());
    if let Some(plan) = &options.faults {
        change::check(&membership.dir, &plan.devices)?;
    }
    change::plan(&membership.dir, &membership.lifeline, &options.devices.faults)?;
    let loadable = libraries.iter().map(|library| preload::loadable(library, &membership.dir));
    let loadable = loadable.collect::<Result<Vec<_>, _>>()?;
    let present = std::env::var_os("LD_PRELOAD");
    let needed = || sanitizer::needed_by(program);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LD_PRELOAD", preload::first(&loadable, present.as_deref(), needed))
        .env("SYSFS_PATH", &membership.sysfs)
        .env(config::DIR, &membership.dir)
        .env(config::DEVICE, membership.device.to_string())
        .env(config::FABRIC, options.fabric.to_string());
    if membership.found != DeviceSet::ALL {
        command.env(config::USED, membership.found.to_string());
    }
    if let Some(faults) = &options.faults {
        command.env(config::FAULT, faults.clone().seeded().to_string());
    }
    if let Some(Strict { seed, choices, skips_sleeps }) = options.strict {
        command.env(config::STRICT, seed.to_string());
        command.env(config::STRICT_CHOICES, choices.to_string());
        command.env(config::SKIP_SLEEPS, u8::from(skips_sleeps).to_string());
    }
    if std::env::var_os(provider::DRIVERS).is_none() && !Path::new(RXE_DRIVER).exists() {
        command.env(provider::DRIVERS, "rxe");
    }
    Ok((command, membership))
}
