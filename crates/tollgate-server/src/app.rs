//! What every handler reaches, and the way to each.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;
use tollgate::ledger::Ledger;
use tollgate::mcp::{ServerInfo, StateKeys, http::Endpoint};
use tollgate::spans::Telemetry;
use tollgate::store::Store;
use tollgate::webhooks::Webhook;
use tollgate::{AnchorWatch, CancellationToken, Clock, Door, Gate, Operator, Reloads, ServerWatch, Surface, Tollgate};

use crate::entrance::{self, Holder, Names};
use crate::keys::Ring;
use crate::limits::{IN_FLIGHT_MAX, LISTENERS_MAX, conversations_max};
use crate::mcp::stream::Streams;
use crate::metrics::{Metered, Metrics};
use crate::problem::Problem;
use crate::{health, mcp, openapi, rest};

/// How to serve.
#[derive(Clone)]
pub struct ServeOptions {
    /// What MCP clients are told of the server.
    pub info: ServerInfo,
    /// The door that is served instead of the house's own, such as one to some of the tools.
    pub door: Option<Arc<dyn Door>>,
    /// Names, beside loopback's and the bound address, under which clients may reach the server.
    pub hosts: Vec<String>,
    /// Origins, beside those of such hosts, from which browsers may ask.
    pub origins: Vec<String>,
    /// Ends the serving.
    pub stop: CancellationToken,
    /// How long what is under way may go on after that.
    pub drain: Duration,
    /// The keys of all who serve the same clients ([`Tollgate::state_keys`]): a call that waits for its client here goes on
    /// at any of them. Without keys it goes on here alone.
    pub state_keys: Option<StateKeys>,
}

impl ServeOptions {
    /// Serves everything of the house under loopback names until `stop` is cancelled.
    pub fn new(info: ServerInfo, stop: CancellationToken) -> Self {
        let (hosts, origins, drain) = (Vec::new(), Vec::new(), Duration::from_secs(10));
        Self { info, door: None, hosts, origins, stop, drain, state_keys: None }
    }

    /// What is served at a path: the set of this name, or everything.
    fn endpoint(&self, house: &Tollgate, set: &str) -> Endpoint {
        let endpoint = Endpoint::new(self.info.clone()).with_tasks(house.tasks());
        match &self.state_keys {
            Some(keys) => endpoint.sealing(keys.at(set)),
            None => endpoint,
        }
    }
}

/// The ways in, and what stands behind them.
pub struct Service {
    /// The ways in, with an answer for every path: for a program's own axum server to nest, or to fall back to.
    pub router: Router,
    pub(crate) app: Arc<App>,
}

impl Service {
    /// Waits until every call that came in here has ended. Those that outlive `patience`, and those that wait for their
    /// clients then, are cancelled: the gate's own drain says when they are recorded.
    pub async fn drain(&self, patience: Duration) {
        self.app.stop.cancel();
        if tokio::time::timeout(patience, self.ended()).await.is_err() {
            self.app.cut.cancel();
            self.ended().await;
        }
        let sets = self.app.sets.values().map(|set| &set.endpoint);
        sets.chain([&self.app.endpoint]).for_each(Endpoint::cancel_waiting);
    }

    pub(crate) async fn ended(&self) {
        self.app.tasks.close();
        self.app.tasks.wait().await;
    }
}

/// What every handler reaches.
pub(crate) struct App {
    pub(crate) door: Arc<dyn Door>,
    /// The same for those who come by no request that could be refused a place: their calls wait for one.
    pub(crate) patient_door: Arc<dyn Door>,
    pub(crate) gate: Gate,
    pub(crate) endpoint: Endpoint,
    pub(crate) streams: Arc<Streams>,
    /// What is served at `/mcp/NAME`, `/mcp/NAME/ws` and `/sse/NAME`.
    pub(crate) sets: BTreeMap<String, Set>,
    pub(crate) operator: Operator,
    /// Whose signed answers are taken.
    pub(crate) webhook: Option<Arc<Webhook>>,
    pub(crate) spans: Option<Arc<Telemetry>>,
    pub(crate) ring: Ring,
    pub(crate) names: Names,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) reloads: Arc<Reloads>,
    pub(crate) data_dir: PathBuf,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) anchors: AnchorWatch,
    pub(crate) servers: ServerWatch,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tasks: TaskTracker,
    /// Nothing new is begun.
    pub(crate) stop: CancellationToken,
    /// What is under way is cancelled.
    pub(crate) cut: CancellationToken,
    in_flight: Arc<Semaphore>,
    listeners: Arc<Semaphore>,
    conversations: Arc<Semaphore>,
}

/// What MCP clients reach of a part of the house. A conversation is of the part where it began.
pub(crate) struct Set {
    pub(crate) door: Arc<dyn Door>,
    pub(crate) patient_door: Arc<dyn Door>,
    pub(crate) endpoint: Endpoint,
}

impl App {
    /// How many conversations with MCP clients are open.
    pub(crate) fn sessions(&self) -> usize {
        let sets = self.sets.values().map(|set| set.endpoint.sessions());
        self.endpoint.sessions() + sets.sum::<usize>()
    }

