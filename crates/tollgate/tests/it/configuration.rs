//! `tollgate.toml`: what is wrong is named by file, line and key, with what would be right.

use std::path::Path;

use tollgate::RepairLevel::{Lenient, Off};
use tollgate::config::{Found, Loaded, find};
use tollgate::{Error, Tollgate};

fn fault(text: &str) -> (usize, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.toml");
    std::fs::write(&path, text).unwrap();
    let error = Loaded::read(&path, folder.path()).unwrap_err();
    let shown = error.to_string();
    let tail = shown.rsplit_once("tollgate.toml").unwrap().1.to_owned();
    (error.line, tail, error.hint.unwrap_or_default())
}

/// What is written, the line of its fault, parts of what is said, and part of what would be right.
type Case<'a> = (&'a str, usize, &'a [&'a str], &'a str);

fn assert_faults(cases: &[Case<'_>]) {
    for (text, line, parts, right) in cases {
        let (found, shown, hint) = fault(text);
        assert_eq!(found, *line, "{text:?}: {shown}");
        for part in *parts {
            assert!(shown.contains(part), "{text:?}: {shown}");
        }
        assert!(hint.contains(right), "{text:?}: {hint}");
    }
}

#[test]
fn every_fault_has_its_place_and_what_would_be_right() {
    let cases: &[Case<'_>] = &[
        ("data_dir = \n", 1, &[":1:"], "docs/config.md"),
        ("workspce = \".\"\n", 1, &["`workspce`", "unknown field"], "did you mean `workspace`?"),
        ("# one\n\n[server]\nbind = 7373\n", 4, &[":4:", "`server.bind`", "expected a string"], "config"),
        ("[models.default]\nbase_url = \"http://127.0.0.1/v1\"\n", 1, &["missing field `model`"], "config"),
        (
            "[models.default]\nbase_url = \"x\"\nmodel = \"m\"\napi_key = \"sk-123\"\n",
            4,
            &[":4:", "`models.default.api_key`"],
            "never the secret itself",
        ),
        (
            "[models.x]\nbase_url = \"x\"\nmodel = \"m\"\nidle_timeout_ms = 0\n",
            4,
            &["`models.x.idle_timeout_ms`", "no time to wait"],
            "from 1 to",
        ),
        (
            "[models.x]\nbase_url = \"x\"\nmodel = \"m\"\nmax_retries = 11\n",
            4,
            &["`models.x.max_retries`"],
            "at most 10",
        ),
        ("[models.x]\nbase_url = \"x\"\nmodel = \"m\"\napi = \"telnet\"\n", 4, &["unknown value `telnet`"], "config"),
        (
            "[roles.r]\ntools = [\"*\"]\nrisk = \"mild\"\n",
            3,
            &[":3:", "`roles.r.risk`", "unknown value `mild`"],
            "a role has",
        ),
        ("[[tool]]\nname = \"t\"\ndescription = \"d\"\n", 1, &["`tool.t`", "it runs nothing"], "command ="),
        ("repair = \"some\"\n", 1, &[":1:", "`repair`", "unknown value `some`"], "config"),
        ("[roles.r]\ntools = [\"*\"]\nrepair = \"all\"\n", 3, &[":3:", "`roles.r.repair`", "`all`"], "and repair"),
        ("[audit]\nreads = \"never\"\n", 2, &[":2:", "`audit.reads`", "unknown value `never`"], "config"),
        ("[audit]\ncheckpoint_idle = \"soon\"\n", 2, &[":2:", "not a period"], "10s"),
        ("[results]\nkeep = \"soon\"\n", 2, &[":2:", "`results.keep`", "not a period"], "168h"),
        ("[audit.anchor]\nevery = \"1m\"\n", 1, &["`audit.anchor.file`", "names no place"], "syslog ="),
        ("[audit.anchor]\nsyslog = \"log:514\"\n", 2, &["`audit.anchor.syslog`", "unix:PATH"], "unix:/dev/log"),
        ("[audit.anchor]\nhttp = \"log\"\n", 2, &["`audit.anchor.http`"], "https://"),
        ("[audit.anchor]\nfile = \"f\"\nheaders = { A = \"b\" }\n", 3, &["`audit.anchor.headers`"], "http ="),
        ("[audit.anchor]\nfile = \"f\"\nevery = \"0s\"\n", 3, &["`audit.anchor.every`", "not a period"], "1m"),
    ];
    assert_faults(cases);
}

#[test]
fn every_fault_of_what_tools_come_from_has_its_place() {
    let cases: &[Case<'_>] = &[
        ("[mcp.a]\nargs = []\n", 1, &["`mcp.a`", "neither `command` nor `url`"], "command ="),
        ("[mcp.a]\ncommand = \"c\"\nurl = \"u\"\n", 1, &["`mcp.a`", "both `command` and `url`"], "headers"),
        ("[mcp.a]\nurl = \"http://h/\"\nargs = [\"x\"]\n", 1, &["`mcp.a`", "go with a `command`"], "args"),
        ("[mcp.a]\ncommand = \"c\"\ntransport = \"sse\"\n", 1, &["`mcp.a`", "`transport` goes with a `url`"], "url"),
        ("[mcp.a]\nurl = \"ws://h/\"\ntransport = \"sse\"\n", 1, &["`mcp.a`", "WebSocket"], "url"),
        ("[mcp.a]\nurl = \"http://h/\"\ntransport = \"carrier\"\n", 3, &["`mcp.a.transport`", "unknown"], "config"),
        ("[mcp.a]\ncommand = \"c\"\nstart = \"soon\"\n", 3, &["`mcp.a.start`", "unknown value `soon`"], "config"),
        (
            "[[tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = \"python3 t.py\"\n",
            1,
            &["`tool.t`", "`command`"],
            "write it as a list",
        ),
        (
            "\n[[tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"t\"]\nrsik = \"read\"\n",
            6,
            &[":6:", "`tool.t.rsik`", "unknown field `rsik`"],
            "did you mean `risk`?",
        ),
        (
            "\n[[tool]]\nname = \"t\"\ndescription = \"d\"\ncomand = [\"t\"]\n",
            5,
            &[":5:", "unknown field `comand`"],
            "did you mean `command`?",
        ),
        ("[[limit]]\ncalls = 0\nevery = \"1m\"\n", 2, &[":2:", "`limit.calls`", "nonzero"], "docs/config.md"),
        (
            "[databases.shop]\nsqlit = \"x\"\n",
            2,
            &["`databases.shop.sqlit`", "expected `sqlite`"],
            "did you mean `sqlite`?",
        ),
    ];
    assert_faults(cases);
}

#[test]
fn what_is_said_of_failures_can_hold() {
    let cases: &[Case<'_>] = &[
        ("[resilience]\ndrain_ms = -1\n", 2, &["`resilience.drain_ms`", "-1"], "config"),
        ("[resilience]\nmax_concurrent = 0\n", 2, &["`resilience.max_concurrent`", "between 1 and"], "docs/failure.md"),
        (
            "[resilience.sources.crm]\nbreaker = { open_ms = 99999999999 }\n",
            2,
            &["`resilience.sources.crm.breaker.open_ms`"],
            "docs/failure.md",
        ),
        (
            "[resilience.on_error]\ntimeout = \"fail\"\n",
            1,
            &["`resilience.on_error`", "needs a `default`"],
            "docs/failure.md",
        ),
        (
            "[resilience.on_error]\ndefault = \"retry\"\n",
            2,
            &["`resilience.on_error.default`", "`fail`, `human`"],
            "config",
        ),
    ];
    assert_faults(cases);
}

#[test]
fn a_database_and_an_engine_say_enough_and_not_too_much() {
    let cases: &[Case<'_>] = &[
        ("\n[databases.shop]\n", 2, &[":2:", "`databases.shop`", "neither `sqlite` nor `postgres`"], "postgres = {"),
        (
            "[databases.shop]\nsqlite = \"a\"\npostgres = { env = \"E\" }\n",
            1,
            &["`databases.shop`", "both `sqlite` and `postgres`"],
            "sqlite = ",
        ),
        (
            "[databases.shop]\npostgres = \"postgres://u:sk-123@h/d\"\n",
            2,
            &[":2:", "`databases.shop.postgres`", "a text stands here"],
            "never the secret itself",
        ),
        ("[search]\nkind = \"altavista\"\n", 2, &["`search.kind`", "unknown value `altavista`"], "config"),
        ("[search]\nkind = \"searxng\"\n", 1, &["`search.base_url`", "SearXNG needs one"], "https://"),
        (
            "# a\n[search]\nkind = \"searxng\"\nbase_url = \"search.example\"\n",
            4,
            &[":4:", "`search.base_url`", "does not begin with"],
            "base_url = \"https://",
        ),
        ("[search]\nkind = \"brave\"\n", 1, &["`search.api_key`", "Brave wants one"], "api_key = { env"),
        ("[search]\nkind = \"brave\"\nkey = \"k\"\n", 3, &["`search.key`", "unknown field `key`"], ""),
    ];
    assert_faults(cases);
}

/// What only shows once the parts are put together.
#[tokio::test]
async fn every_fault_of_the_house_has_its_place_too() {
    let cases: &[(&str, usize, &[&str], &str)] = &[
        (
            "[[limit]]\ncalls = 6\nevery = \"soon\"\n",
            3,
            &[":3:", "`limit 1.every`", "`soon` is not a period"],
            "write it as \"10s\"",
        ),
        (
            "[[limit]]\ncalls = 6\nevery = \"1m\"\nroles = [\"boss\"]\n",
            4,
            &[":4:", "`limit 1.roles`", "no role is named `boss`"],
            "there is developer, reader",
        ),
        (
            "[mcp.a]\ncommand = \"c\"\n\n[mcp.a.tools.\"re[ad\"]\nrisk = \"read\"\n",
            4,
            &[":4:", "`mcp.a.tools.re[ad`", "is not a pattern"],
            "use `*`",
        ),
        (
            "[[tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"c\"]\non_error = { timeout = \"fail\" }\n",
            1,
            &[":1:", "`tool.t`", "`on_error`: it needs a `default`"],
            "correct its definition",
        ),
        (
            "[[tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"c\"]\non_error.default.fallback.tool = \"t\"\n",
            1,
            &["`tool.t`", "circle: t → t"],
            "correct its definition",
        ),
        (
            "\n[[tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"c\"]\nrepair = \"lenient\"\n",
            2,
            &[":2:", "`tool.t`", "`repair` is `lenient`", "its risk is `dangerous`"],
            "correct its definition",
        ),
        (
            "repair = \"lenient\"\n[tools.\"*_file\"]\nrepair = \"lenient\"\n",
            2,
            &[":2:", "`tools.\"*_file\"`", "`lenient` is only for tools that read"],
            "docs/config.md",
        ),
        ("[mcp.a]\nurl = \"ws://u:p@h/\"\n", 2, &[":2:", "`mcp.a.url`", "user name"], "`ws://`"),
        ("[mcp.a]\nurl = \"ftp://h/\"\n", 2, &[":2:", "`mcp.a.url`"], "`ws://`"),
        ("role = \"developer\"\n\n[mcp.a__b]\ncommand = \"c\"\n", 3, &[":3:", "`mcp.a__b`", "single `_`"], "docs"),
    ];
    for (text, line, parts, right) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.toml");
        std::fs::write(&path, text).unwrap();
        let loaded = Loaded::read(&path, folder.path()).unwrap();
        let Err(Error::Config(error)) = Tollgate::builder().config(loaded).build().await else { panic!("{text:?}") };
        let shown = error.to_string();
        assert_eq!(error.line, *line, "{text:?}: {shown}");
        for part in *parts {
            assert!(shown.contains(part), "{text:?}: {shown}");
        }
        assert!(error.hint.as_deref().unwrap_or_default().contains(right), "{text:?}: {error:?}");
    }
}

