//! The recorded cases can all be read, and comparing with them can fail: every
//! recording passes as itself and fails when anything in it is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use harness::golden::case::{Case, ClientProgram, Device, Item, read_cases};
use harness::golden::differences::Differences;
use harness::golden::expect::Expectation;
use harness::golden::measured;
use harness::golden::normalise::Normaliser;
use harness::golden::timing::Timing;
use harness::process::Ending;
use harness::run::Outcome;
use harness::transcript::{Line, Side, Stream, Transcript};
use regex::Regex;

fn data(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)
}

/// A finished run that printed what the files of a case hold.
fn replayed(data: &Path, case: &Case) -> Outcome {
    let folder = data.join(&case.example).join(&case.case);
    let mut transcript = Transcript::default();
    let mut endings: BTreeMap<Side, Ending> = BTreeMap::new();
    for side in Side::BOTH.into_iter().filter(|&side| case.has(side)) {
        for stream in Stream::BOTH {
            let file = folder.join(Item::Stream(side, stream).to_string());
            let bytes = std::fs::read(&file).unwrap();
            for line in harness::transcript::split_lines(&String::from_utf8_lossy(&bytes)) {
                transcript.push(line_of(side, stream, &line));
            }
        }
        let status = std::fs::read_to_string(folder.join(Item::Status(side).to_string())).unwrap();
        endings.insert(side, status.parse().unwrap());
    }
    Outcome {
        server: endings.get(&Side::Server).copied(),
        client: endings.get(&Side::Client).copied(),
        transcript,
        began: SystemTime::UNIX_EPOCH,
        elapsed: Duration::ZERO,
        never_ready: None,
    }
}

fn line_of(side: Side, stream: Stream, text: &str) -> Line {
    Line { side, stream, at: Duration::ZERO, text: text.to_owned(), complete: true }
}

/// All that a data folder holds.
struct Data {
    folder: PathBuf,
    cases: Vec<Case>,
    normaliser: Normaliser,
    timing: Timing,
}

impl Data {
    fn read(folder: &str) -> Data {
        let folder = data(folder);
        Data {
            cases: read_cases(&folder).unwrap(),
            normaliser: Normaliser::read(&folder).unwrap(),
            timing: Timing::read(&folder).unwrap(),
            folder,
        }
    }

    fn expectation(&self, case: &Case) -> Expectation {
        Expectation::read(&self.folder, case, &self.normaliser, &self.timing).unwrap()
    }

    fn complaints(&self, case: &Case, outcome: &Outcome) -> Vec<String> {
        self.expectation(case).complaints(outcome, &self.normaliser)
    }
}

#[test]
fn every_case_of_the_recordings_is_there() {
    let golden = Data::read("golden");
    assert_eq!(golden.cases.len(), 538);
    let count = |device| golden.cases.iter().filter(|case| case.device == device).count();
    assert_eq!(count(Device::Any), 170);
    assert_eq!(count(Device::One), 346);
    assert_eq!(count(Device::None), 18);
    assert_eq!(count(Device::Two), 2);
    assert_eq!(count(Device::NoneModulesLoaded), 2);
    let program =
        |program| golden.cases.iter().filter(|case| case.client_program == program).count();
    assert_eq!(program(ClientProgram::Server), 12);
    assert_eq!(program(ClientProgram::TcpConnectClose), 1);
    assert_eq!(program(ClientProgram::TcpTwoParts), 1);
    assert_eq!(golden.cases.iter().filter(|case| case.kill.is_some()).count(), 28);
}

#[test]
fn the_listed_differences_can_be_applied() {
    for data in [Data::read("golden"), Data::read("cases")] {
        let differences = Differences::read(&data.folder, &data.cases).unwrap();
        for case in &data.cases {
            let recorded = data.expectation(case);
            let listed = differences.expectation(case, &recorded, &data.normaliser).unwrap();
            if let Some((difference, expected)) = listed {
                let as_the_c = replayed(&data.folder, case);
                assert!(
                    !expected.complaints(&as_the_c, &data.normaliser).is_empty()
                        || difference.may_be_as_the_c,
                    "{}: what is listed does not differ from the recording",
                    case.name()
                );
            }
        }
    }
}

/// mc's C has a completion queue of two entries: any of its runs may lose messages if there are
/// more.
#[test]
fn wherever_mc_may_lose_messages_that_is_listed() {
    let data = Data::read("golden");
    let differences = Differences::read(&data.folder, &data.cases).unwrap();
    for case in data.cases.iter().filter(|case| case.example == "mc") {
        let lines = replayed(&data.folder, case).transcript.stream(Side::Server, Stream::Stdout);
        if lines.iter().any(|line| line == "received message 3") {
            let mut listed = differences.of("mc").filter(|difference| difference.case == case.case);
            assert!(listed.any(|difference| difference.may_be_as_the_c), "{}", case.name());
        }
    }
}

