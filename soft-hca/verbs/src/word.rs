//! How words are defined, written and read.

use std::borrow::Cow;
use std::fmt;

/// A text that is no word of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is neither a number nor a name of {kind}")]
pub struct Unknown {
    /// The text.
    pub text: String,
    /// The prefix of all names of the kind.
    pub kind: &'static str,
}

/// Defines a number of which some values have names, as a type and as plain numbers.
macro_rules! words {
    (
        $(#[$doc:meta])*
        $type:ident, $numbers:ident, $prefix:literal: $($name:ident = $number:literal),* $(,)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub u32);

        $(#[$doc])*
        pub mod $numbers {
            $(
                #[doc = concat!("`", $prefix, stringify!($name), "`")]
                pub const $name: u32 = $number;
            )*
        }

        impl $type {
            $(
                #[doc = concat!("`", $prefix, stringify!($name), "`")]
                pub const $name: Self = Self($number);
            )*

            /// All values that have a name.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name, if it has one.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $( Self::$name => Some(concat!($prefix, stringify!($name))), )*
                    _ => None,
                }
            }

            /// The name without what all of them begin with.
            pub const fn short_name(self) -> Option<&'static str> {
                match self {
                    $( Self::$name => Some(stringify!($name)), )*
                    _ => None,
                }
            }

            /// The one with a name, whether or not that begins as all do.
            pub fn named(text: &str) -> Option<Self> {
                let short = text.strip_prefix($prefix).unwrap_or(text);
                Self::ALL.iter().copied().find(|word| word.short_name() == Some(short))
            }
        }

        /// The name, or the number where there is none.
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => self.0.fmt(f),
                }
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        /// The whole name, or a number.
        impl std::str::FromStr for $type {
            type Err = $crate::Unknown;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let named = Self::named(text).filter(|_| text.starts_with($prefix));
                let word = named.or_else(|| text.parse().map(Self).ok());
                word.ok_or_else(|| $crate::Unknown { text: text.into(), kind: $prefix })
            }
        }

        as_text!($type, |word| word.0, $type);
    };
}

/// Defines a set of flags with names, as a type and as plain numbers.
macro_rules! flags {
    (
        $(#[$doc:meta])*
        $type:ident, $numbers:ident, $prefix:literal: $($name:ident = $number:expr),* $(,)?
    ) => {
        $(#[$doc])*
        pub mod $numbers {
            $(
                #[doc = concat!("`", $prefix, stringify!($name), "`")]
                pub const $name: u32 = $number;
            )*
        }

        bitflags::bitflags! {
            $(#[$doc])*
            #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $type: u32 {
                $(
                    #[doc = concat!("`", $prefix, stringify!($name), "`")]
                    const $name = $number;
                )*
                // Programs may set any others.
                const _ = !0;
            }
        }

        impl $type {
            /// The name of each flag that is set; a number where a bit has none.
            pub fn names(self) -> impl Iterator<Item = std::borrow::Cow<'static, str>> {
                let name = |bit| match Self::from_bits_retain(bit) {
                    $( Self::$name => Some(concat!($prefix, stringify!($name))), )*
                    _ => None,
                };
                $crate::word::names(self.bits(), name)
            }
        }

        /// The names, joined by `|`; `0` for none.
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::word::joined(self.names(), f)
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        /// Names or numbers, joined by `|`.
        impl std::str::FromStr for $type {
            type Err = $crate::Unknown;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let flag = |text: &str| {
                    let name = text.strip_prefix($prefix).and_then(Self::from_name);
                    let flag = name.or_else(|| $crate::word::number(text).map(Self::from_bits_retain));
                    flag.ok_or_else(|| $crate::Unknown { text: text.into(), kind: $prefix })
                };
                text.split('|').map(flag).collect()
            }
        }

        impl $crate::word::Flags for $type {
            fn names(self) -> impl Iterator<Item = std::borrow::Cow<'static, str>> {
                self.names()
            }
        }

        as_text!($type, |flags| flags.bits(), $type::from_bits_retain);
    };
}