#[test]
fn a_secret_is_never_echoed() {
    for line in
        ["api_key = \"sk-very-secret\"", "api_key = { env = [\"sk-very-secret\"] }", "api_key = [\"sk-very-secret\"]"]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.toml");
        std::fs::write(&path, format!("[models.d]\nbase_url = \"x\"\nmodel = \"m\"\n{line}\n")).unwrap();
        let error = Loaded::read(&path, folder.path()).unwrap_err();
        assert_eq!(error.line, 4, "{line}");
        assert!(!format!("{error} {}", error.text).contains("very-secret"), "{error} {}", error.text);
    }
}

#[test]
fn files_that_are_no_configuration_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let read = |path: &Path| Loaded::read(path, folder.path()).unwrap_err().to_string();
    assert!(read(&folder.path().join("none.toml")).contains("cannot be read"));
    assert!(read(folder.path()).contains("is not a file"));
    let latin = folder.path().join("latin.toml");
    std::fs::write(&latin, b"# fine\nname = \"\xff\"\n").unwrap();
    assert!(read(&latin).contains("latin.toml:2: is not UTF-8"));
    let huge = folder.path().join("huge.toml");
    std::fs::write(&huge, "#".repeat(2 << 20)).unwrap();
    assert!(read(&huge).contains("at most"));
}

