//! Verdicts on addresses: the shared cases, and a table for each kind of bug. The laws are in `spelling`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;
use tollgate_guard::address::{Policy, Refusal, Verdict, judge, judge_answers, judge_hop, judge_ip, judge_url};
use tollgate_guard::check;

pub(crate) const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));

/// A resolver that takes every text for a public name: what is refused is refused for what it says.
fn trusting(_: &str) -> Vec<IpAddr> {
    vec![PUBLIC]
}

pub(crate) fn verdict(url: &str) -> Verdict {
    judge(url, &trusting, &Policy::default())
}

pub(crate) fn ips(value: &Value) -> Vec<IpAddr> {
    value.as_array().unwrap().iter().map(|ip| ip.as_str().unwrap().parse().unwrap()).collect()
}

/// The answers of a case, one set a look-up; the last one stays.
pub(crate) fn answers(case: &Value) -> BTreeMap<String, Vec<Vec<IpAddr>>> {
    let fixed = case.get("resolve").and_then(Value::as_object).into_iter().flatten();
    let series = case.get("resolve_seq").and_then(Value::as_object).into_iter().flatten();
    let fixed = fixed.map(|(name, answer)| (name.clone(), vec![ips(answer)]));
    fixed.chain(series.map(|(n, sets)| (n.clone(), sets.as_array().unwrap().iter().map(ips).collect()))).collect()
}

