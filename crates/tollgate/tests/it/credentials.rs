//! Credentials that an HTTP tool's server does not take any more: read anew once, and never blindly tried again.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tollgate::config::Loaded;
use tollgate::{Ask, Call, Caller, Code, Outcome, Permission, Risk, Role, Surface, Tollgate};

/// The statuses that a server answered, in order. It takes one token, and refuses others with 401, or with 403.
struct Server {
    url: String,
    answered: Arc<Mutex<Vec<u16>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(token: &'static str, refusal: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/orders", listener.local_addr().unwrap());
        let answered = Arc::new(Mutex::new(Vec::new()));
        let (log, mut tasks) = (Arc::clone(&answered), JoinSet::new());
        tasks.spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                answer(socket, token, refusal, &log).await;
            }
        });
        Self { url, answered, _tasks: tasks }
    }
}

async fn answer(mut socket: TcpStream, token: &str, refusal: u16, log: &Mutex<Vec<u16>>) {
    let mut request = String::new();
    // The head and the body `{}` of a POST.
    while !request.ends_with("\r\n\r\n{}") {
        let mut bytes = [0; 1024];
        let length = socket.read(&mut bytes).await.unwrap();
        assert!(length > 0, "{request}");
        request.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
    }
    let is_known = request.to_lowercase().contains(&format!("x-token: {token}\r\n"));
    let status = if is_known { 200 } else { refusal };
    log.lock().unwrap().push(status);
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
    socket.write_all(head.as_bytes()).await.unwrap();
}

async fn house(folder: &Path, url: &str, source: &str) -> Tollgate {
    let config = format!(
        "[[tool]]\nname = \"order\"\ndescription = \"Orders.\"\nrisk = \"write\"\n\
         http = {{ method = \"POST\", url = \"{url}\", headers = {{ X-Token = {source} }} }}\n\
         on_error = {{ default = {{ retry = {{ max = 3, pause_ms = 0 }} }} }}\n"
    );
    let path = folder.join("tollgate.toml");
    std::fs::write(&path, config).unwrap();
    let loaded = Loaded::read(&path, folder).unwrap();
    let role = Role::new("free").allow("*").risk(Risk::Dangerous).permission(Permission::System).ask(Ask::Never);
    let house = Tollgate::builder().config(loaded).role(role).without_builtin_tools().build().await.unwrap();
    assert!(house.warnings().is_empty(), "{:?}", house.warnings());
    house
}

async fn order(house: &Tollgate) -> Outcome {
    house.call(&Caller::new("ada", "free", Surface::Library), Call::tool("order", json!({}))).await
}

const FILE: &str = "{ file = \"token\" }";
/// Prints what the file says, and leaves a mark of each time.
const COMMAND: &str = "{ command = [\"sh\", \"-c\", \"echo x >> reads; cat token\"] }";

#[tokio::test]
async fn a_token_that_is_refused_is_read_anew_once() {
    let same = "read anew they are the same";
    let refused = "read anew, and are refused too";
    for (source, then, statuses, advice) in [
        (FILE, Some("token-of-now"), vec![401, 200], None),
        (COMMAND, Some("token-of-now"), vec![401, 200], None),
        (FILE, Some("token-of-before"), vec![401], Some(same)),
        (FILE, Some("token-of-nobody"), vec![401, 401], Some(refused)),
        (FILE, None, vec![401], Some("could not be read anew")),
        (COMMAND, None, vec![401], Some("could not be read anew")),
        ("{ env = \"CARGO_PKG_NAME\" }", None, vec![401], Some("must renew them and restart")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start("token-of-now", 401).await;
        let file = folder.path().join("token");
        std::fs::write(&file, "token-of-before\n").unwrap();
        let house = house(folder.path(), &server.url, source).await;
        match then {
            Some(token) => std::fs::write(&file, token).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let outcome = order(&house).await;
        assert_eq!(*server.answered.lock().unwrap(), statuses, "{source} {then:?}");
        match advice {
            None => assert_eq!(outcome.code(), None, "{outcome:?}"),
            Some(advice) => {
                let error = outcome.end.error().unwrap();
                assert_eq!((error.tool_code.as_deref(), error.retryable), (Some("HTTP_401"), false));
                assert!(error.hint.as_deref().unwrap().contains(advice), "{error:?}");
                assert!(!format!("{error:?}").contains(file.to_str().unwrap()), "{error:?}");
            }
        }
        house.stop().await;
    }
}

#[tokio::test]
async fn who_are_refused_together_are_answered_by_one_reading() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start("token-of-now", 401).await;
    std::fs::write(folder.path().join("token"), "token-of-before").unwrap();
    let house = house(folder.path(), &server.url, COMMAND).await;
    std::fs::write(folder.path().join("token"), "token-of-now").unwrap();
    let outcomes = futures_util::future::join_all((0..5).map(|_| order(&house))).await;
    assert!(outcomes.iter().all(|outcome| outcome.code().is_none()), "{outcomes:?}");
    let reads = std::fs::read_to_string(folder.path().join("reads")).unwrap().lines().count();
    assert_eq!(reads, 2, "once at the start, once for all five");
    // The next one knows the new token.
    assert_eq!(order(&house).await.code(), None);
    assert_eq!(server.answered.lock().unwrap().iter().filter(|status| **status == 200).count(), 6);
    house.stop().await;
}

#[tokio::test]
async fn who_is_known_and_not_allowed_is_not_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start("token-of-now", 403).await;
    std::fs::write(folder.path().join("token"), "token-of-before").unwrap();
    let house = house(folder.path(), &server.url, COMMAND).await;
    let outcome = order(&house).await;
    let error = outcome.end.error().unwrap();
    assert_eq!((error.error, error.tool_code.as_deref()), (Code::ToolError, Some("HTTP_403")));
    assert!(error.hint.as_deref().unwrap().contains("must give them the right"), "{error:?}");
    assert_eq!(*server.answered.lock().unwrap(), [403]);
    assert_eq!(std::fs::read_to_string(folder.path().join("reads")).unwrap().lines().count(), 1);
    house.stop().await;
}
