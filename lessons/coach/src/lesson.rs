//! The lessons, and what is in their folders.

use std::fs;
use std::path::{Path, PathBuf};

use harness::transcript::Side;
use soft_hca_record::check::Rule;

use crate::checkers;
use crate::error::Error;
use crate::facts::Run;
use crate::verdict::Verdict;

/// One lesson.
#[derive(Debug)]
pub struct Lesson {
    /// Its folder in `lessons`, whose first two characters are its number.
    pub folder: &'static str,
    /// What it teaches.
    pub title: &'static str,
    /// Which side the student writes.
    pub student: Side,
    /// Looks at a run: the first thing that is wrong with respect to the lesson.
    pub check: fn(&Run) -> Verdict,
    /// Rules of `soft-hca check` that the student's program has to keep as well.
    pub rules: &'static [Rule],
}

/// All of them, in the order of the course.
pub const LESSONS: &[Lesson] = &[
    Lesson {
        folder: "01-send-one-message",
        title: "send one message",
        student: Side::Client,
        check: checkers::send_one_message::check,
        rules: &[],
    },
    Lesson {
        folder: "02-post-the-receive-first",
        title: "have the receive posted when the message comes",
        student: Side::Server,
        check: checkers::post_the_receive_first::check,
        rules: &[Rule::ReceiveLate],
    },
    Lesson {
        folder: "03-send-from-two-pieces",
        title: "one message from two pieces of memory",
        student: Side::Client,
        check: checkers::send_from_two_pieces::check,
        rules: &[Rule::SgeCount],
    },
];

impl Lesson {
    /// The one that is called so, by its number or by its folder's name.
    pub fn named(name: &str) -> Result<&'static Self, Error> {
        let number = name.parse().ok();
        let is_it = |lesson: &&Self| number == Some(lesson.number()) || lesson.folder == name;
        LESSONS.iter().find(is_it).ok_or_else(|| {
            Error::Usage(format!("there is no lesson {name:?}, but 1 to {}", LESSONS.len()))
        })
    }

    /// Counted from 1.
    pub fn number(&self) -> usize {
        self.folder.split('-').next().and_then(|number| number.parse().ok()).unwrap_or_default()
    }

    /// Its folder.
    pub fn dir(&self) -> PathBuf {
        top().join("lessons").join(self.folder)
    }

    /// The text of one of its files.
    pub fn text(&self, file: &str) -> Result<String, Error> {
        let path = self.dir().join(file);
        fs::read_to_string(&path).map_err(Error::read(&path))
    }

    /// Its hints, from the one that says least on.
    pub fn hints(&self) -> Result<Vec<String>, Error> {
        let text = self.text("hints.md")?;
        let parts = text.split("\n---\n").map(|hint| hint.trim().to_owned());
        Ok(parts.filter(|hint| !hint.is_empty()).collect())
    }
}

/// The top of the repository.
pub fn top() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own)
}
