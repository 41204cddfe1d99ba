//! A specification as its parts: `what[:part,...]`.

use std::mem;
use std::str::FromStr;

use super::Error;
use super::names::{like, question};

/// A specification whose parts wait to be taken.
#[derive(Debug)]
pub(super) struct Spec<'t> {
    text: &'t str,
    /// The fault's name.
    pub what: &'t str,
    parts: Vec<Part<'t>>,
}

/// Key, if there is one, and value.
type Part<'t> = (Option<&'t str>, &'t str);

/// A whole number, and what its limits are.
pub(super) struct Number {
    least: u64,
    most: u64,
    wanted: &'static str,
}

impl Number {
    pub(super) const ANY: Self = Self { least: 0, most: u64::MAX, wanted: "it is a whole number" };
    pub(super) const COUNT: Self =
        Self { least: 1, most: u32::MAX as u64, wanted: "it is a whole number from 1 to 2^32 - 1" };
    pub(super) const BYTES: Self =
        Self { least: 0, most: u32::MAX as u64, wanted: "it is a whole number below 2^32" };
    pub(super) const QPN: Self = Self {
        least: 0,
        most: 0xff_ffff,
        wanted: "a queue pair's number is below 2^24, in decimal or with 0x in front",
    };

    pub(super) fn parse(&self, key: &'static str, value: &str) -> Result<u64, Error> {
        let digits = |text: &str| text.bytes().all(|c| c.is_ascii_alphanumeric());
        let number = match value.strip_prefix("0x") {
            Some(hex) if digits(hex) => u64::from_str_radix(hex, 16).ok(),
            None if digits(value) => value.parse().ok(),
            _ => None,
        };
        number
            .filter(|number| (self.least..=self.most).contains(number))
            .ok_or_else(|| Error::Value { key, value: value.into(), wanted: self.wanted })
    }
}

impl<'t> Spec<'t> {
    pub(super) fn parse(text: &'t str) -> Result<Self, Error> {
        let (what, parts) = match text.split_once(':') {
            Some((what, parts)) => (what, parts.split(',').collect()),
            None => (text, Vec::new()),
        };
        let part = |part: &'t str| match part.split_once('=') {
            Some((key, value)) => (Some(key), value),
            None => (None, part),
        };
        Ok(Self { text, what, parts: parts.into_iter().map(part).collect() })
    }

    /// Takes the value of a key.
    pub(super) fn take(&mut self, key: &'static str) -> Result<Option<&'t str>, Error> {
        self.only(key, |(other, _)| *other == Some(key))
    }

    /// Takes the value of the part that is meant; there may not be two.
    fn only(
        &mut self,
        key: &'static str,
        is_meant: impl Fn(&Part<'t>) -> bool,
    ) -> Result<Option<&'t str>, Error> {
        let (found, others): (Vec<_>, Vec<_>) =
            mem::take(&mut self.parts).into_iter().partition(is_meant);
        self.parts = others;
        match found[..] {
            [] => Ok(None),
            [(_, value)] => Ok(Some(value)),
            _ => Err(self.twice(key)),
        }
    }

    fn twice(&self, key: &'static str) -> Error {
        Error::Twice { key, spec: self.text.into() }
    }

    /// Takes the value of a key that is a number.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        limits: &Number,
    ) -> Result<Option<u64>, Error> {
        self.take(key)?.map(|value| limits.parse(key, value)).transpose()
    }

    /// Takes the value of a key, which may be left out before a value that is of this kind.
    pub(super) fn value<T: FromStr>(
        &mut self,
        key: &'static str,
        wanted: &'static str,
    ) -> Result<Option<T>, Error> {
        let named = self.take(key)?;
        let bare = self.only(key, |(key, value)| key.is_none() && value.parse::<T>().is_ok())?;
        if named.is_some() && bare.is_some() {
            return Err(self.twice(key));
        }
        let wrong = |value: &str| Error::Value { key, value: value.into(), wanted };
        named.or(bare).map(|value| value.parse().map_err(|_| wrong(value))).transpose()
    }

    /// Takes a part that is this word.
    pub(super) fn word(&mut self, word: &'static str) -> Result<bool, Error> {
        Ok(self.only(word, |part| *part == (None, word))?.is_some())
    }

    /// Takes the value of a key that is a name in capital letters; the key may be left out.
    pub(super) fn named<T, I: Iterator<Item = &'static str>>(
        &mut self,
        key: &'static str,
        wanted: &'static str,
        parse: impl Fn(&str) -> Option<T>,
        names: impl Fn() -> I,
    ) -> Result<Option<T>, Error> {
        let value = self.only(key, |part| match part.0 {
            Some(other) => other == key,
            None => part.1.starts_with(|c: char| c.is_ascii_uppercase()),
        })?;
        let wrong = |value: &str| {
            let like = question(&like(value, names()));
            Error::Name { key, value: value.into(), wanted, like }
        };
        value.map(|value| parse(value).ok_or_else(|| wrong(value))).transpose()
    }

    /// Checks that every part was taken.
    pub(super) fn end(self, what: &'static str, keys: &'static str) -> Result<(), Error> {
        match self.parts.first() {
            None => Ok(()),
            Some((Some(key), _)) => Err(Error::Key { what, key: (*key).into(), keys }),
            Some((None, value)) => Err(Error::Part { what, value: (*value).into(), keys }),
        }
    }
}
