//! References of a page: files, headings, and names that a file defines.
//!
//! A link whose text is a name in backticks, to a file of source, says that the file defines
//! the name: [`our_setup_qp`](../ping-sr-0/src/c_d_queue_pair.rs). A name in backticks without a link that begins like
//! the examples' own (`our_`) or like the libraries' (`ibv_`, `rdma_`, `IBV_`, …) has to be somewhere: on the page on the
//! course in an example, on other pages there or in rdma-core's headers.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use harness::site::links::slug;
use regex::Regex;

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern")
}

/// A link of a page: its text, and where it leads.
pub static LINK: LazyLock<Regex> = LazyLock::new(|| regex(r"\[([^\[\]]*)\]\(([^()\s]+)\)"));
static SPAN: LazyLock<Regex> = LazyLock::new(|| regex(r"`([^`]+)`"));
static NAME: LazyLock<Regex> = LazyLock::new(|| regex(r"^(?:\w+::)*([A-Za-z_]\w*)$"));
static CALLED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:our|ibv|rdma|IBV|RDMA|MLX5|MLX5DV)_\w+$"));

/// A page's lines that are prose, with their numbers: fenced blocks are left out.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let marks = line.trim_start().starts_with("```");
        fence ^= marks;
        !fence && !marks
    })
}

/// The code between backticks of a page's prose, with the lines' numbers.
pub fn spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(text).flat_map(|(number, line)| {
        SPAN.captures_iter(line).map(move |found| (number, found.get(1).map_or("", |m| m.as_str())))
    })
}

/// Every problem with what a page, which is in `folder`, links to.
pub fn broken(text: &str, folder: &Path) -> Vec<(usize, String)> {
    let links = prose(text)
        .flat_map(|(number, line)| LINK.captures_iter(line).map(move |link| (number, link)));
    let followed = links.map(|(number, link)| (number, follow(&link[1], &link[2], text, folder)));
    followed.filter_map(|(number, result)| Some((number, result.err()?))).collect()
}

/// The names of functions, verbs and constants that are not among `words`.
pub fn unknown(text: &str, words: &BTreeSet<String>) -> Vec<(usize, String)> {
    let wrong = spans(text).filter(|(_, span)| CALLED.is_match(span) && !words.contains(*span));
    wrong.map(|(number, span)| (number, format!("nothing is called `{span}`"))).collect()
}

fn follow(label: &str, target: &str, page: &str, folder: &Path) -> Result<(), String> {
    if target.contains("://") {
        return Ok(());
    }
    let (file, heading) = target.split_once('#').map_or((target, None), |(f, h)| (f, Some(h)));
    let path = folder.join(file);
    if !file.is_empty() && !path.exists() {
        return Err(format!("there is no {file}"));
    }
    // Code hosts show it below a folder.
    let shown = if path.is_dir() { path.join("README.md") } else { path.clone() };
    let text = || fs::read_to_string(&shown).map_err(|error| format!("{file}: {error}"));
    if let Some(heading) = heading {
        let text = if file.is_empty() { page.to_owned() } else { text()? };
        if !prose(&text).any(|(_, line)| slug(line).as_deref() == Some(heading)) {
            return Err(format!("no heading is #{heading}"));
        }
    }
    let name = label.strip_prefix('`').and_then(|label| label.strip_suffix('`'));
    let name = name.and_then(|name| NAME.captures(name)).map(|found| found[1].to_owned());
    // A file of a module is called like the module.
    let name = name.filter(|name| path.is_file() && path.file_stem() != Some(OsStr::new(name)));
    match name {
        Some(name) if !defines(&text()?, &name) => Err(format!("{file} does not define {name}")),
        _ => Ok(()),
    }
}

/// Does this source, Rust or shell, define the name?
fn defines(source: &str, name: &str) -> bool {
    let rust = r#"(?:pub(?:\([^)]*\))?\s+)?(?:(?:const|async|unsafe|extern\s+"[^"]*")\s+)*"#;
    let kinds = "fn|struct|enum|union|trait|const|static|type|mod|macro_rules!";
    regex(&format!(r"(?m)^\s*(?:{rust}(?:{kinds})\s+{name}\b|{name}\(\))")).is_match(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# The *first* page, p. 1-2\n\
        [`our_agent`](tests/pages/links.rs) and [here](#the-first-page-p-1-2)\n\
        ```c\n[text](nothing.rs) `our_nothing`\n```\n`ibv_post_recv`\n";

    fn of(page: &str) -> Vec<(usize, String)> {
        broken(page, Path::new(env!("CARGO_MANIFEST_DIR")))
    }

    #[test]
    fn a_page_that_is_right_has_no_problems() {
        assert_eq!(of(&PAGE.replace("our_agent", "follow")), []);
        assert_eq!(of("[`links`](tests/pages/links.rs)"), []);
        assert_eq!(of("[`links`](tests/pages/mod.rs) [`golden::NAME`](tests/pages/links.rs)"), []);
        assert_eq!(
            of("[`src`](src) [a page](https://example.org/#x) [`Cargo.toml`](Cargo.toml)"),
            []
        );
    }

    #[test]
    fn a_wrong_function_is_found() {
        let wrong = (2, "tests/pages/links.rs does not define our_agent".to_owned());
        assert_eq!(of(PAGE), [wrong]);
    }

    #[test]
    fn a_file_or_a_heading_that_is_not_there_is_found() {
        let one = |page: &str| of(page).remove(0).1;
        assert_eq!(one("[x](src/nothing.rs)"), "there is no src/nothing.rs");
        assert_eq!(one("[x](#nothing)"), "no heading is #nothing");
        assert_eq!(one("[x](README.md#nothing)"), "no heading is #nothing");
        assert_eq!(one("[x](../harness#nothing)"), "no heading is #nothing");
        assert_eq!(of("[x](../harness#the-site)"), []);
    }

    #[test]
    fn a_verb_that_no_example_calls_is_found() {
        let words = ["ibv_post_recv".to_owned()].into();
        assert_eq!(unknown("`ibv_post_recv` or `post_recv`", &words), []);
        let wrong = (2, "nothing is called `ibv_post_rec`".to_owned());
        assert_eq!(unknown("# One\n`ibv_post_rec` two\n", &words), [wrong]);
    }

    #[test]
    fn a_name_that_is_only_called_or_in_a_comment_is_not_defined() {
        assert!(defines("    pub unsafe fn one(x: u8) {", "one"));
        assert!(defines("stage() {", "stage"));
        for source in ["one(2);", "// fn one()", "fn one_more()", "let one = 2;"] {
            assert!(!defines(source, "one"), "{source}");
        }
    }
}
