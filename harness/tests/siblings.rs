//! The examples' sources have one way to write what all of them write, and are for readers alone.

use std::fs;

use harness::examples::EXAMPLES;
use regex::Regex;

use crate::tree::{files, top};

/// Spellings that no example has, and those that it has instead.
const WAYS: [(&str, &str); 6] = [
    (r"\bBigEndian\b", "NetworkEndian, as the bytes are on the wire"),
    (r"\b(to|from)_[bl]e_bytes\b", "NetworkEndian for numbers in bytes"),
    (r"\b(wr_t|ud_t|rdma_t|atomic_t)\s*\{", "the members of the union, as in C"),
    (r"(?m)^\s*_ = ", "`let _ =` for a result that is not looked at"),
    (r"\blet _ = unsafe\b", "the call alone, whose number is not looked at"),
    (r"#\[path\b", "tests at the end of the file that they are of"),
];

/// The ways that are not those of the examples, by their names.
fn others(text: &str) -> Vec<&'static str> {
    let is_there = |pattern: &str| Regex::new(pattern).unwrap().is_match(text);
    WAYS.iter().filter(|(pattern, _)| is_there(pattern)).map(|(_, instead)| *instead).collect()
}

#[test]
fn siblings_write_alike() {
    let mut problems = Vec::new();
    for example in EXAMPLES {
        let folder = top().join(example.name);
        for file in files(&folder.join("src"), ".rs") {
            let text = fs::read_to_string(&file).unwrap();
            let found = others(&text).into_iter().map(|way| format!("{}: {way}", file.display()));
            problems.extend(found);
        }
        if folder.join("unit").exists() {
            problems.push(format!("{}: tests stand at the end of the file", folder.display()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// `unsafe` blocks that all of the suite's examples have give the same reasons.
#[test]
fn work_requests_are_posted_alike() {
    let sources: Vec<_> = EXAMPLES
        .iter()
        .map(|example| top().join(example.name).join("src/send_recv.rs"))
        .filter_map(|file| fs::read_to_string(&file).ok())
        .collect();
    assert!(sources.len() > 10);
    assert!(sources.iter().all(|source| *source == sources[0]));
}

#[test]
fn another_way_is_found() {
    for (text, way) in [
        ("use byteorder::{BigEndian, ByteOrder};", WAYS[0].1),
        ("let [high, low] = number.to_be_bytes();", WAYS[1].1),
        ("wr.wr = wr_t { ud };", WAYS[2].1),
        ("    _ = close();", WAYS[3].1),
        ("let _ = unsafe { ibv_destroy_cq(cq) };", WAYS[4].1),
        ("#[path = \"../unit/apm.rs\"]\nmod tests;", WAYS[5].1),
    ] {
        assert_eq!(others(text), [way], "{text}");
    }
    assert!(others("let _ = step(); wr.imm_data = number.to_be();").is_empty());
}
