//! Pages in Chinese keep in step with those in English.
//!
//! A translation has its original's sections, and each of them has what the original's has: blocks of code, links,
//! names in backticks, lists, rows of tables. Links lead to translations where there are some. The comment below a
//! section's heading, `<!-- of: 1a2b3c4d -->`, is the checksum of the original's section, written when somebody has
//! looked at both: [`LOOKED_AT`] names the pages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use harness::map;
use harness::site::links::slug;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::tree::{files, top};

const ENDING: &str = ".zh-CN.md";
/// Part of the names of translations: this test writes the checksums of their sections.
const LOOKED_AT: &str = "TRANSLATED";
/// The page without an original, to which translations may link.
const GLOSSARY: &str = "docs/glossary.zh-CN.md";
/// Pages that have to have a translation, as those of the lessons have to.
const TRANSLATED: &[&str] = &[
    "README.md",
    "docs/answers.md",
    "docs/course.md",
    "docs/idiomatic.md",
    "docs/manual.md",
    "docs/reading.md",
    "docs/teaching.md",
    "docs/two-hosts.md",
    "lessons/README.md",
];

/// For each kind of thing those that a section has.
type Outline = BTreeMap<&'static str, Vec<String>>;

/// A page, with its path.
struct Page {
    path: PathBuf,
    text: String,
}

impl Page {
    fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap();
        Self { path, text }
    }

    fn file(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }

    /// Its parts, each from a heading to the next one; what is before the first heading is one, too.
    fn sections(&self) -> Vec<&str> {
        let events = Parser::new_ext(&self.text, Options::ENABLE_TABLES).into_offset_iter();
        let headings =
            events.filter(|(event, _)| matches!(event, Event::Start(Tag::Heading { .. })));
        let starts = headings.map(|(_, range)| range.start);
        let bounds: Vec<_> = [0].into_iter().chain(starts).chain([self.text.len()]).collect();
        let parts = bounds.windows(2).map(|ends| &self.text[ends[0]..ends[1]]);
        parts.filter(|part| !part.trim().is_empty()).collect()
    }

    /// The names of its headings in links.
    fn slugs(&self) -> Vec<String> {
        self.sections().into_iter().filter_map(|section| slug(heading(section))).collect()
    }
}

fn name(path: &Path) -> String {
    path.strip_prefix(top()).unwrap().display().to_string()
}

fn has_to_be_translated(name: &str) -> bool {
    let folder = name.strip_prefix("lessons/").and_then(|rest| rest.split_once('/'));
    let is_lesson =
        folder.is_some_and(|(lesson, _)| lesson.starts_with(|c: char| c.is_ascii_digit()));
    is_lesson || TRANSLATED.contains(&name)
}

fn translation(original: &Path) -> PathBuf {
    original.with_extension(&ENDING[1..])
}

/// Its first line, if that is a heading.
fn heading(section: &str) -> &str {
    section.lines().next().filter(|line| slug(line).is_some()).unwrap_or_default()
}

/// The comment for the translation of a section. Lines may be wrapped elsewhere, and the map is made in both languages.
fn comment(original: &str) -> String {
    let (before, map) = original.split_once(map::BEGIN).unwrap_or((original, ""));
    let after = map.split_once(map::END).map_or("", |(_, after)| after);
    let words: Vec<_> = before.split_whitespace().chain(after.split_whitespace()).collect();
    format!("<!-- of: {:08x} -->", crc32fast::hash(words.join(" ").as_bytes()))
}

/// The text below the heading and the comment of a translation's section, and the comment. Blanks at the beginning of
/// its first line are kept: they make a block of code.
fn body(section: &str) -> (&str, &str) {
    let rest = section[heading(section).len()..].trim_start_matches('\n');
    let end = rest.strip_prefix("<!-- of: ").and_then(|_| rest.find("-->")).map_or(0, |at| at + 3);
    (rest[end..].trim_start_matches('\n'), &rest[..end])
}

/// A translation's section with this comment.
fn with_comment(section: &str, comment: &str) -> String {
    let heading = heading(section);
    let line = if heading.is_empty() { "" } else { "\n" };
    format!("{heading}{line}{comment}\n\n{}", body(section).0)
}

