//! Numbers that a checksum or a plan gives away: cards (Luhn), and where personal data are hidden too, IBANs (mod 97),
//! Chinese resident IDs, phone numbers and mail addresses. A number is read in its groups, as people write it.
//!
//! A bare number that passes Luhn may be any order's: it is a card where it is written in a card's groups, where the
//! words around it are about cards, or where it is all there is.

use std::ops::Range;

use super::text::{Scan, Span};
use super::values::in_marker;

/// What is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Secrets, and numbers of cards.
    #[default]
    Default,
    /// Personal data too.
    Pii,
}

/// How a text is gone through.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub(super) profile: Profile,
    /// The text stands for itself: no key says what it is.
    pub(super) is_alone: bool,
}

/// No number that is looked for is shorter, so one place in so many tells of each.
const CARD_BYTES_MIN: usize = 13;
const NUMBER_BYTES_MIN: usize = 11;
/// What belongs to one number, with its separators.
const RUN_BYTES_MAX: usize = 64;
/// Groups of digits in one run.
const GROUPS_MAX: usize = 12;
/// How far words tell what a number is.
const AROUND_BYTES: usize = 48;
/// The local part and the domain of a mail address (RFC 5321 §4.5.3.1).
const LOCAL_BYTES_MAX: usize = 64;
const DOMAIN_BYTES_MAX: usize = 255;

/// How cards write their digits.
const CARD_GROUPS: [&[usize]; 6] = [&[4, 4, 4, 4, 3], &[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4], &[6, 13], &[6, 10]];
/// How phones do: mobile and fixed numbers in China, and those of North America.
const PHONE_GROUPS: [&[usize]; 7] = [&[3, 4, 4], &[3, 8], &[11], &[4, 8], &[4, 7], &[3, 3, 4], &[2, 3, 4, 4]];

const CARD_WORDS: [&str; 17] = [
    "card",
    "visa",
    "mastercard",
    "amex",
    "maestro",
    "unionpay",
    "jcb",
    "credit",
    "debit",
    "cvv",
    "cvc",
    "expir",
    "卡号",
    "银行卡",
    "信用卡",
    "储蓄卡",
    "银联",
];

/// Adds the numbers of `scan` that must not be seen.
pub(super) fn spans(scan: &Scan, numbers: Numbers, spans: &mut Vec<Span>) {
    let bytes_min = match numbers.profile {
        Profile::Default => CARD_BYTES_MIN,
        Profile::Pii => NUMBER_BYTES_MIN,
    };
    let mut at = bytes_min - 1;
    while at < scan.bytes.len() {
        let Some(run) = run(scan, at) else {
            at += bytes_min;
            continue;
        };
        if (bytes_min..=RUN_BYTES_MAX).contains(&run.len()) {
            in_run(scan, run.clone(), numbers, spans);
        }
        at = run.end + bytes_min;
    }
    if numbers.profile == Profile::Pii {
        ibans(scan, spans);
        mail_addresses(scan, spans);
    }
}

/// The digits around a place with the separators between them.
fn run(scan: &Scan, at: usize) -> Option<Range<usize>> {
    let is_part = |at: usize| {
        let byte = scan.byte(at);
        let is_between = |at: usize| at > 0 && scan.byte(at - 1).is_ascii_digit() && scan.byte(at + 1).is_ascii_digit();
        byte.is_ascii_digit() || (matches!(byte, b' ' | b'-') && is_between(at))
    };
    if !is_part(at) {
        return None;
    }
    let (mut start, mut end) = (at, at + 1);
    while start > 0 && at - start <= RUN_BYTES_MAX && is_part(start - 1) {
        start -= 1;
    }
    while is_part(end) {
        end += 1;
    }
    Some(start..end)
}

