//! Tests of the whole picture: nothing is lost, nothing overlaps, arrows have both ends.

use std::collections::{HashMap, HashSet};

use serde_json::json;

use super::frame::{Lane, lane};
use super::layout::{BarKind, Kind, LINE, Layout, LineKind, MIDDLE};
use super::{Sources, html};
use crate::correlation::Correlation;
use crate::correlation::phases::Phase;
use crate::entry::{Seen, What};
use crate::testing::{
    CHANNEL, CLIENT, Run, SERVER, WR_ID, begun, header, out_of_bounds, ping_pong, queue_pair,
};
use crate::{Entry, Header};

fn runs() -> Vec<(Header, Vec<Entry>)> {
    let sample = crate::Reader::new(include_str!("../sample.shr").as_bytes()).unwrap();
    let sample = (sample.header().clone(), sample.map(Result::unwrap).collect());
    vec![sample, ping_pong(2), ping_pong(500), out_of_bounds(), three(), (header(), Vec::new())]
}

/// A ping-pong, and somebody else.
fn three() -> (Header, Vec<Entry>) {
    let mut run = Run::connected(&["server"]);
    run.put(5, 2, "process_began", json!({ "pid": 9, "role": "program", "command": ["other"] }));
    run.ping_pong(1).ends()
}

/// Entries that are not in the picture, by what it says of them.
fn left_out(layout: &Layout) -> usize {
    let of = |kind: Kind| match kind {
        Kind::Shown => 0,
        Kind::Folded { left_out, .. } => left_out,
        Kind::LeftOut { entries } => entries,
    };
    layout.blocks.iter().map(|block| of(block.kind)).sum()
}

/// A page's pictures for a screen and for a phone.
fn pictures(page: &str) -> [&str; 2] {
    let (_, wide) = page.split_once("<div class=\"wide\"").unwrap();
    let (wide, narrow) = wide.split_once("<div class=\"narrow\"").unwrap();
    [wide, narrow.split_once("</main>").unwrap().0]
}

/// How often each entry is drawn in a picture.
fn drawn(html: &str) -> HashMap<usize, usize> {
    let mut counts = HashMap::new();
    for piece in html.split("data-i=\"").skip(1) {
        if let Ok(at) = piece.split('"').next().unwrap_or("").parse() {
            *counts.entry(at).or_insert(0) += 1;
        }
    }
    counts
}

#[test]
fn each_entry_is_there_or_counted() {
    for (header, entries) in runs() {
        let correlation = Correlation::new(&header, &entries);
        let layouts = [Layout::of(&correlation), Layout::on_phone(&correlation)];
        let page = html(&header, &entries, &Sources::default());
        for (picture, layout) in pictures(&page).into_iter().zip(&layouts) {
            let placed = layout.positions.iter().flatten().count();
            let beneath: usize = correlation.beneath.values().map(Vec::len).sum();
            let not_drawn = left_out(layout) + correlation.aside.len() + beneath;
            assert_eq!(placed + not_drawn, entries.len());
            let drawn = drawn(picture);
            assert_eq!(drawn.len(), placed);
            assert!(drawn.values().all(|&count| count == 1));
        }
    }
}

#[test]
fn nothing_overlaps() {
    for (header, entries) in runs() {
        let correlation = Correlation::new(&header, &entries);
        let layouts = [Layout::of(&correlation), Layout::on_phone(&correlation)];
        layouts.iter().for_each(|layout| stands_apart(&correlation, layout));
    }
}

