//! The guest of a virtual machine: a firmware of our own, so that no image is needed.
//!
//! It fills the memory above 1 MiB with `initial` values, then adds one to a thousand words all
//! over it, again and again, and writes a letter to the serial port after each `ROUNDS` rounds:
//! "abc...zabc...".
//!
//! It has no interrupts. What takes the emulated processor out of its work now and then is a
//! `pause`: QEMU waits for that before it closes a connection.

/// Below it are the video memory and the firmware.
pub const BEGIN: u32 = 1 << 20;

const ROUNDS: u32 = 100;
/// How many words are counted in, at most.
const COUNTERS: u32 = 1024;
const FACTOR: u32 = 0x9e37_79b1;
/// Of four MiB one stays zero.
const FILLED: u32 = 3 << 20;
/// QEMU takes multiples of this; the firmware ends where the first 4 GiB end.
const SIZE: usize = 64 << 10;
const ADDRESS: u32 = 0u32.wrapping_sub(SIZE as u32);
/// Where the processor begins.
const RESET: usize = SIZE - 16;

/// The word that the guest writes to an address.
fn initial(address: u32) -> u32 {
    if address & FILLED == 0 { 0 } else { address.wrapping_mul(FACTOR) }
}

/// From one counter to the next, in bytes.
fn stride(memory: u32) -> u32 {
    memory / COUNTERS
}

/// The firmware for a machine with some bytes of memory, at most 3 GiB.
pub fn firmware(memory: u32) -> Vec<u8> {
    // Where these lie in the code below.
    const FLAT: u8 = 0x17;
    const TABLE: u8 = 0x70;
    const DESCRIPTION: u8 = 0x88;
    let word = |value: u32| value.to_le_bytes();
    let mut code = Vec::with_capacity(SIZE);
    let mut add = |bytes: &[&[u8]]| code.extend(bytes.concat());

    // To segments of 4 GiB.
    add(&[&[0x2e, 0x66, 0x0f, 0x01, 0x16, DESCRIPTION, 0]]); // lgdtl %cs:DESCRIPTION
    add(&[&[0x0f, 0x20, 0xc0]]); //                             movl %cr0, %eax
    add(&[&[0x0c, 0x01]]); //                                   orb $1, %al
    add(&[&[0x0f, 0x22, 0xc0]]); //                             movl %eax, %cr0
    add(&[&[0x66, 0xea], &word(ADDRESS + u32::from(FLAT)), &[8, 0]]); // ljmpl $8, $FLAT
    add(&[&[0x66, 0xb8, 16, 0]]); //                      FLAT: movw $16, %ax
    add(&[&[0x8e, 0xd8]]); //                                   movw %ax, %ds

    add(&[&[0xbf], &word(BEGIN)]); //                           movl $BEGIN, %edi
    add(&[&[0xf7, 0xc7], &word(FILLED)]); //              fill: testl $FILLED, %edi
    add(&[&[0x74, 0x08]]); //                                   jz skip
    add(&[&[0x69, 0xc7], &word(FACTOR)]); //                    imull $FACTOR, %edi, %eax
    add(&[&[0x89, 0x07]]); //                                   movl %eax, (%edi)
    add(&[&[0x83, 0xc7, 0x04]]); //                       skip: addl $4, %edi
    add(&[&[0x81, 0xff], &word(memory)]); //                    cmpl $memory, %edi
    add(&[&[0x72, 0xe5]]); //                                   jb fill

    add(&[&[0x66, 0xba, 0xf8, 0x03]]); //                       movw $0x3f8, %dx
    add(&[&[0xb3, b'a']]); //                                   movb $'a', %bl
    add(&[&[0xbe], &word(ROUNDS)]); //                  letter: movl $ROUNDS, %esi
    add(&[&[0xf3, 0x90]]); //                            round: pause
    add(&[&[0xbf], &word(BEGIN)]); //                           movl $BEGIN, %edi
    add(&[&[0xff, 0x07]]); //                            count: incl (%edi)
    add(&[&[0x81, 0xc7], &word(stride(memory))]); //            addl $stride, %edi
    add(&[&[0x81, 0xff], &word(memory)]); //                    cmpl $memory, %edi
    add(&[&[0x72, 0xf0]]); //                                   jb count
    add(&[&[0x4e]]); //                                         decl %esi
    add(&[&[0x75, 0xe6]]); //                                   jnz round
    add(&[&[0x88, 0xd8, 0xee]]); //                             movb %bl, %al; outb %al, %dx
    add(&[&[0xfe, 0xc3]]); //                                   incb %bl
    add(&[&[0x80, 0xfb, b'z' + 1]]); //                         cmpb $'z' + 1, %bl
    add(&[&[0x75, 0xd7]]); //                                   jne letter
    add(&[&[0xb3, b'a']]); //                                   movb $'a', %bl
    add(&[&[0xeb, 0xd3]]); //                                   jmp letter

    add(&[&[0; 8]]); //                                  TABLE: none, code, data
    add(&[&[0xff, 0xff, 0, 0, 0, 0x9b, 0xcf, 0]]);
    add(&[&[0xff, 0xff, 0, 0, 0, 0x93, 0xcf, 0]]);
    add(&[&[23, 0], &word(ADDRESS + u32::from(TABLE))]); // DESCRIPTION

    code.resize(RESET, 0);
    code.extend([0xe9, 0x0d, 0x00]); //                         jmp to the first byte
    code.resize(SIZE, 0);
    code
}

/// The letter after another.
pub fn next(letter: u8) -> u8 {
    if letter == b'z' { b'a' } else { letter + 1 }
}

/// Checks what the memory holds, given word by word from [`BEGIN`] on, of a guest between two
/// instructions: all counters agree, and every other word is untouched. Gives what has been
/// counted.
#[derive(Debug)]
pub struct Checker {
    stride: u32,
    address: u32,
    next_counter: u32,
    first: Option<u32>,
    /// The guest is in the middle of a round: it comes to the rest of the counters later.
    is_behind: bool,
}

impl Checker {
    /// Of a guest with so many bytes of memory.
    pub fn new(memory: u32) -> Self {
        let stride = stride(memory);
        Self { stride, address: BEGIN, next_counter: BEGIN, first: None, is_behind: false }
    }

    /// The next bytes of the memory.
    pub fn take(&mut self, bytes: &[u8]) {
        for word in bytes.chunks_exact(4) {
            let address = self.address;
            let added = u32::from_le_bytes(word.try_into().unwrap()).wrapping_sub(initial(address));
            if address == self.next_counter {
                self.next_counter = address + self.stride;
                let first = *self.first.get_or_insert(added);
                self.is_behind |= added != first;
                let expected = first - u32::from(self.is_behind);
                assert_eq!(added, expected, "the counter at {address:#x}; the first: {first}");
            } else {
                assert_eq!(added, 0, "the word at {address:#x} was changed");
            }
            self.address += 4;
        }
    }

    /// The count.
    pub fn counted(&self) -> u32 {
        self.first.unwrap_or(0)
    }
}