/// Has serde write and read a type as its text; as its number in formats that are not for humans.
macro_rules! as_text {
    ($type:ident, |$word:ident| $number:expr, $of:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $word = self;
                match serializer.is_human_readable() {
                    true => serializer.collect_str(self),
                    false => serializer.serialize_u32($number),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if !deserializer.is_human_readable() {
                    return u32::deserialize(deserializer).map($of);
                }
                let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// A set of flags.
pub trait Flags: Copy + FromIterator<Self> {
    /// The name of each that is set.
    fn names(self) -> impl Iterator<Item = Cow<'static, str>>;
}

pub(crate) fn names(
    set: u32,
    name: impl Fn(u32) -> Option<&'static str>,
) -> impl Iterator<Item = Cow<'static, str>> {
    let bits = (0..u32::BITS).map(|bit| 1 << bit).filter(move |bit| set & bit != 0);
    bits.map(move |bit| name(bit).map_or_else(|| format!("{bit:#x}").into(), Cow::from))
}

pub(crate) fn joined(
    names: impl Iterator<Item = Cow<'static, str>>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut is_empty = true;
    for name in names {
        f.write_str(if is_empty { "" } else { "|" })?;
        f.write_str(&name)?;
        is_empty = false;
    }
    f.write_str(if is_empty { "0" } else { "" })
}

/// A number, hexadecimal where `0x` begins it; `None` if the text is none.
pub fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Flags for serde as a list of names: `#[serde(with = "soft_hca_verbs::list")]`.
pub mod list {
    use std::borrow::Cow;
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::Flags;

    /// Writes the names.
    pub fn serialize<F: Flags, S: Serializer>(flags: &F, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(flags.names())
    }

    /// Reads names.
    pub fn deserialize<'de, F, D: Deserializer<'de>>(from: D) -> Result<F, D::Error>
    where
        F: Flags + FromStr<Err: Display>,
    {
        let names = <Vec<Cow<'_, str>>>::deserialize(from)?;
        names.iter().map(|name| name.parse::<F>().map_err(D::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use crate::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Record {
        status: WcStatus,
        allowed: AccessFlags,
        #[serde(with = "list")]
        flags: SendFlags,
    }

    #[test]
    fn words_are_written_and_read() {
        let record = Record {
            status: WcStatus::WR_FLUSH_ERR,
            allowed: AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ,
            flags: SendFlags::SIGNALED | SendFlags::from_bits_retain(0x100),
        };
        let text = r#"{"status":"IBV_WC_WR_FLUSH_ERR","allowed":"IBV_ACCESS_LOCAL_WRITE|IBV_ACCESS_REMOTE_READ","flags":["IBV_SEND_SIGNALED","0x100"]}"#;
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
        assert_eq!(serde_json::from_str::<Record>(text).unwrap(), record);
        let text = r#"{"status":"99","allowed":"0","flags":[]}"#;
        let record: Record = serde_json::from_str(text).unwrap();
        assert_eq!((record.status, record.allowed), (WcStatus(99), AccessFlags::empty()));
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
    }

    #[test]
    fn every_name_leads_to_its_number() {
        for status in WcStatus::ALL {
            assert_eq!(status.to_string().parse(), Ok(*status));
            assert_eq!(WcStatus::named(status.short_name().unwrap()), Some(*status));
        }
        for flag in AccessFlags::all().iter() {
            assert_eq!(flag.to_string().parse(), Ok(flag));
        }
        let all = AccessFlags::from_bits_retain(u32::MAX);
        assert_eq!(all.to_string().parse(), Ok(all));
    }

    #[test]
    fn other_texts_are_refused() {
        let error = "WR_FLUSH_ERR".parse::<WcStatus>().unwrap_err();
        assert_eq!(error.to_string(), "\"WR_FLUSH_ERR\" is neither a number nor a name of IBV_WC_");
        assert!("IBV_WC_NOTHING".parse::<WcStatus>().is_err());
        assert!(
            "".parse::<AccessFlags>().is_err() && "IBV_ACCESS_".parse::<AccessFlags>().is_err()
        );
        assert_eq!(WcStatus::named("5"), None);
        assert_eq!(format!("{:>8}|{:?}", QpState(9), QpState::RTS), "       9|IBV_QPS_RTS");
    }
}
