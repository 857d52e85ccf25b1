//! Signed answers over real HTTP: what each refusal says, and that it changes nothing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use tollgate::limits::ANSWER_BYTES_MAX;
use tollgate::visible;
use tollgate_server::keys::{self, KeyKind};

use crate::world::{World, read};

const CONFIG: &str = r#"
[approvals.webhook]
url = "http://127.0.0.1:9/hook"
secret = { command = ["echo", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="] }
more_secrets = [{ command = ["echo", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] }]

[tools.wire]
security = { approvers = 2 }

[[tool]]
name = "count"
description = "Counts what is in stock."
http = { url = "http://127.0.0.1:9/count" }
risk = "read"
on_error = { default = "human" }
input_schema = { type = "object", properties = { text = { type = "string" } } }
output_schema = { type = "object", properties = { count = { type = "integer" } }, required = ["count"] }
"#;
const OLD: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// Signs without the code that is tested.
fn sign(secret: &str, id: &str, timestamp: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(secret).unwrap()).unwrap();
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// One answer, as a test changes it before it is signed, and after.
struct Sent {
    path: String,
    id: String,
    timestamp: i64,
    secret: &'static str,
    body: Value,
    /// What is signed in its place.
    signed_body: Option<String>,
    drops: Option<&'static str>,
}

struct Case {
    world: World,
    teller: keys::NewKey,
}

impl Case {
    async fn new() -> Self {
        let world = World::configured(CONFIG).await;
        let clock = world.house.clock();
        let teller =
            keys::create(world.house.data_dir(), "teller", KeyKind::Client, Some("teller"), &*clock).await.unwrap();
        Self { world, teller }
    }

    async fn say(&self, tool: &str, text: &str) -> Value {
        let body = json!({ "tool": tool, "arguments": { "text": text } });
        let request = self.world.bare(Method::POST, "/api/v1/calls").bearer_auth(self.teller.secret.expose());
        read(request.json(&body).send().await.unwrap()).await.1
    }

    /// A call that waits: the question as an operator sees it.
    async fn asked(&self, tool: &str, text: &str) -> Value {
        let waiting = self.say(tool, text).await;
        assert_eq!(waiting["status"], "waiting", "{waiting}");
        self.question(waiting["waiting"]["id"].as_str().unwrap()).await
    }

    async fn question(&self, id: &str) -> Value {
        let (status, question) =
            read(self.world.operator(Method::GET, &format!("/api/v1/approvals/{id}")).send().await.unwrap()).await;
        assert_eq!(status, 200, "{question}");
        question
    }

    fn sent(&self, question: &Value, message: &str, by: &str) -> Sent {
        let id = question["id"].as_str().unwrap();
        Sent {
            path: format!("/api/v1/approvals/{id}/answer"),
            id: message.into(),
            timestamp: self.world.house.clock().now().as_second(),
            secret: OLD,
            body: json!({ "type": "approval.answered", "data": {
                "id": id, "digest": question["digest"], "decision": "approve", "by": by,
            } }),
            signed_body: None,
            drops: None,
        }
    }

    async fn send(&self, sent: &Sent) -> (u16, Value) {
        let body = sent.body.to_string();
        let signature = sign(sent.secret, &sent.id, sent.timestamp, sent.signed_body.as_ref().unwrap_or(&body));
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("webhook-id", sent.id.clone()),
            ("webhook-timestamp", sent.timestamp.to_string()),
            ("webhook-signature", signature),
        ];
        let kept = headers.into_iter().filter(|(name, _)| sent.drops != Some(name));
        let request = kept.fold(self.world.bare(Method::POST, &sent.path), |it, (name, value)| it.header(name, value));
        read(request.body(body).send().await.unwrap()).await
    }
}

#[tokio::test]
async fn a_signed_yes_lets_the_call_go_on_once() {
    let case = Case::new().await;
    let question = case.asked("say", "hello").await;
    let mut sent = case.sent(&question, "m1", "李雷");
    sent.body["data"]["reason"] = json!("已核对");
    let (status, answered) = case.send(&sent).await;
    assert_eq!((status, &answered["status"], &answered["decided_by"]), (200, &json!("approved"), &json!("李雷")));
    assert_eq!(case.say("say", "hello").await["status"], "done");
    assert_eq!(case.say("say", "hello").await["status"], "waiting", "a yes is for one call");

    let records = case.world.operator(Method::GET, "/api/v1/audit?limit=50").send().await.unwrap();
    let records = read(records).await.1["records"].as_array().unwrap().clone();
    let notes: Vec<_> = records.iter().filter(|it| it["event"] == "approved").map(|it| &it["note"]).collect();
    assert_eq!(notes, ["by 李雷: 已核对 (signed message m1)"]);
    case.world.end().await;
}

#[tokio::test]
async fn a_signed_no_is_told_and_the_new_secret_counts_as_the_old_one() {
    let case = Case::new().await;
    let question = case.asked("say", "hello").await;
    let mut sent = Sent { secret: NEW, ..case.sent(&question, "m1", "alice") };
    sent.body["data"]["decision"] = json!("reject");
    sent.body["data"]["reason"] = json!("冻结期");
    assert_eq!(case.send(&sent).await.0, 200);
    let refused = case.say("say", "hello").await;
    assert_eq!(refused["error"]["error"], "approval_rejected");
    assert!(refused["error"]["message"].as_str().unwrap().contains("alice said no: 冻结期"), "{refused}");
    case.world.end().await;
}

type Change = Box<dyn Fn(&mut Sent)>;

fn drops(header: &'static str) -> Change {
    Box::new(move |sent| sent.drops = Some(header))
}

fn later(seconds: i64) -> Change {
    Box::new(move |sent| sent.timestamp += seconds)
}

fn data(key: &'static str, value: Value) -> Change {
    Box::new(move |sent| sent.body["data"][key] = value.clone())
}

fn to_path_of(id: &str) -> Change {
    let path = format!("/api/v1/approvals/{id}/answer");
    Box::new(move |sent| sent.path.clone_from(&path))
}

fn to(id: &str) -> Change {
    let (path, data) = (to_path_of(id), data("id", json!(id)));
    Box::new(move |sent| {
        path(sent);
        data(sent);
    })
}

/// What may be amiss with an answer to `id`, where there is another question too.
fn amiss(id: &str, other: &str) -> Vec<(&'static str, Change, u16, &'static str)> {
    let end: String = id.chars().skip(24).collect();
    vec![
        ("no id", drops("webhook-id"), 401, "unsigned"),
        ("no time", drops("webhook-timestamp"), 401, "unsigned"),
        ("no signature", drops("webhook-signature"), 401, "unsigned"),
        ("another secret", Box::new(|sent| sent.secret = "c29tZW9uZSBlbHNlJ3Mgc2VjcmV0IQ=="), 403, "wrong_signature"),
        ("a changed body", Box::new(|sent| sent.signed_body = Some("{}".into())), 403, "wrong_signature"),
        ("too old", later(-400), 412, "stale"),
        ("of the future", later(400), 412, "stale"),
        ("no JSON", drops("content-type"), 415, "unsupported_media_type"),
        ("another question's path", to_path_of(other), 422, "mismatch"),
        ("another question's digest", to(other), 422, "mismatch"),
        ("other arguments", data("digest", json!("0".repeat(64))), 422, "mismatch"),
        ("nobody's question", to("0198c7a0-0000-7000-8000-000000000001"), 404, "not_found"),
        ("a part of the id", to(&end), 404, "not_found"),
        ("the asker itself", data("by", json!("teller")), 403, "own_call"),
        ("the asker in capitals", data("by", json!("TELLER")), 403, "own_call"),
        ("nobody", data("by", json!(" ")), 400, "bad_request"),
        ("a hidden name", data("by", json!("al\u{200b}ice")), 400, "bad_request"),
        ("a third answer", data("decision", json!("maybe")), 400, "bad_request"),
        ("more than there is", data("for_session", json!(true)), 400, "bad_request"),
        ("a question of ours", Box::new(|sent| sent.body["type"] = json!("approval.requested")), 400, "bad_request"),
        ("too long", data("reason", json!("x".repeat(ANSWER_BYTES_MAX))), 413, "too_large"),
    ]
}

/// Each refusal has its status and its word, and leaves the question as it was.
#[tokio::test]
async fn what_is_amiss_is_said_and_changes_nothing() {
    let case = Case::new().await;
    let question = case.asked("say", "hello").await;
    let other = case.asked("say", "something else").await;
    let (id, other_id) = (question["id"].as_str().unwrap(), other["id"].as_str().unwrap());
    for (name, change, status, word) in amiss(id, other_id) {
        let mut sent = case.sent(&question, "m1", "alice");
        change(&mut sent);
        let (found, problem) = case.send(&sent).await;
        assert_eq!((found, problem["error"].as_str()), (status, Some(word)), "{name}: {problem}");
        assert!(!problem["message"].as_str().unwrap().is_empty() && problem["ok"] == json!(false), "{name}");
        for id in [id, other_id] {
            assert_eq!(case.question(id).await["status"], "pending", "{name}");
        }
        assert_eq!(case.say("say", "hello").await["status"], "waiting", "{name}");
    }
    let sent = case.sent(&question, "m1", "alice");
    assert_eq!(case.send(&sent).await.0, 200, "none of these used the message up");
    case.world.end().await;
}

#[tokio::test]
async fn a_header_that_is_there_twice_is_none() {
    let case = Case::new().await;
    let question = case.asked("say", "hello").await;
    let sent = case.sent(&question, "m1", "alice");
    let header = case.world.bare(Method::POST, &sent.path);
    let signature = sign(OLD, "m1", sent.timestamp, &sent.body.to_string());
    let twice = header
        .header("content-type", "application/json")
        .header("webhook-id", "m1")
        .header("webhook-timestamp", sent.timestamp)
        .header("webhook-signature", &signature)
        .header("webhook-signature", &signature)
        .body(sent.body.to_string());
    assert_eq!(read(twice.send().await.unwrap()).await.1["error"], "unsigned", "a header is there once");
    case.world.end().await;
}

#[tokio::test]
async fn a_message_counts_once_and_a_question_is_answered_once() {
    let case = Case::new().await;
    let question = case.asked("say", "hello").await;
    let sent = case.sent(&question, "m1", "alice");
    assert_eq!(case.send(&sent).await.0, 200);
    let (status, problem) = case.send(&sent).await;
    assert_eq!((status, &problem["error"]), (409, &json!("replayed")), "{problem}");
    let later = Sent { timestamp: sent.timestamp + 60, ..case.sent(&question, "m1", "alice") };
    assert_eq!(case.send(&later).await.1["error"], "replayed", "signed anew it is the same message");
    let again = case.sent(&question, "m2", "alice");
    let (status, problem) = case.send(&again).await;
    assert_eq!((status, &problem["error"]), (409, &json!("conflict")), "{problem}");
    assert_eq!(case.say("say", "hello").await["status"], "done");
    assert_eq!(case.send(&case.sent(&question, "m3", "alice")).await.1["error"], "conflict", "used up");
    case.world.end().await;
}

#[tokio::test]
async fn of_answers_at_once_one_counts() {
    let case = Case::new().await;
    let question = case.asked("say", "hello").await;
    let all: Vec<_> = (0..8).map(|number| case.sent(&question, &format!("m{number}"), "alice")).collect();
    let answers = futures_util::future::join_all(all.iter().map(|sent| case.send(sent))).await;
    let taken = answers.iter().filter(|(status, _)| *status == 200).count();
    assert_eq!(taken, 1, "{answers:?}");
    assert!(answers.iter().all(|(status, _)| matches!(status, 200 | 409)), "{answers:?}");
    assert_eq!(case.say("say", "hello").await["status"], "done");
    assert_eq!(case.say("say", "hello").await["status"], "waiting");

    let question = case.asked("say", "again").await;
    let one = case.sent(&question, "n", "alice");
    let answers = futures_util::future::join_all((0..8).map(|_| case.send(&one))).await;
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 1, "{answers:?}");
    case.world.end().await;
}

