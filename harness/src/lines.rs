//! Comparing two lists of lines.

use std::fmt::Write;

/// Beyond this many cells the table of a comparison is not worth its memory.
const MAX_TABLE: usize = 4_000_000;

/// A longest list of lines that both contain in this order. For lists too long to
/// compare it is what their beginnings and ends share.
pub fn common_subsequence(a: &[String], b: &[String]) -> Vec<String> {
    matches(a, b).into_iter().map(|(i, _)| a[i].clone()).collect()
}

/// Pairs of indices of equal lines, both rising.
fn matches(a: &[String], b: &[String]) -> Vec<(usize, usize)> {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a_rest, b_rest) = (&a[head..], &b[head..]);
    let tail = a_rest.iter().rev().zip(b_rest.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a_mid, b_mid) = (&a_rest[..a_rest.len() - tail], &b_rest[..b_rest.len() - tail]);
    let mut pairs: Vec<_> = (0..head).map(|i| (i, i)).collect();
    pairs.extend(middle(a_mid, b_mid).into_iter().map(|(i, j)| (head + i, head + j)));
    pairs.extend((0..tail).rev().map(|k| (a.len() - 1 - k, b.len() - 1 - k)));
    pairs
}

/// The usual table of longest common subsequences, read from its start.
fn middle(a: &[String], b: &[String]) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    if (a.len() + 1).saturating_mul(width) > MAX_TABLE {
        return Vec::new();
    }
    let mut table = vec![0_u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            table[i * width + j] = if a[i] == b[j] {
                table[(i + 1) * width + j + 1] + 1
            } else {
                table[(i + 1) * width + j].max(table[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::new();
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            pairs.push((i, j));
            i += 1;
            j += 1;
        } else if table[(i + 1) * width + j] >= table[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// Changes that lead from `expected` to `actual`: lines that are missing
/// start with `-`, lines that are too many with `+`; a few equal lines around
/// them start with a blank. At most `max` lines.
pub fn diff(expected: &[String], actual: &[String], max: usize) -> String {
    let mut marked = Vec::new();
    let (mut i, mut j) = (0, 0);
    let end = [(expected.len(), actual.len())];
    for (next_i, next_j) in matches(expected, actual).into_iter().chain(end) {
        marked.extend(expected[i..next_i].iter().map(|line| ('-', line)));
        marked.extend(actual[j..next_j].iter().map(|line| ('+', line)));
        if let Some(line) = expected.get(next_i) {
            marked.push((' ', line));
        }
        (i, j) = (next_i + 1, next_j + 1);
    }
    let near_change = |at: usize| {
        let around = at.saturating_sub(2)..(at + 3).min(marked.len());
        marked[around].iter().any(|(mark, _)| *mark != ' ')
    };
    let mut text = String::new();
    let shown: Vec<_> = (0..marked.len()).filter(|&at| near_change(at)).collect();
    for &at in shown.iter().take(max) {
        let (mark, line) = marked[at];
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{mark} {line}");
    }
    if shown.len() > max {
        let _ = writeln!(text, "... and {} lines more", shown.len() - max);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.chars().map(String::from).collect()
    }

    #[test]
    fn subsequences() {
        assert_eq!(common_subsequence(&lines("abcde"), &lines("abde")), lines("abde"));
        assert_eq!(common_subsequence(&lines("xaybz"), &lines("ab")), lines("ab"));
        assert!(common_subsequence(&lines("abc"), &lines("")).is_empty());
    }

    #[test]
    fn a_diff_shows_what_is_missing_and_what_is_new() {
        assert_eq!(diff(&lines("abc"), &lines("abc"), 9), "");
        assert_eq!(diff(&lines("abc"), &lines("axc"), 9), "  a\n- b\n+ x\n  c\n");
        assert_eq!(diff(&lines("ab"), &lines("abc"), 9), "  a\n  b\n+ c\n");
        assert_eq!(diff(&lines(""), &lines("pqr"), 2), "+ p\n+ q\n... and 1 lines more\n");
    }
}
