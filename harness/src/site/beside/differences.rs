//! Where a difference from the C is explained: at the function that it is about.

use std::sync::LazyLock;

use regex::Regex;

/// An entry of a README's list, as Markdown.
pub type Difference = String;

/// Texts in backticks.
static CODE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("`([^`]+)`").expect("a constant pattern"));
/// A name, which is no long option.
static NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|[^\w-])(\w+)").expect("a constant pattern"));
static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+").expect("a constant pattern"));
/// An option of the command line.
static OPTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^-(\w)\b").expect("a constant pattern"));

/// The entries of a list.
pub fn entries(list: &str) -> Vec<Difference> {
    let mut entries: Vec<Difference> = Vec::new();
    let mut is_open = false;
    for line in list.lines() {
        if let Some(begin) = line.strip_prefix("- ") {
            entries.push(begin.to_owned());
            is_open = true;
        } else if let Some(more) = line.strip_prefix("  ").filter(|_| is_open) {
            let entry = entries.last_mut().expect("one is open");
            entry.push(' ');
            entry.push_str(more.trim());
        } else {
            is_open = false;
        }
    }
    entries
}

/// The index of the function that an entry is about: it names it, else a name of the libraries that stands in it,
/// else an option that it reads. `functions` are names, each with the code of either side.
pub fn place(entry: &str, functions: &[(&str, String)]) -> Option<usize> {
    let codes: Vec<&str> = CODE.captures_iter(entry).map(|code| code.extract::<1>().1[0]).collect();
    let names = codes.iter().flat_map(|code| NAME.captures_iter(code));
    let names: Vec<&str> = names.map(|name| name.extract::<1>().1[0]).collect();
    let itself = |name: &&str| functions.iter().position(|(function, _)| function == name);
    let with = |name: &&str| {
        let is_it = |code: &str| WORD.find_iter(code).any(|word| word.as_str() == *name);
        functions.iter().position(|(_, code)| is_it(code))
    };
    let option = |code: &&str| {
        let letter = format!("'{}'", &OPTION.captures(code)?[1]);
        functions.iter().position(|(_, code)| code.contains(&letter))
    };
    names
        .iter()
        .find_map(itself)
        .or_else(|| names.iter().filter(|name| name.contains('_')).find_map(with))
        .or_else(|| codes.iter().find_map(option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_put_together() {
        let list = "\n- one `-c`\n  and more\n\nAs [a](../a):\n\n- two\n\nend\n  of it\n";
        assert_eq!(entries(list), ["one `-c` and more", "two"]);
    }

    #[test]
    fn an_entry_stands_at_what_it_names() {
        let functions = [
            ("our_process_options", "case 'c': limit".to_owned()),
            ("our_disconnect", "pthread_cancel(thread); x_y".to_owned()),
            ("main", "our_disconnect()".to_owned()),
        ];
        let of = |entry: &str| place(entry, &functions);
        assert_eq!(of("C uses `pthread_cancel`"), Some(1));
        assert_eq!(of("`our_disconnect` and `-c`"), Some(1));
        assert_eq!(of("`-c` and `-s` refuse"), Some(0));
        assert_eq!(of("`-s -1`, `thread_cancel`"), None);
        assert_eq!(of("our_disconnect"), None);
        assert_eq!(of("`--x_y` is no name"), None);
        assert_eq!(of("says `failed in (x_y) -1`"), Some(1));
    }
}