#[tokio::test]
async fn two_persons_are_needed_and_neither_asks() {
    let case = Case::new().await;
    let question = case.asked("wire", "50").await;
    assert_eq!(question["approvers"], 2);
    let say_yes = async |message: &str, by: &str| {
        let (status, answer) = case.send(&case.sent(&question, message, by)).await;
        let word = if status == 200 { &answer["status"] } else { &answer["error"] };
        (status, word.as_str().unwrap().to_owned())
    };
    assert_eq!(say_yes("m1", "alice").await, (200, "pending".into()));
    assert_eq!(case.say("wire", "50").await["status"], "waiting", "one is not enough");
    assert_eq!(say_yes("m2", "Alice ").await, (409, "conflict".into()));
    assert_eq!(say_yes("m3", "teller").await, (403, "own_call".into()));
    let operator =
        case.world.operator(Method::POST, &format!("/api/v1/approvals/{}/approve", question["id"].as_str().unwrap()));
    let (status, answered) = read(operator.send().await.unwrap()).await;
    assert_eq!((status, &answered["status"]), (200, &json!("approved")), "the other may come by the operator's key");
    assert_eq!(case.say("wire", "50").await["status"], "done");
    case.world.end().await;
}

#[tokio::test]
async fn without_a_webhook_no_signature_counts() {
    let world = World::new().await;
    let (status, problem) =
        read(world.bare(Method::POST, "/api/v1/approvals/x/answer").json(&json!({})).send().await.unwrap()).await;
    assert_eq!((status, problem["error"].as_str()), (404, Some("not_found")), "{problem}");
    world.end().await;
}

