//! The recording of AgentDojo's tasks, as `scripts/agentdojo_record.py` writes it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// All suites.
#[derive(Debug, Clone, Deserialize)]
pub struct Recorded {
    /// Which version of what was recorded.
    pub source: String,
    /// The licence of the texts.
    pub licence: String,
    /// The suites.
    pub suites: Vec<RecordedSuite>,
}

/// One environment with its tasks.
#[derive(Debug, Clone, Deserialize)]
pub struct RecordedSuite {
    /// Its name.
    pub name: String,
    /// The places where an injection can stand, and what stands there otherwise.
    pub vectors: BTreeMap<String, String>,
    /// Its tools.
    pub tools: Vec<RecordedTool>,
    /// What users ask for.
    pub user_tasks: Vec<RecordedTask>,
    /// What injections ask for.
    pub injection_tasks: Vec<RecordedTask>,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, Deserialize)]
pub struct RecordedTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its arguments, as a JSON Schema.
    pub parameters: Map<String, Value>,
}

/// A task and the calls that solve it.
#[derive(Debug, Clone, Deserialize)]
pub struct RecordedTask {
    /// Its name within the suite.
    pub id: String,
    /// The user's words, or the injection's.
    #[serde(alias = "goal")]
    pub prompt: String,
    /// Whose the calls are.
    #[serde(default)]
    pub source: Source,
    /// Whether AgentDojo's checker found the goal reached after these calls.
    pub reaches_goal: bool,
    /// The calls, in order.
    pub calls: Vec<RecordedCall>,
}

/// Whose the calls of a task are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// AgentDojo's ground truth.
    #[default]
    Agentdojo,
    /// Written for the replay, because AgentDojo gives none.
    Written,
    /// There are none: the goal is a sentence in the answer.
    None,
}

/// One call and what came back.
#[derive(Debug, Clone, Deserialize)]
pub struct RecordedCall {
    /// The tool.
    pub tool: String,
    /// The arguments; marks of vectors may stand in them.
    pub args: Value,
    /// What the tool returned; marks of vectors may stand in it.
    pub result: String,
    /// Of an injection's call: whether the goal is missed without it, by AgentDojo's checker.
    #[serde(default)]
    pub counts: bool,
}

/// What stands at the vectors.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// What AgentDojo has there by default.
    Default,
    /// An injection.
    Injection(&'a str),
}

impl RecordedSuite {
    /// A text with its marks filled in, and whether there were any.
    pub(super) fn fill(&self, text: &str, place: Place<'_>) -> (String, bool) {
        let mut filled = text.to_owned();
        let mut has_mark = false;
        for (vector, default) in &self.vectors {
            let mark = format!("[[{vector}]]");
            if filled.contains(&mark) {
                has_mark = true;
                let with = match place {
                    Place::Default => default,
                    Place::Injection(text) => text,
                };
                filled = filled.replace(&mark, with);
            }
        }
        (filled, has_mark)
    }

    /// The same for every text of a value.
    pub(super) fn fill_value(&self, value: &Value, place: Place<'_>) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text, place).0),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item, place)).collect(),
            Value::Object(map) => {
                map.iter().map(|(key, item)| (key.clone(), self.fill_value(item, place))).collect::<Map<_, _>>().into()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}
