//! Finding tools by words: BM25 over their definitions (Robertson, Zaragoza: The Probabilistic Relevance Framework, 2009),
//! a word counting more in a name than in a description. What has no word of the question is not found: that nothing fits
//! is an answer too.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tollgate_types::ToolDefinition;

/// How soon more of the same word adds little.
const SATURATION: f64 = 1.2;
/// How much a long definition is discounted.
const LENGTH: f64 = 0.75;
const NAME_WEIGHT: f64 = 4.0;
const TAG_WEIGHT: f64 = 2.0;
const TEXT_WEIGHT: f64 = 1.0;
/// Words of a question and of a definition that are looked at.
const QUERY_WORDS_MAX: usize = 64;
const TOOL_WORDS_MAX: usize = 2_000;
/// Words that are in every question and say nothing of a tool.
const EMPTY_WORDS: [&str; 38] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "for", "from", "how", "i", "in", "into", "is", "it",
    "me", "my", "of", "on", "or", "that", "the", "this", "to", "tool", "use", "want", "what", "which", "with", "you",
    "的", "了", "我", "请",
];

/// The tools that have words of `query`, best first, at most `most`. Of equals the first one given comes first.
///
/// ```
/// use tollgate_catalog::search;
/// use tollgate_types::ToolDefinition;
///
/// let tools = [ToolDefinition::new("read_file", "Reads a file."), ToolDefinition::new("send_mail", "寄出一封邮件。")];
/// assert_eq!(search("发送邮件", &tools, 5)[0].name, "send_mail");
/// assert!(search("weather in Paris", &tools, 5).is_empty());
/// ```
pub fn search<'a>(
    query: &str,
    tools: impl IntoIterator<Item = &'a ToolDefinition>,
    most: usize,
) -> Vec<&'a ToolDefinition> {
    let asked: BTreeSet<String> = words(query).take(QUERY_WORDS_MAX).collect();
    let documents: Vec<Document<'a>> = tools.into_iter().map(|tool| Document::of(tool, &asked)).collect();
    let count = documents.len() as f64;
    let mean = documents.iter().map(|document| document.length).sum::<f64>() / count.max(1.0);
    let rarity: BTreeMap<&str, f64> = asked
        .iter()
        .map(|word| {
            let with = documents.iter().filter(|document| document.weights.contains_key(word)).count() as f64;
            (word.as_str(), (1.0 + (count - with + 0.5) / (with + 0.5)).ln())
        })
        .collect();
    let mut found: Vec<(f64, &'a ToolDefinition)> = documents
        .iter()
        .map(|document| (document.score(&rarity, mean), document.tool))
        .filter(|(score, _)| *score > 0.0)
        .collect();
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found.into_iter().take(most).map(|(_, tool)| tool).collect()
}

/// A definition as the words that were asked for.
struct Document<'a> {
    tool: &'a ToolDefinition,
    weights: BTreeMap<String, f64>,
    length: f64,
}

impl<'a> Document<'a> {
    fn of(tool: &'a ToolDefinition, asked: &BTreeSet<String>) -> Self {
        let mut document = Self { tool, weights: BTreeMap::new(), length: 0.0 };
        document.take(&tool.name, NAME_WEIGHT, asked);
        for tag in tool.title.iter().chain(&tool.aliases).chain(&tool.tags) {
            document.take(tag, TAG_WEIGHT, asked);
        }
        for text in [Some(&tool.description), tool.when.as_ref()].into_iter().flatten() {
            document.take(text, TEXT_WEIGHT, asked);
        }
        let arguments = tool.input_schema.get("properties").and_then(Value::as_object);
        for (name, schema) in arguments.into_iter().flatten() {
            document.take(name, TEXT_WEIGHT, asked);
            document.take(schema.get("description").and_then(Value::as_str).unwrap_or_default(), TEXT_WEIGHT, asked);
        }
        document
    }

    fn take(&mut self, text: &str, weight: f64, asked: &BTreeSet<String>) {
        for word in words(text).take(TOOL_WORDS_MAX) {
            self.length += 1.0;
            if asked.contains(&word) {
                *self.weights.entry(word).or_default() += weight;
            }
        }
    }