/// The JSON of a question is safe to look at, complete, and the same value.
#[tokio::test]
async fn a_question_hides_nothing_in_json() {
    let case = Case::new().await;
    let long = format!("{}\u{202e}\u{9b}31m\u{e0041}; rm -rf /", "北京x".repeat(333_334));
    assert!(long.chars().count() > 1_000_000);
    let question = case.asked("say", &long).await;
    let id = question["id"].as_str().unwrap();
    for path in [format!("/api/v1/approvals/{id}"), "/api/v1/approvals".into()] {
        let text = case.world.operator(Method::GET, &path).send().await.unwrap().text().await.unwrap();
        assert!(!text.chars().any(visible::is_hidden), "{path}");
        assert!(text.contains("北京x") && text.contains(r"\u202e\u009b31m\udb40\udc41; rm -rf /"), "{path}");
    }
    assert_eq!(question["arguments"]["text"], long);
    case.world.end().await;
}

/// A human's result comes by the same way as a human's yes.
#[tokio::test]
async fn a_signed_answer_brings_the_result_that_is_wanted() {
    let case = Case::new().await;
    let question = case.asked("count", "keyboards").await;
    assert_eq!(question["kind"], "intervention");
    let with = |message: &str, result: Value| {
        let mut sent = case.sent(&question, message, "李雷");
        sent.body["data"]["result"] = result;
        sent
    };
    let (status, problem) = case.send(&case.sent(&question, "m1", "李雷")).await;
    assert_eq!((status, &problem["error"]), (409, &json!("conflict")), "it wants a result: {problem}");
    let (status, problem) = case.send(&with("m1", json!({"count": "many"}))).await;
    assert_eq!((status, &problem["error"]), (400, &json!("bad_request")), "{problem}");
    let (status, answered) = case.send(&with("m1", json!({"count": 12}))).await;
    assert_eq!((status, &answered["status"]), (200, &json!("approved")), "{answered}");
    let outcome = case.say("count", "keyboards").await;
    assert_eq!((&outcome["status"], &outcome["result"]["structured"]), (&json!("done"), &json!({"count": 12})));
    let plain = case.asked("say", "hello").await;
    let mut sent = case.sent(&plain, "m2", "李雷");
    sent.body["data"]["result"] = json!(1);
    assert_eq!(case.send(&sent).await.1["error"], "conflict", "it wants a yes or a no");
    case.world.end().await;
}
