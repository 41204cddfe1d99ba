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
use crate::words::{Tongue, Words, words};

/// One lesson.
#[derive(Debug)]
pub struct Lesson {
    /// Its folder in `lessons`, whose first two characters are its number.
    pub folder: &'static str,
    /// Its subject, in a few words.
    pub title: Words<&'static str>,
    /// Which side the student writes.
    pub student: Side,
    /// The connection manager has no part in it: the server says a TCP port, and the client is given it.
    pub is_by_hand: bool,
    /// How the peer ends if it is content: with [`CONTENT`], or [`KILLED`] where it dies on purpose.
    pub peer_end: Ending,
    /// Looks at a run: the first thing that is wrong with respect to the lesson.
    pub check: fn(&Run) -> Verdict,
    /// The second, strict run of a program with which nothing is wrong.
    pub again: Again,
    /// Rules of `soft-hca check` that the student's program has to keep as well.
    pub rules: &'static [Rule],
}

/// The second run of a program, in which it gets no more than the specification promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// There is none: so many round trips, one behind the other, would take minutes.
    Never,
    /// The peer asks for the same, and only how both sides end counts.
    Alike,
    /// The peer asks for something else, so that the checker looks at this run, too.
    Differently,
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
        title: Words::fixed("send one message", "发送一条消息"),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::send_one_message::check,
        again: Again::Alike,
        rules: &[],
    },
    Lesson {
        folder: "02-post-the-receive-first",
        title: Words::fixed(
            "have the receive posted when the message comes",
            "消息到来时，接收请求已经提交",
        ),
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::post_the_receive_first::check,
        again: Again::Alike,
        rules: &[Rule::ReceiveLate],
    },
    Lesson {
        folder: "03-send-from-two-pieces",
        title: Words::fixed("one message from two pieces of memory", "用两块内存发一条消息"),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::send_from_two_pieces::check,
        again: Again::Alike,
        rules: &[Rule::SgeCount],
    },
    Lesson {
        folder: "04-a-list-by-one-call",
        title: Words::fixed("a list of four messages by one call", "一次调用提交四条消息"),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::a_list_by_one_call::check,
        again: Again::Alike,
        rules: &[],
    },
    Lesson {
        folder: "05-room-for-what-comes",
        title: Words::fixed(
            "room for a message whose length the peer has said",
            "为事先知道长度的消息备好空间",
        ),
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::room_for_what_comes::check,
        again: Again::Alike,
        rules: &[],
    },
    Lesson {
        folder: "06-the-least-rights",
        title: Words::fixed("each region grants what it is used for", "内存区域只给用得到的权限"),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::the_least_rights::check,
        again: Again::Alike,
        rules: &[],
    },
    Lesson {
        folder: "07-end-cleanly",
        title: Words::fixed(
            "hang up, and destroy everything in its order",
            "断开连接，按顺序销毁一切",
        ),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::end_cleanly::check,
        again: Again::Alike,
        rules: &[Rule::Leaked],
    },
    Lesson {
        folder: "08-sleep-without-losing",
        title: Words::fixed("sleep without losing a wake-up", "睡眠，但不错过唤醒"),
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::sleep_without_losing::check,
        again: Again::Alike,
        rules: &[Rule::ArmOrder, Rule::Overlap],
    },
    Lesson {
        folder: "09-one-completion-for-a-list",
        title: Words::fixed("one completion for each list of sends", "每个发送链表一个工作完成"),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::one_completion_for_a_list::check,
        again: Again::Alike,
        rules: &[Rule::UnsignaledRun, Rule::QueueFull, Rule::CqFull],
    },
    Lesson {
        folder: "10-write-then-tell",
        title: Words::fixed(
            "write into the peer's memory, then tell it",
            "写入对端的内存，再通知它",
        ),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::write_then_tell::check,
        again: Again::Alike,
        rules: &[Rule::RkeyStale],
    },
    Lesson {
        folder: "11-find-out-why-it-hangs",
        title: Words::fixed("find out why it hangs", "找出它为什么卡住"),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::find_out_why_it_hangs::check,
        again: Again::Alike,
        rules: &[Rule::Leaked],
    },
    Lesson {
        folder: "12-a-queue-pair-by-hand",
        title: Words::fixed(
            "a queue pair by hand, without the connection manager",
            "不用连接管理器，手工建立队列对",
        ),
        student: Side::Client,
        is_by_hand: true,
        peer_end: CONTENT,
        check: checkers::a_queue_pair_by_hand::check,
        again: Again::Alike,
        rules: &[Rule::Timers, Rule::PkeyIndex, Rule::Leaked],
    },
    Lesson {
        folder: "13-take-into-two-pieces",
        title: Words::fixed("one message into two pieces of memory", "把一条消息收进两块内存"),
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::take_into_two_pieces::check,
        again: Again::Alike,
        rules: &[Rule::ReceiveLate],
    },
    Lesson {
        folder: "14-connect-step-by-step",
        title: Words::fixed(
            "connect step by step, an event after each",
            "逐步连接，每一步等一个事件",
        ),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::connect_step_by_step::check,
        again: Again::Alike,
        rules: &[Rule::Leaked],
    },
    Lesson {
        folder: "15-tell-with-the-write",
        title: Words::fixed(
            "tell with the write itself, by immediate data",
            "写的同时就用立即数通知",
        ),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::tell_with_the_write::check,
        again: Again::Alike,
        rules: &[Rule::RkeyStale, Rule::InlineSize],
    },
    Lesson {
        folder: "16-agree-or-refuse",
        title: Words::fixed(
            "agree with a client, or refuse it and say why",
            "接受一个客户端，或者拒绝它并说明原因",
        ),
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::agree_or_refuse::check,
        again: Again::Differently,
        rules: &[Rule::ReceiveLate, Rule::Overlap, Rule::Leaked],
    },
    Lesson {
        folder: "17-notice-a-dead-peer",
        title: Words::fixed("notice that the peer is dead", "发现对端已经死了"),
        student: Side::Client,
        is_by_hand: false,
        peer_end: KILLED,
        check: checkers::notice_a_dead_peer::check,
        again: Again::Alike,
        rules: &[Rule::AfterError, Rule::Leaked],
    },
    Lesson {
        folder: "18-one-poll-for-everything",
        title: Words::fixed(
            "one poll(2) for messages and the connection's end",
            "用一个 poll(2) 等消息和断开",
        ),
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::one_poll_for_everything::check,
        again: Again::Alike,
        rules: &[Rule::Leaked],
    },
    Lesson {
        folder: "19-datagrams",
        title: Words::fixed("take a datagram, and answer it", "收一个数据报，并回答它"),
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::datagrams::check,
        again: Again::Alike,
        rules: &[Rule::Leaked],
    },
    Lesson {
        folder: "20-shared-receives",
        title: Words::fixed(
            "one receive queue for two connections, filled when its limit says so",
            "两个连接共用一个接收队列，到了阈值再补充",
        ),
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::shared_receives::check,
        again: Again::Alike,
        rules: &[Rule::QueueFull, Rule::Overlap, Rule::Leaked],
    },
    Lesson {
        folder: "21-blast-with-credits",
        title: Words::fixed(
            "as many messages at a time as there are credits",
            "有多少信用，就同时发多少条消息",
        ),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::blast_with_credits::check,
        again: Again::Differently,
        rules: &[Rule::ReceiveLate, Rule::UnsignaledRun, Rule::QueueFull, Rule::CqFull],
    },
    Lesson {
        folder: "22-add-at-once",
        title: Words::fixed(
            "add to a counter in the peer's memory, to which others add",
            "给对端内存里的计数器做加法，别人也在加",
        ),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::add_at_once::check,
        again: Again::Never,
        rules: &[Rule::ReadDepth, Rule::UnsignaledRun, Rule::QueueFull, Rule::CqFull],
    },
    Lesson {
        folder: "23-three-clients",
        title: Words::fixed("three clients at once", "同时服务三个客户端"),
        student: Side::Server,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::three_clients::check,
        again: Again::Alike,
        rules: &[Rule::ReceiveLate, Rule::Overlap, Rule::CqFull, Rule::Leaked],
    },
    Lesson {
        folder: "24-a-race-mended",
        title: Words::fixed("a race, found and mended", "找到并改正一个竞争"),
        student: Side::Client,
        is_by_hand: false,
        peer_end: CONTENT,
        check: checkers::a_race_mended::check,
        again: Again::Alike,
        rules: &[Rule::Race, Rule::Overlap],
    },
];

