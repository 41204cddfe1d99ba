use std::ffi::{CStr, CString, c_char, c_int};
use std::{iter, ptr};

use proptest::prelude::*;

use super::*;

const OFA: &str = ":a:p:c:hvtTs:x";

fn argv(args: &[&str]) -> Vec<String> {
    iter::once("./prog").chain(args.iter().copied()).map(str::to_string).collect()
}

/// The switches as `c`, `c=optarg` or `c!optopt`, and the operands as `index:text`.
fn read(args: &[&str], optstring: &str, long: &[LongOption]) -> String {
    words(Getopt::long(&argv(args), optstring, long))
}

fn words(mut getopt: Getopt) -> String {
    let mut words: Vec<String> = getopt
        .by_ref()
        .map(|switch| match switch {
            Switch { c, optopt, .. } if c == '?' || c == ':' => format!("{c}!{optopt}"),
            Switch { c, optarg, .. } if optarg.is_empty() => c.to_string(),
            Switch { c, optarg, .. } => format!("{c}={optarg}"),
        })
        .collect();
    words.extend(getopt.operands().map(|(index, text)| format!("{index}:{text}")));
    words.join(" ")
}

fn complaint(args: &[&str], optstring: &str, long: &[LongOption]) -> Option<String> {
    Getopt::long(&argv(args), optstring, long).complaint
}

#[test]
fn order_of_the_command_line() {
    assert_eq!(read(&["-x", "-c", "5", "-a", "h", "-c7"], OFA, &[]), "x c=5 a=h c=7");
    assert_eq!(read(&["-tx", "-Tp5000", "-h"], OFA, &[]), "t x T p=5000 h");
    assert_eq!(read(&["-c", "-5"], OFA, &[]), "c=-5");
    assert_eq!(read(&["-c", "--", "-x"], OFA, &[]), "c=-- x");
}

#[test]
fn operands_stand_behind_the_options() {
    assert_eq!(read(&["foo", "-x", "bar"], OFA, &[]), "x 2:foo 3:bar");
    assert_eq!(read(&["-x", "--", "-t", "-"], OFA, &[]), "x 3:-t 4:-");
    assert_eq!(read(&[], OFA, &[]), "");
}

#[test]
fn errors_come_last_and_end_the_list() {
    assert_eq!(read(&["-h", "-z", "-t"], OFA, &[]), "h ?!z");
    assert_eq!(read(&["-c", "x", "-tz"], OFA, &[]), "c=x t ?!z");
    assert_eq!(read(&["-zt"], OFA, &[]), "?!z");
    assert_eq!(read(&["-t", "-p"], OFA, &[]), "t :!p");
    assert_eq!(read(&["-tp"], OFA, &[]), "t :!p");
}

#[test]
fn long_names_are_unknown_to_short_options() {
    assert_eq!(read(&["-x", "--help"], OFA, &[]), "x ?!-");
    assert_eq!(read(&["--h"], OFA, &[]), "?!-");
    assert_eq!(read(&["-a", "--h", "--", "--p"], OFA, &[]), "a=--h 4:--p");
}

const LONG: &[LongOption] = &[
    LongOption { name: "port", has_arg: true, val: 'p' },
    LongOption { name: "ib-dev", has_arg: true, val: 'd' },
    LongOption { name: "ib-port", has_arg: true, val: 'i' },
    LongOption { name: "list", has_arg: false, val: 'l' },
];

#[test]
fn long_options_with_values_and_short_names() {
    assert_eq!(read(&["--port", "5", "-p6", "--ib-dev=x"], "p:d:i:l", LONG), "p=5 p=6 d=x");
    assert_eq!(read(&["--po=5", "--l", "a"], "p:d:i:l", LONG), "p=5 l 3:a");
    assert_eq!(read(&["-d", "--po", "--ib-p", "1"], "p:d:i:l", LONG), "d=--po i=1");
}

#[test]
fn getopts_own_words() {
    let plain = |args: &[&str]| complaint(args, "p:l", &[]).unwrap();
    assert_eq!(plain(&["-lz"]), "./prog: invalid option -- 'z'");
    assert_eq!(plain(&["-p"]), "./prog: option requires an argument -- 'p'");
    let long = |args: &[&str]| complaint(args, "p:d:i:l", LONG).unwrap();
    assert_eq!(long(&["--zap=1"]), "./prog: unrecognized option '--zap=1'");
    assert_eq!(long(&["--list=1"]), "./prog: option '--list' doesn't allow an argument");
    assert_eq!(long(&["--port"]), "./prog: option '--port' requires an argument");
    assert_eq!(
        long(&["--ib"]),
        "./prog: option '--ib' is ambiguous; possibilities: '--ib-dev' '--ib-port'"
    );
    assert_eq!(complaint(&["-z"], OFA, &[]), None);
}

/// Where a name is the beginning of another.
const NESTED: &[LongOption] = &[
    LongOption { name: "list", has_arg: false, val: 'l' },
    LongOption { name: "list-ports", has_arg: true, val: 'p' },
];