fn stands_apart(correlation: &Correlation<'_>, layout: &Layout) {
    for block in &layout.blocks {
        let mut below = 0.0;
        for row in &block.rows {
            assert!(row.y >= below, "rows stand one beneath the other");
            below = row.y + row.height;
            let text_columns: HashSet<_> = row.texts.iter().map(|text| text.text_column).collect();
            assert_eq!(text_columns.len(), row.texts.len(), "a text has its column for itself");
            for text in &row.texts {
                let text_column = layout.frame.text_columns[text.text_column];
                assert!(
                    text.end <= text_column.x + text_column.width + 1.0,
                    "{} {}",
                    text.name,
                    text.rest
                );
            }
            let mut marks = HashSet::new();
            for &at in &row.entries {
                // The end of a wait is where the event is that it led to.
                let kind = lane(correlation, at);
                assert!(
                    marks.insert((correlation.participant[at], kind)),
                    "a mark has its place for itself"
                );
            }
        }
        assert!(block.height >= below);
        for pause in &block.breaks {
            assert!(
                block.rows.iter().all(|row| { pause.y < row.y || pause.y > row.y + row.height })
            );
        }
        for (number, bar) in block.bars.iter().enumerate() {
            assert!(bar.from <= bar.to);
            for other in &block.bars[number + 1..] {
                let apart = (bar.x - other.x).abs() >= 7.0;
                assert!(
                    apart || bar.to <= other.from || other.to <= bar.from,
                    "bars overlap: {bar:?} {other:?}"
                );
            }
        }
    }
    let mut right = 0.0;
    for column in &layout.frame.columns {
        let (from, to) = column.span();
        assert!(from > right, "lanes of a participant stand beside those of another");
        right = to;
        assert!(to <= layout.frame.width);
    }
}

#[test]
fn arrows_have_both_ends() {
    for (header, entries) in runs() {
        let correlation = Correlation::new(&header, &entries);
        let layouts = [Layout::of(&correlation), Layout::on_phone(&correlation)];
        layouts.iter().for_each(|layout| arrows_arrive(&correlation, layout));
    }
}

fn arrows_arrive(correlation: &Correlation<'_>, layout: &Layout) {
    let mut heads = 0;
    let mut tails = 0;
    for block in &layout.blocks {
        for line in &block.lines {
            heads += usize::from(line.heads[1]);
            tails += usize::from(line.begins);
            for (x, y) in [line.from, line.to] {
                assert!((0.0..=block.height).contains(&y));
                assert!((0.0..=layout.frame.width).contains(&x));
            }
            assert!(line.entries.iter().all(|&at| layout.positions[at].is_some()));
        }
    }
    assert_eq!(heads, tails);
    let shown = |at: Option<usize>| at.is_some_and(|at| layout.positions[at].is_some());
    let met = correlation.transfers.iter().filter(|t| shown(t.executed)).map(|t| t.arrivals.len());
    let lines = layout.blocks.iter().flat_map(|block| &block.lines);
    let messages = lines.filter(|line| line.kind == LineKind::Message && line.heads[1]);
    assert_eq!(messages.count(), met.sum::<usize>(), "each message that arrived has its arrow");
}

#[test]
fn what_belongs_together_is_found() {
    let (header, entries) = ping_pong(2);
    let correlation = Correlation::new(&header, &entries);
    assert_eq!(correlation.transfers.len(), 4);
    for transfer in &correlation.transfers {
        assert!(transfer.posted.is_some() && transfer.executed.is_some());
        assert!(transfer.completion.is_some());
        let [arrival] = transfer.arrivals.as_slice() else { panic!("one receive") };
        assert!(arrival.receive.is_some() && arrival.completion.is_some());
        let sender = correlation.participant[transfer.posted.unwrap()];
        assert_eq!(correlation.of_process[&arrival.process], 1 - sender);
    }
    let name = |at: usize| match &entries[at].what {
        What::Call(call) => call.name.as_str(),
        What::ConnectionEvent(event) => event.event.name().unwrap(),
        _ => "",
    };
    let flows: Vec<_> =
        correlation.flows.iter().map(|flow| (name(flow.from), name(flow.to))).collect();
    assert_eq!(
        flows,
        [
            ("rdma_resolve_addr", "RDMA_CM_EVENT_ADDR_RESOLVED"),
            ("rdma_connect", "RDMA_CM_EVENT_CONNECT_REQUEST"),
            ("rdma_accept", "RDMA_CM_EVENT_ESTABLISHED"),
            ("RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_ESTABLISHED"),
            ("rdma_disconnect", "RDMA_CM_EVENT_DISCONNECTED"),
        ]
    );
    let connect = entries
        .iter()
        .position(|entry| matches!(&entry.what, What::Call(call) if call.name == "rdma_connect"));
    let group = &correlation.groups[correlation.groups_of[connect.unwrap()][0]];
    let names: Vec<_> = group.iter().map(|&at| name(at)).collect();
    assert_eq!(names[0], "rdma_connect");
    assert!(names.contains(&"rdma_accept"));
    assert_eq!(names.iter().filter(|name| name.ends_with("ESTABLISHED")).count(), 2);
    // The client stands left although it came later.
    assert!(correlation.participants[0].title.starts_with("ping-sr-1-client"));
}

