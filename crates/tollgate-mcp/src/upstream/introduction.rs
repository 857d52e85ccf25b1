//! What a server says of itself when it is greeted. People are shown it; nothing is decided by it but what is worth asking
//! the server for.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tollgate_types::limits;

use crate::jsonrpc::scan::is_deeper_than;

const NAME_CHARS_MAX: usize = 200;
const INSTRUCTIONS_CHARS_MAX: usize = 8_000;
const CAPABILITIES_BYTES_MAX: usize = 64 * 1024;

/// What a server says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Introduction {
    /// Its name for itself.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// How it wants to be used.
    pub instructions: Option<String>,
    /// What it can do, as it says it: an object, or null where it says nothing.
    pub capabilities: Value,
}

#[derive(Deserialize)]
struct Greeted<'a> {
    #[serde(rename = "serverInfo", default)]
    info: Option<Info>,
    #[serde(rename = "_meta", default)]
    meta: Option<Meta>,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(borrow, default)]
    capabilities: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo", default)]
    info: Option<Info>,
}

#[derive(Deserialize)]
struct Info {
    name: Option<String>,
    version: Option<String>,
}

impl Introduction {
    /// Reads the answer to `initialize` or `server/discover`. What makes no sense is left out.
    pub(super) fn read(result: &RawValue) -> Self {
        if is_deeper_than(result.get().as_bytes(), limits::JSON_DEPTH_MAX) {
            return Self::default();
        }
        let Ok(greeted) = serde_json::from_str::<Greeted<'_>>(result.get()) else { return Self::default() };
        let cut = |text: String, chars_max: usize| text.chars().take(chars_max).collect();
        let info = greeted.meta.and_then(|meta| meta.info).or(greeted.info);
        let (name, version) = info.map_or((None, None), |info| (info.name, info.version));
        let capabilities = greeted.capabilities.filter(|raw| raw.get().len() <= CAPABILITIES_BYTES_MAX);
        Self {
            name: name.map(|name| cut(name, NAME_CHARS_MAX)),
            version: version.map(|version| cut(version, NAME_CHARS_MAX)),
            instructions: greeted.instructions.map(|text| cut(text, INSTRUCTIONS_CHARS_MAX)),
            capabilities: capabilities.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default(),
        }
    }
}