fn in_run(scan: &Scan, run: Range<usize>, numbers: Numbers, spans: &mut Vec<Span>) {
    let groups = groups(scan, run.clone());
    let mut first = 0;
    while first < groups.len() {
        let rest = groups.get(first..).unwrap_or_default();
        let found = card(scan, rest, numbers).or_else(|| {
            (numbers.profile == Profile::Pii).then(|| resident_id(scan, rest).or_else(|| phone(scan, rest))).flatten()
        });
        match found {
            Some((count, span)) if !in_marker(scan, span.start) => {
                spans.push(span);
                first += count;
            }
            _ => first += 1,
        }
    }
}

fn groups(scan: &Scan, run: Range<usize>) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let mut start = run.start;
    for at in run.start..=run.end {
        if at == run.end || !scan.byte(at).is_ascii_digit() {
            groups.push(start..at);
            start = at + 1;
        }
    }
    groups.truncate(GROUPS_MAX);
    groups
}

/// The first groups, when they have these lengths and one kind of separator, and nothing goes on beside them.
fn shaped(scan: &Scan, groups: &[Range<usize>], shape: &[usize]) -> Option<(usize, Range<usize>)> {
    let taken = groups.get(..shape.len())?;
    let is_shaped = taken.iter().zip(shape).all(|(group, length)| group.len() == *length);
    let mut separators = taken.iter().take(shape.len() - 1).map(|group| scan.byte(group.end));
    let first = separators.next();
    let is_even = separators.all(|separator| Some(separator) == first);
    let whole = taken.first()?.start..taken.last()?.end;
    (is_shaped && is_even && stands_alone(scan, &whole)).then_some((shape.len(), whole))
}

/// Whether neither a word nor a decimal point goes on beside the number.
fn stands_alone(scan: &Scan, whole: &Range<usize>) -> bool {
    let joins = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'/' | b'%' | b'+');
    let before = |back: usize| whole.start.checked_sub(back).map_or(0, |at| scan.byte(at));
    let is_joined_before = joins(before(1)) && !(before(2) == b'\\' && before(1).is_ascii_alphabetic());
    let is_fraction = |dot: u8, digit: u8| matches!(dot, b'.' | b'-') && digit.is_ascii_alphanumeric();
    !is_joined_before
        && !joins(scan.byte(whole.end))
        && !is_fraction(before(1), before(2))
        && !is_fraction(scan.byte(whole.end), scan.byte(whole.end + 1))
}

fn digits(scan: &Scan, whole: &Range<usize>) -> Vec<u8> {
    let bytes = scan.bytes.get(whole.clone()).unwrap_or_default();
    bytes.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0').collect()
}

fn card(scan: &Scan, groups: &[Range<usize>], numbers: Numbers) -> Option<(usize, Span)> {
    let grouped = CARD_GROUPS.iter().find_map(|shape| shaped(scan, groups, shape));
    let (count, whole) = match grouped {
        Some(found) => found,
        None => {
            let bare = groups.first().filter(|group| stands_alone(scan, group))?.clone();
            let is_all = numbers.is_alone && scan.text.trim().len() == bare.len();
            let is_meant = is_all || numbers.profile == Profile::Pii || is_about_cards(scan, &bare);
            (1, is_meant.then_some(bare)?)
        }
    };
    let digits = digits(scan, &whole);
    let span = Span { start: whole.start, end: whole.end, rule: "card_number" };
    (is_issued(&digits) && luhn(&digits)).then_some((count, span))
}

fn is_about_cards(scan: &Scan, number: &Range<usize>) -> bool {
    let start = scan.text.floor_char_boundary(number.start.saturating_sub(AROUND_BYTES));
    let end = scan.text.floor_char_boundary(number.end + AROUND_BYTES / 2);
    let around = scan.slice(start..end).to_lowercase();
    CARD_WORDS.iter().any(|word| around.contains(word))
}

