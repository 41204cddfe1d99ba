//! Where in a program's source an entry comes from.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Where a thread was in its program when it did what an entry tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Which call of the thread it was. Entries of a thread that follow each other with the same number
    /// belong to one call of the program's.
    pub call: u32,
    /// Number of the place in its process.
    pub number: u32,
    /// The place. In a file only the first entry of a process that names a place has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Arc<Place>>,
}

/// A place in a program's code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The function of librdmacm or libibverbs that is called there, such as `rdma_connect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The program's function that calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Its source, relative to the folder that was recorded in if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The file of the code: the program or a library.
    pub module: String,
    /// The address behind the call, as in that file.
    pub offset: u64,
    /// Hexadecimal digits of that file's build ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// Why there is no line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl Place {
    /// The name of the function without those of its modules. A closure is the function's in which it is.
    pub(crate) fn function_name(&self) -> Option<&str> {
        let mut names = self.function.as_deref()?.rsplit("::");
        names.find(|name| !name.starts_with('{'))
    }

    /// The name of the module without its folder.
    fn short_module(&self) -> &str {
        self.module.rsplit('/').next().unwrap_or(&self.module)
    }
}

/// `FUNCTION at FILE:LINE`; without debug information `FUNCTION in MODULE`, or `MODULE+0xOFFSET`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, file, line, offset, .. } = self;
        let (function, module) = (function.as_deref(), self.short_module());
        match (function, file, line) {
            (Some(function), Some(file), Some(line)) => write!(f, "{function} at {file}:{line}"),
            (None, Some(file), Some(line)) => write!(f, "{file}:{line}"),
            (Some(function), ..) => write!(f, "{function} in {module}"),
            _ => write!(f, "{module}+{offset:#x}"),
        }
    }
}

/// Places that were told, by process and number.
#[derive(Debug, Default)]
pub(crate) struct PlaceTable(HashMap<(u32, u32), Arc<Place>>);

impl PlaceTable {
    /// Gives a site that only names its place that itself.
    pub(crate) fn fill(&mut self, process: u32, site: &mut Site) {
        let key = (process, site.number);
        match &site.place {
            Some(place) => _ = self.0.insert(key, Arc::clone(place)),
            None => site.place = self.0.get(&key).cloned(),
        }
    }
}

/// Numbers of places that were written, by process.
#[derive(Debug, Default)]
pub(crate) struct WrittenPlaces(HashSet<(u32, u32)>);

impl WrittenPlaces {
    /// A site without its place, if that was written before.
    pub(crate) fn shortened(&mut self, process: u32, site: &Site) -> Option<Site> {
        let is_written = site.place.is_some() && !self.0.insert((process, site.number));
        is_written.then_some(Site { place: None, ..*site })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_words_as_far_as_it_is_known() {
        let whole = Place {
            function: Some("main".into()),
            file: Some("a/b.c".into()),
            line: Some(7),
            module: "/usr/bin/b".into(),
            offset: 4660,
            ..Place::default()
        };
        assert_eq!(whole.to_string(), "main at a/b.c:7");
        let stripped = Place { line: None, ..whole.clone() };
        assert_eq!(stripped.to_string(), "main in b");
        let unnamed = Place { function: None, ..whole };
        assert_eq!(unnamed.to_string(), "a/b.c:7");
        assert_eq!(Place { file: None, ..unnamed }.to_string(), "b+0x1234");
    }
}
