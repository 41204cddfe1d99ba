//! Reads what perftest's programs and `strace -c` print.

use std::collections::BTreeMap;

/// Column of a latency test: half a round trip, or a whole one for RDMA reads; the median.
pub const TYPICAL: &str = "t_typical[usec]";
/// Column of a bandwidth test, in MiB for all that it says.
pub const AVERAGE: &str = "BW average[MB/sec]";
/// Column of a bandwidth test: millions of messages in a second.
pub const RATE: &str = "MsgRate[Mpps]";

/// Names of the columns of a header line. Some have a blank in them.
fn columns(header: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut joins = false;
    for word in header.split_whitespace() {
        match names.last_mut() {
            Some(last) if joins => {
                last.push(' ');
                last.push_str(word);
            }
            _ => names.push(word.to_owned()),
        }
        joins = !joins && (word == "BW" || word.ends_with('%'));
    }
    names
}

/// The figure in the named column of the first result in a program's output.
pub fn figure(output: &str, column: &str) -> Option<f64> {
    let mut lines = output.lines();
    let header = lines.by_ref().find(|line| line.trim_start().starts_with("#bytes"))?;
    let at = columns(header).iter().position(|name| name == column)?;
    let row = lines.find(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))?;
    let value: f64 = row.split_whitespace().nth(at)?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// Calls by name in the table that `strace -c` prints.
pub fn system_calls(table: &str) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Share, seconds, microseconds per call, calls, errors if there are any, name.
        let [share, _, _, count, .., name] = words[..] else { continue };
        if share.parse::<f64>().is_err() || name == "total" {
            continue;
        }
        if let Ok(count) = count.parse() {
            calls.insert(name.to_owned(), count);
        }
    }
    calls
}

/// By how much the calls of a longer run exceed those of a shorter one, per message; calls
/// whose numbers are the same are left out.
pub fn calls_per_message(
    short: &BTreeMap<String, u64>,
    long: &BTreeMap<String, u64>,
    messages: u64,
) -> Vec<(String, f64)> {
    long.iter()
        .map(|(name, &count)| {
            let more = count as f64 - short.get(name).copied().unwrap_or(0) as f64;
            (name.clone(), more / messages as f64)
        })
        .filter(|(_, more)| *more != 0.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = "\
                    Send Latency Test
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:02
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       20000          1.84           204187.33      1.97     \t       51.52       \t-nan   \t\t9.55    \t\t12786.59
---------------------------------------------------------------------------------------
";

    const BANDWIDTH: &str = "\
Post List requested - CQ moderation will be the size of the post list
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 8          100000           0.00               7.16   \t\t   0.938239
";

    #[test]
    fn latency_columns() {
        assert_eq!(figure(LATENCY, TYPICAL), Some(1.97));
        assert_eq!(figure(LATENCY, "99% percentile[usec]"), Some(9.55));
        assert_eq!(figure(LATENCY, "99.9% percentile[usec]"), Some(12786.59));
        // Not a number.
        assert_eq!(figure(LATENCY, "t_stdev[usec]"), None);
        assert_eq!(figure(LATENCY, AVERAGE), None);
    }

    #[test]
    fn bandwidth_columns() {
        assert_eq!(figure(BANDWIDTH, AVERAGE), Some(7.16));
        assert_eq!(figure(BANDWIDTH, RATE), Some(0.938239));
    }

    #[test]
    fn output_that_was_cut_off_has_no_figure() {
        let header = LATENCY.lines().nth(3).unwrap();
        assert_eq!(figure(header, TYPICAL), None);
        assert_eq!(figure("", TYPICAL), None);
        assert_eq!(figure(&format!("{header}\n 8 20000 1.84"), TYPICAL), None);
        assert_eq!(figure(&format!("{header}\n 8 20000 1.8 2 inf 3"), TYPICAL), None);
    }

    #[test]
    fn tables_of_system_calls() {
        let table = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 91.32    0.012345           3      2010         2 process_vm_writev
  1.00    0.000001           0        17           read
------ ----------- ----------- --------- --------- ----------------
100.00    0.013518           6      2027         2 total
";
        let long = system_calls(table);
        assert_eq!(long.len(), 2);
        let short = BTreeMap::from([("read".into(), 17), ("process_vm_writev".into(), 1010)]);
        assert_eq!(calls_per_message(&short, &long, 1000), [("process_vm_writev".to_owned(), 1.0)]);
        assert_eq!(calls_per_message(&BTreeMap::new(), &long, 10)[1], ("read".to_owned(), 1.7));
    }
}
