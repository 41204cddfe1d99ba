//! Names that programs have for error numbers and statuses.

use soft_hca_verbs::{ErrorNumber, WcStatus};

/// The form of an error number.
pub(super) const ERROR_NUMBER: &str = "an error number is a name of errno(3) or from 1 to 4095";

/// The form of a status.
pub(super) const STATUS: &str = "a status is a name of ibv_wc_status, as IBV_WC_WR_FLUSH_ERR";

/// The forms of what a completion is seen with.
pub(super) const CHANGE: &str =
    "a status is a name of ibv_wc_status, as IBV_WC_WR_FLUSH_ERR; or bytes=N, or damaged";

/// An error number by its name, or as a number that the kernel may answer.
pub(super) fn error_number(text: &str) -> Option<ErrorNumber> {
    let is_number = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let number = || text.parse().ok().filter(|n| is_number && (1..=4095).contains(n));
    ErrorNumber::named(text).or_else(|| number().map(ErrorNumber))
}

/// All names of error numbers.
pub(super) fn error_numbers() -> impl Iterator<Item = &'static str> {
    ErrorNumber::ALL.iter().filter_map(|error| error.name())
}

/// All names of statuses.
pub(super) fn statuses() -> impl Iterator<Item = &'static str> {
    WcStatus::ALL.iter().filter_map(|status| status.name())
}

/// The names that are most like what was written, at most three.
pub(super) fn like(text: &str, names: impl Iterator<Item = impl AsRef<str>>) -> Vec<String> {
    let mut near: Vec<(usize, String)> = names
        .map(|name| (strsim::levenshtein(text, name.as_ref()), name.as_ref().to_string()))
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(2))
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

/// A question whether one of these was meant, or nothing.
pub(super) fn question(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" ({}?)", names.join(" or ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        assert_eq!(like("ENOMEN", error_numbers())[0], "ENOMEM");
        assert!(like("NO_SUCH_THING", error_numbers()).is_empty());
    }
}
