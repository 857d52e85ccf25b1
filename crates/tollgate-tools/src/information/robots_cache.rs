//! Asks a site's `robots.txt` before one of its pages is asked, and remembers it for a while.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate_guard::address::{Host, Refusal, Target};
use tollgate_guard::client::ClientError;
use tollgate_guard::public::{PublicClient, PublicError, PublicRequest};
use tollgate_types::{Code, ToolError, limits};

use super::pages::explain;
use super::robots::{PRODUCT, Robots};
use crate::typed::Stop;

/// What sites said, by origin.
#[derive(Default)]
pub(super) struct RobotsCache {
    known: Mutex<BTreeMap<String, Known>>,
}

struct Known {
    until: Duration,
    robots: Arc<Robots>,
}

impl RobotsCache {
    /// Lets a page be asked, or says why not.
    pub(super) async fn check(&self, client: &PublicClient, target: &Target, stop: &Stop) -> Result<(), ToolError> {
        let origin = target.url().origin().ascii_serialization();
        let robots = match self.known(&origin, stop.now()) {
            Some(robots) => robots,
            None => {
                let robots = Arc::new(ask(client, target, &origin, stop).await?);
                self.remember(&origin, &robots, stop.now());
                robots
            }
        };
        let query = target.url().query().map(|query| format!("?{query}")).unwrap_or_default();
        if robots.allows(&format!("{}{query}", target.url().path())) {
            return Ok(());
        }
        Err(ToolError::new(format!("`{origin}` asks programs not to read this page (its robots.txt, for `{PRODUCT}`)"))
            .with_tool_code("ROBOTS_DISALLOWED")
            .with_hint("look for the same elsewhere, or ask the user to open it"))
    }

    fn known(&self, origin: &str, now: Duration) -> Option<Arc<Robots>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(origin).filter(|known| now < known.until).map(|known| Arc::clone(&known.robots))
    }

    fn remember(&self, origin: &str, robots: &Arc<Robots>, now: Duration) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= limits::ROBOTS_KEPT_MAX {
            known.retain(|_, known| now < known.until);
        }
        if known.len() >= limits::ROBOTS_KEPT_MAX {
            known.clear();
        }
        let until = now.saturating_add(Duration::from_millis(limits::ROBOTS_KEPT_MS));
        known.insert(origin.to_owned(), Known { until, robots: Arc::clone(robots) });
    }
}

/// RFC 9309 §2.3.1: a site without the file allows everything, one that can not say allows nothing. Who asks for fewer
/// questions (429) is one that can not say.
async fn ask(client: &PublicClient, target: &Target, origin: &str, stop: &Stop) -> Result<Robots, ToolError> {
    let request = PublicRequest {
        url: format!("{origin}/robots.txt"),
        headers: vec![("accept".into(), "text/plain, */*;q=0.1".into())],
        body_bytes_max: limits::PAGE_BYTES_MAX,
        timeout: stop.left(),
    };
    let silent = |why: String| {
        ToolError::with_code(Code::UpstreamError, format!("`{origin}` can not say what programs may read: {why}"))
            .with_tool_code("ROBOTS_UNREACHABLE")
            .with_hint("without its robots.txt nothing is read there; ask again later")
            .retryable()
    };
    match client.get(request).await {
        Ok(answer) if (200..300).contains(&answer.status) => {
            let head = answer.body.get(..limits::ROBOTS_BYTES_MAX).unwrap_or(&answer.body);
            Ok(Robots::read(&String::from_utf8_lossy(head)))
        }
        Ok(answer) if answer.status == 429 || answer.status >= 500 => {
            Err(silent(format!("its robots.txt answers {}", answer.status)))
        }
        // Nothing there, or one that leads nowhere.
        Ok(_) | Err(PublicError::TooManyRedirects { .. }) => Ok(Robots::default()),
        Err(error @ PublicError::RedirectRefused { .. }) => Err(silent(error.to_string())),
        Err(PublicError::Refused(refusal @ (Refusal::Answer { .. } | Refusal::Unresolved { .. })))
            if !names(&refusal, target) =>
        {
            Err(silent(refusal.to_string()))
        }
        Err(PublicError::Exchange(error @ ClientError::TooLarge { .. })) => Err(silent(error.to_string())),
        // The page would fare no better.
        Err(error) => Err(explain(&error)),
    }
}

/// Whether it is the page's own host that was refused, and none that its site sent us to.
fn names(refusal: &Refusal, target: &Target) -> bool {
    match (refusal, target.host()) {
        (Refusal::Answer { host, .. } | Refusal::Unresolved { host, .. }, Host::Name(name)) => host == name,
        _ => false,
    }
}
