//! The book's pages, in their order.

use std::path::{Path, PathBuf};
use std::{fs, iter};

use super::{is_markdown, languages, links};
use crate::Error;
use crate::examples::EXAMPLES;

/// Title of the part about the examples.
pub const THE_EXAMPLES: &str = "The examples";

/// Title of the part about the lessons.
pub const LESSONS: &str = "The lessons";

/// Title of the part with the translations.
const CHINESE: &str = "中文";
/// The words that translations use, a page without an original.
const GLOSSARY: &str = "docs/glossary.zh-CN.md";

/// A part of the book.
#[derive(Debug)]
pub struct Part {
    /// Its title.
    pub title: &'static str,
    /// Its chapters.
    pub chapters: Vec<Chapter>,
    /// Pages that are there because others link to them; one chapter without a page.
    pub loose: Vec<PathBuf>,
}

/// A page and those below it.
#[derive(Debug)]
pub struct Chapter {
    page: PathBuf,
    below: Vec<PathBuf>,
}

impl Part {
    /// All pages.
    pub fn pages(&self) -> impl Iterator<Item = &PathBuf> {
        self.chapters.iter().flat_map(Chapter::pages).chain(&self.loose)
    }

    /// Its lines in mdBook's `SUMMARY.md`.
    ///
    /// # Errors
    /// A page that cannot be read.
    pub fn summary(&self, top: &Path) -> Result<String, Error> {
        let mut lines = format!("\n# {}\n\n", self.title);
        let mut line = |indent: &str, page: &Path| -> Result<(), Error> {
            let (title, place) = (title(top, page)?, links::place(page, top));
            lines.push_str(&format!("{indent}- [{title}]({})\n", place.display()));
            Ok(())
        };
        for Chapter { page, below } in &self.chapters {
            line("", page)?;
            below.iter().try_for_each(|page| line("  ", page))?;
        }
        if !self.loose.is_empty() {
            lines.push_str("- [Files that pages link to]()\n");
            let mut line = |page: &Path| {
                let place = links::place(page, top);
                lines.push_str(&format!("  - [{}]({})\n", page.display(), place.display()));
            };
            self.loose.iter().for_each(|page| line(page));
        }
        Ok(lines)
    }
}

impl Chapter {
    fn pages(&self) -> impl Iterator<Item = &PathBuf> {
        iter::once(&self.page).chain(&self.below)
    }
}

/// All parts but that of the files that others link to.
///
/// # Errors
/// A folder that cannot be read.
pub fn parts(top: &Path) -> Result<Vec<Part>, Error> {
    let part = |title, chapters| Part { title, chapters, loose: vec![] };
    let mut parts = vec![
        part("The project", single(&["README.md"])),
        part(
            "The course",
            single(&[
                "docs/course.md",
                "docs/answers.md",
                "docs/reading.md",
                "docs/manual.md",
                "docs/idiomatic.md",
                "docs/two-hosts.md",
                "docs/teaching.md",
            ]),
        ),
        part(THE_EXAMPLES, examples(top)?),
        part(LESSONS, lessons(top)?),
        part("soft-hca", soft_hca(top)?),
        part(
            "How it is checked",
            single(&[
                "lab/README.md",
                "harness/README.md",
                "harness/cases/README.md",
                "harness/golden/README.md",
                "docs/faithfulness.md",
                "docs/faithfulness-lab.md",
                "docs/mutants.md",
                "CONTRIBUTING.md",
            ]),
        ),
    ];
    // Behind the first page, where readers of Chinese see it.
    parts.insert(1, part(CHINESE, translations(&parts, top)));
    Ok(parts)
}

/// Title of a page: its first heading, or the name of its file.
///
/// # Errors
/// A page that cannot be read.
pub fn title(top: &Path, page: &Path) -> Result<String, Error> {
    if is_markdown(page) {
        let path = top.join(page);
        let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
        let heading = text.lines().find_map(|line| line.strip_prefix("# "));
        let heading = heading.ok_or_else(|| Error::data(&path, "there is no heading"))?;
        return Ok(heading.to_owned());
    }
    let name = page.file_name().unwrap_or(page.as_os_str());
    Ok(name.to_string_lossy().into_owned())
}

