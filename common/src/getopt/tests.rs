use super::*;

const OFA: &str = ":a:p:c:hvtTs:x";

fn argv(args: &[&str]) -> Vec<String> {
    iter::once("./prog").chain(args.iter().copied()).map(str::to_string).collect()
}

/// The switches as `c`, `c=optarg` or `c!optopt`, and the operands as `index:text`.
fn read(args: &[&str], optstring: &str, long: &[LongOption]) -> String {
    let mut getopt = Getopt::long(&argv(args), optstring, long);
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
