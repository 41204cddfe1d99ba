//! Structures as the kernel's headers lay them out.

/// A structure's size and its fields' offsets in bytes, by the names that the header has.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The type, as C writes it.
    pub name: &'static str,
    /// The header, beneath `/usr/include`.
    pub header: &'static str,
    /// Bytes.
    pub size: usize,
    /// Names and offsets. What the header leaves to the compiler begins with `_`.
    pub fields: &'static [(&'static str, usize)],
}

/// Defines structures of headers by their names for fields, and lists their layouts.
macro_rules! abi {
    ($($header:literal: $(
        $(#[$meta:meta])*
        struct $name:ident = $c_name:literal { $($field:ident: $type:ty),* $(,)? }
    )*)+) => {
        $($(
            #[doc = concat!("`", $c_name, "`")]
            $(#[$meta])*
            #[derive(
                Clone, Copy, Debug, Default, PartialEq, Eq,
                zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes,
            )]
            #[repr(C)]
            pub struct $name { $(pub $field: $type),* }
        )*)+

        /// The layouts of the structures here.
        pub const LAYOUTS: &[$crate::uapi::layout::Layout] = &[$($(
            $crate::uapi::layout::Layout {
                name: $c_name,
                header: $header,
                size: size_of::<$name>(),
                fields: &[$((stringify!($field), std::mem::offset_of!($name, $field))),*],
            },
        )*)+];
    };
}
