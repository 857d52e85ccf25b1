//! The commands, one file each, and how each of them opens the house.

pub(crate) mod approvals;
pub(crate) mod audit;
mod budget;
pub(crate) mod call;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod init;
pub(crate) mod keys;
mod ladder;
pub(crate) mod mcp;
pub(crate) mod policy;
pub(crate) mod redact;
pub(crate) mod reload;
pub(crate) mod retain;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod tools;
pub(crate) mod undo;

use std::path::PathBuf;

use tollgate::config::{Found, Loaded, Start};
use tollgate::store::Unsettled;
use tollgate::{Builder, Caller, Surface, Tollgate};

use crate::args::Global;
use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::{log, output};

/// Reads the configuration that is meant.
pub(crate) fn configuration(global: &Global) -> Result<Loaded, Failure> {
    let folder = std::env::current_dir()
        .map_err(|error| Failure::usage(format!("the current folder cannot be read: {error}")))?;
    let user_config = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".config")));
    let loaded = tollgate::config::find(&Found { named: global.config.clone(), folder, user_config })?;
    log::configure(global, loaded.config.telemetry.get_ref());
    Ok(loaded)
}

/// Opens the house for a moment, and says what could not be had.
pub(crate) async fn open(global: &Global, loaded: Loaded) -> Result<Tollgate, Failure> {
    let house = open_quietly(global, loaded).await?;
    warn_of_unsettled(global, &house).await?;
    Ok(house)
}

/// The same for as long as somebody is served.
pub(crate) async fn open_to_serve(global: &Global, loaded: Loaded) -> Result<Tollgate, Failure> {
    let house = build(global, Tollgate::builder().config(loaded)).await?;
    warn_of_unsettled(global, &house).await?;
    Ok(house)
}

/// What is over in a moment starts no server that nobody asks for.
pub(crate) fn unhurried(mut loaded: Loaded) -> Loaded {
    for server in loaded.config.mcp.values_mut() {
        server.get_mut().start = Start::Lazy;
    }
    loaded
}

async fn warn_of_unsettled(global: &Global, house: &Tollgate) -> Result<(), Failure> {
    let unsettled = house.operator().unsettled().await?;
    if !unsettled.is_empty() {
        output::warn(global, &told(&unsettled));
    }
    Ok(())
}

/// Attempts whose outcome nobody knows that are told one by one.
const UNSETTLED_TOLD_MAX: usize = 5;

/// What was started and never finished, and what to do about it.
pub(crate) fn told(unsettled: &[Unsettled]) -> String {
    let mut text = format!("{} call(s) were started and never finished", unsettled.len());
    for Unsettled { attempt, tool, time, caller, .. } in unsettled.iter().take(UNSETTLED_TOLD_MAX) {
        let (tool, caller) = (output::visible(tool), output::visible(caller));
        text.push_str(&format!("\n  `{tool}` of {caller}, {time}: attempt {attempt}"));
    }
    let more = unsettled.len().saturating_sub(UNSETTLED_TOLD_MAX);
    if more > 0 {
        text.push_str(&format!("\n  and {more} more"));
    }
    text + "\ncheck whether each happened, then `tollgate audit settle ATTEMPT --as done` or `--as failed`"
}

/// The same without a word on what is unsettled, for those who settle it.
pub(crate) async fn open_quietly(global: &Global, loaded: Loaded) -> Result<Tollgate, Failure> {
    build(global, Tollgate::builder().config(unhurried(loaded))).await
}

/// The house for a person at a terminal, who is asked at once where a human must be asked.
pub(crate) async fn open_for_person(global: &Global, loaded: Loaded) -> Result<Tollgate, Failure> {
    let builder = Tollgate::builder().config(loaded);
    let house = match Terminal::new(&user()) {
        Some(terminal) => build(global, builder.approvals(terminal)).await?,
        None => build(global, builder).await?,
    };
    warn_of_unsettled(global, &house).await?;
    Ok(house)
}

async fn build(global: &Global, builder: Builder) -> Result<Tollgate, Failure> {
    let house = builder.build().await?;
    output::hide_with(house.redactor());
    for warning in house.warnings() {
        output::warn(global, warning);
    }
    Ok(house)
}

/// Who sits here.
pub(crate) fn user() -> String {
    let named = ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| "local".to_owned())
}

/// The caller of this command, in a role that exists.
pub(crate) fn caller(house: &Tollgate, role: &str, surface: Surface) -> Result<Caller, Failure> {
    let policy = house.gate().policy();
    if !policy.has_role(role) {
        let message = format!("no role is named `{role}`");
        return Err(Failure::usage(message).hint(format!("there is {}", policy.role_names().join(", "))));
    }
    Ok(Caller::new(user(), role, surface))
}
