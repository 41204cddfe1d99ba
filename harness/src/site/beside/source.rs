//! A source of C or Rust, cut into its functions and what is around them.

use std::path::PathBuf;
use std::sync::LazyLock;

use regex::Regex;

/// A function outside of other items, as rustfmt writes its first line; its name is the group.
pub(crate) static FUNCTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?m)^(?:pub(?:\(crate\))? )?(?:unsafe )?(?:extern "C" )?fn (\w+)"#)
        .expect("a constant pattern")
});

/// A function with the comment above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its lines, without line ends.
    pub lines: Vec<String>,
}

/// A source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path, as a reader is told it.
    pub path: PathBuf,
    /// Lines outside of functions, without line ends.
    pub declarations: Vec<String>,
    /// Its functions in their order.
    pub functions: Vec<Function>,
}

/// Where a function is: its name, and the numbers of its first line, comments apart, and of its last.
type Span = (String, usize, usize);

impl Source {
    /// A source in Rust, formatted as by rustfmt.
    pub fn rust(path: PathBuf, text: &str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let mut spans = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let Some(function) = FUNCTION.captures(line) else { continue };
            let rest = if line.ends_with('}') { &[][..] } else { &lines[at..] };
            let end = rest.iter().position(|line| *line == "}");
            spans.push((function[1].to_owned(), at, end.map_or(at, |end| at + end)));
        }
        let is_above = |at: usize| {
            let line = lines[at];
            line.starts_with("//") && !line.starts_with("//!") || line.starts_with("#[")
        };
        Self::cut(path, &lines, &spans, is_above)
    }

    /// A source in C.
    pub fn c(path: PathBuf, text: &str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let code = code(text);
        let spans = c_functions(&code);
        let is_above = |at: usize| code[at].in_comment && code[at].text.trim().is_empty();
        Self::cut(path, &lines, &spans, is_above)
    }

    /// `is_above` tells of a line whether it belongs to the function beneath.
    fn cut(
        path: PathBuf,
        lines: &[&str],
        spans: &[Span],
        is_above: impl Fn(usize) -> bool,
    ) -> Self {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let (mut declarations, mut functions, mut from) = (Vec::new(), Vec::new(), 0);
        for (name, start, end) in spans {
            let above = (from..*start).rev().take_while(|&at| is_above(at)).count();
            declarations.extend_from_slice(&lines[from..start - above]);
            let lines = owned(&lines[start - above..=*end]);
            functions.push(Function { name: name.clone(), lines });
            from = end + 1;
        }
        declarations.extend_from_slice(&lines[from..]);
        // One blank line is left of several.
        declarations.dedup_by(|line, before| line.trim().is_empty() && before.trim().is_empty());
        let is_text = |line: &&str| !line.trim().is_empty();
        let first = declarations.iter().position(is_text).unwrap_or(declarations.len());
        let last = declarations.iter().rposition(is_text).map_or(first, |last| last + 1);
        Self { path, declarations: owned(&declarations[first..last]), functions }
    }
}

/// A line of C as the compiler sees it.
#[derive(Debug, Default)]
struct Code {
    /// Without comments, directives, and what is in literals.
    text: String,
    /// Whether a part of it is a comment.
    in_comment: bool,
}

/// The kind of text that a character of C belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Code,
    LineComment,
    BlockComment,
    Literal(char),
}

/// Lines of C as the compiler sees them.
fn code(text: &str) -> Vec<Code> {
    let (mut lines, mut line, mut state) = (Vec::new(), Code::default(), In::Code);
    let mut is_directive = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\n' {
            let goes_on = line.text.ends_with('\\');
            if is_directive {
                line.text.clear();
            }
            lines.push(std::mem::take(&mut line));
            is_directive &= goes_on;
            state = if goes_on || state == In::BlockComment { state } else { In::Code };
            line.in_comment = state == In::BlockComment;
            continue;
        }
        let next = characters.peek().copied();
        match (state, character, next) {
            (In::Code, '/', Some('*')) => {
                (state, line.in_comment) = (In::BlockComment, true);
                characters.next();
            }
            (In::Code, '/', Some('/')) => (state, line.in_comment) = (In::LineComment, true),
            (In::BlockComment, '*', Some('/')) => {
                state = In::Code;
                characters.next();
            }
            (In::Code, '"' | '\'', _) => state = In::Literal(character),
            (In::Literal(quote), _, _) if character == quote => state = In::Code,
            // The next character is part of the literal, too, unless the line ends.
            (In::Literal(_), '\\', Some(next)) if next != '\n' => {
                characters.next();
            }
            (In::Literal(_), '\\', _) => line.text.push('\\'),
            (In::Code, _, _) => {
                is_directive |= character == '#' && line.text.trim().is_empty();
                line.text.push(character);
            }
            _ => {}
        }
    }
    lines.push(line);
    lines
}

