//! The kernel's interfaces as `uapi` has them, against the system's own headers: the compiler is
//! given an assertion for each structure's size, each field's offset and each number.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use soft_hca_core::uapi::layout::Layout;
use soft_hca_core::uapi::{self, ucma, uverbs};
use soft_hca_verbs::*;

use programs::{headers, installed};

/// The prefix of names in the headers, our names of numbers, and the numbers that have some.
type Numbers = (&'static str, fn(u32) -> Option<&'static str>, std::ops::Range<u32>);

const NUMBERS: [Numbers; 3] = [
    ("IB_USER_VERBS_CMD_", uverbs::command::name, 0..0x100),
    ("IB_USER_VERBS_EX_CMD_", extended, 0..0x100),
    // Older headers do not have RESOLVE_IB_SERVICE and WRITE_CM_EVENT.
    ("RDMA_USER_CM_CMD_", ucma::command::name, 0..23),
];

/// The headers that have the words of the verbs.
const HEADERS_OF_WORDS: [&str; 2] = ["infiniband/verbs.h", "rdma/rdma_cma.h"];

/// Prefixes of words that older headers do not have, and the newest words of the connection manager.
const NEWER_WORDS: [&str; 8] = [
    "IBV_FLUSH_",
    "IBV_WR_FLUSH",
    "IBV_WC_FLUSH",
    "IBV_ACCESS_FLUSH_",
    "RDMA_CM_EVENT_ADDRINFO_",
    "RDMA_CM_EVENT_USER",
    "RDMA_CM_EVENT_INTERNAL",
    "IBV_ODP_SUPPORT_",
];

/// Every word of the verbs by its name, with its number.
fn words() -> Vec<(String, u32)> {
    macro_rules! all {
        (words $($word:ident)*; flags $($flags:ident)*) => {
            [
                $( $word::ALL.iter().map(|word| (word.to_string(), word.0)).collect::<Vec<_>>(), )*
                $( $flags::all().iter().map(|flag| (flag.to_string(), flag.bits())).collect(), )*
            ]
            .concat()
        };
    }
    all!(
        words CmEvent EventType Mtu MwType PortState QpState QpType Selectivity WcOpcode WcStatus WrOpcode;
        flags AccessFlags OdpCaps Placement SendFlags WcFlags
    )
}

fn extended(number: u32) -> Option<&'static str> {
    uverbs::command::name(uverbs::EXTENDED | number)?.strip_prefix("EX_")
}

/// A structure that older headers do not have, and the end of its definition.
const NEWER: (&str, &str) = ("__typeof__(((struct rxe_send_wr *)0)->wr.flush)", "} flush;");

fn is_in_header(layout: &Layout) -> bool {
    let text = || fs::read_to_string(Path::new("/usr/include").join(layout.header));
    layout.name != NEWER.0 || text().is_ok_and(|text| text.contains(NEWER.1))
}

/// A program that can be compiled if all that it asserts is so.
struct Assertions(String);

impl Assertions {
    fn new(headers: &BTreeSet<&str>) -> Self {
        let mut text = String::from("#include <stddef.h>\n");
        headers.iter().for_each(|header| writeln!(text, "#include <{header}>").unwrap());
        Self(text)
    }

    fn is(&mut self, what: &str, value: usize) {
        writeln!(self.0, "_Static_assert({what} == {value}, \"{what} is {value} here\");").unwrap();
    }

    /// Checks that the compiler finds all of it true.
    fn hold(self) {
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-fsyntax-only", "-x", "c", "-"]);
        let mut compiler = compiler.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        compiler.stdin.take().unwrap().write_all(self.0.as_bytes()).unwrap();
        let output = compiler.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn structures_and_numbers_are_those_of_the_systems_headers() {
    let needed = uapi::layouts().map(|layout| layout.header).collect();
    if !installed(&["cc"]) || !headers(&needed) {
        return;
    }
    let mut text = Assertions::new(&needed);
    for layout in uapi::layouts().filter(|layout| is_in_header(layout)) {
        text.is(&format!("sizeof({})", layout.name), layout.size);
        for (field, offset) in layout.fields.iter().filter(|(field, _)| !field.starts_with('_')) {
            let field = field.trim_start_matches("r#");
            text.is(&format!("offsetof({}, {field})", layout.name), *offset);
        }
    }
    for (prefix, name, numbers) in NUMBERS {
        for number in numbers {
            if let Some(name) = name(number) {
                text.is(&format!("{prefix}{name}"), number as usize);
            }
        }
    }
    text.hold();
}

/// They are in another program: `rdma/rdma_cma.h` does not go with the kernel's header of the same names.
#[test]
fn words_are_those_of_rdma_cores_headers() {
    let needed = BTreeSet::from(HEADERS_OF_WORDS);
    if !installed(&["cc"]) || !headers(&needed) {
        return;
    }
    let read = |header| fs::read_to_string(Path::new("/usr/include").join(header)).unwrap();
    let known: String = HEADERS_OF_WORDS.into_iter().map(read).collect();
    let mut text = Assertions::new(&needed);
    for (name, number) in words() {
        let is_newer = NEWER_WORDS.iter().any(|begin| name.starts_with(begin));
        if !is_newer || known.contains(&name) {
            text.is(&name, number as usize);
        }
    }
    text.hold();
}
