//! Runs a pair, recorded, in a fabric of its own.
//!
//! This program starts itself once more inside the fabric, where the harness runs the pair and the
//! result goes into a file: how both sides ended, and what the peer said.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use harness::listen::Ready;
use harness::process::{Ending, Program};
use harness::run::{Client, Observer, Plan, Unobserved};
use harness::show::Labelled;
use harness::transcript::{Side, Stream};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::facts::{self, Run};
use crate::lesson::Lesson;
use crate::words::Words;

/// `argv[0]` of the peer.
const PEER: &str = "peer";
/// The argument that tells a peer that it is in the second run.
const AGAIN: &str = "again";
/// How many times longer a strict run may take than another one: each of its completions is late.
const STRICT_TAKES: u32 = 4;
/// The argument by which this program knows that it is inside.
pub const INSIDE: &str = "inside";

/// A run to be.
#[derive(Clone, Debug)]
pub struct Play {
    /// Its lesson.
    pub lesson: &'static Lesson,
    /// Where the coach, the peers and soft-hca are.
    pub bin_dir: PathBuf,
    /// The student's program and its arguments.
    pub program: Vec<String>,
    /// A program that has not ended by then is stopped.
    pub limit: Duration,
    /// The output of both is not shown.
    pub is_quiet: bool,
    /// Where the record goes.
    pub record: PathBuf,
    /// The seed of a strict run.
    pub seed: Option<u64>,
}

/// Description of the pair inside the fabric, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Inside {
    lesson: String,
    bin_dir: PathBuf,
    program: Vec<String>,
    limit: Duration,
    is_quiet: bool,
    is_again: bool,
}

/// How it went, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Ended {
    student: Option<String>,
    peer: Option<String>,
    peer_said: Vec<String>,
    student_said: Vec<String>,
}

impl Play {
    /// The same run as a strict one, with its record beside the first run's.
    pub fn strictly(&self, seed: u64) -> Self {
        Self {
            limit: self.limit * STRICT_TAKES,
            is_quiet: true,
            record: self.record.with_extension("strict.shr"),
            seed: Some(seed),
            ..self.clone()
        }
    }

    /// Runs it.
    pub fn run(&self) -> Result<Run, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let result = self.record.with_extension("json");
        let _ = fs::remove_file(&result);
        let inside = Inside {
            lesson: self.lesson.folder.to_owned(),
            bin_dir: self.bin_dir.clone(),
            program: self.program.clone(),
            limit: self.limit,
            is_quiet: self.is_quiet,
            is_again: self.seed.is_some(),
        };
        let inside = serde_json::to_string(&inside).expect("texts and numbers only");
        let soft_hca = self.bin_dir.join("soft-hca");
        let mut command = Command::new(&soft_hca);
        command.args(["record", "-o"]).arg(&self.record);
        command.args(self.seed.map(|seed| format!("--strict={seed}")));
        if self.lesson.is_by_hand {
            // Each side has a device of its own, so that the two have different GIDs.
            command.args(["--device", "rxe0", "--device", "rxe1"]);
        }
        command.arg("--fabric").arg(format!("learn-{}-{number}", std::process::id())).arg("--");
        command.arg(self.bin_dir.join("learn-coach")).args([INSIDE, &inside]).arg(&result);
        // Programs that fail say so themselves, and the verdict the rest.
        command.env_remove("SOFT_HCA_EXPLAIN").stdin(Stdio::null()).stderr(Stdio::piped());
        let failed = |source| Error::Start { program: soft_hca.clone(), source };
        let mut child = command.spawn().map_err(failed)?;
        let mut said = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            stderr.read_to_string(&mut said).map_err(Error::read(&soft_hca))?;
        }
        child.wait().map_err(failed)?;
        let text =
            fs::read_to_string(&result).map_err(|_| Error::NoRun(Words::verbatim(said.trim())))?;
        let _ = fs::remove_file(&result);
        let ended: Ended =
            serde_json::from_str(&text).map_err(|error| Error::NoRun(Words::verbatim(error)))?;
        let (_, entries) = facts::read(&self.record)?;
        let is_peer = |command: &[String]| command.first().is_some_and(|name| name == PEER);
        let mut run = Run::new(entries, is_peer);
        let ending = |text: Option<String>| text.and_then(|text| text.parse().ok());
        run.student_end = ending(ended.student);
        run.peer_end = ending(ended.peer);
        run.peer_said = ended.peer_said;
        run.student_said = ended.student_said;
        (run.limit, run.seed) = (self.limit, self.seed);
        Ok(run)
    }
}

/// Inside the fabric: runs the pair that `inside` says, and writes how it went to `result`.
pub fn inside(inside: &str, result: &Path) -> Result<(), Error> {
    let inside: Inside =
        serde_json::from_str(inside).map_err(|error| Error::Usage(Words::verbatim(error)))?;
    let lesson = Lesson::named(&inside.lesson)?;
    let (path, args) = inside
        .program
        .split_first()
        .ok_or_else(|| Error::Usage(Words::verbatim("no program to run")))?;
    let student = Program {
        path: path.into(),
        arg0: Some(lesson.folder.into()),
        args: args.iter().map(Into::into).collect(),
        ends_with_input: false,
    };
    let mut peer_args = vec![format!("{}/peer", lesson.folder).into()];
    peer_args.extend(inside.is_again.then(|| AGAIN.into()));
    let peer = Program {
        path: inside.bin_dir.join("learn-programs"),
        arg0: Some(PEER.into()),
        args: peer_args,
        ends_with_input: false,
    };
    let (server, client, labels) = match lesson.student {
        Side::Server => (student, peer, ["yours", PEER]),
        Side::Client => (peer, student, [PEER, "yours"]),
    };
    let mut client = client;
    let mut ready = Ready::RdmaCm;
    if lesson.is_by_hand {
        client.args.push(harness::run::PORT.into());
        ready = r"line:^port (\d+)$"
            .parse()
            .map_err(|error: String| Error::Usage(Words::verbatim(error)))?;
    }
    let plan = Plan {
        server: Some(server),
        client: Some(Client::Program(client)),
        ready,
        ready_limit: inside.limit,
        limit: inside.limit,
        kill: None,
        server_stopped: false,
        served: None,
    };
    let mut shown = Labelled::with_labels(labels[0], labels[1]);
    let mut unseen = Unobserved;
    let observer: &mut dyn Observer = if inside.is_quiet { &mut unseen } else { &mut shown };
    let outcome = harness::run::run(&plan, observer)?;
    let of_peer = if lesson.student == Side::Server { Side::Client } else { Side::Server };
    let ending = |side| outcome.ending(side).map(|ending: Ending| ending.to_string());
    let ended = Ended {
        student: ending(lesson.student),
        peer: ending(of_peer),
        peer_said: outcome.transcript.stream(of_peer, Stream::Stderr),
        student_said: outcome.transcript.stream(lesson.student, Stream::Stdout),
    };
    let text = serde_json::to_string(&ended).map_err(io::Error::from);
    text.and_then(|text| fs::write(result, text)).map_err(Error::write(result))
}
