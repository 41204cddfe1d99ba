//! The programs of all lessons in one, which runs as `learn-programs LESSON/PROGRAM`: each lesson's peer,
//! what a student begins with, its solution, and for the coach's tests another right program and wrong
//! ones, which are patches that `build.rs` applies.

use std::process::ExitCode;

use common::errln;
use common::getopt::args;

/// The wrong programs, by lesson and patch.
mod wrong {
    include!(concat!(env!("OUT_DIR"), "/wrong.rs"));
}

/// A program by its file's name.
pub type Program = (&'static str, fn() -> ExitCode);

#[path = "../../04-a-list-by-one-call/mod.rs"]
mod a_list_by_one_call;
#[path = "../../12-a-queue-pair-by-hand/mod.rs"]
mod a_queue_pair_by_hand;
#[path = "../../24-a-race-mended/mod.rs"]
mod a_race_mended;
#[path = "../../22-add-at-once/mod.rs"]
mod add_at_once;
#[path = "../../16-agree-or-refuse/mod.rs"]
mod agree_or_refuse;
#[path = "../../21-blast-with-credits/mod.rs"]
mod blast_with_credits;
#[path = "../../14-connect-step-by-step/mod.rs"]
mod connect_step_by_step;
#[path = "../../19-datagrams/mod.rs"]
mod datagrams;
#[path = "../../07-end-cleanly/mod.rs"]
mod end_cleanly;
#[path = "../../11-find-out-why-it-hangs/mod.rs"]
mod find_out_why_it_hangs;
#[path = "../../17-notice-a-dead-peer/mod.rs"]
mod notice_a_dead_peer;
#[path = "../../09-one-completion-for-a-list/mod.rs"]
mod one_completion_for_a_list;
#[path = "../../18-one-poll-for-everything/mod.rs"]
mod one_poll_for_everything;
#[path = "../../02-post-the-receive-first/mod.rs"]
mod post_the_receive_first;
#[path = "../../05-room-for-what-comes/mod.rs"]
mod room_for_what_comes;
#[path = "../../03-send-from-two-pieces/mod.rs"]
mod send_from_two_pieces;
#[path = "../../01-send-one-message/mod.rs"]
mod send_one_message;
#[path = "../../20-shared-receives/mod.rs"]
mod shared_receives;
#[path = "../../08-sleep-without-losing/mod.rs"]
mod sleep_without_losing;
#[path = "../../13-take-into-two-pieces/mod.rs"]
mod take_into_two_pieces;
#[path = "../../15-tell-with-the-write/mod.rs"]
mod tell_with_the_write;
#[path = "../../06-the-least-rights/mod.rs"]
mod the_least_rights;
#[path = "../../23-three-clients/mod.rs"]
mod three_clients;
#[path = "../../10-write-then-tell/mod.rs"]
mod write_then_tell;

/// The lessons by their folders' names.
const LESSONS: &[(&str, &[Program])] = &[
    ("01-send-one-message", send_one_message::PROGRAMS),
    ("02-post-the-receive-first", post_the_receive_first::PROGRAMS),
    ("03-send-from-two-pieces", send_from_two_pieces::PROGRAMS),
    ("04-a-list-by-one-call", a_list_by_one_call::PROGRAMS),
    ("05-room-for-what-comes", room_for_what_comes::PROGRAMS),
    ("06-the-least-rights", the_least_rights::PROGRAMS),
    ("07-end-cleanly", end_cleanly::PROGRAMS),
    ("08-sleep-without-losing", sleep_without_losing::PROGRAMS),
    ("09-one-completion-for-a-list", one_completion_for_a_list::PROGRAMS),
    ("10-write-then-tell", write_then_tell::PROGRAMS),
    ("11-find-out-why-it-hangs", find_out_why_it_hangs::PROGRAMS),
    ("12-a-queue-pair-by-hand", a_queue_pair_by_hand::PROGRAMS),
    ("13-take-into-two-pieces", take_into_two_pieces::PROGRAMS),
    ("14-connect-step-by-step", connect_step_by_step::PROGRAMS),
    ("15-tell-with-the-write", tell_with_the_write::PROGRAMS),
    ("16-agree-or-refuse", agree_or_refuse::PROGRAMS),
    ("17-notice-a-dead-peer", notice_a_dead_peer::PROGRAMS),
    ("18-one-poll-for-everything", one_poll_for_everything::PROGRAMS),
    ("19-datagrams", datagrams::PROGRAMS),
    ("20-shared-receives", shared_receives::PROGRAMS),
    ("21-blast-with-credits", blast_with_credits::PROGRAMS),
    ("22-add-at-once", add_at_once::PROGRAMS),
    ("23-three-clients", three_clients::PROGRAMS),
    ("24-a-race-mended", a_race_mended::PROGRAMS),
];

fn main() -> ExitCode {
    let wanted = args().into_iter().nth(1).unwrap_or_default();
    let (lesson, program) = wanted.split_once('/').unwrap_or_default();
    let right = LESSONS.iter().find(|(name, _)| *name == lesson).map(|(_, programs)| *programs);
    let mut right = right.unwrap_or_default().iter().filter(|(name, _)| *name == program);
    let mut wrong = wrong::PROGRAMS.iter().filter(|(name, _)| *name == wanted);
    match right.next().or_else(|| wrong.next()) {
        Some((_, main)) => main(),
        None => {
            errln!("learn-programs: there is no program {wanted:?}");
            ExitCode::from(2)
        }
    }
}