/// Where a link of an original has to lead in its translation.
fn link_of_translation(link: &str, page: &Page) -> String {
    let (file, part) = link.split_once('#').map_or((link, None), |(file, part)| (file, Some(part)));
    let target = match file {
        "" => page.path.clone(),
        file => page.path.parent().unwrap().join(file),
    };
    let (target, end) = match target.is_dir() {
        true => (target.join("README.md"), "/README.md"),
        false => (target, ""),
    };
    if !translation(&target).is_file() {
        return link.to_owned();
    }
    let file = format!("{file}{end}").replace(".md", ENDING);
    let part = part.map_or(String::new(), |part| {
        let original = Page::read(target.clone()).slugs();
        let translated = Page::read(translation(&target)).slugs();
        let at = original.iter().position(|slug| slug == part);
        format!("#{}", at.and_then(|at| translated.get(at)).map_or(part, String::as_str))
    });
    format!("{file}{part}")
}

/// Whether a link leads to the glossary.
fn is_glossary(link: &str, page: &Page) -> bool {
    let target = page.path.parent().unwrap().join(link).canonicalize();
    target.is_ok_and(|target| target == top().join(GLOSSARY).canonicalize().unwrap())
}

/// The parts of a section that are compared, with the links that `link` makes of its own.
fn outline(section: &str, link: impl Fn(&str) -> Option<String>) -> Outline {
    let mut found = Outline::new();
    let (mut items, mut rows, mut rules) = (0, 0, 0);
    let mut block = None::<String>;
    for event in Parser::new_ext(section, Options::ENABLE_TABLES) {
        let (kind, what) = match event {
            Event::Start(Tag::Heading { level, .. }) => ("heading", level.to_string()),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let Some(link) = link(&dest_url) else { continue };
                ("link", link)
            }
            Event::Code(name) => ("name", name.to_string()),
            Event::End(TagEnd::CodeBlock) => {
                ("block of code", uncommented(&block.take().unwrap_or_default()))
            }
            event => {
                match event {
                    Event::Start(Tag::CodeBlock(_)) => block = Some(String::new()),
                    Event::Text(text) => block.iter_mut().for_each(|block| block.push_str(&text)),
                    Event::Start(Tag::Item) => items += 1,
                    Event::Start(Tag::TableRow) => rows += 1,
                    Event::Rule => rules += 1,
                    _ => {}
                }
                continue;
            }
        };
        found.entry(kind).or_default().push(what);
    }
    let counts = [("items of lists", items), ("rows of tables", rows), ("rules", rules)];
    found.extend(counts.map(|(kind, count)| (kind, vec![count.to_string()])));
    // A sentence may have them in another order, and name a thing twice.
    found.entry("link").or_default().sort();
    let names = found.entry("name").or_default();
    names.sort();
    names.dedup();
    found
}

/// A block of code without what a shell's comments say, which a translation says in its own words. The status that a
/// command has is none of these.
fn uncommented(block: &str) -> String {
    let mut code = String::new();
    for line in block.lines() {
        let comment = line.find(" # ").filter(|&at| !line[at..].starts_with(" # status "));
        let command = comment.map_or(line, |at| &line[..at]).trim_end();
        // A comment that goes on may have fewer lines.
        if comment.is_none() || !command.is_empty() {
            code += command;
            code.push('\n');
        }
    }
    code
}

/// The first list without what the second has as well.
fn without<'l>(all: &'l [String], others: &[String]) -> Vec<&'l String> {
    let mut others = others.to_vec();
    let mut is_other = |one: &String| {
        let at = others.iter().position(|other| other == one);
        at.map(|at| others.remove(at)).is_some()
    };
    all.iter().filter(|one| !is_other(one)).collect()
}

/// How a section's outline is not that of its original.
fn differences(original: &Outline, found: &Outline) -> Vec<String> {
    let of = |outline: &Outline, kind: &str| outline.get(kind).cloned().unwrap_or_default();
    let kinds = original.keys().chain(found.keys().filter(|kind| !original.contains_key(*kind)));
    let all = kinds.map(|kind| (kind, of(original, kind), of(found, kind)));
    let differ = all.filter(|(_, original, found)| original != found);
    let told = differ.map(|(kind, original, found)| {
        let (missing, other) = (without(&original, &found), without(&found, &original));
        match missing.is_empty() && other.is_empty() {
            true => format!("{kind}: in another order"),
            false => format!("{kind}: {other:?} instead of {missing:?}"),
        }
    });
    told.collect()
}

