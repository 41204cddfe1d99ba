//! Numbers as the C library parses them: leading white space and a sign are taken, digits are
//! read as far as they go, and what follows is left to the caller.

use std::ffi::{CString, c_char, c_int};

use crate::errno;

/// Result of `strtol(3)` and its relatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<'a, T> {
    /// The value; saturated if `errno` is `ERANGE`, 0 if there were no digits.
    pub value: T,
    /// The text after the number (C's `endptr`); all of the text if there were no digits.
    pub rest: &'a str,
    /// 0, or `ERANGE` for a number that does not fit.
    pub errno: i32,
}

impl<T> Number<'_, T> {
    /// Whether there were no digits at all (C: `endptr == value`).
    pub fn is_missing(&self, text: &str) -> bool {
        self.rest.len() == text.len()
    }
}

/// `strtol(3)` or one of its relatives.
type Convert<T> = unsafe extern "C" fn(*const c_char, *mut *mut c_char, c_int) -> T;

fn parse<T>(text: &str, base: i32, convert: Convert<T>) -> Number<'_, T> {
    // A C string ends at its first NUL, so nothing behind one is part of the number.
    let end = text.find('\0').unwrap_or(text.len());
    let c_text = CString::new(&text[..end]).expect("cut at the first NUL");
    // where it stays if there is no such base
    let mut end_ptr = c_text.as_ptr().cast_mut();
    errno::set(0);
    // SAFETY: the text ends with a NUL; the function writes where in it the number ends.
    let value = unsafe { convert(c_text.as_ptr(), &mut end_ptr, base) };
    let parsed_bytes = end_ptr as usize - c_text.as_ptr() as usize;
    Number { value, rest: &text[parsed_bytes..], errno: errno::get() }
}

/// `strtol(3)`; `base` 0 takes 0x and a leading 0 as hexadecimal and octal.
pub fn strtol(text: &str, base: i32) -> Number<'_, i64> {
    parse(text, base, libc::strtol)
}

/// `strtoul(3)`: a negative number is taken modulo 2^64.
pub fn strtoul(text: &str, base: i32) -> Number<'_, u64> {
    parse(text, base, libc::strtoul)
}

/// `atoi(3)` as glibc does it: `strtol` cut to 32 bits, 0 for what is no number.
pub fn atoi(text: &str) -> i32 {
    strtol(text, 10).value as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_far_as_the_digits_go() {
        assert_eq!(strtol(" \t+12abc", 10), Number { value: 12, rest: "abc", errno: 0 });
        assert_eq!(strtol("-5", 10), Number { value: -5, rest: "", errno: 0 });
        assert_eq!(strtol("7 ", 10), Number { value: 7, rest: " ", errno: 0 });
    }

    #[test]
    fn missing_number_leaves_the_text() {
        for text in ["", "abc", "  -", "\0"] {
            let number = strtol(text, 10);
            assert_eq!((number.value, number.rest), (0, text));
            assert!(number.is_missing(text));
        }
    }

    #[test]
    fn bases() {
        assert_eq!(strtoul("0x4d", 0).value, 77);
        assert_eq!(strtoul("010", 0).value, 8);
        assert_eq!(strtoul("010", 10).value, 10);
        assert_eq!(strtol("0xzz", 0), Number { value: 0, rest: "xzz", errno: 0 });
    }

    #[test]
    fn out_of_range_saturates() {
        let big = strtol("99999999999999999999", 10);
        assert_eq!((big.value, big.errno), (i64::MAX, libc::ERANGE));
        assert_eq!(strtoul("-1", 10).value, u64::MAX);
    }

    #[test]
    fn atoi_cuts_to_32_bits() {
        assert_eq!(atoi("4294967297"), 1);
        assert_eq!(atoi("-3x"), -3);
        assert_eq!(atoi("x"), 0);
    }

    #[test]
    fn multibyte_rest_is_kept() {
        assert_eq!(strtol("12é", 10).rest, "é");
    }
}
