//! Targets of a page's links, and where they are in the book.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Larger files are copied, and no pages.
const MOST_BYTES: u64 = 200_000;

/// A link of Markdown: its `text`, and its `target`.
pub(crate) static LINK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)\)").expect("a constant pattern")
});

/// Target of a link, by its path from the top of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A page of the book.
    Page(PathBuf),
    /// A file that is copied as it is.
    File(PathBuf),
}

/// Targets in the repository of a page's links.
pub fn targets(text: &str, page: &Path, top: &Path) -> Vec<Target> {
    let mut found = Vec::new();
    each(text, |link| {
        found.extend(target(&link["target"], page, top));
        None
    });
    found
}

/// A page's text with its links as they are in the book.
pub fn in_book(text: &str, page: &Path, top: &Path) -> String {
    each(text, |link| {
        let place = match target(&link["target"], page, top)? {
            Target::Page(page) => place(&page, top),
            Target::File(file) => file,
        };
        let heading = link["target"].split_once('#').map(|(_, heading)| format!("#{heading}"));
        let to = relative(&self::place(page, top), &place);
        Some(format!("[{}]({to}{})", &link["text"], heading.unwrap_or_default()))
    })
}

/// Where a page is in the book.
pub fn place(page: &Path, top: &Path) -> PathBuf {
    if page.file_name().is_some_and(|name| name == "README.md") {
        page.with_file_name("index.md")
    } else if page.extension().is_some_and(|extension| extension == "md") {
        page.to_owned()
    } else if top.join(page).is_dir() {
        page.join("index.md")
    } else {
        let mut name = page.as_os_str().to_owned();
        name.push(".md");
        name.into()
    }
}

/// How the file `from` links to `to`.
pub fn relative(from: &Path, to: &Path) -> String {
    let from: Vec<_> = from.parent().into_iter().flat_map(Path::components).collect();
    let to: Vec<_> = to.components().collect();
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from[common..].iter().map(|_| "..".into());
    let down = to[common..].iter().map(|part| part.as_os_str().to_string_lossy());
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// Name of a heading in links, as code hosts and mdBook have it. None of a line that is no heading.
pub fn slug(line: &str) -> Option<String> {
    let title = line.trim_start_matches('#');
    let is_heading = title.len() < line.len() && title.starts_with(' ');
    is_heading.then(|| {
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// Replaces each link of the prose for which there is something else.
fn each(text: &str, mut replace: impl FnMut(&Captures<'_>) -> Option<String>) -> String {
    let mut is_code = false;
    let mut line = |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence {
            return line.to_owned();
        }
        let with = |link: &Captures<'_>| replace(link).unwrap_or_else(|| link[0].to_owned());
        LINK.replace_all(line, with).into_owned()
    };
    text.split_inclusive('\n').map(&mut line).collect()
}

/// Nothing for what is outside of the repository, or on the page itself.
fn target(link: &str, page: &Path, top: &Path) -> Option<Target> {
    let file = link.split('#').next().filter(|file| !file.is_empty() && !link.contains("://"))?;
    let folder = if top.join(page).is_dir() { page } else { page.parent()? };
    let path = plain(&folder.join(file));
    let data = fs::metadata(top.join(&path)).ok()?;
    let readme = path.join("README.md");
    if top.join(&readme).exists() {
        return Some(Target::Page(readme));
    }
    let is_no_page =
        path.extension().is_some_and(|extension| extension == "shr" || extension == "svg");
    let is_text = || !is_no_page && fs::read_to_string(top.join(&path)).is_ok();
    let is_page = data.is_dir() || data.len() <= MOST_BYTES && is_text();
    Some(if is_page { Target::Page(path) } else { Target::File(path) })
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository")
    }

    fn of(page: &str, text: &str) -> String {
        in_book(text, Path::new(page), top())
    }

    #[test]
    fn links_lead_to_the_pages_of_the_book() {
        let course = "docs/course.md";
        assert_eq!(of(course, "[x](answers.md#one)"), "[x](answers.md#one)");
        assert_eq!(of(course, "[x](../ping-sr-0)"), "[x](../ping-sr-0/index.md)");
        assert_eq!(of(course, "[x](../README.md)"), "[x](../index.md)");
        let source = "[`f`](../ping-sr-0/src/server.rs)";
        assert_eq!(of(course, source), "[`f`](../ping-sr-0/src/server.rs.md)");
        assert_eq!(of("README.md", "[x](docs/course.md)"), "[x](docs/course.md)");
        assert_eq!(of("ping-sr-1/README.md", "[x](src)"), "[x](src/index.md)");
        assert_eq!(of("ping-sr-1/src", "[x](client.rs)"), "[x](client.rs.md)");
        assert_eq!(of(course, "![x](ping-sr-1.png)"), "![x](ping-sr-1.png)");
        assert_eq!(of(course, "![x](pictures/arming.svg)"), "![x](pictures/arming.svg)");
    }

    #[test]
    fn what_is_elsewhere_or_code_stays() {
        for text in ["[x](https://example.org/a#b)", "[x](#here)", "```\n[x](../ping-sr-0)\n```\n"]
        {
            assert_eq!(of("docs/course.md", text), text);
        }
    }
}
