//! The size of programs.

use std::path::Path;

use crate::compare::stage::{Maker, Stage};
use crate::examples::Example;

/// Bytes that are loaded, if that can be told, and bytes of the files of all sides.
pub fn size(stage: &Stage, example: &Example, maker: Maker) -> (Option<u64>, u64) {
    let sides = example.program_sides();
    let files = sides.iter().map(|&side| stage.program(example, maker, side, Vec::new()).path);
    let (mut loaded, mut all) = (Some(0), 0);
    for file in files {
        loaded = loaded.zip(loaded_bytes(&file)).map(|(sum, bytes)| sum + bytes);
        all += file.metadata().map_or(0, |found| found.len());
    }
    (loaded, all)
}

/// The sum of the loadable segments of an ELF file: 64 bits, little-endian, as on x86-64.
fn loaded_bytes(file: &Path) -> Option<u64> {
    let bytes = std::fs::read(file).ok()?;
    let field = |at: usize, len: usize| {
        let mut number = [0; 8];
        number[..len].copy_from_slice(bytes.get(at..at + len)?);
        Some(u64::from_le_bytes(number))
    };
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, entry, entries) = (field(0x20, 8)?, field(0x36, 2)?, field(0x38, 2)?);
    let mut sum = 0;
    for number in 0..entries {
        let at = usize::try_from(table + number * entry).ok()?;
        const LOAD: u64 = 1;
        if field(at, 4)? == LOAD {
            sum += field(at + 0x20, 8)?;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_of_a_program_is_less_than_its_file() {
        let own = std::env::current_exe().unwrap();
        let loaded = loaded_bytes(&own).unwrap();
        assert!(loaded > 0 && loaded < own.metadata().unwrap().len());
        assert_eq!(loaded_bytes(Path::new(file!())), None);
    }
}