/// Differences between a translation and its original.
fn problems(original: &Page, page: &Page) -> Vec<String> {
    let (sections, translated) = (original.sections(), page.sections());
    if sections.len() != translated.len() {
        let (expected, found) = (sections.len(), translated.len());
        return vec![format!("{found} sections instead of {expected}")];
    }
    let mut found = Vec::new();
    let switch = format!("[English]({})\n", original.file());
    if !translated.first().is_some_and(|section| body(section).0.starts_with(&switch)) {
        found.push(format!("it does not begin with {}", switch.trim()));
    }
    for (at, (section, translated)) in sections.into_iter().zip(translated).enumerate() {
        let counts =
            |link: &str| (link != page.file()).then(|| link_of_translation(link, original));
        let mut expected = outline(section, counts);
        if at == 0 {
            // The switch: an original may have it, and a translation has it.
            let links = expected.entry("link").or_default();
            links.push(original.file().to_owned());
            links.sort();
        }
        let counts = |link: &str| (!is_glossary(link, page)).then(|| link.to_owned());
        let mut wrong = differences(&expected, &outline(translated, counts));
        let comment = comment(section);
        if body(translated).1 != comment {
            wrong.push(format!("the original has changed: {comment}"));
        }
        let title = heading(section).trim_start_matches('#').trim();
        found.extend(wrong.into_iter().map(|what| format!("{title:?}: {what}")));
    }
    found
}

/// Writes the comments of a translation, if it has the sections of its original.
fn write_comments(original: &Page, page: &mut Page) {
    let (sections, translated) = (original.sections(), page.sections());
    if sections.len() != translated.len() {
        return;
    }
    let pairs = sections.into_iter().zip(translated);
    page.text = pairs.map(|(one, other)| with_comment(other, &comment(one))).collect();
    fs::write(&page.path, &page.text).unwrap();
}

