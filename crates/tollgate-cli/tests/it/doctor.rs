//! `tollgate doctor`: what is missing, and where a URL may lead.

use serde_json::{Value, json};

use crate::shop::Shop;

#[test]
fn urls_are_judged_as_the_shared_cases_say() {
    let shop = Shop::bare();
    let cases = include_str!("../../../tollgate-guard/tests/cases/ssrf.jsonl");
    let mut judged = 0;
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let url = case["url"].as_str().unwrap();
        // What happens on the way (redirects, a second answer, a proxy) is the client's to judge.
        if ["redirects", "resolve_seq", "env"].iter().any(|key| case.get(*key).is_some()) || url.contains('\0') {
            continue;
        }
        let mut args = vec!["doctor".to_owned(), "url".to_owned()];
        for (host, addresses) in case.get("resolve").and_then(Value::as_object).into_iter().flatten() {
            for address in addresses.as_array().into_iter().flatten() {
                args.extend(["--resolve".to_owned(), format!("{host}={}", address.as_str().unwrap())]);
            }
        }
        args.extend(["--".to_owned(), url.to_owned()]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let done = shop.tollgate(&args);
        let allowed = case["expected"] == "allow";
        assert_eq!(done.code, if allowed { 0 } else { 3 }, "{line}: {} {}", done.stdout, done.stderr);
        assert_eq!(done.json()["allowed"], allowed);
        judged += 1;
    }
    assert!(judged > 50, "only {judged} cases were judged");
    assert!(!shop.path().join(".tollgate").exists(), "to look makes no data folder");
    assert_eq!(shop.tollgate(&["doctor", "url", "https://example.com", "--resolve", "nonsense"]).code, 2);
}

#[test]
fn what_is_missing_is_named_with_what_mends_it() {
    let shop = Shop::with(
        "[models.default]\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\napi_key = { env = \"NOT_SET_4711\" }\n\
         [[tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"no-such-program-4711\"]\n",
    );
    let done = shop.tollgate(&["doctor"]);
    assert_eq!(done.code, 1);
    let ailing: Vec<Value> =
        done.json().as_array().unwrap().iter().filter(|finding| finding["ok"] == false).cloned().collect();
    assert_eq!(ailing.len(), 2, "{ailing:?}");
    assert!(ailing[0]["found"].as_str().unwrap().contains("NOT_SET_4711"));
    assert!(ailing[1]["mend"].as_str().unwrap().contains("no-such-program-4711"));
    assert!(!shop.path().join(".tollgate").exists());
    let well = Shop::bare().tollgate(&["doctor"]);
    assert_eq!((well.code, well.json()[0]["ok"].clone()), (0, json!(true)));
}

/// The finding on one thing.
fn finding<'a>(report: &'a Value, what: &str) -> Option<&'a Value> {
    report.as_array().unwrap().iter().find(|finding| finding["what"] == what)
}

/// Runs the doctor: its exit status and its report.
fn doctor(shop: &Shop, args: &[&str]) -> (i32, Value) {
    let done = shop.tollgate(&[&["doctor"], args].concat());
    (done.code, done.json())
}

