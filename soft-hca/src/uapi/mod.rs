//! What programs and the kernel say to each other, as bytes. Nothing outside knows offsets.

pub mod ioctl;
pub mod nldev;
pub mod rxe;
pub mod ucma;
pub mod uverbs;
