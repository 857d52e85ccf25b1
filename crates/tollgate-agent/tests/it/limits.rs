//! What a run may spend, what of a long conversation is sent, and how an answer is looked for.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_agent::{
    Agent, Compacted, Compaction, Context, Event, Options, Price, Round, RunBudget, RunError, Search, Spent, Strategy,
    TokenSource, strategy,
};
use tollgate_types::{BoxFuture, CancellationToken, Code, Units};
use tollgate_wire::{Message, Turn};

use crate::door::{Shelf, caller};
use crate::server::{Reply, Server, asks, says, says_nothing_of_tokens};

async fn ask(agent: &mut Agent, prompt: &str) -> (Result<String, RunError>, Vec<Event>) {
    let mut events = Vec::new();
    let result = agent.ask(prompt, &CancellationToken::new(), &mut |event| events.push(event.clone())).await;
    (result.map(|answer| answer.text), events)
}

fn agent(server: &Server, options: Options) -> Agent {
    Agent::new(Shelf::new(), caller(), server.model(), options)
}

fn spent(events: &[Event]) -> Vec<Spent> {
    let spent = |event: &Event| match event {
        Event::Spent(spent) => Some(spent.clone()),
        _ => None,
    };
    events.iter().filter_map(spent).collect()
}

fn units(text: &str) -> Units {
    text.parse().unwrap()
}

/// Each turn of the server takes 10 tokens of input and 2 of output.
#[tokio::test]
async fn a_budget_ends_the_run_before_the_model_is_asked_again() {
    let price = Price { input: units("1000"), cached_input: None, output: units("5000"), currency: "CNY".into() };
    let budget = |tokens_max, cost_max| RunBudget { tokens_max, cost_max, time_max: None };
    let cases = [
        (
            budget(Some(24), None),
            "no answer within 24 tokens (tokens_max); spent: 2 rounds · 2 calls · 24 tokens",
            "--max-tokens-total",
        ),
        (budget(None, Some(units("0.04"))), "no answer for 0.04 CNY (cost_max); spent: 2 rounds", "--max-cost"),
    ];
    for (budget, message, option) in cases {
        let round = |id: &str| asks(&[(id, "echo", id)]);
        let server = Server::start(vec![round("1"), round("2"), says("late")]);
        let mut agent = agent(&server, Options { budget, price: Some(price.clone()), ..Options::default() });
        let (result, events) = ask(&mut agent, "go").await;
        let error = result.unwrap_err();
        assert_eq!(error.code(), Code::BudgetExceeded);
        assert!(error.to_string().starts_with(message), "{error}");
        assert!(error.hint().unwrap().contains(option), "{:?}", error.hint());
        assert_eq!(server.asked().len(), 2, "nobody is asked for a third time");
        assert_eq!(agent.history().len(), 5, "prompt, two turns, two results");
        let cost = spent(&events).pop().unwrap().cost.unwrap();
        assert_eq!((cost.amount, cost.currency.as_str()), (units("0.04"), "CNY"));
        // The next prompt has a budget of its own.
        assert_eq!(ask(&mut agent, "and now?").await.0.unwrap(), "late");
    }
}

#[tokio::test]
async fn time_ends_a_request_that_hangs_and_the_conversation_goes_on() {
    let server = Server::start(vec![Reply::Hang(String::new()), says("hi")]);
    let budget = RunBudget { time_max: Some(Duration::from_millis(40)), ..RunBudget::default() };
    let mut short = agent(&server, Options { budget, ..Options::default() });
    let error = ask(&mut short, "go").await.0.unwrap_err();
    assert!(error.code() == Code::BudgetExceeded && error.to_string().contains("within 40 ms (time_max)"), "{error}");
    assert!(short.history().is_empty(), "a prompt to which nothing came is taken back");
}

#[tokio::test]
async fn what_a_run_spends_is_told_round_by_round() {
    let calls = [("a", "echo", "1"), ("b", "echo", "2"), ("c", "nope", "{}")];
    let server = Server::start(vec![asks(&calls), says("done")]);
    let (_, events) = ask(&mut agent(&server, Options::default()), "go").await;
    let told = spent(&events);
    let last = told.last().unwrap();
    assert_eq!((told.len(), last.rounds, last.total_calls(), last.total_tokens()), (4, 2, 3, 24));
    assert_eq!(last.tokens, TokenSource::Reported);
    let rows: Vec<_> = last.calls.iter().map(|row| (row.tool.as_str(), row.count, row.done, row.refused)).collect();
    assert_eq!(rows, [("echo", 2, 2, 0), ("nope", 1, 0, 1)]);
    assert!(matches!(events.as_slice(), [.., Event::Spent(_), Event::Answer { .. }]), "said before the end");
}

