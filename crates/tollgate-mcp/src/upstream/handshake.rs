//! Which era a server speaks (MCP 2026-07-28, Versioning: dual-era clients), found out without trusting it to be quick
//! or to know the question.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::config::Limits;
use super::fault::Fault;
use super::introduction::Introduction;
use super::link::Link;
use super::message::Ask;
use crate::server::Revision;

/// What an earlier start found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// It answered the probe: wait longer for it next time.
    Stateless,
    /// It did not: do not probe again.
    Handshake,
    /// It knows no streamable HTTP: open its event stream.
    Stream,
}

/// Errors that only a server of the stateless era gives: a header is wrong, a capability is missing.
const STATELESS_ERRORS: [i64; 2] = [-32020, -32021];
/// It does not speak the revision that was asked for; it says which it speaks.
const UNSUPPORTED_VERSION: i64 = -32022;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discovered<'a> {
    #[serde(borrow)]
    supported_versions: Vec<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialized<'a> {
    #[serde(borrow)]
    protocol_version: Cow<'a, str>,
}

/// Agrees on a revision. Gives what the server says of itself.
pub(super) async fn greet(link: &Link, memory: Option<Memory>, limits: &Limits) -> Result<Introduction, Fault> {
    if !matches!(memory, Some(Memory::Handshake | Memory::Stream))
        && let Some(introduction) = probe(link, memory, limits).await?
    {
        link.agree(Revision::V2026_07_28);
        return Ok(introduction);
    }
    let result = match link.ask_within(limits.handshake, Ask::Initialize { asks: link.asks() }).await {
        // It answered the probe when we no longer waited, and holds to the era of the first question.
        Err(Fault::Rpc(_)) if link.discovered_late() => {
            link.agree(Revision::V2026_07_28);
            return Ok(Introduction::default());
        }
        result => result?,
    };
    link.agree(negotiated(&result)?);
    link.tell_initialized().await?;
    Ok(Introduction::read(&result))
}

/// What the server says of itself in the stateless era; none where it does not speak it. Any error, and silence, mean that
/// it does not; only a server that is not there, or lets nobody in, is no answer.
async fn probe(link: &Link, memory: Option<Memory>, limits: &Limits) -> Result<Option<Introduction>, Fault> {
    let is_quick = link.is_stdio() && memory.is_none();
    let wait = if is_quick { limits.probe } else { limits.handshake };
    let answered = match link.ask_within(wait, Ask::Discover).await {
        // It speaks ours, and says so only now.
        Err(Fault::Rpc(failure)) if failure.code == UNSUPPORTED_VERSION && speaks(&failure.supported) => {
            link.ask_within(wait, Ask::Discover).await
        }
        answered => answered,
    };
    match answered {
        Ok(result) => Ok(speaks_stateless(&result).then(|| Introduction::read(&result))),
        Err(Fault::Rpc(failure)) => Ok(STATELESS_ERRORS.contains(&failure.code).then(Introduction::default)),
        Err(
            Fault::TimedOut { .. }
            | Fault::Broken(_)
            | Fault::Revision(_)
            | Fault::SessionLost { .. }
            | Fault::TooLarge { .. },
        ) => Ok(None),
        Err(fault @ Fault::Http { status, .. }) => match status {
            401 | 403 | 407 | 429 | 500.. => Err(fault),
            _ => Ok(None),
        },
        Err(fault @ (Fault::Closed(_) | Fault::Unreachable(_))) => Err(fault),
    }
}

/// Whether a server that refused the handshake over streamable HTTP may know the older transport (MCP 2025-11-25,
/// Transports: backwards compatibility).
pub(super) fn may_be_older(fault: &Fault) -> bool {
    matches!(fault, Fault::Http { status: 400..=499, .. })
        && !matches!(fault, Fault::Http { status: 401 | 403 | 407 | 408 | 429, .. })
}

fn speaks(versions: &[impl AsRef<str>]) -> bool {
    versions.iter().any(|version| version.as_ref() == Revision::V2026_07_28.as_str())
}

fn speaks_stateless(result: &RawValue) -> bool {
    let discovered = serde_json::from_str::<Discovered<'_>>(result.get());
    discovered.is_ok_and(|it| speaks(&it.supported_versions))
}

/// The revision that the answer to `initialize` names.
pub(super) fn negotiated(result: &RawValue) -> Result<Revision, Fault> {
    let Ok(initialized) = serde_json::from_str::<Initialized<'_>>(result.get()) else {
        return Err(Fault::Broken("the answer to `initialize` names no revision of the protocol".to_owned()));
    };
    let named = &*initialized.protocol_version;
    Revision::HANDSHAKE.into_iter().find(|revision| revision.as_str() == named).ok_or_else(|| {
        let shown: String = named.chars().take(40).flat_map(char::escape_debug).collect();
        Fault::Revision(shown)
    })
}