/// Over the link a message is received before its sender knows, and who has received it is not told.
#[test]
fn a_message_over_the_link_arrives_where_it_is_received() {
    let mut run = Run::connected(&["server"]);
    let (own, peer) = (queue_pair(CLIENT), queue_pair(SERVER));
    let args = json!([["qp", {"qp": own}], ["dest_qp_num", {"qp": peer}]]);
    run.call(CLIENT, "ibv_modify_qp", args, json!([])).receive(SERVER, "at_post");
    let done = |cq: u32, qp: u32, process: u32, opcode: &str| {
        json!({
            "cq": cq, "qp": qp, "wr_id": WR_ID[process as usize], "opcode": opcode,
            "status": "IBV_WC_SUCCESS", "length": 16,
        })
    };
    for _ in 0..2 {
        run.posts(CLIENT, "IBV_WR_SEND");
    }
    for _ in 0..2 {
        run.put(9_000_000, SERVER, "completion", done(1, peer, SERVER, "IBV_WC_RECV"));
    }
    for _ in 0..2 {
        let mut executed = done(2, own, CLIENT, "IBV_WR_SEND");
        executed.as_object_mut().unwrap().remove("cq");
        run.put(9_000_000, CLIENT, "executed", executed);
        run.put(5, CLIENT, "completion", done(2, own, CLIENT, "IBV_WC_SEND"));
    }
    let (header, entries) = run.ends();
    let correlation = Correlation::new(&header, &entries);
    let layout = Layout::of(&correlation);
    let received =
        |at: &usize| matches!(&entries[*at].what, What::Completion(done) if done.qp == peer);
    let received: Vec<_> = (0..entries.len()).filter(received).collect();
    let found = correlation.transfers.iter().map(|one| one.arrivals[0]);
    let found = found.map(|arrival| (arrival.over_link, arrival.completion));
    assert_eq!(found.collect::<Vec<_>>(), [(true, Some(received[0])), (true, Some(received[1]))]);
    let lines = layout.blocks.iter().flat_map(|block| &block.lines);
    let messages = lines.filter(|line| line.kind == LineKind::Message);
    let arrows: Vec<_> = messages.map(|line| (line.from.1, line.to.1)).collect();
    let y = |at: usize| layout.positions[at].unwrap().y;
    assert_eq!(arrows, [received[0], received[1]].map(|at| (y(at), y(at))));
    let executed = correlation.transfers[0].executed.unwrap();
    assert!(y(executed) > y(received[1]), "what is acknowledged later stands lower");
}

#[test]
fn a_run_has_its_phases() {
    let (header, entries) = ping_pong(2);
    let correlation = Correlation::new(&header, &entries);
    let layout = Layout::of(&correlation);
    let headings: Vec<_> = layout.blocks.iter().filter_map(|block| block.heading).collect();
    assert_eq!(headings, [Phase::Setup, Phase::Connection, Phase::Messages, Phase::Teardown]);
}

