//! Texts about each function of the examples: the function of the C that it is, and what the
//! course and the manual say of it on their pages. `soft-hca show --html --references` shows them beside
//! the calls of a recorded run.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Error;
use crate::examples::{EXAMPLES, Example};
use crate::site::beside::{self, source::FUNCTION};
use crate::site::links::{self, LINK};

/// The pages whose tables name functions, and what each calls its source.
const PAGES: [(&str, &str); 2] = [("docs/course.md", "Course"), ("docs/manual.md", "Manual")];

/// Functions that the C does not have, by examples: there their lines are in the function that calls them, or
/// Rust needs them.
const OURS: [(&[&str], &[&str]); 4] = [
    (
        &["read-write", "read-write-0"],
        &[
            "calloc",
            "destroy_context",
            "poll_all",
            "s_live",
            "s_mode",
            "send_our_mr",
            "take_completions",
            "test_nz",
            "test_z",
            "wait_for_event",
        ],
    ),
    (&["rc-example"], &["buffer_sge", "device_name", "invalid", "modify_qp", "strcpy"]),
    (&["apm"], &["check_completion", "id_event", "malloc"]),
    (&["srq"], &["check_status", "malloc"]),
];
/// The same, in the suite's examples.
const OURS_IN_SUITE: [&str; 2] = ["our_wait_for_event", "random"];

/// A page to which a timeline links: that of the repository, or of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages<'a> {
    /// From a timeline at this absolute path to the repository's text.
    Repository(&'a Path),
    /// From a timeline at this path in the site to the site's page.
    Site(&'a Path),
}

/// Texts about a function.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Reference {
    /// Its source, from the top of the repository.
    pub file: String,
    /// Its name.
    pub function: String,
    /// The texts about it.
    pub texts: Vec<Text>,
}

/// A text, which may lead somewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Text {
    /// The words.
    pub text: String,
    /// A page that has more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// All functions of the examples about which there is something.
///
/// # Errors
/// A file that cannot be read.
pub fn all(top: &Path, pages: Pages<'_>) -> Result<Vec<Reference>, Error> {
    let mut rows = Vec::new();
    for (page, source) in PAGES {
        let path = top.join(page);
        let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
        rows.extend(self::rows(&text, source, &link(top, Path::new(page), pages)));
    }
    let mut all = Vec::new();
    for example in EXAMPLES {
        let folder = top.join(example.name).join("src");
        let entries = fs::read_dir(&folder).map_err(Error::read(&folder))?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut paths: Vec<PathBuf> =
            paths.collect::<Result<_, _>>().map_err(Error::read(&folder))?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
        paths.sort();
        for path in paths {
            let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            for function in FUNCTION.captures_iter(&text) {
                let function = Function { example, stem: &stem, name: &function[1] };
                let mut texts: Vec<Text> = function.in_c(pages).into_iter().collect();
                texts.extend(function.said(&rows));
                if !texts.is_empty() {
                    let (file, function) = (function.file(), function.name.to_owned());
                    all.push(Reference { file, function, texts });
                }
            }
        }
    }
    Ok(all)
}

/// A function of an example, in the file `STEM.rs`.
struct Function<'a> {
    example: &'a Example,
    stem: &'a str,
    name: &'a str,
}

