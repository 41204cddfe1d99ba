//! Complaints about a command line, in both languages: clap itself has English alone.

use clap::error::{ContextKind, ErrorKind};

use crate::words::Words;

/// clap's own text, and its most frequent complaints in Chinese.
pub fn words(error: &clap::Error) -> Words {
    let of = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (argument, value) = (of(ContextKind::InvalidArg), of(ContextKind::InvalidValue));
    let zh = match error.kind() {
        ErrorKind::UnknownArgument => format!("没有 {argument} 这个参数"),
        ErrorKind::ArgumentConflict => {
            format!("{argument} 不能和 {} 一起用", of(ContextKind::PriorArg))
        }
        ErrorKind::MissingRequiredArgument => format!("缺少 {argument}"),
        ErrorKind::InvalidValue if value.is_empty() => format!("{argument} 缺少值"),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            format!("{argument} 的值不能是 {value:?}")
        }
        _ => format!("命令行不对（{}）", error.kind()),
    };
    Words { en: error.to_string(), zh }
}
