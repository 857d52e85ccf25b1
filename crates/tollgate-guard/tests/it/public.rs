//! The client for the open web against real servers. `127.0.0.2` plays the open web, by an exemption; `127.0.0.1` plays
//! what must never be dialled: each test has a listener there, on the same port, and looks at it in the end.

use std::collections::BTreeMap;
use std::future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tollgate_guard::address::{Policy, Refusal};
use tollgate_guard::client::ClientError;
use tollgate_guard::public::{Hop, Lookup, PublicClient, PublicError, PublicRequest, PublicResponse, REDIRECTS_MAX};
use tollgate_types::BoxFuture;

use crate::address;

const OPEN: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const PRIVATE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LONG: Duration = Duration::from_secs(30);

/// `a page, packed`
const PACKED: &str = "H4sIAAAAAAACA0tUKEhMT9UBksnZqSkAtRSYEg4AAAA=";
/// 300,000 zeros
const BOMB: &str = concat!(
    "H4sIAAAAAAACA+3BAQ0AAADCoPdPbQ8HFAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAAAAAAAA/Bj74rL24JMEAA==",
);

/// Answers from a table; of a series each look-up takes the next, and the last one stays.
#[derive(Default)]
struct Names {
    answers: BTreeMap<String, Vec<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    fn of<const N: usize>(answers: [(&str, &[&[IpAddr]]); N]) -> Arc<Self> {
        let sets = |sets: &[&[IpAddr]]| sets.iter().map(|set| set.to_vec()).collect();
        let answers = answers.into_iter().map(|(name, series)| (name.to_owned(), sets(series))).collect();
        Arc::new(Self { answers, asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Lookup for Names {
    fn lookup(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut asked = self.asked.lock().unwrap();
        let turn = asked.iter().filter(|name| *name == host).count();
        asked.push(host.to_owned());
        let found = self.answers.get(host).and_then(|series| series.get(turn).or(series.last())).cloned();
        Box::pin(future::ready(found.ok_or_else(|| io::Error::other("no such name"))))
    }
}

type Heads = Arc<Mutex<Vec<String>>>;

/// The open web, and the private network that nobody may reach.
struct World {
    port: u16,
    heads: Heads,
    private: std::net::TcpListener,
    names: Arc<Names>,
    client: PublicClient,
    task: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One port on both addresses.
async fn bind() -> (TcpListener, std::net::TcpListener) {
    loop {
        let open = TcpListener::bind((OPEN, 0)).await.unwrap();
        if let Ok(private) = std::net::TcpListener::bind((PRIVATE, open.local_addr().unwrap().port())) {
            private.set_nonblocking(true).unwrap();
            return (open, private);
        }
    }
}

/// Answers each connection's requests with what `answer` makes of a path and the port; empty: silence.
#[expect(clippy::disallowed_methods, reason = "the server is stopped when the test drops it")]
async fn world(names: Arc<Names>, answer: impl Fn(&str, u16) -> Vec<u8> + Send + Sync + 'static) -> World {
    let (open, private) = bind().await;
    let port = open.local_addr().unwrap().port();
    let heads = Heads::default();
    let (seen, answer) = (Arc::clone(&heads), Arc::new(answer));
    let task = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = open.accept().await {
            let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
            connections.spawn(async move {
                let mut head = Vec::new();
                while let Ok(byte) = stream.read_u8().await {
                    head.push(byte);
                    if head.ends_with(b"\r\n\r\n") {
                        let text = String::from_utf8(std::mem::take(&mut head)).unwrap();
                        let reply = answer(text.split(' ').nth(1).unwrap(), port);
                        seen.lock().unwrap().push(text);
                        if stream.write_all(&reply).await.is_err() || reply.is_empty() {
                            future::pending::<()>().await;
                        }
                    }
                }
            });
        }
    });
    let policy = Policy { ports: vec![port], exempt: vec![OPEN] };
    let client = PublicClient::with(policy, Arc::clone(&names) as Arc<dyn Lookup>);
    World { port, heads, private, names, client, task }
}

impl World {
    fn request(&self, url: &str) -> PublicRequest {
        // `:P` stands for the port.
        let url = url.replace(":P", &format!(":{}", self.port));
        PublicRequest { url, headers: vec![], body_bytes_max: 100_000, timeout: LONG }
    }

    async fn get(&self, url: &str) -> Result<PublicResponse, PublicError> {
        self.client.get(self.request(url)).await
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// The system accepts for a listener, so a connection would be waiting by now.
    fn assert_private_is_untouched(&self) {
        assert_eq!(self.private.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

fn page(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The number that a path consists of.
fn number(path: &str) -> Option<usize> {
    path.strip_prefix('/')?.parse().ok()
}

fn redirect(location: &str, port: u16) -> Vec<u8> {
    let location = location.replace(":P", &format!(":{port}"));
    format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn a_page_comes_decoded_from_the_address_that_was_judged() {
    let names = Names::of([("pub.example.test", &[&[OPEN]])]);
    let world =
        world(names, |_, _| page("content-encoding: gzip\r\nX-Bytes: \u{fc}\r\n", &STANDARD.decode(PACKED).unwrap()));
    let world = world.await;
    let mut request = world.request("HTTP://Pub.Example.TEST.:P/a?b#c");
    request.headers = vec![("X-Key".into(), "zq".into()), ("User-Agent".into(), "me".into())];
    assert!(!format!("{request:?}").contains("zq"));
    let answer = world.client.get(request).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"a page, packed".as_slice()));
    assert_eq!(answer.url, format!("http://pub.example.test.:{}/a?b#c", world.port));
    assert!(answer.headers.contains(&("x-bytes".into(), "\u{fc}".into())));
    let head = world.heads().concat();
    assert!(head.starts_with("GET /a?b HTTP/1.1\r\n") && head.contains("x-key: zq\r\n"), "{head}");
    assert!(head.contains("user-agent: me\r\n") && head.contains("accept-encoding: gzip\r\n"), "{head}");
    assert_eq!(world.names.asked(), ["pub.example.test"]);
    world.assert_private_is_untouched();
}

#[tokio::test]
async fn what_is_posted_goes_to_one_judged_address_and_to_no_other() {
    let names = Names::of([("pub.example.test", &[&[OPEN]]), ("inner.example.test", &[&[PRIVATE]])]);
    let world = world(names, |_, port| redirect("http://inner.example.test:P/", port)).await;
    let mut request = world.request("http://pub.example.test:P/token");
    request.headers = vec![("Authorization".into(), "Basic zq".into())];
    let answer = world.client.post(request, b"code=1".to_vec()).await.unwrap();
    assert_eq!(answer.status, 302, "a redirect is an answer");
    let head = world.heads().concat();
    assert!(head.starts_with("POST /token HTTP/1.1\r\n") && head.contains("content-length: 6\r\n"), "{head}");
    for url in ["http://inner.example.test:P/token", "http://127.0.0.1:P/token"] {
        let error = world.client.post(world.request(url), b"code=1".to_vec()).await.unwrap_err();
        assert!(matches!(error, PublicError::Refused(_)), "{error:?}");
    }
    assert_eq!(world.heads().len(), 1);
    world.assert_private_is_untouched();
}

#[tokio::test]
async fn a_name_that_is_bound_anew_is_never_followed() {
    let names = Names::of([("rebind.example.test", &[&[OPEN], &[PRIVATE]])]);
    let world = world(names, |_, _| page("connection: close\r\n", b"one")).await;
    assert_eq!(world.get("http://rebind.example.test:P/").await.unwrap().body, b"one");
    assert_eq!(world.names.asked().len(), 1);
    let refusal =
        Refusal::Answer { host: "rebind.example.test".into(), address: PRIVATE, range: "loopback, this machine" };
    assert_eq!(world.get("http://rebind.example.test:P/").await, Err(PublicError::Refused(refusal)));
    assert_eq!((world.names.asked().len(), world.heads().len()), (2, 1));
    world.assert_private_is_untouched();
}

#[tokio::test]
async fn a_kept_connection_stays_with_its_name() {
    let names = Names::of([("one.example.test", &[&[OPEN], &[PRIVATE]]), ("two.example.test", &[&[PRIVATE]])]);
    let world = world(names, |_, _| page("", b"one")).await;
    for _ in 0..3 {
        assert!(world.get("http://one.example.test:P/").await.is_ok());
    }
    assert_eq!(world.names.asked(), ["one.example.test"]);
    assert!(world.get("http://two.example.test:P/").await.is_err());
    world.assert_private_is_untouched();
}

#[tokio::test]
async fn nothing_is_dialled_when_one_answer_is_private() {
    let mixed: [&[IpAddr]; 4] =
        [&[OPEN, PRIVATE], &[PRIVATE, OPEN], &[OPEN, IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)], &[]];
    let world = world(Names::of([("mixed.example.test", &mixed)]), |_, _| page("", b"")).await;
    for _ in 0..4 {
        let error = world.get("http://mixed.example.test:P/").await.unwrap_err();
        assert!(matches!(error, PublicError::Refused(_)), "{error:?}");
    }
    let error = world.get("http://unknown.example.test:P/?zq").await.unwrap_err();
    assert_eq!(error.to_string(), "`unknown.example.test` cannot be found: no such name");
    for url in ["http://127.0.0.1:P/", "http://localhost:P/", "http://[::ffff:127.0.0.2]:P/", "http://0x7f.1:P/"] {
        assert!(matches!(world.get(url).await, Err(PublicError::Refused(_))), "{url}");
    }
    assert!(world.heads().is_empty());
    world.assert_private_is_untouched();
}

/// What the shared cases say of names and redirects, with real connections.
#[tokio::test]
async fn the_shared_cases_hold_on_the_wire() {
    let mut seen = 0;
    for case in address::cases() {
        let url = address::text(&case, "url");
        let mut answers = address::answers(&case);
        let Some(name) = answers.keys().find(|name| url.starts_with(&format!("http://{name}/"))).cloned() else {
            continue;
        };
        seen += 1;
        for address in answers.values_mut().flatten().flatten() {
            // What is public in the case is the open web of the test; the rest stays what it is.
            if tollgate_guard::address::judge_ip(*address, &Policy::default()).is_ok() {
                *address = OPEN;
            }
        }
        let redirects = case.get("redirects").and_then(|list| list.get(0)).and_then(|url| url.as_str());
        let location = redirects.map(|url| url.replace("127.0.0.1/", "127.0.0.1:P/"));
        let path = url.trim_start_matches(&format!("http://{name}")).to_owned();
        let world = world(Arc::new(Names { answers, asked: Mutex::default() }), move |asked, port| match &location {
            Some(location) if asked == path => redirect(location, port),
            _ => page("", b"reached"),
        });
        let world = world.await;
        let answer = world.get(&url.replacen(&name, &format!("{name}:P"), 1)).await;
        assert_eq!(answer.is_ok(), address::text(&case, "expected") == "allow", "{case} -> {answer:?}");
        if let Some(lookups) = case.get("assert_lookups") {
            assert_eq!(lookups.as_u64(), Some(world.names.asked().len() as u64), "{case}");
        }
        world.assert_private_is_untouched();
    }
    assert!(seen >= 10, "{seen}");
}

#[tokio::test]
async fn each_redirect_is_judged() {
    let names = Names::of([("pub.example.test", &[&[OPEN]]), ("inside.example.test", &[&[PRIVATE]])]);
    let refused = [
        "http://127.0.0.1:P/",
        "//127.0.0.1:P/",
        "http://127.1:P/",
        "http://localhost:P/",
        "http://[::1]:P/",
        "http://[::ffff:127.0.0.1]:P/",
        "file:///etc/passwd",
        "gopher://pub.example.test:P/",
        "http://x@pub.example.test:P/",
        "http://pub.example.test:22/",
        "http:\\\\127.0.0.1:P\\",
        "http://inside.example.test:P/",
        "http://１２７.0.0.1:P/",
    ];
    let world = world(names, move |path, port| redirect(refused[number(path).unwrap()], port)).await;
    for (number, location) in refused.iter().enumerate() {
        let error = world.get(&format!("http://pub.example.test:P/{number}")).await.unwrap_err();
        // A name is only judged in full when it is looked up.
        let is_refused = match &error {
            PublicError::RedirectRefused { from, .. } => *from == format!("http://pub.example.test:{}", world.port),
            PublicError::Refused(Refusal::Answer { host, .. }) => host == "inside.example.test",
            _ => false,
        };
        assert!(is_refused, "{location}: {error:?}");
    }
    assert_eq!(world.heads().len(), refused.len());
    world.assert_private_is_untouched();
}

#[tokio::test]
async fn redirects_are_followed_to_a_limit() {
    let names = Names::of([("pub.example.test", &[&[OPEN]])]);
    let world = world(names, |path, port| match number(path) {
        Some(left @ 1..) => redirect(&format!("./{}", left - 1), port),
        None if path == "/latin" => b"HTTP/1.1 308 x\r\nlocation: /\xfc\r\ncontent-length: 0\r\n\r\n".to_vec(),
        _ => page("", path.as_bytes()),
    });
    let world = world.await;
    let answer = world.get(&format!("http://pub.example.test:P/{REDIRECTS_MAX}")).await.unwrap();
    assert_eq!((answer.body.as_slice(), answer.url.ends_with("/0")), (b"/0".as_slice(), true));
    let beyond = world.get(&format!("http://pub.example.test:P/{}", REDIRECTS_MAX + 1)).await;
    assert_eq!(beyond, Err(PublicError::TooManyRedirects { limit: REDIRECTS_MAX }));
    assert_eq!(world.heads().len(), 2 * (REDIRECTS_MAX + 1));
    assert_eq!(world.get("http://pub.example.test:P/latin").await.unwrap().body, b"/%FC");
}

#[tokio::test]
async fn a_single_hop_says_where_it_leads_and_asks_nothing_there() {
    let names = Names::of([("pub.example.test", &[&[OPEN]]), ("other.example.test", &[&[PRIVATE]])]);
    let world = world(names, |path, port| match path {
        "/away" => redirect("http://other.example.test:P/next?q#part", port),
        "/inside" => redirect("http://127.0.0.1:P/", port),
        _ => page("", path.as_bytes()),
    });
    let world = world.await;
    let hop = async |path: &str| world.client.hop(world.request(&format!("http://pub.example.test:P{path}"))).await;
    let Ok(Hop::Page(answer)) = hop("/plain").await else { unreachable!() };
    assert_eq!(answer.body, b"/plain");
    let url = format!("http://other.example.test:{}/next?q#part", world.port);
    assert_eq!(hop("/away").await, Ok(Hop::Redirect { url }));
    assert!(matches!(hop("/inside").await, Err(PublicError::RedirectRefused { .. })));
    assert!(matches!(world.client.hop(world.request("http://[::1]:P/")).await, Err(PublicError::Refused(_))));
    assert_eq!((world.heads().len(), world.names.asked()), (3, vec!["pub.example.test".to_owned()]));
    world.assert_private_is_untouched();
}

#[tokio::test]
async fn another_origin_does_not_learn_who_asks() {
    let names = Names::of([("pub.example.test", &[&[OPEN]]), ("other.example.test", &[&[OPEN]])]);
    let world = world(names, |path, port| match path {
        "/0" => redirect("/1", port),
        "/1" => redirect("http://other.example.test:P/2", port),
        "/2" => redirect("http://pub.example.test:P/3", port),
        _ => page("", b""),
    });
    let world = world.await;
    let secret = ["Authorization", "Cookie", "X-Api-Key"];
    let mut request = world.request("http://pub.example.test:P/0");
    request.headers = secret.iter().map(|name| (name.to_string(), "zq".to_owned())).collect();
    request.headers.push(("Accept".into(), "text/html".into()));
    world.client.get(request).await.unwrap();
    let secrets = |head: &String| head.matches("zq").count();
    assert_eq!(world.heads().iter().map(secrets).collect::<Vec<_>>(), [3, 3, 0, 0]);
    assert!(world.heads().iter().all(|head| head.contains("accept: text/html\r\n")));
    assert!(!world.heads().concat().to_lowercase().contains("referer"));
}

#[tokio::test]
async fn a_caller_does_not_steer_the_connection() {
    let world = world(Names::of([("pub.example.test", &[&[OPEN]])]), |_, _| page("", b"")).await;
    for name in ["Host", "connection", "Transfer-Encoding", "content-length", "Proxy-Authorization", "a b", "x\r\ny"] {
        let mut request = world.request("http://pub.example.test:P/");
        request.headers = vec![(name.into(), "zq".into())];
        let error = world.client.get(request).await.unwrap_err();
        assert!(matches!(&error, PublicError::BadRequest { reason } if !reason.contains("zq")), "{error:?}");
    }
    let mut request = world.request("http://pub.example.test:P/");
    request.headers = vec![("Authorization".into(), "zq\r\nHost: x".into())];
    let error = world.client.get(request).await.unwrap_err();
    assert!(!format!("{error:?}").contains("zq"), "{error:?}");
    assert!(world.heads().is_empty());
}

#[tokio::test]
async fn a_body_has_a_limit_after_decoding_and_a_time() {
    let names = Names::of([("pub.example.test", &[&[OPEN]])]);
    let world = world(names, |path, _| match path {
        "/bomb" => page("content-encoding: gzip\r\n", &STANDARD.decode(BOMB).unwrap()),
        "/announced" => b"HTTP/1.1 200 OK\r\ncontent-length: 100001\r\n\r\n".to_vec(),
        "/endless" => [b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), &[b'x'; 100_001]].concat(),
        "/exact" => page("", &[b'x'; 100_000]),
        "/stuck" => b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nab".to_vec(),
        _ => vec![],
    });
    let world = world.await;
    assert_eq!(world.get("http://pub.example.test:P/exact").await.unwrap().body.len(), 100_000);
    for path in ["bomb", "announced", "endless"] {
        let error = world.get(&format!("http://pub.example.test:P/{path}")).await.unwrap_err();
        assert_eq!(error, PublicError::Exchange(ClientError::TooLarge { limit_bytes: 100_000 }), "{path}");
    }
    for path in ["stuck", "silent"] {
        let mut request = world.request(&format!("http://pub.example.test:P/{path}"));
        request.timeout = Duration::from_millis(100);
        assert_eq!(world.client.get(request).await, Err(PublicError::TimedOut { ms: 100 }), "{path}");
    }
}

#[test]
fn the_proxy_of_the_environment_is_not_asked() {
    const NAME: &str = "public::the_proxy_of_the_environment_is_not_asked";
    if std::env::var_os("HTTP_PROXY").is_none() {
        // The environment of a process cannot be changed safely, so the test runs itself again in another one.
        #[expect(clippy::disallowed_methods, reason = "the test's own binary, not a tool's program")]
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME])
            .env("HTTP_PROXY", "http://127.0.0.1:1")
            .env("http_proxy", "http://127.0.0.1:1")
            .env("ALL_PROXY", "http://127.0.0.1:1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = world(Names::of([("pub.example.test", &[&[OPEN]])]), |_, _| page("", b"")).await;
        assert_eq!(world.get("http://pub.example.test:P/").await.unwrap().status, 200);
    });
}