impl Function<'_> {
    fn file(&self) -> String {
        format!("{}/src/{}.rs", self.example.name, self.stem)
    }

    /// The same function of the C; the site has a page with both.
    fn in_c(&self, pages: Pages<'_>) -> Option<Text> {
        let file = self.example.c_source(self.stem)?;
        let is_of_suite = self.example.is_of_suite() && OURS_IN_SUITE.contains(&self.name);
        let is_ours = |(examples, functions): &(&[&str], &[&str])| {
            examples.contains(&self.example.name) && functions.contains(&self.name)
        };
        if is_of_suite || OURS.iter().any(is_ours) {
            return None;
        }
        let link = match pages {
            Pages::Repository(_) => None,
            Pages::Site(from) => {
                let page = beside::place(self.example.name).with_extension("html");
                let anchor = beside::anchor(self.stem, self.name);
                Some(format!("{}#{anchor}", links::relative(from, &page)))
            }
        };
        Some(Text { text: format!("In C: {} in {file}", self.name), link })
    }

    /// Texts of the pages about it, and about the functions of earlier examples that it was: the nearest first,
    /// with their example.
    fn said(&self, rows: &[Row]) -> Vec<Text> {
        let own = EXAMPLES.iter().position(|example| example.name == self.example.name);
        let earlier = EXAMPLES.iter().take(own.map_or(0, |own| own + 1)).rev();
        let related = earlier.filter(|other| {
            other.name == self.example.name || other.is_of_suite() && self.example.is_of_suite()
        });
        let mut texts: Vec<Text> = Vec::new();
        for example in related {
            let file = Function { example, ..*self }.file();
            let is_it = |(of, name): &(String, String)| *of == file && name == self.name;
            for row in rows.iter().filter(|row| row.functions.iter().any(is_it)) {
                let of = (example.name != self.example.name).then_some(example.name);
                texts.push(row.text(of));
            }
        }
        texts
    }
}

/// A row of a page's table.
struct Row {
    /// The slides, or the step.
    about: String,
    said: String,
    link: String,
    /// The functions to which it links, each with its file.
    functions: Vec<(String, String)>,
}

impl Row {
    /// Its text, of another example's function if that is named.
    fn text(&self, of: Option<&str>) -> Text {
        let of = of.map(|name| format!(" ({name})")).unwrap_or_default();
        let said = if self.said.is_empty() { String::new() } else { format!(": {}", self.said) };
        Text { text: format!("{}{of}{said}", self.about), link: Some(self.link.clone()) }
    }
}

/// The rows of all tables of a page that name a function. `link` is that of the page.
fn rows(page: &str, source: &str, link: &str) -> Vec<Row> {
    let (mut rows, mut heading) = (Vec::new(), String::new());
    for line in page.lines() {
        if let Some(slug) = links::slug(line) {
            heading = slug;
        }
        let Some(cells) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            continue;
        };
        let functions: Vec<_> = LINK
            .captures_iter(line)
            .filter_map(|link| {
                let name = link["text"].strip_prefix('`')?.strip_suffix('`')?;
                Some((link["target"].strip_prefix("../")?.to_owned(), name.to_owned()))
            })
            .filter(|(file, _)| file.ends_with(".rs"))
            .collect();
        if functions.is_empty() {
            continue;
        }
        let cells: Vec<String> = cells.split(" | ").map(plain).collect();
        // The subject stands before what is said, where there are both.
        let (about, said) = match cells.as_slice() {
            [about, said, _, ..] => (about.as_str(), said),
            [said, ..] => ("", said),
            [] => continue,
        };
        let about = match about {
            "" => source.to_owned(),
            pages if pages.starts_with("p. ") => format!("Slides, {pages}"),
            step if step.starts_with(|first: char| first.is_ascii_digit()) => {
                format!("{source}, step {step}")
            }
            about => format!("{source}, {about}"),
        };
        let (said, link) = (said.clone(), format!("{link}#{heading}"));
        rows.push(Row { about, said, link, functions });
    }
    rows
}

/// A cell's words.
fn plain(cell: &str) -> String {
    LINK.replace_all(cell, "$text").replace(['`', '*'], "").trim().to_owned()
}