#[test]
fn each_thread_has_its_lane() {
    let mut run = Run::connected(&["server"]);
    run.put(5, CLIENT, "wait", json!({ "thread": 9000, "on": "connection", "fd": 3 }));
    let (header, entries) = run.ping_pong(1).ends();
    let correlation = Correlation::new(&header, &entries);
    let layout = Layout::of(&correlation);
    let lanes = |participant: usize| {
        let lanes = layout.frame.columns[participant].lanes.iter();
        lanes.filter(|(lane, ..)| matches!(lane, Lane::Thread(_))).count()
    };
    assert_eq!((lanes(0), lanes(1)), (2, 1), "a side with one thread looks as ever");
    let x = |at: Option<usize>| layout.positions[at.unwrap()].unwrap().x;
    let other = entries.iter().position(|entry| entry.thread == Some(9000));
    let first = entries.iter().position(|entry| entry.thread == Some(4720 + CLIENT));
    assert!(x(other) > x(first));
    let page = html(&header, &entries, &Sources::default());
    assert!(page.contains(">main</text>") && page.contains(">2</text>"));
    assert!(page.contains("class=\"m by\""), "who has posted is told");
    assert!(!html(&header, &ping_pong(1).1, &Sources::default()).contains("class=\"m by\""));
}

/// The bar ends where it is known that the receive is there.
#[test]
fn a_receive_that_nobody_saw_posted_has_a_bar_before() {
    let (header, entries) = ping_pong(2);
    let correlation = Correlation::new(&header, &entries);
    let layout = Layout::of(&correlation);
    let is_unseen = |at: usize| matches!(&entries[at].what, What::ReceivePosted(one) if one.seen == Seen::AtMessage);
    let bars: Vec<_> = layout.blocks.iter().flat_map(|block| &block.bars).collect();
    for at in (0..entries.len()).filter(|at| is_unseen(*at)) {
        let before =
            bars.iter().find(|bar| bar.entry == at && bar.kind == BarKind::Before).unwrap();
        let known =
            bars.iter().find(|bar| bar.entry == at && bar.kind == BarKind::Receive).unwrap();
        assert!(before.from < before.to && before.to == known.from && before.x == known.x);
    }
    let (header, entries) = Run::connected(&["server"]).polled_ping_pong(2).ends();
    let page = html(&header, &entries, &Sources::default());
    let (_, paper) = page.split_once("id=\"paper\"").unwrap();
    for picture in pictures(&page).into_iter().chain([paper]) {
        // A bar that crosses a border is in two images.
        let bars = picture.split("bar receive before\" data-b=\"").skip(1);
        let bars: HashSet<_> = bars.filter_map(|bar| bar.split('"').next()).collect();
        assert_eq!(bars.len(), 2, "those that were seen at a call");
    }
}

/// All of it is as wide as a phone, and texts have their own size there.
#[test]
fn a_phone_has_texts_above_marks() {
    for (header, entries) in runs() {
        let correlation = Correlation::new(&header, &entries);
        let layout = Layout::on_phone(&correlation);
        assert!(layout.frame.width <= 390.0, "{}", layout.frame.width);
        let [text_column] = layout.frame.text_columns.as_slice() else { panic!("one column") };
        assert!(text_column.width > 280.0, "{text_column:?}");
        for row in layout.blocks.iter().flat_map(|block| &block.rows) {
            let lines = row.texts.iter().map(|text| 1 + text.more.len() + text.reason.len()).max();
            let below = MIDDLE + LINE * lines.map_or(0.0, |lines| lines as f64 - 0.5);
            assert!(lines.is_none() || row.middle > below, "{row:?}");
            let positions = row.entries.iter().filter_map(|&at| layout.positions[at]);
            assert!(positions.into_iter().all(|position| position.y == row.y + row.middle));
        }
    }
}

