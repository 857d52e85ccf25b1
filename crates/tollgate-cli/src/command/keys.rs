//! `tollgate keys`: who may come in over HTTP.

use tollgate_server::keys::{self, KeyError};

use super::{configuration, open_quietly};
use crate::args::{Format, Global, KeysAction};
use crate::failure::Failure;
use crate::output;
use tollgate::store::{AccessKey, KeyKind, StoreError};

pub(crate) async fn run(global: &Global, action: KeysAction) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    match action {
        KeysAction::List => list(global, &keys::list(&loaded.data_dir()).await?)?,
        KeysAction::Create { name, operator } => {
            if operator && global.role.is_some() {
                return Err(Failure::usage("an operator's key has no role: it answers approvals and does not call"));
            }
            let house = open_quietly(global, loaded).await?;
            if let Some(role) = &global.role {
                super::caller(&house, role, tollgate::Surface::Rest)?;
            }
            let kind = if operator { KeyKind::Operator } else { KeyKind::Client };
            let role = global.role.as_deref();
            let made = keys::create(house.data_dir(), &name, kind, role, &*house.clock()).await?;
            match output::format(global) {
                Format::Json => output::json(&serde_json::json!({ "key": made.secret.expose(), "access": made.key }))?,
                Format::Text => {
                    output::line(made.secret.expose())?;
                    output::err("this is the only time that it is shown\n");
                }
            }
        }
        KeysAction::Revoke { name } => {
            let house = open_quietly(global, loaded).await?;
            let revoked = keys::revoke(house.data_dir(), &name, &*house.clock()).await?;
            list(global, &[revoked])?;
        }
    }
    Ok(0)
}

fn list(global: &Global, keys: &[AccessKey]) -> Result<(), Failure> {
    if output::format(global) == Format::Json {
        return output::json(&keys);
    }
    if keys.is_empty() {
        return output::line("no keys were made yet: the first `tollgate serve` makes two");
    }
    let day = |time: tollgate::Timestamp| time.strftime("%Y-%m-%d %H:%M UTC").to_string();
    let rows = keys.iter().map(|key| {
        let revoked = key.revoked.map(day).unwrap_or_default();
        vec![key.name.clone(), key.kind.as_str().to_owned(), key.role.clone(), day(key.created), revoked]
    });
    output::out(&output::table(&["key", "kind", "role", "made", "revoked"], rows))
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        let message = error.to_string();
        match error {
            KeyError::Name(_) | KeyError::Store(StoreError::Conflict(_) | StoreError::NotFound(_)) => {
                Self::usage(message).hint("`tollgate keys list` lists them")
            }
            KeyError::Store(_) | KeyError::Random => Self::unavailable(message),
        }
    }
}
