//! The interface between programs and the kernel, as bytes. Nothing outside knows offsets.
//!
//! | module | header |
//! | --- | --- |
//! | [`verbs`] | `ib_verbs.h`: the numbers and flags that all others share |
//! | [`uverbs`] | `ib_user_verbs.h`: commands, what they ask for, what answers them |
//! | [`rxe`] | `rdma_user_rxe.h`: work requests and completions in the rings, the provider's part of commands |
//! | [`ucma`] | `rdma_user_cm.h`: the connection manager |
//! | [`ioctl`], [`nldev`] | `ib_user_ioctl_cmds.h` and `rdma_netlink.h`, as far as libraries ask |
//!
//! Structures are defined once by the header's names ([`layout`]); a test compares sizes, offsets
//! and numbers with the system's own headers.

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

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::errno::{Errno, Refusal, Result, ensure};

#[macro_use]
pub mod layout;

pub mod ioctl;
mod layouts;
pub mod nldev;
pub mod rxe;
pub mod ucma;
pub mod uverbs;
pub mod verbs;

pub use layouts::layouts;

/// The request in a payload of which the first `required` bytes have to be there; what is missing
/// behind them counts as zeros. `EINVAL` if it is too short.
fn read_request<R>(payload: &[u8], required: usize) -> Result<R>
where
    R: FromBytes + IntoBytes + Immutable,
{
    const TOO_SHORT: Errno = Errno::EINVAL.because(Refusal::ShortRequest);
    ensure(payload.len() >= required, TOO_SHORT)?;
    if let Ok((request, _)) = R::read_from_prefix(payload) {
        return Ok(request);
    }
    let mut request = R::new_zeroed();
    request.as_mut_bytes()[..payload.len()].copy_from_slice(payload);
    Ok(request)
}

/// The number of a command, with which it begins on both devices.
pub fn command_number(written: &[u8]) -> Option<u32> {
    written.first_chunk().copied().map(u32::from_ne_bytes)
}
