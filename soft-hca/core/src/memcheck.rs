//! Client requests to Valgrind's Memcheck (`valgrind.h` and `memcheck.h`, whose numbers are a
//! stable interface). In a program that does not run under Valgrind, a request is a few
//! instructions that do nothing.
#![allow(unsafe_code, reason = "the instructions by which Valgrind is spoken to")]

/// Memcheck's requests are numbered from here: 'M', 'C'.
const FIRST: usize = 0x4d43_0000;
const MAKE_MEM_NOACCESS: usize = FIRST;
const MAKE_MEM_DEFINED_IF_ADDRESSABLE: usize = FIRST + 11;
const DISABLE_ADDR_ERROR_REPORTING_IN_RANGE: usize = FIRST + 14;

/// Valgrind prints a warning when a longer range is marked.
const PIECE: usize = 256 << 20;

/// Makes a request.
#[inline]
fn request(number: usize, address: usize, bytes: usize) {
    let arguments = [number, address, bytes, 0, 0, 0];
    // SAFETY: four rotations that amount to none and an exchange of a register with itself, by
    // which Valgrind knows a request. It reads the arguments, and changes its marks of the memory,
    // not the memory.
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
    // SAFETY: Valgrind's sequence of instructions; on a processor alone it changes nothing.
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

/// Has Memcheck leave memory alone in which no program has pointers and of which little is in use.
/// It does not search the pages for leaks, which would allocate them all, and reports no access as
/// an error.
pub fn leave_alone(address: usize, bytes: usize) {
    for begin in (0..bytes).step_by(PIECE) {
        request(MAKE_MEM_NOACCESS, address + begin, PIECE.min(bytes - begin));
    }
    request(DISABLE_ADDR_ERROR_REPORTING_IN_RANGE, address, bytes);
}

/// Tells Memcheck of memory that another process or the kernel writes. Bytes that may not be
/// accessed stay so.
pub fn is_written(address: u64, bytes: u64) {
    request(MAKE_MEM_DEFINED_IF_ADDRESSABLE, address as usize, bytes as usize);
}
