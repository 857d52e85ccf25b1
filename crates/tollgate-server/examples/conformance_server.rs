//! The server with the fixture tools of MCP's conformance suite, which carries no key: each request is given one on its
//! way in. `cargo run -p tollgate-server --example conformance_server -- 127.0.0.1:38110`

use std::sync::Arc;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::middleware::map_request;
use serde_json::{Value, json};
use tollgate::mcp::ServerInfo;
use tollgate::{
    CallResult, CancellationToken, Content, End, ProgressUpdate, Tollgate, ToolDefinition, ToolError, ToolOutput,
};
use tollgate_server::{ServeOptions, keys, router};
use tollgate_testkit::RecordingDoor;

/// A red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A header without samples.
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:38110".into()).parse()?;
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let house = Tollgate::builder().data_dir(&data_dir).workspace(folder.path()).build().await?;
    let Some(first) = keys::first(&data_dir, None, &*house.clock()).await? else {
        return Err("keys were made before".into());
    };
    let bearer = HeaderValue::try_from(format!("Bearer {}", first.client.secret.expose()))?;
    let info = ServerInfo { name: "tollgate".into(), version: env!("CARGO_PKG_VERSION").into(), instructions: None };
    let mut options = ServeOptions::new(info, CancellationToken::new());
    options.door = Some(Arc::new(door()));
    let service = router(&house, address, options);
    let keyed = service.router.layer(map_request(move |mut request: Request| {
        request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        std::future::ready(request)
    }));
    axum::serve(tokio::net::TcpListener::bind(address).await?, keyed).await?;
    Ok(())
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition::new(name, "A fixture of the conformance suite.")
}

fn image() -> Content {
    Content::Other(json!({ "type": "image", "data": PNG, "mimeType": "image/png" }))
}

fn resource(uri: &str, kind: &str, text: &str) -> Content {
    Content::Other(json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": text } }))
}

fn content(parts: Vec<Content>) -> impl Fn(Value) -> Result<ToolOutput, ToolError> {
    move |_| Ok(ToolOutput { content: parts.clone(), structured: None })
}

fn door() -> RecordingDoor {
    let text = || Content::Text("This is a simple text response for testing.".into());
    RecordingDoor::new()
        .tool(tool("test_simple_text"), content(vec![text()]))
        .tool(tool("test_streaming_elicitation"), content(vec![text()]))
        .tool(tool("test_logging_tool"), content(vec![text()]))
        .tool(tool("test_tool_with_logging"), content(vec![text()]))
        .tool(tool("test_image_content"), content(vec![image()]))
        .tool(
            tool("test_audio_content"),
            content(vec![Content::Other(json!({ "type": "audio", "data": WAV, "mimeType": "audio/wav" }))]),
        )
        .tool(
            tool("test_embedded_resource"),
            content(vec![resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]),
        )
        .tool(
            tool("test_multiple_content_types"),
            content(vec![
                Content::Text("Multiple content types test:".into()),
                image(),
                resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
            ]),
        )
        .tool(tool("test_error_handling"), |_| {
            Err(ToolError::new("This tool intentionally returns an error for testing"))
        })
        .on(tool("test_tool_with_progress"), |call, _| {
            Box::pin(async move {
                for progress in [0.0, 50.0, 100.0] {
                    call.progress.report(ProgressUpdate { progress, total: Some(100.0), message: None });
                    tokio::task::yield_now().await;
                }
                let content = vec![Content::Text("Progress is complete.".into())];
                End::Done(CallResult { content, ..CallResult::default() })
            })
        })
}
