//! Command lines as `getopt(3)` and `getopt_long(3)` read them.
//!
//! The `getopts` crate does the parsing: joined values (`-p5000`), grouped switches (`-tx`),
//! `--`, operands anywhere. It reports one error and forgets what came before it, whereas a C
//! program has by then acted on every earlier option. [`Getopt`] therefore hands out the options
//! in the order of the command line and the error last. Nothing follows an error: none of the C
//! programs goes on after one.

use std::ffi::OsString;
use std::iter;

use getopts::{Fail, Matches, Options};

use crate::errln;

/// One option as C's loop sees it: what `getopt` returns, `optarg` and `optopt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The option's letter, `'?'` for an unknown option, or `':'` for a missing value (`'?'` if
    /// the option string does not begin with a colon).
    pub c: char,
    /// The option's value; empty if it takes none.
    pub optarg: String,
    /// The letter that was not understood, for `'?'` and `':'`; `'\0'` for a long option.
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

/// The program's arguments, `argv[0]` first. What is not UTF-8 is shown with replacement
/// characters.
pub fn args() -> Vec<String> {
    std::env::args_os().map(lossy).collect()
}

fn lossy(arg: OsString) -> String {
    arg.to_string_lossy().into_owned()
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
        let Some((program, args)) = argv.split_first() else {
            return Self {
                switches: vec![].into_iter(),
                complaint: None,
                operands: vec![],
                optind: 0,
            };
        };
        let table = Table::new(optstring, long);
        let parsed = table.parse(args);
        let optind = argv.len() - parsed.operands.len();
        Self {
            switches: parsed.switches.into_iter(),
            complaint: parsed.complaint.map(|text| format!("{program}: {text}")),
            operands: parsed.operands,
            optind,
        }
    }

    /// What is left when all options are read: index in `argv` (after getopt has moved the
    /// operands behind the options) and text of each.
    pub fn operands(&self) -> impl Iterator<Item = (usize, &str)> {
        (self.optind..).zip(self.operands.iter().map(String::as_str))
    }
}

impl Iterator for Getopt {
    type Item = Switch;

    fn next(&mut self) -> Option<Switch> {
        let switch = self.switches.next()?;
        if self.switches.len() == 0
            && let Some(complaint) = self.complaint.take()
        {
            errln!("{complaint}");
        }
        Some(switch)
    }
}

/// The options that a program knows.
struct Table<'a> {
    options: Options,
    /// Letter and whether it takes a value.
    letters: Vec<(char, bool)>,
    long: &'a [LongOption],
    /// The option string begins with a colon: no messages, and `':'` for a missing value.
    quiet: bool,
}

struct Parsed {
    switches: Vec<Switch>,
    complaint: Option<String>,
    operands: Vec<String>,
}

impl<'a> Table<'a> {
    fn new(optstring: &str, long: &'a [LongOption]) -> Self {
        let quiet = optstring.starts_with(':');
        let letters: Vec<char> = optstring.trim_start_matches(':').chars().collect();
        let letters: Vec<(char, bool)> = iter::zip(&letters, letters.iter().skip(1).chain(&['\0']))
            .filter(|(letter, _)| **letter != ':')
            .map(|(letter, next)| (*letter, *next == ':'))
            .collect();
        let mut options = Options::new();
        if std::env::var_os("POSIXLY_CORRECT").is_some() {
            options.parsing_style(getopts::ParsingStyle::StopAtFirstFree);
        }
        for &(letter, has_arg) in &letters {
            add(&mut options, &letter.to_string(), "", has_arg);
        }
        for option in long {
            add(&mut options, "", option.name, option.has_arg);
        }
        Self { options, letters, long, quiet }
    }

    fn parse(&self, args: &[String]) -> Parsed {
        let mut args: Vec<String> = args.iter().map(|arg| guarded(arg)).collect();
        let fail = loop {
            match self.options.parse(&args) {
                Ok(matches) => {
                    let switches = self.in_order(&matches);
                    let operands = matches.free.iter().map(|arg| unguarded(arg)).collect();
                    return Parsed { switches, complaint: None, operands };
                }
                Err(Fail::UnrecognizedOption(_)) if self.expand(&mut args) => {}
                Err(fail) => break fail,
            }
        };
        let (mut switches, culprit) = self.before_error(&args);
        let (error, complaint) = self.error(&unguarded(&culprit), &fail);
        switches.push(error);
        Parsed { switches, complaint: (!self.quiet).then_some(complaint), operands: vec![] }
    }

