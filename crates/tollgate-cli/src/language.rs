//! The language in which people are told something: what they say on the command line, else that of their locale. Machine
//! output, errors and records have one language.

use clap::ValueEnum;

/// A language that something is told in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// English
    En,
    /// 中文
    Zh,
}

impl Language {
    /// The language of the locale; English for any that is not Chinese.
    pub(crate) fn of_locale() -> Self {
        let set = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
        // The order is that of POSIX: the first that is set decides.
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].iter().find_map(set);
        if locale.is_some_and(|locale| locale.starts_with("zh")) { Self::Zh } else { Self::En }
    }
}