const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask:
        continue
    if ask["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif ask["method"] == "tools/list":
        result = {"tools": [{"name": "good", "inputSchema": {"type": "object"}}, {"name": "bad"}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "error": {"code": -32601, "message": "unknown"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
"#;

#[test]
fn servers_are_asked_and_each_says_what_it_has_or_what_it_lacks() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let shop = Shop::with(&format!(
        "[mcp.well]\ncommand = \"python3\"\nargs = [\"server.py\"]\n\
         [mcp.absent]\ncommand = \"no-such-program-4711\"\n\
         [mcp.wrapped]\ncommand = \"sh\"\nargs = [\"-c\", \"exec $1\", \"sh\", \"no-such-program-4712\"]\n\
         [mcp.plain]\ncommand = \"./plain\"\n\
         [mcp.module]\ncommand = \"python3\"\nargs = [\"-c\", \"import no_such_module_4711.x\"]\n\
         [mcp.falls]\ncommand = \"sh\"\nargs = [\"-c\", \"echo it broke >&2; exit 3\"]\n\
         [mcp.deaf]\ncommand = \"sleep\"\nargs = [\"1000\"]\n\
         [mcp.refuses]\nurl = \"http://127.0.0.1:{port}/mcp\"\n\
         [mcp.unset]\nurl = \"http://127.0.0.1:{port}/mcp\"\nheaders = {{ Authorization = {{ command = [\"sh\", \"-c\", \
         \"printf %s 'Bearer '\\\"${{NOT_SET_4711:?}}\\\"\"] }} }}\n\
         [mcp.locked]\nurl = \"http://127.0.0.1:{port}/mcp\"\nheaders = {{ Authorization = {{ file = \"none.key\" }} }}\n"
    ));
    std::fs::write(shop.path().join("server.py"), SERVER).unwrap();
    std::fs::write(shop.path().join("plain"), "").unwrap();
    let (code, report) = doctor(&shop, &["--wait", "5"]);
    assert_eq!(code, 1);
    let well = finding(&report, "MCP server well").unwrap();
    assert_eq!(
        (&well["ok"], &well["found"]),
        (&json!(true), &json!("stdio, revision 2025-06-18, 1 tool, 1 set aside"))
    );
    assert_eq!(well["server"]["quarantined"], json!([{"tool": "bad", "reason": "it has no `inputSchema`"}]));
    for (name, found, mend) in [
        ("absent", "not in PATH", "no-such-program-4711"),
        ("wrapped", "", "install `no-such-program-4712`"),
        ("plain", "may not be run", "chmod +x "),
        ("module", "", "python3 -m pip install no_such_module_4711"),
        ("falls", "", "echo it broke"),
        ("deaf", "within 5 s", "sleep 1000"),
        ("refuses", "no connection", "curl -i http://127.0.0.1"),
        ("unset", "Authorization: ", "export NOT_SET_4711='…'"),
        ("locked", "none.key", "install -D -m 600 /dev/stdin "),
    ] {
        let said = finding(&report, &format!("MCP server {name}")).unwrap();
        assert_eq!(said["ok"], false, "{said}");
        assert!(said["found"].as_str().unwrap().contains(found), "{said}");
        assert!(said["mend"].as_str().unwrap().contains(mend), "{said}");
    }
    assert_eq!(finding(&report, "MCP server falls").unwrap()["server"]["stderr"], json!(["it broke"]));
    assert!(!shop.path().join(".tollgate").exists(), "to look makes no data folder");
}

#[test]
fn why_a_server_does_not_come_up_has_a_word_and_something_to_do() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let shell = |name: &str, script: &str| format!("[mcp.{name}]\ncommand = \"sh\"\nargs = [\"-c\", \"{script}\"]\n");
    let future = "sed s/2025-06-18/2099-01-01/ server.py > future.py; exec python3 future.py";
    let shop = Shop::with(&format!(
        "{}{}{}{}{}[mcp.refuses]\nurl = \"http://127.0.0.1:{port}/mcp\"\n",
        shell("noisy", "echo Welcome; exec python3 server.py"),
        shell("prints", "echo Listening; exec sleep 1000"),
        shell("deaf", "exec sleep 1000"),
        shell("falls", "exit 3"),
        shell("future", future),
    ));
    std::fs::write(shop.path().join("server.py"), SERVER).unwrap();
    let (_, report) = doctor(&shop, &["--wait", "5"]);
    for (name, trouble, found, mend) in [
        ("noisy", Value::Null, "no message: `Welcome`", "standard error"),
        ("prints", json!("prints_on_stdout"), "no message: `Listening`", "2>/dev/null"),
        ("deaf", json!("too_slow"), "within 5 s", "--wait 600"),
        ("falls", json!("ended"), "exit status: 3", "see what it says"),
        ("future", json!("other_protocol"), "2099-01-01", "newer version"),
        ("refuses", json!("not_found"), "no connection", "curl -i"),
    ] {
        let said = finding(&report, &format!("MCP server {name}")).unwrap();
        assert_eq!((&said["server"]["trouble"], &said["ok"]), (&trouble, &json!(trouble.is_null())), "{said}");
        assert!(said["found"].as_str().unwrap().contains(found), "{said}");
        assert!(said["mend"].as_str().unwrap().contains(mend), "{said}");
    }
}

#[test]
fn offline_starts_nothing() {
    let shop = Shop::with("[mcp.touch]\ncommand = \"touch\"\nargs = [\"started\"]\nstart = \"eager\"\n");
    let (code, report) = doctor(&shop, &["--offline"]);
    assert_eq!((code, &finding(&report, "MCP server touch").unwrap()["found"]), (0, &json!("touch started")));
    assert!(!shop.path().join("started").exists());
    assert_eq!(doctor(&shop, &["--wait", "5"]).0, 1);
    assert!(shop.path().join("started").exists());
}

#[cfg(unix)]
#[test]
fn what_others_may_read_is_named_and_the_command_mends_it() {
    use std::os::unix::fs::PermissionsExt;
    let shop = Shop::with("env = { A_KEY = { file = \"a.key\" } }\n");
    std::fs::write(shop.path().join("a.key"), "zq-planted-4711\n").unwrap();
    assert_eq!(shop.tollgate(&["call", "calculate", r#"{"expression":"1"}"#]).code, 0);
    let open = |path: &str, mode| {
        std::fs::set_permissions(shop.path().join(path), PermissionsExt::from_mode(mode)).unwrap();
    };
    open("a.key", 0o600);
    assert_eq!(doctor(&shop, &[]).0, 0, "{}", doctor(&shop, &[]).1);
    for (path, mode, what) in [
        ("a.key", 0o640, "secret file"),
        (".tollgate", 0o755, "data folder"),
        (".tollgate/keys/install.key", 0o644, "data folder"),
        (".tollgate/audit/segment-000000000001.jsonl", 0o604, "data folder"),
    ] {
        open(path, mode);
        let (code, report) = doctor(&shop, &[]);
        let said = finding(&report, what).unwrap();
        assert_eq!((code, &said["ok"]), (1, &json!(false)), "{path}");
        assert!(said["found"].as_str().unwrap().contains(&format!("mode {mode:o}")), "{said}");
        assert!(!report.to_string().contains("zq-planted"), "{report}");
        mend(said);
        assert_eq!(doctor(&shop, &[]).0, 0, "{path} is mended");
    }
}

/// Does what a finding says.
#[expect(clippy::disallowed_methods, reason = "a person's command is run, and no tool")]
fn mend(finding: &Value) {
    let mend = finding["mend"].as_str().unwrap();
    let done = std::process::Command::new("sh").args(["-c", mend]).status().unwrap();
    assert!(done.success(), "{mend}");
}

#[test]
fn what_died_is_seen_and_the_command_mends_it() {
    let shop = Shop::with(
        "[[tool]]\nname = \"slow\"\ndescription = \"d\"\nrisk = \"read\"\ncommand = [\"sh\", \"-c\", \"echo > started; cat < hold\"]\n",
    );
    let [started, hold] = ["started", "hold"].map(|name| shop.path().join(name));
    for pipe in [&started, &hold] {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    let mut child = shop.start(&["call", "slow"]);
    assert_eq!(std::fs::read_to_string(started).unwrap(), "\n", "it has started");
    let (_, while_it_runs) = doctor(&shop, &[]);
    assert!(finding(&while_it_runs, "processes").is_none(), "{while_it_runs}");
    child.kill().unwrap();
    child.wait().unwrap();
    // Lets what the dead one started end too; open at both ends, a pipe does not wait.
    drop(std::fs::File::options().read(true).write(true).open(hold).unwrap());
    let (code, report) = doctor(&shop, &[]);
    let said = finding(&report, "processes").unwrap();
    assert_eq!((code, &said["mend"]), (1, &json!("tollgate audit settle")), "{said}");
    let listed = shop.tollgate(&["audit", "settle"]).json();
    let (code, report) = doctor(&shop, &[]);
    let said = finding(&report, "unsettled calls").unwrap();
    assert_eq!((code, &said["mend"]), (1, &json!("tollgate audit settle")), "{said}");
    assert!(finding(&report, "processes").is_none());
    let attempt = listed[0]["attempt"].as_str().unwrap();
    assert_eq!(shop.tollgate(&["audit", "settle", attempt, "--as", "failed"]).code, 0);
    assert_eq!(doctor(&shop, &[]).0, 0);
}

#[test]
fn a_server_for_others_wants_keys() {
    let shop = Shop::with("[server]\nbind = \"0.0.0.0:7373\"\n");
    for create in [["keys", "create", "laptop"].as_slice(), &["keys", "create", "alice", "--operator"]] {
        let (code, report) = doctor(&shop, &[]);
        let said = finding(&report, "server keys").unwrap();
        assert_eq!(code, 1, "{said}");
        assert!(said["mend"].as_str().unwrap().starts_with("tollgate keys create NAME"), "{said}");
        assert_eq!(shop.tollgate(create).code, 0);
    }
    assert_eq!(doctor(&shop, &[]).0, 0);
    std::fs::write(shop.path().join("tollgate.toml"), "server = { bind = \"nowhere\" }\n").unwrap();
    assert_eq!(doctor(&shop, &[]).0, 1);
}

#[test]
fn a_disk_that_takes_nothing_and_a_ledger_that_was_changed() {
    let shop = Shop::bare();
    assert_eq!(shop.tollgate(&["call", "calculate", r#"{"expression":"1"}"#]).code, 0);
    let mut lines = shop.ledger();
    lines[1] = lines[1].replace("calculate", "calculatX");
    shop.write_ledger(&lines);
    std::fs::write(shop.path().join(".tollgate/keys/install.key"), "short").unwrap();
    let (code, report) = doctor(&shop, &[]);
    assert_eq!(code, 1);
    assert_eq!(finding(&report, "ledger").unwrap()["mend"], "tollgate audit verify");
    assert!(finding(&report, "install key").unwrap()["found"].as_str().unwrap().contains("5 bytes"));
    let disk = finding(&report, "disk").unwrap();
    assert!(disk["ok"] == true && disk["found"].as_str().unwrap().contains("MiB are free"), "{disk}");
    // Nobody may write there, not even the super-user.
    let sealed = Shop::with("data_dir = \"/proc/tollgate/data\"\n");
    let (code, report) = doctor(&sealed, &[]);
    let disk = finding(&report, "disk").unwrap();
    assert_eq!((code, &disk["ok"]), (1, &json!(false)), "{disk}");
    assert!(disk["found"].as_str().unwrap().contains("`/proc` cannot be written"), "{disk}");
    assert!(!disk["mend"].as_str().unwrap().is_empty());
}

#[test]
fn what_keeps_the_house_from_opening_is_named() {
    for (config, what, part) in [
        ("role = \"nobody\"\n", "configuration", "no role is named `nobody`"),
        ("[[tool]]\nname = \"a b\"\ndescription = \"d\"\ncommand = [\"true\"]\n", "configuration", "a b"),
        ("[mcp.a__b]\ncommand = \"true\"\n", "MCP servers", "can not be the name of a server"),
        ("[mcp.a]\nurl = \"nowhere\"\n", "MCP servers", "nowhere"),
        ("[databases.shop]\nsqlite = \"none.db\"\n", "database shop", "none.db"),
        ("[databases.shop]\nsqlite = \".\"\n", "database shop", "is not a file"),
    ] {
        let shop = Shop::with(config);
        let (code, report) = doctor(&shop, &[]);
        let said = finding(&report, what).unwrap_or_else(|| panic!("{config}: {report}"));
        assert_eq!((code, &said["ok"]), (1, &json!(false)), "{said}");
        assert!(said["found"].as_str().unwrap().contains(part), "{said}");
        assert!(said["mend"].as_str().is_some_and(|mend| !mend.is_empty()), "{said}");
    }
}

#[test]
fn a_person_sees_marks_and_what_mends() {
    let shop = Shop::with("workspace = \"none here\"\n");
    let done = shop.tollgate(&["--format", "text", "doctor"]);
    assert_eq!(done.code, 1);
    assert!(done.stdout.contains("✓ configuration: ") && done.stdout.contains("✗ workspace: "), "{}", done.stdout);
    mend(&finding(&doctor(&shop, &[]).1, "workspace").unwrap().clone());
    assert_eq!(doctor(&shop, &[]).0, 0);
}
