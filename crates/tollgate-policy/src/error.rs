//! What can be wrong with a policy, found when it is built or a tool is registered, never when a call is judged.

use thiserror::Error;

/// Why a policy, or a tool's own rules, can not be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A role has no usable name.
    #[error("`{role}` is not a role name")]
    RoleName {
        /// The name as given.
        role: String,
    },
    /// Two roles have one name.
    #[error("the role `{role}` is defined twice")]
    DuplicateRole {
        /// The name.
        role: String,
    },
    /// A role inherits from one that is not there.
    #[error("the role `{parent}` does not exist (`{chain}`)")]
    UnknownParent {
        /// The missing role.
        parent: String,
        /// The way to it, such as `a -> b -> missing`.
        chain: String,
    },
    /// A role inherits from itself.
    #[error("roles inherit in a circle (`{chain}`)")]
    Cycle {
        /// The circle, such as `a -> b -> a`.
        chain: String,
    },
    /// A role grants nothing.
    #[error("the role `{role}` names no tools")]
    NoTools {
        /// The role.
        role: String,
    },
    /// A role has more globs than are looked at.
    #[error("the role `{role}` has more than {globs_max} globs")]
    TooManyGlobs {
        /// The role.
        role: String,
        /// The limit.
        globs_max: usize,
    },
    /// A role's glob can not be read.
    #[error("the role `{role}` has a glob that can not be read: `{glob}` ({problem})")]
    BadGlob {
        /// The role.
        role: String,
        /// The glob.
        glob: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A tool's glob in `security.allowed_paths` can not be read.
    #[error("the tool `{tool}` has an allowed path that can not be read: `{glob}` ({problem})")]
    BadPath {
        /// The tool.
        tool: String,
        /// The glob.
        glob: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A tool's expression in `security.blocked_patterns` can not be read.
    #[error("the tool `{tool}` has a blocked pattern that can not be read: `{pattern}` ({problem})")]
    BadPattern {
        /// The tool.
        tool: String,
        /// The expression.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl PolicyError {
    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::RoleName { .. } => "give every role a name of 1 to 64 letters, digits, `_`, `-` or `.`",
            Self::DuplicateRole { .. } => "keep one of the two, or let one inherit from the other under another name",
            Self::UnknownParent { .. } => "define that role, or inherit from `reader` or `developer`",
            Self::Cycle { .. } => "remove one `inherits` of the circle",
            Self::NoTools { .. } => "add `tools = [\"*\"]` for all, or globs such as `read_*`",
            Self::TooManyGlobs { .. } => "join globs with `*` or `{a,b}`",
            Self::BadGlob { .. } | Self::BadPath { .. } => "use `*`, `?`, `[a-z]` and `{a,b}`",
            Self::BadPattern { .. } => "use the syntax of RE2: no look-around, no back-references",
        }
    }
}
