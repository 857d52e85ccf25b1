//! The operator's own rules: a pattern, the words that call for it, and examples that must hold before it is used.
//! A rule sees a line at a time.

use std::borrow::Cow;

use aho_corasick::AhoCorasick;
use regex::{Regex, RegexBuilder};

use super::Redactor;
use super::text::Scan;
use super::values::{entropy_bits, in_marker};

/// What a compiled pattern may take.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// A longer line is gone through in pieces, and what would be found across two of them has at most the second length.
const PIECE_BYTES: usize = 16 * 1024;
const MATCH_BYTES_MAX: usize = 1024;
const NAME_CHARS_MAX: usize = 40;

/// One of the operator's rules.
#[derive(Debug, Clone, Default)]
pub struct CustomRule {
    /// What the marker says.
    pub name: String,
    /// A regular expression of the crate `regex`. Its first group is the secret, or else the whole.
    pub pattern: String,
    /// Where a line has none of these words, in any case, the pattern is not tried. None: it is tried on every line.
    pub keywords: Vec<String>,
    /// What the secret's entropy must exceed, in bits a byte.
    pub entropy: f64,
    /// What shows that the rule does what it should.
    pub examples: Examples,
}

/// Lines that show what a rule hides.
#[derive(Debug, Clone, Default)]
pub struct Examples {
    /// In each something is hidden.
    pub hidden: Vec<String>,
    /// In none anything is.
    pub kept: Vec<String>,
}

/// What is wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RuleFault {
    /// The rule's name, as it was given.
    pub name: String,
    /// The key that says it.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
}

pub(super) struct Compiled {
    name: String,
    regex: Regex,
    keywords: Option<AhoCorasick>,
    entropy: f64,
}

impl CustomRule {
    pub(super) fn compile(&self) -> Result<Compiled, RuleFault> {
        let fault = |key: &'static str, message: String| RuleFault { name: self.name.clone(), key, message };
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        if self.name.is_empty() || self.name.len() > NAME_CHARS_MAX || !self.name.chars().all(is_plain) {
            let message = format!("a name has 1 to {NAME_CHARS_MAX} of a to z, 0 to 9, `-` and `_`");
            return Err(fault("name", message));
        }
        let regex = RegexBuilder::new(&self.pattern).size_limit(PATTERN_BYTES_MAX).build();
        let regex = regex.map_err(|error| fault("pattern", said(&error)))?;
        if regex.is_match("") {
            return Err(fault("pattern", "it matches where nothing is".into()));
        }
        let keywords = match self.keywords.as_slice() {
            [] => None,
            words if words.iter().any(String::is_empty) => {
                return Err(fault("keywords", "an empty word is in every line".into()));
            }
            words => {
                let built = AhoCorasick::builder().ascii_case_insensitive(true).build(words);
                Some(built.map_err(|error| fault("keywords", error.to_string()))?)
            }
        };
        let rule = Compiled { name: self.name.clone(), regex, keywords, entropy: self.entropy };
        if let Some(example) = self.examples.hidden.iter().find(|example| rule.found(example).is_empty()) {
            return Err(fault("match", format!("the rule hides nothing in the example `{example}`")));
        }
        if let Some(example) = self.examples.kept.iter().find(|example| !rule.found(example).is_empty()) {
            return Err(fault("not_match", format!("the rule hides something in the example `{example}`")));
        }
        Ok(rule)
    }
}

/// The last line of what the parser draws over several.
fn said(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

impl Compiled {
    /// Where the rule's secrets are, in order.
    fn found(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        let mut found = Vec::new();
        let mut line_start = 0;
        for line in text.split_inclusive('\n') {
            if self.keywords.as_ref().is_none_or(|keywords| keywords.is_match(line)) {
                self.in_line(line.trim_end_matches(['\n', '\r']), line_start, &mut found);
            }
            line_start += line.len();
        }
        let scan = Scan { text, bytes: text.as_bytes() };
        found.retain(|range| !in_marker(&scan, range.start) && !scan.slice(range.clone()).contains("[redacted"));
        found
    }

    fn in_line(&self, line: &str, line_start: usize, found: &mut Vec<std::ops::Range<usize>>) {
        let mut start = 0;
        loop {
            let end = line.floor_char_boundary(start + PIECE_BYTES);
            let piece = line.get(start..end).unwrap_or_default();
            let is_last = end == line.len();
            let mut next = if is_last { end } else { line.floor_char_boundary(end - MATCH_BYTES_MAX) };
            for groups in self.regex.captures_iter(piece) {
                let Some(whole) = groups.get(0).filter(|whole| is_last || start + whole.start() < next) else { break };
                next = next.max(start + whole.end());
                let secret = groups.get(1).unwrap_or(whole);
                if self.entropy <= 0.0 || entropy_bits(secret.as_str().as_bytes()) > self.entropy {
                    found.push(line_start + start + secret.start()..line_start + start + secret.end());
                }
            }
            if is_last {
                return;
            }
            start = next;
        }
    }
}

impl Redactor {
    /// Takes out what the operator's rules find.
    pub(super) fn custom<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for rule in &self.shared.custom {
            let found = rule.found(&clean);
            if found.is_empty() {
                continue;
            }
            let (mut hidden, mut from) = (String::with_capacity(clean.len()), 0);
            for range in found {
                hidden.push_str(clean.get(from..range.start).unwrap_or_default());
                hidden.push_str(&self.marker(&rule.name, clean.get(range.clone()).unwrap_or_default()));
                from = range.end;
            }
            hidden.push_str(clean.get(from..).unwrap_or_default());
            clean = Cow::Owned(hidden);
        }
        clean
    }
}
