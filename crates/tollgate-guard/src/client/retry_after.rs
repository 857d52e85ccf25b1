//! `Retry-After` (RFC 9110 §10.2.3): seconds, or a date.

use std::time::Duration;

use jiff::Timestamp;

/// The wait from `now`; a date that is past is no wait. None where it is neither form.
pub(super) fn read(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has are a long time all the same.
        return (!value.is_empty()).then(|| Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let then = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read_and_nothing_else() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for (value, wait) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Fri, 02 Jan 2026 03:05:05 GMT", Some(60)),
            ("Fri, 02 Jan 2026 03:00:00 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("Fri, 99 Jan 2026 03:05:05 GMT", None),
        ] {
            assert_eq!(read(value, now), wait.map(Duration::from_secs), "{value}");
        }
    }
}