/// How a timeline links to a page of the repository.
fn link(top: &Path, page: &Path, pages: Pages<'_>) -> String {
    match pages {
        Pages::Repository(from) => {
            let to = links::relative(from, &top.join(page));
            // Signs that mean something else in an address.
            to.replace('%', "%25").replace('#', "%23").replace('?', "%3F")
        }
        Pages::Site(from) => links::relative(from, &page.with_extension("html")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository")
    }

    fn of<'a>(all: &'a [Reference], file: &str, function: &str) -> &'a [Text] {
        let is_it = |one: &&Reference| one.file == file && one.function == function;
        all.iter().find(is_it).map(|one| one.texts.as_slice()).unwrap_or_default()
    }

    #[test]
    fn a_function_has_its_c_and_its_slides() {
        let all = all(top(), Pages::Site(Path::new("runs/x.html"))).unwrap();
        let said = of(&all, "ping-sr-0/src/c_d_id.rs", "our_create_id");
        assert_eq!(said[0].text, "In C: our_create_id in ping-sr-0/c_d_id.c");
        let both = "../ping-sr-0/c-and-rust.html#c_d_id-our_create_id";
        assert_eq!(said[0].link.as_deref(), Some(both));
        assert!(said[1].text.starts_with("Slides, p. 118–124: 1. the communication identifier"));
        let link = "../docs/course.html#6-connecting-the-client-p-114160";
        assert_eq!(said[1].link.as_deref(), Some(link));
        // The changed text comes before the earlier one.
        let later = of(&all, "ping-sr-3/src/c_d_queue_pair.rs", "our_create_cq");
        assert!(later[1].text.starts_with("Slides, p. 219–221: "), "{later:?}");
        assert!(later[2].text.starts_with("Slides, p. 70–73 (ping-sr-0): "), "{later:?}");
        // An exercise has no C, but what it has from its neighbours the slides explain.
        let ours = of(&all, "ping-sr-2e/src/c_d_connect.rs", "our_disconnect");
        assert!(ours[0].text.starts_with("Slides, p. 152 (ping-sr-0): "), "{ours:?}");
        let manual = of(&all, "rc-example/src/rdma_rc_example.rs", "modify_qp_to_rtr");
        assert_eq!(manual[0].text, "In C: modify_qp_to_rtr in RDMA_RC_example.c");
        assert!(
            manual.iter().any(|text| text.text.starts_with("Manual, modify_qp_to_rtr: The peer"))
        );
        let step = of(&all, "mc/src/mc.rs", "resolve_addr");
        assert!(step[1].text.starts_with("Manual, step 2: Resolves"), "{step:?}");
        assert!(step[1].link.as_deref().unwrap().starts_with("../docs/manual.html#multicast-step"));
        // A namesake elsewhere is another function.
        let main = of(&all, "read-write/src/client.rs", "main");
        assert_eq!(main.len(), 1, "{main:?}");
        assert_eq!(main[0].text, "In C: main in rdma-client.c");
    }

    #[test]
    fn every_row_of_the_pages_is_found() {
        let from = top().join("runs of mine/a#b.html");
        let all = all(top(), Pages::Repository(&from)).unwrap();
        for (page, source) in PAGES {
            let text = fs::read_to_string(top().join(page)).unwrap();
            let rows = rows(&text, source, page);
            assert!(rows.len() > 20, "{page}");
            for (file, name) in rows.iter().flat_map(|row| &row.functions) {
                if name
                    .chars()
                    .all(|sign| sign.is_lowercase() || sign.is_ascii_digit() || sign == '_')
                {
                    let said = of(&all, file, name);
                    let to = format!("../{page}#");
                    let leads = |text: &Text| {
                        text.link.as_deref().is_some_and(|link| link.starts_with(&to))
                    };
                    assert!(said.iter().any(leads), "{file}: {name}: {said:?}");
                }
            }
        }
        assert!(all.iter().flat_map(|one| &one.texts).all(|one| !one.text.contains(['`', '['])));
    }

    #[test]
    fn functions_that_are_ours_alone_are_there() {
        for (examples, functions) in OURS {
            for name in functions {
                let is_there = |example: &&str| {
                    let folder = fs::read_dir(top().join(example).join("src")).unwrap();
                    folder
                        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
                        .any(|text| FUNCTION.captures_iter(&text).any(|found| found[1] == **name))
                };
                assert!(examples.iter().any(is_there), "{examples:?}: {name}");
            }
        }
    }
}