#[test]
fn arguments_are_never_cut() {
    let mut run = Run::connected(&["server"]);
    let args = (0..20).map(|number| json!([format!("an_argument_{number}"), number]));
    run.call(CLIENT, "ibv_create_qp", args.collect(), json!([["qp_num", {"qp": 4097}]]));
    let flags = ["IBV_ACCESS_LOCAL_WRITE", "IBV_ACCESS_REMOTE_WRITE", "IBV_ACCESS_REMOTE_READ"];
    run.call(CLIENT, "ibv_reg_mr", json!([["access", flags.join("|")]]), json!([]));
    let (header, entries) = run.ends();
    let correlation = Correlation::new(&header, &entries);
    let layout = Layout::of(&correlation);
    let texts = layout.blocks.iter().flat_map(|block| &block.rows).flat_map(|row| &row.texts);
    let all: Vec<_> = texts.flat_map(|text| text.more.iter().chain([&text.rest])).collect();
    assert!(all.iter().all(|line| !line.contains('\u{2026}')), "{all:?}");
    let all = all.into_iter().cloned().collect::<Vec<_>>().join("\n");
    assert!((0..20).all(|number| all.contains(&format!("an_argument_{number} {number}"))), "{all}");
    assert!(flags.iter().all(|flag| all.contains(flag)), "{all}");
}

/// How often programs poll in vain, and when they post receives, is chance.
#[test]
fn rounds_with_polls_are_folded() {
    let (header, entries) = Run::connected(&["server"]).polled_ping_pong(200).ends();
    let correlation = Correlation::new(&header, &entries);
    let layout = Layout::of(&correlation);
    let folds = layout.blocks.iter().filter_map(|block| match block.kind {
        Kind::Folded { rounds, .. } => Some((rounds.rounds, rounds.transfers)),
        _ => None,
    });
    assert_eq!(folds.collect::<Vec<_>>(), [(197, 394)]);
}

#[test]
fn rounds_are_folded_and_can_be_unfolded() {
    let (header, entries) = ping_pong(200);
    let correlation = Correlation::new(&header, &entries);
    let layout = Layout::of(&correlation);
    let folds: Vec<_> =
        layout.blocks.iter().filter(|b| matches!(b.kind, Kind::Folded { .. })).collect();
    let [fold] = folds.as_slice() else { panic!("one fold") };
    let Kind::Folded { rounds, left_out } = fold.kind else { panic!() };
    assert_eq!((rounds.rounds, rounds.transfers, left_out), (197, 394, 0));
    let page = html(&header, &entries, &Sources::default());
    assert!(page.contains("197 more rounds like this one"));
    // Rounds that differ are never folded.
    let mut run = Run::connected(&["server"]);
    let reason =
        json!({ "check": "receiver_not_ready", "waited": 9, "min_rnr_timer": 0, "rnr_retry": 1 });
    run.ping_pong(50)
        .posts(SERVER, "IBV_WR_SEND")
        .fails(SERVER, "IBV_WR_SEND", "IBV_WC_RNR_RETRY_EXC_ERR", reason)
        .receive(CLIENT, "at_call");
    let (header, entries) = run.ping_pong(50).ends();
    let correlation = Correlation::new(&header, &entries);
    let layout = Layout::of(&correlation);
    let failed = correlation.failures()[0];
    let place = layout.positions[failed].unwrap();
    assert!(matches!(layout.blocks[place.block].kind, Kind::Shown));
}

