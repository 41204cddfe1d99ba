//! How wide text is, and what of it fits.
//!
//! The file is made without knowing the reader's fonts, so widths are those of wide ones.

/// Pixels that a sign takes in a proportional font of one pixel.
fn width(sign: char) -> f64 {
    match sign {
        'i' | 'j' | 'l' | 'I' | '\'' | '|' => 0.33,
        ' ' | ',' | '.' | ':' | ';' | '!' | '\u{2009}' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '\u{2192}' => 0.98,
        '_' | 'a'..='z' => 0.62,
        'A'..='Z' => 0.72,
        '0'..='9' => 0.64,
        sign if sign.is_ascii() => 0.84,
        // Letters of other scripts can be as wide as they are high.
        _ => 1.0,
    }
}

/// Pixels of a text in a proportional font of this size.
pub(super) fn sans(text: &str, size: f64) -> f64 {
    text.chars().map(width).sum::<f64>() * size
}

/// Pixels of a text in a monospaced font of this size.
pub(super) fn mono(text: &str, size: f64) -> f64 {
    let advance = |sign: char| if sign.is_ascii() { 0.605 } else { 1.0 };
    text.chars().map(advance).sum::<f64>() * size
}

/// A text as far as it fits, by one of the measures above.
pub(super) fn fit(text: &str, size: f64, room: f64, measure: fn(&str, f64) -> f64) -> String {
    if measure(text, size) <= room {
        return text.to_owned();
    }
    let mut fitting = String::new();
    for sign in text.chars() {
        fitting.push(sign);
        if measure(&fitting, size) + size > room {
            fitting.pop();
            break;
        }
    }
    fitting.truncate(fitting.trim_end_matches([' ', ',']).len());
    fitting.push('\u{2026}');
    fitting
}

/// Parts that stay together as lines that fit, of which the first has other room than the rest: it may be left
/// empty. What is longer than a line is taken apart between words.
pub(super) fn fill(parts: &[String], size: f64, first: f64, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in parts {
        let own = |lines: &[String]| if lines.len() == 1 { first } else { room };
        let last = lines.len() - 1;
        let begun = if lines[last].is_empty() { String::new() } else { lines[last].clone() + " " };
        let longer = begun + part;
        if sans(&longer, size) <= own(&lines) {
            lines[last] = longer;
        } else if sans(part, size) <= room {
            lines.push(part.clone());
        } else {
            lines.extend(wrap(part, size, room));
        }
    }
    lines
}

/// A text in lines that fit.
pub(super) fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().filter(|line| {
            line.is_empty() || sans(line, size) + sans(" ", size) + sans(word, size) <= room
        });
        match line {
            Some(line) if line.is_empty() => *line = fit(word, size, room, sans),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(fit(word, size, room, sans)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut() {
        assert_eq!(fit("short", 10.0, 100.0, sans), "short");
        let cut = fit("a, bbbbbbbbbbbbbbbbbbbbbbbbbbbb", 10.0, 60.0, mono);
        assert!(cut.ends_with('\u{2026}') && mono(&cut, 10.0) <= 60.0 + 4.0, "{cut}");
        assert_eq!(fit("", 10.0, 0.0, sans), "");
    }

    #[test]
    fn parts_stay_together() {
        let parts = ["id 1,", "qp_num 16147949,", "responder_resources 2", "\u{2192} id 2"];
        let parts = parts.map(str::to_owned);
        let lines = fill(&parts, 10.0, 60.0, 130.0);
        assert_eq!(lines, ["id 1,", "qp_num 16147949,", "responder_resources 2", "\u{2192} id 2"]);
        assert_eq!(fill(&parts, 10.0, 600.0, 600.0), [parts.join(" ")]);
        assert_eq!(
            fill(&parts[..1], 10.0, 5.0, 100.0),
            ["", "id 1,"],
            "the first line may be too short"
        );
        let long = ["a text that is longer than a line has room for".to_owned()];
        assert_eq!(fill(&long, 10.0, 50.0, 100.0).join(" ").trim(), long[0]);
        assert_eq!(fill(&[], 10.0, 50.0, 100.0), [""]);
    }

    #[test]
    fn lines_have_all_words() {
        let text = "the peer had no receive posted for 1.20 s";
        let lines = wrap(text, 10.0, 120.0);
        assert!(lines.len() > 1);
        assert_eq!(lines.join(" "), text);
        assert!(lines.iter().all(|line| sans(line, 10.0) <= 120.0));
        assert_eq!(wrap("", 10.0, 10.0), [""]);
    }
}
