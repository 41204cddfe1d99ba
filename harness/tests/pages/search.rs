//! The site's search, in a real browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use harness::site::{self, contents, finish};
use serde_json::{Value, json};

use crate::tree::{files, top};

/// Bytes of all texts that somebody can search. The index has them and little else: a phone loads it in one go.
const MOST: u64 = 1_800_000;

fn browser() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut all = env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    all.find(|program| program.exists())
}

/// Sections of a site, as the index has them: the page, the title, and the text.
const SECTIONS: [(&str, &str, &str); 7] = [
    ("harness/index.html", "Completions", "completion queue, completion queue"),
    (
        "docs/course.html",
        "Polling",
        "Each completion is polled from its completion queue by ibv_poll_cq.",
    ),
    ("soft-hca/docs/check.html", "Rules", "A completion queue may overflow."),
    (
        "docs/course.zh-CN.html",
        "轮询",
        "程序从完成队列里取出完成，完成队列由 ibv_create_cq 创建，然后轮询。",
    ),
    ("docs/reading.zh-CN.html", "完成队列", "完成通道让程序睡眠。"),
    ("docs/answers.html", "A <img src=x> title", "nothing"),
    ("docs/glossary.zh-CN.html", "词汇", "队列对；内存区域；保护域；RDMA completion"),
];

/// The pages that queries find on a page in a language, each with the text of what it shows of them.
fn found(program: &Path, lang: &str, queries: &[&str]) -> Vec<Vec<(String, String)>> {
    let folder = env::temp_dir().join(format!("site-search-{lang}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let lang_of = |page: &str| if page.contains("zh-CN") { "zh-CN" } else { "en" };
    let sections = SECTIONS.map(|(page, title, body)| {
        json!({ "title": title, "body": body, "breadcrumbs": title, "lang": lang_of(page),
            "rank": contents::rank(Path::new(page)) })
    });
    let page = format!(
        "<!DOCTYPE html><html lang=\"{lang}\"><meta charset=\"utf-8\"><body><script>\
         window.elasticlunr = {{ Index: {{}}, stemmer: (word) => word.replace(/(ions?|ing|ed|s)$/, '') }};\n{}\n\
         const index = elasticlunr.Index.load({});\
         const found = {}.map((query) => index.search(query, {{}}).map(({{ ref, doc }}) => [ref, doc.body]));\
         const outcome = document.body.appendChild(document.createElement('pre'));\
         outcome.id = 'outcome';\
         outcome.textContent = encodeURIComponent(JSON.stringify(found));\
         </script></body></html>",
        finish::SCRIPT,
        json!({ "sections": sections }),
        json!(queries)
    );
    let file = folder.join("page.html");
    fs::write(&file, page).unwrap();
    let output = Command::new(program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-dev-shm-usage", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        // Its caches and settings as well.
        .env("HOME", &folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let dom = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let (_, outcome) = dom.split_once("<pre id=\"outcome\">").expect(&errors);
    let outcome = decoded(outcome.split("</pre>").next().unwrap());
    let outcome: Value = serde_json::from_str(&outcome).unwrap();
    let result = |found: &Value| {
        let page = SECTIONS[usize::try_from(found[0].as_u64().unwrap()).unwrap()].0;
        (page.to_owned(), found[1].as_str().unwrap().to_owned())
    };
    let results = |found: &Value| found.as_array().unwrap().iter().map(result).collect();
    outcome.as_array().unwrap().iter().map(results).collect()
}

/// Text that `encodeURIComponent` has encoded, decoded.
fn decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap().as_bytes().to_vec();
    for piece in pieces {
        bytes.push(u8::from_str_radix(&piece[..2], 16).unwrap());
        bytes.extend(piece[2..].bytes());
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn what_readers_come_for_is_found_first() {
    let Some(program) = browser() else {
        needs::missing("chromium is not installed (package chromium)");
        return;
    };
    let queries =
        ["completion", "completions queue", "poll_cq", "oll", "completion nowhere", "  ,"];
    let found = found(&program, "en", &queries);
    let pages =
        |query: usize| found[query].iter().map(|(page, _)| page.as_str()).collect::<Vec<_>>();
    let all = [
        "docs/course.html",
        "harness/index.html",
        "soft-hca/docs/check.html",
        "docs/glossary.zh-CN.html",
    ];
    let mut sorted = pages(0);
    sorted.sort_unstable();
    assert_eq!(sorted, {
        let mut all = all;
        all.sort_unstable();
        all
    });
    assert_eq!(pages(0).last(), Some(&"docs/glossary.zh-CN.html"), "the page's language is first");
    assert_eq!(pages(1).len(), 3, "both words, in whatever form");
    assert_eq!(pages(2), ["docs/course.html"], "part of a name");
    assert_eq!(pages(3), [""; 0], "words are found by how they begin");
    assert_eq!(pages(4).len(), 4, "as much as there is");
    assert_eq!(pages(5), [""; 0]);
}

#[test]
fn words_of_chinese_are_found() {
    let Some(program) = browser() else {
        needs::missing("chromium is not installed (package chromium)");
        return;
    };
    let queries = ["完成队列", "轮询 完成", "队列完成", "保护域", "睡眠轮询", "completion"];
    let found = found(&program, "zh-CN", &queries);
    let pages =
        |query: usize| found[query].iter().map(|(page, _)| page.as_str()).collect::<Vec<_>>();
    assert_eq!(pages(0), ["docs/reading.zh-CN.html", "docs/course.zh-CN.html"], "titles are first");
    assert_eq!(
        found[0][1].1,
        "程序从 完成队列 里取出完成， 完成队列 由 ibv_create_cq 创建，然后轮询。"
    );
    assert_eq!(pages(1), ["docs/course.zh-CN.html"]);
    assert_eq!(pages(2), [""; 0], "these signs are nowhere in this order");
    assert_eq!(pages(3), ["docs/glossary.zh-CN.html"]);
    assert_eq!(pages(4), [""; 0]);
    assert_eq!(pages(5)[0], "docs/glossary.zh-CN.html", "the page's language is first");
}

#[test]
fn a_phone_can_load_all_that_is_searched() {
    let folder = env::temp_dir().join(format!("site-searched-{}", std::process::id()));
    let runs = folder.join("runs");
    fs::create_dir_all(&runs).unwrap();
    for end in ["txt", "calls", "html"] {
        fs::write(runs.join("ping-sr-1").with_extension(end), "line\n".repeat(1_000_000)).unwrap();
    }
    site::write(top(), Some(&runs), None, &folder.join("book")).unwrap();
    let settings = fs::read_to_string(folder.join("book/book.toml")).unwrap();
    let (_, chapters) = settings.split_once("[output.html.search.chapter]\n").unwrap();
    let pages = folder.join("book/pages");
    let is_searched = |page: &&PathBuf| {
        let place = page.strip_prefix(&pages).unwrap();
        !chapters.contains(&format!("{:?} = {{ enable = false }}", place.display().to_string()))
    };
    let all = files(&pages, ".md");
    let searched: Vec<_> = all.iter().filter(is_searched).collect();
    let bytes: u64 = searched.iter().map(|page| fs::metadata(page).unwrap().len()).sum();
    for (place, is) in
        [("runs/ping-sr-1.md", false), ("runs/index.md", true), ("docs/course.zh-CN.md", true)]
    {
        assert_eq!(searched.contains(&&pages.join(place)), is, "{place}");
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(bytes < MOST, "{bytes} bytes on {} pages", searched.len());
}
