//! Command lines as `getopt(3)` and `getopt_long(3)` read them.
//!
//! The `getopts` crate parses them, one option at a time: it knows which options there are and
//! finds their values. The rest is here because it does some things otherwise than the C library:
//!
//! - It gives the options by name, not in their order, and of a wrong command line nothing but
//!   the error, whereas a C program has by then acted on every earlier option. Hence one option
//!   at a time, even in a group such as `-tx`.
//! - It takes `--h` for `-h`, and any `--` for the end of the options. In C a dash inside a group
//!   is an unknown letter, and so is the second dash of `--h` if there are no long options.
//! - It wants long names in full; `getopt_long` takes their beginnings, too.
//! - It has its own words for errors.
//!
//! Nothing follows an error: none of the C programs goes on after one.

use std::{env, slice};

use getopts::Fail::{ArgumentMissing, UnexpectedArgument};
use getopts::{HasArg, Occur, Options};

use crate::errln;

/// One option as C's loop sees it: what `getopt` returns, `optarg` and `optopt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The option's letter, `'?'` for an unknown option, or `':'` for a missing value (`'?'` if
    /// the option string does not begin with a colon).
    pub c: char,
    /// The option's value; empty if it takes none.
    pub optarg: String,
    /// The letter (of a long option: its `val`) at fault, for `'?'` and `':'`; `'\0'` for an
    /// unknown long name.
    pub optopt: char,
}

/// A long option of `getopt_long(3)`.
#[derive(Clone, Copy, Debug)]
pub struct LongOption {
    /// The name, without its dashes.
    pub name: &'static str,
    /// Whether a value must follow.
    pub has_arg: bool,
    /// The letter that stands for it in [`Switch::c`]. It may be in the option string, too.
    pub val: char,
}

/// The options of a command line, an iterator of [`Switch`]es; see the module's text.
#[derive(Debug)]
pub struct Getopt {
    switches: std::vec::IntoIter<Switch>,
    complaint: Option<String>,
    operands: Vec<String>,
    optind: usize,
}

/// The program's arguments, `argv[0]` first. Bytes that are not UTF-8 are shown as replacement
/// characters.
pub fn args() -> Vec<String> {
    env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect()
}

impl Getopt {
    /// Reads `argv` (program name first) by a C option string such as `":a:p:h"`. Without the
    /// leading colon an error prints getopt's own message on standard error when it is reached.
    pub fn new(argv: &[String], optstring: &str) -> Self {
        Self::long(argv, optstring, &[])
    }

    /// `getopt_long(3)`: also reads long options, which may be shortened as far as they stay
    /// unambiguous.
    pub fn long(argv: &[String], optstring: &str, long: &[LongOption]) -> Self {
        let quiet = optstring.starts_with(':');
        let stops_at_operand = env::var_os("POSIXLY_CORRECT").is_some();
        let args = argv.get(1..).unwrap_or_default().iter();
        let mut reader = Reader { options: table(optstring, long), long, args, switches: vec![] };
        let (mut operands, mut complaint) = (vec![], None);
        while let Some(arg) = reader.args.next() {
            if arg.starts_with('-') && arg != "-" && arg != "--" {
                let Err((c, optopt, text)) = reader.read(arg) else { continue };
                operands.clear();
                let c = if quiet { c } else { '?' };
                reader.switches.push(Switch { c, optarg: String::new(), optopt });
                complaint = (!quiet).then(|| format!("{}: {text}", argv[0]));
                break;
            }
            operands.extend((arg != "--").then(|| arg.clone()));
            if arg == "--" || stops_at_operand {
                operands.extend(reader.args.by_ref().cloned());
            }
        }
        let optind = argv.len() - operands.len();
        Self { switches: reader.switches.into_iter(), complaint, operands, optind }
    }

    /// The operands, left when all options are read: index in `argv` (after getopt has moved the
    /// operands behind the options) and text of each.
    pub fn operands(&self) -> impl Iterator<Item = (usize, &str)> {
        (self.optind..).zip(self.operands.iter().map(String::as_str))
    }
}

