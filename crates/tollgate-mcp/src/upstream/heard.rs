//! What a server says unasked: which of its lists changed, and which resource.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use tollgate_types::Owner;

use super::message::Lists;

/// Told the URI of a resource that changed, as the server names it. It is called on the server's own task and must not
/// block.
pub(super) type OnUpdate = Arc<dyn Fn(&str) + Send + Sync>;
/// The same by the name of the entry, and whose connection said it, where each caller has one.
pub(super) type Tell = Arc<dyn Fn(&str, Option<&Owner>) + Send + Sync>;

/// What a server said unasked.
#[derive(Default)]
pub(super) struct Heard {
    changed: Mutex<BTreeSet<Lists>>,
    more: Notify,
    on_update: OnceLock<OnUpdate>,
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heard").field("changed", &self.changed).finish_non_exhaustive()
    }
}

impl Heard {
    /// Takes a notification; what is not about lists or resources is nothing here.
    pub(super) fn take(&self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/tools/list_changed" => self.add([Lists::Tools]),
            "notifications/resources/list_changed" => self.add([Lists::Resources, Lists::Templates]),
            "notifications/prompts/list_changed" => self.add([Lists::Prompts]),
            "notifications/resources/updated" => self.updated(params),
            _ => {}
        }
    }

    /// These lists are to be asked for again.
    pub(super) fn add(&self, lists: impl IntoIterator<Item = Lists>) {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).extend(lists);
        self.more.notify_one();
    }

    fn updated(&self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Updated<'a> {
            #[serde(borrow)]
            uri: Cow<'a, str>,
        }
        if let Some(updated) = params.and_then(|raw| serde_json::from_str::<Updated<'_>>(raw.get()).ok()) {
            self.updated_all([&*updated.uri]);
        }
    }

    /// These resources changed, or may have while nobody heard.
    pub(super) fn updated_all(&self, uris: impl IntoIterator<Item = impl AsRef<str>>) {
        if let Some(on_update) = self.on_update.get() {
            uris.into_iter().for_each(|uri| on_update(uri.as_ref()));
        }
    }

    /// Who is told of resources that change. The first who asks for it is.
    pub(super) fn tell(&self, on_update: OnUpdate) {
        let _ = self.on_update.set(on_update);
    }

    /// Waits until some list has changed.
    pub(super) async fn changed(&self) {
        self.more.notified().await;
    }

    /// The lists that changed since this was asked last.
    pub(super) fn lists(&self) -> BTreeSet<Lists> {
        std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
