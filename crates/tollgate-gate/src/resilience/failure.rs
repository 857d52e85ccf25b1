//! What kind of failure it is, which decides who may do anything about it.

use tollgate_types::{Code, DEFAULT_STRATEGY, NETWORK_ERROR, Status, ToolError};

/// Tool codes of a way that broke, or of a server that has no time: HTTP's are RFC 9110 §15 and RFC 6585 §4.
const NETWORK_CODES: [&str; 9] = [
    "UNREACHABLE",
    "BROKEN_OFF",
    "RATE_LIMITED",
    "HTTP_408",
    "HTTP_425",
    "HTTP_429",
    "HTTP_502",
    "HTTP_503",
    "HTTP_504",
];
/// Tool codes of a server that does not know us.
const AUTH_CODES: [&str; 3] = ["HTTP_401", "HTTP_403", "HTTP_407"];
/// A server that has no time is not one that is broken.
const BUSY_CODES: [&str; 2] = ["RATE_LIMITED", "HTTP_429"];

/// The kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A decision, or the end of it all: nothing is done about it.
    Final,
    /// The operator must look at the credentials: the same call again is refused again.
    Auth,
    /// The way to the server, or a server that has no time.
    Network,
    /// Its time was up.
    Timeout,
    /// Whatever else the tool says.
    Other,
}

/// One failure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure<'a> {
    pub(crate) error: &'a ToolError,
    pub(crate) class: Class,
}

impl<'a> Failure<'a> {
    pub(crate) fn of(error: &'a ToolError) -> Self {
        Self { error, class: class(error) }
    }

    /// The keys under which something may be declared about it, the closest first.
    pub(crate) fn keys(&self) -> Vec<&'a str> {
        let network = (self.class == Class::Network).then_some(NETWORK_ERROR);
        let own = [self.error.tool_code.as_deref(), Some(self.error.code.as_str())];
        own.into_iter().chain([network, Some(DEFAULT_STRATEGY)]).flatten().collect()
    }

    /// Whether it counts against the source: it is broken, or too slow.
    pub(crate) fn is_of_source(&self) -> bool {
        let code = self.error.tool_code.as_deref().unwrap_or_default();
        match self.class {
            Class::Timeout => true,
            // A server that is down is started again by its own supervisor, and refuses at once meanwhile.
            Class::Network => self.error.code == Code::UpstreamError && !BUSY_CODES.contains(&code),
            Class::Other => self.error.code == Code::UpstreamError && code.starts_with("HTTP_5"),
            Class::Final | Class::Auth => false,
        }
    }
}

/// Whether nothing may be declared about this code: a refusal stays one, what nobody knows is not made worse, and what is
/// found out only once the tool has answered comes too late.
pub(crate) fn is_final(code: Code) -> bool {
    match code.status() {
        Status::Refused => !matches!(code, Code::Unavailable | Code::RateLimited),
        Status::Unknown | Status::Waiting | Status::Done => true,
        Status::Failed => {
            matches!(code, Code::Cancelled | Code::AuditUnavailable | Code::InvalidOutput | Code::Internal)
        }
    }
}

/// Whether a code, the gate's or the tool's, is one of the way to a server.
pub(crate) fn is_network(code: &str) -> bool {
    NETWORK_CODES.contains(&code) || [Code::Unavailable, Code::RateLimited].iter().any(|known| known.as_str() == code)
}

fn class(error: &ToolError) -> Class {
    let code = error.tool_code.as_deref();
    let is_one_of = |codes: &[&str]| code.is_some_and(|code| codes.contains(&code));
    match error.code {
        code if is_final(code) => Class::Final,
        _ if is_one_of(&AUTH_CODES) => Class::Auth,
        Code::Timeout => Class::Timeout,
        Code::Unavailable | Code::RateLimited if error.client_lacks.is_none() => Class::Network,
        Code::UpstreamError if error.retryable && (code.is_none() || is_one_of(&NETWORK_CODES)) => Class::Network,
        _ => Class::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_its_class() {
        let upstream = |code: &str| ToolError::with_code(Code::UpstreamError, "x").with_tool_code(code);
        let cases = [
            (ToolError::new("no"), Class::Other, false),
            (ToolError::with_code(Code::Timeout, "x"), Class::Timeout, true),
            (ToolError::with_code(Code::UpstreamError, "x"), Class::Network, true),
            (upstream("UNREACHABLE"), Class::Network, true),
            (upstream("HTTP_503"), Class::Network, true),
            (upstream("HTTP_500"), Class::Other, true),
            (upstream("RATE_LIMITED"), Class::Network, false),
            (upstream("HTTP_401"), Class::Auth, false),
            (ToolError::new("x").with_tool_code("HTTP_403"), Class::Auth, false),
            (upstream("RPC_-32602"), Class::Other, false),
            (ToolError::with_code(Code::Unavailable, "down"), Class::Network, false),
            (ToolError::client_lacks(tollgate_types::ClientCapability::Roots), Class::Other, false),
            (ToolError::with_code(Code::Denied, "x"), Class::Final, false),
            (ToolError::with_code(Code::InvalidArguments, "x"), Class::Final, false),
            (ToolError::with_code(Code::Cancelled, "x"), Class::Final, false),
            (ToolError::with_code(Code::OutcomeUnknown, "x"), Class::Final, false),
            (ToolError::with_code(Code::InvalidOutput, "x"), Class::Final, false),
        ];
        for (error, class, is_of_source) in cases {
            let failure = Failure::of(&error);
            assert_eq!((failure.class, failure.is_of_source()), (class, is_of_source), "{error:?}");
        }
    }
}