/// Blocks that stand outside of others and follow a list of parameters.
fn c_functions(code: &[Code]) -> Vec<Span> {
    let (mut spans, mut depth) = (Vec::new(), 0_usize);
    // The text before a block, the number of its first line, and the function whose body it is.
    let (mut head, mut start, mut function) = (String::new(), 0, None);
    for (at, line) in code.iter().enumerate() {
        for character in line.text.chars().chain(['\n']) {
            match character {
                '{' => {
                    if depth == 0 {
                        function = head.trim_end().ends_with(')').then(|| name(&head)).flatten();
                    }
                    depth += 1;
                }
                '}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        spans.extend(function.take().map(|name| (name, start, at)));
                        head.clear();
                    }
                }
                ';' if depth == 0 => head.clear(),
                _ if depth == 0 => {
                    if head.is_empty() && character.is_whitespace() {
                        continue;
                    }
                    start = if head.is_empty() { at } else { start };
                    head.push(character);
                }
                _ => {}
            }
        }
    }
    spans
}

/// The word before the first parenthesis.
fn name(head: &str) -> Option<String> {
    let before = head.split_once('(')?.0.trim_end();
    let is_of_name = |character: char| character.is_alphanumeric() || character == '_';
    let name = &before[before.trim_end_matches(is_of_name).len()..];
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(source: &Source) -> Vec<&str> {
        source.functions.iter().map(|function| function.name.as_str()).collect()
    }

    #[test]
    fn c_is_cut_at_its_functions() {
        let text = "/* licence */\n\n#define OPEN(x) /* { */ { \\\n  {\nstruct a {\n\tint b;\n};\n\n\n\
                    static int one(void);\n/* adds\n\n   one } */\nstatic int\none(void)\n{\n\
                    \tchar c = '{', *d = \"\\\"}\"; // }\n\tif (c) {\n\t}\n}\t/* one */\n\
                    struct a *two(int x) { return 0; }\n\nint table[] = { 1, 2 };\n";
        let source = Source::c("x.c".into(), text);
        assert_eq!(names(&source), ["one", "two"]);
        let one = &source.functions[0].lines;
        assert_eq!(one[0], "/* adds", "{one:?}");
        assert_eq!(one.last().map(String::as_str), Some("}\t/* one */"));
        assert_eq!(source.functions[1].lines, ["struct a *two(int x) { return 0; }"]);
        let others = source.declarations.join("\n");
        assert!(others.starts_with("/* licence */\n\n#define"), "{others}");
        assert!(
            others.contains("static int one(void);") && others.ends_with("int table[] = { 1, 2 };")
        );
        assert!(!others.contains("\n\n\n") && !others.contains("adds"), "{others}");
    }

    #[test]
    fn a_body_without_end_is_no_function() {
        let source = Source::c("x.c".into(), "int one(void)\n{\n\tif (1) {\n");
        assert_eq!(names(&source), [""; 0]);
        assert_eq!(source.declarations.len(), 3);
    }

    #[test]
    fn rust_is_cut_at_its_functions() {
        let text = "//! A file.\n\nuse a::b;\n\n/// One.\n#[inline]\npub fn one(x: u8) -> u8 {\n    \
                    x\n}\n\nstruct A;\n\nimpl A {\n    fn method() {}\n}\n\nfn nothing() {}\n";
        let source = Source::rust("x.rs".into(), text);
        assert_eq!(names(&source), ["one", "nothing"]);
        assert_eq!(source.functions[0].lines[0], "/// One.");
        assert_eq!(source.functions[0].lines.len(), 5);
        assert!(source.declarations.join("\n").ends_with("fn method() {}\n}"));
    }

    #[test]
    fn no_line_of_the_examples_is_lost() {
        let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for example in crate::examples::EXAMPLES {
            for path in crate::site::contents::sources(top, example.name).unwrap() {
                let text = std::fs::read_to_string(top.join(&path)).unwrap();
                let source = Source::rust(path, &text);
                let functions = source.functions.iter().flat_map(|function| &function.lines);
                let mut found: Vec<_> = source.declarations.iter().chain(functions).collect();
                let mut all: Vec<_> = text.lines().collect();
                found.retain(|line| !line.is_empty());
                all.retain(|line| !line.is_empty());
                found.sort();
                all.sort_unstable();
                assert_eq!(found, all, "{}", source.path.display());
            }
        }
    }
}
