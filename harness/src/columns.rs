//! Two texts side by side.

/// Where standard output is no terminal.
const USUAL_WIDTH: usize = 132;
/// Columns that are narrower stand one below the other.
const MIN_COLUMN: usize = 36;
const BETWEEN: &str = " \u{2502} ";
/// Before what does not fit into a line.
const INDENT: &str = "    ";

/// How many characters a line of standard output has.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size_of(std::io::stdout())
        .map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0))
}

/// The lines of two columns, in `width` characters; what is longer is continued below. One below
/// the other if that is too narrow.
pub(crate) fn side_by_side(columns: [&[String]; 2], width: usize) -> Vec<String> {
    let column = width.saturating_sub(BETWEEN.chars().count()) / 2;
    if column < MIN_COLUMN {
        let [left, right] = columns.map(|lines| lines.to_vec());
        return [left, vec![String::new()], right].concat();
    }
    let [left, right] = columns
        .map(|lines| lines.iter().flat_map(|line| wrapped(line, column)).collect::<Vec<_>>());
    let empty = String::new();
    (0..left.len().max(right.len()))
        .map(|at| {
            let [left, right] = [&left, &right].map(|lines| lines.get(at).unwrap_or(&empty));
            format!("{left:<column$}{BETWEEN}{right}").trim_end().to_owned()
        })
        .collect()
}

/// A line in pieces of at most `width` characters, cut at blanks where there are any.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut rest: Vec<char> = line.chars().collect();
    let mut pieces = Vec::new();
    while rest.len() > width {
        let blank = rest[..width].iter().rposition(|&c| c == ' ');
        let cut = blank.map(|at| at + 1).filter(|&cut| cut > INDENT.len()).unwrap_or(width);
        let tail = rest.split_off(cut);
        pieces.push(String::from_iter(&rest));
        rest = INDENT.chars().chain(tail).collect();
    }
    pieces.push(String::from_iter(&rest));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn columns_have_one_width_and_all_lines() {
        let (left, right) = (lines(&["a", "b", "c"]), lines(&["x"]));
        let text = side_by_side([&left, &right], 80);
        assert_eq!(text.len(), 3);
        assert_eq!(text[0], format!("a{}\u{2502} x", " ".repeat(38)));
        assert_eq!(text[2], format!("c{}\u{2502}", " ".repeat(38)));
    }

    #[test]
    fn a_narrow_terminal_has_them_one_below_the_other() {
        let (left, right) = (lines(&["a"]), lines(&["x"]));
        assert_eq!(side_by_side([&left, &right], 60), ["a", "", "x"]);
    }

    #[test]
    fn long_lines_are_continued_and_nothing_is_lost() {
        assert_eq!(wrapped("one two three", 10), ["one two ", "    three"].map(str::to_owned));
        let long = "x".repeat(100);
        let pieces = wrapped(&long, 40);
        assert!(pieces.iter().all(|piece| piece.chars().count() <= 40), "{pieces:?}");
        assert_eq!(pieces.concat().replace(' ', ""), long);
        let words = "a word or two ".repeat(20);
        let pieces = wrapped(&words, 37);
        assert!(pieces.iter().all(|piece| piece.chars().count() <= 37), "{pieces:?}");
        assert_eq!(pieces.concat().replace(' ', ""), words.replace(' ', ""));
    }
}
