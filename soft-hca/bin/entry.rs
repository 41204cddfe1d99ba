//! The entry of a library that somebody runs: it says what it is. Nothing has been loaded then but the file
//! itself, and nothing in it has been relocated.

use std::arch::global_asm;

/// A line, without its end.
macro_rules! text {
    () => {
        "This is a library of soft-hca, for `soft-hca run -- CMD`."
    };
}

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl soft_hca_entry",
    "soft_hca_entry:",
    "mov eax, {write}",
    "mov edi, 1",
    "lea rsi, [rip + 2f]",
    "mov edx, {length}",
    "syscall",
    "mov eax, {exit}",
    "xor edi, edi",
    "syscall",
    concat!("2: .ascii \"", text!(), "\\n\""),
    write = const libc::SYS_write,
    exit = const libc::SYS_exit_group,
    length = const text!().len() + 1,
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl soft_hca_entry",
    "soft_hca_entry:",
    "mov x8, {write}",
    "mov x0, 1",
    "adr x1, 2f",
    "mov x2, {length}",
    "svc 0",
    "mov x8, {exit}",
    "mov x0, 0",
    "svc 0",
    concat!("2: .ascii \"", text!(), "\\n\""),
    ".balign 4",
    write = const libc::SYS_write,
    exit = const libc::SYS_exit_group,
    length = const text!().len() + 1,
);
