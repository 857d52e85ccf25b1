//! What happens when a tool fails, as people see it: the ladder before, the record after.

use crate::shop::Shop;

const CONFIG: &str = r#"
[resilience.sources.archive]
max_concurrent = 2
breaker = { failures = 3, open_ms = 5000 }

[[tool]]
name = "look"
description = "Looks."
command = ["sh", "-c", "echo try >> tries.txt; echo down >&2; exit 7"]
risk = "read"
source = { server = "archive" }
execution = { timeout_ms = 5000, total_timeout_ms = 60000 }
input_schema = { type = "object", properties = { city = { type = "string" } }, required = ["city"] }

[tool.on_error]
default = "fail"
EXIT_7 = { retry = { max = 2, pause_ms = 1 }, fallback = { tool = "cached", map_args = { key = { template = "{{ city }}-now" } } } }

[[tool]]
name = "cached"
description = "Remembers."
command = ["cat"]
risk = "read"
input_schema = { type = "object", properties = { key = { type = "string" } } }
"#;

#[test]
fn the_ladder_is_shown_and_climbed_and_on_record() {
    let shop = Shop::with(CONFIG);
    let shown = shop.tollgate(&["--format", "text", "tools", "show", "look"]).stdout;
    for line in [
        "When it fails",
        "EXIT_7         again after 1 ms, after 2 ms (on_error) → `cached` instead (on_error) → the caller is told",
        "network_error  the caller is told",
        "default        the caller is told",
        "a call that may have happened may be made again · all tries 60000 ms",
        "source archive: left alone for 5000 ms after 3 failures in a row · 2 at once · retries 20 in 100 calls and 20 more",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    let json = shop.tollgate(&["tools", "show", "look"]).json();
    assert_eq!(json["failures"]["source"]["breaker"], "closed");
    let plain = shop.tollgate(&["--format", "text", "tools", "show", "cached"]).stdout;
    assert!(
        plain.contains(
            "network_error  again after 1000 ms, after 2000 ms, after 4000 ms (built in) → the caller is told"
        ),
        "{plain}"
    );

    let done = shop.tollgate(&["call", "look", r#"{"city": "北京"}"#]);
    assert_eq!(done.code, 0, "{} {}", done.stdout, done.stderr);
    let outcome = done.json();
    assert_eq!(outcome["result"]["structured"]["key"], "北京-now");
    let tries = std::fs::read_to_string(shop.path().join("tries.txt")).unwrap();
    assert_eq!(tries.lines().count(), 3);
    let story = shop.tollgate(&["--format", "text", "audit", "show", outcome["attempt"].as_str().unwrap()]).stdout;
    assert!(story.contains("tried again 2 time(s)"), "{story}");
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}

#[test]
fn what_cannot_hold_is_said_before_anything_runs() {
    for (from, to, wanted) in [
        ("default = \"fail\"\nEXIT_7", "EXIT_7", "it needs a `default`"),
        ("tool = \"cached\"", "tool = \"look\"", "its fallbacks go in a circle: look → look"),
        ("{{ city }}-now", "{% set a = city ~ city %}", "not `set`"),
        ("max = 2", "max = -2", "invalid value"),
        ("max_concurrent = 2", "max_concurrent = 0", "between 1 and 65535"),
        ("timeout_ms = 5000", "timeout_ms = 0", "must be between 1 and"),
        ("total_timeout_ms = 60000", "total_timeout_ms = 86400001", "must be between 1 and 86400000"),
    ] {
        let shop = Shop::with(&CONFIG.replacen(from, to, 1));
        let refused = shop.tollgate(&["tools", "list"]);
        assert_eq!(refused.code, 2, "{to}: {}", refused.stdout);
        assert!(
            refused.stderr.contains(wanted) && refused.stderr.contains("tollgate.toml"),
            "{to}: {}",
            refused.stderr
        );
    }
}