impl Lesson {
    /// The one that is called so, by its number or by its folder's name.
    pub fn named(name: &str) -> Result<&'static Self, Error> {
        let number = name.parse().ok();
        let is_it = |lesson: &&Self| number == Some(lesson.number()) || lesson.folder == name;
        LESSONS.iter().find(is_it).ok_or_else(|| {
            Error::Usage(words!(
                "there is no lesson {name:?}, but 1 to {last}",
                "没有 {name:?} 这一课，只有 1 到 {last}",
                last = LESSONS.len()
            ))
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

    /// One of its pages for readers, such as `README`.
    pub fn page(&self, stem: &str, tongue: Tongue) -> Result<String, Error> {
        match tongue {
            Tongue::English => self.text(&format!("{stem}.md")),
            Tongue::Chinese => {
                self.text(&format!("{stem}.zh-CN.md")).map(|text| without_origin(&text))
            }
        }
    }

    /// Its hints, from the one that says least on.
    pub fn hints(&self, tongue: Tongue) -> Result<Vec<String>, Error> {
        let text = self.page("hints", tongue)?;
        let parts = text.split("\n---\n").map(|hint| hint.trim().to_owned());
        Ok(parts.filter(|hint| !hint.is_empty()).collect())
    }
}

/// A translation without what is for its translators: the original's checksum, and the link to it.
fn without_origin(page: &str) -> String {
    let mut text = String::new();
    for line in page.split_inclusive('\n') {
        let is_origin = line.starts_with("<!-- of: ") || line.starts_with("[English](");
        let is_one_blank_more = line == "\n" && (text.is_empty() || text.ends_with("\n\n"));
        if !is_origin && !is_one_blank_more {
            text.push_str(line);
        }
    }
    text
}

/// The top of the repository.
pub fn top() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_translation_is_shown_without_its_origin() {
        let page = "# 1. 一\n<!-- of: 0a1b2c3d -->\n\n[English](README.md)\n\n甲\n\n    乙\n";
        assert_eq!(without_origin(page), "# 1. 一\n\n甲\n\n    乙\n");
        let hints = "<!-- of: 0a1b2c3d -->\n\n[English](hints.md)\n\n甲\n\n---\n\n乙\n";
        assert_eq!(without_origin(hints), "甲\n\n---\n\n乙\n");
    }
}
