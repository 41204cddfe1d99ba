//! The kernel's interfaces as `uapi` has them, against the system's own headers: the compiler is
//! given an assertion for each structure's size, each field's offset and each number.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use soft_hca_core::uapi::layout::Layout;
use soft_hca_core::uapi::{self, ucma, uverbs, verbs};

use programs::{headers, installed};

/// What names begin with in the headers, our names of numbers, and the numbers that have some.
type Numbers = (&'static str, fn(u32) -> Option<&'static str>, std::ops::Range<u32>);

const NUMBERS: [Numbers; 7] = [
    ("IB_USER_VERBS_CMD_", uverbs::command::name, 0..0x100),
    ("IB_USER_VERBS_EX_CMD_", extended, 0..0x100),
    // Older headers do not have RESOLVE_IB_SERVICE and WRITE_CM_EVENT, FLUSH and ATOMIC_WRITE.
    ("RDMA_USER_CM_CMD_", ucma::command::name, 0..23),
    ("IB_UVERBS_WR_", verbs::opcode::name, 0..14),
    ("IB_UVERBS_WC_", verbs::wc_opcode::name, 0..7),
    ("IB_UVERBS_QPT_", verbs::qp_type::name, 0..0x100),
    ("IB_UVERBS_ACCESS_", verbs::access::name, 0..0x100),
];

/// The header that has some of these names and none of the structures.
const HEADER_OF_NUMBERS: &str = "rdma/ib_user_ioctl_verbs.h";

fn extended(number: u32) -> Option<&'static str> {
    uverbs::command::name(uverbs::EXTENDED | number)?.strip_prefix("EX_")
}

/// A structure that older headers do not have, and the end of its definition.
const NEWER: (&str, &str) = ("__typeof__(((struct rxe_send_wr *)0)->wr.flush)", "} flush;");

fn is_in_header(layout: &Layout) -> bool {
    let text = || fs::read_to_string(Path::new("/usr/include").join(layout.header));
    layout.name != NEWER.0 || text().is_ok_and(|text| text.contains(NEWER.1))
}

/// A program that can be compiled if all is as we have it.
fn assertions(headers: &BTreeSet<&str>) -> String {
    let mut text = String::from("#include <stddef.h>\n");
    headers.iter().for_each(|header| writeln!(text, "#include <{header}>").unwrap());
    let mut is = |what: &str, value: usize| {
        writeln!(text, "_Static_assert({what} == {value}, \"{what} is {value} here\");").unwrap();
    };
    for layout in uapi::layouts().filter(|layout| is_in_header(layout)) {
        is(&format!("sizeof({})", layout.name), layout.size);
        for (field, offset) in layout.fields.iter().filter(|(field, _)| !field.starts_with('_')) {
            let field = field.trim_start_matches("r#");
            is(&format!("offsetof({}, {field})", layout.name), *offset);
        }
    }
    for (prefix, name, numbers) in NUMBERS {
        for number in numbers {
            if let Some(name) = name(number) {
                is(&format!("{prefix}{name}"), number as usize);
            }
        }
    }
    text
}

#[test]
fn structures_and_numbers_are_those_of_the_systems_headers() {
    let needed = uapi::layouts().map(|layout| layout.header).chain([HEADER_OF_NUMBERS]).collect();
    if !installed(&["cc"]) || !headers(&needed) {
        return;
    }
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-fsyntax-only", "-x", "c", "-"]);
    let mut compiler = compiler.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let text = assertions(&needed);
    compiler.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = compiler.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
