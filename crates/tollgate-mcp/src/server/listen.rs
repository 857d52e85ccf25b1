//! `resources/subscribe` of the handshake era, and `subscriptions/listen` of the stateless one: each resource that is followed
//! is a call of the door's first.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tollgate_types::{Call, CallKind, Caller, CancellationToken, Door, End, Progress, limits};

use super::client::{Client, Retry, Round, Told};
use super::news::{self, Follower, List, News, Tag};
use super::params::read_object;
use super::{Answer, Ask, Implementation, Request, ServerInfo, entries};
use crate::jsonrpc::{self, Id, RpcError};

/// Resources of one question that are asked for at once.
const CALLS_AT_ONCE_MAX: usize = 8;

/// What a client wants to be told (MCP 2026-07-28, Subscriptions: notification filter).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Filter {
    tools_list_changed: Option<bool>,
    prompts_list_changed: Option<bool>,
    resources_list_changed: Option<bool>,
    resource_subscriptions: Option<Vec<String>>,
}

impl Filter {
    /// Reads the filter of a question.
    pub(super) fn read(raw: Option<&RawValue>) -> Result<Self, RpcError> {
        if raw.is_none_or(|raw| !raw.get().starts_with('{')) {
            return Err(RpcError::invalid_params("`notifications` must be an object"));
        }
        let filter: Self = read_object("notifications", raw)?;
        if filter.resource_subscriptions.as_ref().is_some_and(|uris| uris.len() > limits::FOLLOWED_MAX) {
            let most = limits::FOLLOWED_MAX;
            return Err(RpcError::invalid_params(format_args!("`resourceSubscriptions` has more than {most} URIs")));
        }
        Ok(filter)
    }

    fn lists(&self) -> Vec<List> {
        let wanted = [
            (List::Tools, self.tools_list_changed),
            (List::Prompts, self.prompts_list_changed),
            (List::Resources, self.resources_list_changed),
        ];
        wanted.into_iter().filter(|(_, wants)| *wants == Some(true)).map(|(list, _)| list).collect()
    }
}

/// What of it is agreed to.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Granted<'a> {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_subscriptions: Option<&'a [String]>,
}

impl Request {
    /// Whether it is a question that stands until its client takes it back, for [`Request::listen`].
    pub fn is_listening(&self) -> bool {
        matches!(self.ask, Ask::Listen(_))
    }

