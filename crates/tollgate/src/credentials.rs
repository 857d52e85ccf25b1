//! The headers of upstreams: resolved when the house is built, and read anew from files and commands when an upstream does
//! not take them any more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_guard::client::{CannotRead, CredentialSource};
use tollgate_guard::redact::Redactor;
use tollgate_types::{BoxFuture, Secret};

use crate::builder::{Resolved, resolve};
use crate::config::{Loaded, SecretSource, TextOrSecret};

/// Headers as the configuration gives them.
struct Source {
    /// For the log.
    whose: String,
    given: BTreeMap<String, TextOrSecret>,
    folder: PathBuf,
    redactor: Redactor,
}

/// Where these headers are read anew; none where none of them can be. The environment of a process does not change.
pub(crate) fn source(
    whose: String,
    given: BTreeMap<String, TextOrSecret>,
    loaded: &Loaded,
    redactor: &Redactor,
) -> Option<Arc<dyn CredentialSource>> {
    let can_change =
        |value: &TextOrSecret| matches!(value, TextOrSecret::Secret(SecretSource::File(_) | SecretSource::Command(_)));
    if !given.values().any(can_change) {
        return None;
    }
    let (folder, redactor) = (loaded.folder.clone(), redactor.clone());
    Some(Arc::new(Source { whose, given, folder, redactor }))
}

impl CredentialSource for Source {
    fn read(&self) -> BoxFuture<'_, Result<Vec<(String, Secret)>, CannotRead>> {
        Box::pin(async {
            let mut headers = Vec::new();
            for (name, value) in &self.given {
                match resolve(name, value, &self.folder, &self.redactor).await {
                    Ok(Resolved::Text(text)) => headers.push((name.clone(), Secret::new(text))),
                    Ok(Resolved::Secret(secret)) => headers.push((name.clone(), secret)),
                    Err(why) => {
                        tracing::warn!("{}: the credentials cannot be read anew: {why}", self.whose);
                        return Err(CannotRead::Unread);
                    }
                }
            }
            tracing::info!("{}: the credentials were refused and read anew", self.whose);
            Ok(headers)
        })
    }
}