#[test]
fn every_recording_passes_as_itself() {
    let mut wrong = Vec::new();
    for data in [Data::read("golden"), Data::read("cases")] {
        for case in &data.cases {
            let complaints = data.complaints(case, &replayed(&data.folder, case));
            wrong.extend(complaints.iter().map(|what| format!("{}: {what}", case.name())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rates_and_times_of_every_recording_add_up() {
    let data = Data::read("golden");
    let mut wrong = Vec::new();
    for case in &data.cases {
        let outcome =
            Outcome { elapsed: Duration::from_secs(3600), ..replayed(&data.folder, case) };
        let complaints = measured::complaints(&outcome);
        wrong.extend(complaints.iter().map(|what| format!("{}: {what}", case.name())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Before which words a number is another one in every run; all else is compared, wherever the
/// recordings agree on it.
const VARIES: &[&str] = &[
    // what the system gives
    "cm_event_thread_id #",
    "assigned fd #",
    "num_comp_vectors #",
    "Remote rkey = #",
    "lkey=#",
    "rkey=#",
    "QP number=#",
    "QP number = #",
    "qp_num: #",
    "vendor id #",
    "part id #",
    "hardware version #",
    "buffer_info rkey #",
    "buffer_info[#] rkey #",
    "listening on port #",
    "side with pid #",
    // up to timing
    "poll ret #",
    "calls #",
    "max_spin_count #",
    // how much is published and seen between random pauses, most of all before a kill
    "pubsub-rdma-1 client.stderr: client:     # (#",
    "pubsub-rdma-2 client.stderr: client:     # (#",
    "pubsub-rdma-1 server.stderr: server:     #",
    "pubsub-rdma-1 client.stderr: client: #",
];

/// A publisher's texts are random; they stand behind one of these.
const PUBLISHED: &[&str] = &[" bytes): ", " times): ", " sofar): "];

#[test]
fn no_recording_passes_with_another_number() {
    let number = Regex::new("0x[0-9a-f]+|[0-9]+(?:\\.[0-9]+)?").unwrap();
    let mut missed = BTreeSet::new();
    let data = Data::read("golden");
    for case in &data.cases {
        let whole = replayed(&data.folder, case);
        let lines = whole.transcript.lines();
        for (at, line) in lines.iter().enumerate().take(400) {
            let item = Item::Stream(line.side, line.stream);
            if !case.deterministic.contains(&item) && !case.deterministic_if_sorted.contains(&item)
            {
                continue;
            }
            for found in number.find_iter(&line.text) {
                let is_pointer = found.as_str().starts_with("0x") && found.len() > 10;
                let before = number.replace_all(&line.text[..found.end()], "#");
                let before = format!("{} {item}: {before}", case.example);
                let is_time = found.as_str().contains('.');
                let is_published = PUBLISHED.iter().any(|text| before.contains(text));
                let varies = VARIES.iter().any(|text| before.ends_with(text));
                if is_pointer || is_time || is_published || varies {
                    continue;
                }
                let mut text = line.text.clone();
                let last = found.end() - 1..found.end();
                // neither one less nor one more, which may be right
                let other = match &text[last.clone()] {
                    "0" | "1" => "3",
                    "2" => "4",
                    _ => "1",
                };
                text.replace_range(last, other);
                let mut changed = Transcript::default();
                for (index, line) in lines.iter().enumerate() {
                    let text = if index == at { text.clone() } else { line.text.clone() };
                    changed.push(Line { text, ..line.clone() });
                }
                let outcome = Outcome { transcript: changed, never_ready: None, ..whole };
                if data.complaints(case, &outcome).is_empty() {
                    missed.insert(before);
                }
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn no_recording_passes_with_another_status() {
    for data in [Data::read("golden"), Data::read("cases")] {
        for case in &data.cases {
            for side in Side::BOTH.into_iter().filter(|&side| case.has(side)) {
                let mut outcome = replayed(&data.folder, case);
                let ending = Some(Ending::Code(77));
                match side {
                    Side::Server => outcome.server = ending,
                    Side::Client => outcome.client = ending,
                }
                assert_eq!(data.complaints(case, &outcome).len(), 1, "{} {side}", case.name());
            }
        }
    }
}

#[test]
fn no_recording_passes_with_a_line_too_many() {
    for data in [Data::read("golden"), Data::read("cases")] {
        for case in &data.cases {
            for (side, stream) in streams(case) {
                if case.truncated_to_lines.contains_key(&Item::Stream(side, stream)) {
                    continue;
                }
                let mut outcome = replayed(&data.folder, case);
                outcome.transcript.push(line_of(side, stream, "something unheard of"));
                let complaints = data.complaints(case, &outcome);
                assert_eq!(complaints.len(), 1, "{} {side}.{stream}", case.name());
            }
        }
    }
}

#[test]
fn no_recording_passes_without_its_first_or_its_last_line() {
    for data in [Data::read("golden"), Data::read("cases")] {
        for case in &data.cases {
            for (side, stream) in streams(case) {
                if case.files(Item::Stream(side, stream)).len() > 1 {
                    // The lines that a varying stream must have are tested where they are told.
                    continue;
                }
                let whole = replayed(&data.folder, case);
                let own = |line: &Line| line.side == side && line.stream == stream;
                let lines: Vec<_> = whole.transcript.lines().to_vec();
                let places: Vec<usize> = (0..lines.len())
                    .filter(|&at| own(&lines[at]) && !is_dropped(&data, case, &lines[at]))
                    .collect();
                for &at in places.first().iter().chain(&places.last()) {
                    let mut fewer = Transcript::default();
                    for (index, line) in lines.iter().enumerate() {
                        if index != *at {
                            fewer.push(line.clone());
                        }
                    }
                    let outcome = Outcome { transcript: fewer, ..replayed(&data.folder, case) };
                    let complaints = data.complaints(case, &outcome);
                    let text = &lines[*at].text;
                    assert_eq!(complaints.len(), 1, "{} {side}.{stream} {text:?}", case.name());
                }
            }
        }
    }
}

/// A kernel's Soft-RoCE may lose the acknowledgement of the last message; soft-hca may not.
#[test]
fn a_lost_acknowledgement_is_a_kernels_alone() {
    let mut data = Data::read("golden");
    let case = traced_ping(&data);
    let mut outcome = replayed(&data.folder, &case);
    outcome.server = Some("1".parse().unwrap());
    let mut lines = outcome.transcript.lines().to_vec();
    let of_server = |line: &&mut Line| line.side == Side::Server && line.stream == Stream::Stderr;
    for line in lines.iter_mut().filter(of_server) {
        match line.text.as_str() {
            "server: 2 send completed ok" => {
                let status = "ibv_poll_cq returned status 12 transport retry counter exceeded";
                line.text = format!("server: {status}");
            }
            "server: 2 recv completions, 2 send completions" => {
                line.text = "server: 2 recv completions, 1 send completions".to_owned();
            }
            _ => {}
        }
    }
    outcome.transcript = of_lines(lines);
    assert_eq!(data.complaints(&case, &outcome), Vec::<String>::new());
    data.timing.are_for_soft_hca();
    assert!(!data.complaints(&case, &outcome).is_empty());
}

/// The client may end before it has seen its last send complete; its lines and its sum agree even then.
#[test]
fn a_last_send_may_be_unseen_and_uncounted() {
    let data = Data::read("golden");
    let case = traced_ping(&data);
    let alike = |is_line_missing: bool, is_uncounted: bool| {
        let outcome = replayed(&data.folder, &case);
        let mut lines = outcome.transcript.lines().to_vec();
        lines.retain(|line| !is_line_missing || line.text != "client: 1 send completed ok");
        for line in lines.iter_mut().filter(|_| is_uncounted) {
            if line.text == "client: 2 recv completions, 2 send completions" {
                line.text = "client: 2 recv completions, 1 send completions".to_owned();
            }
        }
        let outcome = Outcome { transcript: of_lines(lines), ..outcome };
        data.complaints(&case, &outcome).is_empty()
    };
    assert!(alike(false, false));
    assert!(alike(true, true));
    assert!(!alike(true, false));
    assert!(!alike(false, true));
}

/// Two messages with `-T`.
fn traced_ping(data: &Data) -> Case {
    let found = data.cases.iter().find(|case| {
        (case.example.as_str(), case.case.as_str()) == ("ping-sr-1", "run-trace-detailed")
    });
    found.unwrap().clone()
}

fn of_lines(lines: Vec<Line>) -> Transcript {
    let mut transcript = Transcript::default();
    lines.into_iter().for_each(|line| transcript.push(line));
    transcript
}

fn streams(case: &Case) -> impl Iterator<Item = (Side, Stream)> + '_ {
    Side::BOTH
        .into_iter()
        .filter(|&side| case.has(side))
        .flat_map(|side| Stream::BOTH.into_iter().map(move |stream| (side, stream)))
}

/// Is it up to normalising or timing whether the line is there?
fn is_dropped(data: &Data, case: &Case, line: &Line) -> bool {
    let normal = data.normaliser.apply(&case.example, std::slice::from_ref(&line.text));
    let item = Item::Stream(line.side, line.stream);
    let left = data.timing.tolerance(case, item).reduce(&normal);
    left.main.is_empty() && left.apart.is_empty()
}
