//! The coach's sentences, each in English and in Chinese: the two stand beside each other.

use std::fmt::Display;

/// A language in which the coach speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Tongue {
    /// English, unless another one is chosen.
    #[default]
    #[value(name = "en")]
    English,
    /// Chinese, in the words of `docs/glossary.zh-CN.md`.
    #[value(name = "zh")]
    Chinese,
}

/// A sentence, or a part of one, in both languages. [`words!`] makes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words<S = String> {
    /// In English.
    pub en: S,
    /// In Chinese.
    pub zh: S,
}

/// Makes [`Words`] of an English sentence and its Chinese one, with placeholders as in `format!`: names of variables, or
/// of values that follow (`count = sends.len()`). Variables in brackets behind them are words themselves. It does not
/// compile if the two do not agree.
///
/// ```
/// use coach::words::words;
/// let count = 3;
/// assert_eq!(words!("{count} sends", "{count} 个发送请求").zh, "3 个发送请求");
/// ```
///
/// ```compile_fail
/// use coach::words::words;
/// let count = 3;
/// words!("{count} sends", "发送请求");
/// ```
///
/// ```compile_fail
/// coach::words::words!("nothing was sent", "nothing was sent");
/// ```
#[macro_export]
macro_rules! words {
    ($en:literal, $zh:literal $(, $name:ident = $value:expr)* $(, [$($part:ident),+])? $(,)?) => {{
        const { assert!($crate::words::agree($en, $zh), "no Chinese, or other placeholders") };
        $crate::words::Words {
            en: {
                $($(let $part = &$part.en;)+)?
                format!($en $(, $name = $value)*)
            },
            zh: {
                $($(let $part = &$part.zh;)+)?
                format!($zh $(, $name = $value)*)
            },
        }
    }};
}
pub use words;

impl<S: AsRef<str>> Words<S> {
    /// The text in a language.
    pub fn of(&self, tongue: Tongue) -> &str {
        match tongue {
            Tongue::English => self.en.as_ref(),
            Tongue::Chinese => self.zh.as_ref(),
        }
    }
}

impl Words<&'static str> {
    /// Words without placeholders. It panics if they do not [agree], in constants when they are compiled.
    pub const fn fixed(en: &'static str, zh: &'static str) -> Self {
        assert!(agree(en, zh), "no Chinese, or placeholders");
        Self { en, zh }
    }
}

impl Words {
    /// Somebody else's words, in whatever language.
    pub fn verbatim(text: impl Display) -> Self {
        let text = text.to_string();
        Self { en: text.clone(), zh: text }
    }

    /// Somebody else's reason, behind a colon. Nothing if there is none.
    pub fn reason(text: Option<impl Display>) -> Self {
        text.map_or_else(Self::default, |text| Self {
            en: format!(": {text}"),
            zh: format!("：{text}"),
        })
    }

    /// Words in a row, with commas between them.
    pub fn list<S: AsRef<str>>(all: &[Words<S>]) -> Self {
        let of = |tongue| all.iter().map(|one| one.of(tongue)).collect::<Vec<_>>();
        Self { en: of(Tongue::English).join(", "), zh: of(Tongue::Chinese).join("、") }
    }
}

/// Whether the second text is Chinese and has the first one's placeholders, in any order.
pub const fn agree(en: &str, zh: &str) -> bool {
    let (en, zh) = (en.as_bytes(), zh.as_bytes());
    let (mut at, mut placeholders) = (0, 0);
    while let Some((start, end)) = placeholder(en, at) {
        if count(en, en, start, end) != count(zh, en, start, end) {
            return false;
        }
        (at, placeholders) = (end, placeholders + 1);
    }
    at = 0;
    while let Some((_, end)) = placeholder(zh, at) {
        if placeholders == 0 {
            return false;
        }
        (at, placeholders) = (end, placeholders - 1);
    }
    placeholders == 0 && is_chinese(zh)
}

/// Where the next placeholder begins and ends.
const fn placeholder(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut start = from;
    while start < text.len() {
        if text[start] != b'{' {
            start += 1;
        } else if start + 1 < text.len() && text[start + 1] == b'{' {
            start += 2;
        } else {
            let mut end = start;
            while end < text.len() && text[end] != b'}' {
                end += 1;
            }
            return Some((start, end));
        }
    }
    None
}

/// How often `text` has the placeholder that is in `other` from `start` to `end`.
const fn count(text: &[u8], other: &[u8], start: usize, end: usize) -> usize {
    let (mut at, mut found) = (0, 0);
    while let Some((begin, stop)) = placeholder(text, at) {
        let mut same = 0;
        while begin + same < stop && start + same < end && text[begin + same] == other[start + same]
        {
            same += 1;
        }
        if begin + same == stop && start + same == end {
            found += 1;
        }
        at = stop;
    }
    found
}

/// Whether there is a character from U+4000 to U+9FFF, where those of Chinese are: in UTF-8 its first byte tells.
const fn is_chinese(text: &[u8]) -> bool {
    let mut at = 0;
    while at < text.len() {
        if matches!(text[at], 0xe4..=0xe9) {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_agree_if_both_are_there_with_the_same_placeholders() {
        for (en, zh) in [
            ("done", "完成"),
            ("{a} of {b}", "{b} 中的 {a}"),
            ("{a:?} and {a:?}", "{a:?} 和 {a:?}"),
            ("{{{a}}}", "花括号里的 {a}，{{}}"),
        ] {
            assert!(agree(en, zh), "{en:?} {zh:?}");
        }
        for (en, zh) in [
            ("done", ""),
            ("done", "done"),
            ("done", "（done）："),
            ("{a}", "甲"),
            ("a", "甲 {a}"),
            ("{a}", "甲 {b}"),
            ("{a}", "甲 {ab}"),
            ("{ab}", "甲 {a}"),
            ("{a}", "甲 {a:?}"),
            ("{a}", "甲 {a} {a}"),
            ("{a} {a} {b}", "甲 {a} {b} {b}"),
            ("{a}", "甲 {{a}}"),
        ] {
            assert!(!agree(en, zh), "{en:?} {zh:?}");
        }
    }

    #[test]
    fn parts_are_said_in_the_language_of_the_whole() {
        let part = words!("a part", "一部分");
        let whole = words!("{part} of {count}", "{count} 之{part}", count = 2, [part]);
        assert_eq!(whole.of(Tongue::English), "a part of 2");
        assert_eq!(whole.of(Tongue::Chinese), "2 之一部分");
        let list = Words::list(&[part, Words::verbatim(7)]);
        assert_eq!((list.en.as_str(), list.zh.as_str()), ("a part, 7", "一部分、7"));
        let reason = Words::reason(Some("EBUSY"));
        assert_eq!((reason.en.as_str(), reason.zh.as_str()), (": EBUSY", "：EBUSY"));
        assert_eq!(Words::reason(None::<u8>), Words::default());
    }
}