/// The option strings of the examples, and what they leave out.
const PROGRAMS: &[(&str, &[LongOption])] = &[
    (OFA, &[]),
    (":a:p:c:hvtTs:xb:", &[]),
    ("sa:p:c:l:d:r:m:w:", &[]),
    ("sa:p:c:l:q:w:", &[]),
    ("m:M:sb:c:C:S:p:", &[]),
    ("shb:m:p:c:l:", &[]),
    ("p:d:i:g:", LONG),
    ("p:d:i:l", LONG),
    (":p:d:i:l", LONG),
    (":lp:", NESTED),
];

/// `<getopt.h>` and `<stdio.h>`.
mod c {
    use super::{c_char, c_int};

    #[repr(C)]
    pub struct LongOption {
        pub name: *const c_char,
        pub has_arg: c_int,
        pub flag: *mut c_int,
        pub val: c_int,
    }

    unsafe extern "C" {
        pub static mut optarg: *mut c_char;
        pub static mut optind: c_int;
        pub static mut optopt: c_int;
        pub static mut stderr: *mut libc::FILE;
        pub fn getopt_long(
            argc: c_int,
            argv: *const *mut c_char,
            optstring: *const c_char,
            longopts: *const LongOption,
            longindex: *mut c_int,
        ) -> c_int;
    }
}

fn c_strings(texts: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Vec<CString> {
    texts.into_iter().map(|text| CString::new(text).unwrap()).collect()
}

/// The C library's reading of a command line: the words of [`read`], and what it prints.
///
/// # Safety
///
/// `getopt` and `stderr` are one for the whole process: only one thread may be here, and no
/// other may print through C's `stderr` meanwhile.
unsafe fn c_library(args: &[&str], optstring: &str, long: &[LongOption]) -> (String, String) {
    let argv = c_strings(argv(args));
    let mut c_argv: Vec<_> = argv.iter().map(|arg| arg.as_ptr().cast_mut()).collect();
    c_argv.push(ptr::null_mut());
    let names = c_strings(long.iter().map(|option| option.name));
    let c_option = |name: *const c_char, has_arg: bool, val: char| c::LongOption {
        name,
        has_arg: has_arg.into(),
        flag: ptr::null_mut(),
        val: val as c_int,
    };
    let mut c_long: Vec<_> = iter::zip(long, &names)
        .map(|(option, name)| c_option(name.as_ptr(), option.has_arg, option.val))
        .collect();
    c_long.push(c_option(ptr::null(), false, '\0'));
    let longopts = if long.is_empty() { ptr::null() } else { c_long.as_ptr() };
    let optstring = CString::new(optstring).unwrap();
    let letter = |c: c_int| char::from(c as u8);
    let (mut printed, mut size) = (ptr::null_mut(), 0);
    // SAFETY: `text` is given NUL-terminated strings only.
    let text = |text: *mut c_char| unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_string();

    let mut words = Vec::new();
    // SAFETY: all lists and strings are terminated and live through the calls; the caller has
    // promised that the variables are ours alone. `optind` 0 makes getopt begin anew.
    unsafe {
        let the_real_one = c::stderr;
        c::stderr = libc::open_memstream(&mut printed, &mut size);
        c::optind = 0;
        let operands = loop {
            c::optarg = ptr::null_mut();
            let (argc, index) = (argv.len() as c_int, ptr::null_mut());
            match c::getopt_long(argc, c_argv.as_ptr(), optstring.as_ptr(), longopts, index) {
                -1 => break c::optind as usize,
                error if error == '?' as c_int || error == ':' as c_int => {
                    words.push(format!("{}!{}", letter(error), letter(c::optopt)));
                    break argv.len();
                }
                c if c::optarg.is_null() || *c::optarg == 0 => words.push(letter(c).to_string()),
                c => words.push(format!("{}={}", letter(c), text(c::optarg))),
            }
        };
        words.extend((operands..argv.len()).map(|at| format!("{at}:{}", text(c_argv[at]))));
        libc::fclose(c::stderr);
        c::stderr = the_real_one;
    }
    let complaint = text(printed);
    // SAFETY: it came from open_memstream and is not used any more.
    unsafe { libc::free(printed.cast()) };
    (words.join(" "), complaint)
}

fn command_line() -> impl Strategy<Value = Vec<String>> {
    let long = "--(p|po|port|ib|ib-|ib-p|ib-port|ib-dev|l|list|list-|h|he|help|)(=[5x=]?)?";
    proptest::collection::vec(prop_oneof!["-?[-=:;?5aptxTshlzid]{0,4}", long], 0..7)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The only test that calls the C library's getopt in this process.
    #[test]
    fn reads_as_the_c_library_does(
        args in command_line(),
        (optstring, long) in proptest::sample::select(PROGRAMS),
    ) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        // SAFETY: proptest runs its cases one after the other, and no other test does this.
        let (expected, printed) = unsafe { c_library(&args, optstring, long) };
        let mut getopt = Getopt::long(&argv(&args), optstring, long);
        let complaint = getopt.complaint.take().map(|text| text + "\n");
        prop_assert_eq!(words(getopt), expected);
        prop_assert_eq!(complaint.unwrap_or_default(), printed);
    }
}

#[test]
fn posixly_correct() {
    let test = std::env::current_exe().unwrap();
    let output = std::process::Command::new(test)
        .args(["--exact", "getopt::tests::reads_as_the_c_library_does"])
        .env("POSIXLY_CORRECT", "")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("test result: ok. 1 passed"), "{text}");
}