    /// Tells what changes behind the door, and of that what the client asked for and may know, until `stop`; then gives the
    /// answer that ends it well. Dropping the future ends it without one.
    pub async fn listen(
        self,
        door: Arc<dyn Door>,
        caller: Arc<Caller>,
        out: mpsc::WeakSender<Vec<u8>>,
        stop: CancellationToken,
    ) -> Answer {
        let Self { id, info, ask, client } = self;
        let Ask::Listen(filter) = ask else {
            let error = RpcError::invalid_request("this is no question to listen to");
            return Answer { text: jsonrpc::failure(Some(&id), &error), status: 400 };
        };
        let news = News::default();
        let telling = async {
            let follower = news.begin(&door, &caller);
            let granted = match follower {
                Some(follower) => follow_all(&door, &caller, follower, &id, &client, &filter).await,
                None => Vec::new(),
            };
            let lists = if follower.is_some() { filter.lists() } else { Vec::new() };
            follower.iter().for_each(|follower| follower.know(&lists));
            let is_said = say(&out, acknowledged(&id, &lists, &filter, &granted)).await;
            if let Some(follower) = follower.filter(|_| is_said) {
                follower.tell(&lists, Some(&id), &out).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = telling => {}
            () = stop.cancelled() => {}
        }
        Answer { text: ended(&id, &info), status: 200 }
    }
}

async fn say(out: &mpsc::WeakSender<Vec<u8>>, line: Vec<u8>) -> bool {
    match out.upgrade() {
        Some(out) => out.send(line).await.is_ok(),
        None => false,
    }
}

/// Follows the resources that the client may follow, and names them.
async fn follow_all(
    door: &Arc<dyn Door>,
    caller: &Arc<Caller>,
    follower: &Follower,
    id: &Id,
    client: &Client,
    filter: &Filter,
) -> Vec<String> {
    let uris = filter.resource_subscriptions.as_deref().unwrap_or_default();
    let asking = uris.iter().map(|uri| async move {
        let wish = follower.wish(uri)?;
        let mut call = news::subscription(uri).with_id(id.as_str());
        call.protocol = Some(client.peer.revision.as_str());
        let outcome = door.call(caller, call).await;
        matches!(outcome.end, End::Done(_)).then(|| wish.keep())?;
        Some(uri.clone())
    });
    // Collected, so that the future of it all is one that can go to another thread.
    let asking: Vec<_> = asking.collect();
    let asked: Vec<Option<String>> = stream::iter(asking).buffered(CALLS_AT_ONCE_MAX).collect().await;
    asked.into_iter().flatten().collect()
}

fn acknowledged(id: &Id, lists: &[List], filter: &Filter, granted: &[String]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Acknowledged<'a> {
        #[serde(rename = "_meta")]
        meta: Option<Tag<'a>>,
        notifications: Granted<'a>,
    }
    let notifications = Granted {
        tools_list_changed: lists.contains(&List::Tools),
        prompts_list_changed: lists.contains(&List::Prompts),
        resources_list_changed: lists.contains(&List::Resources),
        resource_subscriptions: filter.resource_subscriptions.as_ref().map(|_| granted),
    };
    let acknowledged = Acknowledged { meta: Tag::of(Some(id)), notifications };
    jsonrpc::notification("notifications/subscriptions/acknowledged", acknowledged)
}

/// The answer that ends a question well (MCP 2026-07-28, Subscriptions: graceful closure).
fn ended(id: &Id, info: &ServerInfo) -> Vec<u8> {
    #[derive(Serialize)]
    struct Ended<'a> {
        #[serde(rename = "resultType")]
        result_type: &'static str,
        #[serde(rename = "_meta")]
        meta: Meta<'a>,
    }
    #[derive(Serialize)]
    struct Meta<'a> {
        #[serde(flatten)]
        tag: Option<Tag<'a>>,
        #[serde(rename = "io.modelcontextprotocol/serverInfo")]
        server_info: Implementation<'a>,
    }
    let server_info = Implementation { name: &info.name, version: &info.version };
    jsonrpc::answer(id, Ended { result_type: "complete", meta: Meta { tag: Tag::of(Some(id)), server_info } })
}

/// Follows a resource in the handshake era: in a connection or a session, until it is taken back there.
pub(super) async fn subscribe(
    id: &Id,
    uri: &str,
    client: Client,
    door: Arc<dyn Door>,
    caller: Arc<Caller>,
) -> Result<Vec<u8>, RpcError> {
    let (news, revision) = (Arc::clone(&client.news), client.peer.revision);
    let follower = news.begin(&door, &caller).ok_or_else(|| RpcError::refused("nothing here says when it changes"))?;
    let Some(wish) = follower.wish(uri) else {
        return Err(RpcError::too_many("more resources are followed than may be"));
    };
    let mut call: Call = news::subscription(uri).with_id(id.as_str());
    call.protocol = Some(revision.as_str());
    let kind = CallKind::Subscription;
    let (method, retry, progress) = (super::params::method(kind), Retry::default(), Progress::none());
    let told = client.call(Round { door, caller, call, method, retry, progress }).await?;
    let Told::Ended(outcome) = told else {
        // INVARIANT: only a client of the stateless era is asked by an answer.
        return Err(RpcError::internal("the call was put off"));
    };
    entries::result_of(&outcome, kind, revision)?;
    wish.keep();
    Ok(jsonrpc::answer(id, json!({})))
}
