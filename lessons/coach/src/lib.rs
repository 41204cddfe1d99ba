//! The coach: runs a student's program with its peer on soft-hca, and says by the record what it did
//! wrong.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`lesson`] | the lessons, and what is in their folders |
//! | [`language`] | in which languages a student can write |
//! | [`mod@words`] | in which languages the coach speaks, and its sentences in both |
//! | [`checkers`] | what each of them looks for |
//! | [`facts`] | a run, and questions to its record |
//! | [`steps`] | what a program has posted, and which completions it has polled |
//! | [`usage`] | what is wrong with a command line |
//! | [`verdict`] | the first thing that is wrong in a run |
//! | [`play`] | runs a pair, recorded, in a fabric of its own |
//! | [`trial`] | a program's two runs, the second a strict one |
//! | [`work`] | the student's folder, and building what is in it |
//! | [`progress`] | how far the student is |
//! | [`report`] | the same for a teacher |
//! | [`session`] | what `./learn` does |
//! | [`beginnings`] | what every lesson begins with, run and judged |
#![forbid(unsafe_code)]

pub mod beginnings;
pub mod checkers;
pub mod error;
pub mod facts;
pub mod language;
pub mod lesson;
pub mod play;
pub mod progress;
pub mod report;
pub mod session;
pub mod steps;
pub mod trial;
pub mod usage;
pub mod verdict;
pub mod words;
pub mod work;

pub use error::Error;
