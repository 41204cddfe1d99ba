//! The rule for streams that vary for real, so that hardly two runs print the
//! same even after normalising.
//!
//! Such a stream is right if it equals one of its recordings, or else if
//!
//! 1. every line that all recordings contain equally often is there exactly that
//!    often;
//! 2. those that all contain once are in the recorded order, as far as the
//!    recordings agree on it;
//! 3. it contains no line that no recording has, numbers aside.
//!
//! Each thread is looked at for itself, and floating lines are left out, as the
//! rules of [`timing`](crate::golden::timing) say.
//!
//! For 1 and 2 lines are taken both as they are and with their numbers masked:
//! `100 recv completions` must be there if every recording has it, and `N recv
//! completions` if they differ in N.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use crate::golden::timing::{Reduced, Tolerance};
use crate::lines::common_subsequence;

static GID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b[0-9a-f]{2}(:[0-9a-f]{2}){5,}").expect("a constant pattern"));
static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(0x[0-9a-f]+|[0-9]+)").expect("a constant pattern"));

/// The line without its numbers.
pub(crate) fn masked(line: &str) -> String {
    NUMBER.replace_all(&GID.replace_all(line, "#"), "#").into_owned()
}

/// Compares a normalised stream with its normalised recordings; the error says
/// what is wrong.
pub fn check(
    actual: &[String],
    recorded: &[Vec<String>],
    tolerance: &Tolerance,
) -> Result<(), String> {
    if recorded.iter().any(|lines| lines == actual || tolerance.is_alike(actual, lines)) {
        return Ok(());
    }
    let actual = tolerance.reduce(actual);
    let recorded: Vec<_> = recorded.iter().map(|lines| tolerance.reduce(lines)).collect();
    if !recorded.iter().any(|recording| tolerance.floats_alike(&actual, recording)) {
        return Err("no recording has about as many of the floating lines".to_owned());
    }
    for thread in 0..Reduced::THREADS {
        let recorded: Vec<_> = recorded.iter().map(|r| r.thread(thread).to_vec()).collect();
        check_thread(actual.thread(thread), &recorded)?;
    }
    Ok(())
}

fn check_thread(actual: &[String], recorded: &[Vec<String>]) -> Result<(), String> {
    let mask = |lines: &[String]| -> Vec<String> { lines.iter().map(|l| masked(l)).collect() };
    let masked_recorded: Vec<_> = recorded.iter().map(|lines| mask(lines)).collect();
    let masked_actual = mask(actual);
    same_counts(actual, recorded)?;
    same_counts(&masked_actual, &masked_recorded)?;
    same_order(actual, recorded)?;
    same_order(&masked_actual, &masked_recorded)?;
    let known: BTreeSet<&String> = masked_recorded.iter().flatten().collect();
    match masked_actual.iter().position(|line| !known.contains(line)) {
        Some(at) => Err(format!("no recording has a line like {:?}", actual[at])),
        None => Ok(()),
    }
}

fn counts(lines: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line.as_str()).or_insert(0) += 1;
    }
    counts
}

/// The lines that all recordings have equally often.
fn anchors(recorded: &[Vec<String>]) -> BTreeMap<&str, usize> {
    let all: Vec<_> = recorded.iter().map(|lines| counts(lines)).collect();
    let Some((first, others)) = all.split_first() else { return BTreeMap::new() };
    let agreed = |(line, count): &(&&str, &usize)| {
        others.iter().all(|other| other.get(*line) == Some(count))
    };
    first.iter().filter(agreed).map(|(&line, &count)| (line, count)).collect()
}

fn same_counts(actual: &[String], recorded: &[Vec<String>]) -> Result<(), String> {
    let actual = counts(actual);
    for (line, count) in anchors(recorded) {
        let found = actual.get(line).copied().unwrap_or(0);
        if found != count {
            return Err(format!("every recording has {count} of {line:?}, here are {found}"));
        }
    }
    Ok(())
}

fn same_order(actual: &[String], recorded: &[Vec<String>]) -> Result<(), String> {
    let once: BTreeSet<&str> =
        anchors(recorded).into_iter().filter(|&(_, n)| n == 1).map(|(line, _)| line).collect();
    let only = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| once.contains(line.as_str())).cloned().collect()
    };
    let mut recordings = recorded.iter().map(|lines| only(lines));
    let Some(first) = recordings.next() else { return Ok(()) };
    let agreed = recordings.fold(first, |agreed, next| common_subsequence(&agreed, &next));
    let mut rest = only(actual).into_iter();
    for line in &agreed {
        if !rest.any(|next| next == *line) {
            return Err(format!("{line:?} is not where every recording has it"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn check(actual: &[String], recorded: &[Vec<String>]) -> Result<(), String> {
        super::check(actual, recorded, &Tolerance::default())
    }

    fn recorded() -> Vec<Vec<String>> {
        vec![
            lines("option count 100\ngot 17 of 20\nend\nlate"),
            lines("option count 100\nlate\ngot 18 of 20\nend"),
        ]
    }

    #[test]
    fn a_recording_or_another_number_is_right() {
        let recorded = recorded();
        assert_eq!(check(&recorded[1], &recorded), Ok(()));
        let other = lines("option count 100\nlate\ngot 3 of 20\nend");
        assert_eq!(check(&other, &recorded), Ok(()));
    }

    #[test]
    fn what_every_recording_has_must_be_there() {
        let recorded = recorded();
        for (wrong, why) in [
            ("option count 100\nend\nlate", "numbers masked: a line is missing"),
            ("option count 101\ngot 1 of 20\nend\nlate", "another number"),
            ("option count 100\ngot 1 of 20\nend\nend\nlate", "once too often"),
            ("option count 100\nend\ngot 1 of 20\nlate", "wrong order"),
            ("option count 100\ngot 1 of 20\nend\nlate\nbang", "a new line"),
            ("", "nothing"),
        ] {
            assert!(check(&lines(wrong), &recorded).is_err(), "{why}");
        }
    }

    #[test]
    fn bytes_of_an_address_are_numbers_too() {
        let one = vec![lines("GID 0f:10:11:12:13:14 ok")];
        assert_eq!(
            check(&lines("GID 0f:10:11:ff:fe:00 ok"), &one),
            Err("every recording has 1 of \"GID 0f:10:11:12:13:14 ok\", here are 0".to_owned())
        );
        let two = [one, vec![lines("GID ab:cd:ef:ab:cd:ef ok")]].concat();
        assert_eq!(check(&lines("GID 0f:10:11:ff:fe:00 ok"), &two), Ok(()));
    }
}
