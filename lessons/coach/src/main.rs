//! The command line of `./learn`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use coach::beginnings;
use coach::language::Language;
use coach::lesson::Lesson;
use coach::play;
use coach::progress::Progress;
use coach::session::Session;
use coach::work::Work;
use coach::{Error, play::INSIDE};

/// Before a folder: runs what every lesson begins with, for `./site`.
const BEGINNINGS: &str = "beginnings";

/// Exercises that look at what your program did. `./learn --help` says what there is.
#[derive(Parser)]
#[command(name = "learn", disable_help_flag = true)]
struct Cli {
    /// Number or folder of the lesson
    lesson: Option<String>,
    #[command(flatten)]
    what: What,
    /// In C from now on, this lesson and those opened after it
    #[arg(long, requires = "lesson")]
    c: bool,
    /// In Rust from now on
    #[arg(long, requires = "lesson", conflicts_with = "c")]
    rust: bool,
    /// The seed of the strict run
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=1 << 32))]
    seed: Option<u64>,
    /// Show the solution although hints are left
    #[arg(long, requires = "solution")]
    anyway: bool,
    /// What the timeline's file is relative to
    #[arg(long, default_value = ".")]
    called_from: PathBuf,
    /// Where the timeline goes
    #[arg(requires = "timeline")]
    file: Option<PathBuf>,
}

/// At most one of them.
#[derive(clap::Args)]
#[group(multiple = false)]
struct What {
    #[arg(long)]
    watch: bool,
    #[arg(long)]
    run: bool,
    #[arg(long)]
    hint: bool,
    #[arg(long)]
    solution: bool,
    #[arg(long)]
    timeline: bool,
    #[arg(long)]
    again: bool,
    #[arg(long)]
    verify: bool,
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let result = match args.next() {
        Some(first) if first == INSIDE => {
            let [inside, result] = [args.next(), args.next()].map(Option::unwrap_or_default);
            play::inside(&inside.to_string_lossy(), Path::new(&result)).map(|()| true)
        }
        Some(first) if first == BEGINNINGS => own_folder()
            .and_then(|bin_dir| {
                beginnings::run(&bin_dir, &PathBuf::from(args.next().unwrap_or_default()))
            })
            .map(|()| true),
        _ => learn(&Cli::parse()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Without standard error there is nobody left to tell.
            let _ = writeln!(io::stderr(), "learn: {error}");
            ExitCode::from(2)
        }
    }
}

/// Where this program is, and the others are beside it.
fn own_folder() -> Result<PathBuf, Error> {
    let own = Path::new("/proc/self/exe");
    let own = own.canonicalize().map_err(Error::read(own))?;
    Ok(own.parent().unwrap_or(&own).to_owned())
}

fn learn(
    Cli { lesson, what, c, rust, seed, anyway, called_from, file }: &Cli,
) -> Result<bool, Error> {
    let bin_dir = own_folder()?;
    let progress = Progress::of_user()?;
    let mut session = Session { bin_dir, work: Work::default(), progress, seed: *seed };
    let Some(lesson) = lesson else {
        if what.verify {
            return session.verify();
        }
        let What { watch, run, hint, solution, timeline, again, .. } = *what;
        if watch || run || hint || solution || timeline || again {
            return Err(Error::Usage("which lesson?".to_owned()));
        }
        session.overview();
        return Ok(true);
    };
    let lesson = Lesson::named(lesson)?;
    for (is_chosen, language) in [(*c, Language::C), (*rust, Language::Rust)] {
        if is_chosen {
            session.choose(lesson, language)?;
        }
    }
    if what.verify {
        return Err(Error::Usage("--verify runs all lessons that were opened".to_owned()));
    } else if what.watch {
        session.watch(lesson)?;
    } else if what.run {
        return session.run(lesson, false);
    } else if what.hint {
        session.hint(lesson)?;
    } else if what.solution {
        session.solution(lesson, *anyway)?;
    } else if what.timeline {
        let default = || format!("{}.html", lesson.folder).into();
        let file = called_from.join(file.clone().unwrap_or_else(default));
        session.timeline(lesson, &file)?;
    } else {
        session.open(lesson, what.again)?;
    }
    Ok(true)
}
