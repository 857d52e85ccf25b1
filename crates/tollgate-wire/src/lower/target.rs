//! For whom tools are lowered: a dialect, and what its server can do.

use crate::dialect::Dialect;
use crate::fit::{Fitted, Refusal, Subset};

/// Tools of one request where the provider states no number.
const TOOLS_MAX: usize = 1_024;
/// OpenAI takes 128 tools, and says so in its errors.
const OPENAI_TOOLS_MAX: usize = 128;
/// Gemini takes 512 declarations.
const GEMINI_TOOLS_MAX: usize = 512;
/// What Anthropic takes of strict tools in one request, all of them together.
const ANTHROPIC_STRICT_TOOLS_MAX: usize = 20;
const ANTHROPIC_OPTIONAL_MAX: usize = 24;
const ANTHROPIC_UNIONS_MAX: usize = 16;

/// A dialect, and what the server that speaks it can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// The dialect.
    pub dialect: Dialect,
    /// Whether the server shall hold the model to each schema that it can. Gemini has no such word for one tool.
    pub strict: bool,
    /// Whether tools of free text may go out as such; only Chat and Responses have them.
    pub custom: bool,
    /// In which form Gemini is told schemas.
    pub gemini: GeminiSchema,
    /// How many tools it takes. Those beyond are left out.
    pub tools_max: usize,
}

/// The two forms of schemas that Gemini has had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum GeminiSchema {
    /// `parametersJsonSchema`: JSON Schema as it is.
    #[default]
    Json,
    /// `parameters`: a part of OpenAPI's schemas, for older models and servers.
    OpenApi,
}

impl Target {
    /// The provider's own server: without `strict`, with what else it can.
    pub fn of(dialect: Dialect) -> Self {
        let tools_max = match dialect {
            Dialect::Chat | Dialect::Responses => OPENAI_TOOLS_MAX,
            Dialect::Gemini => GEMINI_TOOLS_MAX,
            Dialect::Anthropic => TOOLS_MAX,
        };
        Self { dialect, strict: false, custom: true, gemini: GeminiSchema::Json, tools_max }
    }

    /// The same with schemas that the server holds the model to.
    #[must_use]
    pub fn strictly(self) -> Self {
        Self { strict: true, ..self }
    }

    pub(super) fn takes_text(&self) -> bool {
        self.custom && matches!(self.dialect, Dialect::Chat | Dialect::Responses)
    }

    pub(super) fn plain_subset(&self) -> Subset {
        match (self.dialect, self.gemini) {
            (Dialect::Gemini, GeminiSchema::OpenApi) => Subset::GeminiOpenApi,
            _ => Subset::Plain,
        }
    }

    pub(super) fn strict_subset(&self) -> Option<Subset> {
        match self.dialect {
            _ if !self.strict => None,
            Dialect::Chat | Dialect::Responses => Some(Subset::OpenAiStrict),
            Dialect::Anthropic => Some(Subset::AnthropicStrict),
            Dialect::Gemini => None,
        }
    }
}

impl Default for Target {
    fn default() -> Self {
        Self::of(Dialect::default())
    }
}

/// What is left of what strict tools of one request may have together.
pub(super) struct StrictBudget {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl StrictBudget {
    pub(super) fn of(target: &Target) -> Self {
        match target.dialect {
            Dialect::Anthropic => Self {
                tools: ANTHROPIC_STRICT_TOOLS_MAX,
                optional: ANTHROPIC_OPTIONAL_MAX,
                unions: ANTHROPIC_UNIONS_MAX,
            },
            Dialect::Chat | Dialect::Responses | Dialect::Gemini => {
                Self { tools: usize::MAX, optional: usize::MAX, unions: usize::MAX }
            }
        }
    }

    /// Takes a schema's share, or says what there is too little of.
    pub(super) fn take<'s>(&mut self, fitted: Fitted<'s>) -> Result<Fitted<'s>, Refusal> {
        let left = |left: usize, share: usize, what: &str| {
            let why = || format!("the strict tools of one request have too many {what} together");
            left.checked_sub(share).ok_or_else(|| Refusal::new("", why()))
        };
        let tools = left(self.tools, 1, "schemas")?;
        let optional = left(self.optional, fitted.counts.optional, "optional properties")?;
        let unions = left(self.unions, fitted.counts.unions, "unions")?;
        *self = Self { tools, optional, unions };
        Ok(fitted)
    }
}
