//! A unified diff of one stream, in colour on a terminal.

use similar::TextDiff;

/// Equal lines around a change.
const CONTEXT: usize = 2;
/// Longest diff that is shown.
const MAX_LINES: usize = 60;

/// Changes that lead from the C's lines to ours; empty if nothing.
pub fn unified(name: &str, c: &[String], rust: &[String]) -> Vec<String> {
    if c == rust {
        return Vec::new();
    }
    let c: Vec<&str> = c.iter().map(String::as_str).collect();
    let rust: Vec<&str> = rust.iter().map(String::as_str).collect();
    let diff = TextDiff::from_slices(&c, &rust);
    let mut lines = vec![format!("--- C    {name}"), format!("+++ Rust {name}")];
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        lines.push(hunk.header().to_string());
        lines.extend(
            hunk.iter_changes().map(|change| format!("{}{}", change.tag(), change.value())),
        );
    }
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(format!("... and {more} lines more"));
    }
    lines
}

/// The colour of a line of a unified diff.
pub fn coloured(line: &str) -> String {
    let colour = match line.as_bytes().first() {
        _ if line.starts_with("--- ") || line.starts_with("+++ ") => "1",
        Some(b'-') => "31",
        Some(b'+') => "32",
        Some(b'@') => "36",
        _ => return line.to_owned(),
    };
    format!("\x1b[{colour}m{line}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.chars().map(String::from).collect()
    }

    #[test]
    fn a_changed_line_stands_between_its_neighbours() {
        assert!(unified("x", &lines("abc"), &lines("abc")).is_empty());
        assert_eq!(
            unified("client.stderr", &lines("abcdefg"), &lines("abcxefg")),
            [
                "--- C    client.stderr",
                "+++ Rust client.stderr",
                "@@ -2,5 +2,5 @@",
                " b",
                " c",
                "-d",
                "+x",
                " e",
                " f"
            ]
        );
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        let long = vec!["x".to_owned(); 200];
        let shown = unified("x", &[], &long);
        assert_eq!(shown.len(), MAX_LINES + 1);
        assert_eq!(shown[MAX_LINES], "... and 143 lines more");
    }
}
