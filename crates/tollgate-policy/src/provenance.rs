//! Where an argument's value comes from: searched for, word for word, in what the user and the operator wrote and in
//! what tools returned. A pure function of texts; who remembers them, and for how long, is the gate's business.
//!
//! It errs on the side of «nobody said this»: a value that is paraphrased, too short to mean anything, or part of a
//! longer word counts as the model's own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is kept of one text, in bytes after normalising.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// The longest value that is searched for, in bytes after normalising.
const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Elements of a list that are searched for.
const PARTS_MAX: usize = 256;
/// How much a value must weigh for its being found to mean anything: three letters, two Chinese characters or five
/// digits. «13» stands in many a text.
const WEIGHT_MIN: usize = 5;
/// Digits of a number as it is written where it is found: «10.00» and «1200», not «10».
const DIGITS_MIN: usize = 3;

/// Where a value, or one element of a list, comes from. Of several the first that fits counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The user wrote it in this session.
    User,
    /// The operator did.
    Operator,
    /// It stands in the result of a tool that brings content from outside, or may have stood in one that was forgotten.
    Outside,
    /// It stands in the result of another tool.
    Tool,
    /// Nobody is known to have said it.
    Model,
}

impl Origin {
    /// The name in rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Operator => "operator",
            Self::Outside => "outside",
            Self::Tool => "tool",
            Self::Model => "model",
        }
    }
}

/// A text, made ready to be searched: letter case, white space and full-width forms do not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    text: Arc<str>,
    /// The numbers in it, in the form of [`number_of`] and in order.
    numbers: Arc<[String]>,
}

impl Heard {
    /// Reads a text; of a long one only the beginning, and then [`Heard::is_whole`] is false.
    pub fn new(text: &str) -> Self {
        Self::of(normal(text, TEXT_BYTES_MAX + 1))
    }

    fn of(text: String) -> Self {
        let found: BTreeSet<String> = numbers(&text).collect();
        Self { numbers: found.into_iter().collect(), text: text.into() }
    }

    /// Reads a value: its texts, numbers and keys. What JSON escapes is no part of them.
    pub fn json(value: &Value) -> Self {
        let mut text = String::new();
        spell(value, &mut text);
        Self::new(&text)
    }

    /// Whether nothing was cut off.
    pub fn is_whole(&self) -> bool {
        self.text.len() <= TEXT_BYTES_MAX
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The same text without what it only repeats of `arguments`: a tool that echoes what it was asked vouches for
    /// nothing.
    #[must_use]
    pub fn without_echo(&self, arguments: &Value) -> Self {
        let mut said = Vec::new();
        leaves(arguments, &mut said);
        let mut text = self.text.to_string();
        for value in said {
            text = text.replace(&value, "\u{0}");
        }
        Self::of(text)
    }
}

/// The texts of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    /// What the user wrote.
    pub user: Vec<Heard>,
    /// What the operator wrote.
    pub operator: Vec<Heard>,
    /// Results of tools that bring content from outside.
    pub outside: Vec<Heard>,
    /// Results of other tools.
    pub tool: Vec<Heard>,
    /// Whether results were forgotten. What is found nowhere then counts as from outside.
    pub is_partial: bool,
}

/// What is known of where values come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Provenance<'a> {
    /// Nothing: every value counts as the model's.
    #[default]
    Unknown,
    /// The texts of the session.
    Heard(&'a Origins),
    /// The answer itself, by the argument's name in rules, as examples give it.
    Given(&'a BTreeMap<String, BTreeSet<Origin>>),
}

impl Provenance<'_> {
    /// Where the value of a declared argument comes from: one origin, or for a list those of its elements.
    pub(crate) fn of(self, name: &str, value: &Value) -> BTreeSet<Origin> {
        let model = BTreeSet::from([Origin::Model]);
        match self {
            Self::Unknown => Origins::default().of(value),
            Self::Heard(origins) => origins.of(value),
            Self::Given(given) => given.get(name).cloned().unwrap_or(model),
        }
    }
}

impl Origins {
    /// Where a value comes from. An empty list comes from nowhere: the set is empty, and no rule finds fault with it.
    pub fn of(&self, value: &Value) -> BTreeSet<Origin> {
        match value {
            Value::Array(parts) if parts.len() > PARTS_MAX => BTreeSet::from([self.unheard()]),
            Value::Array(parts) => parts.iter().map(|part| self.of_one(part)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                BTreeSet::from([self.of_one(value)])
            }
        }
    }

