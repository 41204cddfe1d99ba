//! A record of what is done in this program's fabric, by `soft-hca record`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::process::{Event, Program, Running};
use crate::soft_hca;
use crate::transcript::Side;

/// Message of the recorder when it has begun.
const BEGUN: &str = "until Ctrl-C";
/// How long it may take to begin, and to end.
const LIMIT: Duration = Duration::from_secs(60);

/// A recorder at work.
#[derive(Debug)]
pub(crate) struct Recording {
    recorder: Running,
    events: Receiver<Event>,
    record: Record,
}

/// A finished record, whose file goes with it.
#[derive(Debug)]
pub(crate) struct Record {
    file: PathBuf,
}

impl Drop for Record {
    fn drop(&mut self) {
        // Without a record there is nothing to remove.
        let _ = fs::remove_file(&self.file);
    }
}

impl Recording {
    /// Begins to record the fabric, which may still have to take note of the end of the recording before.
    pub(crate) fn begin() -> Result<Recording, Error> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let mut recording = Recording::start()?;
            match recording
                .wait_for(|event| matches!(event, Event::Line(line) if line.text.contains(BEGUN)))
            {
                Err(_) if Instant::now() < deadline => {}
                begun => return begun.map(|()| recording),
            }
        }
    }

    /// Starts a recorder.
    fn start() -> Result<Recording, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("harness-{}-{number}.shr", std::process::id());
        let record = Record { file: env::temp_dir().join(name) };
        // The recorder is none of the fabric's programs.
        let words = ["-u".into(), "LD_PRELOAD".into(), soft_hca::command()];
        let words = words.into_iter().chain(["record", "-o"].map(Into::into));
        let args = words.chain([record.file.clone().into_os_string()]).collect();
        let program = Program { path: "env".into(), arg0: None, args, ends_with_input: false };
        let (sender, events) = mpsc::sync_channel(64);
        let recorder = Running::start(&program, Side::Server, Instant::now(), &sender)?;
        Ok(Recording { recorder, events, record })
    }

    /// Ends it. A shell has its jobs in the background ignore the signal of Ctrl-C.
    pub(crate) fn end(mut self) -> Result<Record, Error> {
        self.recorder.signal(libc::SIGTERM);
        self.wait_for(|event| matches!(event, Event::Exited(_)))?;
        self.recorder.reap(false);
        Ok(self.record)
    }

    /// Waits for an event; the error is what the recorder has said last.
    fn wait_for(&mut self, is_it: impl Fn(&Event) -> bool) -> Result<(), Error> {
        let deadline = Instant::now() + LIMIT;
        let mut said = String::new();
        while !self.recorder.is_over() {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(event) = self.events.recv_timeout(left) else { break };
            if is_it(&event) {
                return Ok(());
            }
            match event {
                Event::Line(line) => said = line.text,
                Event::Closed(_) => self.recorder.stream_closed(),
                Event::Exited(_) => self.recorder.reap(false),
                Event::Done(_) => {}
            }
        }
        Err(Error::Usage(format!("soft-hca record does not record: {said}")))
    }
}

impl Record {
    /// The text that is the same in every run.
    pub(crate) fn stable(&self) -> Result<String, Error> {
        self.show("--stable")
    }

    /// A line for each entry.
    pub(crate) fn commands(&self) -> Result<String, Error> {
        self.show("--commands")
    }

    fn show(&self, how: &str) -> Result<String, Error> {
        let program = soft_hca::command();
        let mut show = Command::new(&program);
        show.args(["show", how]).arg(&self.file).env_remove("LD_PRELOAD").stdin(Stdio::null());
        let name = || Path::new(&program).display().to_string();
        let output = show.output().map_err(|source| Error::Start { program: name(), source })?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::data(&self.file, why));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