    /// Everything that was read before the argument at which parsing fails, and that argument
    /// from the letter on that is the culprit (or whole, if it is a long option).
    fn before_error(&self, args: &[String]) -> (Vec<Switch>, String) {
        let good = self.good_prefix(args);
        let culprit = args[good].clone();
        let mut prefix = args[..good].to_vec();
        let letters: Vec<(usize, char)> = culprit.char_indices().skip(1).collect();
        if !culprit.starts_with("--") {
            // In a group such as -tz the letters before the culprit count.
            for &(end, _) in letters.iter().skip(1).rev() {
                prefix.push(culprit[..end].to_string());
                if let Ok(matches) = self.options.parse(&prefix) {
                    return (self.in_order(&matches), format!("-{}", &culprit[end..]));
                }
                prefix.pop();
            }
        }
        let matches = self.options.parse(&prefix).expect("good_prefix has parsed it");
        (self.in_order(&matches), culprit)
    }

    /// Number of leading arguments that parse: the next one is where the error is.
    fn good_prefix(&self, args: &[String]) -> usize {
        let parses = |end: &usize| self.options.parse(&args[..*end]).is_ok();
        (0..args.len()).rev().find(parses).expect("no arguments at all parse")
    }

    /// `getopt_long` takes the beginning of a name for the name. Completes the argument at
    /// which parsing fails, if it is one; says whether it was.
    fn expand(&self, args: &mut [String]) -> bool {
        let index = self.good_prefix(args);
        let whole = unguarded(&args[index]);
        let (name, value) = split_long(&whole);
        match self.candidates(name).as_slice() {
            [option] if whole.starts_with("--") && option.name != name => {
                args[index] = format!("--{}{value}", option.name);
                true
            }
            _ => false,
        }
    }

    fn candidates(&self, name: &str) -> Vec<&LongOption> {
        self.long.iter().filter(|option| option.name.starts_with(name)).collect()
    }

    /// The last thing the program gets to see, and getopt's own words for it.
    fn error(&self, culprit: &str, fail: &Fail) -> (Switch, String) {
        let letter = culprit.chars().nth(1).unwrap_or('\0');
        let is_long = culprit.starts_with("--") && !self.long.is_empty();
        let missing = matches!(fail, Fail::ArgumentMissing(_));
        let c = if missing && self.quiet { ':' } else { '?' };
        let optopt = if is_long { '\0' } else { letter };
        let (name, _) = split_long(culprit);
        let complaint = match (is_long, missing) {
            (false, true) => format!("option requires an argument -- '{letter}'"),
            (false, false) => format!("invalid option -- '{letter}'"),
            (true, true) => format!("option '--{name}' requires an argument"),
            (true, false) if matches!(fail, Fail::UnexpectedArgument(_)) => {
                format!("option '--{name}' doesn't allow an argument")
            }
            (true, false) => match self.candidates(name).as_slice() {
                [] => format!("unrecognized option '{culprit}'"),
                several => {
                    let names: String =
                        several.iter().map(|option| format!(" '--{}'", option.name)).collect();
                    format!("option '{culprit}' is ambiguous; possibilities:{names}")
                }
            },
        };
        (Switch { c, optarg: String::new(), optopt }, complaint)
    }

    /// The options in the order of the command line.
    fn in_order(&self, matches: &Matches) -> Vec<Switch> {
        let short = self.letters.iter().map(|&(c, has_arg)| (c.to_string(), c, has_arg));
        let long = self.long.iter().map(|o| (o.name.to_string(), o.val, o.has_arg));
        let mut found = Vec::new();
        for (name, c, has_arg) in short.chain(long) {
            let values = if has_arg {
                matches.opt_strs_pos(&name)
            } else {
                let positions = matches.opt_positions(&name);
                positions.into_iter().map(|at| (at, String::new())).collect()
            };
            // In a group (-tp5000) the option with a value is the last one.
            found.extend(values.into_iter().map(|(at, value)| ((at, has_arg), c, value)));
        }
        found.sort_by_key(|&(place, _, _)| place);
        let switch = |(_, c, value): (_, char, String)| Switch {
            c,
            optarg: unguarded(&value),
            optopt: '\0',
        };
        found.into_iter().map(switch).collect()
    }
}

fn add(options: &mut Options, short: &str, long: &str, has_arg: bool) {
    if has_arg {
        options.optmulti(short, long, "", "");
    } else {
        options.optflagmulti(short, long, "");
    }
}

/// Name and, with its equals sign, value of `--name=value`.
fn split_long(arg: &str) -> (&str, &str) {
    let arg = arg.strip_prefix("--").unwrap_or(arg);
    arg.split_at(arg.find('=').unwrap_or(arg.len()))
}

/// `getopts` takes `--h` for `-h`; C does not. A NUL, which no argument holds, keeps the two apart.
fn guarded(arg: &str) -> String {
    match arg.strip_prefix("--") {
        Some(name) if split_long(arg).0.chars().count() == 1 => format!("--\0{name}"),
        _ => arg.to_string(),
    }
}

fn unguarded(arg: &str) -> String {
    arg.replacen("--\0", "--", 1)
}

#[cfg(test)]
mod tests;
