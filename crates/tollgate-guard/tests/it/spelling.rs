//! The laws of the verdicts: no disguise of a blocked address helps, and what is asked is what was judged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use proptest::sample::select;
use tollgate_guard::address::{Policy, judge_answers, judge_ip, judge_url};

use crate::address::{PUBLIC, verdict};

fn blocked_v4() -> impl Strategy<Value = Ipv4Addr> {
    let ranges = [
        (0x0000_0000, 8),
        (0x0a00_0000, 8),
        (0x6440_0000, 10),
        (0x7f00_0000, 8),
        (0xa83f_8110, 32),
        (0xa9fe_0000, 16),
        (0xac10_0000, 12),
        (0xc000_0000, 24),
        (0xc000_0200, 24),
        (0xc058_6300, 24),
        (0xc0a8_0000, 16),
        (0xc612_0000, 15),
        (0xc633_6400, 24),
        (0xcb00_7100, 24),
        (0xe000_0000, 4),
        (0xf000_0000, 4),
    ];
    (select(ranges.to_vec()), any::<u32>())
        .prop_map(|((base, prefix), low): ((u32, u32), u32)| base | low & u32::MAX.checked_shr(prefix).unwrap_or(0))
        .prop_map(Ipv4Addr::from_bits)
}

/// One part of a dotted number, in the radix and with the zeros that `style` says.
fn part(value: u64, style: u8) -> String {
    match style % 7 {
        0 | 1 => format!("{value}"),
        2 => format!("0{value:o}"),
        3 => format!("0x{value:x}"),
        4 => format!("0X{value:08X}"),
        5 => format!("0000{value:o}"),
        _ => format!("0{value}"),
    }
}

/// Any way to write an IPv4 address that some program understands.
fn spelling(address: Ipv4Addr, form: u8, styles: [u8; 4], disguise: u8) -> String {
    let [a, b, c, d] = address.octets().map(u64::from);
    let low = |shift: u32| u64::from(address.to_bits()) & ((1 << shift) - 1);
    let [v, w, x, y] = styles;
    let hex = |n: u32| format!("{:x}:{:x}", n >> 16, n & 0xffff);
    let bits = address.to_bits();
    let text = match form % 12 {
        0 => format!("{}.{}.{}.{}", part(a, v), part(b, w), part(c, x), part(d, y)),
        1 => format!("{}.{}.{}", part(a, v), part(b, w), part(low(16), x)),
        2 => format!("{}.{}", part(a, v), part(low(24), w)),
        3 => part(bits.into(), v),
        4 => format!("[::ffff:{address}]"),
        5 => format!("[::{}]", hex(bits)),
        6 => format!("[::ffff:0:{}]", hex(bits)),
        7 => format!("[64:ff9b::{address}]"),
        8 => format!("[2002:{}::{v:x}]", hex(bits)),
        9 => format!("[2001:0:4136:e378:8000:63bf:{}]", hex(!bits)),
        10 => format!("[64:ff9b:1::{}]", hex(bits)),
        _ => format!("[2a00:1450:{v:x}::5efe:{address}]"),
    };
    if text.starts_with('[') {
        return text;
    }
    match disguise % 8 {
        0 => text.replace('.', "。"),
        1 => text.replace('.', "．"),
        2 => text.chars().map(|c| c.to_digit(10).and_then(|n| char::from_u32(0xff10 + n)).unwrap_or(c)).collect(),
        3 => text.chars().map(|c| c.to_digit(10).and_then(|n| char::from_u32(0x1d7d8 + n)).unwrap_or(c)).collect(),
        4 => text.bytes().map(|byte| format!("%{byte:02x}")).collect(),
        5 => format!("{text}."),
        6 => text.chars().flat_map(|c| [c, '\u{ad}']).collect(),
        _ => text,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn no_spelling_of_a_blocked_address_is_allowed(
        address in blocked_v4(), form: u8, styles: [u8; 4], disguise: u8,
        scheme in select(vec!["http://", "https://", "HTTP://", "hTtPs://"]),
        before in select(vec!["", "", "", "example.com@", "u:p@"]), port in select(vec!["", ":", ":80", ":443"]),
        after in select(vec!["", "/", "/x?y", "?@example.com/", "#@example.com/"]),
    ) {
        let url = format!("{scheme}{before}{}{port}{after}", spelling(address, form, styles, disguise));
        let verdict = verdict(&url);
        prop_assert!(verdict.is_err(), "{url} -> {verdict:?}");
    }

    #[test]
    fn a_plain_literal_is_judged_by_its_address_alone(bits: u128, is_v4: bool, in_unicast: bool) {
        let (ip, url) = if is_v4 {
            let ip = Ipv4Addr::from_bits(bits as u32);
            (IpAddr::V4(ip), format!("http://{ip}/"))
        } else {
            let ip = Ipv6Addr::from_bits(if in_unicast { bits >> 3 | 1 << 125 } else { bits });
            (IpAddr::V6(ip), format!("http://[{ip}]/"))
        };
        let policy = Policy::default();
        prop_assert_eq!(judge_url(&url, &policy).is_ok(), judge_ip(ip, &policy).is_ok());
        prop_assert_eq!(judge_answers("a.example", &[PUBLIC, ip], &policy).is_ok(), judge_ip(ip, &policy).is_ok());
    }

    #[test]
    fn what_is_asked_is_what_was_judged(url in "(https?|HTTP)://[a-z0-9.:@%\\[\\]ａ。１ö_~-]{1,20}(/[ -~]{0,10})?") {
        if let Ok(target) = judge_url(&url, &Policy::default()) {
            let again = judge_url(target.url().as_str(), &Policy::default());
            prop_assert_eq!(again, Ok(target), "{}", url);
        }
    }
}
