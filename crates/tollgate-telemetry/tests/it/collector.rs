//! A receiver of OTLP over HTTP that keeps what it gets, and answers as it is told to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::sync::{mpsc, oneshot};

/// One request.
pub(crate) struct Taken {
    pub(crate) headers: HeaderMap,
    pub(crate) resource: HashMap<String, String>,
    pub(crate) spans: Vec<Span>,
}

/// What it answers, one after the other; then it takes everything.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Status(u16),
    /// It never does.
    Silence,
}

#[derive(Clone)]
struct Shared {
    answers: Arc<Mutex<Vec<Answer>>>,
    taken: mpsc::Sender<Taken>,
    tries: mpsc::Sender<()>,
}

pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    pub(crate) taken: mpsc::Receiver<Taken>,
    pub(crate) tries: mpsc::Receiver<()>,
    _end: oneshot::Sender<()>,
}

impl Collector {
    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let (taken, receiver) = mpsc::channel(1_000);
        let (tries, tried) = mpsc::channel(1_000);
        let answers: Vec<Answer> = answers.into_iter().collect();
        let answers = Arc::new(Mutex::new(answers.into_iter().rev().collect()));
        let router = Router::new().route("/v1/traces", post(take)).with_state(Shared { answers, taken, tries });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel::<()>();
        tokio::spawn(async move {
            tokio::select! {
                served = axum::serve(listener, router) => served.unwrap(),
                _ = ended => {}
            }
        });
        Self { address, taken: receiver, tries: tried, _end: end }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn take(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> (StatusCode, Vec<u8>) {
    shared.tries.send(()).await.unwrap();
    let answer = shared.answers.lock().unwrap().pop();
    match answer {
        Some(Answer::Status(status)) => return (StatusCode::from_u16(status).unwrap(), Vec::new()),
        Some(Answer::Silence) => std::future::pending().await,
        None => {}
    }
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    for of_resource in request.resource_spans {
        let resource = map(&of_resource.resource.unwrap().attributes);
        for of_scope in of_resource.scope_spans {
            assert_eq!(of_scope.scope.unwrap().name, "tollgate");
            let taken = Taken { headers: headers.clone(), resource: resource.clone(), spans: of_scope.spans };
            shared.taken.send(taken).await.unwrap();
        }
    }
    (StatusCode::OK, ExportTraceServiceResponse::default().encode_to_vec())
}

/// Attributes as text.
pub(crate) fn map(attributes: &[KeyValue]) -> HashMap<String, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(is) => is.to_string(),
        other => panic!("{other:?} is none that we send"),
    };
    let value = |attribute: &KeyValue| text(attribute.value.as_ref().unwrap().value.as_ref().unwrap());
    attributes.iter().map(|attribute| (attribute.key.clone(), value(attribute))).collect()
}
