//! `tollgate audit redact`: a filter with the ledger's rules. It opens no house and makes no data folder.

use std::io;

use tollgate::Secret;
use tollgate::config::RedactProfile;
use tollgate::redact::{SECRET_BYTES_MIN, filter};
use tollgate::store::InstallKey;

use super::configuration;
use crate::args::{Global, ProfileArg};
use crate::failure::Failure;

pub(crate) fn run(global: &Global, secret_env: &[String], profile: Option<ProfileArg>) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let profile = match profile {
        Some(ProfileArg::Default) => RedactProfile::Default,
        Some(ProfileArg::Pii) => RedactProfile::Pii,
        None => loaded.config.redact.profile,
    };
    let key =
        InstallKey::load_or_borrow(&loaded.data_dir()).map_err(|error| Failure::unavailable(error.to_string()))?;
    let redactor = loaded.redactor_with(key.as_bytes(), profile)?;
    for name in secret_env {
        redactor.add_secret(&secret(name)?);
    }
    match filter(&redactor, io::stdin().lock(), &mut io::stdout().lock()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => Err(Failure::unavailable(format!("the stream ended here: {error}"))),
        Ok(()) => Ok(0),
    }
}

fn secret(name: &str) -> Result<Secret, Failure> {
    let value = std::env::var(name).map_err(|error| {
        let what = match error {
            std::env::VarError::NotPresent => "is not set",
            std::env::VarError::NotUnicode(_) => "is not UTF-8",
        };
        Failure::usage(format!("the environment variable `{name}` {what}")).hint("export it, or leave --secret-env out")
    })?;
    if value.trim().len() < SECRET_BYTES_MIN {
        let message = format!("the value of `{name}` has fewer than {SECRET_BYTES_MIN} bytes");
        return Err(Failure::usage(message).hint("so short a text stands in half of all words: leave it out"));
    }
    Ok(Secret::new(value))
}
