//! The pages about recorded runs.
//!
//! A folder of runs has for each of them `NAME.txt`, what it printed; `NAME.calls`, what `soft-hca show` says of
//! its record; `NAME.html`, the picture of it; and maybe `NAME.why`, what `soft-hca explain` says of it. NAME is
//! that of an example, or of a lesson: then the run is that of the program with which a student begins.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{contents, fenced, links, put};
use crate::Error;
use crate::examples::{EXAMPLES, Example};

/// Runs by their names.
#[derive(Debug, Default)]
pub struct Runs(BTreeMap<String, Run>);

#[derive(Debug)]
struct Run {
    printed: String,
    calls: String,
    picture: String,
    why: Option<String>,
}

/// Where the page about a run is in the book.
pub fn place(name: &str) -> PathBuf {
    format!("runs/{name}.md").into()
}

impl Runs {
    /// The runs of a folder.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let mut runs = BTreeMap::new();
        for file in contents::files(folder)? {
            let Some(name) = file.to_str().and_then(|file| file.strip_suffix(".txt")) else {
                continue;
            };
            let read = |kind: &str| {
                let path = folder.join(format!("{name}.{kind}"));
                fs::read_to_string(&path).map_err(Error::read(&path))
            };
            let why =
                folder.join(format!("{name}.why")).exists().then(|| read("why")).transpose()?;
            let [printed, calls, picture] = ["txt", "calls", "html"].map(read);
            let run = Run { printed: printed?, calls: calls?, picture: picture?, why };
            runs.insert(name.to_owned(), run);
        }
        Ok(Self(runs))
    }

    /// The run of the example or lesson whose page this is.
    pub fn of_page<'p>(&self, page: &'p Path) -> Option<&'p str> {
        let is_about = ["README.md", "README.zh-CN.md"].iter().any(|name| page.ends_with(name));
        let folder = page.parent().filter(|_| is_about)?;
        folder.file_name()?.to_str().filter(|name| self.0.contains_key(*name))
    }

    /// Where their pages are in the book.
    pub fn places(&self) -> impl Iterator<Item = PathBuf> {
        self.0.keys().map(|name| place(name))
    }

    /// The names in the order of the examples and lessons, with the titles of their pages.
    fn titles(&self, top: &Path) -> Result<Vec<(&str, String)>, Error> {
        let examples = EXAMPLES.iter().filter(|example| self.0.contains_key(example.name));
        let mut titles: Vec<_> =
            examples.map(|example| (example.name, example.name.to_owned())).collect();
        for name in self.0.keys().filter(|name| example(name).is_none()) {
            let title = contents::title(top, &Path::new("lessons").join(name).join("README.md"))?;
            titles.push((name.as_str(), title));
        }
        Ok(titles)
    }

    /// Their lines in mdBook's `SUMMARY.md`.
    ///
    /// # Errors
    /// A lesson's page that cannot be read.
    pub fn summary(&self, top: &Path) -> Result<String, Error> {
        if self.0.is_empty() {
            return Ok(String::new());
        }
        let line = |(name, title): (&str, String)| format!("  - [{title}](runs/{name}.md)\n");
        let lines: String = self.titles(top)?.into_iter().map(line).collect();
        Ok(format!("\n# Recorded runs\n\n- [All of them](runs/index.md)\n{lines}"))
    }

    /// Writes their pages to the book's. Returns how many.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, top: &Path, pages: &Path) -> Result<usize, Error> {
        if self.0.is_empty() {
            return Ok(0);
        }
        let mut list = LIST.to_owned();
        for (name, title) in self.titles(top)? {
            let about = example(name).map_or(BEGINNING, |example| example.lesson);
            list.push_str(&format!(
                "| [{title}]({name}.md) | {about} | [picture]({name}-timeline.html) |\n"
            ));
            let run = &self.0[name];
            put(&pages.join(place(name)), run.page(name, &title, about, top).as_bytes())?;
            let picture = pages.join(format!("runs/{name}-timeline.html"));
            put(&picture, run.picture.as_bytes())?;
        }
        put(&pages.join("runs/index.md"), list.as_bytes())?;
        Ok(self.0.len())
    }
}

fn example(name: &str) -> Option<&'static Example> {
    EXAMPLES.iter().find(|example| example.name == name)
}

/// Description of the run of a lesson.
const BEGINNING: &str = "the program you begin with, wrong or unfinished";

const LIST: &str = "# Recorded runs\n\n\
    What each program printed, the calls that both sides made, and a picture of the run: for a browser, \
    with arrows for what one side's call was to the other. Of a lesson it is the program you begin with, and \
    what goes wrong in it is explained.\n\n\
    | run | about | |\n| --- | --- | --- |\n";

impl Run {
    fn page(&self, name: &str, title: &str, about: &str, top: &Path) -> String {
        let (folder, printed) = match example(name) {
            Some(_) => (PathBuf::from(name), "What it printed"),
            None => (Path::new("lessons").join(name), "What the coach says"),
        };
        let to = links::relative(&place(name), &links::place(&folder.join("README.md"), top));
        let mut page = format!(
            "# {title}: a run\n\n[{title}]({to}): {about}.\n\n\
             **[The picture of this run]({name}-timeline.html)**\n\n## {printed}\n\n{}",
            fenced("text", &self.printed)
        );
        if let Some(why) = &self.why {
            page.push_str(&format!("\n## What went wrong\n\n{}", fenced("text", why)));
        }
        page.push_str(&format!("\n## Its calls\n\n{}", fenced("text", &self.calls)));
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_page_its_picture_and_a_line_in_the_list() {
        let folder = std::env::temp_dir().join(format!("runs-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        for (kind, text) in [("txt", "printed\n"), ("calls", "calls\n"), ("html", "<p>\n")] {
            fs::write(folder.join(format!("ping-sr-1.{kind}")), text).expect("a file");
        }
        let runs = Runs::read(&folder).expect("runs");
        assert_eq!(runs.of_page(Path::new("ping-sr-1/README.md")), Some("ping-sr-1"));
        assert_eq!(runs.of_page(Path::new("ping-sr-1/README.zh-CN.md")), Some("ping-sr-1"));
        assert_eq!(runs.of_page(Path::new("ping-sr-1/src/client.rs")), None);
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        let pages = folder.join("pages");
        assert_eq!(runs.write(top, &pages).expect("written"), 1);
        let read = |name: &str| fs::read_to_string(pages.join(name)).expect("a page");
        let page = read("runs/ping-sr-1.md");
        assert!(page.contains("[ping-sr-1](../ping-sr-1/index.md)"), "{page}");
        assert!(page.contains("```text\nprinted\n```") && page.contains("```text\ncalls\n```"));
        assert!(!page.contains("went wrong"));
        assert_eq!(read("runs/ping-sr-1-timeline.html"), "<p>\n");
        assert!(read("runs/index.md").contains("| [ping-sr-1](ping-sr-1.md) | "));
        let summary = runs.summary(top).expect("lines");
        assert!(summary.contains("  - [ping-sr-1](runs/ping-sr-1.md)\n"));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
