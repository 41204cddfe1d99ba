//! The documentation of errors names all of them, and tests that are there.

use std::collections::BTreeSet;
use std::path::Path;

use soft_hca_verbs::{EventType, WcStatus};

use super::*;

const ERRORS: &str = include_str!("../../../docs/errors.md");

/// The cells of each row whose first one is a name that begins so.
fn rows(begin: &str) -> Vec<Vec<&'static str>> {
    let lines = ERRORS.lines().filter(|line| line.starts_with('|'));
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect();
    let mut of_name = false;
    let rows = lines.map(cells).filter(move |cells: &Vec<&str>| {
        // A row without a name is about the one above.
        of_name = if cells[0].is_empty() { of_name } else { cells[0].starts_with(begin) };
        of_name
    });
    rows.collect()
}

fn names(rows: &[Vec<&'static str>]) -> BTreeSet<String> {
    let names = rows.iter().map(|cells| cells[0].trim_matches('`'));
    names.filter(|name| !name.is_empty()).map(String::from).collect()
}

/// The sources of the crates that complete requests and raise events.
fn sources() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![root.join("core/src"), root.join("daemon/src")];
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

#[test]
fn every_status_is_documented() {
    let sources = sources();
    let is_given = |status: &&WcStatus| {
        let name = status.short_name().unwrap();
        let named = format!("status::{name}");
        let mut behind = sources.split(&named).skip(1);
        behind.any(|rest| !rest.starts_with(|c: char| c == '_' || c.is_ascii_alphanumeric()))
    };
    let given = WcStatus::ALL.iter().filter(is_given).map(WcStatus::to_string);
    assert_eq!(names(&rows("`IBV_WC_")), given.collect());
}

#[test]
fn every_event_is_documented() {
    let sources = sources();
    // A kind of `Async` has it behind its arrow.
    let is_raised = |event: &&EventType| {
        let name = event.short_name().unwrap();
        let found = [format!("=> {name},"), format!("event::{name}")];
        found.iter().any(|text| sources.contains(text))
    };
    let raised = EventType::ALL.iter().filter(is_raised).map(EventType::to_string);
    assert_eq!(names(&rows("`IBV_EVENT_")), raised.collect());
}

#[test]
fn every_error_number_is_documented() {
    let rows = rows("E");
    let mut documented = names(&rows);
    // These are named before the table as such that no program gets.
    for name in ["ECONNREFUSED", "EINTR", "EPERM", "ERESTART", "ESRCH"] {
        assert!(ERRORS.contains(name) && documented.insert(name.into()), "{name}");
    }
    assert_eq!(documented, Errno::NAMES.iter().map(|name| String::from(*name)).collect());
}

/// The file of a module, whose path begins with its crate unless it is this one's.
fn source(path: &str) -> String {
    let (sources, path) = match path.split_once("::") {
        Some(("roce", path)) => ("roce/src", path),
        Some(("daemon", path)) => ("daemon/src", path),
        Some(("preload", path)) => ("preload/src", path),
        _ => ("core/src", path),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(sources);
    // A module of tests has a file of its own or is in that of what it tests.
    let inner = path.strip_suffix("::tests").unwrap_or(path);
    let files = [path, inner].map(|path| root.join(path.replace("::", "/")).with_extension("rs"));
    let read = files.iter().find_map(|file| std::fs::read_to_string(file).ok());
    read.unwrap_or_else(|| panic!("no module {path}"))
}

/// The rows of statuses, events and error numbers.
fn documented() -> impl Iterator<Item = Vec<&'static str>> {
    ["`IBV_WC_", "`IBV_EVENT_", "E"].into_iter().flat_map(rows)
}

/// Each row says what Soft-RoCE does, the specification and adapters if they may differ from it, and
/// where that is written.
#[test]
fn every_error_is_compared() {
    for cells in documented() {
        let compared =
            if cells[0].starts_with('E') { 4..6 } else { cells.len() - 4..cells.len() - 1 };
        assert!(cells[compared].iter().all(|cell| !cell.is_empty()), "{cells:?}");
    }
}

#[test]
fn every_error_has_tests_that_are_there() {
    for cells in documented() {
        for test in cells.last().unwrap().split(", ") {
            let (module, name) = test.trim_matches('`').rsplit_once("::").unwrap();
            let definition = format!("fn {name}() {{");
            let attributed = source(module);
            let at = attributed.find(&definition).unwrap_or_else(|| panic!("no test {test}"));
            assert!(attributed[..at].trim_end().ends_with("#[test]"), "{test}");
        }
    }
}

/// The check and its values are the same where a refusal comes to: a reply of the daemon, and a trace.
#[test]
fn refusals_are_what_their_bytes_say() {
    let compared = [
        Values::default(),
        Values::of([(Label::Requested, 40_000), (Label::Limit, u64::MAX)]),
        Values::users((0..7).map(|number| (Label::Mr, number))),
    ];
    for (reason, values) in Refusal::all().zip(compared.into_iter().cycle()) {
        let bytes = Errno::EINVAL.because(reason).with(values).explanation();
        let refused = Errno::EBUSY.explained(&bytes).unwrap();
        assert_eq!((refused.number(), refused.reason()), (ErrorNumber::EBUSY.0, Some(reason)));
        assert_eq!(refused.values(), values);
        assert!((0..bytes.len()).all(|end| Errno::EBUSY.explained(&bytes[..end]).is_err()));
        assert!(Errno::EBUSY.explained(&[&bytes[..], &[0]].concat()).is_err());
    }
    let unexplained = Errno::EIO.explained(&Errno::EIO.explanation()).unwrap();
    assert_eq!((unexplained.reason(), unexplained.values()), (None, Values::default()));
}
