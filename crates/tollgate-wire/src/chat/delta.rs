//! The JSON of a chunk or a reply, read with tolerance: unknown fields, nulls and wrong kinds do no harm, and the
//! arguments stay the raw text that they are.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::object::Object;

/// The names under which servers send what a model thinks: DeepSeek, Qwen and older vLLM; newer vLLM and others.
pub(crate) const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];

#[derive(Deserialize)]
pub(crate) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(crate) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    pub(crate) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct Choice<'a> {
    #[serde(borrow, default)]
    pub(crate) index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) delta: Option<Object<'a>>,
    #[serde(borrow, default)]
    pub(crate) message: Option<Object<'a>>,
    #[serde(borrow, default)]
    pub(crate) finish_reason: Option<&'a RawValue>,
    /// Some gateways say here what went wrong.
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

/// What of a message nobody wants back.
const SILENT: [&str; 4] = ["role", "annotations", "audio", "parsed"];

/// What a chunk, a reply or a history says of a model's message.
pub(crate) struct Delta<'a> {
    pub(crate) content: Option<&'a RawValue>,
    pub(crate) refusal: Option<&'a RawValue>,
    /// What the model thinks, under each of [`REASONING`].
    pub(crate) reasoning: [Option<&'a RawValue>; REASONING.len()],
    tool_calls: Option<&'a RawValue>,
    function_call: Option<&'a RawValue>,
    /// What else there is.
    pub(crate) more: Object<'a>,
}

impl<'a> Delta<'a> {
    pub(crate) fn of(mut more: Object<'a>) -> Self {
        for name in SILENT {
            more.take(name);
        }
        Self {
            content: more.take("content"),
            refusal: more.take("refusal"),
            reasoning: REASONING.map(|name| more.take(name)),
            tool_calls: more.take("tool_calls"),
            function_call: more.take("function_call"),
            more,
        }
    }

    /// The fragments of calls, in order; the older `function_call` is one of them.
    pub(crate) fn call_deltas(&self) -> Result<Vec<CallDelta<'a>>, serde_json::Error> {
        let deltas: Vec<Object<'a>> = match self.tool_calls {
            None => Vec::new(),
            Some(raw) if raw.get().starts_with('{') => vec![serde_json::from_str(raw.get())?],
            Some(raw) => serde_json::from_str(raw.get())?,
        };
        let mut deltas = deltas.into_iter().map(CallDelta::of).collect::<Result<Vec<_>, _>>()?;
        // Some servers say the first call in the older form too.
        if let Some(function) = self.function_call.filter(|_| deltas.is_empty()) {
            let function = Some(serde_json::from_str(function.get())?);
            deltas.push(CallDelta { function, ..CallDelta::default() });
        }
        Ok(deltas)
    }
}

/// A fragment of a call, or a whole one.
#[derive(Default)]
pub(crate) struct CallDelta<'a> {
    pub(crate) index: Option<&'a RawValue>,
    pub(crate) id: Option<&'a RawValue>,
    pub(crate) function: Option<Function<'a>>,
    /// Whether its arguments are free text (`type: custom`).
    pub(crate) is_text: bool,
    /// What else there is, such as `extra_content` with the signature of a thought.
    pub(crate) more: Map<String, Value>,
}

impl<'a> CallDelta<'a> {
    fn of(mut fields: Object<'a>) -> Result<Self, serde_json::Error> {
        fields.take("type");
        let (index, id, custom) = (fields.take("index"), fields.take("id"), fields.take("custom"));
        let function = fields.take("function").or(custom);
        let function = function.map(|function| serde_json::from_str(function.get())).transpose()?;
        Ok(Self { index, id, function, is_text: custom.is_some(), more: kept(fields.into_map()) })
    }
}

/// Without what says nothing.
pub(crate) fn kept(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    });
    fields
}

#[derive(Clone, Copy, Deserialize)]
pub(crate) struct Function<'a> {
    #[serde(borrow, default)]
    pub(crate) name: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "input")]
    pub(crate) arguments: Option<&'a RawValue>,
}

/// A string, or a number as text; anything else is nothing.
pub(crate) fn scalar_text(raw: Option<&RawValue>) -> Cow<'_, str> {
    match raw.map(RawValue::get) {
        Some(text) if text.starts_with('"') => serde_json::from_str::<String>(text).unwrap_or_default().into(),
        Some(text) if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => text.into(),
        _ => "".into(),
    }
}

/// A whole number, also when it comes as a string.
pub(crate) fn integer(raw: Option<&RawValue>) -> Option<i64> {
    scalar_text(raw).parse().ok()
}

/// Arguments that came whole: the content of a string, or the JSON of anything else as it stands.
pub(crate) fn arguments_text(raw: Option<&RawValue>) -> String {
    raw.map(|raw| Unescape::default().piece(raw).into_owned()).unwrap_or_default()
}

/// Decodes strings that come in pieces. Servers that cut text between UTF-16 units split a surrogate pair over two
/// pieces; the halves are joined here.
#[derive(Debug, Default)]
pub(crate) struct Unescape {
    high: Option<u16>,
    has_lost: bool,
}

impl Unescape {
    /// The text of the next piece: the content of a string, or the JSON of anything else as it stands.
    pub(crate) fn piece<'a>(&mut self, raw: &'a RawValue) -> Cow<'a, str> {
        let Some(inner) = raw.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
            return raw.get().into();
        };
        if self.high.is_none() {
            if !inner.contains('\\') {
                return inner.into();
            }
            if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
                return text.into();
            }
        }
        self.decode(inner).into()
    }

    /// Whether half of a pair was never followed by the other, so that the text is not what was meant.
    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost || self.high.is_some()
    }

    // INVARIANT: `inner` is the inside of a valid JSON string, so that each escape is whole.
    fn decode(&mut self, inner: &str) -> String {
        let mut out = String::with_capacity(inner.len());
        let mut chars = inner.chars();
        while let Some(char) = chars.next() {
            if char != '\\' {
                self.unit_or(Ok(char), &mut out);
                continue;
            }
            let decoded = match chars.next() {
                Some('u') => {
                    let digits = chars.by_ref().take(4).filter_map(|digit| digit.to_digit(16));
                    let unit = digits.fold(0, |unit, digit| unit << 4 | digit);
                    char::from_u32(unit).ok_or_else(|| u16::try_from(unit).unwrap_or_default())
                }
                Some('b') => Ok('\u{8}'),
                Some('f') => Ok('\u{c}'),
                Some('n') => Ok('\n'),
                Some('r') => Ok('\r'),
                Some('t') => Ok('\t'),
                other => Ok(other.unwrap_or(char::REPLACEMENT_CHARACTER)),
            };
            self.unit_or(decoded, &mut out);
        }
        out
    }

    /// Takes a character, or half of a pair.
    fn unit_or(&mut self, decoded: Result<char, u16>, out: &mut String) {
        let high = self.high.take();
        let joined = match (high, decoded) {
            (Some(high), Err(low)) => char::decode_utf16([high, low]).next().and_then(Result::ok),
            _ => None,
        };
        if let Some(joined) = joined {
            return out.push(joined);
        }
        if high.is_some() {
            self.lose(out);
        }
        match decoded {
            Ok(char) => out.push(char),
            Err(unit @ 0xD800..=0xDBFF) => self.high = Some(unit),
            Err(_) => self.lose(out),
        }
    }

    fn lose(&mut self, out: &mut String) {
        self.has_lost = true;
        out.push(char::REPLACEMENT_CHARACTER);
    }
}
