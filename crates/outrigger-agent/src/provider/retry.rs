//! When a request is sent again, and after how long.
//!
//! What the provider asks for (`retry-after`) is honoured; without it the wait doubles, with jitter
//! so that many clients do not come back at once. Whether repeating is safe is not decided here.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::HeaderMap;

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// The wait before repetition number `attempt` (1 for the first): half fixed, half random.
pub(super) fn backoff(attempt: u32) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)));
    let whole = doubled.min(LONGEST_BACKOFF);
    whole / 2 + whole.mul_f64(fastrand::f64() / 2.0)
}

/// `asked` and a little more, so that clients told the same moment do not all arrive in it.
pub(super) fn at_least(asked: Duration) -> Duration {
    asked
        + (asked / 10)
            .min(Duration::from_secs(1))
            .mul_f64(fastrand::f64())
}

/// What the provider asked for: `retry-after-ms`, or `retry-after` as seconds or as an HTTP date
/// (RFC 9110, section 10.2.3). A date in the past means now.
pub(super) fn asked_for(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|value| value.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    let value = text("retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &'static str, value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        asked_for(&headers, "2026-11-06T08:49:00Z".parse().unwrap())
    }

    #[test]
    fn seconds_milliseconds_and_dates() {
        assert_eq!(asked("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(
            asked("retry-after", "0.5"),
            Some(Duration::from_millis(500))
        );
        assert_eq!(
            asked("retry-after-ms", "250"),
            Some(Duration::from_millis(250))
        );
        assert_eq!(
            asked("retry-after", "Fri, 06 Nov 2026 08:49:37 GMT"),
            Some(Duration::from_secs(37))
        );
        assert_eq!(
            asked("retry-after", "Fri, 06 Nov 2026 08:00:00 GMT"),
            Some(Duration::ZERO)
        );
        assert_eq!(asked("retry-after", "-3"), None);
        assert_eq!(asked("retry-after", "soon"), None);
    }

    #[test]
    fn backoff_grows_and_stays_bounded() {
        for _ in 0..100 {
            assert!((250..=500).contains(&backoff(1).as_millis()));
            assert!((1000..=2000).contains(&backoff(3).as_millis()));
            assert!((15_000..=30_000).contains(&backoff(40).as_millis()));
            let wait = at_least(Duration::from_secs(2)).as_millis();
            assert!((2000..=2200).contains(&wait));
        }
    }
}
