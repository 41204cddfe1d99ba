//! A folder with one fabric in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::Program;
use crate::{LIMIT, comes_about, other_programs, processes};

/// The command's file name.
const COMMAND: &str = "soft-hca";
const PRELOAD_FILE: &str = "libsoft_hca_preload.so";

/// The program that is built by this name, as the test's own program is.
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let file = test.ancestors().nth(2).unwrap().join(name);
    assert!(file.is_file(), "{} is missing: build the workspace first", file.display());
    file
}

/// A command that takes the words of another one. A signal that the tests' own process ignores, as SIGINT in the
/// background of a shell and SIGHUP under `nohup`, would be ignored by that as well.
pub(crate) fn with_default_signals() -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal");
    command
}

/// A folder with one fabric, which nothing else is in, and the programs' output.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    soft_hca: PathBuf,
    /// No fabric of the user's has this name: listings show those elsewhere as well.
    fabric: String,
    /// Words before the command, that have it run elsewhere.
    by: Vec<String>,
    /// Options of `soft-hca run`.
    options: Vec<String>,
    count: AtomicU32,
}

impl Place {
    /// A new folder, with this in its name.
    pub fn new(name: &str) -> Self {
        /// The number tells places with one name apart: tests of one process run at the same time.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        built(PRELOAD_FILE);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let own = format!("{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(format!("soft-hca-{name}-{own}"));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        let fabric = format!("test-{own}");
        Self {
            dir,
            soft_hca: built(COMMAND),
            fabric,
            by: Vec::new(),
            options: Vec::new(),
            count: AtomicU32::new(0),
        }
    }

    /// The same for a fabric that is made with options of `soft-hca run`, by a command line that
    /// runs another one: `nsenter ... --`.
    pub fn with(name: &str, by: Vec<String>, options: Vec<String>) -> Self {
        let mut place = Self::new(name);
        (place.by, place.options) = (by, options);
        place
    }

    /// The fabric's name.
    pub fn fabric_name(&self) -> &str {
        &self.fabric
    }

    /// Takes another copy of the command.
    pub fn use_command(&mut self, soft_hca: PathBuf) {
        self.soft_hca = soft_hca;
    }

    /// The command that is taken.
    pub fn soft_hca(&self) -> &Path {
        &self.soft_hca
    }

    /// The fabric's folder, while there is one.
    pub fn fabric(&self) -> PathBuf {
        self.dir.join("soft-hca").join(&self.fabric)
    }

    /// A file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A name that no other file here has.
    pub fn unique(&self, kind: &str) -> String {
        format!("{kind}{}", self.count.fetch_add(1, Ordering::Relaxed))
    }

    /// `soft-hca` with arguments, about to be started here.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = with_default_signals();
        command
            .args(&self.by)
            .arg(&self.soft_hca)
            .args(arguments)
            .current_dir(&self.dir)
            .env("XDG_RUNTIME_DIR", &self.dir)
            .env_remove("SOFT_HCA_FABRIC")
            .env_remove("SOFT_HCA_PRELOAD")
            .env_remove("LD_PRELOAD");
        if let Some(dir) = other_programs() {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let dirs = std::iter::once(dir).chain(std::env::split_paths(&path));
            command.env("PATH", std::env::join_paths(dirs).unwrap());
        }
        command
    }

    /// Starts a program in the fabric; words are separated by blanks.
    pub fn start(&self, line: &str) -> Program {
        self.start_in(line, |command| command)
    }

    /// The same under circumstances of its own.
    pub fn start_in(
        &self,
        line: &str,
        circumstances: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Program {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let file = self.file(&format!("{number}.txt"));
        let output = fs::File::create(&file).unwrap();
        let mut command = self.command(&["run", "--fabric", &self.fabric]);
        command
            .args(&self.options)
            .arg("--")
            .args(line.split_whitespace())
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        Program::new(line, circumstances(&mut command).spawn().unwrap(), file)
    }

    /// A script that runs its arguments as a command in the fabric, wherever it is called from.
    pub fn script(&self) -> PathBuf {
        let file = self.file(&self.unique("run"));
        let (by, options) = (self.by.join(" "), self.options.join(" "));
        let text = format!(
            "#!/bin/sh
            export XDG_RUNTIME_DIR='{}'
            exec {by} '{}' run --fabric {} {options} -- \"$@\"\n",
            self.dir.display(),
            self.soft_hca.display(),
            self.fabric
        );
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    /// Has Python run a script in the fabric; gives its output.
    pub fn python(&self, python: &Path, script: &str) -> String {
        let file = self.file("script.py");
        fs::write(&file, script).unwrap();
        self.start(&format!("{} {}", python.display(), file.display())).succeed()
    }

    /// A program that does nothing but keep the fabric alive until it is killed.
    pub fn keep(&self) -> Program {
        self.keep_in(|command| command)
    }

    /// The same under circumstances of its own, which are the daemon's as well.
    pub fn keep_in(&self, circumstances: impl FnOnce(&mut Command) -> &mut Command) -> Program {
        let keeper = self.start_in("sleep 1000000", circumstances);
        assert!(comes_about(LIMIT, || self.listing().contains("comm sleep")), "no fabric");
        keeper
    }

    /// `soft-hca ls`
    pub fn listing(&self) -> String {
        let list = || self.command(&["ls", "--fabric", &self.fabric]).output().unwrap();
        let mut output = list();
        // A daemon that has much to do may not answer in time.
        comes_about(LIMIT, || {
            let is_silent = output.stdout.ends_with(b" does not answer\n");
            if is_silent {
                output = list();
            }
            !is_silent
        });
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Lines of the listing for objects: queue pairs and ids of the connection manager.
    pub fn objects(&self) -> Vec<String> {
        let listing = self.listing();
        let lines = listing.lines().map(str::trim_start);
        let objects = lines.filter(|line| line.starts_with("qp ") || line.starts_with("cm_id "));
        objects.map(str::to_string).collect()
    }

    /// Whether somebody listens at a port of the connection manager.
    pub fn listens(&self, port: u16) -> bool {
        let end = format!(":{port}");
        self.objects().iter().any(|line| {
            line.contains(" state LISTEN ")
                && line.split_whitespace().any(|word| word.ends_with(&end))
        })
    }

    /// Processes of the fabric's daemon.
    pub fn daemons(&self) -> Vec<u32> {
        processes(&["fabric", self.fabric().to_str().unwrap()])
    }

    /// Nothing is left in the fabric but what keeps it alive.
    pub fn assert_no_objects(&self) {
        let is_empty = comes_about(LIMIT, || self.objects().is_empty());
        assert!(is_empty, "left behind:\n{}", self.listing());
    }

    /// Ends the program that has kept the fabric alive: now nothing of it is left.
    pub fn end(&self, mut keeper: Program) {
        keeper.kill();
        self.assert_gone();
    }

    /// After the last program: no daemon, no folder.
    pub fn assert_gone(&self) {
        let dir = self.dir.join("soft-hca");
        assert!(comes_about(LIMIT, || !dir.exists()), "{} stays", dir.display());
        assert!(comes_about(LIMIT, || self.daemons().is_empty()), "a daemon stays");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Only after a failure is there one.
        for pid in self.daemons() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
