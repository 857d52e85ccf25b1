//! Numbers that are no integers by their text: a float takes their place only where it is not another number.

use serde_json::Number;

/// The number that a text is; none where a 64-bit float would be another.
pub(super) fn read(text: &str) -> Option<Number> {
    // What is too small to be told from zero would be another number.
    let mut mantissa = text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    let is_kept = |float: &f64| *float != 0.0 || !mantissa.any(|byte| matches!(byte, b'1'..=b'9'));
    let float = text.parse::<f64>().ok().filter(is_kept).filter(|float| is_whole_alike(text, *float));
    float.and_then(Number::from_f64)
}

/// Whether a number is whole exactly where its text is, and the same whole number where the text writes it out: what asks for
/// an integer must not get another.
fn is_whole_alike(text: &str, float: f64) -> bool {
    // Fifteen digits and a mark: a float tells such numbers apart (IEEE 754, binary64).
    if text.len() <= 16 {
        return true;
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, ""));
    let shift: i64 = if exponent.is_empty() { 0 } else { exponent.parse().unwrap_or(i64::MAX) };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole = whole.trim_start_matches('-').trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let zeros = whole.len() - whole.trim_end_matches('0').len();
    let length = |digits: usize| i64::try_from(digits).unwrap_or(i64::MAX);
    let is_whole = match (whole, fraction) {
        ("", "") => true,
        (_, "") => shift >= -length(zeros),
        (_, fraction) => shift >= length(fraction.len()),
    };
    let is_written_out = exponent.is_empty() && is_whole && !whole.is_empty();
    is_whole == (float.fract() == 0.0) && (!is_written_out || format!("{:.0}", float.abs()) == whole)
}
