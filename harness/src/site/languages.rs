//! Pages in English and in Chinese, and the link from one to the other.

use std::path::{Path, PathBuf};

use super::is_markdown;

/// The end of a translation's name.
const CHINESE: &str = "zh-CN.md";

/// How pages in Chinese look, for mdBook to add.
pub const STYLE: &str = include_str!("chinese.css");

/// The translation of a page, if there is one.
pub fn translation(page: &Path, top: &Path) -> Option<PathBuf> {
    let path = page.with_extension(CHINESE);
    (is_markdown(page) && top.join(&path).is_file()).then_some(path)
}

/// Whether a page is in Chinese.
pub fn is_chinese(page: &Path) -> bool {
    page.file_name().is_some_and(|name| name.to_string_lossy().ends_with(CHINESE))
}

/// A page's text with a link to its translation below its heading, where the translation has the one back.
pub fn with_switch(text: String, page: &Path, top: &Path) -> String {
    let translation = translation(page, top);
    let Some(name) = translation.as_deref().and_then(Path::file_name) else { return text };
    let switch = format!("[中文]({})\n", name.to_string_lossy());
    let is_heading = |line: &&str| line.starts_with("# ");
    match text.split_inclusive('\n').find(is_heading) {
        Some(heading) if !text.contains(&switch) => {
            text.replacen(heading, &format!("{heading}\n{switch}"), 1)
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(page: &str, text: &str) -> String {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        with_switch(text.to_owned(), Path::new(page), top)
    }

    #[test]
    fn pages_with_a_translation_have_one_link_to_it() {
        let text = of("docs/reading.md", "# One\n\ntext\n\n# Two\n");
        assert_eq!(text, "# One\n\n[中文](reading.zh-CN.md)\n\ntext\n\n# Two\n");
        assert_eq!(of("docs/reading.md", &text), text);
        for page in ["docs/reading.zh-CN.md", "docs/faithfulness.md", "common/src"] {
            assert_eq!(of(page, "# One\n\ntext\n"), "# One\n\ntext\n", "{page}");
        }
    }
}
