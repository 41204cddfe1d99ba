//! The book of all pages: each link of each page leads to a page that it has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use harness::compare::originals::Originals;
use harness::compare::report;
use harness::examples::{EXAMPLES, Example};
use harness::site::beside::{self, differences};
use harness::site::links::slug;
use harness::site::{self, contents};
use regex::Regex;

use super::links::{LINK, prose};
use crate::tree::{files, top};

/// Links of a page of the book to what is not in it.
fn broken(page: &Path, pages: &Path, listed: &BTreeSet<PathBuf>) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let mut found = Vec::new();
    let targets = prose(&text).flat_map(|(_, line)| LINK.captures_iter(line));
    for target in targets.map(|link| link[2].to_owned()).filter(|to| !to.contains("://")) {
        let (file, heading) =
            target.split_once('#').map_or((target.as_str(), None), |(f, h)| (f, Some(h)));
        let path =
            if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
        let Ok(path) = path.canonicalize() else {
            found.push(target);
            continue;
        };
        let place = path.strip_prefix(pages).unwrap().to_owned();
        let is_page = path.extension().is_some_and(|extension| extension == "md");
        let has = |heading: &str| {
            let text = fs::read_to_string(&path).unwrap();
            prose(&text).any(|(_, line)| slug(line).as_deref() == Some(heading))
        };
        if is_page && !listed.contains(&place) || !heading.is_none_or(has) {
            found.push(target);
        }
    }
    found
}

#[test]
fn all_links_of_the_site_lead_to_pages() {
    let folder = std::env::temp_dir().join(format!("site-{}", std::process::id()));
    let counts = site::write(top(), None, None, &folder).unwrap();
    assert!(counts.pages > 60 && counts.sources > 300, "{counts:?}");
    let pages = folder.join("pages").canonicalize().unwrap();
    let summary = fs::read_to_string(pages.join("SUMMARY.md")).unwrap();
    let line = Regex::new(r"(?m)^ *- \[.+\]\((.+)\)$").unwrap();
    let listed: Vec<PathBuf> = line.captures_iter(&summary).map(|page| page[1].into()).collect();
    let known: BTreeSet<PathBuf> = listed.iter().cloned().collect();
    assert_eq!(known.len(), listed.len(), "a page is there twice");
    assert_eq!(known.len(), counts.pages + counts.sources + counts.beside);
    let mut problems = Vec::new();
    let mut translations = 0;
    for translation in known.iter().filter(|page| page.to_string_lossy().ends_with(".zh-CN.md")) {
        let name = translation.file_name().unwrap().to_str().unwrap();
        let original = match name {
            "README.zh-CN.md" => "index.md".to_owned(),
            "glossary.zh-CN.md" => continue,
            name => name.replace(".zh-CN", ""),
        };
        let text = |page: &Path| fs::read_to_string(pages.join(page)).unwrap();
        let back = text(translation).contains(&format!("\n[English]({original})\n"));
        let there = text(&translation.with_file_name(original));
        let there = there.lines().nth(2) == Some(&format!("[中文]({name})"));
        assert!(there && back, "{}: {there} {back}", translation.display());
        translations += 1;
    }
    assert!(translations > 30, "{translations} translations");
    for page in files(&pages, ".md").into_iter().filter(|page| !page.ends_with("SUMMARY.md")) {
        let of = page.strip_prefix(&pages).unwrap().to_owned();
        assert!(known.contains(&of), "{} is in no list", of.display());
        problems.extend(broken(&page, &pages, &known).into_iter().map(|link| (of.clone(), link)));
    }
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(problems, []);
}

/// The pages with the C and the Rust, the C from `c` if there is one, by their examples.
fn both(c: Option<&Path>, name: &str) -> Vec<(&'static Example, String)> {
    let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    let originals = c.map(|c| Originals::with_sources(c.to_owned()).unwrap());
    let written = beside::write(top(), originals.as_ref(), &folder).unwrap();
    assert_eq!(written, EXAMPLES.iter().filter(|example| example.original).count());
    let read =
        |example: &Example| fs::read_to_string(folder.join(beside::place(example.name))).unwrap();
    let pages = beside::examples().map(|example| (example, read(example))).collect();
    fs::remove_dir_all(&folder).unwrap();
    pages
}

