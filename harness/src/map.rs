//! The map: one table of all examples, in the order in which they are best read, which README.md and the course have in
//! both languages. `harness map` writes it into them.

mod rows;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use rows::{ROWS, Row};

/// The first of the lines of a page between which the table is.
pub const BEGIN: &str = "<!-- map -->";
/// The second of them.
pub const END: &str = "<!-- end of the map -->";

/// The language of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    English,
    Chinese,
}

/// A page with the table.
struct Page {
    file: &'static str,
    language: Language,
    /// From its folder to the top.
    top: &'static str,
}

const PAGES: [Page; 4] = [
    Page { file: "README.md", language: Language::English, top: "" },
    Page { file: "README.zh-CN.md", language: Language::Chinese, top: "" },
    Page { file: "docs/course.md", language: Language::English, top: "../" },
    Page { file: "docs/course.zh-CN.md", language: Language::Chinese, top: "../" },
];

/// Pages below `top` that have another table than this, with the text that they should have.
pub fn differing(top: &Path) -> Result<Vec<(PathBuf, String)>, Error> {
    let mut differing = Vec::new();
    for page in &PAGES {
        let file = top.join(page.file);
        let text = fs::read_to_string(&file).map_err(Error::read(&file))?;
        let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
            let (_, after) = rest.split_once(END)?;
            Some((before, after))
        });
        let Some((before, after)) = parts else {
            return Err(Error::data(&file, format!("no lines {BEGIN} and {END}")));
        };
        let table = page.table(top)?;
        let wanted = format!("{before}{BEGIN}\n\n{table}\n{END}{after}");
        if wanted != text {
            differing.push((file, wanted));
        }
    }
    Ok(differing)
}

/// Writes the table into the pages that have another one; gives these.
pub fn write(top: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut written = Vec::new();
    for (file, text) in differing(top)? {
        fs::write(&file, text).map_err(Error::write(&file))?;
        written.push(file);
    }
    Ok(written)
}

/// The examples of the table, in its order, and what each is to be compared with.
pub fn order() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    ROWS.iter().map(|row| (row.example, row.from))
}

/// The numbers of the lessons in the table.
pub fn lessons() -> impl Iterator<Item = u32> {
    ROWS.iter().flat_map(|row| row.lessons.iter().copied())
}

impl Page {
    fn table(&self, top: &Path) -> Result<String, Error> {
        let titles = match self.language {
            Language::English => [
                "example",
                "what it teaches",
                "slides",
                "diff from",
                "lessons",
                "minutes",
                "source",
            ],
            Language::Chinese => ["示例", "教什么", "幻灯片", "与谁比较", "练习", "分钟", "来源"],
        };
        let mut text = line(&titles);
        text += &line(&titles.map(|_| "---"));
        for row in ROWS {
            text += &self.row(top, row)?;
        }
        Ok(text)
    }

    fn row(&self, top: &Path, row: &Row) -> Result<String, Error> {
        let link = |name: &str| format!("[{name}]({}{name})", self.top);
        let from = match row.from {
            None => String::new(),
            Some(from) => {
                let rust = changed_lines(top, from, row.example)?;
                let rust_and_c = match (row.lines_of_c, self.language) {
                    (None, Language::English) => format!("{rust} lines"),
                    (None, Language::Chinese) => format!("{rust} 行"),
                    (Some(c), Language::English) => format!("{rust} lines, in C {c}"),
                    (Some(c), Language::Chinese) => format!("{rust} 行，C 里 {c} 行"),
                };
                format!("{from}: {rust_and_c}")
            }
        };
        let mut lessons = Vec::new();
        for &number in row.lessons {
            let folder = lesson(top, number)?;
            let target = match self.language {
                Language::English => folder,
                Language::Chinese => format!("{folder}/README.zh-CN.md"),
            };
            lessons.push(format!("[{number}]({}{target})", self.top));
        }
        let text = |pair: [&'static str; 2]| match self.language {
            Language::English => pair[0],
            Language::Chinese => pair[1],
        };
        let comma = if self.language == Language::English { ", " } else { "、" };
        Ok(line(&[
            &link(row.example),
            text(row.teaches),
            row.slides,
            &from,
            &lessons.join(comma),
            &row.minutes.to_string(),
            text(row.source),
        ]))
    }
}

/// A line of a table. Cells that say nothing have one blank.
fn line(cells: &[&str]) -> String {
    let mut line = String::from("|");
    for cell in cells {
        line += " ";
        line += cell;
        line += if cell.is_empty() { "|" } else { " |" };
    }
    line + "\n"
}

/// The folder of a lesson, from the top.
fn lesson(top: &Path, number: u32) -> Result<String, Error> {
    let folder = top.join("lessons");
    let entries = fs::read_dir(&folder).map_err(Error::read(&folder))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let found = names.filter(|name| name.starts_with(&format!("{number:02}-"))).min();
    let name = found.ok_or_else(|| Error::data(&folder, format!("no lesson {number}")))?;
    Ok(format!("lessons/{name}"))
}

/// How many lines of two examples' sources differ: those that `diff` removes and adds.
fn changed_lines(top: &Path, from: &str, to: &str) -> Result<usize, Error> {
    let sources = [from, to].map(|name| format!("{name}/src"));
    let mut diff = Command::new("diff");
    diff.args(["-ruN"]).args(&sources).current_dir(top).env("LC_ALL", "C");
    let output =
        diff.output().map_err(|source| Error::Start { program: "diff".to_owned(), source })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let is_change = |line: &&str| {
        let is_header = line.starts_with("--- ") || line.starts_with("+++ ");
        line.starts_with(['-', '+']) && !is_header
    };
    match output.status.code() {
        Some(0 | 1) => Ok(text.lines().filter(is_change).count()),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Error::data(Path::new("diff"), said))
        }
    }
}
