//! Rules that hold for a stream's lines and numbers however the timing was: lines of which one of a
//! few groups is printed, numbers that count, lines of which there are as many as of others,
//! histograms that add up.

use regex::Regex;
use serde::Deserialize;

/// Lines that are printed as one of several groups.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    /// The lines concerned. The text that group 1 matches, if there is one, is looked at.
    pub lines: Regex,
    /// Their text, joined, the main thread's before the other's: one of these.
    pub like: Vec<Regex>,
    /// So many of the first are as in the recording.
    pub begins: usize,
    /// Only in a stream that has such a line, and none like the second.
    pub with: Option<Regex>,
    pub without: Option<Regex>,
}

/// Lines whose number, group 1, says how many lines like `of` there were before, and so many
/// more.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub lines: Regex,
    pub of: Regex,
    pub from: u64,
}

/// As many lines as of another kind, or as the number in the first such line says.
#[derive(Clone, Debug)]
pub(crate) struct AsMany {
    pub lines: Regex,
    pub as_of: Regex,
    /// Only in a stream that has such a line.
    pub with: Option<Regex>,
}

/// How the lines of a histogram are recognised.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistogramPatterns {
    /// Group 1 is what is counted, group 2 how often it was.
    bin: String,
    /// Group 1 is the sum of the bins above.
    total: String,
    /// Group 1 is that sum with every bin times what it counts.
    weighted: Option<String>,
    /// Group 1 is one of the totals.
    calls: Option<String>,
    /// Of these the number depends on timing, and counts only as far as it adds up.
    varies: String,
}

/// A histogram, from its highest bin that is not empty down to bin 0, and its sums.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    bin: Regex,
    total: Regex,
    weighted: Option<Regex>,
    calls: Option<Regex>,
    varies: Regex,
}

impl Groups {
    /// Does it concern this stream?
    pub fn holds(&self, lines: &[String]) -> bool {
        let any = |pattern: &Regex| lines.iter().any(|line| pattern.is_match(line));
        self.with.as_ref().is_none_or(any) && !self.without.as_ref().is_some_and(any)
    }

    /// Is the line one of them?
    pub fn has(&self, line: &str) -> bool {
        self.lines.is_match(line)
    }

    /// Is what was printed one of the groups? `is_apart` tells the threads apart.
    pub fn check(&self, lines: &[String], is_apart: impl Fn(&str) -> bool) -> Result<(), String> {
        let (mut main, mut apart) = (Vec::new(), Vec::new());
        for line in lines {
            let Some(found) = self.lines.captures(line) else { continue };
            let text = found.get(1).or(found.get(0)).map_or("", |text| text.as_str());
            if is_apart(line) { apart.push(text) } else { main.push(text) }
        }
        main.append(&mut apart);
        let text = main.join("\n");
        if main.is_empty() || self.like.iter().any(|like| is_all(like, &text)) {
            return Ok(());
        }
        Err(format!("these lines do not go together: {main:?}"))
    }
}

fn is_all(pattern: &Regex, text: &str) -> bool {
    pattern.find(text).is_some_and(|found| found.len() == text.len())
}

impl Counted {
    /// Does every number say how many lines there were before?
    pub fn check(&self, lines: &[String]) -> Result<(), String> {
        let mut count = self.from;
        for line in lines {
            if let Some(said) = number(&self.lines, line).filter(|&said| said != count) {
                return Err(format!("{line:?} says {said}, but it should be {count}"));
            }
            count += u64::from(self.of.is_match(line));
        }
        Ok(())
    }
}

impl AsMany {
    /// Are there as many of these as of those?
    pub fn check(&self, lines: &[String]) -> Result<(), String> {
        let count = |pattern: &Regex| lines.iter().filter(|line| pattern.is_match(line)).count();
        if self.with.as_ref().is_some_and(|with| count(with) == 0) {
            return Ok(());
        }
        let wanted = if self.as_of.captures_len() > 1 {
            let Some(said) = lines.iter().find_map(|line| number(&self.as_of, line)) else {
                return Ok(());
            };
            said
        } else {
            count(&self.as_of) as u64
        };
        let found = count(&self.lines) as u64;
        if found == wanted {
            return Ok(());
        }
        let (lines, of) = (self.lines.as_str(), self.as_of.as_str());
        Err(format!("{found} lines are like {lines:?}, {wanted} were to be by {of:?}"))
    }
}

impl HistogramPatterns {
    /// The patterns as regular expressions.
    pub fn compile(&self) -> Result<Histogram, String> {
        let regex = |text: &String| Regex::new(text).map_err(|error| error.to_string());
        Ok(Histogram {
            bin: regex(&self.bin)?,
            total: regex(&self.total)?,
            weighted: self.weighted.as_ref().map(regex).transpose()?,
            calls: self.calls.as_ref().map(regex).transpose()?,
            varies: regex(&self.varies)?,
        })
    }
}

impl Histogram {
    /// The rest of a line: nothing of a bin, and of a sum that varies no number.
    pub fn reduce(&self, line: &str) -> Option<String> {
        if self.bin.is_match(line) {
            return None;
        }
        let Some(sum) = self.varies.captures(line).and_then(|found| found.get(1)) else {
            return Some(line.to_owned());
        };
        Some(format!("{}N{}", &line[..sum.start()], &line[sum.end()..]))
    }