#[test]
fn the_nearest_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a/b");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(folder.path().join("tollgate.toml"), "role = \"reader\"\n").unwrap();
    let found = find(&Found { folder: deep.clone(), ..Found::default() }).unwrap();
    assert_eq!((found.config.role.get_ref().as_str(), found.data_dir()), ("reader", folder.path().join(".tollgate")));

    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("tollgate")).unwrap();
    std::fs::write(home.path().join("tollgate/tollgate.toml"), "role = \"own\"\n").unwrap();
    let empty = tempfile::tempdir().unwrap();
    let place = Found { folder: empty.path().to_owned(), user_config: Some(home.path().to_owned()), named: None };
    let own = find(&place).unwrap();
    assert_eq!((own.config.role.get_ref().as_str(), own.data_dir()), ("own", empty.path().join(".tollgate")));
    let none = find(&Found { folder: empty.path().to_owned(), ..Found::default() }).unwrap();
    assert_eq!((none.config.role.get_ref().as_str(), none.file), ("developer", None));
}

/// What reads may have it, and what the house says does no harm to what writes.
#[tokio::test]
async fn lenient_is_for_tools_that_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.toml");
    let text = "repair = \"lenient\"\n[tools.read_file]\nrepair = \"lenient\"\n[tools.\"write_*\"]\nrepair = \"off\"\n";
    std::fs::write(&path, text).unwrap();
    let loaded = Loaded::read(&path, folder.path()).unwrap();
    let house = Tollgate::builder().config(loaded).build().await.unwrap();
    let repair = |name| house.gate().catalog().get(name).unwrap().definition.repair;
    assert_eq!(["read_file", "write_file", "edit_file"].map(repair), [Some(Lenient), Some(Off), None]);
}

#[tokio::test]
async fn overlays_change_definitions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.toml");
    let text = "[tools.\"write_*\"]\nsecurity = { requires_confirmation = true }\nexecution = { timeout_ms = 5 }\n";
    std::fs::write(&path, text).unwrap();
    let loaded = Loaded::read(&path, folder.path()).unwrap();
    let house = tollgate::Tollgate::builder().config(loaded).build().await.unwrap();
    let entry = house.gate().catalog().get("write_file").unwrap();
    assert!(entry.definition.security.requires_confirmation);
    assert_eq!((entry.definition.execution.timeout_ms, entry.definition.execution.max_concurrent), (5, 5));
    assert_eq!(house.gate().catalog().get("read_file").unwrap().definition.execution.timeout_ms, 30_000);
}