/// Whether an issuer has numbers that begin so, of this length (ISO/IEC 7812, as the schemes publish them).
fn is_issued(digits: &[u8]) -> bool {
    let head = digits.iter().take(6).fold(0_u32, |head, digit| head * 10 + u32::from(*digit));
    match digits.len() {
        13 => head / 100_000 == 4,
        14 => matches!(head / 1000, 300..=305 | 360..=369 | 380..=399),
        15 => matches!(head / 10_000, 34 | 37),
        16 => {
            head / 100_000 == 4
                || matches!(head / 10_000, 51..=55 | 62 | 65)
                || matches!(head / 100, 2221..=2720 | 3528..=3589 | 6011)
                || matches!(head / 1000, 644..=649)
        }
        17..=19 => matches!(head / 10_000, 62) || (digits.len() == 19 && head / 100_000 == 4),
        _ => false,
    }
}

/// ISO/IEC 7812-1 annex B.
fn luhn(digits: &[u8]) -> bool {
    let doubled = |(place, digit): (usize, &u8)| match (place % 2, *digit) {
        (0, digit) => u32::from(digit),
        (_, digit @ 0..=4) => u32::from(digit) * 2,
        (_, digit) => u32::from(digit) * 2 - 9,
    };
    let has_two = digits.iter().any(|digit| Some(digit) != digits.first());
    has_two && digits.iter().rev().enumerate().map(doubled).sum::<u32>() % 10 == 0
}

/// GB 11643-1999: region, birthday, order, check digit.
fn resident_id(scan: &Scan, groups: &[Range<usize>]) -> Option<(usize, Span)> {
    const WEIGHTS: [u32; 17] = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];
    const CHECKS: &[u8; 11] = b"10X98765432";
    let group = groups.first()?;
    let is_x = group.len() == 17 && matches!(scan.byte(group.end), b'x' | b'X');
    let whole = group.start..group.end + usize::from(is_x);
    if whole.len() != 18 || !stands_alone(scan, &whole) {
        return None;
    }
    let bytes = scan.bytes.get(whole.clone())?;
    let number = |range: Range<usize>| scan.slice(range.start + whole.start..range.end + whole.start).parse::<u32>();
    let (region, year) = (number(0..2).ok()?, number(6..10).ok()?);
    let (month, day) = (number(10..12).ok()?, number(12..14).ok()?);
    let is_person = matches!(region, 11..=15 | 21..=23 | 31..=37 | 41..=46 | 50..=54 | 61..=65 | 71 | 81..=83 | 91)
        && (1900..=2099).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day);
    let sum: u32 = bytes.iter().zip(WEIGHTS).map(|(byte, weight)| u32::from(byte - b'0') * weight).sum();
    let check = CHECKS.get(usize::try_from(sum % 11).ok()?)?;
    let is_checked = bytes.last().is_some_and(|last| last.eq_ignore_ascii_case(check));
    (is_person && is_checked).then_some((1, Span { start: whole.start, end: whole.end, rule: "resident_id" }))
}

fn phone(scan: &Scan, groups: &[Range<usize>]) -> Option<(usize, Span)> {
    let start = groups.first()?.start;
    let has_plus = start.checked_sub(1).is_some_and(|before| scan.byte(before) == b'+');
    if has_plus {
        // ITU-T E.164: at most 15 digits.
        let mut taken = 0_usize;
        let mut length = 0;
        for group in groups {
            if length + group.len() > 15 {
                break;
            }
            (taken, length) = (taken + 1, length + group.len());
        }
        let end = groups.get(taken.checked_sub(1)?)?.end;
        let is_whole = (8..=15).contains(&length) && !scan.byte(end).is_ascii_alphanumeric();
        return is_whole.then_some((taken, Span { start: start - 1, end, rule: "phone" }));
    }
    let (count, whole) = PHONE_GROUPS.iter().find_map(|shape| shaped(scan, groups, shape))?;
    let digits = digits(scan, &whole);
    let is_phone = match (digits.as_slice(), count) {
        ([8, 6, rest @ ..], 4) => is_mobile(rest),
        ([0, ..], 2) => true,
        ([2..=9, _, _, 2..=9, ..], 3) if digits.len() == 10 => true,
        (digits, _) => is_mobile(digits),
    };
    is_phone.then_some((count, Span { start: whole.start, end: whole.end, rule: "phone" }))
}

