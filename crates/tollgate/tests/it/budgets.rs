//! `[[budget]]` and `cost` in `tollgate.toml`.

use serde_json::json;
use tollgate::config::Loaded;
use tollgate::{Call, Caller, Code, Error, Surface, Tollgate};

async fn house(text: &str) -> (tempfile::TempDir, Result<Tollgate, Error>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.toml");
    std::fs::write(&path, text).unwrap();
    let built = match Loaded::read(&path, folder.path()) {
        Ok(loaded) => Tollgate::builder().config(loaded).build().await,
        Err(error) => Err(error.into()),
    };
    (folder, built)
}

const PAY: &str = "[[tool]]\nname = \"pay\"\ndescription = \"d\"\ncommand = [\"true\"]\nrisk = \"read\"\n";

#[tokio::test]
async fn every_fault_has_its_place_and_what_would_be_right() {
    let with_pay = |line: &str| format!("{PAY}{line}\n");
    let budget = |line: &str| format!("[[budget]]\nunits = 5\nper = \"day\"\n{line}\n");
    let cases: Vec<(String, usize, &str, &str)> = vec![
        ("[[budget]]\nunits = 5\n".into(), 1, "missing field `per`", ""),
        ("[[budget]]\nper = \"day\"\n".into(), 1, "missing field `units`", ""),
        ("[[budget]]\nper = \"day\"\nunits = 0\n".into(), 3, "a budget of 0 lets nothing through", "roles"),
        ("[[budget]]\nper = \"day\"\nunits = -1\n".into(), 3, "`-1` is less than 0", ""),
        ("[[budget]]\nper = \"day\"\nunits = 1e13\n".into(), 3, "more than 1000000000000 units", ""),
        ("[[budget]]\nper = \"day\"\nunits = 9223372036854775807\n".into(), 3, "more than 1000000000000 units", ""),
        ("[[budget]]\nper = \"day\"\nunits = 0.0000001\n".into(), 3, "more than 6 digits after the point", ""),
        ("[[budget]]\nper = \"day\"\nunits = nan\n".into(), 3, "not a plain decimal number", ""),
        ("[[budget]]\nper = \"day\"\nunits = true\n".into(), 3, "expected an amount of units", ""),
        ("[[budget]]\nunits = 5\nper = \"week\"\n".into(), 3, "unknown value `week`", ""),
        ("[[budget]]\nunits = 5\nper = [\"day\", 1]\n".into(), 3, "per", ""),
        (
            "[[budget]]\nunits = 5\nper = [\"caller\"]\n".into(),
            3,
            "neither a session nor a day",
            "per = [\"caller\", \"day\"]",
        ),
        ("[[budget]]\nunits = 5\nper = []\n".into(), 3, "neither a session nor a day", "day"),
        (budget("unit = 6"), 4, "unknown field `unit`", "did you mean `units`?"),
        (budget("tools = [\"[\"]"), 4, "`[` is not a pattern", "use `*`"),
        (budget("roles = [\"boss\"]"), 4, "no role is named `boss`", "there is developer, reader"),
        (budget("time_zone = \"Mars/Olympus\""), 4, "no time zone is named `Mars/Olympus`", "+08:00"),
        (budget("time_zone = \"\""), 4, "no time zone is named ``", "+08:00"),
        (format!("{}{}", budget(""), budget("tools = [\"*\", \"*\"]")), 5, "the same calls as budget 1", "keep one"),
        (with_pay("cost = -1"), 6, "`-1` is less than 0", "docs/config.md"),
        (with_pay("cost = \"ten\""), 6, "not a plain decimal number", "docs/config.md"),
        (with_pay("cost = { argument = \"amount\" }"), 6, "not a JSON Pointer", "docs/config.md"),
        (with_pay("cost = { argument = \"/amount\", per = 2 }"), 6, "unknown field `per`", "did you mean `per_unit`?"),
        (with_pay("cost = { per_unit = 2 }"), 6, "neither `argument` nor `result`", "docs/config.md"),
        ("[tools.\"read_*\"]\ncost = -0.5\n".into(), 1, "less than 0", "docs/config.md"),
        (
            "[mcp.a]\ncommand = \"c\"\n[mcp.a.tools.\"*\"]\ncost = 1e300\n".into(),
            4,
            "more than 1000000000000 units",
            "",
        ),
    ];
    for (text, line, part, right) in cases {
        let (_folder, built) = house(&text).await;
        let Err(Error::Config(error)) = built else { panic!("{text:?} was taken") };
        let shown = error.to_string();
        assert_eq!(error.line, line, "{text:?}: {shown}");
        assert!(shown.contains(part), "{text:?}: {shown}");
        assert!(error.hint.as_deref().unwrap_or_default().contains(right), "{text:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_glob_that_fits_nothing_is_named() {
    let text =
        format!("{PAY}[[budget]]\nunits = 5\nper = \"day\"\ntools = [\"pay\", \"refund_*\", \"mcp__bank__*\"]\n");
    let (_folder, built) = house(&text).await;
    let warnings = built.unwrap().warnings().join("\n");
    assert!(warnings.contains("`refund_*` of budget 1 fits no tool"), "{warnings}");
    assert!(warnings.contains("`mcp__bank__*`") && !warnings.contains("`pay`"), "{warnings}");
}

#[tokio::test]
async fn costs_are_said_of_a_tool_and_changed_by_a_glob() {
    let text = format!(
        "{PAY}cost = {{ argument = \"/amount\", per_unit = 0.5 }}\n\
         [tools.\"read_*\"]\ncost = 0.25\n[tools.calculate]\ncost = 0\n\
         [[budget]]\nunits = 10.5\nper = [\"day\", \"caller\"]\ntime_zone = \"-03:30\"\n\
         [[budget]]\nunits = \"0.3\"\nper = \"session\"\ntools = [\"read_file\"]\n"
    );
    let (_folder, built) = house(&text).await;
    let house = built.unwrap();
    let cost = |name: &str| house.gate().catalog().get(name).unwrap().definition.cost_of(&json!({ "amount": 5 }));
    let costs = ["pay", "read_file", "calculate", "list_files"].map(|name| cost(name).unwrap().to_string());
    assert_eq!(costs, ["2.5", "0.25", "0", "1"]);

    let caller = Caller::new("bob", "developer", Surface::Library).with_session("s");
    let ask = |name: &str, arguments| house.call(&caller, Call::tool(name, arguments));
    assert_eq!(ask("pay", json!({ "amount": 20 })).await.code(), None);
    let refused = ask("pay", json!({ "amount": 2 })).await;
    assert_eq!(refused.code(), Some(Code::BudgetExceeded));
    assert!(refused.model_text().contains("0.5 of 10.5 are left"), "{}", refused.model_text());
    assert!(refused.model_text().contains("00:00:00-03:30"), "{}", refused.model_text());
    assert_eq!(ask("calculate", json!({ "expression": "1+1" })).await.code(), None);
    let reports = house.gate().budgets(&caller, "read_file").await.unwrap();
    let left: Vec<String> = reports.iter().map(|report| report.left.to_string()).collect();
    assert_eq!(left, ["0.5", "0.3"]);
}
