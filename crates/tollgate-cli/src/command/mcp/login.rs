//! `tollgate mcp login` and `tollgate mcp logout`: a person agrees in a browser that Tollgate may use a server for them, and
//! takes that back.

use std::time::Duration;

use serde::Serialize;
use tollgate::Tollgate;
use tollgate::mcp::oauth::{AuthError, LoggedIn, Oauth};

use super::browser::{Browser, Way};
use super::{known, only};
use crate::args::{Format, Global, LoginArgs};
use crate::command::{configuration, open};
use crate::failure::Failure;
use crate::output::{self, visible};

/// What is printed as JSON.
#[derive(Serialize)]
struct Report {
    server: String,
    #[serde(flatten)]
    login: LoggedIn,
}

pub(super) async fn log_in(global: &Global, args: LoginArgs) -> Result<u8, Failure> {
    let LoginArgs { name, no_browser, scope, wait } = args;
    let loaded = configuration(global)?;
    known(&loaded, &name)?;
    let oauth = loaded.config.mcp.get(&name).and_then(|server| server.get_ref().oauth.as_ref());
    let port = oauth.and_then(|oauth| oauth.redirect_port);
    let house = open(global, only(loaded, std::slice::from_ref(&name))).await?;
    let done = async {
        let login = of(&house, &name)?;
        let way = if no_browser { Way::Pasted } else { Way::Opened };
        let browser = Browser::on(port, login.redirect_uri().as_deref(), way, Duration::from_secs(wait.into())).await?;
        login.log_in(&browser, &scope).await.map_err(|error| failure(&name, &error))
    };
    let done = done.await;
    house.stop().await;
    let report = Report { login: done?, server: name };
    match output::format(global) {
        Format::Json => output::json_hiding(&report)?,
        Format::Text => output::line(&for_people(&report))?,
    }
    Ok(0)
}

pub(super) async fn log_out(global: &Global, name: &str) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    known(&loaded, name)?;
    let house = open(global, only(loaded, &[name.to_owned()])).await?;
    let done = async { of(&house, name)?.log_out().await.map_err(|error| failure(name, &error)) };
    let done = done.await;
    house.stop().await;
    let was_in = done?;
    match output::format(global) {
        Format::Json => output::json(&serde_json::json!({ "server": name, "was_logged_in": was_in }))?,
        Format::Text if was_in => output::line(&format!("logged out of `{name}`"))?,
        Format::Text => output::line(&format!("nobody was logged in to `{name}`"))?,
    }
    Ok(0)
}

fn of(house: &Tollgate, name: &str) -> Result<std::sync::Arc<Oauth>, Failure> {
    house.login(name).ok_or_else(|| {
        Failure::usage(format!("there is nothing to log in to at `{name}`"))
            .hint(format!("a login is for a `url` without `headers`, or with [mcp.{name}.oauth]"))
    })
}

fn failure(name: &str, error: &AuthError) -> Failure {
    let message = format!("no login to `{name}`: {}", visible(&error.to_string()));
    let hint = match error {
        AuthError::NoClient { .. } => format!("client_id = \"…\" below [mcp.{name}.oauth]; docs/logins.md"),
        AuthError::OtherIssuer { .. } => {
            format!("if that is right, correct `issuer` of [mcp.{name}.oauth], and log out first")
        }
        AuthError::NotAsked { .. } => {
            format!(
                "if the authorization server is one of yours, name it: issuer = \"https://…\" below [mcp.{name}.oauth]"
            )
        }
        AuthError::NoPkce { .. } | AuthError::Metadata(_) | AuthError::BadToken { .. } => {
            "whoever runs the server must mend that; docs/logins.md says what is looked at".to_owned()
        }
        AuthError::Human(_) | AuthError::NoAnswer(_) => format!("tollgate mcp login {name}    begins anew"),
        AuthError::Refused { .. } | AuthError::Unreachable(_) | AuthError::File(_) => {
            format!("tollgate doctor says how `{name}` does")
        }
    };
    let failure = match error {
        AuthError::Refused { .. } | AuthError::Human(_) | AuthError::NoAnswer(_) => Failure::refused(message),
        _ => Failure::unavailable(message),
    };
    failure.hint(hint)
}

fn for_people(Report { server, login }: &Report) -> String {
    let scopes = match login.scopes.is_empty() {
        true => "what the server gives".to_owned(),
        false => visible(&login.scopes.join(" ")),
    };
    let until = match (login.expires_at, login.is_renewed) {
        (_, true) => "renewed by itself".to_owned(),
        (Some(end), false) => format!("until {end:.0}"),
        (None, false) => "until it is taken back".to_owned(),
    };
    format!("logged in to `{server}` at {}, for {scopes}, {until}", visible(&login.issuer))
}
