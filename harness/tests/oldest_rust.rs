//! Syntax that the oldest Rust that the workspace takes does not compile and no lint notices: chains of `let`, which
//! are in Rust 1.88 and later. (`clippy::incompatible_msrv` knows the standard library's functions.)

use std::fs;
use std::path::Path;

use crate::tree::{files, top};

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Numbers of the lines at which a chain begins, as rustfmt lays it out: each further condition in a line
/// of its own, indented by one step.
fn chains(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let is_code = |line: &str| !line.trim_start().starts_with("//");
    let is_chain = |at: &usize| {
        let line = lines[*at];
        let conditions = lines[at + 1..].iter().take_while(|next| indent(next) > indent(line));
        let mut steps = conditions.filter(|next| indent(next) == indent(line) + 4);
        let begins = |word: &str| line.contains(&format!("{word} let "));
        let goes_on = steps.next().is_some_and(|next| next.trim_start().starts_with("&& "));
        is_code(line) && (begins("&&") || goes_on && (begins("if") || begins("while")))
    };
    (0..lines.len()).filter(is_chain).map(|at| at + 1).collect()
}

#[test]
fn there_are_no_chains_of_let() {
    let found = files(top(), ".rs");
    assert!(found.len() > 300, "{}", found.len());
    let here = Path::new(file!()).file_name();
    let found: Vec<String> = found
        .iter()
        .filter(|path| path.file_name() != here)
        .flat_map(|path| {
            let lines = chains(&fs::read_to_string(path).unwrap());
            lines.into_iter().map(|line| format!("{}:{line}", path.display()))
        })
        .collect();
    assert!(found.is_empty(), "chains of let, which Rust 1.85 has not:\n{}", found.join("\n"));
}

#[test]
fn a_chain_is_seen() {
    let text = "\
fn f() {
    if let Some(a) = b
        && a > 0
    {
    } else if c && let Some(d) = e {
    }
    while let Some(Field { a, .. }) = b.next()
        && !done
    {
    }
    if let Some(a) = b.filter(|a| a.is_good() && a.is_new()) {
        let c = a
            && b;
    }
    // if a && let Some(b) = c
}
";
    assert_eq!(chains(text), [2, 5, 7]);
}
