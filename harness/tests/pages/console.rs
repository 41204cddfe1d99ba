//! The commands of a page and what it says they print.
//!
//! In a block fenced as `console` a line that begins with `$ ` is a command, and the lines up to
//! the next one are its output; a line `...` stands for any number of lines. After a backslash a
//! command goes on in the next line. It ends with status 0, or with what a comment behind it says:
//! `# status 1`. The lines of each side of a pair are compared on their own, because the two sides
//! print at the same time.

use std::collections::BTreeSet;

use harness::examples::EXAMPLES;
use harness::golden::normalise::Normaliser;
use regex::Regex;

const GAP: &str = "...";

/// A command of a page.
#[derive(Debug, PartialEq)]
pub struct Session {
    pub line: usize,
    pub command: String,
    pub output: Vec<String>,
}

/// The commands of all `console` blocks of a page.
pub fn sessions(page: &str) -> Vec<Session> {
    let mut found: Vec<Session> = Vec::new();
    let mut fence = None;
    for (number, line) in (1..).zip(page.lines()) {
        if let Some(language) = line.strip_prefix("```") {
            fence = if fence.is_none() { Some(language) } else { None };
        } else if fence == Some("console") {
            if let Some(command) = line.strip_prefix("$ ") {
                let command = command.to_owned();
                found.push(Session { line: number, command, output: Vec::new() });
            } else if let Some(session) = found.last_mut() {
                if session.command.ends_with('\\') {
                    session.command.push_str(&format!("\n{line}"));
                } else {
                    session.output.push(line.to_owned());
                }
            }
        }
    }
    found
}

impl Session {
    /// The status that the command has to end with.
    pub fn status(&self) -> i32 {
        let said = self.command.rsplit_once("# status ").map(|(_, status)| status.trim());
        said.and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// The example that the command runs: the longest name, as one may begin like another.
    fn example(&self) -> &'static str {
        let named = EXAMPLES.iter().map(|example| example.name);
        let named = named.filter(|name| self.command.contains(name));
        named.max_by_key(|name| name.len()).unwrap_or("")
    }

    /// Lines of the output that are not as the page shows them.
    pub fn differences(&self, rules: &Normaliser, actual: &str) -> Vec<String> {
        let actual: Vec<String> = actual.lines().map(str::to_owned).collect();
        let shown = Sides::new(rules, self.example(), &self.output);
        let actual = Sides::new(rules, self.example(), &actual);
        let has_gap = self.output.iter().any(|line| line == GAP);
        let mut found = Vec::new();
        for label in shown.labels().union(&actual.labels()) {
            let (shown, actual) = (shown.of(label), actual.of(label));
            let silent = shown.iter().all(|line| *line == GAP);
            if !(silent && has_gap || fits(&shown, &actual)) {
                found.push(format!(
                    "{label:?} is shown as\n    {}\nbut printed\n    {}",
                    shown.join("\n    "),
                    actual.join("\n    ")
                ));
            }
        }
        found
    }
}

/// Lines by the side that printed them, without what differs from run to run.
struct Sides(Vec<(String, String)>);

impl Sides {
    fn new(rules: &Normaliser, example: &str, lines: &[String]) -> Sides {
        let duration = Regex::new(r"\d+\.\d s\b").expect("a constant pattern");
        let lines = lines.iter().flat_map(|line| {
            let (label, text) = line.split_once("| ").unwrap_or(("", line));
            let text = match label {
                "" => duration.replace_all(text, "TIME s").into_owned(),
                _ => text.to_owned(),
            };
            let kept = rules.apply(example, &[text]);
            kept.into_iter().map(|text| (label.to_owned(), text.trim_end().to_owned()))
        });
        Sides(lines.collect())
    }

    fn labels(&self) -> BTreeSet<&str> {
        self.0.iter().filter(|(_, text)| text != GAP).map(|(label, _)| label.as_str()).collect()
    }

