//! What the program that asks can do beyond asking: a tool may need its help.

use serde::{Deserialize, Serialize};

/// One thing that a client may offer to a server (MCP, Client features).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientCapability {
    /// To ask its human.
    Elicitation,
    /// To ask its model.
    Sampling,
    /// To say which folders it works in.
    Roots,
}

impl ClientCapability {
    /// The name in MCP.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }
}

/// What a client offers. Surfaces without such a client offer nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// To ask its human by a form.
    pub elicitation: bool,
    /// To ask its human to open a page.
    pub elicitation_url: bool,
    /// To ask its model.
    pub sampling: bool,
    /// To let its model call tools of who asks.
    pub sampling_tools: bool,
    /// To say which folders it works in.
    pub roots: bool,
    /// To show images to its model. No protocol says so: the surface knows its model.
    pub images: bool,
}

impl ClientCapabilities {
    /// Whether the client offers it.
    ///
    /// ```
    /// use tollgate_types::{ClientCapabilities, ClientCapability};
    ///
    /// let client = ClientCapabilities { sampling: true, ..ClientCapabilities::default() };
    /// assert!(client.offers(ClientCapability::Sampling) && !client.offers(ClientCapability::Roots));
    /// ```
    pub fn offers(self, capability: ClientCapability) -> bool {
        match capability {
            ClientCapability::Elicitation => self.elicitation || self.elicitation_url,
            ClientCapability::Sampling => self.sampling,
            ClientCapability::Roots => self.roots,
        }
    }
}
