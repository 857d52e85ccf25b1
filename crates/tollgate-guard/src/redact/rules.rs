//! Rules that know a secret by its form: those of gitleaks and our own, as tables, and one search for all the words that
//! call for a rule or name a secret. A rule's pattern is compiled when its word first stands in a text.
//!
//! A line of a table has five columns: the rule's name; how it is looked for (below); the words that call for it, in any
//! case; the entropy that its secret must exceed, in bits a byte; the pattern, whose first group is the secret.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{Regex, RegexBuilder};

const TABLES: [&str; 2] = [include_str!("rules/gitleaks.tsv"), include_str!("rules/own.tsv")];
/// What a compiled pattern may take. The tables' need a tenth of it.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// How far behind a word the next one's secret was seen with its own: a part of what `values` looks at behind it.
const NEAR_BYTES: usize = 90;
/// What a pattern may remember of its searches.
const SEARCH_BYTES_MAX: usize = 128 * 1024;

/// Up to where the surroundings of a word were searched for the secret of a rule, by its name.
pub(super) type Searched = BTreeMap<&'static str, usize>;

/// Where a rule's secret stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// `assigned`: behind a separator after the word, as in `datadog_key = …`.
    Assigned,
    /// `begins`: the pattern begins where the word does.
    Begins,
    /// `word`: the same, where nothing is joined to it.
    Word,
    /// `near`: somewhere around the word.
    Near,
}

/// One rule.
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) how: How,
    /// `exact`: what goes on behind the match is no secret of this kind.
    pub(super) is_exact: bool,
    /// `digit`: without one it is a word.
    pub(super) needs_digit: bool,
    pub(super) entropy_min: f64,
    pattern: &'static str,
    regex: OnceLock<Option<Regex>>,
}

impl Rule {
    fn read(line: &'static str) -> Option<(Self, &'static str)> {
        let mut columns = line.split('\t');
        let (name, how, words) = (columns.next()?, columns.next()?, columns.next()?);
        let (entropy, pattern) = (columns.next()?, columns.next()?);
        let mut flags = how.split(',');
        let how = match flags.next()? {
            "assigned" => How::Assigned,
            "begins" => How::Begins,
            "word" => How::Word,
            _ => How::Near,
        };
        let (mut is_exact, mut needs_digit) = (how == How::Assigned, how == How::Assigned);
        for flag in flags {
            is_exact |= flag == "exact";
            needs_digit |= flag == "digit";
        }
        let entropy_min = entropy.parse().ok()?;
        Some((Self { name, how, is_exact, needs_digit, entropy_min, pattern, regex: OnceLock::new() }, words))
    }

    /// Whether there is anything to search at a word: what stands near to it was often near to the one before.
    pub(super) fn is_due(&self, word: &Range<usize>, searched: &mut Searched) -> bool {
        if self.how != How::Near {
            return true;
        }
        let until = searched.entry(self.name).or_default();
        let is_due = word.start >= *until;
        if is_due {
            *until = word.end + NEAR_BYTES;
        }
        is_due
    }

    /// The pattern; none of the tables is refused, which a test says.
    pub(super) fn regex(&self) -> Option<&Regex> {
        let compile = || match self.how {
            How::Near => compiled(self.pattern).ok(),
            How::Assigned | How::Begins | How::Word => compiled(&format!(r"\A(?:{})", self.pattern)).ok(),
        };
        self.regex.get_or_init(compile).as_ref()
    }
}

/// Compiles a pattern as Go's RE2 understands it: classes and cases are those of ASCII.
pub(super) fn compiled(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).unicode(false).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(SEARCH_BYTES_MAX).build()
}

/// Where a text has one of the words.
pub(super) struct Hit {
    pub(super) range: Range<usize>,
    pub(super) word: Word,
}

/// What a word calls for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// A part of a name, or the beginning of a form: a place in the list of stems.
    Stem(usize),
    /// Rules: a place in `called`.
    Rules(usize),
}

/// All words in one search.
pub(super) struct Finder {
    automaton: AhoCorasick,
    stems: usize,
    called: Vec<Vec<usize>>,
    rules: Vec<Rule>,
}

impl Finder {
    /// A search for `stems` and the words of the tables, all in lower case.
    pub(super) fn new(stems: &[&str]) -> Option<Self> {
        let mut rules = Vec::new();
        let mut by_word: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let lines = TABLES.iter().flat_map(|table| table.lines()).filter(|line| !line.starts_with('#'));
        for (rule, words) in lines.filter_map(Rule::read) {
            words.split(' ').for_each(|word| by_word.entry(word).or_default().push(rules.len()));
            rules.push(rule);
        }
        let words = stems.iter().copied().chain(by_word.keys().copied());
        let automaton = AhoCorasick::builder().prefilter(false).kind(Some(AhoCorasickKind::DFA)).build(words).ok()?;
        Some(Self { automaton, stems: stems.len(), called: by_word.into_values().collect(), rules })
    }

    /// Every word that stands in the text, by where it begins.
    pub(super) fn hits(&self, text: &str) -> Vec<Hit> {
        // An automaton that knows both cases would be twice as large.
        let lower = match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(text.to_ascii_lowercase()),
            false => Cow::Borrowed(text),
        };
        let hit = |found: aho_corasick::Match| {
            let at = found.pattern().as_usize();
            let word = at.checked_sub(self.stems).map_or(Word::Stem(at), Word::Rules);
            Hit { range: found.range(), word }
        };
        let mut hits: Vec<Hit> = self.automaton.find_overlapping_iter(lower.as_bytes()).map(hit).collect();
        hits.sort_by_key(|hit| hit.range.start);
        hits
    }

    /// The rules that a word calls for.
    pub(super) fn called(&self, word: usize) -> impl Iterator<Item = &Rule> {
        self.called.get(word).into_iter().flatten().filter_map(|rule| self.rules.get(*rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_tables_is_read_and_compiles() {
        let lines: Vec<&str> = TABLES.iter().flat_map(|table| table.lines()).filter(|l| !l.starts_with('#')).collect();
        let finder = Finder::new(&[]).unwrap();
        assert_eq!(finder.rules.len(), lines.len());
        assert!(lines.len() > 230, "{}", lines.len());
        for rule in &finder.rules {
            assert!(rule.regex().is_some(), "{}", rule.name);
            assert!(!rule.regex().unwrap().is_match(b""), "{}", rule.name);
        }
        assert!(finder.automaton.memory_usage() < 400 * 1024, "{}", finder.automaton.memory_usage());
    }
}
