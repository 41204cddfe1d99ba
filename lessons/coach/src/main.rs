//! The command line of `./learn`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use coach::beginnings;
use coach::language::Language;
use coach::lesson::Lesson;
use coach::play;
use coach::progress::Progress;
use coach::session::Session;
use coach::usage;
use coach::words::{Tongue, words};
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
    /// Its task has been shown already, by `./learn` while it built this program
    #[arg(long, requires = "lesson")]
    shown: bool,
    /// The language in which the coach speaks; `./learn` chooses it
    #[arg(long, value_enum, default_value_t)]
    lang: Tongue,
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
    #[arg(long)]
    report: bool,
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
        _ => match Cli::try_parse() {
            Ok(cli) => learn(&cli),
            Err(error) if tongue() == Tongue::English => error.exit(),
            Err(error) => Err(Error::Usage(usage::words(&error))),
        },
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Without standard error there is nobody left to tell.
            let words = error.words();
            let _ = writeln!(io::stderr(), "learn: {}", words.of(tongue()));
            ExitCode::from(2)
        }
    }
}

/// The language that the command line chooses, whatever else is wrong with it.
fn tongue() -> Tongue {
    let chosen = std::env::args_os().skip_while(|arg| arg != "--lang").nth(1);
    let chosen = chosen.and_then(|name| Tongue::from_str(&name.to_string_lossy(), false).ok());
    chosen.unwrap_or_default()
}

/// Where this program is, and the others are beside it.
fn own_folder() -> Result<PathBuf, Error> {
    let own = Path::new("/proc/self/exe");
    let own = own.canonicalize().map_err(Error::read(own))?;
    Ok(own.parent().unwrap_or(&own).to_owned())
}

fn learn(
    Cli { lesson, what, c, rust, seed, anyway, shown, lang, called_from, file }: &Cli,
) -> Result<bool, Error> {
    let bin_dir = own_folder()?;
    let progress = Progress::of_user()?;
    let mut session =
        Session { bin_dir, work: Work::default(), progress, seed: *seed, tongue: *lang };
    let Some(lesson) = lesson else {
        if what.verify {
            return session.verify();
        }
        if what.report {
            return session.report().map(|()| true);
        }
        let What { watch, run, hint, solution, timeline, again, .. } = *what;
        if watch || run || hint || solution || timeline || again {
            return Err(Error::Usage(words!("which lesson?", "哪一课？")));
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
        return Err(Error::Usage(words!(
            "--verify runs all lessons that were opened",
            "--verify 运行打开过的所有课"
        )));
    } else if what.report {
        return Err(Error::Usage(words!(
            "--report is about all lessons",
            "--report 说的是所有的课"
        )));
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
        session.open(lesson, what.again, *shown)?;
    }
    Ok(true)
}