    /// Do the bins count down to 0, and do the sums add up?
    pub fn check(&self, lines: &[String]) -> Result<(), String> {
        let (mut bins, mut totals) = (Vec::new(), Vec::new());
        let (mut sum, mut weighted_sum) = (0, 0);
        for line in lines {
            if let Some(bin) = bin(&self.bin, line) {
                bins.push(bin);
            } else if let Some(said) = number(&self.total, line) {
                let found = std::mem::take(&mut bins);
                let highest = found.len() as u64;
                let counts_down = found.iter().zip((0..highest).rev()).all(|(bin, at)| bin.0 == at);
                let is_highest = highest == 1 || found.first().is_some_and(|bin| bin.1 > 0);
                if !counts_down || !is_highest {
                    return Err(format!("the bins above {line:?} are {found:?}"));
                }
                sum = found.iter().map(|bin| bin.1).sum();
                weighted_sum = found.iter().map(|bin| bin.0 * bin.1).sum();
                totals.push(sum);
                adds_up(line, said, sum)?;
            } else if let Some(said) = self.weighted.as_ref().and_then(|sums| number(sums, line)) {
                adds_up(line, said, weighted_sum)?;
            }
        }
        for line in lines {
            let calls = self.calls.as_ref().and_then(|calls| number(calls, line));
            if let Some(said) = calls.filter(|said| !totals.contains(said)) {
                adds_up(line, said, sum)?;
            }
        }
        if bins.is_empty() { Ok(()) } else { Err("a histogram has no total".to_owned()) }
    }
}

fn adds_up(line: &str, said: u64, sum: u64) -> Result<(), String> {
    if said == sum { Ok(()) } else { Err(format!("{line:?} says {said}, the sum is {sum}")) }
}

/// The number that group 1 of the pattern matches in the line.
pub(crate) fn number(pattern: &Regex, line: &str) -> Option<u64> {
    pattern.captures(line)?.get(1)?.as_str().parse().ok()
}

fn bin(pattern: &Regex, line: &str) -> Option<(u64, u64)> {
    let found = pattern.captures(line)?;
    Some((found.get(1)?.as_str().parse().ok()?, found.get(2)?.as_str().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn regex(text: &str) -> Regex {
        Regex::new(text).unwrap()
    }

    #[test]
    fn lines_go_together_or_not() {
        let groups = Groups {
            lines: regex("^(?:main|event):(.*)$"),
            like: vec![regex("left\nfinal2"), regex("final1\ngone")],
            begins: 0,
            with: None,
            without: Some(regex("^traced$")),
        };
        let check = |text| groups.check(&lines(text), |line| line.starts_with("event"));
        assert_eq!(check("a main:left b main:final2"), Ok(()));
        assert_eq!(check("event:gone a main:final1"), Ok(()), "a thread for itself");
        assert_eq!(check("a b"), Ok(()), "nothing");
        assert!(check("main:left main:final1").is_err());
        assert!(check("main:left main:final2 main:final2").is_err());
        assert!(check("main:left").is_err());
        assert!(groups.holds(&lines("a")) && !groups.holds(&lines("a traced")));
    }

    #[test]
    fn a_number_counts_what_came_before() {
        let counted = Counted { lines: regex("^([0-9]+)send"), of: regex("^[0-9]+recv"), from: 0 };
        assert_eq!(counted.check(&lines("0send 1recv 1send 1send 2recv")), Ok(()));
        assert_eq!(counted.check(&lines("1recv 1send 2recv")), Ok(()));
        assert!(counted.check(&lines("1send 1recv 2send 2recv")).is_err());
        let own = Counted { of: counted.lines.clone(), from: 1, ..counted };
        assert_eq!(own.check(&lines("1send 1recv 2send")), Ok(()));
        assert!(own.check(&lines("1send 1recv 1send")).is_err());
        assert!(own.check(&lines("0send")).is_err());
    }

    #[test]
    fn as_many_of_one_kind_as_of_another() {
        let rule = |as_of, with: Option<&str>| AsMany {
            lines: regex("^poll$"),
            as_of: regex(as_of),
            with: with.map(regex),
        };
        assert_eq!(rule("^wait$", None).check(&lines("wait poll wait poll")), Ok(()));
        assert!(rule("^wait$", None).check(&lines("wait poll wait")).is_err());
        assert_eq!(rule("^calls([0-9]+)$", None).check(&lines("poll poll calls2")), Ok(()));
        assert!(rule("^calls([0-9]+)$", None).check(&lines("poll calls2")).is_err());
        assert_eq!(rule("^calls([0-9]+)$", Some("^traced$")).check(&lines("calls2")), Ok(()));
    }

    fn histogram() -> Histogram {
        HistogramPatterns {
            bin: r"^h\[([0-9]+)\]([0-9]+)$".to_owned(),
            total: "^total([0-9]+)$".to_owned(),
            weighted: Some("^work([0-9]+)$".to_owned()),
            calls: Some("^calls([0-9]+)$".to_owned()),
            varies: "^(?:total|calls)([0-9]+)$".to_owned(),
        }
        .compile()
        .unwrap()
    }

    #[test]
    fn a_histogram_adds_up() {
        let check = |text| histogram().check(&lines(text));
        assert_eq!(check("calls3 h[2]1 h[1]2 h[0]0 total3 work4"), Ok(()));
        assert_eq!(check("h[1]2 h[0]1 total3 work2 calls2 h[1]2 h[0]0 total2"), Ok(()));
        assert_eq!(check("h[0]0 total0"), Ok(()));
        for wrong in [
            "h[2]1 h[1]2 h[0]0 total4 work4",
            "h[2]1 h[1]2 h[0]0 total3 work5",
            "calls9 h[2]1 h[1]2 h[0]0 total3 work4",
            "h[2]1 h[0]2 total3",
            "h[2]0 h[1]3 h[0]0 total3",
            "h[2]1 h[1]2 total3",
            "h[2]1 h[1]2 h[0]0",
            "total3",
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        let left: Vec<_> = lines("h[0]2 total2 work0")
            .iter()
            .filter_map(|line| histogram().reduce(line))
            .collect();
        assert_eq!(left, ["totalN", "work0"]);
    }
}
