//! Values that have no fixed length as words, behind the fixed part of an event.

use arrayvec::ArrayVec;
use zerocopy::IntoBytes;

/// No value has more words.
const MOST: usize = 8;

/// A value as it is traced.
pub(crate) type Words = ArrayVec<u64, MOST>;

/// What words of a trace can say.
pub(crate) trait Coded: Sized {
    /// Appends what it is.
    fn put(self, words: &mut Words);

    /// What words begin with, which they do no longer then.
    fn take(words: &mut &[u64]) -> Option<Self>;
}

/// Declares an enumeration whose words are the number of the variant and its fields.
macro_rules! coded {
    ($(#[$doc:meta])* pub enum $name:ident { $(
        $(#[$variant_doc:meta])*
        $variant:ident
            $(($($member:ident: $member_type:ty),*))?
            $({ $($(#[$field_doc:meta])* $field:ident: $field_type:ty,)* })?
            = $number:literal,
    )* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $(
            $(#[$variant_doc])*
            $variant
                $(($($member_type),*))?
                $({ $($(#[$field_doc])* $field: $field_type,)* })?,
        )* }

        impl $crate::trace::words::Coded for $name {
            fn put(self, words: &mut $crate::trace::words::Words) {
                match self { $(
                    Self::$variant $(($($member),*))? $({ $($field),* })? => {
                        words.push($number);
                        $($($member.put(words);)*)?
                        $($($field.put(words);)*)?
                    }
                )* }
            }

            fn take(words: &mut &[u64]) -> Option<Self> {
                Some(match u64::take(words)? {
                    $($number => Self::$variant
                        $(($(<$member_type>::take(words)?),*))?
                        $({ $($field: Coded::take(words)?),* })?,
                    )*
                    _ => return None,
                })
            }
        }
    };
}

pub(crate) use coded;

impl Coded for u64 {
    fn put(self, words: &mut Words) {
        words.push(self);
    }

    fn take(words: &mut &[u64]) -> Option<Self> {
        let (first, rest) = words.split_first()?;
        *words = rest;
        Some(*first)
    }
}

impl Coded for u32 {
    fn put(self, words: &mut Words) {
        u64::from(self).put(words);
    }

    fn take(words: &mut &[u64]) -> Option<Self> {
        u64::take(words)?.try_into().ok()
    }
}

impl Coded for bool {
    fn put(self, words: &mut Words) {
        u32::from(self).put(words);
    }

    fn take(words: &mut &[u64]) -> Option<Self> {
        Some(u32::take(words)? != 0)
    }
}

impl Coded for (u64, u64) {
    fn put(self, words: &mut Words) {
        self.0.put(words);
        self.1.put(words);
    }

    fn take(words: &mut &[u64]) -> Option<Self> {
        Some((u64::take(words)?, u64::take(words)?))
    }
}

/// The value whose words bytes are.
pub(crate) fn decode<T: Coded>(bytes: &[u8]) -> Option<T> {
    let mut words = [0; MOST];
    words.as_mut_bytes().get_mut(..bytes.len())?.copy_from_slice(bytes);
    T::take(&mut words.get(..bytes.len() / size_of::<u64>())?)
}