/// The numbering plan of China's mobile networks.
fn is_mobile(digits: &[u8]) -> bool {
    digits.len() == 11 && matches!(digits, [1, 3..=9, ..])
}

/// ISO 13616: two letters, two check digits, and up to 30 more.
fn ibans(scan: &Scan, spans: &mut Vec<Span>) {
    let bytes = scan.bytes;
    let mut at = 0;
    while let Some(window) = bytes.get(at..at + 4) {
        let is_head = matches!(window, [a, b, c, d] if a.is_ascii_uppercase() && b.is_ascii_uppercase() && c.is_ascii_digit() && d.is_ascii_digit());
        let is_joined = at.checked_sub(1).is_some_and(|before| scan.byte(before).is_ascii_alphanumeric());
        match (is_head && !is_joined).then(|| iban_end(scan, at)).flatten() {
            Some(end) => {
                spans.push(Span { start: at, end, rule: "iban" });
                at = end;
            }
            None => at += 1,
        }
    }
}

/// The end of the IBAN that begins at `start`: compact, or in groups of four.
fn iban_end(scan: &Scan, start: usize) -> Option<usize> {
    let length = iban_length(scan.bytes.get(start..start + 2)?)?;
    let (mut remainder, mut chars, mut at) = (0_u32, 0, start);
    let mut head = 0_u32;
    while chars < length {
        let byte = scan.byte(at);
        if byte == b' ' && chars % 4 == 0 && chars > 0 {
            at += 1;
            continue;
        }
        let value = match byte {
            b'0'..=b'9' => u32::from(byte - b'0'),
            b'A'..=b'Z' => u32::from(byte - b'A') + 10,
            _ => return None,
        };
        let target = if chars < 4 { &mut head } else { &mut remainder };
        *target = if value < 10 { *target * 10 + value } else { *target * 100 + value } % 97_000_000;
        if chars >= 4 {
            remainder %= 97;
        }
        (chars, at) = (chars + 1, at + 1);
    }
    // The head counts as if it stood at the end: two letters and two digits are six digits.
    let is_checked = (remainder * 1_000_000 + head) % 97 == 1;
    (is_checked && !scan.byte(at).is_ascii_alphanumeric()).then_some(at)
}

/// How long a country's are (the register of SWIFT).
fn iban_length(country: &[u8]) -> Option<usize> {
    const LENGTHS: &str = "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BR29BY28CH21CR22CY28CZ24DE22DK18DO28EE20EG29ES24FI18FO18FR27GB22\
        GE22GI23GL18GR27GT28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22MK19MR27\
        MT31MU30NL18NO15PK24PL28PS29PT25QA29RO24RS22SA24SC31SE24SI19SK24SM27ST25SV28TL23TN24TR26UA29VA22VG24XK20";
    let (entries, _) = LENGTHS.as_bytes().as_chunks::<4>();
    let entry = entries.iter().find(|entry| entry.starts_with(country))?;
    std::str::from_utf8(entry.get(2..)?).ok()?.parse().ok()
}

