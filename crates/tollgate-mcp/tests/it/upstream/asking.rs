//! Servers that ask the client that their call is for, in the middle of it or by its result.

use serde_json::value::RawValue;
use tollgate_mcp::upstream::Asks;
use tollgate_testkit::RecordingDoor;
use tollgate_types::{
    BoxFuture, Caller, ClientCapabilities, ClientCapability, Code, Cx, Door, End, LogLevel, LogMessage, Peer,
    PeerError, PeerQuestion, Surface,
};

use super::*;

/// A client that answers everything alike, and notes what it was asked and told.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) asked: Mutex<Vec<PeerQuestion>>,
    told: Mutex<Vec<LogMessage>>,
    never: bool,
}

impl Peer for Client {
    fn ask(&self, question: PeerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, PeerError>> {
        let answer = match question.kind {
            ClientCapability::Elicitation => r#"{"action":"accept","content":{"n":12345678901234567890123}}"#,
            ClientCapability::Sampling => return Box::pin(std::future::ready(Err(PeerError::Unanswered))),
            ClientCapability::Roots => r#"{"roots":[]}"#,
        };
        self.asked.lock().unwrap().push(question);
        if self.never {
            return Box::pin(std::future::pending());
        }
        Box::pin(async { Ok(RawValue::from_string(answer.to_owned()).unwrap()) })
    }

    fn log(&self, message: LogMessage) {
        self.told.lock().unwrap().push(message);
    }
}

/// The way through which a server asks: to the entries of the server, as the gate would.
fn door(upstreams: &Upstreams) -> Arc<dyn Door> {
    let mut door = RecordingDoor::new();
    for entry in upstreams.entries_of("x") {
        door = door.on(entry.definition(), move |call, arguments| {
            let entry = Arc::clone(&entry);
            Box::pin(async move {
                let cx = Cx { client: call.client, peer: call.peer, kind: call.kind, ..tollgate_testkit::cx("/") };
                match entry.call(arguments, cx).await {
                    Ok(output) => End::Done(tollgate_types::CallResult {
                        structured: output.structured,
                        raw: output.raw,
                        ..tollgate_types::CallResult::default()
                    }),
                    Err(error) => End::from_error(error.into()),
                }
            })
        });
    }
    Arc::new(door)
}

pub(super) fn cx(house: &House, client: &Arc<Client>) -> Cx {
    let offers = ClientCapabilities { elicitation: true, roots: true, ..ClientCapabilities::default() };
    let peer: Arc<dyn Peer> = Arc::<Client>::clone(client);
    Cx { deadline: NEVER, client: offers, peer: Some(peer), door: door(&house.upstreams), ..tollgate_testkit::cx("/") }
}

async fn ask(house: &House, cx: Cx, what: &str) -> Result<String, ToolError> {
    let tool = find(&house.upstreams, "mcp__x__echo");
    let output = tokio::time::timeout(NEVER, tool.call(json!({ "do": what }), cx)).await.unwrap()?;
    Ok(text(&output).to_owned())
}

#[tokio::test]
async fn an_old_server_asks_in_the_middle_of_a_call() {
    let (house, client) = (House::with(&["plain"]).await, Arc::new(Client::default()));
    let reply = ask(&house, cx(&house, &client), "elicit").await.unwrap();
    assert!(reply.contains(r#""id": "mine""#) && reply.contains("12345678901234567890123"), "{reply}");
    let asked = client.asked.lock().unwrap();
    assert_eq!((asked[0].kind, &asked[0].key), (ClientCapability::Elicitation, &None));
    assert!(asked[0].params.get().contains("1000000000000000000000000000000"), "{:?}", asked[0]);
    let told = LogMessage { level: LogLevel::Warning, logger: None, data: json!({ "n": 1 }) };
    assert_eq!(*client.told.lock().unwrap(), [told]);
    let hello = house.log().into_iter().find(|message| message["method"] == "initialize").unwrap();
    assert_eq!(hello["params"]["capabilities"]["elicitation"], json!({ "form": {}, "url": {} }));
}

#[tokio::test]
async fn without_a_client_an_old_server_is_told_that_there_is_none() {
    let house = House::with(&["plain"]).await;
    let alone = Cx { peer: None, ..cx(&house, &Arc::default()) };
    let reply = ask(&house, alone, "elicit").await.unwrap();
    assert!(reply.contains("-32601") && reply.contains("does not offer elicitation"), "{reply}");
}

#[tokio::test]
async fn a_server_is_told_of_and_asks_what_it_may() {
    let asking = |character: &'static str| {
        House::of(
            move |folder| {
                let mut config = double(folder, "x", &[character]);
                config.asks = Asks { roots: true, elicitation: false, sampling: false };
                vec![config]
            },
            limits(),
        )
    };
    let (house, client) = (asking("plain"), Arc::new(Client::default()));
    house.upstreams.settle(NEVER).await;
    let entries: Vec<_> = house.upstreams.entries_of("x").iter().map(|entry| entry.definition().name).collect();
    assert_eq!(entries, ["mcp__x__client/roots"]);
    let reply = ask(&house, cx(&house, &client), "elicit").await.unwrap();
    assert!(reply.contains("-32601") && reply.contains("does not offer elicitation"), "{reply}");
    let hello = house.log().into_iter().find(|message| message["method"] == "initialize").unwrap();
    assert_eq!(hello["params"]["capabilities"], json!({}));
    let house = asking("modern");
    house.upstreams.settle(NEVER).await;
    let error = ask(&house, cx(&house, &client), "rounds").await.unwrap_err();
    assert!(error.code == Code::UpstreamError && error.message.contains("which it may not"), "{error:?}");
    let call = house.log().into_iter().find(|message| message["method"] == "tools/call").unwrap();
    let told = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(told, &json!({ "roots": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } }));
    let asked = client.asked.lock().unwrap().clone();
    assert!(asked.iter().all(|asked| asked.kind == ClientCapability::Roots), "{asked:?}");
}

#[tokio::test]
async fn a_question_reaches_nobody_where_it_could_be_anybodys() {
    let (house, client, other) = (House::with(&["plain"]).await, Arc::new(Client::default()), Arc::default());
    let bob = Cx { caller: Arc::new(Caller::new("bob", "developer", Surface::Library)), ..cx(&house, &other) };
    let waiting = ask(&house, bob, "never");
    tokio::pin!(waiting);
    tokio::select! {
        _ = &mut waiting => panic!("it never answers"),
        () = until("bob's call is under way", || house.log().iter().any(|it| it["params"]["arguments"]["do"] == "never")) => {}
    }
    let reply = tokio::select! {
        _ = &mut waiting => panic!("it never answers"),
        reply = ask(&house, cx(&house, &client), "elicit") => reply.unwrap(),
    };
    assert!(reply.contains("on which call's behalf"), "{reply}");
    assert!(client.asked.lock().unwrap().is_empty() && other.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_servers_time_does_not_pass_while_the_client_is_asked() {
    let client = Arc::new(Client { never: true, ..Client::default() });
    let house = House::with(&["plain"]).await;
    let cx = Cx { deadline: Duration::from_millis(300), clock: RealClock::new(), ..cx(&house, &client) };
    let asking = ask(&house, cx, "elicit");
    assert!(tokio::time::timeout(Duration::from_millis(1_500), asking).await.is_err(), "it still waits for the client");
    assert_eq!(client.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_new_server_asks_by_its_result_and_is_called_again() {
    let (house, client) = (House::with(&["modern"]).await, Arc::new(Client::default()));
    let told: Value = serde_json::from_str(&ask(&house, cx(&house, &client), "rounds").await.unwrap()).unwrap();
    assert_eq!((&told[0], &told[1]["where"]), (&json!("s1"), &json!({ "roots": [] })));
    assert_eq!(told[1]["who"]["action"], "accept");
    assert_eq!(
        told[2],
        json!({
            "elicitation": { "form": {} },
            "roots": {},
            "extensions": { "io.modelcontextprotocol/tasks": {} },
        })
    );
    let mut names: Vec<_> = client.asked.lock().unwrap().iter().map(|asked| asked.key.clone().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["where", "who"], "the server's own names");
}

#[tokio::test]
async fn a_new_server_that_asks_what_cannot_be_asked_is_refused() {
    let (house, client) = (House::with(&["modern"]).await, Arc::new(Client::default()));
    for (what, why) in [("ask for ever", "asked 10 times"), ("ask for odd things", "it asks for `tools/list`")] {
        let error = ask(&house, cx(&house, &client), what).await.unwrap_err();
        assert!(error.code == Code::UpstreamError && error.message.contains(why), "{error:?}");
    }
    let alone = Cx { peer: None, ..cx(&house, &client) };
    let error = ask(&house, alone, "rounds").await.unwrap_err();
    assert!(error.client_lacks.is_some(), "{error:?}");
    // The client is told what it would have to offer, and not what it offers already.
    let error = ask(&house, cx(&house, &client), "need sampling").await.unwrap_err();
    assert_eq!(error.client_lacks, Some(ClientCapability::Sampling), "{error:?}");
    let mut whole = cx(&house, &client);
    whole.client.sampling = true;
    let error = ask(&house, whole, "need sampling").await.unwrap_err();
    assert_eq!((error.client_lacks, error.code), (None, Code::UpstreamError), "{error:?}");
}
