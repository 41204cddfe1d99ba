//! The dynamic section of ELF files, which names the libraries that they are, or need.

use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{Dyn, FileHeader};
use object::read::{ReadRef, StringTable};

/// The texts that a file's dynamic section has for a tag (`DT_SONAME`, `DT_NEEDED`), in its order; none if it is no
/// such file.
pub(super) fn dynamic_strings<'a>(file: impl ReadRef<'a>, tag: u32) -> Option<Vec<String>> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, file).ok()?;
    let (entries, link) = sections.dynamic(endian, file).ok()??;
    let strings: StringTable<'a, _> = sections.strings(endian, file, link).ok()?;
    let found = entries.iter().filter(|entry| entry.tag32(endian) == Some(tag));
    let offsets = found.filter_map(|entry| u32::try_from(entry.d_val(endian)).ok());
    let texts = offsets.filter_map(|offset| strings.get(offset).ok());
    Some(texts.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}
