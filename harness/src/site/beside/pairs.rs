//! Pairs of a function of the C and the same one of the Rust.

use std::collections::BTreeSet;

use super::source::{Function, Source};
use crate::examples::{Example, Sides};

/// A file of either language, or the same one of both, with its functions.
#[derive(Debug)]
pub struct Section<'s> {
    /// The sources of the C; of a header and its source both.
    pub c: Vec<&'s Source>,
    /// The source of the Rust.
    pub rust: Option<&'s Source>,
    /// Its functions, first those of the Rust, in their order, then those that the C alone has here.
    pub pairs: Vec<Pair<'s>>,
}

/// A function in the C, in the Rust, or in both.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'s> {
    /// The function of the C.
    pub c: Option<Place<'s>>,
    /// The function of the Rust.
    pub rust: Option<Place<'s>>,
}

/// A function with its source.
#[derive(Clone, Copy, Debug)]
pub struct Place<'s> {
    /// Where it is.
    pub source: &'s Source,
    /// The function.
    pub function: &'s Function,
}

impl Pair<'_> {
    /// Its name, the same in both.
    pub fn name(&self) -> &str {
        self.rust.or(self.c).map_or("", |place| &place.function.name)
    }
}

impl Section<'_> {
    /// Its name, the same in both: that of the file without its ending.
    pub fn stem(&self) -> String {
        self.rust.or(self.c.first().copied()).map(stem).unwrap_or_default()
    }
}

fn stem(source: &Source) -> String {
    source.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether `c` is the source from which `rust` was translated.
fn is_it(example: &Example, c: &Source, rust: &Source) -> bool {
    let Some(file) = example.c_source(&stem(rust)) else { return false };
    // One program may be called otherwise in a reader's copy.
    let is_alone = example.sides != Sides::TwoPrograms;
    let name = file.rsplit('/').next().unwrap_or(&file);
    is_alone || name.split_once('.').is_some_and(|(name, _)| name == stem(c))
}

/// The first function of that name.
fn find<'s>(sources: &[&'s Source], name: &str) -> Option<Place<'s>> {
    let all = sources.iter().flat_map(|&source| {
        source.functions.iter().map(move |function| Place { source, function })
    });
    all.into_iter().find(|place| place.function.name == name)
}

/// All functions of an example by their files. Of `shared`, Rust that several examples use, are those functions
/// that the C has.
pub fn sections<'s>(
    example: &Example,
    c: &'s [Source],
    rust: &'s [Source],
    shared: &'s [Source],
) -> Vec<Section<'s>> {
    let (all_c, shared): (Vec<_>, Vec<_>) = (c.iter().collect(), shared.iter().collect());
    let mut sections = Vec::new();
    let mut taken = BTreeSet::new();
    let mut known = BTreeSet::new();
    let key = |place: &Place<'_>| (place.source.path.clone(), place.function.name.clone());
    for rust in rust {
        let own: Vec<&Source> = all_c.iter().copied().filter(|c| is_it(example, c, rust)).collect();
        known.extend(own.iter().map(|source| &source.path));
        // A function whose file has another name in C has come from there.
        let from = if example.c_source(&stem(rust)).is_none() { &all_c } else { &own };
        let pair = |function: &'s Function| {
            let c = find(from, &function.name).filter(|place| taken.insert(key(place)));
            Pair { c, rust: Some(Place { source: rust, function }) }
        };
        let pairs = rust.functions.iter().map(pair).collect();
        sections.push(Section { c: own, rust: Some(rust), pairs });
    }
    let others = all_c.iter().filter(|source| !known.contains(&source.path));
    sections.extend(others.map(|&c| Section { c: vec![c], rust: None, pairs: vec![] }));
    for section in &mut sections {
        for &source in &section.c {
            for function in &source.functions {
                let c = Place { source, function };
                if taken.insert(key(&c)) {
                    let rust = find(&shared, &function.name);
                    section.pairs.push(Pair { c: Some(c), rust });
                }
            }
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    fn c(path: &str, functions: &[&str]) -> Source {
        let text = functions.iter().map(|name| format!("int\n{name}(void)\n{{\n}}\n\n"));
        Source::c(path.into(), &text.collect::<String>())
    }

    fn rust(path: &str, functions: &[&str]) -> Source {
        let text = functions.iter().map(|name| format!("fn {name}() {{\n}}\n\n"));
        Source::rust(path.into(), &text.collect::<String>())
    }

    /// The files of each function, by section.
    fn drawn(example: &str, c: &[Source], rust: &[Source], shared: &[Source]) -> Vec<String> {
        let path = |place: Option<Place<'_>>| {
            place.map_or("-".to_owned(), |place| place.source.path.display().to_string())
        };
        let mut drawn = Vec::new();
        for section in sections(Example::named(example).unwrap(), c, rust, shared) {
            drawn.push(section.stem());
            let line =
                |pair: &Pair<'_>| format!("{}: {} {}", pair.name(), path(pair.c), path(pair.rust));
            drawn.extend(section.pairs.iter().map(line));
        }
        drawn
    }

    #[test]
    fn functions_are_paired_within_their_files() {
        let all_c = [
            c("client.c", &["main", "gone"]),
            c("server.c", &["main"]),
            c("prototypes.h", &[]),
            c("utilities.c", &["our_report"]),
        ];
        let all_rust = [
            rust("src/client.rs", &["ours", "main"]),
            rust("src/prototypes.rs", &[]),
            rust("src/server.rs", &["main", "gone"]),
            rust("src/utilities.rs", &["our_print"]),
        ];
        let shared = [rust("common.rs", &["main", "our_report", "of_nobody"])];
        assert_eq!(
            drawn("ping-sr-0", &all_c, &all_rust, &shared),
            [
                "client",
                "ours: - src/client.rs",
                "main: client.c src/client.rs",
                "gone: client.c -",
                "prototypes",
                "server",
                "main: server.c src/server.rs",
                "gone: - src/server.rs",
                "utilities",
                "our_print: - src/utilities.rs",
                "our_report: utilities.c common.rs",
            ]
        );
    }

    #[test]
    fn a_file_of_one_program_may_have_become_several() {
        let all_c = [c("rc_example.c", &["sock", "connect", "usage"])];
        let all_rust =
            [rust("rdma_rc_example.rs", &["connect"]), rust("sync.rs", &["sock", "ours"])];
        assert_eq!(
            drawn("rc-example", &all_c, &all_rust, &[]),
            [
                "rdma_rc_example",
                "connect: rc_example.c rdma_rc_example.rs",
                "usage: rc_example.c -",
                "sync",
                "sock: rc_example.c sync.rs",
                "ours: - sync.rs",
            ]
        );
    }

    #[test]
    fn a_source_of_the_c_alone_has_a_section() {
        let all_c = [c("rdma-common.c", &["on"]), c("rdma-common.h", &[]), c("more.c", &["x"])];
        let all_rust = [rust("rdma_common.rs", &["on"])];
        assert_eq!(
            drawn("read-write", &all_c, &all_rust, &[]),
            ["rdma_common", "on: rdma-common.c rdma_common.rs", "more", "x: more.c -"]
        );
    }
}