#[test]
fn a_long_run_gives_a_page_of_bounded_size() {
    let (header, entries) = ping_pong(2_000);
    let page = html(&header, &entries, &Sources::default());
    assert!(page.len() < 3_000_000, "{}", page.len());
    // A run without rounds is cut in the middle.
    let mut run = Run::connected(&["server"]);
    for i in 0..3_000u64 {
        let name = format!("ibv_call_{}", i * i % 7919);
        run.call(CLIENT, &name, json!([]), json!([]));
    }
    let reason = json!({ "check": "flushed" });
    run.posts(CLIENT, "IBV_WR_SEND").fails(CLIENT, "IBV_WR_SEND", "IBV_WC_LOC_QP_OP_ERR", reason);
    for i in 0..3_000u64 {
        let name = format!("ibv_call_{}", i * i % 7907);
        run.call(CLIENT, &name, json!([]), json!([]));
    }
    let (header, entries) = run.ends();
    let page = html(&header, &entries, &Sources::default());
    assert!(page.len() < 4_000_000, "{}", page.len());
    assert!(page.contains("not in this picture"));
    let correlation = Correlation::new(&header, &entries);
    let layout = Layout::of(&correlation);
    assert!(layout.positions[correlation.failures()[0]].is_some(), "a failure is always there");
}

#[test]
fn what_a_record_holds_is_never_markup() {
    let evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u{7}\u{2028}";
    let mut run = Run::connected(&[evil, evil]);
    run.call(CLIENT, evil, json!([[evil, evil]]), json!([[evil, evil]]));
    run.put(9, CLIENT, "async_event", json!({ "event": "IBV_EVENT_PORT_ERR", "place": evil }));
    let (mut header, entries) = run.ping_pong(1).ends();
    header.command = vec![evil.into()];
    header.device = evil.into();
    header.began = evil.into();
    let page = html(&header, &entries, &Sources::default());
    assert!(!page.contains("<img") && !page.contains("alert(1)</script>"));
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains('\u{7}'));
}

#[test]
fn a_failure_says_why() {
    let (header, entries) = out_of_bounds();
    let page = html(&header, &entries, &Sources::default());
    assert!(page.contains("class=\"failures\""));
    assert!(page.contains("IBV_WC_REM_ACCESS_ERR"));
    assert!(page.contains("0x1008"));
}

#[test]
fn who_hangs_is_told_at_the_top() {
    let mut run = begun();
    run.comes(1, false).waits_at_channel().put(2_000_000_000, 0, "process_ended", json!({}));
    let wait = run.entries().iter().position(|entry| matches!(entry.what, What::Wait { .. }));
    let page = html(&header(), run.entries(), &Sources::default());
    let (top, _) = page.split_once("<main").unwrap();
    let link = format!("<li><b>hangs</b> <a href=\"#\" data-go=\"{}\">ping[7]: ", wait.unwrap());
    assert!(top.contains(&link), "{top}");
    assert!(top.contains("it was never armed"), "{top}");
    let (header, entries) = ping_pong(2);
    assert!(!html(&header, &entries, &Sources::default()).contains("<b>hangs"));
}

/// The line of a wait, and the line of polls, whose entry follows them.
#[test]
fn a_hang_has_its_line() {
    let second: u64 = 1_000_000_000;
    let place =
        json!({ "function": "main", "file": "a.c", "line": 12, "module": "/a", "offset": 16 });
    let site = json!({ "call": 1, "number": 1, "place": place });
    let mut waits = begun();
    let wait = json!({ "thread": 4720, "on": "completion", "fd": CHANNEL, "site": site });
    waits.comes(1, false).put(100_000, 0, "wait", wait);
    let mut polls = begun();
    let empty = json!({ "count": 9, "first": 1_000_000, "last": second });
    let polled = json!({ "thread": 4720, "cq": 2, "found": 0, "empty": empty, "site": site });
    polls.put(second, 0, "polled", polled);
    for mut run in [waits, polls] {
        let at = run.entries().len() - 1;
        run.put(2 * second, 0, "process_ended", json!({}));
        let page = html(&header(), run.entries(), &Sources::default());
        let (top, _) = page.split_once("<main").unwrap();
        assert!(top.contains(&format!("<b>hangs</b> <a href=\"#\" data-go=\"{at}\">")), "{top}");
        assert!(top.contains("<br>in main at a.c:12</li>"), "{top}");
    }
}
