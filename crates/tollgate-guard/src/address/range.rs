//! The addresses that lead elsewhere than to the open internet: the special-purpose registries of IANA (RFC 6890 and
//! after) and the addresses at which clouds keep their metadata. Of IPv6 only global unicast (`2000::/3`) is open.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

type V4 = (Ipv4Addr, u32, &'static str);
type V6 = (Ipv6Addr, u32, &'static str);

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix_bits: u32, what: &'static str) -> V4 {
    (Ipv4Addr::new(a, b, c, d), prefix_bits, what)
}

/// The last four groups are zero in every entry but those of `::/64`.
const fn v6(groups: [u16; 4], prefix_bits: u32, what: &'static str) -> V6 {
    let [a, b, c, d] = groups;
    (Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), prefix_bits, what)
}

const V4_BLOCKED: [V4; 16] = [
    v4(0, 0, 0, 0, 8, "this network"),
    v4(10, 0, 0, 0, 8, "private network"),
    v4(100, 64, 0, 0, 10, "behind a carrier's address translation"),
    v4(127, 0, 0, 0, 8, "loopback, this machine"),
    v4(168, 63, 129, 16, 32, "the host of a virtual machine"),
    v4(169, 254, 0, 0, 16, "link-local, where clouds keep their metadata"),
    v4(172, 16, 0, 0, 12, "private network"),
    v4(192, 0, 0, 0, 24, "protocol assignments"),
    v4(192, 0, 2, 0, 24, "documentation"),
    v4(192, 88, 99, 0, 24, "6to4 relays"),
    v4(192, 168, 0, 0, 16, "private network"),
    v4(198, 18, 0, 0, 15, "benchmarks"),
    v4(198, 51, 100, 0, 24, "documentation"),
    v4(203, 0, 113, 0, 24, "documentation"),
    v4(224, 0, 0, 0, 4, "multicast"),
    v4(240, 0, 0, 0, 4, "reserved"),
];

/// Inside global unicast.
const V6_BLOCKED: [V6; 4] = [
    v6([0x2001, 0, 0, 0], 23, "protocol assignments, Teredo among them"),
    v6([0x2001, 0xdb8, 0, 0], 32, "documentation"),
    v6([0x2002, 0, 0, 0], 16, "IPv4 inside IPv6 (6to4)"),
    v6([0x3fff, 0, 0, 0], 20, "documentation"),
];

/// Outside it: only to say what it is, the most exact first.
const V6_NAMED: [V6; 11] = [
    (Ipv6Addr::UNSPECIFIED, 128, "this network"),
    (Ipv6Addr::LOCALHOST, 128, "loopback, this machine"),
    (Ipv6Addr::UNSPECIFIED, 96, "IPv4 inside IPv6 (compatible)"),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, "IPv4 inside IPv6 (mapped)"),
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, "IPv4 inside IPv6 (translated)"),
    v6([0x64, 0xff9b, 0, 0], 32, "IPv4 inside IPv6 (NAT64)"),
    v6([0x100, 0, 0, 0], 64, "nowhere"),
    v6([0xfc00, 0, 0, 0], 7, "private network"),
    v6([0xfe80, 0, 0, 0], 10, "link-local"),
    v6([0xfec0, 0, 0, 0], 10, "private network"),
    v6([0xff00, 0, 0, 0], 8, "multicast"),
];

const V6_GLOBAL_UNICAST: V6 = v6([0x2000, 0, 0, 0], 3, "");

/// What a blocked address is for, or `None` if it leads to the open internet.
pub(super) fn blocked(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => blocked_v4(address),
        IpAddr::V6(address) => blocked_v6(address),
    }
}

fn blocked_v4(address: Ipv4Addr) -> Option<&'static str> {
    let differs = |base: Ipv4Addr| (address.to_bits() ^ base.to_bits()).leading_zeros();
    V4_BLOCKED.iter().find(|(base, prefix_bits, _)| differs(*base) >= *prefix_bits).map(|(_, _, what)| *what)
}

fn blocked_v6(address: Ipv6Addr) -> Option<&'static str> {
    let holds = |&(base, prefix_bits, _): &V6| (address.to_bits() ^ base.to_bits()).leading_zeros() >= prefix_bits;
    let within = |ranges: &[V6]| ranges.iter().find(|range| holds(range)).map(|(_, _, what)| *what);
    if !holds(&V6_GLOBAL_UNICAST) {
        return Some(within(&V6_NAMED).unwrap_or("reserved"));
    }
    within(&V6_BLOCKED).or_else(|| {
        // ISATAP (RFC 5214) writes the IPv4 address of the router's neighbour into any prefix.
        let [_, _, _, _, kind, 0x5efe, high, low] = address.segments() else { return None };
        let inner = Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
        (matches!(kind, 0 | 0x200) && blocked_v4(inner).is_some()).then_some("IPv4 inside IPv6 (ISATAP)")
    })
}
