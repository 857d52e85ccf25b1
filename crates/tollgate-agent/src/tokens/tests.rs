//! What estimates are worth.

use super::*;

fn samples() -> Vec<(&'static str, String)> {
    let rows = (0..300)
        .map(|row| format!(r#"{{"id":{row},"name":"产品{row}","price":{}.25,"sku":"A{}"}}"#, row * 7, row * 331));
    vec![
        ("English", include_str!("../../../../README.md").to_owned()),
        ("Chinese, with words of English", include_str!("../../../../README.zh-CN.md").to_owned()),
        (
            "Chinese",
            "工具层决定一次调用能否发生，让它发生，并记录下来。模型只能提出请求，仓库里还有四十二个无线键盘，订单已于昨天下午发货。"
                .repeat(40),
        ),
        ("Japanese", "ツールの呼び出しが許可されるかどうかを決定し、実行し、記録します。在庫はまだ四十二個あります。".repeat(40)),
        ("code", include_str!("../run.rs").to_owned()),
        ("a schema", include_str!("../../../../docs/config.schema.json").to_owned()),
        ("rows", rows.collect::<Vec<_>>().join("\n")),
    ]
}

/// Both words are said; that they are near each other is what makes an estimate worth anything.
#[tokio::test]
async fn an_estimate_is_near_what_is_counted() {
    let (counting, guessing) = (Tokens::of_model("gpt-4o"), Tokens::of_model("qwen3"));
    assert_eq!(counting.source().as_str(), "estimated", "nothing is loaded before it is needed");
    counting.prepare().await;
    guessing.prepare().await;
    assert_eq!((counting.source().as_str(), guessing.source().as_str()), ("counted", "estimated"));
    for (name, text) in samples() {
        let (counted, estimated) = (counting.in_text(&text), guessing.in_text(&text));
        let percent = estimated * 100 / counted;
        assert!((75..=130).contains(&percent), "{name}: {estimated} estimated, {counted} counted");
    }
}

#[test]
fn nothing_has_no_tokens_and_more_text_never_fewer() {
    assert_eq!(estimate(""), 0);
    let text = include_str!("../../../../README.zh-CN.md");
    let mut before = 0;
    for length in (0..text.chars().count()).step_by(97) {
        let now = estimate(&text.chars().take(length).collect::<String>());
        assert!(now >= before, "{length}");
        before = now;
    }
}

#[test]
fn a_message_counts_all_that_is_sent() {
    let tokens = Tokens::of_model("qwen3");
    let call = ModelCall {
        id: "c1".into(),
        name: "read_file".into(),
        arguments: r#"{"path":"说明.txt"}"#.into(),
        ..ModelCall::default()
    };
    let turn = |text: &str, calls: Vec<ModelCall>, thought: Option<&str>| Message::Assistant {
        text: text.into(),
        calls,
        provider_meta: thought.map(|thought| ("reasoning_content".to_owned(), thought.into())).into_iter().collect(),
        kept: None,
    };
    let bare = tokens.in_message(&turn("", Vec::new(), None));
    let with_call = tokens.in_message(&turn("", vec![call.clone()], None));
    let with_both = tokens.in_message(&turn("", vec![call], Some("a long thought about the file")));
    assert!(bare < with_call && with_call < with_both, "{bare} {with_call} {with_both}");
}
