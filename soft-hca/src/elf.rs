//! ELF files: the dynamic section, which names the libraries that they are, or need, and their symbols.

use object::Endianness;
use object::elf::{FileHeader64, SHT_DYNSYM, SHT_SYMTAB};
use object::read::elf::{Dyn, FileHeader, Sym};
use object::read::{ReadRef, StringTable};

/// How far a function of a file can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Visible {
    /// By whoever reads the file.
    InFile,
    /// By its name, in a process, as by dlsym(3).
    Exported,
}

/// How far a file's function with a name can be found; `None` if it has none, or is no such file.
pub(super) fn function<'a>(file: impl ReadRef<'a>, name: &str) -> Option<Visible> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, file).ok()?;
    let has = |kind: u32| {
        let Ok(table) = sections.symbols(endian, file, kind) else { return false };
        table.iter().any(|symbol| {
            !symbol.is_undefined(endian)
                && symbol.name(endian, table.strings()) == Ok(name.as_bytes())
        })
    };
    match (has(SHT_DYNSYM), has(SHT_SYMTAB)) {
        (true, _) => Some(Visible::Exported),
        (false, true) => Some(Visible::InFile),
        (false, false) => None,
    }
}

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
