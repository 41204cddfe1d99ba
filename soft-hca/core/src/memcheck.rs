//! What Valgrind's Memcheck is told of a program that runs under it, by its client requests (`valgrind.h` and
//! `memcheck.h`, whose numbers are an interface that stays). Otherwise a request is a few instructions that do nothing.
#![allow(unsafe_code, reason = "the instructions by which Valgrind is spoken to")]

/// Memcheck's requests are numbered from here: 'M', 'C'.
const FIRST: usize = 0x4d43_0000;
const MAKE_MEM_NOACCESS: usize = FIRST;
const MAKE_MEM_DEFINED_IF_ADDRESSABLE: usize = FIRST + 11;
const DISABLE_ADDR_ERROR_REPORTING_IN_RANGE: usize = FIRST + 14;

/// Of a range that is longer, Valgrind tells the user whenever it is marked.
const PIECE: usize = 256 << 20;

/// Makes a request.
#[inline]
fn request(number: usize, address: usize, bytes: usize) {
    let arguments = [number, address, bytes, 0, 0, 0];
    // SAFETY: four rotations that amount to none and an exchange of a register with itself, of which Valgrind
    // knows them. It reads the arguments, and changes what it knows about the memory, not the memory.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0usize => _,
            inout("rdi") 0usize => _,
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            in("x4") arguments.as_ptr(),
            inout("x3") 0usize => _,
            inout("x12") 0usize => _,
            out("x10") _,
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = arguments;
}

/// Memory that no program has pointers in, and of which little is in use: its pages are not looked at for leaks, which
/// would allocate them all, and accesses to it are right.
pub fn leave_alone(address: usize, bytes: usize) {
    for begin in (0..bytes).step_by(PIECE) {
        request(MAKE_MEM_NOACCESS, address + begin, PIECE.min(bytes - begin));
    }
    request(DISABLE_ADDR_ERROR_REPORTING_IN_RANGE, address, bytes);
}

/// Memory that is written behind Valgrind's back, by another process or the kernel. What may not be accessed
/// stays so.
pub fn is_written(address: u64, bytes: u64) {
    request(MAKE_MEM_DEFINED_IF_ADDRESSABLE, address as usize, bytes as usize);
}