/// The cells of a page that have a text, each with its row.
fn rows_of<'p>(page: &'p str, side: &str, text: &str) -> Vec<(&'p str, usize)> {
    let cell =
        Regex::new(r#"<span class="(\w+)(?: comment)?" style="grid-row:(\d+)">(.*?)</span>"#);
    let (cell, mut rows) = (cell.unwrap(), Vec::new());
    for step in page.lines() {
        let cells = cell.captures_iter(step).filter(|found| &found[1] == side);
        let found = cells.filter(|found| found[3].contains(text));
        rows.extend(found.map(|found| (step, found[2].parse().unwrap())));
    }
    rows
}

/// C of our own, with names that the examples have.
const CONNECT: &str = "#include \"prototypes.h\"\n\n/* Asks. */\nint\nour_client_connect(void)\n{\n\
    \tint ret;\n\n\terrno = 0;\n\tret = rdma_connect(0, 0);\n\n\treturn ret;\n}\n\n\
    int only_in_c(int x) { return x < 0; }\n";

#[test]
fn c_and_rust_stand_side_by_side() {
    let c = std::env::temp_dir().join(format!("beside-c-{}", std::process::id()));
    fs::create_dir_all(c.join("ping-sr-0")).unwrap();
    fs::write(c.join("ping-sr-0/client.c"), "int main(void)\n{\n}\n").unwrap();
    fs::write(c.join("ping-sr-0/c_d_connect.c"), CONNECT).unwrap();
    let pages = both(Some(&c), "beside");
    fs::remove_dir_all(&c).unwrap();
    let page = |name: &str| &pages.iter().find(|(example, _)| example.name == name).unwrap().1;
    let ping = page("ping-sr-0");
    let [(step, row)] = rows_of(ping, "c", "rdma_connect(0")[..] else { panic!("{ping}") };
    let beside = rows_of(ping, "rust", "{ rdma_connect(".replace('{', "&#123;").as_str());
    assert_eq!(beside, [(step, row)]);
    assert!(ping.contains("\n### `only_in_c` {#c_d_connect-only_in_c}\n"));
    assert_eq!(rows_of(ping, "c", "return x &lt; 0").len(), 1);
    assert_eq!(rows_of(ping, "c", "main(void)").len(), 1);
    // The others are not in that folder.
    let other = page("ping-sr-1");
    assert!(other.contains("not in the folder") && rows_of(other, "c", "").is_empty());
}

#[test]
fn without_the_c_the_pages_have_the_rust_and_say_where_the_c_is() {
    let first_line = Regex::new(r"(?m)^(?:pub )?fn (\w+)").unwrap();
    for (example, page) in both(None, "rust-alone") {
        let name = example.name;
        assert!(page.contains("./site --c DIR"), "{name}");
        assert!(rows_of(&page, "c", "").is_empty(), "{name}");
        let sources = contents::sources(top(), name).unwrap();
        let is_glue = |source: &PathBuf| source.ends_with("lib.rs") || source.ends_with("main.rs");
        for source in sources.into_iter().filter(|source| !is_glue(source)) {
            let text = fs::read_to_string(top().join(&source)).unwrap();
            let stem = source.file_stem().unwrap().to_str().unwrap();
            assert!(page.contains(&format!("\n## {stem}\n")), "{name}: {stem}");
            for function in first_line.captures_iter(&text) {
                let heading = format!("\n### `{0}` {{#{stem}-{0}}}\n", &function[1]);
                assert_eq!(page.matches(&heading).count(), 1, "{name}: {heading}");
            }
        }
    }
}

#[test]
fn every_difference_stands_on_its_page_once() {
    for (example, page) in both(None, "differences") {
        let readme = fs::read_to_string(top().join(example.name).join("README.md")).unwrap();
        let list = report::section(&readme).unwrap_or_default();
        let entries = differences::entries(list);
        assert_eq!(entries.len(), list.lines().filter(|line| line.starts_with("- ")).count());
        // Links are others in the book.
        for entry in entries.iter().filter(|entry| !entry.contains("](")) {
            assert_eq!(page.matches(entry.as_str()).count(), 1, "{}: {entry}", example.name);
        }
    }
}