    /// A gap is one in the output of every side.
    fn of(&self, label: &str) -> Vec<&str> {
        let lines = self.0.iter().filter(|(side, text)| side == label || text == GAP);
        lines.map(|(_, text)| text.as_str()).collect()
    }
}

/// Are these the lines shown, up to gaps?
fn fits<'a>(shown: &[&'a str], mut actual: &[&'a str]) -> bool {
    let mut parts = shown.split(|line| *line == GAP);
    let first = parts.next().unwrap_or_default();
    let Some(rest) = actual.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    actual = rest;
    for part in parts {
        let place = (0..=actual.len()).find(|&at| actual[at..].starts_with(part));
        let Some(at) = place else { return false };
        actual = &actual[at + part.len()..];
    }
    actual.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const PAGE: &str = "text\n```console\n$ ./demo ping-sr-0 -c 3\nserver| server: one\n...\n\
        client| client: cm_id 0x55aa55aa55aa\nclient| client: two\nping-sr-0: ok (0.1 s)\n\
        $ false \\\n    one # status 1\n```\n```text\n$ no command\n```\n";

    fn rules() -> Normaliser {
        Normaliser::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")).unwrap()
    }

    fn differences(output: &str) -> usize {
        sessions(PAGE)[0].differences(&rules(), output).len()
    }

    #[test]
    fn commands_and_their_outputs_are_found() {
        let found = sessions(PAGE);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[0].status(), found[0].output.len()), (3, 0, 5));
        assert_eq!((found[1].line, found[1].status(), found[1].output.len()), (9, 1, 0));
        assert_eq!(found[1].command, "false \\\n    one # status 1");
        assert_eq!(found[0].example(), "ping-sr-0");
        assert_eq!(found[1].example(), "");
    }

    const OUTPUT: &str = "server| server: one\nclient| client: more\n\
        client| client: cm_id 0x7f00aa55aa55\nserver| server: more\nclient| client: two\n\
        ping-sr-0: ok (12.3 s)\n";

    #[test]
    fn times_and_pointers_may_differ_and_sides_may_mix() {
        assert_eq!(differences(OUTPUT), 0);
    }

    #[test]
    fn wrong_output_is_found() {
        for (from, to) in [
            ("server: one", "server: 1"),
            ("server: one", "server: one\nserver| server: one"),
            ("client: two\n", ""),
            ("client: two", "client: two\nclient| client: three"),
            ("client: cm_id 0x7f00aa55aa55\n", "client: cm_id none\n"),
            ("ok", "FAILED"),
        ] {
            let output = OUTPUT.replace(from, to);
            assert_ne!(output, OUTPUT);
            // A line too many in front of a gap is not told from one in it.
            let is_found = !to.ends_with("server: one");
            assert_eq!(differences(&output) > 0, is_found, "{from:?} as {to:?}");
        }
    }

    #[test]
    fn a_side_that_is_not_shown_is_found_where_nothing_is_left_out() {
        let page = "```console\n$ ./demo mc\nserver| one\n```\n";
        let session = &sessions(page)[0];
        assert!(session.differences(&rules(), "server| one\n").is_empty());
        assert_eq!(session.differences(&rules(), "server| one\nclient| two\n").len(), 1);
        assert_eq!(session.differences(&rules(), "").len(), 1);
    }

    #[test]
    fn gaps_stand_for_any_number_of_lines() {
        assert!(fits(&["a", "b"], &["a", "b"]));
        assert!(!fits(&["a"], &["a", "b"]));
        assert!(!fits(&["b"], &["a", "b"]));
        assert!(fits(&["a", GAP], &["a", "b"]));
        assert!(fits(&[GAP, "b"], &["a", "b"]));
        assert!(fits(&["a", GAP, "b"], &["a", "b"]));
        assert!(fits(&["a", GAP, "b", GAP, "c"], &["a", "x", "b", "y", "c"]));
        assert!(!fits(&["a", GAP, "c", GAP, "b"], &["a", "b", "c"]));
        assert!(!fits(&["a", GAP, "a"], &["a"]));
    }
}