pub(crate) fn cases() -> Vec<Value> {
    include_str!("../cases/ssrf.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case.get(field).unwrap().as_str().unwrap()
}

#[test]
fn the_shared_cases_hold() {
    let policy = Policy::default();
    let mut complaints = Vec::new();
    for case in cases() {
        let answers = answers(&case);
        let lookups = Cell::new(0);
        let resolver = |name: &str| {
            let turn = lookups.replace(lookups.get() + 1);
            answers.get(name).and_then(|sets| sets.get(turn).or(sets.last())).cloned().unwrap_or_default()
        };
        let mut verdict = judge(text(&case, "url"), &resolver, &policy);
        let first = verdict.as_ref().ok().and_then(|reachable| reachable.addresses.first().copied());
        let first_lookups = lookups.get();
        for location in case.get("redirects").and_then(Value::as_array).into_iter().flatten() {
            verdict = verdict.and_then(|reachable| {
                let next = judge_hop(&reachable.target, location.as_str().unwrap(), &policy)?;
                judge(next.url().as_str(), &resolver, &policy)
            });
        }
        let connected = case.get("assert_connected_ip").map(|ip| ip.as_str().unwrap().parse().unwrap());
        let holds = verdict.is_ok() == (text(&case, "expected") == "allow")
            && connected.is_none_or(|ip| first == Some(ip))
            && case.get("assert_lookups").is_none_or(|n| n.as_u64() == Some(first_lookups as u64));
        if !holds {
            complaints.push(format!("{case} -> {verdict:?}"));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(cases().len() > 70);
}

const READ_IN_TWO_WAYS: &[&str] = &[
    " http://example.com/",
    "http://example.com/ ",
    "http://example.com/a b",
    "http://exa\tmple.com/",
    "http://example.com/\r\nHost: x",
    "http://example.com\u{a0}/",
    "http://example.com\u{3000}/",
    "\u{feff}http://example.com/",
    "\0http://example.com/",
    "http://example.com/\u{7f}",
    "http:/example.com/",
    "http:example.com",
    "http:////example.com/",
    "http:\\\\example.com",
    "http://example.com\\@10.0.0.1/",
    "http:/\\example.com",
    "//example.com/",
    "/etc/passwd",
    "example.com",
    "",
    "http",
    "http:",
    "http://",
    "https:///",
    "http://?",
    "http://#",
    "http://:80/",
    "http://./",
    "http://../",
    "http://user@example.com/",
    "http://user:pass@example.com/",
    "http://@example.com/",
    "http://:@example.com/",
    "http://a@b@example.com/",
    "http://example.com@10.0.0.1/",
    "http://example.com:80@10.0.0.1:80/",
    "http://example.com%40x.com/",
    "http://example.com＠x.com/",
    "http://exam%70le.com/",
    "http://example%2ecom/",
    "http://example.com%2f/",
    "http://example.com%/",
    "http://example.com％2f/",
    "http://[fe80::1%25eth0]/",
    "http://[2606:4700::1%eth0]/",
    "http://[2606:4700::1/",
    "http://2606:4700::1/",
    "http://[]/",
    "http://[[::1]]/",
    "http://[1.1.1.1]/",
    "http://[2606:4700::1]x/",
    "http://example..com/",
    "http://.example.com/",
    "http://example.com../",
    "http://。example.com/",
    "http://1.1.1.1../",
    "http://a.1.1.1.1/",
    "http://1.1.1.1.1/",
    "http://256.1.1.1/",
    "http://1.1.1.256/",
    "http://4294967296/",
    "http://0x100000000/",
    "http://08.1.1.1/",
    "http://1.1.1.0x1g/",
    "http://010.8.8.8/",
    "http://８.8.8.8/",
    "http://8。8。8。8/",
    "http://a℀.com/",
    "http://exa$mple.com/",
    "http://exa,mple.com/",
    "http://exa`mple.com/",
    "http://(example).com/",
    "http://example.com:-1/",
    "http://example.com:8 0/",
    "http://example.com:8a/",
    "http://example.com:80:80/",
    "http://example.com:65536/",
    "http://example.com:４４３/",
];

#[test]
fn what_two_readers_read_in_two_ways_is_refused() {
    for url in READ_IN_TWO_WAYS {
        let verdict = verdict(url);
        assert!(verdict.is_err(), "{url:?} -> {verdict:?}");
    }
    let long = format!("http://example.com/{}", "a".repeat(20_000));
    let labels = [format!("http://{}.com/", "a".repeat(64)), format!("http://{}com/", "abcdefg.".repeat(40)), long];
    assert!(labels.iter().all(|url| verdict(url).is_err()));
}

#[test]
fn only_the_web_is_asked() {
    let schemes =
        ["ftp", "file", "gopher", "dict", "ldap", "ws", "wss", "data", "javascript", "view-source", "jar", "blob"];
    for scheme in schemes {
        for url in [format!("{scheme}://example.com/"), format!("{}:example.com", scheme.to_uppercase())] {
            assert_eq!(verdict(&url), Err(Refusal::Scheme { scheme: scheme.to_owned() }), "{url}");
        }
    }
    for port in [0, 1, 22, 25, 79, 81, 444, 2375, 6379, 8080, 8443, 65535] {
        assert_eq!(verdict(&format!("https://example.com:{port}/")), Err(Refusal::Port { port }));
    }
}

#[test]
fn names_that_mean_something_else_in_every_network_are_refused() {
    let names = [
        "localhost",
        "LocalHost",
        "localhost.",
        "a.localhost",
        "ⓛocalhost",
        "ｌｏｃａｌｈｏｓｔ",
        "local\u{ad}host",
        "localhost。",
        "localhost.localdomain",
        "localhost6.localdomain6",
        "ip6-localhost",
        "intranet",
        "router",
        "metadata",
        "instance-data",
        "a.internal",
        "METADATA.google.internal.",
        "metadata.goog",
        "x.metadata.goog",
        "host.docker.internal",
        "printer.local",
        "nas.lan",
        "nas.home.arpa",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "metadata.tencentyun.com",
        "wpad.corp",
    ];
    for name in names {
        let verdict = verdict(&format!("http://{name}/"));
        assert!(matches!(verdict, Err(Refusal::Name { .. })), "{name} -> {verdict:?}");
    }
}

#[test]
fn the_open_web_is_allowed() {
    let urls = [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://EXAMPLE.com:443/A?b=c@d#e", "https://example.com/A?b=c@d#e"),
        ("http://example.com:443/", "http://example.com:443/"),
        ("https://example.com:80/%2e%2E/%40?u=http://10.0.0.1/", "https://example.com:80/%40?u=http://10.0.0.1/"),
        ("http://example.com/@user/a:b", "http://example.com/@user/a:b"),
        ("http://example.com#@10.0.0.1/", "http://example.com/#@10.0.0.1/"),
        ("http://example.com:/@x:y", "http://example.com/@x:y"),
        ("http://example.com./", "http://example.com./"),
        ("http://münchen.example/straße", "http://xn--mnchen-3ya.example/stra%C3%9Fe"),
        ("http://例え。テスト/", "http://xn--r8jz45g.xn--zckzah/"),
        ("http://_dmarc.a-b.example/", "http://_dmarc.a-b.example/"),
        ("http://notlocalhost.example/", "http://notlocalhost.example/"),
        ("http://localhost.example.com/", "http://localhost.example.com/"),
        ("http://mylocal.internals/", "http://mylocal.internals/"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("http://8.8.8.8.:80/", "http://8.8.8.8/"),
        ("https://[2001:4860:4860::8888]:443/", "https://[2001:4860:4860::8888]/"),
    ];
    for (url, normal) in urls {
        assert_eq!(verdict(url).unwrap().target.url().as_str(), normal);
    }
}

/// The first and the last address of each range.
const V4_RANGES: &[(&str, &str)] = &[
    ("0.0.0.0", "0.255.255.255"),
    ("10.0.0.0", "10.255.255.255"),
    ("100.64.0.0", "100.127.255.255"),
    ("127.0.0.0", "127.255.255.255"),
    ("168.63.129.16", "168.63.129.16"),
    ("169.254.0.0", "169.254.255.255"),
    ("172.16.0.0", "172.31.255.255"),
    ("192.0.0.0", "192.0.0.255"),
    ("192.0.2.0", "192.0.2.255"),
    ("192.88.99.0", "192.88.99.255"),
    ("192.168.0.0", "192.168.255.255"),
    ("198.18.0.0", "198.19.255.255"),
    ("198.51.100.0", "198.51.100.255"),
    ("203.0.113.0", "203.0.113.255"),
    ("224.0.0.0", "255.255.255.255"),
];

const V6_BLOCKED: &[&str] = &[
    "::",
    "::1",
    "::2",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:8.8.8.8",
    "::ffff:0:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::a00:1",
    "100::1",
    "100:0:0:1::1",
    "1fff:ffff::",
    "2001::1",
    "2001:1ff:ffff::",
    "2001:db8::",
    "2001:db8:ffff::",
    "2002::",
    "2002:808:808::1",
    "3fff::1",
    "3fff:fff::1",
    "4000::",
    "5f00::1",
    "fc00::",
    "fdff::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "feff::1",
    "ff00::",
    "ff0e::1",
    "8000::",
    "2a00:1450::5efe:10.0.0.1",
    "2a00:1450::200:5efe:169.254.169.254",
];

/// The ends of each range, and its neighbours, which are open unless they are listed too.
#[test]
fn ranges_end_where_they_end() {
    let open = |ip: &str| judge_ip(ip.parse().unwrap(), &Policy::default()).is_ok();
    for &(first, last) in V4_RANGES {
        assert!(!open(first) && !open(last), "{first} {last}");
        let (first, last): (Ipv4Addr, Ipv4Addr) = (first.parse().unwrap(), last.parse().unwrap());
        let before = first.to_bits().checked_sub(1).map(Ipv4Addr::from_bits);
        let after = last.to_bits().checked_add(1).map(Ipv4Addr::from_bits);
        for neighbour in before.into_iter().chain(after) {
            assert!(open(&neighbour.to_string()), "{neighbour}");
        }
    }
    for ip in V6_BLOCKED {
        assert!(!open(ip), "{ip}");
    }
    let opened = [
        "2000::",
        "2001:200::",
        "2001:db7::1",
        "2001:db9::1",
        "2003::",
        "3ffe::1",
        "3fff:1000::1",
        "2606:4700:4700::1111",
        "2a00:1450::5efe:8.8.8.8",
    ];
    for ip in opened {
        assert!(open(ip), "{ip}");
    }
}

#[test]
fn one_private_answer_spoils_all() {
    let policy = Policy::default();
    let private: IpAddr = "10.0.0.1".parse().unwrap();
    for answers in [&[private, PUBLIC][..], &[PUBLIC, private], &[PUBLIC, "::ffff:8.8.8.8".parse().unwrap()]] {
        assert!(matches!(judge_answers("a.example", answers, &policy), Err(Refusal::Answer { .. })), "{answers:?}");
    }
    assert!(matches!(judge_answers("a.example", &[], &policy), Err(Refusal::Unresolved { .. })));
    assert!(judge_answers("a.example", &[PUBLIC, PUBLIC], &policy).is_ok());
}

#[test]
fn an_exemption_is_one_address_and_no_name() {
    let policy = Policy { ports: vec![8080], exempt: vec!["10.0.0.1".parse().unwrap()] };
    let allowed = |url: &str| judge(url, &|_| vec!["10.0.0.1".parse().unwrap()], &policy).is_ok();
    assert!(allowed("http://10.0.0.1:8080/") && allowed("http://wiki.example.com:8080/"));
    for url in ["http://10.0.0.2:8080/", "http://10.0.0.1/", "http://[::ffff:10.0.0.1]:8080/", "http://localhost:8080/"]
    {
        assert!(!allowed(url), "{url}");
    }
}

#[test]
fn each_hop_is_judged() {
    let policy = Policy::default();
    let from = judge_url("https://example.com/a/b?c", &policy).unwrap();
    let followed = [
        ("d", "https://example.com/a/d"),
        ("/d e", "https://example.com/d%20e"),
        ("?q", "https://example.com/a/b?q"),
        ("//other.example/", "https://other.example/"),
        ("https://other.example/ü", "https://other.example/%C3%BC"),
    ];
    for (location, url) in followed {
        assert_eq!(judge_hop(&from, location, &policy).unwrap().url().as_str(), url);
    }
    let refused = [
        "http://example.com/",
        "//10.0.0.1/",
        "//localhost/",
        "https://127.1/",
        "file:///etc/passwd",
        "javascript:1",
        "https://u@other.example/",
        "\\\\10.0.0.1\\",
        "https://other.example/\r\n",
        "https://other.example:22/",
        "https://[::1]/",
        "https:\t//10.0.0.1",
        "https://①②⑦.0.0.1/",
        "https://",
    ];
    for location in refused {
        let verdict = judge_hop(&from, location, &policy);
        assert!(verdict.is_err(), "{location:?} -> {verdict:?}");
    }
}

#[test]
fn a_report_says_why_and_hides_who() {
    let pinned = BTreeMap::from([
        ("Pub.Example.test.".to_owned(), vec![PUBLIC]),
        ("münchen.example".to_owned(), vec![PUBLIC]),
        ("void.example".to_owned(), vec![]),
    ]);
    let report = |url: &str| serde_json::to_string(&check(url, &pinned)).unwrap();
    assert_eq!(
        report("HTTP://pub.example.TEST/a?b"),
        r#"{"allowed":true,"url":"http://pub.example.test/a?b","reason":"`pub.example.test` leads to `93.184.216.34`"}"#
    );
    assert!(check("http://münchen.example/", &pinned).allowed);
    assert!(!check("http://void.example/", &pinned).allowed);
    assert_eq!(
        report("http://169.254.43518/latest?token=zq"),
        r#"{"allowed":false,"url":"http://169.254.43518/latest","reason":"`169.254.169.254` is no public address: link-local, where clouds keep their metadata"}"#
    );
    let refused = ["http://u:zq@pub.example.test/", "http://void.example/?zq", "http://10.0.0.1:zq/", "ftp://x/?zq"];
    for url in refused {
        let report = check(url, &pinned);
        assert!(!report.allowed && !report.reason.contains("zq"), "{report:?}");
    }
}
