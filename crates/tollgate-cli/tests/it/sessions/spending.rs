//! What a run takes and may take, and what is sent of a long conversation.

use serde_json::{Value, json};
use tollgate_testkit::model::Step;

use super::{House, config};
use crate::shop::{Done, Shop};

fn calculate(id: &str) -> Step {
    Step::calls([(id, "calculate", json!({ "expression": format!("{} + 1", id.len()) }))])
}

fn events(done: &Done, kind: &str) -> Vec<Value> {
    let events = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == kind).collect()
}

impl House {
    /// Writes a configuration of its own: more lines of the model, and more tables.
    fn configure(&self, model: &str, tables: &str) {
        let config = config(&self.server.base_url()).replacen("model = ", &format!("{model}\nmodel = "), 1);
        std::fs::write(self.shop.path().join("tollgate.toml"), format!("{config}\n{tables}\n")).unwrap();
    }
}

/// The scripted server says 20 tokens of input and 10 of output for each turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_says_what_it_took_and_the_answer_stands_alone() {
    let script = || vec![calculate("c1"), Step::calls([("c2", "nope", json!({}))]), Step::text("好的")];
    let house = House::with([script(), script(), script()].concat()).await;
    house.configure("price = { input = 1, output = 2.5, currency = \"CNY\" }", "");
    let done = house.expect(&["--format", "text", "run", "go"], 0).await;
    assert_eq!(done.stdout, "好的\n");
    for part in ["› go", "→ calculate", "✓ calculate", "✗ nope", "3 rounds · 2 calls · 90 tokens · 0.000135 CNY · "]
    {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
    let row = |tool: &str| {
        let line = done.stderr.lines().find(|line| line.trim_start().starts_with(tool)).unwrap();
        line.split_whitespace().take(6).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("tool"), ["tool", "calls", "done", "refused", "failed", "waiting"]);
    assert_eq!((row("calculate"), row("nope")), (words("calculate 1 1 0 0 0"), words("nope 1 0 1 0 0")));
    let quiet = house.expect(&["--quiet", "--format", "text", "run", "go"], 0).await;
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("好的\n", ""));
    let json = house.expect(&["run", "go"], 0).await;
    let spent = events(&json, "spent").pop().unwrap();
    assert_eq!(
        (&spent["usage"], &spent["tokens"]),
        (&json!({"input_tokens": 60, "output_tokens": 30}), &json!("reported"))
    );
    assert_eq!(spent["cost"], json!({"amount": "0.000135", "currency": "CNY"}));
    assert!(spent["elapsed_ms"].is_u64() && spent["calls"][0]["tool"] == "calculate", "{spent}");
    assert!(!json.stderr.contains("rounds"), "{}", json.stderr);
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_where_its_budget_does_and_goes_on() {
    let house = House::with(vec![calculate("c1"), calculate("c2"), Step::text("two")]).await;
    let first =
        house.expect(&["--format", "text", "run", "go", "--session", "s1", "--max-tokens-total", "60"], 3).await;
    for part in ["budget_exceeded", "no answer within 60 tokens", "2 rounds · 2 calls · 60 tokens", "run --resume s1"]
    {
        assert!(first.stderr.contains(part), "{part}: {}", first.stderr);
    }
    assert_eq!(house.server.requests().len(), 2, "nobody was asked for a third time");
    // The configuration says the same, and resuming begins anew.
    house.configure("price = { input = 1000, output = 1000 }", "[run]\ncost_max = 0.06");
    assert_eq!(events(&house.expect(&["run", "--resume", "s1"], 0).await, "answer")[0]["text"], "two");
    assert_eq!(house.received("calculate"), 2, "nothing is done twice");
    house.server.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_cannot_be_meant_are_told() {
    let house = House::with(vec![]).await;
    let unpriced = house.expect(&["run", "go", "--max-cost", "0.5"], 2).await;
    assert!(unpriced.stderr.contains("[models.default.price]"), "{}", unpriced.stderr);
    for args in [
        ["run", "go", "--max-cost", "0"],
        ["run", "go", "--max-cost", "x"],
        ["run", "go", "--max-time", "soon"],
        ["run", "go", "--max-tokens-total", "0"],
        ["run", "go", "--strategy", "dfsdt"],
    ] {
        house.expect(&args, 2).await;
    }
    for (model, tables, part) in [
        ("", "[run]\nstrategy = \"dfsdt\"", "there is react"),
        ("", "[run]\ntime_max = \"soon\"", "run.time_max"),
        ("", "[run]\ncost_max = 0", "run.cost_max"),
        ("", "[run]\nrounds_max = 5000", "run.rounds_max"),
        ("", "[run]\ncompaction = \"some\"", "compaction"),
        ("compact_at_percent = 100", "", "models.default.compact_at_percent"),
        ("context_tokens = 1000\nmax_tokens = 1000", "", "models.default.context_tokens"),
        ("price = { input = 1, output = 2, currency = \"a b\" }", "", "models.default.currency"),
        ("price = { input = -1, output = 2 }", "", "less than 0"),
        ("hosted.screen = { tool = { type = \"computer\" } }", "", "models.default.hosted"),
    ] {
        house.configure(model, tables);
        let done = house.expect(&["tools", "list"], 2).await;
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
    assert!(house.server.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_conversation_is_sent_in_short_and_kept_whole() {
    let read = |at: usize| Step::calls([(format!("c{at}"), "read_file", json!({"path": format!("{at}.txt")}))]);
    let script: Vec<Step> = (0..6).map(read).chain([Step::text("读完了")]).collect();
    let house = House::with([script.clone(), script].concat()).await;
    let text = "仓库里还有四十二个无线键盘。\n".repeat(500);
    for at in 0..6 {
        std::fs::write(house.shop.path().join(format!("{at}.txt")), &text).unwrap();
    }
    // What a server says of 20 tokens corrects what is estimated here: to a quarter, and no further.
    const LEAN: &str = "[roles.lean]\ntools = [\"read_file\"]";
    house.configure("context_tokens = 5000", LEAN);
    let done = house.expect(&["--role", "lean", "run", "read them all", "--session", "s1"], 0).await;
    let told = events(&done, "compacted");
    assert!(!told.is_empty(), "{}", done.stdout);
    for one in &told {
        assert!(one["tokens"].as_u64() <= one["tokens_max"].as_u64() && one["why"].is_null(), "{one}");
        assert_eq!((&one["source"], &one["tokens_max"]), (&json!("estimated"), &json!(4000)));
    }
    let last = house.server.requests().pop().unwrap()["messages"].clone();
    let short = last
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["content"].as_str().unwrap_or("").contains("was left out to save room"));
    assert!(short.count() > 0, "{last}");
    let kept = house.expect(&["sessions", "export", "s1", "--as", "messages"], 0).await.stdout;
    assert_eq!(kept.matches("无线键盘").count(), 6 * 500, "the session keeps all");
    house.configure("context_tokens = 5000", &format!("[run]\ncompaction = \"off\"\n{LEAN}"));
    let whole = house.expect(&["--role", "lean", "run", "read them all"], 0).await;
    assert_eq!(events(&whole, "compacted").len(), 0);
    house.server.assert_clean();
}

/// What a server keeps is never shorter than it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_a_server_keeps_is_sent_anew_when_it_is_shortened() {
    let read = |at: usize| Step::calls([(format!("c{at}"), "read_file", json!({"path": format!("{at}.txt")}))]);
    let house = House::with((0..6).map(read).chain([Step::text("读完了")]).collect()).await;
    for at in 0..6 {
        std::fs::write(house.shop.path().join(format!("{at}.txt")), "仓库里还有四十二个无线键盘。\n".repeat(500))
            .unwrap();
    }
    let lean = "[roles.lean]\ntools = [\"read_file\"]";
    house.configure("context_tokens = 5000\napi = \"responses\"\nstateful = true", lean);
    let done = house.expect(&["--role", "lean", "run", "read them all"], 0).await;
    let shortened = events(&done, "compacted").len();
    let requests = house.server.requests();
    let anew = requests.iter().skip(1).filter(|request| request.get("previous_response_id").is_none()).count();
    assert!(
        shortened > 0 && anew == shortened && anew < requests.len() - 1,
        "{anew} of {}: {}",
        requests.len(),
        done.stdout
    );
    house.server.assert_clean();
}

#[test]
fn the_budget_of_a_replay_is_rounds_and_tokens() {
    let shop = Shop::bare();
    let lines = [
        json!({"tollgate_recording": 1}),
        json!({"event": "run", "prompt": "go", "model": "m"}),
        json!({"event": "turn", "round": 1, "text": "done", "usage": {"input_tokens": 5, "output_tokens": 1}}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(shop.path().join("run.jsonl"), text).unwrap();
    let done = shop.tollgate(&["--format", "text", "run", "--replay", "run.jsonl", "--max-cost", "1"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "done\n"), "{}", done.stderr);
    assert!(done.stderr.contains("1 round · 0 calls · 6 tokens"), "{}", done.stderr);
}
