//! A specification as its parts: `what[:part,...]`.

use std::str::FromStr;

use super::Error;
use super::names::{like, question};

/// A specification whose parts wait to be taken.
#[derive(Debug)]
pub(super) struct Spec<'t> {
    text: &'t str,
    /// The fault's name.
    pub what: &'t str,
    /// Key, if there is one, and value.
    parts: Vec<(Option<&'t str>, &'t str)>,
}

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
        let mut found = self.parts.extract_if(.., |(other, _)| *other == Some(key));
        let value = found.next().map(|(_, value)| value);
        if found.next().is_some() {
            return Err(Error::Twice { key, spec: self.text.into() });
        }
        Ok(value)
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
        let mut bare = self
            .parts
            .extract_if(.., |(key, value)| key.is_none() && value.parse::<T>().is_ok())
            .map(|(_, value)| value);
        let value = named.or_else(|| bare.next());
        if bare.next().is_some() {
            return Err(Error::Twice { key, spec: self.text.into() });
        }
        let wrong = |value: &str| Error::Value { key, value: value.into(), wanted };
        value.map(|value| value.parse().map_err(|_| wrong(value))).transpose()
    }

    /// Takes a part that is this word.
    pub(super) fn word(&mut self, word: &'static str) -> Result<bool, Error> {
        let mut found = self.parts.extract_if(.., |part| *part == (None, word));
        let is_there = found.next().is_some();
        if found.next().is_some() {
            return Err(Error::Twice { key: word, spec: self.text.into() });
        }
        Ok(is_there)
    }

    /// Takes the value of a key that is a name in capital letters; the key may be left out.
    pub(super) fn named<T: FromStr, N: AsRef<str>, I: Iterator<Item = N>>(
        &mut self,
        key: &'static str,
        wanted: &'static str,
        names: impl Fn() -> I,
    ) -> Result<Option<T>, Error> {
        let is_meant = |part: &mut (Option<&str>, &str)| match part.0 {
            Some(other) => other == key,
            None => part.1.starts_with(|c: char| c.is_ascii_uppercase()),
        };
        let mut found = self.parts.extract_if(.., is_meant).map(|(_, value)| value);
        let value = found.next();
        if found.next().is_some() {
            return Err(Error::Twice { key, spec: self.text.into() });
        }
        let wrong = |value: &str| {
            let like = question(&like(value, names()));
            Error::Name { key, value: value.into(), wanted, like }
        };
        value.map(|value| value.parse().map_err(|_| wrong(value))).transpose()
    }

    /// That every part was taken.
    pub(super) fn end(self, what: &'static str, keys: &'static str) -> Result<(), Error> {
        match self.parts.first() {
            None => Ok(()),
            Some((Some(key), _)) => Err(Error::Key { what, key: (*key).into(), keys }),
            Some((None, value)) => Err(Error::Part { what, value: (*value).into(), keys }),
        }
    }
}
