//! What clients offer, as a server is told it (MCP, Client features).

use serde::Serialize;
use tollgate_types::ClientCapabilities;

use super::config::Asks;

/// A capability that is offered by being there.
#[derive(Serialize)]
pub(super) struct Nothing {}

/// What a client offers.
#[derive(Default, Serialize)]
pub(super) struct Offered {
    #[serde(skip_serializing_if = "Option::is_none")]
    elicitation: Option<Modes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<Samples>,
    #[serde(skip_serializing_if = "Option::is_none")]
    roots: Option<Nothing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<Extensions>,
}

/// The extensions that we know ourselves, whatever our clients do.
#[derive(Serialize)]
struct Extensions {
    #[serde(rename = "io.modelcontextprotocol/tasks")]
    tasks: Nothing,
}

#[derive(Serialize)]
struct Modes {
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<Nothing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<Nothing>,
}

#[derive(Serialize)]
struct Samples {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Nothing>,
}

impl Offered {
    /// What some client may offer, for a session of the older era, which is for all. The folders of one client are not
    /// those of another: there nobody's can be asked for.
    pub(super) fn some(asks: Asks) -> Self {
        let all = ClientCapabilities {
            elicitation: true,
            elicitation_url: true,
            sampling: true,
            sampling_tools: true,
            ..ClientCapabilities::default()
        };
        asks.of(all).into()
    }

    /// The same, and that a call may become a task.
    pub(super) fn knowing_tasks(self, knows: bool) -> Self {
        Self { extensions: knows.then_some(Extensions { tasks: Nothing {} }), ..self }
    }
}

impl From<ClientCapabilities> for Offered {
    fn from(client: ClientCapabilities) -> Self {
        let ClientCapabilities { elicitation, elicitation_url, sampling, sampling_tools, roots, images: _ } = client;
        let nothing = |is_offered: bool| is_offered.then_some(Nothing {});
        let modes = || Modes { form: nothing(elicitation), url: nothing(elicitation_url) };
        Self {
            elicitation: (elicitation || elicitation_url).then(modes),
            sampling: sampling.then(|| Samples { tools: nothing(sampling_tools) }),
            roots: nothing(roots),
            extensions: None,
        }
    }
}