#[tokio::test]
async fn a_server_that_says_nothing_of_tokens_is_estimated() {
    let server = Server::start(vec![says_nothing_of_tokens("还有四十二个")]);
    let (_, events) = ask(&mut agent(&server, Options::default()), "库存还有多少？").await;
    let last = spent(&events).pop().unwrap();
    assert_eq!(last.tokens, TokenSource::Estimated);
    assert!(last.usage.input_tokens > 0 && last.usage.output_tokens > 0, "{last:?}");
}

#[tokio::test]
async fn what_is_too_long_is_not_sent_and_stays_in_the_conversation() {
    let long = "word ".repeat(400);
    let calls: Vec<Reply> = (0..8).map(|at| asks(&[(&format!("c{at}"), "echo", &format!("{at} {long}"))])).collect();
    let server = Server::start(calls.into_iter().chain([says("done")]).collect());
    let context = Some(Context { tokens_max: 700, compaction: Compaction::Turns });
    let mut agent = agent(&server, Options { context, ..Options::default() });
    let (answer, events) = ask(&mut agent, "go").await;
    assert_eq!(answer.unwrap(), "done");
    let told: Vec<Compacted> = events
        .iter()
        .filter_map(|event| match event {
            Event::Compacted(compacted) => Some(compacted.clone()),
            _ => None,
        })
        .collect();
    assert!(!told.is_empty() && told.iter().all(|one| one.tokens <= one.tokens_max && one.why.is_none()), "{told:?}");
    assert_eq!(told[0].source, TokenSource::Estimated);
    assert_eq!(json!(Event::Compacted(told[0].clone()))["type"], "compacted");
    assert_eq!(agent.history().len(), 18, "prompt, eight turns with their results, the answer");
    let long_results =
        |message: &&Message| matches!(message, Message::Tool { content, .. } if content.text().contains(&long));
    assert_eq!(agent.history().iter().filter(long_results).count(), 8, "nothing is forgotten");
    for (_, body) in server.asked() {
        let messages = body["messages"].as_array().unwrap().clone();
        let called = messages.iter().flat_map(|m| m["tool_calls"].as_array().cloned().unwrap_or_default());
        let called: Vec<Value> = called.map(|call| call["id"].clone()).collect();
        let answered = messages.iter().filter(|m| m["role"] == "tool").map(|m| m["tool_call_id"].clone());
        assert_eq!(called, answered.collect::<Vec<_>>(), "each call has its result");
    }
    let last = server.asked().pop().unwrap().1["messages"].clone();
    assert!(last[0]["content"].as_str().unwrap().contains("earlier turns were left out here"), "{last}");
}

/// Two tries from the same place: what DFSDT and its like need of the rounds.
struct TwoTries;

impl Strategy for TwoTries {
    fn name(&self) -> &'static str {
        "two_tries"
    }

    fn search<'a, 's: 'a>(&'a self, search: &'a mut Search<'s>) -> BoxFuture<'a, Result<Turn, RunError>> {
        Box::pin(async move {
            let start = search.mark();
            while let Round::Called(calls) = search.round().await? {
                if calls.iter().any(|(_, result)| result.text.contains("dead end")) {
                    search.back_to(start)?;
                    break;
                }
            }
            loop {
                if let Round::Answered(turn) = search.round().await? {
                    return Ok(*turn);
                }
            }
        })
    }
}

#[tokio::test]
async fn another_strategy_goes_back_over_the_same_rounds() {
    let script = vec![
        asks(&[("a", "echo", "fine")]),
        asks(&[("b", "echo", "dead end")]),
        asks(&[("c", "echo", "way")]),
        says("there"),
    ];
    let server = Server::start(script);
    let mut agent = agent(&server, Options::default()).with_strategy(Arc::new(TwoTries));
    assert_eq!(ask(&mut agent, "go").await.0.unwrap(), "there");
    let lengths: Vec<usize> =
        server.asked().iter().map(|(_, body)| body["messages"].as_array().unwrap().len()).collect();
    assert_eq!(lengths, [1, 3, 1, 3], "the first try is not sent with the second");
    let script = (0..20).map(|at| asks(&[("a", "echo", &at.to_string())])).collect();
    let endless = Server::start(script);
    let mut agent =
        Agent::new(Shelf::new(), caller(), endless.model(), Options { rounds_max: 3, ..Options::default() })
            .with_strategy(Arc::new(TwoTries));
    assert_eq!(
        ask(&mut agent, "go").await.0.unwrap_err().code(),
        Code::BudgetExceeded,
        "no strategy is without limits"
    );
    assert_eq!(endless.asked().len(), 3);
    assert!(strategy("react").is_some_and(|react| react.name() == "react") && strategy("dfsdt").is_none());
}