    /// A place among what is under way.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.in_flight).try_acquire_owned();
        place.map_err(|_| Problem::too_many(format!("{IN_FLIGHT_MAX} requests are under way")))
    }

    /// The names of what a key's holder may use.
    pub(crate) async fn names_for(&self, holder: &Holder) -> HashSet<String> {
        self.door.list(&holder.caller(Surface::Rest)).await.iter().map(|tool| tool.name.clone()).collect()
    }

    /// A place among the conversations that hold a connection.
    pub(crate) fn conversation(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.conversations).try_acquire_owned();
        place.map_err(|_| Problem::too_many(format!("{} conversations are held already", conversations_max())))
    }

    /// A place among the listeners to new records.
    pub(crate) fn listener(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.listeners).try_acquire_owned();
        place.map_err(|_| Problem::too_many(format!("{LISTENERS_MAX} listen already")))
    }
}

/// The ways in to a house, for a server that is reached at `address`.
pub fn router(house: &Tollgate, address: SocketAddr, options: ServeOptions) -> Service {
    let metrics = Arc::new(Metrics::default());
    house.gate().watched_by(Arc::clone(&metrics) as _);
    let door = options.door.clone().unwrap_or_else(|| house.door());
    let metered = Metered::new(door, Arc::clone(&metrics), house.clock());
    let in_flight = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    let patient_door: Arc<dyn Door> = Arc::new(metered.waiting_for(&in_flight));
    let door: Arc<dyn Door> = Arc::new(metered);
    let app = Arc::new(App {
        sets: sets(house, &door, &patient_door, &options),
        patient_door,
        door,
        gate: house.gate().clone(),
        endpoint: options.endpoint(house, ""),
        streams: Arc::default(),
        operator: house.operator().clone(),
        webhook: house.webhook().cloned(),
        spans: house.telemetry().cloned(),
        ring: Ring::new(Store::new(house.data_dir()), house.clock()),
        names: Names::new(address, &options.hosts, &options.origins),
        metrics,
        reloads: house.reloads(),
        data_dir: house.data_dir().to_owned(),
        ledger: house.ledger(),
        anchors: house.anchors(),
        servers: house.server_watch(),
        clock: house.clock(),
        tasks: TaskTracker::new(),
        cut: CancellationToken::new(),
        stop: options.stop.child_token(),
        in_flight,
        conversations: Arc::new(Semaphore::new(conversations_max())),
        listeners: Arc::new(Semaphore::new(LISTENERS_MAX)),
    });
    Service { router: routes(&app), app }
}

/// Every path, each behind what it needs.
fn routes(app: &Arc<App>) -> Router {
    let client = Router::new()
        .route("/mcp", post(mcp::post).get(mcp::get).delete(mcp::delete))
        .route("/mcp/ws", get(mcp::socket::open))
        .route("/sse", get(mcp::stream::open))
        .route("/messages", post(mcp::stream::post))
        .route("/mcp/{set}", post(mcp::post).get(mcp::get).delete(mcp::delete))
        .route("/mcp/{set}/ws", get(mcp::socket::open))
        .route("/sse/{set}", get(mcp::stream::open))
        .route("/api/v1/calls", post(rest::call))
        .route("/api/v1/tools", get(rest::tools))
        .route("/api/v1/attempts/{id}/undo", post(rest::undo))
        .route_layer(from_fn_with_state(Arc::clone(app), entrance::client));
    let operator = Router::new()
        .route("/api/v1/approvals/{id}/approve", post(rest::approve))
        .route("/api/v1/approvals/{id}/reject", post(rest::reject))
        .route("/api/v1/audit", get(rest::audit))
        .route("/api/v1/events", get(rest::events))
        .route("/api/v1/servers", get(rest::servers))
        .route_layer(from_fn_with_state(Arc::clone(app), entrance::operator));
    let either = Router::new()
        .route("/api/v1/approvals", get(rest::approvals))
        .route("/api/v1/approvals/{id}", get(rest::approval))
        .route("/metrics", get(health::metrics))
        .route_layer(from_fn_with_state(Arc::clone(app), entrance::either));
    let open = Router::new()
        .route("/api/v1/approvals/{id}/answer", post(rest::answer))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/openapi.json", get(openapi::answer));
    client
        .merge(operator)
        .merge(either)
        .merge(open)
        .fallback(nothing)
        .layer(from_fn_with_state(Arc::clone(app), entrance::known_host))
        .with_state(Arc::clone(app))
}

fn sets(
    house: &Tollgate,
    door: &Arc<dyn Door>,
    patient_door: &Arc<dyn Door>,
    options: &ServeOptions,
) -> BTreeMap<String, Set> {
    let of = |name: &str| {
        let view = |door: &Arc<dyn Door>| Some(Arc::new(house.view(name, Arc::clone(door))?) as Arc<dyn Door>);
        let (door, patient_door) = (view(door)?, view(patient_door)?);
        Some((name.to_owned(), Set { door, patient_door, endpoint: options.endpoint(house, name) }))
    };
    house.sets().filter_map(of).collect()
}

async fn nothing() -> Problem {
    Problem::not_found("nothing is at this path").with_hint("`/openapi.json` names what there is")
}
