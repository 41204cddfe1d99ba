//! Work left when mdBook has made its pages: search, and the language of those in Chinese.
//!
//! mdBook's index has the texts of all sections, and the places of each of their words. This part is four fifths of it,
//! and has no words of Chinese. Ours has the texts alone, and a script that finds in them what a reader types.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{contents, languages};
use crate::Error;

/// The file that mdBook's search loads when somebody searches.
const INDEX: &str = "searchindex.js";
/// Text around its JSON, in which a backslash escapes the next sign.
const BEFORE: &str = "JSON.parse('";
const BEHIND: &str = "')";
/// Script that finds sections.
pub const SCRIPT: &str = include_str!("search.js");

/// mdBook's words in pages in Chinese, and what stands there in their place.
const WORDS: [(&str, &str); 2] = [
    ("<html lang=\"en\"", "<html lang=\"zh-CN\""),
    ("placeholder=\"Search this book ...\"", "placeholder=\"在本站中搜索\""),
];

/// mdBook's index, as far as it is of use.
#[derive(Deserialize)]
struct Made {
    results_options: Value,
    search_options: Value,
    doc_urls: Vec<String>,
    index: Index,
}

#[derive(Deserialize)]
struct Index {
    #[serde(rename = "documentStore")]
    store: Store,
}

#[derive(Deserialize)]
struct Store {
    docs: BTreeMap<String, Document>,
}

#[derive(Deserialize)]
struct Document {
    title: String,
    body: String,
    breadcrumbs: String,
}

/// A section of a page as the script wants it.
#[derive(Serialize)]
struct Section {
    title: String,
    body: String,
    breadcrumbs: String,
    lang: &'static str,
    rank: f64,
}

/// Finishes the pages of the folder. Returns the size of the search index.
///
/// # Errors
/// A file that cannot be read or written, or an index that is none of mdBook's.
pub fn finish(folder: &Path) -> Result<usize, Error> {
    let path = folder.join(INDEX);
    let made = fs::read_to_string(&path).map_err(Error::read(&path))?;
    let index = index(&path, &made)?;
    fs::write(&path, &index).map_err(Error::write(&path))?;
    languages(folder)?;
    Ok(index.len())
}

/// The index with our script in the place of mdBook's words.
fn index(path: &Path, made: &str) -> Result<String, Error> {
    let text = json_of(made).ok_or_else(|| Error::data(path, "it is not mdBook's"))?;
    let mut made: Made = serde_json::from_str(&text).map_err(Error::json(path))?;
    let mut sections = Vec::new();
    for (number, url) in made.doc_urls.iter().enumerate() {
        let document = made.index.store.docs.remove(&number.to_string());
        let missing = || Error::data(path, format!("there is nothing of {url}"));
        sections.push(section(url, document.ok_or_else(missing)?));
    }
    let Made { results_options, search_options, doc_urls, .. } = made;
    let ours = json!({
        "results_options": results_options,
        "search_options": search_options,
        "doc_urls": doc_urls,
        "index": { "sections": sections },
    });
    Ok(format!("{SCRIPT}window.search = Object.assign(window.search, {ours});\n"))
}

/// The JSON of mdBook's script.
fn json_of(made: &str) -> Option<String> {
    let (_, text) = made.split_once(BEFORE)?;
    let (text, _) = text.rsplit_once(BEHIND)?;
    let mut signs = text.chars();
    let mut plain = String::with_capacity(text.len());
    while let Some(sign) = signs.next() {
        plain.push(if sign == '\\' { signs.next()? } else { sign });
    }
    Some(plain)
}

fn section(url: &str, Document { title, body, breadcrumbs }: Document) -> Section {
    let page = Path::new(url.split('#').next().unwrap_or(url));
    Section {
        title,
        body,
        // mdBook takes it for HTML.
        breadcrumbs: breadcrumbs.replace('&', "&amp;").replace('<', "&lt;"),
        lang: if is_chinese(page) { "zh-CN" } else { "en" },
        rank: contents::rank(page),
    }
}