fn mail_addresses(scan: &Scan, spans: &mut Vec<Span>) {
    let is_local = |byte: u8| byte.is_ascii_alphanumeric() || b"._%+-".contains(&byte);
    let is_domain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    for (at, _) in scan.text.match_indices('@') {
        let start = scan.skip_back(at, LOCAL_BYTES_MAX, is_local);
        let end = scan.skip(at + 1, DOMAIN_BYTES_MAX, is_domain);
        let domain = scan.slice(at + 1..end).trim_end_matches(['.', '-']);
        let end = at + 1 + domain.len();
        let is_host = domain.rsplit_once('.').is_some_and(|(name, top)| {
            !name.is_empty() && top.len() >= 2 && top.bytes().all(|byte| byte.is_ascii_alphabetic())
        });
        let is_login = scan.slice(start..at) == "git" || scan.byte(end) == b':';
        if start < at && is_host && !is_login {
            spans.push(Span { start, end, rule: "mail_address" });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, profile: Profile) -> Vec<(String, &'static str)> {
        let scan = Scan { text, bytes: text.as_bytes() };
        let mut found = Vec::new();
        spans(&scan, Numbers { profile, is_alone: true }, &mut found);
        found.into_iter().map(|span| (text.get(span.start..span.end).unwrap().to_owned(), span.rule)).collect()
    }

    #[test]
    fn cards_are_told_from_numbers() {
        let cards = [
            "4111 1111 1111 1111",
            "pay with 4111-1111-1111-1111, please",
            "4111111111111111",
            "card 5555555555554444",
            "amex 3782 822463 10005 ok",
            "378282246310005",
            "卡号：6222021234567890128",
            "6011111111111117\n",
            "2223003122003222",
            "3530111333300000",
            "{\"card\": \"4111111111111111\"}",
            "on 2026-11-30 4111 1111 1111 1111",
            "30569309025904",
            "visa 4222222222222",
        ];
        for text in cards {
            let found = found(text, Profile::Default);
            assert!(matches!(found.as_slice(), [(_, "card_number")]), "{text}: {found:?}");
        }
        let others = [
            "4111 1111 1111 1112",
            "order 4111111111111111 shipped",
            "1234567812345670",
            "9111 1111 1111 1111",
            "0000 0000 0000 0000",
            "id=4111111111111111&x=1",
            "4111.1111.1111.1111",
            "1764495003123456",
            "v4111111111111111",
            "4111111111111111.5",
            "0.4111111111111111",
            "41111111111111111111111111111111",
            "4111 1111 1111 11111",
            "a4111 1111 1111 1111",
            "ISBN 978-3-16-148410-0",
            "2026-11-30 09:30:00",
            "192.168.100.200 10.0.0.1",
        ];
        for text in others {
            assert_eq!(found(text, Profile::Default), [], "{text}");
        }
    }

    #[test]
    fn personal_data_are_hidden_where_asked() {
        let texts = [
            ("DE89370400440532013000", "iban"),
            ("IBAN GB29 NWBK 6016 1331 9268 19.", "iban"),
            ("FR1420041010050500013M02606", "iban"),
            ("身份证11010519491231002X，", "resident_id"),
            ("id 440524198001010013 ok", "resident_id"),
            ("手机：13812345678", "phone"),
            ("138-1234-5678", "phone"),
            ("+86 138 1234 5678", "phone"),
            ("tel +1 415-555-2671", "phone"),
            ("010-12345678", "phone"),
            ("call 415-555-2671 now", "phone"),
            ("write to li.lei+x@example.com.cn.", "mail_address"),
            ("order 4111111111111111", "card_number"),
        ];
        for (text, rule) in texts {
            let found = found(text, Profile::Pii);
            assert!(matches!(found.as_slice(), [(_, found)] if *found == rule), "{text}: {found:?}");
        }
        let others = [
            "DE89370400440532013001",
            "XX89370400440532013000",
            "11010519491231002Y",
            "110105194912310021",
            "440524199913010015",
            "12812345678",
            "138123456789",
            "git@github.com:x/y.git",
            "@scope/pkg and a@b",
            "1764495003123",
            "2026-11-30",
            "user@host",
            "v1.2.3-20261130",
        ];
        for text in others {
            assert_eq!(found(text, Profile::Pii), [], "{text}");
        }
        for (text, _) in texts.iter().take(texts.len() - 1) {
            assert_eq!(found(text, Profile::Default), [], "{text}");
        }
    }
}