    fn of_one(&self, value: &Value) -> Origin {
        let wanted = match value {
            Value::String(text) => Wanted::text(text),
            Value::Number(number) => number_of(&number.to_string()).map(Wanted::Number),
            // True is true, whoever says so.
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let Some(wanted) = wanted else { return self.unheard() };
        let said = [
            (&self.user, Origin::User),
            (&self.operator, Origin::Operator),
            (&self.outside, Origin::Outside),
            (&self.tool, Origin::Tool),
        ];
        let found = said.into_iter().find(|(texts, _)| texts.iter().any(|text| wanted.is_in(text)));
        found.map_or(self.unheard(), |(_, origin)| origin)
    }

    fn unheard(&self) -> Origin {
        if self.is_partial { Origin::Outside } else { Origin::Model }
    }
}

/// What is searched for.
enum Wanted {
    Text(String),
    /// In the form of [`number_of`].
    Number(String),
}

impl Wanted {
    fn text(text: &str) -> Option<Self> {
        if text.len() > VALUE_BYTES_MAX {
            return None;
        }
        let text = normal(text, VALUE_BYTES_MAX);
        (text.chars().map(weight).sum::<usize>() >= WEIGHT_MIN).then_some(Self::Text(text))
    }

    fn is_in(&self, heard: &Heard) -> bool {
        let text = &heard.text;
        match self {
            Self::Text(wanted) => text.match_indices(wanted.as_str()).any(|(at, _)| {
                let before = text.get(..at).unwrap_or_default();
                let after = text.get(at + wanted.len()..).unwrap_or_default();
                !goes_on(before.chars().rev(), wanted.chars().next(), false)
                    && !goes_on(after.chars(), wanted.chars().next_back(), true)
            }),
            Self::Number(wanted) => heard.numbers.binary_search(wanted).is_ok(),
        }
    }
}

/// Letters and digits as they are compared: lower case, single spaces, full-width forms as plain ones.
fn normal(text: &str, bytes_max: usize) -> String {
    let mut normal = String::with_capacity(text.len().min(bytes_max));
    let mut is_space = true;
    for c in text.chars() {
        if normal.len() >= bytes_max {
            break;
        }
        let c = match c {
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
            c => c,
        };
        if c.is_whitespace() {
            if !is_space {
                normal.push(' ');
            }
            is_space = true;
        } else if c.is_ascii() {
            normal.push(c.to_ascii_lowercase());
            is_space = false;
        } else {
            normal.extend(c.to_lowercase());
            is_space = false;
        }
    }
    normal.truncate(normal.trim_end().len());
    normal
}

fn weight(c: char) -> usize {
    match c {
        c if is_ideograph(c) => 3,
        c if c.is_alphabetic() => 2,
        c => usize::from(c.is_numeric()),
    }
}

/// Characters of scripts that put no spaces between words.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c), 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() && !is_ideograph(c)
}

/// Whether a word goes on beyond the edge of what was found: `evil.com` stands neither in `notevil.com` nor in
/// `evil.com.example` nor in `a@evil.com`.
fn goes_on(mut beyond: impl Iterator<Item = char>, edge: Option<char>, is_after: bool) -> bool {
    let Some(next) = beyond.next() else { return false };
    if is_word(next) {
        return edge.is_some_and(is_word);
    }
    let joins = "._-@+/\\&=%#~".contains(next) || (is_after && next == ':');
    joins && edge.is_some_and(|edge| !edge.is_whitespace()) && beyond.next().is_some_and(is_word)
}

/// A number as its value says it: `4`, `4.0` and `4e0` are one.
fn number_of(text: &str) -> Option<String> {
    if let Ok(whole) = text.parse::<i128>() {
        return Some(whole.to_string());
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number.to_string())
}

/// The numbers that stand in a text by themselves, with enough digits to mean something.
fn numbers(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !(is_word(c) || "._,:/-@".contains(c))).filter_map(|word| {
        let word = word.trim_end_matches(['.', ',', ':', '-', '/']);
        let (sign, digits) = word.strip_prefix('-').map_or(("", word), |digits| ("-", digits));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let groups: Vec<&str> = whole.split(',').collect();
        let is_grouped = groups.iter().skip(1).all(|group| group.len() == 3);
        let is_number = is_grouped
            && groups
                .iter()
                .chain([&fraction])
                .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        let count = digits.bytes().filter(u8::is_ascii_digit).count();
        if !is_number || count < DIGITS_MIN {
            return None;
        }
        number_of(&format!("{sign}{}.{fraction}", groups.concat()))
    })
}

/// Every text, number and key of a value, a line each.
fn spell(value: &Value, text: &mut String) {
    match value {
        Value::String(words) => text.push_str(words),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| spell(item, text)),
        Value::Object(map) => map.iter().for_each(|(key, item)| {
            text.push_str(key);
            text.push('\n');
            spell(item, text);
        }),
        Value::Null | Value::Bool(_) => {}
    }
    text.push('\n');
}

/// The texts and numbers of a value that are long enough to be found.
fn leaves(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let text = normal(text, TEXT_BYTES_MAX);
            if text.chars().map(weight).sum::<usize>() >= WEIGHT_MIN {
                found.push(text);
            }
        }
        Value::Number(number) => {
            let text = number.to_string();
            if text.bytes().filter(u8::is_ascii_digit).count() >= DIGITS_MIN {
                found.push(text);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| leaves(item, found)),
        Value::Object(map) => map.values().for_each(|item| leaves(item, found)),
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests;
