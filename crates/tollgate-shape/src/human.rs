//! Numbers and times as people write them.

use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Number, Value};
use tollgate_types::{Language, Unit};

/// Digits behind the point.
pub(crate) const DIGITS_MAX: u8 = 9;

/// A zone by its name in the tz database, or as an offset such as `+08:00`.
pub(crate) fn zone(name: &str) -> Result<TimeZone, String> {
    if let Some(offset) = offset(name) {
        return Ok(TimeZone::fixed(offset));
    }
    TimeZone::get(name)
        .map_err(|_| format!("`{}` is no time zone: write Asia/Shanghai, UTC or +08:00", name.escape_debug()))
}

fn offset(text: &str) -> Option<Offset> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let part = |text: &str, max: i32| text.parse::<i32>().ok().filter(|n| text.len() == 2 && (0..=max).contains(n));
    Offset::from_seconds(sign * (part(hours, 23)? * 3600 + part(minutes, 59)? * 60)).ok()
}

/// A number in another unit. What is no number stays.
pub(crate) fn in_unit(value: Value, unit: &Unit) -> Value {
    let Some(number) = value.as_f64() else { return value };
    let scaled = number * unit.factor;
    if !scaled.is_finite() {
        return value;
    }
    let digits = usize::from(unit.digits.min(DIGITS_MAX));
    let mut text = format!("{scaled:.digits$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if text == "-0" {
        "0".clone_into(&mut text);
    }
    match &unit.unit {
        Some(name) => format!("{text} {name}").into(),
        None => text.parse::<Number>().map_or(value, Value::Number),
    }
}

/// A time in a zone. What is no time stays.
pub(crate) fn time(value: Value, zone: &TimeZone, ago: Option<Language>, now: Timestamp) -> Value {
    let Some(at) = instant(&value) else { return value };
    let zoned = at.to_zoned_datetime(zone.clone());
    let offset = zoned.offset().seconds();
    let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs() / 60);
    let date = zoned.datetime();
    let text = format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02} {sign}{:02}:{:02}",
        date.year(),
        date.month(),
        date.day(),
        date.hour(),
        date.minute(),
        date.second(),
        minutes / 60,
        minutes % 60
    );
    match ago {
        None => text.into(),
        Some(language) => format!("{text}{}", distance(at.duration_until(now), language)).into(),
    }
}

fn instant(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => match number.as_i64() {
            Some(count) => since_epoch(count),
            None => {
                let seconds = number.as_f64().filter(|seconds| seconds.abs() < 1e11)?;
                Timestamp::from_duration(SignedDuration::try_from_secs_f64(seconds).ok()?).ok()
            }
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Seconds up to the year 5138, else milliseconds, microseconds or nanoseconds.
fn since_epoch(count: i64) -> Option<Timestamp> {
    const SECONDS: u64 = 100_000_000_000;
    match count.unsigned_abs() {
        magnitude if magnitude < SECONDS => Timestamp::from_second(count).ok(),
        magnitude if magnitude < SECONDS * 1_000 => Timestamp::from_millisecond(count).ok(),
        magnitude if magnitude < SECONDS * 1_000_000 => Timestamp::from_microsecond(count).ok(),
        _ => Timestamp::from_nanosecond(i128::from(count)).ok(),
    }
}

/// The largest unit of which there is one, with a month of 30 days and a year of 365.
fn distance(passed: SignedDuration, language: Language) -> String {
    const UNITS: [(u64, &str, &str); 6] = [
        (365 * 86_400, "year", "年"),
        (30 * 86_400, "month", "个月"),
        (86_400, "day", "天"),
        (3_600, "hour", "小时"),
        (60, "minute", "分钟"),
        (1, "second", "秒"),
    ];
    let seconds = passed.as_secs().unsigned_abs();
    let is_past = !passed.is_negative();
    let Some((size, en, zh)) = UNITS.into_iter().find(|(size, ..)| seconds >= *size) else {
        return match language {
            Language::En => " (now)".into(),
            Language::Zh => "（现在）".into(),
        };
    };
    let count = seconds / size;
    match language {
        Language::En => {
            let plural = if count == 1 { "" } else { "s" };
            if is_past { format!(" ({count} {en}{plural} ago)") } else { format!(" (in {count} {en}{plural})") }
        }
        Language::Zh => format!("（{count} {zh}{}）", if is_past { "前" } else { "后" }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_in_units() {
        let unit = |factor, unit: Option<&str>, digits| Unit { factor, unit: unit.map(str::to_owned), digits };
        for (value, unit, shown) in [
            (json!(1250), unit(0.001, Some("kg"), 2), json!("1.25 kg")),
            (json!(2_000_000), unit(1e-6, Some("MB"), 1), json!("2 MB")),
            (json!(-0.001), unit(1.0, Some("m"), 2), json!("0 m")),
            (json!(1999), unit(0.01, None, 2), json!(19.99)),
            (json!(3), unit(100.0, None, 0), json!(300)),
            (json!("n/a"), unit(0.001, Some("kg"), 2), json!("n/a")),
            (json!(1e308), unit(1e10, Some("kg"), 2), json!(1e308)),
            (json!(null), unit(1.0, Some("kg"), 2), json!(null)),
        ] {
            assert_eq!(in_unit(value, &unit), shown);
        }
    }

    #[test]
    fn times_in_zones() {
        let now = "2026-11-30T08:00:00Z".parse().unwrap();
        let shown = |value, name: &str, ago| time(value, &zone(name).unwrap(), ago, now);
        for count in [1_796_025_600_i64, 1_796_025_600_000, 1_796_025_600_000_000, 1_796_025_600_000_000_000] {
            assert_eq!(shown(json!(count), "Asia/Shanghai", None), json!("2026-11-30 16:00:00 +08:00"), "{count}");
        }
        let text = json!("2026-11-30T08:00:00.5+00:00");
        assert_eq!(shown(text.clone(), "+05:30", None), json!("2026-11-30 13:30:00 +05:30"));
        assert_eq!(shown(text, "America/New_York", Some(Language::En)), json!("2026-11-30 03:00:00 -05:00 (now)"));
        let en = Some(Language::En);
        assert_eq!(shown(json!("2026-11-29T08:00:00Z"), "UTC", en), json!("2026-11-29 08:00:00 +00:00 (1 day ago)"));
        assert_eq!(shown(json!("2026-11-30T10:00:00Z"), "UTC", en), json!("2026-11-30 10:00:00 +00:00 (in 2 hours)"));
        for other in [json!("yesterday"), json!(true), json!(null), json!(i64::MAX), json!(1e300)] {
            let same = shown(other.clone(), "UTC", en);
            assert!(same == other || other == json!(i64::MAX), "{same}");
        }
        for broken in ["", "+8", "+24:00", "+08:60", "Nowhere"] {
            assert!(zone(broken).is_err(), "{broken}");
        }
    }
}
