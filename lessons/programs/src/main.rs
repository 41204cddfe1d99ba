//! The programs of all lessons in one, which runs as `learn-programs LESSON/PROGRAM`: each lesson's peer,
//! what a student begins with, its solution, and for the coach's tests another right program and wrong
//! ones.

use std::process::ExitCode;

use common::errln;
use common::getopt::args;

/// A program by its file's name.
pub type Program = (&'static str, fn() -> ExitCode);

#[path = "../../02-post-the-receive-first/mod.rs"]
mod post_the_receive_first;
#[path = "../../03-send-from-two-pieces/mod.rs"]
mod send_from_two_pieces;
#[path = "../../01-send-one-message/mod.rs"]
mod send_one_message;

/// The lessons by their folders' names.
const LESSONS: &[(&str, &[Program])] = &[
    ("01-send-one-message", send_one_message::PROGRAMS),
    ("02-post-the-receive-first", post_the_receive_first::PROGRAMS),
    ("03-send-from-two-pieces", send_from_two_pieces::PROGRAMS),
];

fn main() -> ExitCode {
    let wanted = args().into_iter().nth(1).unwrap_or_default();
    let (lesson, program) = wanted.split_once('/').unwrap_or_default();
    let programs = LESSONS.iter().find(|(name, _)| *name == lesson).map(|(_, programs)| *programs);
    match programs.unwrap_or_default().iter().find(|(name, _)| *name == program) {
        Some((_, main)) => main(),
        None => {
            errln!("learn-programs: there is no program {wanted:?}");
            ExitCode::from(2)
        }
    }
}
