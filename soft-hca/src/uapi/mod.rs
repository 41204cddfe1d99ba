//! What programs and the kernel say to each other, as bytes. Nothing outside knows offsets.

/// Defines the kernel's numbers of one kind, and how the kernel calls each.
macro_rules! named_numbers {
    ($prefix:literal: $($name:ident = $number:expr),* $(,)?) => {
        $( #[doc = concat!("`", $prefix, stringify!($name), "`")]
           pub const $name: u32 = $number; )*

        /// The kernel's name of a number, without what all of them begin with.
        pub fn name(number: u32) -> Option<&'static str> {
            match number {
                $( $name => Some(stringify!($name)), )*
                _ => None,
            }
        }
    };
}

#[macro_use]
pub mod layout;

pub mod ioctl;
pub mod nldev;
pub mod rxe;
pub mod ucma;
pub mod uverbs;
pub mod verbs;
