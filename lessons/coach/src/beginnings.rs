//! The program that every lesson begins with, run and judged, to be shown to readers.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::lesson::LESSONS;
use crate::play::Play;
use crate::session::{LIMIT, report};
use crate::verdict::judge;
use crate::words::Tongue;

/// Runs the program that each lesson begins with. In `dir` it leaves for each `LESSON.shr`, the record, and
/// `LESSON.txt`, what is said of it. `bin_dir` has soft-hca, this program and `learn-programs`.
///
/// # Errors
/// A run that does not come about, or a file that cannot be written.
pub fn run(bin_dir: &Path, dir: &Path) -> Result<(), Error> {
    for lesson in LESSONS {
        let program = bin_dir.join("learn-programs").display().to_string();
        let play = Play {
            lesson,
            bin_dir: bin_dir.to_owned(),
            program: vec![program, format!("{}/start", lesson.folder)],
            limit: LIMIT,
            is_quiet: true,
            record: dir.join(lesson.folder).with_extension("shr"),
            seed: None,
        };
        let run = play.run()?;
        let said = report(lesson, &run, &judge(lesson, &run), Tongue::English);
        let file = dir.join(lesson.folder).with_extension("txt");
        fs::write(&file, said).map_err(Error::write(&file))?;
    }
    Ok(())
}