/// The names of a folder's files and folders, in their order.
///
/// # Errors
/// A folder that cannot be read.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::read(folder))?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let mut names: Vec<_> = names.collect::<Result<_, _>>().map_err(Error::read(folder))?;
    names.retain(|name| !name.to_string_lossy().starts_with('.'));
    names.sort();
    Ok(names.into_iter().map(PathBuf::from).collect())
}

/// How much a page that mdBook has made counts where somebody searches: what readers come for before what it stands on.
pub fn rank(page: &Path) -> f64 {
    let is_about = |folder: &str| page.starts_with(folder);
    let is_report = || page.to_string_lossy().contains("/faithfulness");
    if is_about("soft-hca") {
        0.6
    } else if ["harness", "lab", "runs", "bindgen", "packaging"].into_iter().any(is_about)
        || page == Path::new("CONTRIBUTING.html")
        || is_report()
    {
        0.4
    } else {
        1.0
    }
}

fn single(pages: &[&str]) -> Vec<Chapter> {
    pages.iter().map(|page| Chapter { page: page.into(), below: vec![] }).collect()
}

/// Each example with its sources, and what they share.
fn examples(top: &Path) -> Result<Vec<Chapter>, Error> {
    let mut chapters = Vec::new();
    for name in EXAMPLES.iter().map(|example| example.name) {
        chapters
            .push(Chapter { page: Path::new(name).join("README.md"), below: sources(top, name)? });
    }
    let common = sources(top, "common")?;
    chapters.push(Chapter { page: "common/src".into(), below: common });
    Ok(chapters)
}

/// Each lesson; its programs but the solution are pages if something links to them.
fn lessons(top: &Path) -> Result<Vec<Chapter>, Error> {
    let mut chapters = single(&["lessons/README.md"]);
    for name in files(&top.join("lessons"))? {
        let folder = Path::new("lessons").join(&name);
        if !name.to_string_lossy().starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        let below = ["start.rs", "peer.rs", "solution.rs"].map(|file| folder.join(file)).into();
        chapters.push(Chapter { page: folder.join("README.md"), below });
    }
    Ok(chapters)
}

/// The translations in the order of their originals, those of single lessons below that of their list.
fn translations(parts: &[Part], top: &Path) -> Vec<Chapter> {
    let all = parts.iter().flat_map(Part::pages);
    let pages = all.filter_map(|page| languages::translation(page, top));
    let mut chapters: Vec<Chapter> = Vec::new();
    for page in pages {
        let list = chapters
            .last_mut()
            .filter(|list| list.page.starts_with("lessons") && page.starts_with("lessons"));
        match list {
            Some(list) => list.below.push(page),
            None => chapters.push(Chapter { page, below: vec![] }),
        }
    }
    chapters.push(Chapter { page: GLOSSARY.into(), below: vec![] });
    chapters
}

/// Its pages in the order in which its README names them.
fn soft_hca(top: &Path) -> Result<Vec<Chapter>, Error> {
    let readme = "soft-hca/README.md";
    let path = top.join(readme);
    let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
    let mut pages = files(&top.join("soft-hca/docs"))?;
    pages.retain(|page| is_markdown(page));
    pages.sort_by_key(|page| text.find(&format!("docs/{}", page.display())).unwrap_or(usize::MAX));
    let below = pages.into_iter().map(|page| Path::new("soft-hca/docs").join(page)).collect();
    let others = single(&["soft-hca/roce/README.md", "soft-hca/python/README.md"]);
    Ok([Chapter { page: readme.into(), below }].into_iter().chain(others).collect())
}

/// The sources of a crate.
///
/// # Errors
/// A folder that cannot be read.
pub fn sources(top: &Path, package: &str) -> Result<Vec<PathBuf>, Error> {
    let folder = Path::new(package).join("src");
    let mut names = files(&top.join(&folder))?;
    names.retain(|name| name.extension().is_some_and(|extension| extension == "rs"));
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}
