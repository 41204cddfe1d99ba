//! `soft-hca explain --timers`: how long it takes until a request fails for want of an answer, or of a receive.

use std::fmt::Write;

use soft_hca_daemon::device::like;
use soft_hca_record::time::duration;
use soft_hca_roce::transport::timers::{AckTimer, ack_timeout_ns, rnr_wait_ns};

use crate::Error;

/// Attributes of a queue pair that are about time, as `ibv_modify_qp` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Timers {
    timeout: Option<u8>,
    retry_cnt: Option<u8>,
    rnr_retry: Option<u8>,
    /// The peer's.
    min_rnr_timer: Option<u8>,
}

impl Timers {
    /// Of words such as `timeout=14`.
    fn parse(words: &[String]) -> Result<Self, Error> {
        let mut timers = Self::default();
        for word in words {
            let refused = || Error::NoTimer(word.clone());
            let (name, number) = word.split_once('=').ok_or_else(refused)?;
            let (field, most) = match name {
                "timeout" => (&mut timers.timeout, 31),
                "retry_cnt" => (&mut timers.retry_cnt, 7),
                "rnr_retry" => (&mut timers.rnr_retry, 7),
                "min_rnr_timer" => (&mut timers.min_rnr_timer, 31),
                _ => return Err(refused()),
            };
            let number =
                number.parse().ok().filter(|number| *number <= most).ok_or_else(refused)?;
            *field = Some(number);
        }
        Ok(timers)
    }
}

/// Prints how long a queue pair with these attributes tries, as specified, here, and by the adapters that were measured,
/// or the one with the name `like`.
///
/// # Errors
/// A word is no such attribute, or that adapter was not measured.
pub fn explain(words: &[String], like: Option<&str>) -> Result<(), Error> {
    crate::print(&text(Timers::parse(words)?, like)?)
}

fn text(timers: Timers, like: Option<&str>) -> Result<String, Error> {
    let measured = || {
        let profiles = like::names().filter_map(like::profile);
        profiles.filter_map(|profile| Some((profile, profile.timeout_floor.as_ref()?)))
    };
    let chosen: Vec<_> =
        measured().filter(|(profile, _)| like.is_none_or(|name| name == profile.name)).collect();
    if chosen.is_empty() {
        let known =
            measured().map(|(profile, _)| profile.name.clone()).collect::<Vec<_>>().join(", ");
        return Err(Error::NoTimes { name: like.unwrap_or_default().to_owned(), known });
    }
    let mut out = String::new();
    let has_acks = timers.timeout.is_some() || timers.retry_cnt.is_some();
    if has_acks {
        let (timeout, retry_cnt) = (timers.timeout.unwrap_or(14), timers.retry_cnt.unwrap_or(7));
        let tries = u64::from(retry_cnt) + 1;
        let _ = write!(out, "No answer: timeout {timeout}, retry_cnt {retry_cnt}: ");
        match ack_timeout_ns(timeout) {
            None => out.push_str("the request waits for ever\n"),
            Some(one) => {
                let _ = writeln!(
                    out,
                    "IBV_WC_RETRY_EXC_ERR after {tries} {} of {} (4.096 us * 2^{timeout})",
                    if tries == 1 { "timeout" } else { "timeouts" },
                    duration(one)
                );
                row(&mut out, "as specified", tries * one, Some(4 * tries * one));
                row(&mut out, "soft-hca, within a fabric", tries * one, None);
                let between = AckTimer::new(timeout).limit_ns(retry_cnt).unwrap_or(0);
                row(&mut out, "soft-hca, between hosts", between, None);
                for (profile, floor) in &chosen {
                    let timer = AckTimer { timeout, floor: profile.timeout_floor() };
                    row(
                        &mut out,
                        &format!("like {}", profile.name),
                        timer.limit_ns(retry_cnt).unwrap_or(0),
                        None,
                    );
                    let _ = writeln!(out, "        {}", floor.source);
                }
            }
        }
    }
    if let Some(rnr_retry) = timers.rnr_retry.or(timers.min_rnr_timer.map(|_| 6)) {
        let code = timers.min_rnr_timer.unwrap_or(12);
        let wait = rnr_wait_ns(code);
        let _ = write!(out, "No receive: rnr_retry {rnr_retry}, the peer's min_rnr_timer {code}: ");
        if rnr_retry == 7 {
            out.push_str("the request waits for ever\n");
        } else {
            let _ = writeln!(
                out,
                "IBV_WC_RNR_RETRY_EXC_ERR after {rnr_retry} waits of {}",
                duration(wait)
            );
            row(&mut out, "at least", u64::from(rnr_retry) * wait, None);
        }
    }
    Ok(out)
}

/// A line with a time, or with the least and the most.
fn row(out: &mut String, what: &str, least: u64, most: Option<u64>) {
    let most = most.map_or_else(String::new, |most| format!(" to {}", duration(most)));
    let _ = writeln!(out, "    {what:<26} {}{most}", duration(least));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(words: &[&str], like: Option<&str>) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let timers = Timers::parse(&words).map_err(|error| error.to_string())?;
        text(timers, like).map_err(|error| error.to_string())
    }

    #[test]
    fn times_are_those_of_the_specification_of_ours_and_of_the_adapter() {
        let text = explained(&["timeout=14", "retry_cnt=7"], None).unwrap();
        for line in [
            "after 8 timeouts of 67.1 ms (4.096 us * 2^14)\n",
            "    as specified               536.9 ms to 2.15 s\n",
            "    soft-hca, within a fabric  536.9 ms\n",
            "    soft-hca, between hosts    1.81 s\n",
            "    like mlx5                  3.65 s\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(explained(&["timeout=14"], Some("mlx5")).unwrap(), text);
        assert!(!text.contains("No receive"));
    }

    #[test]
    fn what_never_ends_is_said() {
        let text = explained(&["timeout=0", "rnr_retry=7"], None).unwrap();
        assert_eq!(text.matches("the request waits for ever\n").count(), 2, "{text}");
        let text = explained(&["rnr_retry=6", "min_rnr_timer=12"], None).unwrap();
        assert!(
            text.contains("after 6 waits of 640.0 us") && !text.contains("No answer"),
            "{text}"
        );
    }

    #[test]
    fn what_is_no_timer_is_refused() {
        for word in ["timeout", "timeout=32", "timeout=x", "retry_cnt=8", "rnr_retry=-1", "mtu=5"] {
            assert!(explained(&[word], None).unwrap_err().contains(word), "{word}");
        }
        assert!(explained(&["timeout=14"], Some("rxe")).unwrap_err().contains("mlx5"));
    }
}
