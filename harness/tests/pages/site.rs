//! The book of all pages: each link of each page leads to a page that it has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use harness::site;
use harness::site::links::slug;
use regex::Regex;

use super::links::{LINK, prose};
use crate::tree::{files, top};

/// What a page of the book links to that is not in it.
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
    let counts = site::write(top(), None, &folder).unwrap();
    assert!(counts.pages > 60 && counts.sources > 300, "{counts:?}");
    let pages = folder.join("pages").canonicalize().unwrap();
    let summary = fs::read_to_string(pages.join("SUMMARY.md")).unwrap();
    let line = Regex::new(r"(?m)^ *- \[.+\]\((.+)\)$").unwrap();
    let listed: Vec<PathBuf> = line.captures_iter(&summary).map(|page| page[1].into()).collect();
    let known: BTreeSet<PathBuf> = listed.iter().cloned().collect();
    assert_eq!(known.len(), listed.len(), "a page is there twice");
    assert_eq!(known.len(), counts.pages + counts.sources);
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