#[test]
fn they_are_in_step_with_their_originals() {
    let looked_at = env::var(LOOKED_AT).ok();
    let mut complaints = Vec::new();
    let mut count = 0;
    for path in files(top(), ".md") {
        let name = name(&path);
        if name.ends_with(ENDING) {
            let original = PathBuf::from(path.to_str().unwrap().replace(ENDING, ".md"));
            if name != GLOSSARY && !original.is_file() {
                complaints.push(format!("{name} has no original"));
            }
            continue;
        }
        let translation = translation(&path);
        if !translation.is_file() {
            if has_to_be_translated(&name) {
                complaints.push(format!("{name} has no translation"));
            }
            continue;
        }
        count += 1;
        let (original, mut page) = (Page::read(path), Page::read(translation));
        let name = self::name(&page.path);
        if looked_at.as_ref().is_some_and(|part| name.contains(part)) {
            write_comments(&original, &mut page);
        }
        complaints.extend(problems(&original, &page).iter().map(|what| format!("{name}: {what}")));
    }
    assert!(count > 60, "only {count} translations");
    assert!(
        complaints.is_empty(),
        "{}\nBring the translations in step; for those that are, this writes the comments: \
         {LOOKED_AT}=PART_OF_A_NAME cargo test --release -p harness translations::",
        complaints.join("\n")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGINAL: &str = "# One\n\nSee [`f`](x.rs), and `g`.\n\n    code\n\n## Two\n\n- a\n\
        - b\n\n| x |\n| - |\n| y |\n";

    fn page(name: &str, text: &str) -> Page {
        Page { path: top().join(name), text: text.to_owned() }
    }

    fn original() -> Page {
        page("docs/page.md", ORIGINAL)
    }

    fn in_step() -> String {
        let original = original();
        let [one, two] = original.sections()[..] else { panic!("two sections") };
        let one = one.replacen("One\n", "一\n\n[English](page.md)\n", 1).replace("See", "见");
        let two = two.replace("Two", "二");
        with_comment(&one, &comment(original.sections()[0]))
            + &with_comment(&two, &comment(original.sections()[1]))
    }

    fn of(text: &str) -> Vec<String> {
        problems(&original(), &page("docs/page.zh-CN.md", text))
    }

    #[test]
    fn a_translation_in_step_has_no_problems() {
        assert_eq!(of(&in_step()), Vec::<String>::new());
    }

    #[test]
    fn a_map_that_is_made_anew_changes_no_comment() {
        let with = |row: &str| {
            format!("## One\n\nBefore.\n\n{}\n\n{row}\n\n{}\n\nBehind.\n", map::BEGIN, map::END)
        };
        assert_eq!(comment(&with("12 lines")), comment(&with("13 lines")));
        assert_ne!(comment(&with("12 lines")), comment("## One\n\nBefore.\n"));
    }

    #[test]
    fn a_block_of_code_below_the_heading_stays_one() {
        let section = "## Two\n\n    code\n";
        let with = with_comment(section, "<!-- of: 1a2b3c4d -->");
        assert_eq!(with, "## Two\n<!-- of: 1a2b3c4d -->\n\n    code\n");
        assert_eq!(
            with_comment(&with, "<!-- of: 5e6f7081 -->"),
            with.replace("1a2b3c4d", "5e6f7081")
        );
    }

    #[test]
    fn an_original_may_link_to_its_translation() {
        let text = ORIGINAL.replacen("\n\n", "\n\n[中文](page.zh-CN.md)\n\n", 1);
        let (original, mut translation) =
            (page("docs/page.md", &text), page("docs/page.zh-CN.md", &in_step()));
        let comments = [ORIGINAL, &text].map(|text| comment(page("", text).sections()[0]));
        translation.text = translation.text.replace(&comments[0], &comments[1]);
        assert_eq!(problems(&original, &translation), Vec::<String>::new());
    }

    #[test]
    fn what_a_translation_lacks_or_has_changed_is_found() {
        for (there, instead, told) in [
            ("## 二", "### 二", r#""Two": heading: ["h3"] instead of ["h2"]"#),
            ("## 二", "二", "1 sections instead of 2"),
            ("x.rs", "y.rs", r#""One": link: ["y.rs"] instead of ["x.rs"]"#),
            ("`g`", "`h`", r#""One": name: ["h"] instead of ["g"]"#),
            ("    code", "    coat", r#""One": block of code: ["coat\n"] instead of ["code\n"]"#),
            ("- b\n", "", r#""Two": items of lists: ["1"] instead of ["2"]"#),
            ("| y |\n", "", r#""Two": rows of tables: ["0"] instead of ["1"]"#),
            (
                "[English](page.md)\n",
                "[English](page.md) ",
                "it does not begin with [English](page.md)",
            ),
        ] {
            assert_eq!(of(&in_step().replace(there, instead)), [told]);
        }
    }

    #[test]
    fn a_comment_is_translated_and_a_command_is_not() {
        let english =
            "./demo      # runs all, one\n            # after the other\n./learn x # status 1\n";
        let chinese = "./demo      # 逐个运行\n./learn x # status 1\n";
        assert_eq!(uncommented(english), "./demo\n./learn x # status 1\n");
        assert_eq!(uncommented(chinese), uncommented(english));
        for other in
            ["./demo -v # 逐个运行\n./learn x # status 1\n", "./demo\n./learn x # status 2\n"]
        {
            assert_ne!(uncommented(other), uncommented(english));
        }
    }

    #[test]
    fn a_section_that_has_changed_in_the_original_is_found() {
        let changed = page("docs/page.md", &ORIGINAL.replace("and", "or"));
        let found = problems(&changed, &page("docs/page.zh-CN.md", &in_step()));
        let [one] = &found[..] else { panic!("{found:?}") };
        assert!(one.starts_with(r#""One": the original has changed"#), "{one}");
        assert!(one.ends_with(&comment(changed.sections()[0])), "{one}");
        let wrapped = page("docs/page.md", &ORIGINAL.replace(" and", "\nand"));
        assert_eq!(
            problems(&wrapped, &page("docs/page.zh-CN.md", &in_step())),
            Vec::<String>::new()
        );
    }

    #[test]
    fn links_lead_to_translations() {
        let page = page("lessons/15-tell-with-the-write/README.md", "");
        let of = |link: &str| link_of_translation(link, &page);
        assert_eq!(of("../10-write-then-tell"), "../10-write-then-tell/README.zh-CN.md");
        assert_eq!(of("hints.md"), "hints.zh-CN.md");
        for link in ["../../mc", "../../mc/src/mc.rs", "https://example.org/x.md"] {
            assert_eq!(of(link), link);
        }
        let heading = of("../README.md#what-is-where");
        assert!(heading.starts_with("../README.zh-CN.md#"), "{heading}");
        assert_ne!(heading, "../README.zh-CN.md#what-is-where");
    }
}
