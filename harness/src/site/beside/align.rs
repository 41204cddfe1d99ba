//! Alignment of the lines of the C with those of the Rust beside them.
//!
//! Lines belong together if both call the same function, or if half of their words are the same: names, numbers,
//! and those of messages and comments. Of all ways to pair lines in their order the one with the most in common is
//! taken.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

/// Lines that are read together: a paragraph of either side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Its rows.
    pub rows: Vec<Row>,
}

/// Lines that stand beside each other, by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The line of the C.
    pub c: Option<usize>,
    /// The line of the Rust.
    pub rust: Option<usize>,
}

/// A name, and what shows that it is called.
static WORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(\w+)(!?\()?").expect("a constant pattern"));

/// Words that say nothing about what a line does.
const COMMON: [&str; 26] = [
    "as", "break", "char", "const", "else", "fn", "for", "goto", "if", "int", "let", "long", "mut",
    "pub", "ret", "return", "safety", "sizeof", "some", "static", "struct", "switch", "unsafe",
    "unsigned", "void", "while",
];

/// Names of the C whose Rust counterparts have other names.
const SAME: [(&str, &str); 6] = [
    ("fprintf", "errln"),
    ("memset", "zeroed"),
    ("nullmut", "null"),
    ("printf", "outln"),
    ("pthreadcreate", "spawn"),
    ("pthreadjoin", "join"),
];

/// Weight of a name that is called, where other words weigh 1.
const CALL: u32 = 3;
/// Added to the likeness of two lines that have a call in common: as much as that of equal lines.
const SAME_CALL: u32 = 100;
/// Least likeness of two lines that have none, in hundredths.
const ALIKE: u32 = 50;

/// The words of a line, each with whether it is called.
fn words(line: &str) -> BTreeMap<String, bool> {
    let (mut words, is_comment) = (BTreeMap::new(), is_comment(line));
    for word in WORD.captures_iter(line) {
        // our_control is OurControl in Rust.
        let name = word[1].to_lowercase().replace('_', "");
        let is_number = name.starts_with(|first: char| first.is_ascii_digit());
        if COMMON.contains(&name.as_str()) || name.len() < 2 && !is_number {
            continue;
        }
        let same = SAME.iter().find(|(c, _)| *c == name);
        let name = same.map_or(name, |(_, rust)| (*rust).to_owned());
        *words.entry(name).or_default() |= word.get(2).is_some() && !is_comment;
    }
    words
}

/// How much two lines have in common; 0 if they do not belong together.
fn in_common(c: &BTreeMap<String, bool>, rust: &BTreeMap<String, bool>) -> u32 {
    let weight = |is_call: bool| if is_call { CALL } else { 1 };
    let all =
        |words: &BTreeMap<String, bool>| words.values().map(|&call| weight(call)).sum::<u32>();
    let shared = || c.iter().filter_map(|(word, call)| Some((*call, *rust.get(word)?)));
    let both: u32 = shared().map(|(c, rust)| weight(c) + weight(rust)).sum();
    if both == 0 {
        return 0;
    }
    let alike = 100 * both / (all(c) + all(rust));
    match shared().any(|(c, rust)| c && rust) {
        true => SAME_CALL + alike,
        false if alike >= ALIKE => alike,
        false => 0,
    }
}

/// The pairs of lines that belong together, in order.
fn pairs(c: &[String], rust: &[String]) -> Vec<(usize, usize)> {
    let [c, rust] = [c, rust].map(|lines| lines.iter().map(|line| words(line)).collect::<Vec<_>>());
    // The most that the lines from here on can have in common.
    let mut most = vec![vec![0; rust.len() + 1]; c.len() + 1];
    let mut common = vec![vec![0; rust.len()]; c.len()];
    for i in (0..c.len()).rev() {
        for j in (0..rust.len()).rev() {
            common[i][j] = in_common(&c[i], &rust[j]);
            let with = if common[i][j] > 0 { common[i][j] + most[i + 1][j + 1] } else { 0 };
            most[i][j] = with.max(most[i + 1][j]).max(most[i][j + 1]);
        }
    }
    let (mut pairs, mut i, mut j) = (Vec::new(), 0, 0);
    while i < c.len() && j < rust.len() {
        if common[i][j] > 0 && most[i][j] == common[i][j] + most[i + 1][j + 1] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if most[i][j] == most[i + 1][j] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// Is it a comment, or an attribute, of what follows?
pub fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    let begins = ["//", "/*", "* ", "*\t", "*/", "#["];
    begins.iter().any(|begin| line.starts_with(begin)) || line.trim_end() == "*"
}

/// Lines that are in no pair.
struct Gap<'l> {
    lines: &'l [String],
    from: usize,
    /// How many of them belong to what was before; the others are comments of the line that follows.
    behind: usize,
}

impl<'l> Gap<'l> {
    fn new(lines: &'l [String], from: usize, to: usize) -> Self {
        let gap = &lines[from..to];
        let above = gap.iter().rev().take_while(|line| is_comment(line)).count();
        Self { lines: gap, from, behind: gap.len() - above }
    }

    fn above(&self) -> usize {
        self.lines.len() - self.behind
    }

    fn is_paragraph(&self) -> bool {
        self.behind > 0 && self.lines[self.behind - 1].trim().is_empty()
    }

    /// The index of its line `at`, counted from `base`, if that is one of `count`.
    fn index(&self, base: usize, at: Option<usize>, count: usize) -> Option<usize> {
        at.filter(|&at| at < count).map(|at| self.from + base + at)
    }
}

/// All lines of both, in rows, the rows in steps.
pub fn steps(c: &[String], rust: &[String]) -> Vec<Step> {
    let (mut steps, mut step) = (Vec::new(), Step::default());
    let (mut i, mut j) = (0, 0);
    let pairs = pairs(c, rust);
    for pair in pairs.iter().map(|pair| Some(*pair)).chain([None]) {
        let (to_c, to_rust) = pair.unwrap_or((c.len(), rust.len()));
        let (left, right) = (Gap::new(c, i, to_c), Gap::new(rust, j, to_rust));
        for row in 0..left.behind.max(right.behind) {
            step.rows.push(Row {
                c: left.index(0, Some(row), left.behind),
                rust: right.index(0, Some(row), right.behind),
            });
        }
        if (left.is_paragraph() || right.is_paragraph()) && !step.rows.is_empty() {
            steps.push(std::mem::take(&mut step));
        }
        // Comments end above what they are about.
        let above = left.above().max(right.above());
        for row in 0..above {
            let at = |gap: &Gap<'_>| (row + gap.above()).checked_sub(above);
            step.rows.push(Row {
                c: left.index(left.behind, at(&left), left.above()),
                rust: right.index(right.behind, at(&right), right.above()),
            });
        }
        if let Some((c, rust)) = pair {
            step.rows.push(Row { c: Some(c), rust: Some(rust) });
            (i, j) = (c + 1, rust + 1);
        }
    }
    steps.extend(Some(step).filter(|step| !step.rows.is_empty()));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(String::from).collect()
    }

    /// The rows, with `-` where nothing is, `|` between the sides and `=` between steps.
    fn drawn(c: &str, rust: &str) -> Vec<String> {
        let (c, rust) = (lines(c), lines(rust));
        let mut drawn = Vec::new();
        for step in steps(&c, &rust) {
            let cell = |lines: &[String], at: Option<usize>| {
                at.map_or("-".to_owned(), |at| lines[at].trim().to_owned())
            };
            let row = |row: &Row| format!("{} | {}", cell(&c, row.c), cell(&rust, row.rust));
            drawn.extend(step.rows.iter().map(row));
            drawn.push("=".to_owned());
        }
        drawn
    }

    #[test]
    fn the_same_call_stands_on_the_same_row() {
        let c = "int ret;\nerrno = 0;\nret = rdma_connect(id, &params);\nif (ret != 0)\n\tgoto out0;\n\
                 fprintf(stderr, \"%s: connected\\n\", message);\nout0:\nreturn ret;";
        let rust = "errno::set(0);\n// SAFETY: it is alive.\n// And so is that.\n\
                    let ret = unsafe { rdma_connect(id, &mut params) };\nif ret != 0 {\n\
                    return Err(Reported);\n}\nerrln!(\"{message}: connected\");\nOk(())";
        assert_eq!(
            drawn(c, rust),
            [
                "int ret; | -",
                "errno = 0; | errno::set(0);",
                "- | // SAFETY: it is alive.",
                "- | // And so is that.",
                "ret = rdma_connect(id, &params); | let ret = unsafe { rdma_connect(id, &mut params) };",
                "if (ret != 0) | if ret != 0 {",
                "goto out0; | return Err(Reported);",
                "- | }",
                "fprintf(stderr, \"%s: connected\\n\", message); | errln!(\"{message}: connected\");",
                "out0: | Ok(())",
                "return ret; | -",
                "=",
            ]
        );
    }

    #[test]
    fn a_blank_line_begins_a_step_with_the_comment_above_its_call() {
        let c = "one(1);\n\n/* the second */\ntwo(2);";
        let rust = "one(1);\ntwo(2);\nthree(3);";
        assert_eq!(
            drawn(c, rust),
            [
                "one(1); | one(1);",
                " | -",
                "=",
                "/* the second */ | -",
                "two(2); | two(2);",
                "- | three(3);",
                "="
            ]
        );
    }

    #[test]
    fn every_line_is_there_once_and_in_order() {
        let c = lines("one\ntwo(1)\n\n// x\nthree(2)\nfour(3)\n// y");
        let rust = lines("three(2)\n\ntwo(1)\nfour(3)\n\n// z\n// z\ntwo(1)");
        for (c, rust) in [(&c[..], &rust[..]), (&rust, &c), (&c, &[]), (&[], &rust), (&[], &[])] {
            let steps = steps(c, rust);
            let rows = || steps.iter().flat_map(|step| &step.rows);
            let of_c: Vec<usize> = rows().filter_map(|row| row.c).collect();
            let of_rust: Vec<usize> = rows().filter_map(|row| row.rust).collect();
            assert_eq!(of_c, (0..c.len()).collect::<Vec<_>>());
            assert_eq!(of_rust, (0..rust.len()).collect::<Vec<_>>());
        }
    }
}