    fn score(&self, rarity: &BTreeMap<&str, f64>, mean: f64) -> f64 {
        let discount = SATURATION * (1.0 - LENGTH + LENGTH * self.length / mean.max(1.0));
        let scored = self.weights.iter().map(|(word, weight)| {
            let rare = rarity.get(word.as_str()).copied().unwrap_or_default();
            rare * weight * (SATURATION + 1.0) / (weight + discount)
        });
        scored.sum()
    }
}

/// The words of a text: what stands between spaces, signs and changes of case; of what is written without spaces, such as
/// Chinese, each pair of neighbours, and each letter of its own.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut words = Vec::new();
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        let mut word = String::new();
        let mut before: Option<char> = None;
        for c in run.chars() {
            let starts = before.is_some_and(|b| (b.is_lowercase() && c.is_uppercase()) || is_wide(b) != is_wide(c));
            if starts {
                words.push(std::mem::take(&mut word));
            }
            if is_wide(c) {
                words.push(c.to_string());
                words.extend(before.filter(|b| is_wide(*b)).map(|b| [b, c].iter().collect::<String>()));
            } else {
                word.extend(c.to_lowercase());
            }
            before = Some(c);
        }
        words.push(word);
    }
    words.into_iter().filter(|word| !word.is_empty()).map(stem).filter(|word| !EMPTY_WORDS.contains(&word.as_str()))
}

/// Chinese, Japanese and Korean letters.
fn is_wide(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// A word without its plural and its commonest endings: enough that `files` finds `file`.
fn stem(word: String) -> String {
    if !word.is_ascii() || word.len() < 4 {
        return word;
    }
    if let Some(start) = word.strip_suffix("ies") {
        return format!("{start}y");
    }
    let keeps = |ending: &str| word.strip_suffix(ending).filter(|start| start.len() >= 3).map(str::to_owned);
    let is_double = word.ends_with("ss") || word.ends_with("us");
    keeps("ing")
        .or_else(|| keeps("ed"))
        .or_else(|| keeps("s").filter(|_| !is_double))
        .map_or(word.clone(), |start| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(query: &str) -> Vec<String> {
        let tool = |name: &str, description: &str| ToolDefinition::new(name, description);
        let mut mail = tool("send_mail", "Sends a message to an address.");
        mail.tags = vec!["email".into(), "邮件".into()];
        let tools = [
            tool("read_file", "Reads a text file of the workspace, by lines."),
            tool("list_files", "Lists files and folders."),
            tool("mcp__git__commit", "Records changes to the repository."),
            tool("queryDatabase", "Asks a database in SQL."),
            tool("weather", "Says the weather of a city; 查询城市天气。"),
            mail,
        ];
        search(query, &tools, 3).into_iter().map(|tool| tool.name.clone()).collect()
    }

    #[test]
    fn words_find_tools() {
        let cases = [
            ("reading files", Some("read_file")),
            ("list the folders", Some("list_files")),
            ("database query", Some("queryDatabase")),
            ("git", Some("mcp__git__commit")),
            ("EMAIL", Some("send_mail")),
            ("发送邮件", Some("send_mail")),
            ("北京天气怎么样", Some("weather")),
            ("what is the tool for", None),
            ("", None),
            ("quaternion", None),
            ("🙂", None),
        ];
        for (query, first) in cases {
            assert_eq!(names(query).first().map(String::as_str), first, "{query}");
        }
    }

    #[test]
    fn a_word_in_a_name_counts_more_and_no_more_are_told_than_wanted() {
        let tools = [
            ToolDefinition::new("b", "Talks of a calendar."),
            ToolDefinition::new("calendar", "Talks of days."),
            ToolDefinition::new("c", "Talks of a calendar."),
        ];
        let found: Vec<&str> = search("calendar", &tools, 2).into_iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(found, ["calendar", "b"]);
    }

    #[test]
    fn a_hostile_question_costs_little() {
        let tools = [ToolDefinition::new("read_file", "x ".repeat(100_000))];
        assert!(search(&"qwertz ".repeat(100_000), &tools, 5).is_empty());
    }
}
