//! The lessons, and what is in their folders.

use std::fs;
use std::path::{Path, PathBuf};

use harness::process::Ending;
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
    /// The connection manager has no part in it: the server says a TCP port, and the client is given it.
    pub is_by_hand: bool,
    /// How the peer ends if it is content: with [`CONTENT`], or [`KILLED`] where it dies on purpose.
    pub peer_end: Ending,
    /// Looks at a run: the first thing that is wrong with respect to the lesson.
    pub check: fn(&Run) -> Verdict,
    /// Whether the peer asks for something else in the second, strict run, so that the checker
    /// looks at that one, too.
    pub asks_again: bool,
    /// Rules of `soft-hca check` that the student's program has to keep as well.
    pub rules: &'static [Rule],
}

/// A peer with which all was well.
pub const CONTENT: Ending = Ending::Code(0);
/// One that has sent itself SIGKILL.
pub const KILLED: Ending = Ending::Signal(9);

/// The name of the source with which a student begins.
pub const START: &str = "start";
/// And of the solution to compare with.
pub const SOLUTION: &str = "solution";

/// All of them, in the order of the course.
pub const LESSONS: &[Lesson] = &[
    Lesson {
        folder: "01-send-one-message",
        title: "send one message",
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::send_one_message::check,
        asks_again: false,
        rules: &[],
    },
    Lesson {
        folder: "02-post-the-receive-first",
        title: "have the receive posted when the message comes",
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::post_the_receive_first::check,
        asks_again: false,
        rules: &[Rule::ReceiveLate],
    },
    Lesson {
        folder: "03-send-from-two-pieces",
        title: "one message from two pieces of memory",
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::send_from_two_pieces::check,
        asks_again: false,
        rules: &[Rule::SgeCount],
    },
    Lesson {
        folder: "04-a-list-by-one-call",
        title: "a list of four messages by one call",
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::a_list_by_one_call::check,
        asks_again: false,
        rules: &[],
    },
    Lesson {
        folder: "05-room-for-what-comes",
        title: "room for a message whose length the peer has said",
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::room_for_what_comes::check,
        asks_again: false,
        rules: &[],
    },
    Lesson {
        folder: "06-the-least-rights",
        title: "each region grants what it is used for",
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::the_least_rights::check,
        asks_again: false,
        rules: &[],
    },
    Lesson {
        folder: "07-end-cleanly",
        title: "hang up, and destroy everything in its order",
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::end_cleanly::check,
        asks_again: false,
        rules: &[Rule::Leaked],
    },
    Lesson {
        folder: "08-sleep-without-losing",
        title: "sleep without losing a wake-up",
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::sleep_without_losing::check,
        asks_again: false,
        rules: &[Rule::ArmOrder, Rule::Overlap],
    },
    Lesson {
        folder: "09-one-completion-for-a-list",
        title: "one completion for each list of sends",
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::one_completion_for_a_list::check,
        asks_again: false,
        rules: &[Rule::UnsignaledRun, Rule::QueueFull, Rule::CqFull],
    },
    Lesson {
        folder: "10-write-then-tell",
        title: "write into the peer's memory, then tell it",
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::write_then_tell::check,
        asks_again: false,
        rules: &[Rule::RkeyStale],
    },
    Lesson {
        folder: "11-find-out-why-it-hangs",
        title: "find out why it hangs",
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::find_out_why_it_hangs::check,
        asks_again: false,
        rules: &[Rule::Leaked],
    },
    Lesson {
        folder: "12-a-queue-pair-by-hand",
        title: "a queue pair by hand, without the connection manager",
        student: Side::Client,
        is_by_hand: true,
        peer_end: CONTENT,
        check: checkers::a_queue_pair_by_hand::check,
        asks_again: false,
        rules: &[Rule::Timers, Rule::PkeyIndex, Rule::Leaked],
    },
    Lesson {
        folder: "13-take-into-two-pieces",
        title: "one message into two pieces of memory",
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::take_into_two_pieces::check,
        asks_again: false,
        rules: &[Rule::ReceiveLate],
    },
    Lesson {
        folder: "14-connect-step-by-step",
        title: "connect step by step, an event after each",
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::connect_step_by_step::check,
        asks_again: false,
        rules: &[Rule::Leaked],
    },
    Lesson {
        folder: "15-tell-with-the-write",
        title: "tell with the write itself, by immediate data",
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::tell_with_the_write::check,
        asks_again: false,
        rules: &[Rule::RkeyStale, Rule::InlineSize],
    },
    Lesson {
        folder: "16-agree-or-refuse",
        title: "agree with a client, or refuse it and say why",
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::agree_or_refuse::check,
        asks_again: true,
        rules: &[Rule::ReceiveLate, Rule::Overlap, Rule::Leaked],
    },
    Lesson {
        folder: "17-notice-a-dead-peer",
        title: "notice that the peer is dead",
        student: Side::Client,
        is_by_hand: false,
        peer_end: KILLED,
        check: checkers::notice_a_dead_peer::check,
        asks_again: false,
        rules: &[Rule::AfterError, Rule::Leaked],
    },
    Lesson {
        folder: "18-one-poll-for-everything",
        title: "one poll(2) for messages and the connection's end",
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::one_poll_for_everything::check,
        asks_again: false,
        rules: &[Rule::Leaked],
    },
    Lesson {
        folder: "19-datagrams",
        title: "take a datagram, and answer it",
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::datagrams::check,
        asks_again: false,
        rules: &[Rule::Leaked],
    },
    Lesson {
        folder: "20-shared-receives",
        title: "one receive queue for two connections, filled when its limit says so",
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::shared_receives::check,
        asks_again: false,
        rules: &[Rule::QueueFull, Rule::Overlap, Rule::Leaked],
    },
    Lesson {
        folder: "21-blast-with-credits",
        title: "as many messages at a time as there are credits",
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::blast_with_credits::check,
        asks_again: true,
        rules: &[Rule::ReceiveLate, Rule::UnsignaledRun, Rule::QueueFull, Rule::CqFull],
    },
    Lesson {
        folder: "22-add-at-once",
        title: "add to a counter in the peer's memory, to which others add",
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::add_at_once::check,
        asks_again: false,
        rules: &[Rule::ReadDepth, Rule::UnsignaledRun, Rule::QueueFull, Rule::CqFull],
    },
    Lesson {
        folder: "23-three-clients",
        title: "three clients at once",
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::three_clients::check,
        asks_again: false,
        rules: &[Rule::ReceiveLate, Rule::Overlap, Rule::CqFull, Rule::Leaked],
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
