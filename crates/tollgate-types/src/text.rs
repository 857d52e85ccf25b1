//! What models read of what went wrong, in every language: one table of texts. A text is put once, in English, and remembers
//! what it was made of; at its exit the gate puts it in the language of the house.

mod flaw;
mod next;
mod table;

use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use flaw::Flaw;
pub use next::MAY_HAVE_HAPPENED;
pub use table::Text;

use crate::{ErrorObject, Violation};

/// What stands in a parameter until the language is known: between alternatives, and around what was probably meant.
const OR: char = '\u{1f}';
const MEANT: char = '\u{1e}';
const MEANT_END: char = '\u{1d}';

/// A language in which models are spoken to. Codes, fields and JSON Pointers are the same in each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Chinese, simplified.
    Zh,
}

impl Language {
    /// Every language.
    pub const ALL: [Self; 2] = [Self::En, Self::Zh];

    /// What stands for the marks of a parameter.
    fn marks(self) -> [(char, &'static str); 3] {
        match self {
            Self::En => [(OR, " or "), (MEANT, " (did you mean "), (MEANT_END, "?)")],
            Self::Zh => [(OR, " 或 "), (MEANT, "（是否想用 "), (MEANT_END, "？）")],
        }
    }
}

/// What a text was made of, if it is one of the table. How it was put makes no two errors differ, so that any two of these are
/// equal.
#[derive(Debug, Clone)]
pub struct Made<T>(Option<Box<Making<T>>>);

#[derive(Debug, Clone)]
struct Making<T> {
    of: T,
    parameters: Vec<(&'static str, String)>,
}

impl<T> Default for Made<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> PartialEq for Made<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The parameters of a text, by the names that stand in its template.
pub type Parameters<'a> = &'a [(&'static str, &'a dyn Display)];

impl<T> Made<T> {
    fn new(of: T, parameters: Parameters<'_>) -> Self {
        let parameters = parameters.iter().map(|(name, value)| (*name, value.to_string())).collect();
        Self(Some(Box::new(Making { of, parameters })))
    }

    fn clean(&mut self, clean: &impl Fn(&str) -> String) {
        // The marks are ours, what stands between them may be anybody's.
        let between = |piece: &str| match piece.chars().next_back() {
            Some(mark @ (OR | MEANT | MEANT_END)) => format!("{}{mark}", clean(piece.trim_end_matches(mark))),
            _ => clean(piece),
        };
        let parameters = self.0.iter_mut().flat_map(|making| &mut making.parameters);
        parameters.for_each(|(_, value)| *value = value.split_inclusive([OR, MEANT, MEANT_END]).map(between).collect());
    }
}

/// Alternatives as one parameter: `` `a` or `b` ``.
pub fn alternatives<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let mut text = String::new();
    for name in names {
        if !text.is_empty() {
            text.push(OR);
        }
        text.push_str(&format!("`{}`", name.as_ref()));
    }
    text
}

/// A name that is not there, and the one that was probably meant: `` `ofset` (did you mean `offset`?) ``.
pub fn meant(name: &str, near: &str) -> String {
    format!("`{name}`{MEANT}`{near}`{MEANT_END}")
}

impl Text {
    /// The error that this text is about. Its parameters are for the model's eyes: nothing of our own inside belongs there.
    ///
    /// ```
    /// use tollgate_types::{Language, Text};
    ///
    /// let mut error = Text::UnknownTool.error(&[("name", &"raed_file")]);
    /// assert_eq!(error.message, "no tool is named `raed_file`");
    /// error.put_in(Language::Zh);
    /// assert_eq!(error.message, "没有名为 `raed_file` 的工具");
    /// ```
    pub fn error(self, parameters: Parameters<'_>) -> ErrorObject {
        let mut error = ErrorObject::new(self.code(), "");
        error.made = Made::new(self, parameters);
        error.render(Language::En);
        error
    }
}

impl Flaw {
    /// The violation at a JSON Pointer that this text is about.
    pub fn at(self, path: impl Into<String>, parameters: Parameters<'_>) -> Violation {
        let mut violation = Violation::new(path, "");
        violation.made = Made::new(self, parameters);
        violation.put_in(Language::En);
        violation
    }
}

impl Violation {
    fn put_in(&mut self, language: Language) {
        if let Some(making) = &self.made.0 {
            self.message = fill(making.of.template(language), &making.parameters, language);
        }
    }

    /// The place and what is wrong there.
    fn in_short(&self) -> String {
        match self.path.as_str() {
            "" => self.message.clone(),
            path => format!("{path}: {}", self.message),
        }
    }
}

impl ErrorObject {
    /// Puts the error in a language, and says what to do next where nobody did. What a tool said in its own words stays as it
    /// said it, behind what its code means.
    pub fn put_in(&mut self, language: Language) {
        match (language, &self.made.0) {
            // That is how it was made, and a stage may have had a better hint.
            (Language::En, _) => {}
            (Language::Zh, Some(_)) => self.render(language),
            (Language::Zh, None) => {
                self.details.iter_mut().for_each(|detail| detail.put_in(language));
                self.message = format!("{}：{}", next::lead(self.error), self.message);
                let given = self.hint.as_deref().and_then(next::given);
                self.hint = given.map(str::to_owned).or(self.hint.take());
            }
        }
        if self.hint.is_none() {
            self.hint = Some(next::step(self.error, language).to_owned());
        }
    }

    /// Makes message, hint and details of their templates.
    pub(crate) fn render(&mut self, language: Language) {
        self.details.iter_mut().for_each(|detail| detail.put_in(language));
        let Some(making) = &self.made.0 else { return };
        let (message, hint) = making.of.templates(language);
        let mut parameters = making.parameters.clone();
        // The first detail stands in the message too.
        parameters.extend(self.details.first().map(|first| ("first", first.in_short())));
        self.message = fill(message, &parameters, language);
        self.hint = Some(fill(hint, &parameters, language));
    }

    /// Takes out of its parameters what `clean` takes out of texts.
    pub fn clean(&mut self, clean: impl Fn(&str) -> String) {
        self.made.clean(&clean);
        self.details.iter_mut().for_each(|detail| detail.made.clean(&clean));
    }
}

/// A template with its parameters in their places. What a parameter holds is never read as a place.
fn fill(template: &str, parameters: &[(&'static str, String)], language: Language) -> String {
    let mut filled = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            filled.push('{');
            rest = after;
            continue;
        };
        match parameters.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => {
                let marked = |text: String, (mark, words): (char, &str)| text.replace(mark, words);
                filled.push_str(&language.marks().into_iter().fold(value.clone(), marked));
            }
            None => filled.push_str(&format!("{{{name}}}")),
        }
        rest = behind;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests;