impl Iterator for Getopt {
    type Item = Switch;

    fn next(&mut self) -> Option<Switch> {
        let switch = self.switches.next()?;
        if self.switches.len() == 0 {
            if let Some(complaint) = self.complaint.take() {
                errln!("{complaint}");
            }
        }
        Some(switch)
    }
}

/// An error: `':'` for a missing value or `'?'`, what `optopt` is, and getopt's own words.
type Fault = (char, char, String);

/// Reads the options of one argument after the other.
struct Reader<'a> {
    options: Options,
    long: &'a [LongOption],
    args: slice::Iter<'a, String>,
    switches: Vec<Switch>,
}

impl Reader<'_> {
    /// Reads a long option or a group of letters. The text after a letter that wants a value is its value.
    fn read(&mut self, arg: &str) -> Result<(), Fault> {
        if let Some(text) = arg.strip_prefix("--") {
            if !self.long.is_empty() {
                let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
                let LongOption { name, val, .. } = self.complete(name, arg)?;
                return self.option(val, name, &format!("--{name}{value}"));
            }
        }
        let mut letters = arg.chars().skip(1);
        while let Some(letter) = letters.next() {
            let mut word = format!("-{letter}");
            if let Err(ArgumentMissing(_)) = self.options.parse([&word]) {
                word.extend(letters.by_ref());
            }
            self.option(letter, &letter.to_string(), &word)?;
        }
        Ok(())
    }

    /// Reads the only option of `word`, with the next argument if there is no value in `word`.
    fn option(&mut self, val: char, name: &str, word: &str) -> Result<(), Fault> {
        let mut parsed = self.options.parse([word]);
        if let Err(ArgumentMissing(_)) = parsed {
            if let Some(value) = self.args.next() {
                parsed = self.options.parse([word, value]);
            }
        }
        let (c, text) = match parsed {
            Ok(matches) if matches.opt_defined(name) => {
                let optarg = matches.opt_str(name).unwrap_or_default();
                self.switches.push(Switch { c: val, optarg, optopt: '\0' });
                return Ok(());
            }
            Err(ArgumentMissing(_)) if word.starts_with("--") => {
                (':', format!("option '--{name}' requires an argument"))
            }
            Err(ArgumentMissing(_)) => (':', format!("option requires an argument -- '{name}'")),
            Err(UnexpectedArgument(_)) => {
                ('?', format!("option '--{name}' doesn't allow an argument"))
            }
            // An unknown letter. For a dash `getopts` has seen a `--` and no option.
            _ => ('?', format!("invalid option -- '{name}'")),
        };
        Err((c, val, text))
    }

    /// The long option that has this name, or the only one whose name begins so.
    fn complete(&self, name: &str, arg: &str) -> Result<LongOption, Fault> {
        let found: Vec<_> = self.long.iter().filter(|o| o.name.starts_with(name)).collect();
        if let Some(option) = found.iter().find(|o| found.len() == 1 || o.name == name) {
            return Ok(**option);
        }
        let names: String = found.iter().map(|o| format!(" '--{}'", o.name)).collect();
        let text = match found.len() {
            0 => format!("unrecognized option '{arg}'"),
            _ => format!("option '{arg}' is ambiguous; possibilities:{names}"),
        };
        Err(('?', '\0', text))
    }
}

/// The table for `getopts`: each letter, with a value if a colon follows, and each long name.
fn table(optstring: &str, long: &[LongOption]) -> Options {
    let letters = optstring.match_indices(|c| c != ':');
    let letters = letters.map(|(at, c)| (c, "", optstring[at + c.len()..].starts_with(':')));
    let mut options = Options::new();
    for (letter, name, has_arg) in letters.chain(long.iter().map(|o| ("", o.name, o.has_arg))) {
        let has_arg = if has_arg { HasArg::Yes } else { HasArg::No };
        options.opt(letter, name, "", "", has_arg, Occur::Optional);
    }
    options
}

#[cfg(test)]
mod tests;
