//! perftest's command lines and tables.

/// Messages of a run without a time.
pub const ITERATIONS: u32 = 200;

/// A command line of one of its programs, which is the server's as it is and the client's with the
/// server's address after it.
pub fn line(program: &str, port: u16, options: &str) -> String {
    let length = if is_timed(options) { String::new() } else { format!("-n {ITERATIONS}") };
    format!("{program} -d rxe0 -F -p {port} {length} {options}")
}

fn is_timed(options: &str) -> bool {
    options.contains("-D")
}

/// Output without perftest's doubts about the processor's frequency (`get_clock.c`), which may stand in the middle of a row:
/// it has some on a machine that stands still at times.
fn without_doubts(text: &str) -> String {
    const DOUBT: &str = "Correlation coefficient r^2: ";
    let mut parts = text.split(DOUBT);
    let first = parts.next().unwrap_or_default().to_string();
    let rest = parts.filter_map(|part| part.split_once('\n')).map(|(_, rest)| rest);
    rest.fold(first, |text, rest| text + rest)
}

/// Checks that the client's output has as many rows of results as there are sizes, each of all
/// iterations.
pub fn assert_results(options: &str, text: &str) {
    let text = &without_doubts(text);
    // A row of the table: size and number of iterations come first.
    let rows = text.lines().skip_while(|line| !line.trim_start().starts_with("#bytes")).skip(1);
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split_whitespace().collect()).collect();
    // The standard deviation of latencies is no number if one took more than 46 ms, as on a busy
    // machine: perftest has the square of each in an `int`.
    const DEVIATION: usize = 6;
    let is_right = |(column, word): (usize, &&str)| {
        word.parse::<f64>()
            .is_ok_and(|number| number >= 0.0 || column == DEVIATION && number.is_nan())
    };
    let is_row = |row: &[&str]| row.len() >= 4 && row.iter().enumerate().all(is_right);
    // The iterations of all queue pairs are summed up.
    let is_full =
        |row: &[&str]| is_timed(options) || row[1].parse().is_ok_and(|n: u32| n % ITERATIONS == 0);
    let results: Vec<_> = rows.iter().filter(|row| is_row(row) && is_full(row)).collect();
    let expected = if options.contains("-a") { 23 } else { 1 };
    assert_eq!(results.len(), expected, "`{options}`:\n{text}");
}
