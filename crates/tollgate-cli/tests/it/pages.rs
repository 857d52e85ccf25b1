//! Help, completions, the manual page, the starting configuration.

use crate::shop::Shop;

#[test]
fn help_teaches() {
    let shop = Shop::bare();
    for (args, parts) in [
        (["--help"].as_slice(), ["Exit status", "approvals"]),
        (&["call", "--help"], ["Examples", "34817"]),
        (&["run", "--help"], ["--replay", "conversation"]),
        (&["serve", "--help"], ["mcpServers", "--role"]),
        (&["audit", "settle", "--help"], ["--as", "never finished"]),
    ] {
        let done = shop.tollgate(args);
        assert_eq!(done.code, 0);
        for part in parts {
            assert!(done.stdout.contains(part), "{args:?} {part}: {}", done.stdout);
        }
    }
    assert!(shop.tollgate(&["completions", "bash"]).stdout.contains("tollgate"));
    assert!(shop.tollgate(&["man"]).stdout.contains(".TH tollgate"));
}

#[test]
fn init_writes_a_file_that_works_and_writes_over_nothing() {
    let shop = Shop::bare();
    assert_eq!(shop.tollgate(&["init"]).code, 0);
    assert_eq!(shop.tollgate(&["call", "calculate", r#"{"expression":"1+1"}"#]).code, 0);
    let again = shop.tollgate(&["init"]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("--force"));
    assert_eq!(shop.tollgate(&["init", "--force"]).code, 0);
    let text = std::fs::read_to_string(shop.path().join("tollgate.toml")).unwrap();
    let all: String = text
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|l| l.contains('=') || l.starts_with('[')).unwrap_or(line))
        .map(|l| format!("{l}\n"))
        .collect();
    std::fs::write(shop.path().join("tollgate.toml"), all).unwrap();
    let done = shop.tollgate(&["tools", "list"]);
    assert_eq!(done.code, 0, "every commented example is a right one: {}", done.stderr);
    assert!(done.stdout.contains("convert_units"));
}
