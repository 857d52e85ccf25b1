//! A file that is there: what it has stays, letter by letter, and what is new is added once.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use super::*;

#[test]
fn what_is_there_stays_and_what_is_new_comes_once() {
    let desk = Desk::full();
    let own = "# mine\n role='reader' # so\n\n[mcp . \"docs\"]   # by hand\nurl = \"https://docs.example/mcp\"\nheaders = { Authorization = { env = \"MINE\" } }\n[mcp.notes]\ncommand=\"mine\" # end";
    put(desk.shop.path(), "tollgate.toml", own);
    let path = desk.shop.path().join("tollgate.toml");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let done = desk.tollgate(&["init", "--import", "project"]);
    let report = done.json();
    let after = desk.toml();
    assert!(after.starts_with(&format!("{own}\n\n# From ")), "{after}");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let docs = server(&report, ".mcp.json", "docs");
    assert_eq!(docs["outcome"], "present");
    assert_eq!(docs["notes"], json!(["`headers.Authorization` is said otherwise in [mcp.docs], which stays as it is"]));
    assert_eq!(server(&report, ".cursor/mcp.json", "notes")["here"], "notes_2");
    assert_eq!(server(&report, ".mcp.json", "off")["outcome"], "disabled");
    for _ in 0..2 {
        let again = desk.tollgate(&["init", "--import", "project"]).json();
        assert_eq!((&again["written"], &again["secrets"]), (&json!(false), &json!([])), "{again}");
        assert_eq!(desk.toml(), after);
    }
    assert_eq!(desk.tollgate(&["tools", "list"]).code, 0);
}

#[test]
fn a_dry_run_writes_nothing() {
    let desk = Desk::full();
    let dry = desk.tollgate(&["init", "--dry-run"]).json();
    let files = std::fs::read_dir(desk.shop.path()).unwrap().count();
    assert_eq!(files, 5, "the lists and .env");
    desk.tollgate(&["init"]);
    assert_eq!(dry["text"], desk.toml());
    let text = desk.tollgate(&["--format", "text", "init", "--import", "none", "--dry-run", "--force"]);
    assert_eq!(text.stdout, include_str!("../../../assets/tollgate.toml"));
}

#[test]
fn line_ends_and_links_stay() {
    let desk = Desk::new();
    put(desk.shop.path(), ".mcp.json", r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    put(desk.shop.path(), "real/config.toml", "role = \"reader\"\r\n");
    let link = desk.shop.path().join("tollgate.toml");
    symlink("real/config.toml", &link).unwrap();
    assert_eq!(desk.tollgate(&["init", "--import", "project"]).code, 0);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(desk.toml().starts_with("role = \"reader\"\r\n\r\n# From .mcp.json (Claude Code).\r\n[mcp.a]\r\n"));
    assert!(!desk.toml().replace("\r\n", "").contains('\n'));
    let force = desk.tollgate(&["init", "--force"]);
    assert_eq!(force.code, 0, "{}", force.stderr);
    assert!(desk.toml().starts_with(include_str!("../../../assets/tollgate.toml")));
}

#[test]
fn a_configuration_elsewhere_runs_its_servers_here() {
    let desk = Desk::new();
    put(desk.shop.path(), ".mcp.json", r#"{"mcpServers": {"a": {"command": "./a"}}}"#);
    std::fs::create_dir(desk.shop.path().join("etc")).unwrap();
    assert_eq!(desk.tollgate(&["--config", "etc/t.toml", "init"]).code, 0);
    let text = desk.plain(&std::fs::read_to_string(desk.shop.path().join("etc/t.toml")).unwrap());
    assert!(text.contains(r#"args = ["-c", "cd \"${1}\" && exec \"${2}\"", "sh", "PROJECT", "./a"]"#), "{text}");
}

#[test]
fn what_can_not_be_added_to_is_left_as_it_is() {
    let desk = Desk::new();
    put(desk.shop.path(), ".mcp.json", r#"{"mcpServers": {"a": {"command": "a", "env": {"API_KEY": "zq-planted"}}}}"#);
    for (own, part) in [
        ("mcp = { b = { command = \"b\" } }\n", "[mcp.NAME]"),
        ("role = 7\n", "tollgate.toml:1"),
        ("role = \n", "tollgate.toml:1"),
    ] {
        put(desk.shop.path(), "tollgate.toml", own);
        let done = desk.tollgate(&["init", "--import", "project"]);
        assert_eq!(done.code, 2, "{own}");
        assert!(done.stderr.contains(part), "{own}: {}", done.stderr);
        assert_eq!(desk.toml(), own);
    }
    let left = std::fs::read_dir(desk.shop.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(
        left.into_iter().all(|name| !name.to_str().unwrap().starts_with(".tollgate-")),
        "nothing is left beside it"
    );
}