/// Whether mdBook has made a page of one in Chinese.
fn is_chinese(page: &Path) -> bool {
    languages::is_chinese(&page.with_extension("md"))
}

/// Says in what language pages in Chinese are.
fn languages(folder: &Path) -> Result<(), Error> {
    for name in contents::files(folder)? {
        let path = folder.join(&name);
        if path.is_dir() {
            languages(&path)?;
        } else if path.extension().is_some_and(|end| end == "html") && is_chinese(&path) {
            let mut text = fs::read_to_string(&path).map_err(Error::read(&path))?;
            for (english, chinese) in WORDS {
                text = text.replacen(english, chinese, 1);
            }
            fs::write(&path, text).map_err(Error::write(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As mdBook writes it.
    fn made(sections: &[(&str, &str, &str)]) -> String {
        let docs: BTreeMap<_, _> = sections
            .iter()
            .enumerate()
            .map(|(number, (_, title, body))| {
                let document =
                    json!({ "id": number, "title": title, "body": body, "breadcrumbs": title });
                (number.to_string(), document)
            })
            .collect();
        let words = json!({ "body": { "root": { "w": { "docs": { "0": { "tf": 1 } } } } } });
        let made = json!({
            "results_options": { "limit_results": 40 },
            "search_options": {},
            "doc_urls": sections.iter().map(|(url, ..)| url).collect::<Vec<_>>(),
            "index": { "documentStore": { "docs": docs }, "index": words },
        });
        let made = made.to_string().replace('\\', "\\\\").replace('\'', "\\'");
        format!("window.search = Object.assign(window.search, JSON.parse('{made}'));")
    }

    #[test]
    fn the_index_has_the_texts_alone() {
        let body = "what's \"here\", ('x'): C:\\";
        let sections =
            [("docs/course.html#a", "A < B", body), ("soft-hca/docs/x.zh-CN.html", "完成队列", "")];
        let index = index(Path::new("searchindex.js"), &made(&sections)).unwrap();
        let data = index.strip_prefix(SCRIPT).unwrap().trim();
        let data = data.strip_prefix("window.search = Object.assign(window.search, ").unwrap();
        let data: Value = serde_json::from_str(data.strip_suffix(");").unwrap()).unwrap();
        assert_eq!(data["doc_urls"][1], sections[1].0);
        let section = |number: usize| &data["index"]["sections"][number];
        assert_eq!(section(0)["body"], body);
        assert_eq!(section(0)["breadcrumbs"], "A &lt; B");
        assert_eq!((&section(0)["lang"], &section(1)["lang"]), (&json!("en"), &json!("zh-CN")));
        assert!(section(0)["rank"].as_f64() > section(1)["rank"].as_f64());
        assert_eq!(data["index"].as_object().unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_index_is_refused() {
        for text in ["", "JSON.parse('{}')", "JSON.parse('", "JSON.parse('\\')"] {
            assert!(index(Path::new("searchindex.js"), text).is_err(), "{text}");
        }
    }

    #[test]
    fn pages_in_chinese_say_so() {
        let folder = std::env::temp_dir().join(format!("finish-{}", std::process::id()));
        let page = "<html lang=\"en\" class=\"light\"><input placeholder=\"Search this book ...\">";
        fs::create_dir_all(folder.join("docs")).unwrap();
        for name in ["docs/course.zh-CN.html", "docs/course.html"] {
            fs::write(folder.join(name), page).unwrap();
        }
        fs::write(folder.join(INDEX), made(&[])).unwrap();
        finish(&folder).unwrap();
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(text("docs/course.html"), page);
        let chinese = text("docs/course.zh-CN.html");
        assert!(
            chinese.starts_with("<html lang=\"zh-CN\" class") && !chinese.contains("Search"),
            "{chinese}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
