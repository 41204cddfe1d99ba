//! Bit fields of management datagrams as the specification numbers them: byte, then bit from the
//! most significant one.

use super::bth::{Psn, Qpn};

/// The number in `width` bits from bit `at` on.
fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    let bit = |at: usize| u64::from(bytes[at / 8] >> (7 - at % 8) & 1);
    (at..at + width).fold(0, |number, at| number << 1 | bit(at))
}

/// Puts the low `width` bits of a number there.
fn put_number(bytes: &mut [u8], at: usize, width: usize, number: u64) {
    for i in 0..width {
        let (byte, mask) = ((at + i) / 8, 0x80 >> ((at + i) % 8));
        let bit = number >> (width - 1 - i) & 1 == 1;
        bytes[byte] = if bit { bytes[byte] | mask } else { bytes[byte] & !mask };
    }
}

/// A type of fields.
pub(super) trait Field {
    /// Reads `width` bits from bit `at` on.
    fn get(bytes: &[u8], at: usize, width: usize) -> Self;
    /// Writes the low `width` bits.
    fn put(&self, bytes: &mut [u8], at: usize, width: usize);
}

macro_rules! number_fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn get(bytes: &[u8], at: usize, width: usize) -> Self {
                number(bytes, at, width) as Self
            }

            fn put(&self, bytes: &mut [u8], at: usize, width: usize) {
                put_number(bytes, at, width, u64::from(*self));
            }
        }
    )*};
}

number_fields!(u8, u16, u32, u64);

impl Field for bool {
    fn get(bytes: &[u8], at: usize, width: usize) -> bool {
        number(bytes, at, width) != 0
    }

    fn put(&self, bytes: &mut [u8], at: usize, width: usize) {
        put_number(bytes, at, width, u64::from(*self));
    }
}

impl Field for Psn {
    fn get(bytes: &[u8], at: usize, width: usize) -> Psn {
        Psn::new(u32::get(bytes, at, width))
    }

    fn put(&self, bytes: &mut [u8], at: usize, width: usize) {
        Psn::get(*self).put(bytes, at, width);
    }
}

impl Field for Qpn {
    fn get(bytes: &[u8], at: usize, width: usize) -> Qpn {
        Qpn::new(u32::get(bytes, at, width))
    }

    fn put(&self, bytes: &mut [u8], at: usize, width: usize) {
        Qpn::get(*self).put(bytes, at, width);
    }
}

impl<const N: usize> Field for [u8; N] {
    fn get(bytes: &[u8], at: usize, _width: usize) -> [u8; N] {
        super::bytes::array(bytes, at / 8)
    }

    fn put(&self, bytes: &mut [u8], at: usize, _width: usize) {
        bytes[at / 8..at / 8 + N].copy_from_slice(self);
    }
}

/// A struct whose fields lie at fixed places: byte, bit, width in bits.
macro_rules! message {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = ($byte:expr, $bit:expr, $width:expr);)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Field for $name {
            fn get(bytes: &[u8], at: usize, _width: usize) -> $name {
                $name { $($field: Field::get(bytes, at + 8 * $byte + $bit, $width),)* }
            }

            fn put(&self, bytes: &mut [u8], at: usize, _width: usize) {
                $(self.$field.put(bytes, at + 8 * $byte + $bit, $width);)*
            }
        }

        /// All zeros.
        impl Default for $name {
            fn default() -> $name {
                $name::get(&[0; DATA_BYTES], 0, 8 * DATA_BYTES)
            }
        }
    };
}

pub(super) use message;
